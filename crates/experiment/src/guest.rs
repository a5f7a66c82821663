//! Controllers from outside this program, for the flows that name them.
//!
//! A scenario never says where code comes from: the caller passes [`Guests`], by the names that the
//! scenario uses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use paceline_congestion::{AnyController, Config, Controller, Recipe, Signals};
use paceline_record::GuestInfo;
use paceline_scenario::OptionInput;
use paceline_units::{Bytes, Duration, Field, Instant, Quantity, Rate};

/// A scenario's settings of a controller.
pub type Options = BTreeMap<String, OptionInput>;

/// A controller from outside this program.
pub trait Guest: Send + Sync {
    /// The guest's code. Flows refer to it by its name.
    fn info(&self) -> &GuestInfo;

    /// The guest with these options.
    ///
    /// # Errors
    /// The error in them, or in the guest.
    fn prepare(&self, options: &Options) -> Result<Arc<dyn Prepared>, Refused>;
}

/// A guest with its options, from which any number of instances can be made.
pub trait Prepared: Send + Sync {
    /// The fields of its displayed state, in order.
    fn fields(&self) -> &[Field];

    /// The states of its state machine.
    fn phases(&self) -> &[&'static str];

    /// A new instance, which reports later failures to `fault`.
    ///
    /// # Errors
    /// Why there is none.
    fn build(
        &self,
        config: &Config,
        signals: Signals,
        fault: &Fault,
    ) -> Result<GuestController, String>;
}

/// Why a guest cannot be used as a scenario asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// The option concerned, if it is one.
    pub option: Option<String>,
    /// The error.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

/// The first failure of a guest in a run.
#[derive(Clone, Debug, Default)]
pub struct Fault(Arc<OnceLock<String>>);

impl Fault {
    /// Ends the run for this reason, unless it already has one.
    pub fn report(&self, what: String) {
        // The first counts.
        let _ = self.0.set(what);
    }

    /// The failure.
    pub fn seen(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

/// Guests by their names.
#[derive(Clone, Default)]
pub struct Guests(BTreeMap<String, Arc<dyn Guest>>);

impl Guests {
    /// No guests.
    pub fn none() -> Self {
        Self::default()
    }

    /// With one more, under the name in its [`Guest::info`].
    #[must_use]
    pub fn with(mut self, guest: Arc<dyn Guest>) -> Self {
        self.0.insert(guest.info().name.clone(), guest);
        self
    }

    /// The guest of this name.
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Guest>> {
        self.0.get(name)
    }

    /// Their names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// A name that lives as long as the process. There are as many as guests have names of fields and
/// states.
pub fn interned(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let leaked: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(leaked);
    leaked
}

/// A field of a guest's state, whose name ends in its unit.
pub fn guest_field(name: &str, is_flag: bool) -> Field {
    let ends = |suffix| name.ends_with(suffix);
    let quantity = match () {
        () if ends("_bytes") => Quantity::Bytes,
        () if ends("_bps") => Quantity::Rate,
        () if ends("_ns") => Quantity::Duration,
        () if ends("_packets") => Quantity::Packets,
        () if is_flag => Quantity::Flag,
        () => Quantity::Number,
    };
    Field {
        name: interned(name),
        quantity,
    }
}

/// The connection of an instance that only serves to describe a guest.
pub fn guest_trial() -> Config {
    Config {
        mss: 1448,
        initial_window: Bytes::new(14_480),
        seed: 1,
        now: Instant::ZERO,
        srtt: Some(Duration::from_millis(40)),
        has_selective_acks: true,
    }
}

/// An instance of a guest.
pub type GuestController = Box<dyn Controller + Send>;

/// The burst limit of a guest that sets no quantum: Linux's 1 ms at the pacing rate, at most 64
/// KiB; at least two packets. Without a pacing rate it is the whole window.
pub fn guest_quantum(cwnd: Bytes, pacing: Option<Rate>, mss: u32) -> Bytes {
    /// Linux's largest segment.
    const MOST: Bytes = Bytes::new(65_536);
    match pacing {
        None => cwnd.max(MOST),
        Some(rate) => (rate.volume_in(Duration::from_millis(1)))
            .min(MOST)
            .max(Bytes::new(2 * u64::from(mss))),
    }
}

/// Any controller that a flow of this program's transport can have.
pub type FlowController = AnyController<GuestController>;

/// The controller of a group of flows, checked and ready to be made.
#[derive(Clone)]
pub enum Choice {
    /// One of this program's.
    Ours(Recipe),
    /// The one of that name of the flow's own stack.
    Theirs(&'static str),
    /// A guest.
    Guest(GuestInfo, Arc<dyn Prepared>),
}

impl Choice {
    /// The recipe, if it is one of this program's.
    pub fn recipe(&self) -> Option<&Recipe> {
        match self {
            Self::Ours(recipe) => Some(recipe),
            Self::Theirs(_) | Self::Guest(..) => None,
        }
    }

    /// The fields of its displayed state.
    pub fn fields(&self) -> Vec<Field> {
        match self {
            Self::Ours(recipe) => {
                let mut fields = Vec::new();
                recipe.visit_fields(&mut |field| fields.push(field));
                fields
            }
            // A controller on another stack shows only the columns that all have.
            Self::Theirs(_) => Vec::new(),
            Self::Guest(_, guest) => guest.fields().to_vec(),
        }
    }

    /// A new instance for a transport that gives these signals.
    ///
    /// # Errors
    /// Why a guest cannot make one, or that it is a stack's own.
    pub fn build(
        &self,
        config: &Config,
        signals: Signals,
        fault: &Fault,
    ) -> Result<FlowController, String> {
        match self {
            Self::Ours(recipe) => Ok(recipe.build_beside(config)),
            Self::Theirs(name) => Err(format!("`{name}` runs on its own stack")),
            Self::Guest(_, guest) => Ok(AnyController::Guest(guest.build(config, signals, fault)?)),
        }
    }
}

/// The guests among these, each once, by name.
pub fn used(choices: &[Choice]) -> Vec<GuestInfo> {
    let guests = choices.iter().filter_map(|choice| match choice {
        Choice::Guest(info, _) => Some((&info.name, info)),
        Choice::Ours(_) | Choice::Theirs(_) => None,
    });
    let by_name: BTreeMap<_, _> = guests.collect();
    by_name.into_values().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_a_millisecond_within_bounds() {
        let window = Bytes::new(14_480);
        let paced = |mbps: u64| guest_quantum(window, Some(Rate::from_bps(mbps * 1_000_000)), 1448);
        assert_eq!(paced(80), Bytes::new(10_000));
        assert_eq!(paced(1), Bytes::new(2 * 1448));
        assert_eq!(paced(10_000), Bytes::new(65_536));
        assert_eq!(guest_quantum(window, None, 1448), Bytes::new(65_536));
        let wide = Bytes::new(1_000_000);
        assert_eq!(guest_quantum(wide, None, 1448), wide);
    }
}
