//! A scenario in virtual time.
