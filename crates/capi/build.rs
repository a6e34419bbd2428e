//! Names the shared library in itself, so that programs look for it by that name and not by the path they were linked with.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libhopbyte.so");
    }
}
