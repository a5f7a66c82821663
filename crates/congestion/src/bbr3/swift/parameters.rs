//! What is open in the public description of BBR.Swift, each an option;
//! `docs/concepts/bbr-swift.md` argues the defaults.

use paceline_units::{Duration, Gain};

use crate::bbr3;
use crate::options::{OptionInfo, OptionSpec, choice, option};

choice! {
    /// Which round trip is held against the target.
    Signal {
        /// Without the time that the receiver says it took.
        Network = "network",
        /// All of it.
        Total = "total",
    }
}

choice! {
    /// What the decrease multiplies.
    ActsOn {
        /// A factor on window and pacing rate that stays, and grows back while the target is kept.
        Scale = "scale",
        /// The short-term bounds of the model, which the next probe for bandwidth lifts.
        Bounds = "bounds",
        /// The pacing rate of this ACK alone, and the window, which BBR grows again.
        Output = "output",
    }
}

choice! {
    /// How often it decides to decrease or to grow back.
    Cadence {
        /// Once a packet-timed round.
        Round = "round",
        /// On every ACK.
        Ack = "ack",
    }
}

choice! {
    /// Which sample of a round stands for it.
    Sample {
        /// Their mean.
        Mean = "mean",
        /// The least.
        Min = "min",
        /// The last.
        Latest = "latest",
    }
}

choice! {
    /// Where the pacer is, as seen from bandwidth samples.
    Pacer {
        /// Below the transport, as Linux's fq: what waits there counts as sent.
        Below = "below",
        /// In it, as in the draft: with nothing in flight a sample begins anew.
        Above = "above",
    }
}

/// What a scenario may set: this and all of `bbr3`'s.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each field is documented in OPTIONS below")]
pub struct Parameters {
    pub bbr: bbr3::Parameters,
    pub target_rtt: Duration,
    pub signal: Signal,
    pub acts_on: ActsOn,
    pub cadence: Cadence,
    pub sample: Sample,
    pub md_beta: Gain,
    pub md_max: Gain,
    pub ai: Gain,
    pub startup_rounds: u32,
    pub ends_probe: bool,
    pub fs_range: Duration,
    pub pacer: Pacer,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            bbr: bbr3::Parameters::default(),
            target_rtt: Duration::ZERO,
            signal: Signal::Network,
            acts_on: ActsOn::Output,
            cadence: Cadence::Ack,
            sample: Sample::Mean,
            md_beta: Gain::from_millionths(800_000),
            md_max: Gain::from_millionths(500_000),
            ai: Gain::from_millionths(50_000),
            startup_rounds: 2,
            ends_probe: true,
            fs_range: Duration::ZERO,
            pacer: Pacer::Below,
        }
    }
}

impl crate::options::Parameters for Parameters {
    const OPTIONS: &'static [OptionSpec<Self>] = &[
        option!(
            target_rtt,
            p.target_rtt,
            Micros(0, 1_000_000),
            "target_RTT: the round trip to keep to; 0 leaves bbr3 as it is"
        ),
        option!(
            signal,
            p.signal,
            Choice(Signal),
            "Hold the network's part of the round trip against it, or all (open: the ablation of ETS)"
        ),
        option!(
            acts_on,
            p.acts_on,
            Choice(ActsOn),
            "Multiply a lasting factor on window and pacing rate, the model's short-term bounds, or one ACK's output (open)"
        ),
        option!(
            cadence,
            p.cadence,
            Choice(Cadence),
            "Decide once a round, or on every ACK (open)"
        ),
        option!(
            sample,
            p.sample,
            Choice(Sample),
            "What stands for a round: the mean of its samples, the least or the last (open)"
        ),
        option!(
            md_beta,
            p.md_beta,
            Gain(1, 4000),
            "Weight of the excess in the decrease (0.8)"
        ),
        option!(
            md_max,
            p.md_max,
            Gain(1, 999),
            "The most that one decrease takes (0.5)"
        ),
        option!(
            ai,
            p.ai,
            Gain(0, 100_000),
            "With `scale`: packets a round trip by which rate and window grow back at each decision (open)"
        ),
        option!(
            startup_rounds,
            p.startup_rounds,
            Count(0, 1000),
            "Rounds above the target in a row that end Startup; 0: they do not (open; for ECN Linux has 2)"
        ),
        option!(
            ends_probe,
            p.ends_probe,
            Flag,
            "A round above the target ends a probe for bandwidth, as high loss does (open)"
        ),
        option!(
            fs_range,
            p.fs_range,
            Micros(0, 1_000_000),
            "Swift's flow scaling: the most that it adds to the target of a flow with little in flight; 0: none (open)"
        ),
        option!(
            pacer,
            p.pacer,
            Choice(Pacer),
            "Bandwidth samples count what waits in the pacer as sent, or begin anew after it (open; Linux: below)"
        ),
    ];

    /// Its own options, then those of `bbr3`.
    fn info(index: usize) -> Option<OptionInfo> {
        match Self::OPTIONS.get(index) {
            Some(option) => Some(OptionInfo {
                name: option.name,
                kind: option.kind,
                doc: option.doc,
                default: (option.get)(&Self::default()),
            }),
            None => bbr3::Parameters::info(index - Self::OPTIONS.len()),
        }
    }

    fn with(options: &[(&str, crate::options::OptionValue)]) -> Result<Self, usize> {
        let mut parameters = Self::default();
        for (index, (name, value)) in options.iter().enumerate() {
            let own = Self::OPTIONS
                .iter()
                .find(|option| option.name == *name && option.kind.accepts(value));
            if let Some(option) = own {
                (option.set)(&mut parameters, *value);
                continue;
            }
            let option = bbr3::Parameters::OPTIONS
                .iter()
                .find(|option| option.name == *name && option.kind.accepts(value))
                .ok_or(index)?;
            (option.set)(&mut parameters.bbr, *value);
        }
        Ok(parameters)
    }
}
