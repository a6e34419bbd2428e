//! hopbyte map.
