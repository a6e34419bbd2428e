//! hopbyte model.
