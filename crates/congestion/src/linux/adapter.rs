//! Linux's BBR as a [`Controller`]: bytes become packets of one MSS,
//! nanoseconds become microseconds, and the transport's calls become the
//! events of Linux's congestion-control interface.

use paceline_units::{Bytes, Duration, Gain, Instant, Rate, Rng, Value, Visitor};

use super::arithmetic::{BW_SCALE, UNSET};
use super::{Algorithm, Field, LostPacket, RateSample, Socket};
use crate::{
    Ack, CaState, Config, Controller, Cue, Described, Ecn, Lost, RecoveryWindow, Sent, Signals,
};

/// A core with the socket that it acts on.
///
/// A packet is one MSS of data: cumulative counts are rounded down, so that short packets add up,
/// and volumes at a point in time are rounded up. The pacer's next departure is derived from the
/// packets sent. The transport does not report tail-loss probes, so [`Algorithm::tlp_recovery`] is
/// never called.
#[derive(Clone, Debug)]
pub struct Adapter<A> {
    sk: Socket,
    delivered_ce_bytes: Bytes,
    rng: Rng,
    core: A,
}

impl<A: Algorithm> Adapter<A> {
    /// Makes one.
    pub fn new(config: &Config, parameters: A::Parameters) -> Self {
        let mss = config.mss.max(1);
        let srtt = config.srtt.map_or(0, |srtt| micros(srtt).max(1));
        let mut sk = Socket {
            now: micros_at(config.now),
            wstamp_ns: config.now.as_nanos(),
            delivered_mstamp: micros_at(config.now),
            mss,
            cwnd: whole(config.initial_window, mss).max(1),
            srtt,
            min_rtt: if srtt == 0 { UNSET } else { srtt },
            ..Socket::default()
        };
        let core = A::new(&mut sk, parameters);
        sk.ecn_low = core.wants_ecn();
        Self {
            sk,
            delivered_ce_bytes: Bytes::ZERO,
            rng: Rng::new(config.seed),
            core,
        }
    }

    /// Sets the time and returns the parts that an event needs.
    fn at(&mut self, now: Instant) -> (&mut A, &mut Socket, impl FnMut(u32) -> u32 + '_) {
        self.sk.now = micros_at(now);
        let rng = &mut self.rng;
        let draw = move |below| rng.below(u64::from(below)) as u32;
        (&mut self.core, &mut self.sk, draw)
    }

    fn set_state(&mut self, now: Instant, state: CaState) {
        let (core, sk, mut draw) = self.at(now);
        core.set_state(sk, state, &mut draw);
        sk.ca_state = state;
    }
}

impl<A: Algorithm> Described for Adapter<A> {
    type Parameters = A::Parameters;
    const NAME: &'static str = A::NAME;
    const SUMMARY: &'static str = A::SUMMARY;
    const SOURCE: &'static str = A::SOURCE;
    const PHASES: &'static [&'static str] = A::PHASES;

    fn needs(parameters: &Self::Parameters) -> Signals {
        A::needs(parameters)
    }
}

impl<A: Algorithm> Controller for Adapter<A> {
    fn on_send(&mut self, sent: &Sent) {
        if sent.in_flight == Bytes::ZERO {
            let (core, sk, mut draw) = self.at(sent.now);
            // The mark's value does not matter here, only whether there is one.
            sk.app_limited = u32::from(sent.app_limited);
            core.tx_start(sk, &mut draw);
        }
        let departure = self.sk.wstamp_ns.max(sent.now.as_nanos());
        if !self.core.is_paced() {
            self.sk.wstamp_ns = departure;
            return;
        }
        let nanos = u64::from(sent.size) * Duration::NANOS_PER_SEC;
        let gap = nanos.checked_div(self.sk.pacing_rate).unwrap_or(0);
        self.sk.wstamp_ns = departure.saturating_add(gap);
    }

    fn on_loss(&mut self, loss: &Lost) {
        let mss = self.sk.mss;
        let (core, sk, mut draw) = self.at(loss.now);
        sk.delivered = whole(loss.delivered, mss);
        sk.lost = whole(loss.lost, mss);
        sk.packets_in_flight = part(loss.in_flight, mss);
        let packet = LostPacket {
            pcount: loss.packet.size.div_ceil(mss).max(1),
            tx_in_flight: part(loss.packet.tx_in_flight, mss),
            tx_lost: sk.lost.wrapping_sub(part(loss.lost_since_send(), mss)),
            is_app_limited: loss.packet.app_limited,
        };
        core.skb_marked_lost(sk, &packet, &mut draw);
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.delivered_ce_bytes += ack.newly_marked.unwrap_or(Bytes::ZERO);
        let (mss, marked) = (self.sk.mss, self.delivered_ce_bytes);
        let (core, sk, mut draw) = self.at(ack.now);
        let delivered = whole(ack.delivered, mss);
        let losses = whole(ack.lost, mss).wrapping_sub(whole(ack.lost - ack.newly_lost, mss));
        let prior_delivered = whole(ack.sample.prior_delivered, mss);
        let interval = ack.sample.interval.as_micros();
        let valid = ack.sample.has_data && interval > 0;
        let rs = RateSample {
            interval_us: if valid { signed(interval) } else { -1 },
            rtt_us: ack.rtt.map_or(-1, |rtt| i64::from(micros(rtt))),
            delivered: if ack.sample.has_data {
                delivered.wrapping_sub(prior_delivered) as i32
            } else {
                -1
            },
            delivered_ce: part(ack.sample.delivered_ce, mss) as i32,
            lost: part(ack.sample.lost, mss) as i32,
            prior_delivered,
            acked_sacked: delivered.wrapping_sub(whole(ack.delivered - ack.newly_acked, mss)),
            losses,
            tx_in_flight: part(ack.sample.tx_in_flight, mss),
            prior_in_flight: part(ack.prior_in_flight, mss),
            is_app_limited: ack.sample.app_limited,
            is_ece: ack.is_marked(),
            is_ack_delayed: ack.delayed,
            is_acking_tlp_retrans_seq: false,
        };
        if ack.newly_acked > Bytes::ZERO {
            sk.delivered_mstamp = sk.now;
        }
        sk.delivered = delivered;
        sk.delivered_ce = whole(marked, mss);
        sk.lost = whole(ack.lost, mss);
        sk.packets_in_flight = part(ack.in_flight, mss);
        sk.srtt = micros(ack.srtt);
        sk.is_cwnd_limited = ack.cwnd_limited;
        sk.ca_state = ack.ca_state;
        core.cong_control(sk, &rs, &mut draw);
    }

    fn on_recovery_enter(&mut self, now: Instant, in_flight: Bytes) {
        let mss = self.sk.mss;
        let (core, sk, _) = self.at(now);
        sk.packets_in_flight = part(in_flight, mss);
        core.ssthresh(sk);
        self.set_state(now, CaState::Recovery);
    }

    fn on_recovery_exit(&mut self, now: Instant) {
        self.set_state(now, CaState::Open);
    }

    fn on_timeout(&mut self, now: Instant, in_flight: Bytes) {
        let mss = self.sk.mss;
        let (core, sk, _) = self.at(now);
        // A timeout within an episode does not save the state again (tcp_enter_loss).
        if !super::socket::in_recovery(sk.ca_state) {
            core.ssthresh(sk);
        }
        sk.packets_in_flight = part(in_flight, mss);
        sk.cwnd = sk.packets_in_flight.saturating_add(1);
        self.set_state(now, CaState::Loss);
    }

    fn on_spurious(&mut self, now: Instant, _delivered: Bytes) {
        let (core, sk, _) = self.at(now);
        sk.cwnd = core.undo_cwnd(sk).max(1);
    }

    fn on_mss(&mut self, mss: u32) {
        self.sk.mss = mss.max(1);
    }

    fn follow(&mut self, cue: Cue) {
        self.core.follow(&self.sk, cue);
    }

    fn cwnd(&self) -> Bytes {
        Bytes::new(u64::from(self.sk.cwnd) * u64::from(self.sk.mss))
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.core
            .is_paced()
            .then(|| Rate::from_bps(self.sk.pacing_rate.saturating_mul(8)))
    }

    fn send_quantum(&self) -> Bytes {
        Bytes::new(u64::from(self.core.tso_segs(&self.sk)) * u64::from(self.sk.mss))
    }

    fn recovery_window(&self) -> RecoveryWindow {
        RecoveryWindow::Controller
    }

    fn marks_app_limited(&self) -> bool {
        self.core.phase() == "PROBE_RTT"
    }

    fn ecn(&self) -> Ecn {
        if self.sk.ecn_low {
            Ecn::Ect0
        } else {
            Ecn::NotEct
        }
    }

    fn phase(&self) -> &'static str {
        self.core.phase()
    }

    fn round_count(&self) -> u64 {
        self.core.round_count().into()
    }

    fn visit_fields(visit: &mut dyn FnMut(paceline_units::Field)) {
        A::visit_fields(visit);
    }

    fn visit_state(&self, visit: &mut Visitor<'_>) {
        let mss = self.sk.mss;
        self.core.visit(&self.sk, &mut |name, field| {
            visit.show(name, value(field, mss));
        });
    }
}

/// A field in the units of [`Value`]; an unset one becomes infinite.
pub(super) fn value(field: Field, mss: u32) -> Value {
    match field {
        Field::Packets(UNSET) => Value::Bytes(Bytes::INFINITE),
        Field::Packets(packets) => Value::Bytes(Bytes::new(u64::from(packets) * u64::from(mss))),
        Field::Bandwidth(UNSET) => Value::Rate(Rate::INFINITE),
        Field::Bandwidth(bw) => {
            let bits = u128::from(bw) * u128::from(mss) * 8_000_000;
            let bps = u64::try_from(bits >> BW_SCALE).unwrap_or(u64::MAX);
            Value::Rate(Rate::from_bps(bps))
        }
        Field::BytesPerSec(rate) => Value::Rate(Rate::from_bps(rate.saturating_mul(8))),
        Field::Micros(UNSET) => Value::Duration(Duration::MAX),
        Field::Micros(us) => Value::Duration(Duration::from_micros(u64::from(us))),
        Field::Gain(gain) => Value::Gain(Gain::from_256ths(gain)),
        Field::Count(count) => Value::Count(u64::from(count)),
        Field::Flag(flag) => Value::Flag(flag),
    }
}

pub(super) fn micros_at(time: Instant) -> u64 {
    time.as_nanos() / 1_000
}

pub(super) fn micros(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(UNSET)
}

fn signed(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}

/// Whole packets in a cumulative volume; wraps, as Linux's counters do.
pub(super) fn whole(volume: Bytes, mss: u32) -> u32 {
    volume.packets(u64::from(mss)) as u32
}

/// Packets that a volume occupies.
pub(super) fn part(volume: Bytes, mss: u32) -> u32 {
    let packets = volume.get().div_ceil(u64::from(mss).max(1));
    i32::try_from(packets).unwrap_or(i32::MAX).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::bbr1;

    #[test]
    fn marks_add_up() {
        let config = Config {
            mss: 1000,
            initial_window: Bytes::new(10_000),
            seed: 1,
            now: Instant::ZERO,
            srtt: None,
            has_selective_acks: true,
        };
        let parameters = <bbr1::Core as Described>::Parameters::default();
        let mut adapter = Adapter::<bbr1::Core>::new(&config, parameters);
        // Parts of packets add up as well.
        for (marked, packets) in [(Some(1500), 1), (None, 1), (Some(1500), 3), (Some(4000), 7)] {
            adapter.on_ack(&Ack {
                newly_marked: marked.map(Bytes::new),
                ..ack()
            });
            assert_eq!(adapter.sk.delivered_ce, packets);
        }
    }

    fn ack() -> Ack {
        let none = Bytes::ZERO;
        Ack {
            now: Instant::ZERO,
            sample: crate::RateSample::default(),
            newly_acked: none,
            newly_lost: none,
            newly_marked: None,
            prior_in_flight: none,
            in_flight: none,
            delivered: none,
            lost: none,
            sent: none,
            rtt: None,
            srtt: Duration::ZERO,
            min_rtt: Duration::ZERO,
            cwnd_limited: false,
            ca_state: CaState::Open,
            una_advanced: true,
            delayed: false,
            one_way_delay: None,
            network_rtt: None,
            receiver_delay: None,
            ece: false,
        }
    }
}
