//! The typed experiment: units, defaults, errors with line and column.
//!
//! A scenario is a TOML file. The structs here define its keys, their meaning and their defaults;
//! the reader, the resolved file and the JSON Schema all follow from them. Controllers, their
//! options and metrics are only named: their implementations check the names, and
//! [`Scenario::diagnostic`] shows the location.

mod app;
mod axis;
mod bounds;
mod check;
mod controller;
mod diagnostic;
mod document;
mod draw;
mod engines;
mod event;
mod expect;
mod flow;
mod host;
pub mod limits;
mod link;
mod options;
mod packets;
mod parse;
mod pulse;
mod queue;
mod reader;
mod run;
mod scenario;
mod section;
mod settings;
mod sweep;
mod values;
mod vocabulary;

pub use app::AppChange;
pub use axis::{Axis, Point};
pub use controller::{ControllerChoice, OptionInput};
pub use diagnostic::{Diagnostic, Kind};
pub use engines::{Engine, Unsupported};
pub use event::{DirectionChange, Event, FlowChange, PathChange, RateChange, ReturnChange, When};
pub use expect::{Bound, BoundUnit};
pub use flow::{AckPolicy, FlowGroup, RecoverySection};
pub use host::{Delay, Gro, HostSection};
pub use link::{
    LinkKey, LinkKeyChanges, LinkKeys, LinkSection, PathSection, PolicerChange, RateSource,
    ReturnSection,
};
pub use packets::Packets;
pub use queue::{Queue, QueueChoice};
pub use reader::nearest;
pub use run::{EmulationSection, RecordSection, RunSection};
pub use scenario::{Scenario, schema_json};
pub use settings::Settings;
pub use sweep::{Seeds, SweepSection, axes, metric_of_flow};
pub use vocabulary::Vocabulary;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
