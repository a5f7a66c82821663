//! A scenario: its contents, and queries on it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paceline_units::Duration;
use schemars::JsonSchema;
use serde::Serialize;

use crate::diagnostic::{Diagnostic, Kind};
use crate::document::{Document, Node, Origin};
use crate::engines::{Engine, Refused};
use crate::event::Event;
use crate::expect::Bound;
use crate::flow::FlowGroup;
use crate::limits;
use crate::link::{LinkSection, PathSection, RateSource};
use crate::queue;
use crate::reader::{Read, Reader};
use crate::run::RunSection;
use crate::section::Key;
use crate::sweep::SweepSection;
use crate::vocabulary::Vocabulary;

/// An experiment: its path, its flows, and the results expected of it.
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
    /// Duration, seeds and what to record.
    pub run: RunSection,
    /// The bottleneck.
    pub path: PathSection,
    /// Links in addition to the path's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub links: Vec<LinkSection>,
    /// Who sends.
    #[schemars(length(min = 1))]
    pub flows: Vec<FlowGroup>,
    /// Changes during the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub events: Vec<Event>,
    /// Bounds on metrics, by the metric's name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    pub expect: BTreeMap<String, Bound>,
    /// The grid of values around it. A run is one experiment, so a resolved scenario has no grid.
    #[serde(skip_serializing)]
    #[schemars(default)]
    pub sweep: Option<SweepSection>,
    /// The origin of each value.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) document: Document,
}

impl Scenario {
    /// The scenario with every default written out, and without its sweep. Parsing it gives an
    /// equal scenario.
    pub fn to_toml(&self) -> String {
        // All fields are tables, texts, numbers and flags, which TOML can always represent.
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

    /// The keys that are set and that `engine` does not support.
    pub fn refused(&self, engine: Engine) -> Vec<Refused> {
        let mut found = Vec::new();
        self.run.refused("run", engine, &mut found);
        self.path.refused("path", engine, &mut found);
        for (number, link) in self.links.iter().enumerate() {
            link.refused(&format!("links[{number}]"), engine, &mut found);
        }
        for (number, group) in self.flows.iter().enumerate() {
            group.refused(&format!("flows[{number}]"), engine, &mut found);
        }
        for (number, event) in self.events.iter().enumerate() {
            event.refused(&format!("events[{number}]"), engine, &mut found);
        }
        found
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

    /// The total number of flows.
    pub fn flow_count(&self) -> u64 {
        self.flows.iter().map(|group| u64::from(group.count)).sum()
    }

    /// Time between rows of the samples table: as written, otherwise 10 ms, and longer, in whole
    /// milliseconds, if that would make more than [`limits::DEFAULT_SAMPLES`] rows.
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

/// The JSON Schema of the format, for editors, with a final newline.
pub fn schema_json(vocabulary: &'static Vocabulary) -> String {
    let schema = queue::with_vocabulary(vocabulary, || schemars::schema_for!(Scenario));
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}

impl Read for Scenario {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let mut table = reader.table(node, key, "a table")?;
        let schema = table.required("schema", "add the version of the format: schema = 1");
        let name = table.optional("name");
        let about = table.optional("about");
        let source = table.optional("source");
        let run = table.required("run", "say how long: [run] with duration = \"60 s\"");
        let path = table.required(
            "path",
            "describe the bottleneck: [path] with rate, rtt and queue",
        );
        let links = table.or("links", Vec::new());
        let flows: Option<Vec<FlowGroup>> =
            table.required("flows", "say who sends: [[flows]] with cc = \"bbr3\"");
        let events = table.or("events", Vec::new());
        let expect = table.or("expect", BTreeMap::new());
        let sweep = table.optional("sweep");
        table.finish();
        let mut flows = flows?;
        flows.iter_mut().for_each(FlowGroup::complete);
        Some(Self {
            schema: schema?,
            name: name.unwrap_or_else(|| reader.file_stem()),
            about,
            source,
            run: run?,
            path: path?,
            links,
            flows,
            events,
            expect,
            sweep,
            document: Document::default(),
        })
    }
}
