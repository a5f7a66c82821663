//! Its clock and random bytes are its own library's, and not those that its host has under the same names.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
}
