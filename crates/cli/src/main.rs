//! The `hopbyte` command.

fn main() {}
