//! hopbyte fabric.
