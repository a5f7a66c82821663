//! The open points of the public description of BBR.Swift, each an option;
//! `docs/concepts/bbr-swift.md` explains the defaults.

use paceline_units::{Duration, Gain, parameters};

use crate::bbr3;
use crate::options::choice;

choice! {
    /// The RTT that is compared with the target.
    pub enum Signal {
        /// Without the receiver's delay, as reported by the receiver.
        Network = "network" default,
        /// The complete RTT.
        Total = "total",
    }
}

choice! {
    /// The origin of the target.
    pub enum TargetRule {
        /// The configured one.
        Fixed = "fixed" default,
        /// The RTT at the boundary of ECN marking, from the first mark on.
        Marks = "marks",
    }
}

choice! {
    /// What the decrease multiplies.
    pub enum ActsOn {
        /// A lasting factor on window and pacing rate, which grows back while the RTT is at or
        /// below the target.
        Scale = "scale" default,
        /// The short-term bounds of the model, which the next bandwidth probe resets.
        Bounds = "bounds",
        /// The pacing rate and the window of this ACK only; BBR's own stay unchanged.
        Output = "output",
        /// The pacing rate of this ACK only, and BBR's window itself, which BBR grows again: the
        /// cuts of a round compound.
        Stored = "stored",
    }
}

choice! {
    /// How often it decides to decrease or to grow back.
    pub enum Cadence {
        /// Once a packet-timed round.
        Round = "round" default,
        /// On every ACK.
        Ack = "ack",
    }
}

choice! {
    /// The value that represents a round.
    pub enum Sample {
        /// Their mean.
        Mean = "mean" default,
        /// The minimum.
        Min = "min",
        /// The last.
        Latest = "latest",
    }
}

choice! {
    /// The position of the pacer relative to the bandwidth samples.
    pub enum Pacer {
        /// Below the transport, like Linux's fq: a packet waiting there counts as sent.
        Below = "below" default,
        /// In the transport, as in the draft: with nothing in flight a sample restarts.
        Above = "above",
    }
}

parameters! {
    /// The options that a scenario may set: these and all of `bbr3`'s.
    pub struct Parameters {
        /// target_RTT: the round trip to keep to; 0 leaves bbr3 as it is
        target_rtt: Micros(0, 1_000_000) = Duration::ZERO;
        /// marks: send ECT(0), and set the target to the RTT at the boundary of ECN marking (explored by
        /// the source, without a method): a marked packet with a smaller RTT lowers it, an unmarked one
        /// with a greater RTT raises it, by 1/16 of the difference; target_rtt is the first
        target_rule: Choice(TargetRule) = TargetRule::Fixed;
        /// With marks: the target as a fraction of that RTT
        boundary_share: Gain(100, 1000) = Gain::ONE;
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
        /// The maximum reduction of one decrease (0.5)
        md_max: Gain(1, 999) = Gain::from_millionths(500_000);
        /// With `scale`: packets per round trip by which rate and window recover at each decision
        /// (open)
        ai: Gain(0, 100_000) = Gain::from_millionths(50_000);
        /// Number of consecutive rounds above the target that end Startup; 0: they do not (open;
        /// for ECN Linux uses 2)
        startup_rounds: Count(0, 1000) = 2;
        /// A round above the target ends a probe for bandwidth, as high loss does (open)
        ends_probe: Flag = true;
        /// Swift's flow scaling: the maximum addition to the target of a flow with little in
        /// flight; 0: none (open)
        fs_range: Micros(0, 1_000_000) = Duration::ZERO;
        /// Whether bandwidth samples count data waiting in the pacer as sent (below, as in Linux)
        /// or start after the pacer (above) (open)
        pacer: Choice(Pacer) = Pacer::Below;
    }
    and bbr: bbr3::Parameters;
}
