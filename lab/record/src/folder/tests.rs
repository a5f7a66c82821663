use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow_schema::DataType;
use paceline_units::{Duration, Instant};

use super::*;
use crate::rows::TABLES;
use crate::table::SCHEMA_KEY;
use crate::testing::{at_ms, flow_info, recorder, run_info, sample, two_flows};

/// The files of a folder and their content.
fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|e| {
            (
                e.file_name().into_string().unwrap(),
                fs::read(e.path()).unwrap(),
            )
        })
        .collect()
}

#[test]
fn what_is_written_is_read() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("deep/er/run");
    let run = two_flows();
    run.write(&dir).unwrap();
    let read = Run::read(&dir, u64::MAX).unwrap();
    assert_eq!(read.info(), run.info());
    assert_eq!(read.metrics(), run.metrics());
    assert_eq!(read.flows(), run.flows());
    assert_eq!(read.tables().len(), TABLES.len());
    for ((name, read), (of, written)) in read.tables().zip(run.tables()) {
        assert_eq!(read.schema(), written.schema());
        assert_eq!((name, read), (of, written));
    }
}

#[test]
fn equal_runs_are_equal_bytes() {
    let parent = tempfile::tempdir().unwrap();
    let (a, b) = (parent.path().join("a"), parent.path().join("b"));
    two_flows().write(&a).unwrap();
    two_flows().write(&b).unwrap();
    assert_eq!(contents(&a), contents(&b));
    let files = [
        "events.parquet",
        "flows.parquet",
        "packets.parquet",
        "queue.parquet",
        "run.json",
        "samples.parquet",
        "scenario.toml",
    ];
    assert!(contents(&a).keys().eq(files));
    // It makes no difference that the run was read.
    Run::read(&a, u64::MAX).unwrap().write(&b).unwrap();
    assert_eq!(contents(&a), contents(&b));
}

#[test]
fn what_stacks_wrote_is_part_of_a_run() {
    let parent = tempfile::tempdir().unwrap();
    let (a, b) = (parent.path().join("a"), parent.path().join("b"));
    let qlogs = vec![(0, b"first".to_vec()), (12, b"second".to_vec())];
    two_flows().with_qlogs(qlogs).write(&a).unwrap();
    let mut with = contents(&a);
    assert_eq!(with.remove("stack-0.sqlog").unwrap(), b"first");
    assert_eq!(with.remove("stack-12.sqlog").unwrap(), b"second");
    two_flows().write(&b).unwrap();
    assert_eq!(with, contents(&b));
}

#[test]
fn writing_stops_before_the_run_is_complete() {
    let parent = tempfile::tempdir().unwrap();
    let stopped = two_flows().write_until(parent.path(), &AtomicBool::new(true));
    assert!(matches!(stopped, Err(RecordError::Stopped)));
    assert!(contents(parent.path()).keys().eq([SCENARIO]));
}

/// `tests/schema-2` is a run as it was first written with this schema; it stays readable.
#[test]
fn a_run_of_this_schema_is_read() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schema-2");
    let run = Run::read(&dir, u64::MAX).unwrap();
    let info = run.info();
    assert_eq!((info.scenario.as_str(), info.seed), ("schema-1", 7));
    assert_eq!(info.duration, Duration::from_secs(1));
    assert_eq!(info.flows[0].cc, "bbr3");
    assert_eq!(info.flows[1].label, "marked");
    assert_eq!(info.flows[1].start, Instant::from_nanos(300_000_000));
    let rows = TABLES.map(|table| (table.name, run.table(table.name).unwrap().num_rows()));
    let written = [
        ("flows", 2),
        ("samples", 33),
        ("queue", 21),
        ("events", 16),
        ("packets", 607),
    ];
    assert_eq!(rows, written);
    let last = |table: &str, column: &str| {
        let table = run.table(table).unwrap();
        let column = table.column_by_name(column).unwrap();
        column.as_primitive::<Int64Type>().values().last().copied()
    };
    assert_eq!(last("queue", "delivered_bytes"), Some(229_604));
    assert_eq!(last("queue", "marked_packets"), Some(5));
    assert_eq!(last("samples", "goodput_bytes"), Some(10_136));
    assert!(run.metric("utilisation_ratio").is_some());
    for table in TABLES {
        let schema = run.table(table.name).unwrap().schema();
        for (column, field) in table.columns.iter().zip(schema.fields()) {
            assert_eq!(**field, column.field(), "{}", table.name);
        }
    }
}

#[test]
fn a_run_of_another_schema_is_not_read() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    two_flows().write(&dir).unwrap();
    let path = dir.join(RUN);
    let text = fs::read_to_string(&path).unwrap();
    for other in ["1", "7", "\"2\""] {
        let other_schema = format!("\"schema\": {other}");
        fs::write(&path, text.replace("\"schema\": 2", &other_schema)).unwrap();
        let error = Run::read(&dir, u64::MAX).unwrap_err();
        assert!(
            matches!(&error, RecordError::Schema { found, .. } if found == other),
            "{error}"
        );
        let message = format!(
            "has schema {other}, this program reads schema 2; write the record again with this version"
        );
        assert!(error.to_string().ends_with(&message), "{error}");
    }
}

/// Identical rows: hardly more in the file than one of them.
#[test]
fn what_memory_does_not_hold_is_not_read() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    let mut recorder = recorder(run_info(vec![flow_info(0, 0)]));
    for _ in 0..200_000 {
        let row = sample(0, at_ms(1), 1448, Some(40));
        recorder.sample(row, |_| {});
    }
    recorder.finish(&[]).write(&dir).unwrap();
    let file = dir.join("samples.parquet");
    assert!(fs::metadata(&file).unwrap().len() < 20_000);
    let error = Run::read(&dir, 30_000_000).unwrap_err();
    assert!(
        matches!(&error, RecordError::TooLarge { path, rows: 200_000, .. } if *path == file),
        "{error}"
    );
    let message = error.to_string();
    assert!(
        message.ends_with("of memory; at most 30 MB may be read"),
        "{message}"
    );
    assert!(Run::read(&dir, 100_000_000).is_ok());
}

#[test]
fn damage_is_an_error() {
    let parent = tempfile::tempdir().unwrap();
    let (dir, whole) = (parent.path().join("run"), parent.path().join("whole"));
    assert!(matches!(
        Run::read(&dir, u64::MAX),
        Err(RecordError::NotARun { .. })
    ));
    two_flows().write(&whole).unwrap();
    let damage = |file: &str, bytes: Option<&[u8]>| {
        two_flows().write(&dir).unwrap();
        match bytes {
            Some(bytes) => fs::write(dir.join(file), bytes).unwrap(),
            None => fs::remove_file(dir.join(file)).unwrap(),
        }
        Run::read(&dir, u64::MAX).unwrap_err()
    };
    assert!(matches!(damage(RUN, Some(b"{")), RecordError::Json { .. }));
    assert!(matches!(
        damage(RUN, Some(b"{\"schema\":2}")),
        RecordError::Json { .. }
    ));
    assert!(matches!(
        damage("queue.parquet", Some(b"PAR1")),
        RecordError::Parquet { .. }
    ));
    assert!(matches!(
        damage("queue.parquet", None),
        RecordError::Table { table: "queue" }
    ));
    assert!(matches!(damage(SCENARIO, None), RecordError::Io { .. }));
    let events = fs::read(whole.join("events.parquet")).unwrap();
    let error = damage("samples.parquet", Some(&events));
    assert!(
        matches!(
            error,
            RecordError::Column {
                table: "samples",
                ..
            }
        ),
        "{error}"
    );
    // Packets are optional.
    two_flows().write(&dir).unwrap();
    fs::remove_file(dir.join("packets.parquet")).unwrap();
    assert!(
        Run::read(&dir, u64::MAX)
            .unwrap()
            .table("packets")
            .is_none()
    );
}

/// Complete tables with a value that no run has.
#[test]
fn a_value_that_cannot_be_is_an_error() {
    let parent = tempfile::tempdir().unwrap();
    let read = |table: &str, change: &dyn Fn(&RecordBatch) -> RecordBatch| {
        let run = two_flows();
        let tables = run.tables().map(|(name, batch)| {
            let change = if name == table { change } else { &Clone::clone };
            (name, change(&batch).into())
        });
        let changed = Run::new(run.info().clone(), tables.collect()).unwrap();
        let dir = parent.path().join("run");
        changed.write(&dir).unwrap();
        match Run::read(&dir, u64::MAX) {
            Err(RecordError::Value { table, column }) => format!("{table}.{column}"),
            other => panic!("{other:?}"),
        }
    };
    let with = |batch: &RecordBatch, name: &str, column: ArrayRef| {
        let mut columns = batch.columns().to_vec();
        columns[batch.schema().index_of(name).unwrap()] = column;
        RecordBatch::try_new(batch.schema(), columns).unwrap()
    };
    let last = |batch: &RecordBatch, name: &str, value: i64| {
        let old = batch
            .column_by_name(name)
            .unwrap()
            .as_primitive::<Int64Type>();
        let mut values: Vec<Option<i64>> = old.iter().collect();
        *values.last_mut().unwrap() = Some(value);
        with(batch, name, Arc::new(Int64Array::from(values)))
    };
    let ids = |batch: &RecordBatch, name: &str, id: u32| {
        let ids = UInt32Array::from(vec![id; batch.num_rows()]);
        with(batch, name, Arc::new(ids))
    };
    for (table, column) in [
        ("flows", "mss_bytes"),
        ("samples", "t_ns"),
        ("samples", "rtt_ns"),
        ("queue", "backlog_bytes"),
        ("events", "t_ns"),
        ("packets", "seq_bytes"),
    ] {
        let place = read(table, &|batch| last(batch, column, -1));
        assert_eq!(place, format!("{table}.{column}"));
    }
    for (table, column) in [
        ("samples", "flow"),
        ("events", "flow"),
        ("packets", "flow"),
        ("queue", "link"),
    ] {
        let place = read(table, &|batch| ids(batch, column, 9));
        assert_eq!(place, format!("{table}.{column}"));
    }
    assert_eq!(read("flows", &|batch| ids(batch, "flow", 0)), "flows.flow");
    assert_eq!(read("flows", &|batch| batch.slice(0, 0)), "samples.flow");
}

#[test]
fn columns_say_their_unit() {
    let run = two_flows();
    let samples = run.table("samples").unwrap();
    let names: Vec<String> = samples
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect();
    let own = [
        "max_bw_bps",
        "cc_min_rtt_ns",
        "inflight_longterm_bytes",
        "pacing_gain_ratio",
        "round_count",
        "filled_pipe",
        "ssthresh_bytes",
    ];
    assert_eq!(names[names.len() - own.len()..], own);
    let unit = |name| {
        samples
            .schema()
            .field_with_name(name)
            .unwrap()
            .metadata()
            .get("unit")
            .cloned()
    };
    assert_eq!(unit("cc_min_rtt_ns").as_deref(), Some("ns"));
    assert_eq!(unit("max_bw_bps").as_deref(), Some("bit/s"));
    assert_eq!(unit("phase"), None);
    assert_eq!(
        samples
            .schema()
            .metadata()
            .get(SCHEMA_KEY)
            .map(String::as_str),
        Some("2")
    );
}

#[test]
fn fields_are_null_where_a_row_has_none() {
    let run = two_flows();
    let samples = run.table("samples").unwrap();
    let column = |name| samples.column_by_name(name).unwrap();
    // Rows: flow 0 at 0, 1 and 2 s, flow 1 at 2 s, then both each second.
    assert_eq!(samples.num_rows(), 20);
    let max_bw = column("max_bw_bps").as_primitive::<Int64Type>();
    assert_eq!(max_bw.null_count(), 9);
    assert!(max_bw.is_valid(2) && max_bw.is_null(3) && max_bw.is_valid(4) && max_bw.is_null(19));
    let ssthresh = column("ssthresh_bytes").as_primitive::<Int64Type>();
    assert!(ssthresh.is_null(0) && ssthresh.is_null(2) && ssthresh.is_valid(3));
    assert_eq!(ssthresh.value(19), 20_000);
    // Infinite is absent.
    assert_eq!(column("inflight_longterm_bytes").null_count(), 20);
    assert_eq!(column("pacing_bps").null_count(), 20);
    assert_eq!(
        column("pacing_gain_ratio")
            .as_primitive::<Float64Type>()
            .value(0),
        2.772_589
    );
    assert!(column("filled_pipe").as_boolean().value(2));
    let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    assert_eq!(column("phase").data_type(), &text);
}

#[test]
fn the_summary_is_as_documented() {
    let summary = two_flows().summary_json();
    let keys: Vec<&String> = summary.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "schema", "scenario", "seed", "backend", "metrics", "flows", "censored"
        ]
    );
    assert_eq!(summary["seed"], u64::MAX);
    assert_eq!(summary["metrics"]["rtt_p50_ns"].to_string(), "90000000");
    assert_eq!(summary["metrics"]["jain_bins_ratio"].to_string(), "0.95");
    assert_eq!(summary["flows"][1]["cc"], "bbr3");
    assert_eq!(summary["flows"][0]["state_ns"]["Drain"], 500_000_000);
}
