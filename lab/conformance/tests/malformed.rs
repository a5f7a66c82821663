//! Damaged and diverging traces are reported as such.

use std::fmt::Write as _;
use std::path::PathBuf;

use paceline_conformance::{Case, Failure, Version, read_trace, replay, replay_dir};
use proptest::prelude::*;

const SMALLEST: &str = "linux-bbr/v3/startup_loss_then_undo.txt.zst";
const CUBIC: &str = "linux-cubic/cubic/script_train.txt.zst";
const RENO: &str = "linux-stock/reno/stock_4M_40ms_1bdp.txt.zst";
const DCTCP: &str = "linux-stock/dctcp/stock_8M_40ms_codel_marks.txt.zst";
/// It contains random draws.
const DRAWS: &str = "linux-bbr/v3/probeup_loss_then_undo.txt.zst";

fn golden(name: &str) -> Vec<u8> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../data/conformance");
    std::fs::read(dir.join(name)).unwrap_or_default()
}

/// A trace, as text.
fn text(name: &str) -> String {
    let bytes = zstd::decode_all(&*golden(name)).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

#[test]
fn a_changed_state_is_found_where_it_was_changed() {
    let text = text(SMALLEST);
    let (line, state) = text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.starts_with('S'))
        .nth(200)
        .unwrap_or_default();
    let changed = state
        .replacen(" cnt=", " cnt=7", 1)
        .replacen("mode=STARTUP", "mode=DRAIN", 1);
    assert_ne!(state, changed);
    let trace = read_trace(text.replacen(state, &changed, 1).as_bytes());
    let mismatch = trace
        .ok()
        .and_then(|trace| replay(Version::V3, &trace).err());
    let mismatch = mismatch.unwrap_or_else(|| panic!("no mismatch"));
    let fields: Vec<_> = mismatch
        .differences
        .iter()
        .map(|d| (&*d.field, &*d.expected, &*d.got))
        .collect();
    assert_eq!(fields.len(), 2, "{mismatch}");
    assert_eq!((fields[0].0, fields[0].2), ("mode", "STARTUP"));
    assert_eq!(fields[1].0, "cnt");
    assert_eq!((mismatch.kind, mismatch.inputs.len()), ("ack", 10));
    // The event's line is just above its state, except for draws.
    assert_eq!(mismatch.line, line as u64);
    let shown = mismatch.to_string();
    assert!(
        shown.contains("event 201 (ack, line") && shown.contains("STARTUP"),
        "{shown}"
    );
    assert_eq!(
        mismatch.inputs.last().map(String::as_str),
        text.lines().nth(line - 1)
    );
}

#[test]
fn a_changed_input_or_draw_is_found() {
    let text = text(DRAWS);
    let first = |text: &str| {
        let trace = read_trace(text.as_bytes()).ok()?;
        let mismatch = replay(Version::V3, &trace).err()?;
        mismatch.differences.first().map(|d| d.field.clone())
    };
    assert_eq!(first(&text), None);
    assert!(first(&text.replacen("rs.acked=1", "rs.acked=2", 1)).is_some());
    assert_eq!(
        first(&text.replacen("R below=2 ", "R below=3 ", 1)).as_deref(),
        Some("draw")
    );
    let (head, tail) = text.split_once("\nR below=1000000 ").unwrap_or_default();
    let after = tail.split_once('\n').unwrap_or_default().1;
    assert_eq!(first(&format!("{head}\n{after}")).as_deref(), Some("draw"));
    assert_eq!(
        first(&format!("{head}\nR below=9 drew=1\nR below=1000000 {tail}")).as_deref(),
        Some("draw")
    );
}

#[test]
fn a_changed_input_or_state_of_cubic_is_found() {
    let text = text(CUBIC);
    let first = |text: &str| {
        let trace = read_trace(text.as_bytes()).ok()?;
        let mismatch = replay(Version::Cubic, &trace).err()?;
        mismatch.differences.first().map(|d| d.field.clone())
    };
    assert_eq!(first(&text), None);
    assert!(first(&text.replacen(" acked=1 ", " acked=7 ", 9)).is_some());
    assert!(first(&text.replacen("beta=717", "beta=700", 1)).is_some());
    let mode = text.replacen("mode=SLOW_START", "mode=CONGESTION_AVOIDANCE", 1);
    assert_eq!(first(&mode).as_deref(), Some("mode"));
    let of_bbr = format!("{text}\nU t=1\n");
    assert_eq!(first(&of_bbr).as_deref(), Some("event"));
}

#[test]
fn a_changed_input_or_state_of_reno_or_dctcp_is_found() {
    let first = |version: Version, text: &str| {
        let trace = read_trace(text.as_bytes()).ok()?;
        let mismatch = replay(version, &trace).err()?;
        mismatch.differences.first().map(|d| d.field.clone())
    };
    let reno = text(RENO);
    assert_eq!(first(Version::Reno, &reno), None);
    assert!(first(Version::Reno, &reno.replacen(" acked=1 ", " acked=7 ", 9)).is_some());
    // The threshold after the first loss is half of the window, and no more than that.
    let (head, tail) = reno.split_once("S ev=reduce ").unwrap_or_default();
    let later = format!(
        "{head}S ev=reduce {}",
        tail.replacen("ssthresh=", "ssthresh=1", 1)
    );
    assert_eq!(first(Version::Reno, &later).as_deref(), Some("ssthresh"));
    assert!(first(Version::Dctcp, &reno).is_some());

    let dctcp = text(DCTCP);
    assert_eq!(first(Version::Dctcp, &dctcp), None);
    let more = dctcp.replacen(" marked=1\n", " marked=9\n", 1);
    assert_ne!(more, dctcp);
    assert_eq!(first(Version::Dctcp, &more).as_deref(), Some("alpha"));
    let other = dctcp.replacen(" ca=2 alpha=", " ca=2 alpha=9", 1);
    assert_ne!(other, dctcp);
    assert_eq!(first(Version::Dctcp, &other).as_deref(), Some("ssthresh"));
}

/// A kernel with 250 jiffies a second judges the ten seconds of a minimum RTT by them.
#[test]
fn the_clock_of_a_stock_bbr_counts() {
    let text = text("linux-stock/v1/stock_4M_40ms_1bdp.txt.zst");
    let holds = |text: &str| {
        let trace = read_trace(text.as_bytes()).ok();
        trace.is_some_and(|trace| replay(Version::V1, &trace).is_ok())
    };
    assert!(holds(&text));
    assert!(text.contains("mode=PROBE_RTT"));
    assert!(!holds(&text.replacen(" hz=250 ", " hz=200 ", 1)));
    assert!(!holds(&text.replacen(" hz=250 ", " hz=300 ", 1)));
}

#[test]
fn another_version_does_not_hold() {
    let trace = read_trace(&golden(SMALLEST)).ok();
    for version in [Version::V1, Version::V2, Version::Cubic] {
        let replayed = trace.as_ref().map(|trace| replay(version, trace).is_ok());
        assert_eq!(replayed, Some(false), "{version:?}");
    }
}

#[test]
fn folders_give_a_row_for_every_file_and_an_error_for_none() -> std::io::Result<()> {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("traces");
    for folder in ["v2", "v3"] {
        std::fs::create_dir_all(dir.join(folder))?;
    }
    let mut broken = text(SMALLEST);
    broken.truncate(5_000);
    let _ = write!(broken, "\nA t=\n");
    std::fs::write(dir.join("v3/b.txt"), &broken)?;
    // Where no state is given, none is equal.
    let stateless: Vec<_> = text(SMALLEST)
        .lines()
        .filter(|line| !line.starts_with('S'))
        .map(str::to_owned)
        .collect();
    std::fs::write(dir.join("v3/c.txt"), stateless.join("\n"))?;
    std::fs::write(dir.join("v3/a.txt"), text(SMALLEST))?;
    std::fs::write(dir.join("v3/README.md"), "no trace")?;
    let compressed = golden(SMALLEST);
    std::fs::write(
        dir.join("v2/cut.txt.zst"),
        &compressed[..compressed.len() / 2],
    )?;
    let replays = replay_dir(&dir)?;
    let rows: Vec<Case> = replays.iter().map(Case::from).collect();
    let verdicts: Vec<_> = rows
        .iter()
        .map(|row| (&*row.id, row.controller, row.verdict))
        .collect();
    assert_eq!(
        verdicts,
        [
            ("v2/cut", "bbr2", "fail"),
            ("v3/a", "bbr3-linux", "pass"),
            ("v3/b", "bbr3-linux", "fail"),
            ("v3/c", "bbr3-linux", "fail")
        ]
    );
    assert!(matches!(replays[0].result, Err(Failure::Trace(_))));
    assert!(
        rows[1].evidence.starts_with("458 events"),
        "{}",
        rows[1].evidence
    );
    assert!(
        rows[2].evidence.starts_with("line "),
        "{}",
        rows[2].evidence
    );
    assert!(replay_dir(&dir.join("v3")).is_err());
    Ok(())
}

/// A few octets that expand to hundreds of megabytes, or millions of events.
#[test]
fn what_is_small_in_the_file_alone_is_refused() {
    let error_of = |text: &str| {
        let packed = zstd::encode_all(text.as_bytes(), 1).unwrap_or_default();
        assert!(packed.len() < 100_000, "{} octets", packed.len());
        read_trace(&packed).err().map(|error| error.to_string())
    };
    let first = text(SMALLEST).lines().next().unwrap_or_default().to_owned();
    let many = format!("{first}\n{}", "H t=1\n".repeat(1 << 20));
    let message = error_of(&many);
    assert_eq!(
        message.as_deref(),
        Some("line 1048577: the trace has more than 1048576 events")
    );
    let long = format!("{first}\n{}", "\n".repeat(65 << 20));
    let message = error_of(&long).unwrap_or_default();
    assert!(
        message.ends_with("the trace has more than 67108864 bytes"),
        "{message}"
    );
}

/// Nobody writes into the FIFO.
#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_not_waited_for() -> std::io::Result<()> {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fifo");
    std::fs::create_dir_all(dir.join("v3"))?;
    let fifo = dir.join("v3/a.txt");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status()?;
    assert!(made.success() || fifo.exists());
    let rows: Vec<Case> = replay_dir(&dir)?.iter().map(Case::from).collect();
    assert_eq!(
        (rows[0].verdict, &*rows[0].evidence),
        ("fail", "it is no regular file")
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Damage anywhere, in text or compressed form, gives an error, a mismatch or no change, but no
    /// panic.
    #[test]
    fn damage_never_panics(at in any::<prop::sample::Index>(), bytes in prop::collection::vec(any::<u8>(), 1..9), packed: bool, v in 0..6usize) {
        let smallest = [SMALLEST, SMALLEST, SMALLEST, CUBIC, RENO, DCTCP][v];
        let mut trace = if packed { golden(smallest) } else { text(smallest).into_bytes() };
        let at = at.index(trace.len());
        for (old, new) in trace[at..].iter_mut().zip(&bytes) {
            *old = *new;
        }
        if let Ok(trace) = read_trace(&trace) {
            let _ = replay(Version::ALL[v], &trace);
        }
    }
}
