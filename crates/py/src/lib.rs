//! `hopbyte._core`: the Python face, thin.
