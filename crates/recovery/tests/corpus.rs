//! What fuzzing starts from, and what it has found: `fuzz/seeds/ets`, replayed.

use std::fs;
use std::path::PathBuf;

use paceline_recovery::ets::Ets;

/// Every file, by name.
fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/ets");
    let entries = fs::read_dir(folder).expect("the corpus");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert!(files.len() > 5);
    let read = |path: PathBuf| {
        let octets = fs::read(&path).expect("a file");
        (path, octets)
    };
    files.into_iter().map(read).collect()
}

#[test]
fn what_is_read_is_written_and_read_again() {
    let mut read = 0;
    for (path, octets) in corpus() {
        let Ok(option) = Ets::decode(&octets) else {
            continue;
        };
        read += 1;
        let mut written = [0; Ets::SYN_LEN];
        let len = option
            .encode(&mut written)
            .expect("the longest option fits");
        assert_eq!(written[2..12], octets[2..12], "{}", path.display());
        assert_eq!(
            Ets::decode(&written[..len]),
            Ok(option),
            "{}",
            path.display()
        );
    }
    assert!(read >= 3, "{read}");
}
