//! The public interface of the crates that others use: every public item with its type, in
//! `api.txt` of each crate. A change has to be made on purpose, and is visible in review.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use public_api::Builder;

/// The crates that others use.
const PUBLIC: [&str; 5] = ["units", "congestion", "recovery", "path", "endpoint"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Lets rustdoc describe the crates, each with all its features, from what is checked already. Returns the output folder.
fn describe() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
    let packages = PUBLIC.map(|name| format!("--package=paceline-{name}"));
    let output = Command::new(env!("CARGO"))
        .current_dir(root())
        .args(["doc", "--quiet", "--no-deps", "--all-features"])
        .args(packages)
        .arg("--target-dir")
        .arg(&target)
        .env("RUSTDOC", root().join(".ci/rustdoc"))
        .env(
            "RUSTDOCFLAGS",
            "-Zunstable-options --output-format=json --cap-lints=allow",
        )
        .output()
        .expect("cargo doc");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    target.join("doc")
}

/// Every public item of a crate, one a line; none if this toolchain's output is in a version that
/// `public-api` does not read.
fn listing(described: &Path, name: &str) -> Option<String> {
    let file = described.join(format!("paceline_{name}.json"));
    let items = |derived: bool| {
        let all = Builder::from_rustdoc_json(&file)
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(!derived)
            .omit_auto_derived_impls(!derived)
            .build();
        let lines = all.ok()?.into_items().map(|item| item.to_string());
        Some(lines.collect::<Vec<_>>())
    };
    let written: HashSet<String> = items(false)?.into_iter().collect();
    // Of derived traits (`Clone`) and auto traits (`Send`) only the presence is listed.
    let kept = |line: &String| line.starts_with("impl ") || written.contains(line);
    let lines = items(true)?.into_iter().filter(kept);
    Some(lines.map(|line| line + "\n").collect())
}

/// The lines of `one` that are not in `other`.
fn beyond<'a>(one: &'a str, other: &str) -> Vec<&'a str> {
    let other: HashSet<&str> = other.lines().collect();
    one.lines().filter(|line| !other.contains(line)).collect()
}

#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn public_items_are_those_that_are_listed() {
    let described = describe();
    let mut changed = Vec::new();
    for name in PUBLIC {
        let Some(found) = listing(&described, name) else {
            let why = "this toolchain's rustdoc writes JSON that public-api does not read";
            assert!(env::var_os("PACELINE_FULL").is_none(), "{why}");
            return eprintln!("note: {why}: public items are not compared");
        };
        let file = root().join("crates").join(name).join("api.txt");
        if env::var_os("PACELINE_WRITE").is_some() {
            fs::write(&file, &found).expect("a folder that can be written");
        }
        let listed = fs::read_to_string(&file).unwrap_or_default();
        let (gone, new) = (beyond(&listed, &found), beyond(&found, &listed));
        if listed != found {
            changed.push(format!(
                "paceline-{name}\n  gone: {gone:#?}\n  new: {new:#?}"
            ));
        }
    }
    assert!(
        changed.is_empty(),
        "{}\nWhat is gone or differs breaks users: it needs a new minor version while the major one is 0, a new major \
         one later. If it is meant: PACELINE_WRITE=1 cargo test -p paceline-units --test api",
        changed.join("\n")
    );
}
