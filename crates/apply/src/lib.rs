//! hopbyte apply.
