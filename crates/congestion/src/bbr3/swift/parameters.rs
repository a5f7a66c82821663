//! What is open in the public description of BBR.Swift, each an option;
//! `docs/concepts/bbr-swift.md` argues the defaults.

use paceline_units::{Duration, Gain, parameters};

use crate::bbr3;
use crate::options::choice;

choice! {
    /// Which round trip is held against the target.
    Signal {
        /// Without the time that the receiver says it took.
        Network = "network" default,
        /// All of it.
        Total = "total",
    }
}

choice! {
    /// What the decrease multiplies.
    ActsOn {
        /// A factor on window and pacing rate that stays, and grows back while the target is kept.
        Scale = "scale" default,
        /// The short-term bounds of the model, which the next probe for bandwidth lifts.
        Bounds = "bounds",
        /// The pacing rate and the window of this ACK alone; BBR's own stay as they are.
        Output = "output",
        /// The pacing rate of this ACK alone, and BBR's window itself, which it grows again: the cuts of a round compound.
        Stored = "stored",
    }
}

choice! {
    /// How often it decides to decrease or to grow back.
    Cadence {
        /// Once a packet-timed round.
        Round = "round" default,
        /// On every ACK.
        Ack = "ack",
    }
}

choice! {
    /// Which sample of a round stands for it.
    Sample {
        /// Their mean.
        Mean = "mean" default,
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
        Below = "below" default,
        /// In it, as in the draft: with nothing in flight a sample restarts.
        Above = "above",
    }
}

parameters! {
    /// What a scenario may set: this and all of `bbr3`'s.
    pub struct Parameters {
        /// target_RTT: the round trip to keep to; 0 leaves bbr3 as it is
        target_rtt: Micros(0, 1_000_000) = Duration::ZERO;
        /// Hold the network's part of the round trip against it, or all (open: the ablation of ETS)
        signal: Choice(Signal) = Signal::Network;
        /// Multiply a lasting factor on window and pacing rate, the model's short-term bounds, or one ACK's output
        /// (open)
        acts_on: Choice(ActsOn) = ActsOn::Output;
        /// Decide once a round, or on every ACK (open)
        cadence: Choice(Cadence) = Cadence::Ack;
        /// The RTT of a round: mean, minimum or latest of its samples (open)
        sample: Choice(Sample) = Sample::Mean;
        /// Weight of the excess in the decrease (0.8)
        md_beta: Gain(1, 4000) = Gain::from_millionths(800_000);
        /// The most that one decrease takes (0.5)
        md_max: Gain(1, 999) = Gain::from_millionths(500_000);
        /// With `scale`: packets per round trip by which rate and window recover at each decision
        /// (open)
        ai: Gain(0, 100_000) = Gain::from_millionths(50_000);
        /// Rounds above the target in a row that end Startup; 0: they do not (open; for ECN Linux has 2)
        startup_rounds: Count(0, 1000) = 2;
        /// A round above the target ends a probe for bandwidth, as high loss does (open)
        ends_probe: Flag = true;
        /// Swift's flow scaling: the most that it adds to the target of a flow with little in flight; 0: none (open)
        fs_range: Micros(0, 1_000_000) = Duration::ZERO;
        /// Whether bandwidth samples count data that waits in the pacer as sent (below, as in
        /// Linux) or start after the pacer (above) (open)
        pacer: Choice(Pacer) = Pacer::Below;
    }
    and bbr: bbr3::Parameters;
}
