//! For any events, a core neither panics nor stops sending; and on a simple path each controller
//! achieves its algorithm's purpose.

use std::collections::VecDeque;
use std::vec::Vec;

use paceline_units::{Bytes, Duration, Instant, Rate, Rng, Value};
use proptest::prelude::*;

use super::{Algorithm, LostPacket, RateSample, Socket, bbr1, bbr2, bbr3};
use crate::options::Parameters;
use crate::{Ack, CaState, Config, Controller, Delivery, Lost, PacketState, Sent, recipe};

const STATES: [CaState; 5] = [
    CaState::Open,
    CaState::Disorder,
    CaState::Cwr,
    CaState::Recovery,
    CaState::Loss,
];

/// A small number, one at an edge, or any.
fn number(rng: &mut Rng) -> u32 {
    let any = rng.next_u64() as u32;
    match rng.below(6) {
        0 => any,
        1 => u32::MAX - any % 3,
        2 => any % 3,
        3 => any % 5_000_000,
        _ => any % 300,
    }
}

fn flag(rng: &mut Rng) -> bool {
    rng.below(2) == 1
}

/// Feeds `events` arbitrary events.
fn torment<A: Algorithm>(parameters: A::Parameters, seed: u64, events: usize) {
    let rng = &mut Rng::new(seed);
    let mut draws = Rng::new(!seed);
    let mut random = |below: u32| draws.below(u64::from(below)) as u32;
    let mut sk = Socket {
        now: u64::from(number(rng)),
        mss: number(rng),
        cwnd: number(rng),
        srtt: number(rng),
        min_rtt: number(rng),
        ecn_low: flag(rng),
        ..Socket::default()
    };
    let mut core = A::new(&mut sk, parameters);
    for _ in 0..events {
        sk.now = sk.now.wrapping_add(u64::from(number(rng)));
        match rng.below(20) {
            0 => core.ssthresh(&sk),
            1 => {
                sk.cwnd = number(rng);
                sk.ca_state = STATES[rng.below(5) as usize];
                let state = sk.ca_state;
                core.set_state(&mut sk, state, &mut random);
            }
            2 => sk.cwnd = core.undo_cwnd(&sk),
            3 => {
                sk.app_limited = number(rng);
                core.tx_start(&mut sk, &mut random);
            }
            4 => core.tlp_recovery(&sk, &mut random),
            5..8 => {
                sk.lost = sk.lost.wrapping_add(1);
                let packet = LostPacket {
                    pcount: number(rng),
                    tx_in_flight: number(rng),
                    tx_lost: number(rng),
                    is_app_limited: flag(rng),
                };
                core.skb_marked_lost(&mut sk, &packet, &mut random);
            }
            _ => {
                let rs = RateSample {
                    interval_us: i64::from(number(rng)) - 1,
                    rtt_us: i64::from(number(rng)) - 1,
                    delivered: number(rng) as i32,
                    delivered_ce: number(rng) as i32,
                    lost: number(rng) as i32,
                    prior_delivered: sk.delivered.wrapping_sub(number(rng)),
                    acked_sacked: number(rng),
                    losses: number(rng),
                    tx_in_flight: number(rng),
                    prior_in_flight: number(rng),
                    is_app_limited: flag(rng),
                    is_ece: flag(rng),
                    is_ack_delayed: flag(rng),
                    is_acking_tlp_retrans_seq: flag(rng),
                };
                sk.delivered = sk.delivered.wrapping_add(rs.acked_sacked);
                sk.delivered_ce = sk.delivered_ce.wrapping_add(number(rng));
                sk.delivered_mstamp = sk.now;
                sk.wstamp_ns = sk
                    .now
                    .wrapping_mul(1_000)
                    .wrapping_add(u64::from(number(rng)));
                sk.packets_in_flight = number(rng);
                sk.srtt = number(rng);
                sk.is_cwnd_limited = flag(rng);
                sk.ca_state = STATES[rng.below(5) as usize];
                core.cong_control(&mut sk, &rs, &mut random);
            }
        }
        let mut fields = 0;
        core.visit(&sk, &mut |_, _| fields += 1);
        assert!(fields >= 20 && core.tso_segs(&sk) >= 1 && !core.phase().is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_events_never_panic(seed in any::<u64>()) {
        torment::<bbr1::Core>(Default::default(), seed, 300);
        torment::<bbr1::fair::Core>(Default::default(), seed, 300);
        torment::<bbr2::Core>(Default::default(), seed, 300);
        torment::<bbr3::Core>(Default::default(), seed, 300);
        let prr_bound = bbr2::Parameters { prr_bound: true, ..Default::default() };
        torment::<bbr2::Core>(prr_bound, seed, 300);
        let delay = bbr1::fair::Parameters { delay_threshold: 128, ..Default::default() };
        torment::<bbr1::fair::Core>(delay, seed, 300);
    }
}

const MSS: u32 = 1448;

/// A bulk flow over one bottleneck: 20 Mbit/s, 40 ms, drop-tail; one ACK a packet.
struct Path<C> {
    controller: C,
    delivery: Delivery,
    now: Instant,
    /// When the link has sent everything in its queue.
    free: Instant,
    buffer: Duration,
    /// Packets on their way: arrival time of the ACK, token and number; lost ones too.
    flying: VecDeque<(Instant, PacketState, u64, bool)>,
    sent: u64,
    next_send: Instant,
    phases: Vec<&'static str>,
    lost: u64,
    recovery_until: Option<u64>,
}

impl<C: Controller> Path<C> {
    const RATE: Rate = Rate::from_bps(20_000_000);
    const RTT: Duration = Duration::from_millis(40);

    fn in_flight(&self) -> Bytes {
        Bytes::new(self.flying.len() as u64 * u64::from(MSS))
    }

    /// Runs until `end`: acknowledgments and paced sends in order of time.
    fn run(&mut self, end: Instant) {
        while self.now < end {
            let room = self.in_flight() + Bytes::new(u64::from(MSS)) <= self.controller.cwnd();
            let arrival = self.flying.front().map(|flying| flying.0);
            match arrival {
                Some(at) if !room || at <= self.next_send => {
                    self.now = at;
                    self.receive();
                }
                _ => {
                    self.now = self.now.max(self.next_send);
                    self.send();
                }
            }
            let phase = self.controller.phase();
            if self.phases.last() != Some(&phase) {
                self.phases.push(phase);
            }
            assert!(self.controller.cwnd() >= Bytes::new(u64::from(MSS)));
            let rate = self.controller.pacing_rate().unwrap_or(Rate::INFINITE);
            assert!(rate > Rate::ZERO);
        }
    }

    fn send(&mut self) {
        let in_flight = self.in_flight();
        self.controller.on_send(&Sent {
            now: self.now,
            size: MSS,
            in_flight,
            app_limited: self.delivery.is_app_limited(),
        });
        let token = self.delivery.on_send(self.now, MSS, in_flight);
        self.sent += 1;
        let size = Bytes::new(u64::from(MSS));
        let dropped = self.free.since(self.now) > self.buffer;
        if !dropped {
            self.free = self.free.max(self.now) + Self::RATE.time_for(size);
        }
        let at = self.free.max(self.now) + Self::RTT;
        self.flying.push_back((at, token, self.sent, dropped));
        let pace = self.controller.pacing_rate().unwrap_or(Rate::INFINITE);
        self.next_send = self.now.max(self.next_send) + pace.time_for(size);
    }

    fn receive(&mut self) {
        let prior_in_flight = self.in_flight();
        let Some((_, token, id, dropped)) = self.flying.pop_front() else {
            return;
        };
        let size = Bytes::new(u64::from(token.size));
        if dropped {
            self.lost += 1;
            self.delivery.on_lost(&token);
            self.controller.on_loss(&Lost {
                now: self.now,
                packet: token,
                lost: self.delivery.lost(),
                delivered: self.delivery.delivered(),
                in_flight: self.in_flight(),
                starts_range: true,
                retransmission: false,
            });
            if self.recovery_until.is_none() {
                self.recovery_until = Some(self.sent);
                self.controller
                    .on_recovery_enter(self.now, self.in_flight());
            }
            return;
        }
        if self.recovery_until.is_some_and(|until| id > until) {
            self.recovery_until = None;
            self.controller.on_recovery_exit(self.now);
        }
        let rtt = self.now.since(token.send_time);
        self.delivery.on_delivered(self.now, &token, id, false);
        self.delivery.on_rtt(rtt);
        self.controller.on_ack(&Ack {
            now: self.now,
            sample: self.delivery.sample(),
            newly_acked: size,
            newly_lost: Bytes::ZERO,
            newly_marked: Some(Bytes::ZERO),
            prior_in_flight,
            in_flight: self.in_flight(),
            delivered: self.delivery.delivered(),
            lost: self.delivery.lost(),
            sent: self.delivery.delivered() + self.delivery.lost() + self.in_flight(),
            rtt: Some(rtt),
            srtt: rtt,
            min_rtt: Self::RTT,
            cwnd_limited: true,
            ca_state: if self.recovery_until.is_some() {
                CaState::Recovery
            } else {
                CaState::Open
            },
            una_advanced: true,
            delayed: false,
            one_way_delay: None,
            network_rtt: Some(rtt),
            receiver_delay: None,
            ece: false,
        });
        if self.controller.marks_app_limited() {
            self.delivery.mark_app_limited(self.in_flight());
        }
    }
}

fn config() -> Config {
    Config {
        mss: MSS,
        initial_window: Bytes::new(10 * u64::from(MSS)),
        seed: 1,
        now: Instant::ZERO,
        srtt: Some(Duration::from_millis(40)),
        has_selective_acks: true,
    }
}

fn path<C: Controller>(controller: C, buffer: Duration) -> Path<C> {
    Path {
        controller,
        delivery: Delivery::default(),
        now: Instant::ZERO,
        free: Instant::ZERO,
        buffer,
        flying: VecDeque::new(),
        sent: 0,
        next_send: Instant::ZERO,
        phases: Vec::new(),
        lost: 0,
        recovery_until: None,
    }
}

fn field(controller: &impl Controller, wanted: &str) -> Option<Value> {
    let mut shown = None;
    controller.visit_state(&mut crate::Visitor::each(&mut |name, value| {
        if name == wanted {
            shown = Some(value);
        }
    }));
    shown
}

/// Runs 15 s and checks the properties of every version.
fn fills_the_pipe<A: Algorithm>(buffer: Duration) -> Path<super::Adapter<A>> {
    let controller = super::Adapter::<A>::new(&config(), A::Parameters::default());
    let mut path = path(controller, buffer);
    path.run(Instant::from_nanos(15 * Duration::NANOS_PER_SEC));
    assert_eq!(path.phases[..2], ["STARTUP", "DRAIN"], "{}", A::NAME);
    assert!(
        path.phases.contains(&"PROBE_RTT"),
        "{}: {:?}",
        A::NAME,
        path.phases
    );
    let used = path.delivery.delivered().get() as f64 * 8.0 / 15.0 / 20e6;
    assert!((0.85..=1.0).contains(&used), "{} uses {used}", A::NAME);
    let max_bw = match field(&path.controller, "max_bw") {
        Some(Value::Rate(rate)) => rate.bps() as f64,
        other => panic!("{other:?}"),
    };
    assert!((max_bw / 20e6 - 1.0).abs() < 0.05, "{}: {max_bw}", A::NAME);
    let min_rtt = field(&path.controller, "min_rtt");
    assert!(
        matches!(min_rtt, Some(Value::Duration(rtt)) if rtt >= Duration::from_millis(40) && rtt < Duration::from_millis(42)),
        "{}: {min_rtt:?}",
        A::NAME
    );
    path
}

#[test]
fn each_fills_a_deep_buffered_path() {
    let deep = Duration::from_millis(400);
    assert_eq!(fills_the_pipe::<bbr1::Core>(deep).lost, 0);
    assert_eq!(fills_the_pipe::<bbr2::Core>(deep).lost, 0);
    assert_eq!(fills_the_pipe::<bbr3::Core>(deep).lost, 0);
}

#[test]
fn in_a_shallow_buffer_v3_loses_least() {
    let shallow = Duration::from_millis(10);
    let v1 = fills_the_pipe::<bbr1::Core>(shallow);
    let v2 = fills_the_pipe::<bbr2::Core>(shallow);
    let v3 = fills_the_pipe::<bbr3::Core>(shallow);
    assert!(v1.lost > v2.lost && v2.lost > 0 && v3.lost > 0);
    assert!(v3.lost < v1.lost / 2, "{} of {}", v3.lost, v1.lost);
    let bound = field(&v3.controller, "inflight_hi");
    assert!(
        matches!(bound, Some(Value::Bytes(bound)) if !bound.is_infinite()),
        "{bound:?}"
    );
}

/// All visible state of a controller on a path with loss.
fn history(
    name: &str,
    options: &[(&str, crate::options::OptionValue)],
) -> Vec<std::string::String> {
    let controller = crate::build(name, &config(), options).unwrap_or_else(|e| panic!("{e:?}"));
    let mut path = path(controller, Duration::from_millis(10));
    let mut times = Vec::new();
    for tenth in 1..=150 {
        path.run(Instant::from_nanos(tenth * Duration::NANOS_PER_SEC / 10));
        let mut now = std::format!("{:?} {}", path.controller.cwnd(), path.controller.phase());
        let mut fields = 0;
        path.controller
            .visit_state(&mut crate::Visitor::each(&mut |name, value| {
                fields += 1;
                // bbr1's own fields come first.
                if fields <= 20 {
                    now += &std::format!(" {name}={value:?}");
                }
            }));
        times.push(now);
    }
    assert!(path.lost > 100, "{}", path.lost);
    times
}

#[test]
fn without_its_parts_fair_share_pacing_is_bbr1() {
    use crate::options::OptionValue::{Count, Flag, Gain as Factor};
    let off = [
        ("conservation", Flag(false)),
        ("restore_in_flight", Flag(false)),
        ("reseed", Flag(false)),
        ("pacing_margin_percent", Count(1)),
        ("startup_margin_percent", Count(1)),
        (
            "probe_rtt_cwnd_gain",
            Factor(paceline_units::Gain::from_millionths(0)),
        ),
    ];
    let plain = history("bbr1", &[]);
    assert_eq!(history("bbr1-fair", &off), plain);
    for part in 0..off.len() {
        let mut some = off.to_vec();
        some.remove(part);
        assert_ne!(history("bbr1-fair", &some), plain, "{}", off[part].0);
    }
}

#[test]
fn options_reach_the_algorithm() {
    let quick = bbr3::Parameters::with(&[(
        "startup_pacing_gain",
        crate::options::OptionValue::Gain(paceline_units::Gain::from_millionths(1_500_000)),
    )]);
    let quick = quick.map(|parameters| bbr3::Bbr3::new(&config(), parameters).pacing_rate());
    let usual = bbr3::Bbr3::new(&config(), bbr3::Parameters::default()).pacing_rate();
    assert!(matches!(quick, Ok(rate) if rate < usual));
    for name in ["bbr1", "bbr2", "bbr3-linux"] {
        assert!(recipe(name, &[]).is_ok(), "{name}");
    }
}
