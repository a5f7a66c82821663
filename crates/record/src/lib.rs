//! What happened: tables, metrics, exports.
