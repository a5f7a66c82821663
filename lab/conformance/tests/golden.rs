//! Linux's own traces pass, field by field.

use std::path::Path;

use paceline_conformance::replay_dir;

fn hold(folder: &str, traces: usize) -> std::io::Result<()> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/conformance");
    let replays = replay_dir(&dir.join(folder))?;
    let mut failed = 0;
    for replay in &replays {
        match &replay.result {
            Ok(replayed) => println!("{} {replayed:?}", replay.id()),
            Err(failure) => {
                failed += 1;
                println!("{} {failure}", replay.id());
            }
        }
    }
    assert_eq!(replays.len(), traces);
    assert_eq!(failed, 0, "of {traces} traces");
    Ok(())
}

#[test]
fn every_golden_trace_of_linux_bbr_holds() -> std::io::Result<()> {
    hold("linux-bbr", 31)
}

#[test]
fn every_golden_trace_of_linux_cubic_holds() -> std::io::Result<()> {
    hold("linux-cubic", 12)
}

#[test]
fn every_golden_trace_of_a_stock_kernel_holds() -> std::io::Result<()> {
    hold("linux-stock", 14)
}
