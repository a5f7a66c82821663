//! Compiles the guest's programs. The one that runs the flows is static, without dependencies, so
//! that it needs nothing in the guest; the one that loads a controller is linked to the C library,
//! which opens libbpf for it.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=guest");
    println!("cargo::rerun-if-changed=src/wire.rs");
    let variable = |name: &str| env::var_os(name).unwrap_or_default();
    let [program, load] =
        ["guest", "load"].map(|name| PathBuf::from(variable("OUT_DIR")).join(name));
    // The machine is a PC: on other platforms there is no backend, and nothing to compile.
    if variable("CARGO_CFG_TARGET_OS") != "linux" || variable("CARGO_CFG_TARGET_ARCH") != "x86_64" {
        for program in [program, load] {
            std::fs::write(program, []).expect("the output directory can be written");
        }
        return;
    }
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let programs = [
        ("guest", "main.rs", "-Ctarget-feature=+crt-static", program),
        ("load", "load.rs", "-lc", load),
    ];
    for (name, source, linked, program) in programs {
        let status = Command::new(variable("RUSTC"))
            .args(["--edition", "2024", "--crate-name", name])
            .args([
                "-Copt-level=2",
                "-Cpanic=abort",
                "-Cstrip=symbols",
                "-Dwarnings",
            ])
            .arg(linked)
            // The program is identical wherever it is compiled: snapshots are named by its content.
            .arg(format!("--remap-path-prefix={}=guest", root.display()))
            .arg(root.join("guest").join(source))
            .arg("-o")
            .arg(program)
            .status()
            .expect("the compiler runs");
        assert!(
            status.success(),
            "the guest's program {name} does not compile"
        );
    }
}
