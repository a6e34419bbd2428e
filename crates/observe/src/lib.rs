//! hopbyte observe.
