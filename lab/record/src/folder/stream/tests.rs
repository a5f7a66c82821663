use std::fs;

use arrow_array::Array;
use paceline_units::{Duration, Field, Gain, Quantity, Value as Shown};
use proptest::prelude::*;

use super::*;
use crate::rows::{EventRow, PacketKind, PacketRow};
use crate::testing::{COUNTERS, at_ms, change, flow_info, queue, run_info, sample};

const LIMIT: u64 = 64 << 20;

/// Two flows whose controllers show other fields.
fn recorder() -> Recorder {
    let field = |name, quantity| Field { name, quantity };
    let first = vec![
        field("gain", Quantity::Gain),
        field("share", Quantity::Number),
        field("filled", Quantity::Flag),
    ];
    let second = vec![field("ssthresh", Quantity::Bytes)];
    let info = run_info(vec![flow_info(0, 0), flow_info(1, 2_000)]);
    Recorder::new(info, &[first, second], COUNTERS)
}

/// The rows of the `nth` millisecond: samples, and sometimes of the other tables.
fn record(recorder: &mut Recorder, nth: u64) {
    let row = sample(
        0,
        at_ms(nth),
        nth * 1448,
        (!nth.is_multiple_of(3)).then_some(nth),
    );
    recorder.sample(row, |visit| {
        visit.show("gain", Shown::Gain(Gain::from_millionths(nth as u32)));
        let share = if nth.is_multiple_of(5) {
            f64::NAN
        } else {
            nth as f64
        };
        visit.show("share", Shown::Number(share));
        visit.show("filled", Shown::Flag(nth > 700));
    });
    if nth.is_multiple_of(2) {
        recorder.sample(sample(1, at_ms(nth), nth, None), |visit| {
            visit.show("ssthresh", Shown::Bytes(Bytes::new(nth)));
        });
    }
    if nth.is_multiple_of(7) {
        recorder.queue(queue(0, nth, 90));
    }
    if nth.is_multiple_of(11) {
        let event = EventRow::new(at_ms(nth), Some(1), EventKind::State);
        recorder.event(event.between(format!("{}", nth / 50), "Drain"));
        recorder.event(change(nth, 0, nth));
        let packet = PacketRow::new(at_ms(nth), 0, PacketKind::Deliver, nth, 1448);
        recorder.packet(packet);
    }
    if nth == 40 {
        recorder.event(EventRow::new(at_ms(nth), Some(1), EventKind::Finish));
    }
}

/// The first so many milliseconds.
fn first(count: u64) -> Recorder {
    let mut recorder = recorder();
    (0..count).for_each(|nth| record(&mut recorder, nth));
    recorder
}

/// A stream of `count` milliseconds that is written after each of `flushes`.
fn streamed(folder: &Path, count: u64, flushes: &[u64]) -> Vec<u8> {
    let path = folder.join("x.stream");
    let mut recorder = recorder();
    let mut stream = Stream::create(&path, &recorder).unwrap();
    for nth in 0..count {
        record(&mut recorder, nth);
        if flushes.contains(&nth) {
            stream.append(&recorder, at_ms(nth)).unwrap();
        }
    }
    let alone = first(count).finish(&[]);
    assert_eq!(recorder.finish(&[]).digest(), alone.digest());
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    bytes
}

fn read(bytes: &[u8]) -> Result<Option<Run>, RecordError> {
    read_stream(bytes, Path::new("x.stream"), LIMIT)
}

/// A run has the rows of the first so many milliseconds, and what follows from them.
fn assert_first(run: &Run, count: u64) {
    let whole = first(count).finish(&[]);
    for name in ["samples", "queue", "events", "packets"] {
        assert_eq!(run.table(name), whole.table(name), "{name} of {count}");
    }
    assert_eq!(run.info().duration, Duration::from_millis(count - 1));
    assert!(run.info().incomplete.is_some());
    assert_eq!(run.info().flows, whole.info().flows);
    let flows = run.table("flows").unwrap();
    let flows = TableView {
        table: "flows",
        batch: &flows,
    };
    assert_eq!(
        flows.values("goodput_bytes").unwrap()[0],
        (count as i64 - 1) * 1448
    );
    let finish: Vec<_> = flows.ints("finish_ns").unwrap().iter().collect();
    assert_eq!(finish, [None, (count > 40).then_some(40_000_000)]);
    let sent: Vec<_> = flows.ints("sent_packets").unwrap().iter().collect();
    assert_eq!(sent[0], Some(count as i64 - 1));
    assert_eq!(flows.ints("rto_count").unwrap().null_count(), 2);
}

/// The lengths of a stream up to the end of each frame.
fn ends(bytes: &[u8]) -> Vec<usize> {
    let mut rest = bytes;
    let mut ends = Vec::new();
    while frame(&mut rest).is_some() {
        ends.push(bytes.len() - rest.len());
    }
    ends
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_was_written_is_read_whenever_that_was(
        flushes in proptest::collection::btree_set(0_u64..1500, 1..9)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let flushes: Vec<u64> = flushes.into_iter().collect();
        let bytes = streamed(folder.path(), 1500, &flushes);
        let run = read(&bytes).unwrap().unwrap();
        assert_first(&run, flushes[flushes.len() - 1] + 1);
    }

    /// The contents of frames with other octets, under a checksum that is right.
    #[test]
    fn any_content_is_read_or_refused(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = streamed(folder.path(), 30, &[10, 29]);
        let ends = ends(&bytes);
        let starts = [0].into_iter().chain(ends.iter().copied());
        let frames: Vec<_> = starts.zip(ends.iter().copied()).collect();
        let inside = |at: &usize| frames.iter().any(|(from, to)| (from + HEAD..*to).contains(at));
        let places: Vec<usize> = (0..bytes.len()).filter(inside).collect();
        for (place, octet) in changes {
            bytes[*place.get(&places)] = octet;
        }
        for (from, to) in frames {
            let checksum = sum(&bytes[from + HEAD..to]);
            bytes[from + 8..from + HEAD].copy_from_slice(&checksum);
        }
        if let Ok(Some(run)) = read(&bytes) {
            // It can be looked at, and kept.
            let place = folder.path().join("run");
            run.write(&place).unwrap();
            assert_eq!(Run::read(&place, LIMIT).unwrap().digest(), run.digest());
        }
    }

    /// What the disk has spoiled ends the stream.
    #[test]
    fn after_a_spoiled_octet_nothing_is_read(place in any::<proptest::sample::Index>()) {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = streamed(folder.path(), 30, &[10, 20, 29]);
        let ends = ends(&bytes);
        let at = place.index(bytes.len());
        bytes[at] ^= 1;
        let whole = ends.iter().filter(|end| **end <= at).count();
        match read(&bytes).unwrap() {
            None => assert!(whole < 2),
            Some(run) => assert_first(&run, [11, 21, 30][whole - 2]),
        }
    }
}

#[test]
fn a_stream_is_read_up_to_where_it_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = streamed(folder.path(), 60, &[9, 30, 59]);
    let ends = ends(&bytes);
    assert_eq!((ends.len(), ends[3]), (4, bytes.len()));
    for cut in (0..bytes.len()).step_by(97).chain(ends.clone()) {
        let whole = ends.iter().filter(|end| **end <= cut).count();
        match read(&bytes[..cut]).unwrap() {
            None => assert!(whole < 2),
            Some(run) => assert_first(&run, [10, 31, 60][whole - 2]),
        }
    }
    let run = read(&bytes).unwrap().unwrap();
    let why = run.info().incomplete.clone().unwrap();
    assert_eq!(
        why,
        "the process that ran it was killed; the record ends at 0.059 s of 10 s"
    );
}

/// A frame has only what is new.
#[test]
fn a_stream_grows_with_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let flushes: Vec<u64> = (0..40).map(|nth| nth * 50).collect();
    let ends = ends(&streamed(folder.path(), 2000, &flushes));
    let sizes: Vec<usize> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // The first has the names.
    assert!(sizes[39] < 2 * sizes[2], "{sizes:?}");
}

#[test]
fn a_stream_takes_no_more_memory_than_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = streamed(folder.path(), 30, &[29]);
    let read_error = |bytes: &[u8], limit| read_stream(bytes, Path::new("x"), limit).unwrap_err();
    let error = read_error(&bytes, 4_000);
    assert!(matches!(error, RecordError::TooLarge { .. }), "{error}");
    // Rows that take nothing in the file: the number of rows of `samples` follows the time.
    let start = ends(&bytes)[0];
    for rows in [1 << 30, u64::MAX] {
        let mut content = bytes[start + HEAD..].to_vec();
        content[8..16].copy_from_slice(&u64::to_le_bytes(rows));
        let mut claims = bytes[..start].to_vec();
        put(&mut claims, content.len() as u64);
        claims.extend(sum(&content));
        claims.extend(content);
        let error = read_error(&claims, LIMIT);
        assert!(matches!(error, RecordError::TooLarge { .. }), "{error}");
    }
}

#[test]
fn only_a_regular_file_below_the_folder_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let bytes = streamed(folder, 30, &[29]);
    fs::create_dir_all(folder.join("root/a")).unwrap();
    fs::write(folder.join("root/a/x.stream"), &bytes).unwrap();
    fs::write(folder.join("x.stream"), &bytes).unwrap();
    std::os::unix::fs::symlink("../../x.stream", folder.join("root/a/link.stream")).unwrap();
    let root = folder.join("root");
    let read = |path, limit| Stream::read_beneath(&root, Path::new(path), limit);
    assert_first(&read("a/x.stream", LIMIT).unwrap().unwrap(), 30);
    let error = read("a/x.stream", 99).unwrap_err();
    assert!(matches!(error, RecordError::TooLarge { .. }), "{error}");
    for other in ["a/link.stream", "a", "../x.stream", "a/none.stream"] {
        assert!(
            matches!(read(other, LIMIT), Err(RecordError::Io { .. })),
            "{other}"
        );
    }
}

#[test]
fn a_stream_of_another_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = streamed(folder.path(), 30, &[29]);
    let start = ends(&bytes)[0];
    let header: Value = serde_json::from_slice(&bytes[HEAD..start]).unwrap();
    let read_with = |change: &dyn Fn(&mut Value)| {
        let mut header = header.clone();
        change(&mut header);
        let json = serde_json::to_vec(&header).unwrap();
        let mut other = Vec::new();
        put(&mut other, json.len() as u64);
        other.extend(sum(&json));
        other.extend(json);
        other.extend(&bytes[start..]);
        read(&other)
    };
    assert!(read_with(&|_| ()).unwrap().is_some());
    let error = read_with(&|header| header["schema"] = 99.into()).unwrap_err();
    assert!(matches!(error, RecordError::Schema { .. }), "{error}");
    let error = read_with(&|header| header["info"] = 1.into()).unwrap_err();
    assert!(matches!(error, RecordError::Json { .. }), "{error}");
    let error = read_with(&|header| header["fields"][0][0] = "t_ns".into()).unwrap_err();
    assert_eq!(error.to_string(), "x.stream: two columns have one name");
    let error = read_with(&|header| {
        header["fields"].as_array_mut().unwrap().pop();
    });
    let what = "x.stream: a part of it has other rows than it says";
    assert_eq!(error.unwrap_err().to_string(), what);
    let error = read_with(&|header| header["info"]["flows"][0]["flow"] = 7.into()).unwrap_err();
    assert!(matches!(error, RecordError::Value { .. }), "{error}");
}

#[test]
fn a_stream_has_no_more_columns_than_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = streamed(folder.path(), 20, &[19]);
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let (head, rest) = bytes[HEAD..].split_at(length);
    let header: Value = serde_json::from_slice(head).unwrap();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut header = header.clone();
        change(&mut header);
        let head = serde_json::to_vec(&header).unwrap();
        let mut bytes = Vec::new();
        put(&mut bytes, head.len() as u64);
        bytes.extend(sum(&head));
        read(&[bytes, head, rest.to_vec()].concat())
    };
    assert!(with(&|_| ()).unwrap().is_some());
    let counters = |names: Vec<String>| with(&|header| header["counters"] = names.clone().into());
    let field = header["fields"][0].clone();
    let fields =
        (0..20_000).map(|nth| Value::from(vec![format!("f{nth}").into(), field[1].clone()]));
    let fields: Vec<Value> = fields.collect();
    for result in [
        counters(vec!["x".to_owned(), "x".to_owned()]),
        counters(vec!["flow".to_owned()]),
        counters((0..200).map(|nth| format!("c{nth}")).collect()),
        with(&|header| header["fields"] = fields.clone().into()),
    ] {
        assert!(matches!(result, Err(RecordError::Stream { .. })));
    }
}
