//! Linux's own traces hold, field by field.

use std::path::Path;

use paceline_conformance::replay_dir;

#[test]
fn every_golden_trace_of_linux_holds() -> std::io::Result<()> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/linux-bbr");
    let replays = replay_dir(&dir)?;
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
    assert_eq!(replays.len(), 47);
    assert_eq!(failed, 0, "of {} traces", replays.len());
    Ok(())
}
