//! BBRv1 with fair-share pacing: strict packet conservation in recovery, and a bandwidth filter
//! that restarts from the rate measured in recovery ("Pacing at the fair-share of the bottleneck
//! bandwidth without explicit network-level feedback", trueux.net, 2021).
//!
//! Each part can be turned off; with all of them off this is `bbr1`. `docs/concepts/fair-share.md`
//! lists the points that the article leaves open.

use paceline_units::parameters;

use super::super::arithmetic::{BBR_UNIT, BW_UNIT, UNSET, before, scaled};
use super::super::minmax::WindowedMax;
use super::super::socket::in_recovery;
use super::super::{Adapter, Algorithm, Field, LostPacket, Random, RateSample, Socket};
use super::{BW_RTTS, Mode};
use crate::options::choice;
use crate::state::state;
use crate::{CaState, Described, Signals};

parameters! {
    /// The options; the defaults are the whole proposal.
    pub struct Parameters {
        /// In recovery, pace nothing and send one packet for each delivered one
        conservation: Flag = true;
        /// Fraction of the data in flight at a loss down to which nothing is sent; with 1 sending
        /// never stops
        hold: In256ths(0, 256) = BBR_UNIT / 2;
        /// Leave recovery with the window that is in flight then, not with the previous one
        restore_in_flight: Flag = true;
        /// Leave recovery with a bandwidth filter that contains only in-flight / min RTT
        reseed: Flag = true;
        /// With the new bandwidth the pipe counts as full
        reseed_ends_startup: Flag = true;
        /// Percent by which the pacing rate is reduced below the bandwidth once the pipe is full
        /// (the article: 10 to 15; bbr1: 1)
        pacing_margin_percent: Count(0, 50) = 10;
        /// The same until the pipe is full
        startup_margin_percent: Count(0, 50) = 10;
        /// Window of PROBE_RTT in BDPs; 0 is bbr1's four packets
        probe_rtt_cwnd_gain: In256ths(0, 256) = BBR_UNIT / 2;
        /// Detect token-bucket policers and send at their rate, as bbr1 does
        lt_bw: Flag = true;
        /// Send ECT(0), and treat a congestion mark as a loss
        ecn: Flag = false;
        /// Treat a round as congested, as by a mark, if its minimum RTT exceeds the min RTT by more
        /// than this fraction of it; 0 disables it (the article's next step: other signals of an
        /// impending congestion event)
        delay_threshold: In256ths(0, 1023) = 0;
    }
}

/// `bbr1-fair` as a controller.
pub type Bbr1Fair = Adapter<Core>;

choice! {
    /// The phase of recovery.
    enum Stage {
        /// Nothing is sent: the queue drains.
        Hold = "RECOVERY_HOLD",
        /// One packet is sent for each one delivered.
        Fast = "RECOVERY_FAST",
    }
}

/// From a congestion signal until everything sent before it is resolved.
#[derive(Clone, Copy, Debug)]
struct Episode {
    stage: Stage,
    max_packets_out: u32,
    /// Whether an ACK has been conserved in it: after a loss that a probe repaired there is none.
    has_acks: bool,
    /// The number of packets delivered or lost at which it ends, if a mark began it.
    marked_until: Option<u32>,
}

/// The state of `bbr1-fair`.
#[derive(Clone, Debug)]
pub struct Core {
    parameters: Parameters,
    bbr: super::Core,
    episode: Option<Episode>,
    /// The stack has left recovery; the ACK in progress ends the episode.
    is_leaving: bool,
    /// Packets in flight before the first loss of an episode yet to begin.
    packets_out: u32,
    max_packets_delivered: u32,
    /// The minimum RTT of this round, and the count of delivered packets that ends it.
    round_rtt_us: u32,
    round_end: u32,
}

impl Core {
    fn least_cwnd(&self) -> u32 {
        self.bbr.parameters.cwnd_min_target
    }

    fn begin(&mut self, sk: &mut Socket, max_packets_out: u32, marked_until: Option<u32>) {
        self.episode = Some(Episode {
            stage: Stage::Hold,
            max_packets_out: max_packets_out.max(sk.packets_in_flight),
            has_acks: false,
            marked_until,
        });
        self.packets_out = 0;
        self.send_nothing(sk);
    }

    /// Closes the window, so that a loss does not allow sending.
    fn send_nothing(&self, sk: &mut Socket) {
        if self.parameters.conservation {
            sk.cwnd = sk.cwnd.min(sk.packets_in_flight.max(1));
        }
    }

    /// The episode ends with the data in flight now, after a packet has been sent for each of the
    /// `acked` ones: that amount fills the fair share of the path and its queue.
    fn end(&mut self, sk: &mut Socket, acked: u32, app_limited: bool) {
        self.episode = None;
        self.is_leaving = false;
        let least = self.least_cwnd();
        self.max_packets_delivered = sk.packets_in_flight.saturating_add(acked).max(least);
        let min_rtt = self.bbr.min_rtt_us;
        // For an application-limited flow it says nothing; and a rate needs an RTT.
        if self.parameters.reseed && !app_limited && min_rtt != UNSET {
            let packets = u64::from(self.max_packets_delivered) * BW_UNIT;
            let rate = packets / u64::from(min_rtt.max(1));
            self.bbr.bw = WindowedMax::default();
            let rate = u32::try_from(rate).unwrap_or(UNSET - 1);
            self.bbr.bw.update(BW_RTTS, self.bbr.rtt_cnt, rate);
            self.bbr.policer.reset(sk);
            self.bbr.full_bw_reached |= self.parameters.reseed_ends_startup;
        }
        if self.parameters.restore_in_flight {
            // The growth of this ACK makes it max_packets_delivered.
            sk.cwnd = sk.packets_in_flight.max(least);
            self.bbr.prior_cwnd = sk.cwnd;
            self.bbr.prev_ca_state = CaState::Open;
        }
    }

    /// At the end of a round: whether all of its RTTs say that a queue stands.
    fn is_delayed(&mut self, sk: &Socket, rs: &RateSample) -> bool {
        let threshold = self.parameters.delay_threshold;
        if threshold == 0 {
            return false;
        }
        if let Ok(rtt) = u32::try_from(rs.rtt_us) {
            self.round_rtt_us = self.round_rtt_us.min(rtt);
        }
        if rs.interval_us <= 0 || before(rs.prior_delivered, self.round_end) {
            return false;
        }
        self.round_end = sk.delivered;
        let least = core::mem::replace(&mut self.round_rtt_us, UNSET);
        let base = self.bbr.min_rtt_us;
        base != UNSET && least != UNSET && least.saturating_sub(base) > scaled(base, threshold)
    }

    /// An ECN mark, or the delay of a round, is a signal like a loss, once per window.
    fn check_mark(&mut self, sk: &mut Socket, rs: &RateSample) {
        let signal = self.is_delayed(sk, rs) || (self.parameters.ecn && rs.is_ece);
        let resolved = sk.delivered.wrapping_add(sk.lost);
        match self.episode.and_then(|episode| episode.marked_until) {
            Some(until) if !before(resolved, until) => self.is_leaving = true,
            None if self.episode.is_none() && signal && !in_recovery(sk.ca_state) => {
                self.bbr.save_cwnd(sk);
                let until = resolved.wrapping_add(sk.packets_in_flight);
                self.begin(sk, rs.prior_in_flight, Some(until));
            }
            _ => {}
        }
    }

    /// The window of an ACK in recovery.
    fn conserve(&mut self, sk: &mut Socket, rs: &RateSample, mut episode: Episode) {
        let least = self.least_cwnd();
        let enough = scaled(episode.max_packets_out, self.parameters.hold).max(least);
        if sk.packets_in_flight <= enough {
            episode.stage = Stage::Fast;
        }
        episode.has_acks = true;
        self.episode = Some(episode);
        sk.cwnd = match episode.stage {
            Stage::Hold => sk.packets_in_flight.max(1),
            Stage::Fast => sk
                .packets_in_flight
                .saturating_add(rs.acked_sacked)
                .max(least),
        };
        if self.bbr.mode == Mode::ProbeRtt {
            sk.cwnd = sk.cwnd.min(self.bbr.probe_rtt_cwnd());
        }
        self.bbr.prev_ca_state = sk.ca_state;
    }
}

impl Described for Core {
    type Parameters = Parameters;
    const NAME: &'static str = "bbr1-fair";
    const SUMMARY: &'static str =
        "BBRv1 with strict packet conservation in recovery and a reseeded bandwidth filter";
    const SOURCE: &'static str =
        "Pacing at the fair-share of the bottleneck bandwidth (trueux.net, 2021)";
    const PHASES: &'static [&'static str] = &[
        Mode::Startup.word(),
        Mode::Drain.word(),
        Mode::ProbeBw.word(),
        Mode::ProbeRtt.word(),
        Stage::Hold.word(),
        Stage::Fast.word(),
    ];

    fn needs(_parameters: &Self::Parameters) -> Signals {
        Signals {
            pacing: true,
            ..Signals::NONE
        }
    }
}

impl Algorithm for Core {
    fn new(sk: &mut Socket, parameters: Parameters) -> Self {
        let base = super::Parameters {
            pacing_margin_percent: parameters.startup_margin_percent,
            lt_bw: parameters.lt_bw,
            ..super::Parameters::default()
        };
        let mut bbr = super::Core::new(sk, base);
        bbr.probe_rtt_cwnd_gain = parameters.probe_rtt_cwnd_gain;
        Self {
            bbr,
            parameters,
            episode: None,
            is_leaving: false,
            packets_out: 0,
            max_packets_delivered: 0,
            round_rtt_us: UNSET,
            round_end: 0,
        }
    }

    fn cong_control(&mut self, sk: &mut Socket, rs: &RateSample, random: &mut Random<'_>) {
        self.check_mark(sk, rs);
        if self.is_leaving {
            self.end(sk, rs.acked_sacked, rs.is_app_limited);
        }
        self.bbr.update_model(sk, rs, random);
        self.bbr.parameters.pacing_margin_percent = if self.bbr.full_bw_reached {
            self.parameters.pacing_margin_percent
        } else {
            self.parameters.startup_margin_percent
        };
        let bw = self.bbr.bw();
        self.bbr.set_pacing_rate(sk, bw, self.bbr.pacing_gain);
        match &mut self.episode {
            Some(episode) if self.parameters.conservation => {
                let episode = *episode;
                self.conserve(sk, rs, episode);
            }
            episode => {
                self.packets_out = 0;
                if let Some(episode) = episode {
                    episode.has_acks = true;
                }
                self.bbr.set_cwnd(sk, rs, bw);
            }
        }
    }

    fn skb_marked_lost(&mut self, sk: &mut Socket, skb: &LostPacket, _random: &mut Random<'_>) {
        if self.episode.is_some() {
            self.send_nothing(sk);
        } else {
            let before = sk.packets_in_flight.saturating_add(skb.pcount);
            self.packets_out = self.packets_out.max(before);
        }
    }

    fn ssthresh(&mut self, sk: &Socket) {
        self.bbr.ssthresh(sk);
    }

    fn set_state(&mut self, sk: &mut Socket, state: CaState, random: &mut Random<'_>) {
        match state {
            CaState::Recovery => {
                if self.is_leaving {
                    self.end(sk, 0, false);
                }
                match &mut self.episode {
                    // A loss in an episode that a mark began: from now on as for losses.
                    Some(episode) => episode.marked_until = None,
                    None => self.begin(sk, self.packets_out, None),
                }
            }
            // A timeout: everything as in BBRv1.
            CaState::Loss => {
                self.episode = None;
                self.is_leaving = false;
            }
            _ => {
                self.is_leaving = self.episode.is_some_and(|episode| episode.has_acks);
                if !self.is_leaving {
                    self.episode = None;
                }
            }
        }
        self.bbr.set_state(sk, state, random);
    }

    /// The losses were spurious: the window before them is restored, and the filter stays.
    fn undo_cwnd(&mut self, sk: &Socket) -> u32 {
        let cwnd = self.bbr.undo_cwnd(sk);
        self.is_leaving = false;
        match self.episode.take() {
            Some(_) => cwnd.max(self.bbr.prior_cwnd),
            None => cwnd,
        }
    }

    fn tx_start(&mut self, sk: &mut Socket, random: &mut Random<'_>) {
        self.bbr.tx_start(sk, random);
    }

    fn tso_segs(&self, sk: &Socket) -> u32 {
        self.bbr.tso_segs(sk)
    }

    fn is_paced(&self) -> bool {
        !self.parameters.conservation || self.episode.is_none()
    }

    fn wants_ecn(&self) -> bool {
        self.parameters.ecn
    }

    fn phase(&self) -> &'static str {
        match self.episode {
            Some(episode) if self.parameters.conservation && self.bbr.mode != Mode::ProbeRtt => {
                episode.stage.word()
            }
            _ => self.bbr.phase(),
        }
    }

    state! {
        fn visit(&self, sk: &Socket) -> Field {
            bbr: of(super::Core) = |visit| self.bbr.visit(sk, visit),
            max_packets_out: Packets = self.episode.map_or(0, |episode| episode.max_packets_out),
            max_packets_delivered: Packets = self.max_packets_delivered,
        }
    }
}

#[cfg(test)]
mod tests;
