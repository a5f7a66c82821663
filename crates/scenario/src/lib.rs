//! The typed experiment: units, defaults, errors with line and column.
