//! A scenario: its contents, and queries on it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paceline_units::Duration;
use schemars::JsonSchema;
use serde::Serialize;

use crate::diagnostic::{Diagnostic, Kind};
use crate::document::{Document, Node, Origin};
use crate::engines::{Engine, Unsupported};
use crate::event::Event;
use crate::expect::Bound;
use crate::flow::FlowGroup;
use crate::limits;
use crate::link::{LinkKeys, LinkSection, PathSection, RateSource, ReturnSection};
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
    pub fn unsupported(&self, engine: Engine) -> Vec<Unsupported> {
        let mut unsupported = Vec::new();
        self.run.find_unsupported("run", engine, &mut unsupported);
        self.path.find_unsupported("path", engine, &mut unsupported);
        for (number, link) in self.links.iter().enumerate() {
            link.find_unsupported(&format!("links[{number}]"), engine, &mut unsupported);
        }
        for (number, group) in self.flows.iter().enumerate() {
            group.find_unsupported(&format!("flows[{number}]"), engine, &mut unsupported);
        }
        for (number, event) in self.events.iter().enumerate() {
            event.find_unsupported(&format!("events[{number}]"), engine, &mut unsupported);
        }
        unsupported
    }

    /// The capacity trace of a link or of a return direction, by its number: its key, and the file,
    /// relative to the scenario's folder when the scenario names it, as given when an override does.
    pub fn trace_of(&self, number: usize) -> Option<(String, PathBuf)> {
        let RateSource::Trace { trace } = self.rate_source(number)? else {
            return None;
        };
        let key = format!("{}.rate.trace", self.link_key(number));
        let path = match self.document.locate(&key) {
            Origin::Override(_) => trace,
            Origin::File(_) => Path::new(&self.document.file)
                .parent()
                .unwrap_or(Path::new(""))
                .join(trace),
        };
        Some((key, path))
    }

    /// The files of all capacity traces, with their keys.
    pub fn traces(&self) -> impl Iterator<Item = (String, PathBuf)> {
        (0..self.link_count()).filter_map(|number| self.trace_of(number))
    }

    /// The number of links, that of the path and return directions included.
    pub fn link_count(&self) -> usize {
        1 + self.links.len() + self.returns().count()
    }

    /// The number of a link by its name: 0 is that of the path, `[[links]]` follow.
    pub fn link_number(&self, name: &str) -> Option<usize> {
        let others = self.links.iter().map(|link| &link.name);
        std::iter::once(&self.path.name)
            .chain(others)
            .position(|known| known == name)
    }

    /// The return directions: the number of each link that has one, and the section.
    pub fn returns(&self) -> impl Iterator<Item = (usize, &ReturnSection)> {
        let others = self.links.iter().map(|link| &link.r#return);
        std::iter::once(&self.path.r#return)
            .chain(others)
            .enumerate()
            .filter_map(|(link, section)| Some((link, section.as_ref()?)))
    }

    /// The number of the return direction of a link, by its number: those follow all links.
    pub fn return_number(&self, link: usize) -> Option<usize> {
        let place = self.returns().position(|(of, _)| of == link)?;
        Some(1 + self.links.len() + place)
    }

    /// The name of a link or of a return direction, by its number, in plots.
    pub fn link_title(&self, number: usize) -> String {
        let other = number.checked_sub(1).and_then(|n| self.links.get(n));
        match (self.return_at(number), other) {
            (Some((link, _)), _) => format!("{} return", self.link_title(link)),
            (None, other) => other.map_or(&self.path.name, |link| &link.name).clone(),
        }
    }

    /// The number of the link whose return direction has this number.
    pub fn return_of(&self, number: usize) -> Option<usize> {
        self.return_at(number).map(|(link, _)| link)
    }

    fn return_at(&self, number: usize) -> Option<(usize, &ReturnSection)> {
        self.returns()
            .nth(number.checked_sub(1 + self.links.len())?)
    }

    /// The capacity of a link or of a return direction, by its number; none if it is unlimited.
    pub fn rate_source(&self, number: usize) -> Option<RateSource> {
        match (number.checked_sub(1), self.return_at(number)) {
            (None, _) => Some(self.path.rate.clone()),
            (_, Some((_, back))) => back.rate.clone(),
            (Some(other), None) => Some(RateSource::Fixed(self.links.get(other)?.rate)),
        }
    }

    /// The keys of a link or of a return direction, by its number.
    pub fn link_keys(&self, number: usize) -> &LinkKeys {
        let other = number.checked_sub(1).and_then(|n| self.links.get(n));
        match (self.return_at(number), other) {
            (Some((_, back)), _) => &back.link,
            (None, Some(link)) => &link.link,
            (None, None) => &self.path.link,
        }
    }

    /// The key of the table of a link or of a return direction, by its number.
    fn link_key(&self, number: usize) -> String {
        match (number.checked_sub(1), self.return_at(number)) {
            (None, _) => "path".to_owned(),
            (_, Some((link, _))) => format!("{}.return", self.link_key(link)),
            (Some(other), None) => format!("links[{other}]"),
        }
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
