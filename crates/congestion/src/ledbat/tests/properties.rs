//! Invariants under arbitrary events.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Event {
    Ack(Ack),
    Send(Sent),
    Enter(Instant),
    Exit(Instant),
    Timeout(Instant),
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

fn span() -> impl Strategy<Value = Duration> {
    number().prop_map(Duration::from_nanos)
}

fn ack() -> impl Strategy<Value = Ack> {
    let state = prop_oneof![
        4 => Just(CaState::Open),
        1 => Just(CaState::Disorder),
        1 => Just(CaState::Recovery),
        1 => Just(CaState::Loss),
    ];
    (
        instant(),
        (number(), number(), number(), number()),
        (
            proptest::option::of(span()),
            span(),
            proptest::option::of(span()),
        ),
        state,
        (any::<bool>(), any::<bool>()),
    )
        .prop_map(|(now, volumes, delays, ca_state, flags)| Ack {
            now,
            sample: RateSample::default(),
            newly_acked: Bytes::new(volumes.0),
            newly_lost: Bytes::ZERO,
            newly_marked: Some(Bytes::ZERO),
            prior_in_flight: Bytes::new(volumes.1),
            in_flight: Bytes::new(volumes.2),
            delivered: Bytes::new(volumes.3),
            lost: Bytes::ZERO,
            sent: Bytes::new(volumes.3) + Bytes::new(volumes.2),
            rtt: delays.0,
            srtt: delays.1,
            min_rtt: delays.1,
            cwnd_limited: flags.0,
            ca_state,
            una_advanced: flags.1,
            delayed: false,
            one_way_delay: delays.2,
            network_rtt: delays.0,
            receiver_delay: None,
            ece: false,
        })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        20 => ack().prop_map(Event::Ack),
        3 => (instant(), any::<bool>()).prop_map(|(now, idle)| Event::Send(Sent {
            now,
            size: 1448,
            in_flight: Bytes::new(u64::from(!idle)),
            app_limited: idle,
        })),
        2 => instant().prop_map(Event::Enter),
        2 => instant().prop_map(Event::Exit),
        1 => instant().prop_map(Event::Timeout),
        1 => instant().prop_map(Event::Spurious),
        1 => any::<u32>().prop_map(Event::Mss),
    ]
}

/// One of the extreme values that an option accepts.
fn extreme(kind: OptionKind, pick: usize) -> OptionValue {
    match kind {
        OptionKind::Gain(low, high) => OptionValue::Gain([low, high][pick % 2]),
        OptionKind::Count(low, high) => OptionValue::Count([low, high][pick % 2]),
        OptionKind::Duration(low, high) => OptionValue::Duration([low, high][pick % 2]),
        OptionKind::Bytes(low, high) => OptionValue::Bytes([low, high][pick % 2]),
        OptionKind::Flag => OptionValue::Flag(pick.is_multiple_of(2)),
        OptionKind::Choice(words) => OptionValue::Choice(words[pick % words.len()]),
        other => panic!("no controller has an option of {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn holds_its_floors_for_any_events(
        name in prop_oneof![Just("ledbat"), Just("ledbat++")],
        mss in any::<u32>(),
        initial_window in number(),
        picks in proptest::collection::vec(proptest::option::of(0usize..6), 32),
        events in proptest::collection::vec(event(), 1..200),
    ) {
        let spec = controllers().iter().find(|spec| spec.name == name).unwrap();
        let options: Vec<(&str, OptionValue)> = spec
            .options()
            .zip(&picks)
            .filter_map(|(info, pick)| Some((info.name, extreme(info.kind, (*pick)?))))
            .collect();
        let config = Config {
            mss,
            initial_window: Bytes::new(initial_window),
            seed: 0,
            now: Instant::ZERO,
            srtt: None,
            has_selective_acks: true,
        };
        let mut controller = build(name, &config, &options).unwrap();
        let mut mss = Bytes::new(u64::from(mss.max(1)));
        for event in &events {
            let before = controller.cwnd();
            match event {
                Event::Ack(ack) => controller.on_ack(ack),
                Event::Send(sent) => controller.on_send(sent),
                Event::Enter(now) => controller.on_recovery_enter(*now, Bytes::ZERO),
                Event::Exit(now) => controller.on_recovery_exit(*now),
                Event::Timeout(now) => controller.on_timeout(*now, Bytes::ZERO),
                Event::Spurious(now) => controller.on_spurious(*now, Bytes::ZERO),
                Event::Mss(changed) => {
                    controller.on_mss(*changed);
                    mss = Bytes::new(u64::from((*changed).max(1)));
                }
            }
            prop_assert!(controller.cwnd() >= mss);
            prop_assert!(controller.send_quantum() >= mss);
            prop_assert!(controller.ssthresh().is_none_or(|ssthresh| ssthresh >= mss * 2));
            match event {
                // At most slow start's growth, except for the window that returns after a slowdown.
                Event::Ack(ack) => {
                    let back = controller.ssthresh().unwrap_or_default();
                    let most = (before + ack.newly_acked).max(back).max(mss * 2);
                    prop_assert!(controller.cwnd() <= most);
                }
                Event::Enter(_) | Event::Timeout(_) | Event::Send(_) => {
                    prop_assert!(controller.cwnd() <= before);
                }
                Event::Exit(_) | Event::Spurious(_) | Event::Mss(_) => {}
            }
            controller.visit_state(&mut crate::Visitor::each(&mut |_, _| ()));
            prop_assert!(spec.phases.contains(&controller.phase()));
        }
    }
}
