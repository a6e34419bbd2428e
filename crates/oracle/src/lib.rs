//! hopbyte oracle.
