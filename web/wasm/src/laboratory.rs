//! Checks and runs scenarios, and returns the columns of the last run.

use std::ops::ControlFlow;
use std::sync::Arc;

use paceline_experiment::{Backend, Guest, Guests, Progress, RunError, Watch};
use paceline_record::arrow_array::cast::AsArray;
use paceline_record::arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt32Type};
use paceline_record::arrow_array::{Array, ArrayRef};
use paceline_record::arrow_schema::DataType;
use paceline_record::{Recorder, Run, in_words};
use paceline_scenario::{Diagnostic, Scenario};
use paceline_simulator::Simulator;
use serde_json::{Value, json};

/// The memory limit of a tab: browsers end tabs of a few gigabytes, and 32-bit addresses end at
/// four.
const MEMORY: u64 = 500_000_000;

/// The name of a scenario in errors.
const NAME: &str = "scenario.toml";

/// The last run, and the page's own controller.
pub struct Laboratory {
    run: Option<Run>,
    guests: Guests,
    /// Bytes that a run may take.
    memory: u64,
}

impl Default for Laboratory {
    fn default() -> Self {
        Self {
            run: None,
            guests: Guests::none(),
            memory: MEMORY,
        }
    }
}

impl Laboratory {
    /// Scenarios may name this controller, and no other from outside this program.
    pub fn bring(&mut self, guest: Option<Arc<dyn Guest>>) {
        self.guests = guest.map_or_else(Guests::none, |guest| Guests::none().with(guest));
    }

    /// Checks a scenario. `problems` is empty if it can run; then there are `about`, `total_ns`,
    /// `flows` and `toml` (with every default written out).
    pub fn check(&self, text: &str) -> Value {
        match runnable(text, &self.guests) {
            Ok(scenario) => json!({
                "problems": [],
                "about": scenario.about,
                "total_ns": scenario.run.duration.as_nanos(),
                "flows": scenario.flow_count(),
                "toml": scenario.to_toml(),
            }),
            Err(wrong) => problems(&RunError::Scenario(wrong)),
        }
    }

    /// Runs a scenario, and keeps its tables. The answer has `problems`, or `summary`, the metrics
    /// that `--json` prints, and `packets` and `events`. `on_progress` receives the record so far, and
    /// may stop the run.
    pub fn run(
        &mut self,
        text: &str,
        on_progress: &mut dyn FnMut(&Progress, &Recorder) -> ControlFlow<()>,
    ) -> Value {
        self.run = None;
        let mut on_progress = |progress: &Progress, record: Option<&Recorder>| {
            record.map_or(ControlFlow::Continue(()), |record| {
                on_progress(progress, record)
            })
        };
        let ended = runnable(text, &self.guests)
            .map_err(RunError::Scenario)
            .and_then(|scenario| {
                let mut watch = Watch::new(self.memory, &mut on_progress);
                Simulator.run(&scenario, &self.guests, scenario.run.seed, &mut watch)
            });
        match ended {
            Ok((run, last)) => {
                let summary = run.summary_json();
                self.run = Some(run);
                json!({ "problems": [], "summary": summary, "packets": last.packets, "events": last.events })
            }
            Err(error) => problems(&error),
        }
    }

    /// A column of the last run, named `TABLE.COLUMN`: 64-bit floats in the byte order of this
    /// machine, NaN for null; for text a JSON array of words. Empty if there is none.
    pub fn column(&self, name: &str) -> Vec<u8> {
        let numbers = name
            .split_once('.')
            .and_then(|(table, column)| self.run.as_ref()?.column(table, column));
        numbers.map(|column| written(&column)).unwrap_or_default()
    }

    /// The digest of the last run's tables, empty if there is none.
    pub fn digest(&self) -> String {
        self.run.as_ref().map(Run::digest).unwrap_or_default()
    }
}

/// A scenario that can run here.
fn runnable(text: &str, guests: &Guests) -> Result<Scenario, Vec<Diagnostic>> {
    let mut scenario = paceline_experiment::parse(text, NAME, &[])?;
    // A single run is requested.
    scenario.sweep = None;
    match Simulator.check(&scenario, guests) {
        wrong if wrong.is_empty() => Ok(scenario),
        wrong => Err(wrong),
    }
}

/// Why there is no run.
fn problems(error: &RunError) -> Value {
    let problems = match error {
        RunError::Scenario(wrong) => wrong.iter().map(problem).collect(),
        RunError::TooLarge { at, limit } => {
            let message = format!(
                "this run takes {} of memory or more, and a page may take {}",
                in_words(at.memory.total()),
                in_words(*limit)
            );
            let hint = "make it shorter, or run it on the command line";
            vec![json!({ "message": message, "hint": hint })]
        }
        error => vec![json!({ "message": error.to_string() })],
    };
    json!({ "problems": problems })
}

fn problem(diagnostic: &Diagnostic) -> Value {
    json!({
        "kind": diagnostic.kind.as_str(),
        "message": diagnostic.message,
        "line": diagnostic.line,
        "column": diagnostic.column,
        "key": diagnostic.key,
        "hint": diagnostic.hint,
    })
}

fn written(column: &ArrayRef) -> Vec<u8> {
    let rows = 0..column.len();
    let numbers = |value: &dyn Fn(usize) -> f64| {
        let row = |row| match column.is_valid(row) {
            true => value(row),
            false => f64::NAN,
        };
        rows.clone().flat_map(|at| row(at).to_le_bytes()).collect()
    };
    match column.data_type() {
        DataType::UInt32 => numbers(&|row| column.as_primitive::<UInt32Type>().value(row).into()),
        DataType::Int64 => numbers(&|row| column.as_primitive::<Int64Type>().value(row) as f64),
        DataType::Float64 => numbers(&|row| column.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => numbers(&|row| f64::from(u8::from(column.as_boolean().value(row)))),
        DataType::Dictionary(..) => {
            let words = column.as_dictionary::<Int32Type>();
            let names = words.values().as_string::<i32>();
            let word = |row| {
                let (keys, known) = (words.keys(), words.keys().is_valid(row));
                known.then(|| names.value(keys.value(row) as usize))
            };
            json!(rows.map(word).collect::<Vec<_>>())
                .to_string()
                .into_bytes()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        schema = 1
        about = "One flow"
        [run]
        duration = "1 s"
        [path]
        rate = "10 Mbit/s"
        rtt = "20 ms"
        queue = { kind = "droptail", size = "1 bdp" }
        [[flows]]
        cc = "bbr3"
    "#;

    fn on(_: &Progress, _: &Recorder) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn floats(bytes: &[u8]) -> Vec<f64> {
        let (cells, _) = bytes.as_chunks::<8>();
        cells.iter().map(|cell| f64::from_le_bytes(*cell)).collect()
    }

    #[test]
    fn what_is_seen_of_a_run_becomes_its_columns() {
        let names = [
            "samples.t_ns",
            "samples.rtt_ns",
            "samples.flow",
            "queue.delay_ns",
        ];
        let mut parts = names.map(|_| Vec::new());
        let mut laboratory = Laboratory::default();
        let mut looks = 0;
        laboratory.run(SMALL, &mut |_, record| {
            looks += 1;
            for (name, part) in names.iter().zip(&mut parts) {
                part.extend(record.numbers(name, part.len()).unwrap());
            }
            assert_eq!(record.numbers("samples.ca_state", 0), None);
            ControlFlow::Continue(())
        });
        assert!(looks > 3);
        for (name, part) in names.iter().zip(parts) {
            let all = floats(&laboratory.column(name));
            let bits = |cells: &[f64]| cells.iter().map(|cell| cell.to_bits()).collect::<Vec<_>>();
            let prefix = all.get(..part.len()).unwrap();
            assert_eq!(bits(&part), bits(prefix), "{name}");
            assert!(part.len() > all.len() / 2, "{name}");
        }
    }

    #[test]
    fn a_scenario_is_checked_run_and_read() {
        let mut laboratory = Laboratory::default();
        let checked = laboratory.check(SMALL);
        assert_eq!(checked["about"], "One flow");
        assert_eq!(checked["total_ns"], 1_000_000_000_u64);
        assert!(laboratory.digest().is_empty());
        let result = laboratory.run(SMALL, &mut on);
        assert!(result["summary"]["metrics"]["utilisation_ratio"].as_f64() > Some(0.8));
        let floats = laboratory.column("samples.t_ns");
        let last = floats
            .last_chunk::<8>()
            .map(|bytes| f64::from_le_bytes(*bytes));
        assert_eq!(last, Some(1e9));
        let states = String::from_utf8(laboratory.column("samples.ca_state")).unwrap();
        assert!(states.starts_with("[\"Open\""), "{states:.40}");
        assert!(laboratory.column("samples.nothing").is_empty());
        // Equal to the simulator's own.
        let scenario = paceline_experiment::parse(SMALL, NAME, &[]).unwrap();
        let on = &mut |_: &Progress| ControlFlow::Continue(());
        let (run, _) = paceline_simulator::run(&scenario, scenario.run.seed, on).unwrap();
        assert_eq!(laboratory.digest(), run.digest());
    }

    #[test]
    fn what_cannot_run_is_told_with_its_place() {
        let mut laboratory = Laboratory::default();
        let wrong = laboratory.check(&SMALL.replace("bbr3", "bbr9"));
        let first = &wrong["problems"][0];
        assert_eq!(
            (&first["line"], &first["key"]),
            (&json!(11), &json!("flows[0].cc"))
        );
        let stack = SMALL.replace("cc = \"bbr3\"", "cc = \"bbr3\"\nstack = \"quinn\"");
        let result = laboratory.run(&stack, &mut on);
        // Other crates in a workspace build may enable the stacks.
        let message = result["problems"][0]["message"].as_str();
        assert!(
            message.is_none_or(|message| message.contains("no QUIC stacks")),
            "{result}"
        );
        laboratory.memory = 5_000_000;
        let long = SMALL.replace("\"1 s\"", "\"100 s\"\nsample_interval = \"1 ms\"");
        let message = laboratory.run(&long, &mut on)["problems"][0]["message"].to_string();
        assert!(message.contains("a page may take 5.0 MB"), "{message}");
        assert!(laboratory.digest().is_empty());
    }
}
