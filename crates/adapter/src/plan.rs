//! How a stack's factory makes the controllers of its connections.

use std::fmt;
use std::time;

use paceline_congestion::{AnyController, Config, Recipe, Signals, Unmet, recipe};
use paceline_units::{Bytes, Duration, Instant};

use crate::path::Path;

/// Why a controller cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerError {
    /// No controller has this name.
    Unknown,
    /// It needs a signal or a service that the stack does not provide.
    Unmet(Unmet),
}

impl fmt::Display for ControllerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no controller of that name"),
            Self::Unmet(unmet) => unmet.fmt(f),
        }
    }
}

impl std::error::Error for ControllerError {}

/// The controllers that a factory makes.
#[derive(Clone, Debug)]
pub struct Plan {
    recipe: Recipe,
    /// The seed of the controllers' own draws.
    pub seed: u64,
    /// The initial window in full packets.
    pub initial_packets: u64,
}

/// A path, the clock that began with it, and its initial window.
#[derive(Clone, Debug)]
pub struct Begun {
    /// The path.
    pub path: Path<AnyController>,
    /// Converts the stack's time to ours.
    pub clock: Clock,
    /// The initial window in bytes.
    pub initial_window: u64,
}

impl Plan {
    /// The controller of this name, with its defaults, on a stack with `signals`.
    ///
    /// # Errors
    /// If it does not exist, or needs a signal that the stack does not give.
    pub fn named(name: &str, signals: Signals) -> Result<Self, ControllerError> {
        Self::new(
            recipe(name, &[]).map_err(|_| ControllerError::Unknown)?,
            signals,
        )
    }

    /// A controller on a stack with `signals`. Its seed is 0, its initial window ten packets (RFC 9002 section 7.2).
    ///
    /// # Errors
    /// If it needs a signal that the stack does not give.
    pub fn new(recipe: Recipe, signals: Signals) -> Result<Self, ControllerError> {
        recipe.check(signals).map_err(ControllerError::Unmet)?;
        Ok(Self {
            recipe,
            seed: 0,
            initial_packets: 10,
        })
    }

    /// A controller for full packets of `mtu` bytes, whose time begins at [`Plan::ORIGIN`], and its initial window in bytes.
    pub fn build(&self, mtu: u16) -> (AnyController, u64) {
        let mss = u32::from(mtu);
        let initial_window = u64::from(mss) * self.initial_packets;
        let controller = self.recipe.build(&Config {
            mss,
            initial_window: Bytes::new(initial_window),
            seed: self.seed,
            now: Self::ORIGIN,
            srtt: None,
            has_selective_acks: true,
        });
        (controller, initial_window)
    }

    /// A new path whose full packets have `mtu` bytes.
    pub fn begin(&self, now: time::Instant, mtu: u16) -> Begun {
        let (controller, initial_window) = self.build(mtu);
        Begun {
            path: Path::new(controller, mtu.into()),
            clock: Clock(now),
            initial_window,
        }
    }

    /// The start time of a path: packets sent before it do not belong to the path.
    pub const ORIGIN: Instant = Instant::from_nanos(1);
}

/// The instants of the standard library, relative to the start of a path.
#[derive(Clone, Copy, Debug)]
pub struct Clock(time::Instant);

impl Clock {
    /// `instant` on our clock.
    pub fn at(&self, instant: time::Instant) -> Instant {
        let since = instant.saturating_duration_since(self.0).as_nanos();
        Plan::ORIGIN + Duration::from_nanos(u64::try_from(since).unwrap_or(u64::MAX))
    }
}

/// `signals` as in the README of an adapter for `stack`: a table in Markdown.
pub fn table(signals: Signals, stack: &str) -> String {
    let mut table = format!("| signal | what is reported or done | {stack} |\n|---|---|---|\n");
    signals.visit(&mut |name, says, given| {
        let says = says.replace("\n ", " ");
        let given = if given { "yes" } else { "no" };
        table.push_str(&format!("| `{name}` | {says} | {given} |\n"));
    });
    table
}
