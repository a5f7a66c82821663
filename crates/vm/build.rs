//! Compiles the guest's program: static, without dependencies, so that it needs nothing in the guest.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=guest");
    println!("cargo::rerun-if-changed=src/wire.rs");
    let variable = |name: &str| env::var_os(name).unwrap_or_default();
    let program = PathBuf::from(variable("OUT_DIR")).join("guest");
    // The machine is a PC: elsewhere there is no backend, and nothing to compile.
    if variable("CARGO_CFG_TARGET_OS") != "linux" || variable("CARGO_CFG_TARGET_ARCH") != "x86_64" {
        std::fs::write(program, []).expect("the output directory can be written");
        return;
    }
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let status = Command::new(variable("RUSTC"))
        .args([
            "--edition",
            "2024",
            "--crate-name",
            "guest",
            "-Copt-level=2",
            "-Cpanic=abort",
        ])
        .args([
            "-Cstrip=symbols",
            "-Ctarget-feature=+crt-static",
            "-Dwarnings",
        ])
        // The same program wherever it is compiled: snapshots are called by its content.
        .arg(format!("--remap-path-prefix={}=guest", root.display()))
        .arg(root.join("guest/main.rs"))
        .arg("-o")
        .arg(program)
        .status()
        .expect("the compiler runs");
    assert!(status.success(), "the guest's program does not compile");
}
