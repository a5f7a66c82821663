use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow_schema::DataType;
use paceline_units::{Duration, Instant};

use super::*;
use crate::rows::TABLES;
use crate::table::{SCHEMA, SCHEMA_KEY};
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

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_is_written_is_read() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("deep/er/run");
    let run = two_flows();
    run.write(&dir, None).unwrap();
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
    two_flows().write(&a, None).unwrap();
    two_flows().write(&b, None).unwrap();
    assert_eq!(contents(&a), contents(&b));
    let files = [
        "events", "flows", "packets", "queue", "run", "samples", "scenario",
    ];
    assert_eq!(
        names(&a)
            .iter()
            .map(|n| n.split('.').next().unwrap())
            .collect::<Vec<_>>(),
        files
    );
    // It makes no difference that the run was read.
    Run::read(&a, u64::MAX).unwrap().write(&b, None).unwrap();
    assert_eq!(contents(&a), contents(&b));
}

#[test]
fn the_machine_is_kept_apart() {
    let parent = tempfile::tempdir().unwrap();
    let (a, b) = (parent.path().join("a"), parent.path().join("b"));
    two_flows().write(&a, Some(&json!({ "cpus": 2 }))).unwrap();
    two_flows().write(&b, None).unwrap();
    let mut with = contents(&a);
    assert_eq!(with.remove(MACHINE).unwrap(), b"{\n  \"cpus\": 2\n}\n");
    assert_eq!(with, contents(&b));
    // An old run's machine is not kept for a new one.
    two_flows().write(&a, None).unwrap();
    assert_eq!(contents(&a), contents(&b));
}

/// A stack's file from an old run does not belong to a new one.
#[test]
fn what_stacks_wrote_is_part_of_a_run() {
    let parent = tempfile::tempdir().unwrap();
    let (a, b) = (parent.path().join("a"), parent.path().join("b"));
    let qlogs = vec![(0, b"first".to_vec()), (12, b"second".to_vec())];
    two_flows().with_qlogs(qlogs).write(&a, None).unwrap();
    let mut with = contents(&a);
    assert_eq!(with.remove("stack-0.sqlog").unwrap(), b"first");
    assert_eq!(with.remove("stack-12.sqlog").unwrap(), b"second");
    two_flows().write(&b, None).unwrap();
    assert_eq!(with, contents(&b));
    two_flows().write(&a, None).unwrap();
    assert_eq!(contents(&a), contents(&b));
}

#[test]
fn an_old_run_is_replaced_and_what_is_not_ours_stays() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    two_flows().write(&dir, None).unwrap();
    fs::write(dir.join("notes.txt"), "mine").unwrap();
    fs::write(dir.join("run.json"), "{\"schema\": 0}").unwrap();
    two_flows().write(&dir, None).unwrap();
    assert_eq!(fs::read_to_string(dir.join("notes.txt")).unwrap(), "mine");
    assert!(Run::read(&dir, u64::MAX).is_ok());
    assert_eq!(names(parent.path()), ["run"]);
}

#[test]
fn what_is_not_a_run_is_left_as_it_is() {
    let parent = tempfile::tempdir().unwrap();
    let (dir, file) = (parent.path().join("thesis"), parent.path().join("file"));
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("run.json"), "{}").unwrap();
    fs::write(&file, "mine").unwrap();
    for place in [&dir, &file] {
        let error = two_flows().write(place, None).unwrap_err();
        assert!(matches!(error, RecordError::NotARun { .. }), "{error}");
    }
    assert_eq!(fs::read_to_string(dir.join("run.json")).unwrap(), "{}");
    assert_eq!(names(parent.path()), ["file", "thesis"]);
    // An empty folder may be used.
    fs::remove_file(dir.join("run.json")).unwrap();
    two_flows().write(&dir, None).unwrap();
}

#[test]
fn what_a_killed_process_leaves_does_no_harm() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    two_flows().write(&dir, None).unwrap();
    let before = contents(&dir);
    // Killed while writing: half a run under a temporary name next to the old one, even under a
    // name that is used again.
    for count in 0..100 {
        let half = parent
            .path()
            .join(format!(".run.partial-{}-{count}", std::process::id()));
        fs::create_dir(&half).unwrap();
        fs::write(half.join("samples.parquet"), "PAR1").unwrap();
    }
    assert_eq!(contents(&dir), before);
    assert!(Run::read(&dir, u64::MAX).is_ok());
    two_flows().write(&dir, None).unwrap();
    assert_eq!(contents(&dir), before);
    if cfg!(unix) {
        assert_eq!(names(parent.path()), ["run"]);
    }
}

/// Each writes complete runs and removes nothing that another one is using.
#[cfg(target_os = "linux")]
#[test]
fn many_may_write_at_once() {
    let parent = tempfile::tempdir().unwrap();
    let run = two_flows();
    std::thread::scope(|scope| {
        for name in ["a", "a", "b", "c"] {
            let dir = parent.path().join(name);
            let run = &run;
            scope.spawn(move || {
                for _ in 0..20 {
                    run.write(&dir, None).unwrap();
                }
            });
        }
    });
    assert_eq!(names(parent.path()), ["a", "b", "c"]);
    assert_eq!(
        contents(&parent.path().join("a")),
        contents(&parent.path().join("c"))
    );
}

/// Where folders can be exchanged in one step.
#[cfg(target_os = "linux")]
#[test]
fn a_run_is_whole_or_not_there() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    let run = two_flows();
    run.write(&dir, None).unwrap();
    // A reader that reads while the run is written again and again finds one each time.
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (0..30).try_for_each(|_| run.write(&dir, None)));
        while !writer.is_finished() {
            assert!(dir.join(RUN).exists());
        }
        writer.join().unwrap().unwrap();
    });
}

/// Where the process to be killed writes.
const VICTIM: &str = "PACELINE_TEST_WRITES_HERE";

/// Two runs that differ in every file except the tables.
#[test]
fn who_stops_writing_finds_what_was_there() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    let stop = std::sync::atomic::AtomicBool::new(true);
    let stopped = two_flows().write_until(&dir, None, &stop);
    assert!(matches!(stopped, Err(RecordError::Stopped)));
    assert_eq!(names(parent.path()), Vec::<String>::new());
    two_flows().write(&dir, None).unwrap();
    let before = contents(&dir);
    assert!(two_flows().write_until(&dir, None, &stop).is_err());
    assert_eq!(contents(&dir), before);
    assert_eq!(names(parent.path()), ["run"]);
}

fn two_runs() -> [Run; 2] {
    [1, 99].map(|seed| {
        let run = two_flows();
        let mut info = run.info().clone();
        info.seed = seed;
        info.scenario_toml = format!("# {seed}");
        Run::new(info, run.contents().to_vec()).unwrap()
    })
}

/// Not a test by itself: [`a_killed_writer_leaves_one_run_or_the_other`] runs it and kills it.
#[test]
fn write_until_killed() {
    let Some(dir) = std::env::var_os(VICTIM) else {
        return;
    };
    loop {
        for run in two_runs() {
            run.write(Path::new(&dir), None).unwrap();
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_killed_writer_leaves_one_run_or_the_other() {
    let parent = tempfile::tempdir().unwrap();
    let whole = two_runs().map(|run| {
        let dir = parent.path().join(run.info().seed.to_string());
        run.write(&dir, None).unwrap();
        contents(&dir)
    });
    let dir = parent.path().join("run");
    two_runs()[0].write(&dir, None).unwrap();
    let mut partial = 0;
    for attempt in 0..40 {
        let mut writer = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "folder::tests::write_until_killed"])
            .env(VICTIM, &dir)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // A new process starts writing a temporary folder; once it does, it is killed, a little
        // later each time.
        let name = format!(".run.partial-{}-", writer.id());
        while !names(parent.path()).iter().any(|n| n.starts_with(&name)) {
            assert!(writer.try_wait().unwrap().is_none(), "it ended by itself");
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_micros(attempt * 700));
        writer.kill().unwrap();
        writer.wait().unwrap();
        partial += usize::from(names(parent.path()).iter().any(|n| n.starts_with(&name)));
        assert!(whole.contains(&contents(&dir)), "{:?}", names(&dir));
        Run::read(&dir, u64::MAX).unwrap();
    }
    // Most died while they wrote; the next writer cleans up after them.
    assert!(partial > 10, "{partial}");
    two_runs()[1].write(&dir, None).unwrap();
    assert_eq!(names(parent.path()), ["1", "99", "run"]);
    assert_eq!(contents(&dir), whole[1]);
}

/// `tests/schema-N` is a run as it was written when the schema was N; it stays readable.
#[test]
fn a_run_of_each_schema_is_read() {
    for schema in 1..=SCHEMA {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/schema-{schema}"));
        let run = Run::read(&dir, u64::MAX).unwrap();
        let info = run.info();
        assert_eq!((info.scenario.as_str(), info.seed), ("schema-1", 7));
        assert_eq!(info.duration, Duration::from_secs(1));
        assert_eq!(info.flows[0].cc, "bbr3");
        assert_eq!(info.flows[1].label, "marked");
        assert_eq!(info.flows[1].start, Instant::from_nanos(300_000_000));
        let rows = TABLES.map(|table| run.table(table.name).unwrap().num_rows());
        let written = [
            ("flows", 2),
            ("samples", 33),
            ("queue", 21),
            ("events", if schema == 1 { 15 } else { 16 }),
            ("packets", 607),
        ];
        for (table, count) in written {
            let place = TABLES.iter().position(|t| t.name == table).unwrap();
            assert_eq!(rows[place], count, "{table}");
        }
        let last = |table: &str, column: &str| {
            let table = run.table(table).unwrap();
            let column = table.column_by_name(column).unwrap();
            column.as_primitive::<Int64Type>().values().last().copied()
        };
        assert_eq!(last("queue", "delivered_bytes"), Some(229_604));
        assert_eq!(last("queue", "marked_packets"), Some(5));
        assert_eq!(last("samples", "goodput_bytes"), Some(10_136));
        assert!(run.metric("utilisation_ratio").is_some());
        // Read, it is a record of today.
        for table in TABLES {
            let schema = run.table(table.name).unwrap().schema();
            assert_eq!(schema.metadata()[SCHEMA_KEY], SCHEMA.to_string());
            for (column, field) in table.columns.iter().zip(schema.fields()) {
                assert_eq!(**field, column.field(), "{}", table.name);
            }
        }
        let departed = run.table("packets").unwrap();
        let departed = departed.column_by_name("departed_ns").unwrap();
        assert_eq!(departed.null_count() == 607, schema == 1);
    }
}

#[test]
fn a_run_of_another_version_is_not_read() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    two_flows().write(&dir, None).unwrap();
    let path = dir.join(RUN);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"schema\": 2", "\"schema\": 7")).unwrap();
    let error = Run::read(&dir, u64::MAX).unwrap_err();
    assert!(
        matches!(&error, RecordError::Schema { found, .. } if found == "7"),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .ends_with("has schema 7, this program reads schemas 1 to 2")
    );
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
    recorder.finish(&[]).write(&dir, None).unwrap();
    let file = dir.join("samples.parquet");
    assert!(fs::metadata(&file).unwrap().len() < 20_000);
    let error = Run::read(&dir, 30_000_000).unwrap_err();
    assert!(
        matches!(&error, RecordError::TooLarge { path, rows: 200_000, .. } if *path == file),
        "{error}"
    );
    let told = error.to_string();
    assert!(
        told.ends_with("of memory; at most 30 MB may be read"),
        "{told}"
    );
    assert!(Run::read(&dir, 100_000_000).is_ok());
}

#[test]
fn damage_is_an_error() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("run");
    assert!(matches!(
        Run::read(&dir, u64::MAX),
        Err(RecordError::NotARun { .. })
    ));
    let damage = |file: &str, bytes: Option<&[u8]>| {
        two_flows().write(&dir, None).unwrap();
        match bytes {
            Some(bytes) => fs::write(dir.join(file), bytes).unwrap(),
            None => fs::remove_file(dir.join(file)).unwrap(),
        }
        let error = Run::read(&dir, u64::MAX).unwrap_err();
        // The next write must find a run here.
        two_flows()
            .write(&parent.path().join("whole"), None)
            .unwrap();
        fs::copy(parent.path().join("whole/run.json"), dir.join(RUN)).unwrap();
        error
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
    let events = fs::read(parent.path().join("whole/events.parquet")).unwrap();
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
    two_flows().write(&dir, None).unwrap();
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
        changed.write(&dir, None).unwrap();
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
        let found = read(table, &|batch| last(batch, column, -1));
        assert_eq!(found, format!("{table}.{column}"));
    }
    for (table, column) in [
        ("samples", "flow"),
        ("events", "flow"),
        ("packets", "flow"),
        ("queue", "link"),
    ] {
        let found = read(table, &|batch| ids(batch, column, 9));
        assert_eq!(found, format!("{table}.{column}"));
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
