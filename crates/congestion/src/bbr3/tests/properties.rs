//! Options, and arbitrary events.

use proptest::prelude::*;

use super::*;
use crate::options::{OptionValue, Parameters as _};

#[test]
fn every_option_accepts_its_default_and_reads_back() {
    for option in Parameters::OPTIONS {
        let default = (option.get)(&Parameters::default());
        assert!(option.kind.accepts(&default), "{}", option.name);
        let set = Parameters::with(&[(option.name, default)]).unwrap();
        assert_eq!((option.get)(&set), default, "{}", option.name);
    }
    let gain = OptionValue::Gain(Gain::from_millionths(2_890_000));
    let set = Parameters::with(&[("startup_pacing_gain", gain)]).unwrap();
    assert_eq!(set.startup_pacing_gain.millionths(), 2_890_000);
    assert!(Parameters::with(&[("startup_pacing_gain", OptionValue::Count(2))]).is_err());
}

#[derive(Clone, Debug)]
enum Op {
    Send(u32, bool),
    Ack {
        age: usize,
        jump: u64,
        rtt: u64,
        limited: bool,
    },
    Lose(usize, bool),
    Enter,
    Exit,
    Timeout,
    Spurious,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (prop_oneof![1u32..3000, Just(u32::MAX)], any::<bool>()).prop_map(|(s, l)| Op::Send(s, l)),
        8 => (0usize..64, prop_oneof![Just(0u64), 0u64..2_000_000, Just(5_000_000_000), Just(u64::MAX / 4)],
              prop_oneof![Just(0u64), Just(1_000), 0u64..100_000_000, Just(100_000_000_000)], any::<bool>())
            .prop_map(|(age, jump, rtt, limited)| Op::Ack { age, jump, rtt, limited }),
        3 => (0usize..64, any::<bool>()).prop_map(|(a, s)| Op::Lose(a, s)),
        1 => Just(Op::Enter),
        1 => Just(Op::Exit),
        1 => Just(Op::Timeout),
        1 => Just(Op::Spurious),
    ]
}

proptest! {
    /// In any order of events: no panic, the window at its floor or above, a rate above zero.
    #[test]
    fn holds_its_floors_for_any_events(
        ops in prop::collection::vec(op(), 1..400),
        mss in prop_oneof![Just(1u32), Just(1448), Just(65_000)], start in any::<bool>(),
    ) {
        let config = Config {
            mss,
            initial_window: Bytes::new(u64::from(mss) * 10),
            seed: 3,
            now: if start { Instant::ZERO } else { Instant::from_nanos(1 << 62) },
            srtt: start.then_some(ms(10)),
            has_selective_acks: true,
        };
        let mut bbr = Bbr3::new(&config, Parameters::default());
        let mut delivery = Delivery::default();
        let mut now = config.now;
        let mut packets = Vec::new();
        let mut in_flight = Bytes::ZERO;
        for op in ops {
            match op {
                Op::Send(size, limited) => {
                    if limited { delivery.mark_app_limited(in_flight); }
                    bbr.on_send(&Sent { now, size, in_flight, app_limited: delivery.is_app_limited() });
                    packets.push(delivery.on_send(now, size, in_flight));
                    in_flight += Bytes::new(size.into());
                }
                Op::Ack { age, jump, rtt, limited } => {
                    now += Duration::from_nanos(jump);
                    // A packet acknowledged twice, or none at all: the controller must survive
                    // both.
                    let packet = packets.get(packets.len().saturating_sub(1 + age)).copied();
                    let prior_in_flight = in_flight;
                    let size = packet.map_or(Bytes::ZERO, |p| Bytes::new(p.size.into()));
                    if let Some(packet) = packet {
                        delivery.on_rtt(Duration::from_nanos(rtt));
                        delivery.on_delivered(now, &packet, age as u64, false);
                        in_flight -= size;
                    }
                    let sample: RateSample = delivery.sample();
                    bbr.on_ack(&Ack {
                        now, sample, newly_acked: size, newly_lost: Bytes::ZERO,
                        newly_marked: Some(Bytes::ZERO), prior_in_flight, in_flight,
                        delivered: delivery.delivered(), lost: delivery.lost(), sent: delivery.sent(),
                        rtt: (rtt > 0).then(|| Duration::from_nanos(rtt)),
                        srtt: Duration::from_nanos(rtt), min_rtt: Duration::from_nanos(rtt),
                        cwnd_limited: limited, ca_state: CaState::Open, una_advanced: true,
                        delayed: false, one_way_delay: None, network_rtt: None, receiver_delay: None,
                        ece: false,
                    });
                    if sample.has_data {
                        prop_assert!(bbr.cwnd() >= bbr.min_pipe_cwnd());
                    }
                }
                Op::Lose(age, starts_range) => {
                    if let Some(packet) = packets.get(packets.len().saturating_sub(1 + age)).copied() {
                        delivery.on_lost(&packet);
                        in_flight -= Bytes::new(packet.size.into());
                        bbr.on_loss(&Lost {
                            now, packet, lost: delivery.lost(), delivered: delivery.delivered(),
                            in_flight, starts_range, retransmission: false,
                        });
                    }
                }
                Op::Enter => bbr.on_recovery_enter(now, in_flight),
                Op::Exit => bbr.on_recovery_exit(now),
                Op::Timeout => bbr.on_timeout(now, in_flight),
                Op::Spurious => bbr.on_spurious(now, Bytes::ZERO),
            }
            prop_assert!(bbr.cwnd() > Bytes::ZERO);
            prop_assert!(bbr.pacing_rate().unwrap() > Rate::ZERO);
            prop_assert!(bbr.send_quantum() >= bbr.smss() * 2);
            prop_assert!(bbr.bw <= bbr.max_bw);
            bbr.visit_state(&mut crate::Visitor::each(&mut |_, _| {}));
        }
    }
}
