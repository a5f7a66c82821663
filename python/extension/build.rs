//! Sets `PACELINE_BUILD`: a hash of all sources that determine the bytes of a run, the same on
//! every machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// FNV-1a.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

fn main() -> io::Result<()> {
    let folders = ["../../crates", "../../lab", "../../linux", "."].map(Path::new);
    let mut files = Vec::new();
    for folder in folders {
        collect(folder, &mut files)?;
    }
    files.sort();
    // The versions of dependencies; a source package may lack the lock file.
    let lock = Path::new("../../Cargo.lock");
    files.extend(lock.exists().then(|| lock.into()));
    let mut hash = BASIS;
    for file in files {
        let name = file.to_string_lossy().into_owned().into_bytes();
        for byte in name.into_iter().chain(fs::read(&file)?) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
    }
    for folder in folders {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    println!("cargo::rerun-if-changed={}", lock.display());
    println!("cargo::rustc-env=PACELINE_BUILD={hash:016x}");
    Ok(())
}

/// The Rust sources and manifests below a folder, except tests and benchmarks.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !["tests", "benches", "examples", "target"].contains(&name.as_ref()) {
                collect(&path, files)?;
            }
        } else if name == "Cargo.toml" || (name.ends_with(".rs") && name != "tests.rs") {
            files.push(path);
        }
    }
    Ok(())
}
