//! The header in `include` is what the declarations of this crate say.

use std::path::Path;

#[test]
fn the_header_says_what_the_declarations_say() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).expect("its settings");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in ["types.rs", "table.rs", "delivery.rs"] {
        builder = builder.with_src(here.join("src").join(file));
    }
    let mut written = Vec::new();
    builder
        .generate()
        .expect("declarations that C has")
        .write(&mut written);
    let written = String::from_utf8(written).expect("UTF-8");
    let file = here.join("../../include/paceline_controller.h");
    if std::env::var_os("PACELINE_WRITE").is_some() {
        std::fs::write(&file, &written).expect("a folder that can be written");
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == written,
        "include/paceline_controller.h is out of date: \
         PACELINE_WRITE=1 cargo test -p paceline-capi --test header"
    );
}
