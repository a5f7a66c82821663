//! The allowed dependencies among crates and among the files of a crate.

mod circles;
mod rust;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, process::Command};

use circles::{Graph, circles};
use rust::{Sources, files};

/// The crates that each crate may use; the engines do not use each other.
const MAY_USE: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("congestion", &["units"]),
    ("path", &["units"]),
    ("scenario", &["units"]),
    ("record", &["units"]),
    ("endpoint", &["units"]),
    ("recovery", &["units", "congestion", "endpoint"]),
    ("conformance", &["units", "congestion", "recovery"]),
    ("adapter", &["units", "congestion"]),
    ("quinn", &["units", "congestion", "adapter"]),
    ("noq", &["units", "congestion", "adapter"]),
    (
        "quic",
        &[
            "units",
            "congestion",
            "endpoint",
            "recovery",
            "adapter",
            "noq",
            "quinn",
        ],
    ),
    (
        "perf",
        &[
            "units",
            "congestion",
            "endpoint",
            "recovery",
            "record",
            "quic",
        ],
    ),
    ("capture", &["units", "record", "recovery"]),
    ("experiment", LIBRARIES),
    ("simulator", ENGINE),
    ("emulator", EMULATOR),
    ("vm", VM),
    ("capi", &["units", "congestion", "endpoint", "recovery"]),
    ("plugin", &["units", "congestion", "endpoint", "capi"]),
    ("python", BINDINGS),
    ("soak", SOAK),
    (
        "wasm",
        &[
            "congestion",
            "experiment",
            "record",
            "scenario",
            "simulator",
            "units",
        ],
    ),
];
const LIBRARIES: &[&str] = &[
    "quic",
    "endpoint",
    "units",
    "congestion",
    "path",
    "scenario",
    "record",
    "recovery",
];
const ENGINE: &[&str] = &[
    "quic",
    "units",
    "congestion",
    "path",
    "scenario",
    "record",
    "recovery",
    "endpoint",
    "experiment",
];
const EMULATOR: &[&str] = &[
    "capture",
    "quic",
    "endpoint",
    "units",
    "congestion",
    "path",
    "scenario",
    "record",
    "recovery",
    "experiment",
    "conformance",
];
/// The machine shares the emulator's knowledge of Linux: what it requires of a kernel, and how a
/// kernel describes itself.
const VM: &[&str] = &[
    "capture",
    "units",
    "path",
    "scenario",
    "record",
    "recovery",
    "experiment",
    "emulator",
];
const SOAK: &[&str] = &[
    "capture",
    "units",
    "congestion",
    "path",
    "scenario",
    "record",
    "recovery",
    "conformance",
    "experiment",
    "simulator",
    "emulator",
];
const BINDINGS: &[&str] = &[
    "capture",
    "units",
    "congestion",
    "scenario",
    "record",
    "recovery",
    "experiment",
    "conformance",
    "simulator",
    "emulator",
    "perf",
    "vm",
    "plugin",
];

/// Cycles still to be removed. The list may only become shorter.
const KNOWN: &[(&str, &[&[&str]])] = &[];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder of each crate.
fn folders() -> BTreeMap<String, PathBuf> {
    packages()
        .iter()
        .filter_map(|package| {
            let manifest = Path::new(package["manifest_path"].as_str()?);
            Some((own(&package["name"])?, manifest.parent()?.to_path_buf()))
        })
        .collect()
}

/// The external dependencies of the crates that others use, without tests. A public type can come
/// from nowhere else.
const PUBLIC: &[(&str, &[&str])] = &[
    ("units", &["libm", "schemars", "serde", "serde_json"]),
    ("congestion", &[]),
    ("endpoint", &["quinn-udp", "rustix"]),
    ("recovery", &[]),
    ("path", &["thiserror"]),
    ("adapter", &[]),
    ("quinn", &["quinn", "quinn-proto"]),
    ("noq", &["noq-proto"]),
];

/// The packages of the workspace, as cargo lists them.
fn packages() -> Vec<serde_json::Value> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(root())
        .output()
        .expect("cargo metadata");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    metadata["packages"].as_array().expect("packages").clone()
}

/// The names of a package's dependencies, except those of tests.
fn needs(package: &serde_json::Value) -> impl Iterator<Item = &serde_json::Value> {
    let all = package["dependencies"].as_array().expect("dependencies");
    all.iter()
        .filter(|one| one["kind"] != "dev")
        .map(|one| &one["name"])
}

/// Each crate with the crates of the workspace that it depends on, tests aside.
fn dependencies() -> Graph {
    // The examples are outside these rules: they use the crates that they demonstrate.
    packages()
        .iter()
        .filter_map(|package| {
            Some((
                own(&package["name"])?,
                needs(package).filter_map(own).collect(),
            ))
        })
        .collect()
}

fn own(name: &serde_json::Value) -> Option<String> {
    name.as_str()?.strip_prefix("paceline-").map(String::from)
}

/// What `graph` has beyond `may_use`.
fn forbidden(graph: &Graph, may_use: &[(&str, &[&str])]) -> Vec<String> {
    let may_use: BTreeMap<_, _> = may_use.iter().copied().collect();
    let mut wrong = vec![];
    for (from, used) in graph {
        match may_use.get(from.as_str()) {
            None => wrong.push(format!("{from} is not in MAY_USE")),
            Some(allowed) => {
                let beyond = used.iter().filter(|to| !allowed.contains(&to.as_str()));
                wrong.extend(beyond.map(|to| format!("{from} uses {to}")));
            }
        }
    }
    wrong
}

fn sources(folder: &Path) -> Sources {
    let mut found = Sources::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(
                fs::read_dir(&path)
                    .expect("a folder")
                    .map(|entry| entry.expect("an entry").path()),
            );
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path
                .strip_prefix(folder)
                .expect("below it")
                .to_string_lossy()
                .replace('\\', "/");
            found.insert(name, fs::read_to_string(&path).expect("UTF-8"));
        }
    }
    found
}

/// How the cycles of a crate differ from the known ones.
fn compare(crate_name: &str, graph: &Graph, known: &[&[&str]]) -> Vec<String> {
    let found: BTreeSet<Vec<String>> = circles(graph).into_iter().collect();
    let known: BTreeSet<Vec<String>> = known
        .iter()
        .map(|circle| circle.iter().map(|file| String::from(*file)).collect())
        .collect();
    let new = found.difference(&known).map(|circle| {
        let edges: Vec<String> = circle
            .iter()
            .flat_map(|from| {
                graph[from]
                    .iter()
                    .filter(|to| circle.contains(to))
                    .map(move |to| format!("\n    {from} -> {to}"))
            })
            .collect();
        format!("{crate_name}: a circle of {circle:?}:{}", edges.concat())
    });
    let gone = known.difference(&found).map(|circle| {
        format!("{crate_name}: this circle is gone or smaller, take it from KNOWN: {circle:?}")
    });
    new.chain(gone).collect()
}

#[test]
fn crates_use_whom_they_may() {
    let wrong = forbidden(&dependencies(), MAY_USE);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn public_types_come_from_allowed_crates() {
    let packages = packages();
    for (name, allowed) in PUBLIC {
        let is_it = |package: &&serde_json::Value| own(&package["name"]).as_deref() == Some(name);
        let package = packages.iter().find(is_it).expect(name);
        let foreign = needs(package).filter(|need| own(need).is_none());
        let foreign: BTreeSet<&str> = foreign.filter_map(|need| need.as_str()).collect();
        assert_eq!(foreign, allowed.iter().copied().collect(), "{name}");
    }
}

#[test]
fn files_of_a_crate_form_no_circle() {
    let known: BTreeMap<_, _> = KNOWN.iter().copied().collect();
    let mut wrong = vec![];
    for (name, folder) in folders() {
        let sources = sources(&folder.join("src"));
        let graph = files(&sources, "lib.rs");
        wrong.extend(compare(
            &name,
            &graph,
            known.get(name.as_str()).copied().unwrap_or_default(),
        ));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Where `unsafe` is allowed: the emulator's system calls, the code at the C boundary, and the
/// functions that a web page calls.
const UNSAFE: &[&str] = &["capi", "emulator", "plugin", "wasm"];

#[test]
fn unsafe_code_is_where_it_may_be_and_says_why() {
    let mut others = BTreeSet::new();
    for (name, folder) in folders() {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("UTF-8");
        // The workspace's own lints forbid it, which no file of a crate can override.
        if !manifest.contains("[lints]\nworkspace = true\n") {
            assert!(
                manifest.contains("undocumented_unsafe_blocks = \"deny\""),
                "{name}"
            );
            others.insert(name);
        }
    }
    let allowed: BTreeSet<String> = UNSAFE.iter().map(|name| String::from(*name)).collect();
    assert_eq!(others, allowed);
    let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("UTF-8");
    assert!(workspace.contains("[workspace.lints.rust]\nunsafe_code = \"forbid\"\n"));
}

/// The guest of `vm` is a program of its own, outside the workspace's lints.
#[test]
fn unsafe_code_of_the_guest_is_in_its_system_calls_and_says_why() {
    let guest = root().join("crates/vm/guest");
    for (name, text) in sources(&guest) {
        let lines: Vec<&str> = text.lines().collect();
        for (nth, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if !code.contains("unsafe {") {
                continue;
            }
            // The crate that loads a controller is a few calls of a library, and nothing else.
            assert!(["sys.rs", "load.rs"].contains(&name.as_str()), "{line}");
            let before = &lines[nth.saturating_sub(5)..nth];
            assert!(
                before.iter().any(|line| line.contains("// SAFETY:")),
                "{line}"
            );
        }
    }
}

mod made_up {
    //! The tests above can fail.

    use super::*;

    fn crate_of(sources: &[(&str, &str)]) -> Graph {
        let sources = sources
            .iter()
            .map(|(name, text)| (String::from(*name), String::from(*text)));
        files(&sources.collect(), "lib.rs")
    }

    fn edges(sources: &[(&str, &str)]) -> Vec<String> {
        let graph = crate_of(sources);
        graph
            .iter()
            .flat_map(|(from, to)| to.iter().map(move |to| format!("{from} -> {to}")))
            .collect()
    }

    #[test]
    fn a_wrong_dependency_is_found() {
        let used = |names: &[&str]| names.iter().map(|name| String::from(*name)).collect();
        let graph = Graph::from([("low".into(), used(&["high"])), ("high".into(), used(&[]))]);
        let rules: &[(&str, &[&str])] = &[("low", &[]), ("high", &["low"])];
        assert_eq!(forbidden(&graph, rules), ["low uses high"]);
        assert_eq!(
            forbidden(&graph, &rules[..1]),
            ["high is not in MAY_USE", "low uses high"]
        );
    }

    #[test]
    fn a_circle_is_found_whatever_names_it() {
        let root = ("lib.rs", "mod a; mod b;");
        for (a, b) in [
            (
                "use crate::b::B; pub struct A;",
                "use crate::a::A; pub struct B;",
            ),
            (
                "use super::b::B; pub struct A;",
                "pub struct B; fn f() { crate::a::A::new(); }",
            ),
            (
                "pub struct A(crate::b::B);",
                "pub type B = Vec<Option<crate::a::A>>;",
            ),
            (
                "pub struct A; fn f() { println!(\"{}\", crate::b::B); }",
                "use super::a::*; const B: A = A;",
            ),
            (
                "pub fn a() { use crate::b as x; x::b(); }",
                "pub fn b() { crate::a::a() }",
            ),
            (
                "macro_rules! a { () => { $crate::b::b!() } } pub(crate) use a;",
                "use crate::a::a; macro_rules! b { () => {} } pub(crate) use b;",
            ),
            (
                "words! { enum A { B } } use crate::b::B;",
                "fn b() -> crate::a::A { loop {} } struct B;",
            ),
        ] {
            let graph = crate_of(&[root, ("a.rs", a), ("b.rs", b)]);
            assert_eq!(circles(&graph), [["a.rs", "b.rs"]], "{a} {b}");
        }
    }

    #[test]
    fn a_child_and_its_parent_can_form_one() {
        let parent = "mod child; pub use child::Child; pub struct Parent;";
        let sources = [
            ("lib.rs", "mod parent;"),
            ("parent.rs", parent),
            ("parent/child.rs", "use super::Parent; pub struct Child;"),
        ];
        assert_eq!(
            circles(&crate_of(&sources)),
            [["parent.rs", "parent/child.rs"]]
        );
        // Declaring a child module is not use, and a parent's re-exports do not belong to the
        // parent.
        let sources = [
            ("lib.rs", "mod parent;"),
            (
                "parent/mod.rs",
                "mod one; mod two; pub use one::One; pub use two::Two;",
            ),
            ("parent/one.rs", "use super::Two; pub struct One;"),
            ("parent/two.rs", "pub struct Two;"),
        ];
        assert_eq!(
            edges(&sources),
            [
                "parent/mod.rs -> parent/one.rs",
                "parent/mod.rs -> parent/two.rs",
                "parent/one.rs -> parent/two.rs"
            ]
        );
    }

    #[test]
    fn tests_and_other_crates_do_not_count() {
        let sources = [
            ("lib.rs", "mod a; mod b; pub use a::A;"),
            (
                "a.rs",
                "use other::b::B; pub struct A; #[cfg(test)] mod tests { use crate::b::B; } impl A { #[cfg(test)] fn f() { crate::b::B::g() } }",
            ),
            (
                "b.rs",
                "//! Like [`crate::A`].\nuse crate::A; pub struct B;",
            ),
        ];
        assert_eq!(edges(&sources), ["b.rs -> a.rs", "lib.rs -> a.rs"]);
    }

    #[test]
    fn the_list_of_known_circles_only_shrinks() {
        let graph = crate_of(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub struct A(crate::b::B);"),
            ("b.rs", "pub struct B(crate::a::A);"),
        ]);
        assert!(compare("x", &graph, &[&["a.rs", "b.rs"]]).is_empty());
        let found = compare("x", &graph, &[]);
        assert_eq!(
            found,
            ["x: a circle of [\"a.rs\", \"b.rs\"]:\n    a.rs -> b.rs\n    b.rs -> a.rs"]
        );
        assert_eq!(compare("x", &graph, &[&["a.rs", "b.rs", "c.rs"]]).len(), 2);
        assert_eq!(compare("x", &Graph::new(), &[&["a.rs", "b.rs"]]).len(), 1);
    }
}
