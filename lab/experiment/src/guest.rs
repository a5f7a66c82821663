//! Controllers from outside this program, for the flows that name them.
//!
//! A scenario never says where code comes from: the caller passes [`Guests`], by the names that the
//! scenario uses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use paceline_congestion::{AnyController, Config, Controller, Recipe, Signals};
use paceline_endpoint::Endpoint;
use paceline_record::GuestInfo;
use paceline_scenario::OptionInput;
use paceline_units::{Bytes, Duration, Field, Instant, Quantity, Rate};

use crate::network::seed_of;

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
    fn prepare(&self, options: &Options) -> Result<Arc<dyn Prepared>, GuestError>;
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

/// A transport that is not of this program.
pub trait GuestStack: Send + Sync {
    /// The guest's code. Controllers of its own are named `NAME:CONTROLLER`.
    fn info(&self) -> &GuestInfo;

    /// The names of its controllers, none if it does not say.
    fn controllers(&self) -> &[&'static str];

    /// Whether its ends report the states of their controllers.
    fn reports_states(&self) -> bool;

    /// One end of a connection.
    ///
    /// # Errors
    /// Why it refuses the controller, the options or the rest.
    fn end(&self, config: &GuestEndConfig<'_>) -> Result<GuestEnd, String>;
}

/// The configuration of an end of a guest's transport.
#[derive(Clone, Copy, Debug)]
pub struct GuestEndConfig<'a> {
    /// Whether it is the end that sends.
    pub sends: bool,
    /// The maximum UDP payload of a packet, in bytes.
    pub max_datagram: u32,
    /// Seed of the end's own draws.
    pub seed: u64,
    /// The time at which the flow starts.
    pub now: Instant,
    /// The controller that the scenario names.
    pub controller: &'a str,
    /// What the scenario sets of it.
    pub options: &'a Options,
}

/// One end of a connection of a guest's transport.
pub type GuestEnd = Box<dyn Endpoint<Payload = Vec<u8>> + Send>;

/// A guest's transport with one of its controllers, checked and ready to be made.
#[derive(Clone)]
pub struct GuestFlow {
    stack: Arc<dyn GuestStack>,
    controller: String,
    options: Arc<Options>,
}

impl GuestFlow {
    /// The transport with a controller, of which both ends have been made once.
    ///
    /// # Errors
    /// Why it makes none.
    pub fn new(
        stack: &Arc<dyn GuestStack>,
        controller: &str,
        options: &Options,
    ) -> Result<Self, String> {
        /// An Ethernet frame's.
        const TRIAL: u32 = 1472;
        let flow = Self {
            stack: Arc::clone(stack),
            controller: controller.to_owned(),
            options: Arc::new(options.clone()),
        };
        flow.ends(1, Instant::ZERO, TRIAL).map(|_| flow.clone())
    }

    /// Whether its ends report the states of the controller.
    pub fn reports_states(&self) -> bool {
        self.stack.reports_states()
    }

    /// The end that sends, and the one that receives.
    ///
    /// # Errors
    /// Why it makes none.
    pub fn ends(
        &self,
        seed: u64,
        now: Instant,
        max_datagram: u32,
    ) -> Result<(GuestEnd, GuestEnd), String> {
        let end = |sends| self.end(sends, seed, now, max_datagram);
        Ok((end(true)?, end(false)?))
    }

    /// One of them.
    ///
    /// # Errors
    /// Why it makes none.
    pub fn end(
        &self,
        sends: bool,
        seed: u64,
        now: Instant,
        max_datagram: u32,
    ) -> Result<GuestEnd, String> {
        self.stack.end(&GuestEndConfig {
            sends,
            max_datagram,
            // Equal draws of both ends would look like one.
            seed: seed_of(seed, u64::from(sends)),
            now,
            controller: &self.controller,
            options: &self.options,
        })
    }
}

/// Why a guest cannot be used as a scenario does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestError {
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
    pub fn message(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

/// Guests by their names.
#[derive(Clone, Default)]
pub struct Guests {
    controllers: BTreeMap<String, Arc<dyn Guest>>,
    stacks: BTreeMap<String, Arc<dyn GuestStack>>,
}

impl Guests {
    /// No guests.
    pub fn none() -> Self {
        Self::default()
    }

    /// With one more, under the name in its [`Guest::info`].
    #[must_use]
    pub fn with(mut self, guest: Arc<dyn Guest>) -> Self {
        self.controllers.insert(guest.info().name.clone(), guest);
        self
    }

    /// With one more transport, called as its [`GuestStack::info`] says.
    #[must_use]
    pub fn with_stack(mut self, stack: Arc<dyn GuestStack>) -> Self {
        self.stacks.insert(stack.info().name.clone(), stack);
        self
    }

    /// The controller of this name.
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Guest>> {
        self.controllers.get(name)
    }

    /// The transport of this name.
    pub fn find_stack(&self, name: &str) -> Option<&Arc<dyn GuestStack>> {
        self.stacks.get(name)
    }

    /// The names of the controllers, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.controllers.keys().map(String::as_str)
    }

    /// The names of the transports, sorted.
    pub fn stacks(&self) -> impl Iterator<Item = &str> {
        self.stacks.keys().map(String::as_str)
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

/// The bandwidth that the controller of a guest's transport assumes; `bbr3` calls it the same.
pub const BANDWIDTH: Field = Field {
    name: "bw",
    quantity: Quantity::Rate,
};

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
    /// A guest's transport, with a controller of its own.
    GuestFlow(GuestInfo, GuestFlow),
}

impl Choice {
    /// The recipe, if it is one of this program's.
    pub fn recipe(&self) -> Option<&Recipe> {
        match self {
            Self::Ours(recipe) => Some(recipe),
            Self::Theirs(_) | Self::Guest(..) | Self::GuestFlow(..) => None,
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
            // Of a controller on another stack nothing is shown beyond the columns that all have.
            Self::Theirs(_) => Vec::new(),
            Self::GuestFlow(..) => vec![BANDWIDTH],
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
            Self::GuestFlow(info, _) => Err(format!("`{}` is a stack", info.name)),
            Self::Guest(_, guest) => Ok(AnyController::Guest(guest.build(config, signals, fault)?)),
        }
    }
}

/// The guests among these, each once, by name.
pub fn used<'a>(choices: impl IntoIterator<Item = &'a Choice>) -> Vec<GuestInfo> {
    let guests = choices.into_iter().filter_map(|choice| match choice {
        Choice::Guest(info, _) | Choice::GuestFlow(info, _) => Some((&info.name, info)),
        Choice::Ours(_) | Choice::Theirs(_) => None,
    });
    let by_name: BTreeMap<_, _> = guests.collect();
    by_name.into_values().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Stack(GuestInfo, Mutex<Vec<u64>>);

    impl GuestStack for Stack {
        fn info(&self) -> &GuestInfo {
            &self.0
        }

        fn controllers(&self) -> &[&'static str] {
            &[]
        }

        fn reports_states(&self) -> bool {
            false
        }

        fn end(&self, config: &GuestEndConfig<'_>) -> Result<GuestEnd, String> {
            self.1.lock().unwrap().push(config.seed);
            match config.sends {
                true => Ok(Box::new(Mute)),
                false => Err("it does not receive".to_owned()),
            }
        }
    }

    struct Mute;

    impl Endpoint for Mute {
        type Payload = Vec<u8>;

        fn receive(&mut self, _: Instant, _: paceline_endpoint::Datagram<Vec<u8>>) {}
        fn on_timer(&mut self, _: Instant) {}
        fn poll_transmit(&mut self, _: Instant) -> Option<paceline_endpoint::Batch<Vec<u8>>> {
            None
        }
        fn next_timer(&mut self) -> Option<Instant> {
            None
        }
        fn write(&mut self, _: Instant, _: paceline_endpoint::Write) {}
        fn delivered(&self) -> u64 {
            0
        }
        fn stats(&self) -> paceline_endpoint::Stats {
            paceline_endpoint::Stats::default()
        }
    }

    #[test]
    fn both_ends_of_a_guest_are_tried_with_seeds_of_their_own() {
        let text = || String::from("x");
        let info = GuestInfo {
            name: text(),
            language: text(),
            file: text(),
            sha256: text(),
        };
        let stack = Arc::new(Stack(info, Mutex::default()));
        let given: Arc<dyn GuestStack> = Arc::<Stack>::clone(&stack);
        let error = GuestFlow::new(&given, "any", &Options::new());
        assert_eq!(error.err().as_deref(), Some("it does not receive"));
        let seeds = stack.1.lock().unwrap();
        assert_eq!(seeds.len(), 2);
        assert_ne!(seeds[0], seeds[1]);
    }

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
