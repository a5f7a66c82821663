//! For any events, windows keep their floors and nothing overflows.

use paceline_congestion::options::{OptionKind, OptionValue};
use paceline_congestion::{
    Ack, CaState, Config, Controller, Lost, PacketState, RateSample, Sent, build, controllers,
};
use paceline_units::{Bytes, Duration, Instant};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Ack(Ack),
    Send(Sent),
    Lose(Lost),
    Enter(Instant, Bytes),
    Exit(Instant),
    Timeout(Instant, Bytes),
    Spurious(Instant),
    Mss(u32),
}

/// Of every order of magnitude.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(bits, shift)| bits >> shift)
}

fn instant() -> impl Strategy<Value = Instant> {
    number().prop_map(Instant::from_nanos)
}

fn bytes() -> impl Strategy<Value = Bytes> {
    number().prop_map(Bytes::new)
}

/// Mostly 1 us to 100 s.
fn rtt() -> impl Strategy<Value = Duration> {
    prop_oneof![
        9 => 1_000u64..100_000_000_000,
        1 => number(),
    ]
    .prop_map(Duration::from_nanos)
}

fn ca_state() -> impl Strategy<Value = CaState> {
    prop_oneof![
        4 => Just(CaState::Open),
        1 => Just(CaState::Disorder),
        1 => Just(CaState::Cwr),
        1 => Just(CaState::Recovery),
        1 => Just(CaState::Loss),
    ]
}

fn sample() -> impl Strategy<Value = RateSample> {
    (
        any::<[bool; 2]>(),
        (bytes(), bytes(), bytes(), bytes(), bytes()),
        rtt(),
    )
        .prop_map(|(flags, volumes, interval)| RateSample {
            has_data: flags[0],
            delivered: volumes.0,
            delivered_ce: volumes.1,
            prior_delivered: volumes.2,
            interval,
            tx_in_flight: volumes.3,
            lost: volumes.4,
            app_limited: flags[1],
        })
}

fn loss() -> impl Strategy<Value = Lost> {
    (
        instant(),
        any::<u32>(),
        (bytes(), bytes(), bytes(), bytes()),
    )
        .prop_map(|(now, size, volumes)| Lost {
            now,
            packet: PacketState {
                tx_in_flight: volumes.3,
                size,
                ..PacketState::default()
            },
            lost: volumes.0,
            delivered: volumes.1,
            in_flight: volumes.2,
            starts_range: size % 2 == 0,
            retransmission: size % 3 == 0,
        })
}

fn ack() -> impl Strategy<Value = Ack> {
    (
        instant(),
        (bytes(), bytes(), bytes(), bytes(), bytes()),
        (
            proptest::option::of(rtt()),
            rtt(),
            rtt(),
            proptest::option::of(rtt()),
        ),
        (ca_state(), sample()),
        (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
    )
        .prop_map(|(now, volumes, rtts, (ca_state, sample), flags)| Ack {
            now,
            sample,
            newly_acked: volumes.0,
            newly_lost: Bytes::ZERO,
            newly_marked: flags.3.then_some(volumes.0),
            prior_in_flight: volumes.1,
            in_flight: volumes.2,
            delivered: volumes.3,
            lost: volumes.4,
            sent: volumes.3 + volumes.4 + volumes.2,
            rtt: rtts.0,
            srtt: rtts.1,
            min_rtt: rtts.2,
            cwnd_limited: flags.0,
            ca_state,
            una_advanced: flags.1,
            delayed: false,
            one_way_delay: None,
            network_rtt: rtts.0,
            receiver_delay: rtts.3,
            ece: flags.2,
        })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        20 => ack().prop_map(Event::Ack),
        3 => (instant(), any::<bool>(), bytes()).prop_map(|(now, idle, in_flight)| {
            Event::Send(Sent {
                now,
                size: 1448,
                in_flight: if idle { Bytes::ZERO } else { in_flight },
                app_limited: idle,
            })
        }),
        2 => loss().prop_map(Event::Lose),
        2 => (instant(), bytes()).prop_map(|(now, volume)| Event::Enter(now, volume)),
        2 => instant().prop_map(Event::Exit),
        1 => (instant(), bytes()).prop_map(|(now, volume)| Event::Timeout(now, volume)),
        1 => instant().prop_map(Event::Spurious),
        1 => any::<u32>().prop_map(Event::Mss),
    ]
}

fn apply(controller: &mut impl Controller, event: &Event) {
    match event {
        Event::Ack(ack) => controller.on_ack(ack),
        Event::Send(sent) => controller.on_send(sent),
        Event::Lose(loss) => controller.on_loss(loss),
        Event::Enter(now, in_flight) => controller.on_recovery_enter(*now, *in_flight),
        Event::Exit(now) => controller.on_recovery_exit(*now),
        Event::Timeout(now, in_flight) => controller.on_timeout(*now, *in_flight),
        Event::Spurious(now) => controller.on_spurious(*now, Bytes::ZERO),
        Event::Mss(mss) => controller.on_mss(*mss),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_events(
        name in prop_oneof![Just("cubic"), Just("cubic-linux"), Just("reno")],
        mss in any::<u32>(),
        initial_window in bytes(),
        flags in any::<[bool; 3]>(),
        events in proptest::collection::vec(event(), 1..200),
    ) {
        let config = Config { mss, initial_window, seed: 0, now: Instant::ZERO, srtt: None, has_selective_acks: true };
        let options = [
            ("hystart", OptionValue::Flag(flags[0])),
            ("pacing", OptionValue::Flag(flags[1])),
            ("ecn", OptionValue::Flag(flags[2])),
        ];
        let mut controller = build(name, &config, &options).expect("known options");
        let mut mss = u64::from(mss.max(1));
        for event in &events {
            let before = controller.cwnd();
            apply(&mut controller, event);
            if let Event::Mss(changed) = event {
                mss = u64::from((*changed).max(1));
            }
            let cwnd = controller.cwnd();
            prop_assert!(cwnd >= Bytes::new(mss));
            prop_assert!(controller.ssthresh().is_some_and(|it| it >= Bytes::new(2 * mss)));
            prop_assert!(controller.send_quantum() >= Bytes::new(mss));
            if let Event::Ack(ack) = event {
                if !ack.cwnd_limited || ack.ca_state == CaState::Recovery {
                    // Linux reduces to at least two packets, even from one.
                    let least = if name == "cubic-linux" { 2 * mss } else { 0 };
                    prop_assert!(cwnd <= before.max(Bytes::new(least)));
                }
                // In the worst case slow start, plus congestion avoidance.
                let most = before + before + ack.newly_acked + Bytes::new(mss);
                prop_assert!(cwnd <= most);
            }
            controller.visit_state(&mut paceline_congestion::Visitor::each(&mut |_, _| ()));
            prop_assert!(!controller.phase().is_empty());
        }
    }

    /// For every controller: a window and bursts that allow sending, and states that it has
    /// declared.
    #[test]
    fn arbitrary_events_for_any_controller(
        which in any::<proptest::sample::Index>(),
        options in any::<[bool; 3]>(),
        mss in any::<u32>(),
        initial_window in bytes(),
        srtt in proptest::option::of(rtt()),
        events in proptest::collection::vec(event(), 1..100),
    ) {
        let spec = which.get(controllers());
        let initial_window = initial_window.max(Bytes::new(1));
        let config = Config { mss, initial_window, seed: 1, now: Instant::ZERO, srtt, has_selective_acks: true };
        // Flags and words other than the defaults.
        let chosen: Vec<(&str, OptionValue)> = spec
            .options()
            .enumerate()
            .filter(|(nth, _)| options[nth % 3])
            .filter_map(|(_, info)| match (info.kind, info.default) {
                (OptionKind::Flag, OptionValue::Flag(flag)) => Some((info.name, OptionValue::Flag(!flag))),
                (OptionKind::Choice(words), _) => Some((info.name, OptionValue::Choice(words[words.len() - 1]))),
                (OptionKind::Duration(_, high), _) => Some((info.name, OptionValue::Duration(high))),
                _ => None,
            })
            .collect();
        let mut controller = build(spec.name, &config, &chosen).expect("known options");
        for event in &events {
            apply(&mut controller, event);
            prop_assert!(controller.cwnd() > Bytes::ZERO || matches!(event, Event::Timeout(..)), "{}", spec.name);
            prop_assert!(controller.send_quantum() > Bytes::ZERO, "{}", spec.name);
            let _ = controller.pacing_rate();
            controller.visit_state(&mut paceline_congestion::Visitor::each(&mut |_, _| ()));
            prop_assert!(spec.phases.contains(&controller.phase()), "{}: {}", spec.name, controller.phase());
        }
    }
}
