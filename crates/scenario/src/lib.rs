//! The typed experiment: units, defaults, errors with line and column.
//!
//! A scenario is a TOML file. The structs here say which keys it has, what they mean and what they
//! are when left out; the reader, the resolved file and the JSON Schema all follow from them.
//! Controllers, their options and metrics are only named: whoever builds them judges the names, and
//! [`Scenario::diagnostic`] shows the place.

mod aqm;
mod check;
mod diagnostic;
mod document;
mod ecn;
mod event;
mod expect;
mod flow;
mod host;
mod impair;
pub mod limits;
mod link;
mod loss;
mod path;
mod queue;
mod reader;
mod run;
mod sweep;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paceline_units::Duration;
use schemars::JsonSchema;
use serde::Serialize;

use document::{Document, Node, Origin};
use reader::{Read, Reader};

pub use aqm::{Red, StepMark};
pub use diagnostic::{Diagnostic, Kind};
pub use ecn::EcnKind;
pub use event::{AppChange, Event, FlowChange, PathChange, RateChange, When};
pub use expect::{Bound, BoundUnit, Op};
pub use flow::{
    AckPolicy, App, ControllerChoice, FlowGroup, OptionInput, RecoveryKind, RecoverySection,
};
pub use host::{Delay, Gro, HostSection};
pub use impair::{Hold, Policer, PolicerChange, Reorder};
pub use link::LinkSection;
pub use loss::{BurstLoss, Loss};
pub use path::{PathSection, QueueSize, RateSource};
pub use queue::{Codel, DualPi2, FqCodel, Frequency, Pie, Queue, QueueKind};
pub use run::{EmulationSection, RecordSection, RunSection};
pub use sweep::{Axis, Point, Seeds, SweepSection, metric_of_flow};

/// An experiment: what is run, over what, and what good looks like.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "Paceline scenario", deny_unknown_fields)]
pub struct Scenario {
    /// Version of the format; always 1.
    #[schemars(extend("const" = 1))]
    pub schema: u32,
    /// A short name. Unset: the file's name without its ending.
    #[schemars(default)]
    pub name: String,
    /// Why it exists and what good looks like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Where the experiment was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// How long, how often, what is kept.
    pub run: RunSection,
    /// The bottleneck.
    pub path: PathSection,
    /// What flows cross beside the path's own link.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub links: Vec<LinkSection>,
    /// Who sends.
    #[schemars(length(min = 1))]
    pub flows: Vec<FlowGroup>,
    /// What changes on the way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub events: Vec<Event>,
    /// Bounds on metrics, by the metric's name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    pub expect: BTreeMap<String, Bound>,
    /// What is varied round it. A run is of one experiment, so a resolved scenario has none.
    #[serde(skip_serializing)]
    #[schemars(default)]
    pub sweep: Option<SweepSection>,
    /// Where all this was written.
    #[serde(skip)]
    #[schemars(skip)]
    document: Document,
}

impl Scenario {
    /// Reads a scenario, applies `overrides` (key path and value, as in `--set KEY=VALUE`) and
    /// fills in every default. `file_name` is what errors show, and where traces are looked for.
    ///
    /// The value of an override is TOML if it can be read as such (`5`, `true`, `["a"]`, `{ .. }`)
    /// and text otherwise, so that `5 s` needs no quotes.
    ///
    /// # Errors
    /// All problems that could be found, in the order of the file.
    pub fn parse(
        text: &str,
        file_name: &str,
        overrides: &[(String, String)],
    ) -> Result<Self, Vec<Diagnostic>> {
        Self::of(Document::parse(text, file_name, overrides)?)
    }

    fn of(document: Document) -> Result<Self, Vec<Diagnostic>> {
        let mut reader = Reader::new(&document);
        let scenario = Self::read(&document.root, "", &mut reader);
        let mut problems = reader.problems;
        if let Some(mut scenario) = scenario {
            scenario.document = document;
            // What follows from a value that is already known to be wrong is no news.
            let known: Vec<String> = problems.iter().map(|found| found.key.clone()).collect();
            // Links that could not be read are not there to be named.
            let unread = known.iter().any(|key| key.starts_with("links"));
            let names_link = |key: &str| key.contains(".route") || key.ends_with(".path.link");
            let told = |problem: &Diagnostic| {
                known.iter().any(|key| {
                    key.strip_prefix(&problem.key)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
                })
            };
            let news =
                |problem: &Diagnostic| !(told(problem) || unread && names_link(&problem.key));
            problems.extend(check::check(&scenario).into_iter().filter(news));
            if problems.is_empty() {
                return Ok(scenario);
            }
        }
        drop_misspelled(&mut problems);
        // Those in the file by place, then those of overrides.
        problems.sort_by_key(|problem| (problem.line.is_none(), problem.line, problem.column));
        Err(problems)
    }

    /// What is wrong with the points of the sweep, shown where they are written; `judge` finds what
    /// is wrong beyond the text. Each point of each axis is tried with the first of the others.
    pub fn check_sweep(&self, judge: impl Fn(&Self) -> Vec<Diagnostic>) -> Vec<Diagnostic> {
        let axes = self.sweep.as_ref().map_or(&[][..], |sweep| &sweep.axes);
        let mut problems: Vec<Diagnostic> = Vec::new();
        for (varied, axis) in axes.iter().enumerate() {
            // The first points go together, and are tried with the first axis.
            for number in usize::from(varied > 0)..axis.points.len() {
                let values = axes.iter().enumerate().flat_map(|(n, axis)| {
                    let point = axis.points.get(if n == varied { number } else { 0 });
                    let nodes = point.map_or(&[][..], |point| &point.nodes);
                    let keys = axis.keys.iter().map(String::as_str);
                    keys.zip(nodes).map(|(key, node)| (key, node, &axis.origin))
                });
                let tried = self.document.with(values).and_then(Self::of);
                let found = match tried {
                    Ok(scenario) => judge(&scenario),
                    Err(found) => found,
                };
                for problem in found {
                    if problems.len() < limits::MAX_PROBLEMS && !problems.contains(&problem) {
                        problems.push(problem);
                    }
                }
            }
        }
        problems
    }

    /// The scenario with every default written out, its sweep left out. Parsing it gives an equal
    /// scenario.
    pub fn to_toml(&self) -> String {
        // All fields are tables, texts, numbers and flags; there is nothing that TOML cannot say.
        toml::to_string(self).unwrap_or_default()
    }

    /// A diagnostic about the value of `key` (such as `flows[1].cc.startup_pacing_gain`), or about
    /// the nearest table above it when the key itself is not written.
    pub fn diagnostic(
        &self,
        key: &str,
        message: impl Into<String>,
        hint: Option<String>,
    ) -> Diagnostic {
        self.problem(Kind::BadValue, key, message.into(), hint)
    }

    pub(crate) fn problem(
        &self,
        kind: Kind,
        key: &str,
        message: String,
        hint: Option<String>,
    ) -> Diagnostic {
        let origin = self.document.locate(key);
        self.document.at(kind, origin, key, message, hint)
    }

    /// The file of the capacity trace, if there is one: relative to the scenario's folder when the
    /// scenario names it, as given when an override does.
    pub fn trace_path(&self) -> Option<PathBuf> {
        let RateSource::Trace { trace } = &self.path.rate else {
            return None;
        };
        Some(match self.document.locate("path.rate.trace") {
            Origin::Override(_) => trace.clone(),
            Origin::File(_) => Path::new(&self.document.file)
                .parent()
                .unwrap_or(Path::new(""))
                .join(trace),
        })
    }

    /// The number of a link by its name: 0 is that of the path, `[[links]]` follow.
    pub fn link_number(&self, name: &str) -> Option<usize> {
        let others = self.links.iter().map(|link| &link.name);
        std::iter::once(&self.path.name)
            .chain(others)
            .position(|known| known == name)
    }

    /// How many flows there are in all.
    pub fn flow_count(&self) -> u64 {
        self.flows.iter().map(|group| u64::from(group.count)).sum()
    }

    /// Time between rows of the samples table: as written, else 10 ms, and longer, in whole
    /// milliseconds, when that would make more than [`limits::DEFAULT_SAMPLES`] rows.
    pub fn sample_interval(&self) -> Duration {
        let default = Duration::from_millis(10);
        self.run.sample_interval.unwrap_or_else(|| {
            let flow_time =
                u128::from(self.run.duration.as_nanos()) * u128::from(self.flow_count());
            let millis = flow_time
                .div_ceil(u128::from(limits::DEFAULT_SAMPLES))
                .div_ceil(1_000_000);
            Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)).max(default)
        })
    }
}

/// A required key that is misspelled is one mistake, not two: what is told is the misspelled key.
fn drop_misspelled(problems: &mut Vec<Diagnostic>) {
    let table = |key: &str| {
        key.rsplit_once('.')
            .map_or("", |(table, _)| table)
            .to_owned()
    };
    let misspelled: Vec<(String, String)> = problems
        .iter()
        .filter(|problem| problem.kind == Kind::UnknownKey)
        .filter_map(|problem| Some((table(&problem.key), problem.hint.clone()?)))
        .collect();
    problems.retain(|problem| {
        let name = problem.key.rsplit('.').next().unwrap_or_default();
        let meant = format!("did you mean `{name}`?");
        problem.kind != Kind::MissingKey
            || !misspelled
                .iter()
                .any(|(place, hint)| *place == table(&problem.key) && hint.starts_with(&meant))
    });
}

/// The JSON Schema of the format, for editors, with a final newline.
pub fn schema_json() -> String {
    let schema = schemars::schema_for!(Scenario);
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}

impl Read for Scenario {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let mut table = reader.table(node, key, "a table")?;
        let schema = table.required("schema", "say which format it is written in: schema = 1");
        let name = table.optional("name");
        let about = table.optional("about");
        let source = table.optional("source");
        let run = table.required("run", "say how long: [run] with duration = \"60 s\"");
        let path = table.required(
            "path",
            "describe the bottleneck: [path] with rate, rtt and queue",
        );
        let links = table.or("links", Vec::new());
        let flows = table.required("flows", "say who sends: [[flows]] with cc = \"bbr3\"");
        let events = table.or("events", Vec::new());
        let expect = table.or("expect", BTreeMap::new());
        let sweep = table.optional("sweep");
        table.finish();
        Some(Self {
            schema: schema?,
            name: name.unwrap_or_else(|| reader.file_stem()),
            about,
            source,
            run: run?,
            path: path?,
            links,
            flows: flows?,
            events,
            expect,
            sweep,
            document: Document::default(),
        })
    }
}
