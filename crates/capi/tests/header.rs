//! The headers in `include` match the declarations of this crate.

use std::path::Path;

#[test]
fn the_headers_say_what_the_declarations_say() {
    written(
        "paceline_controller.h",
        "cbindgen.toml",
        &["types.rs", "table.rs", "delivery.rs"],
    );
    written(
        "paceline_endpoint.h",
        "endpoint.toml",
        &["stack.rs", "ends.rs"],
    );
}

fn written(header: &str, settings: &str, sources: &[&str]) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let settings = cbindgen::Config::from_file(here.join(settings)).expect("its settings");
    let mut builder = cbindgen::Builder::new().with_config(settings);
    for source in sources {
        builder = builder.with_src(here.join("src").join(source));
    }
    let mut written = Vec::new();
    let bindings = builder.generate().expect("declarations that C has");
    bindings.write(&mut written);
    let written = String::from_utf8(written).expect("UTF-8");
    let file = here.join("include").join(header);
    if std::env::var_os("PACELINE_WRITE").is_some() {
        std::fs::write(&file, &written).expect("a folder that can be written");
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == written,
        "{header} is out of date: PACELINE_WRITE=1 cargo test -p paceline-capi --test header"
    );
}
