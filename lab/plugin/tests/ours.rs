//! Each of our controllers makes the same decisions through the C interface as directly.

use paceline_capi::paceline_controller_get;
use paceline_congestion::{
    Ack, AnyController, CaState, Config, Controller, Delivery, Lost, PacketState, Sent, Signals,
    Value, build, controllers,
};
use paceline_plugin::{Foreign, Library};
use paceline_units::{Bytes, Duration, Instant};
use proptest::prelude::*;

const MSS: u32 = 1448;
/// Miri takes a hundred times as long.
const EVENTS: usize = if cfg!(miri) { 20 } else { 200 };

/// The same events for both, from a transport that behaves erratically.
struct Both {
    direct: AnyController,
    foreign: Foreign,
    delivery: Delivery,
    flight: Vec<PacketState>,
    now: Instant,
    sent: u64,
}

#[derive(Clone, Debug)]
enum Event {
    Send,
    Ack {
        packets: usize,
        after: u64,
        marked: bool,
        state: CaState,
        ets: bool,
    },
    Lose {
        again: bool,
    },
    Enter,
    Exit,
    Timeout,
    Spurious,
    Restart,
    Mss(u32),
}

impl Both {
    fn new(name: &str, seed: u64) -> Self {
        let config = Config {
            mss: MSS,
            initial_window: Bytes::new(10 * u64::from(MSS)),
            seed,
            now: Instant::from_nanos(7),
            srtt: seed.is_multiple_of(2).then(|| Duration::from_millis(40)),
            has_selective_acks: !seed.is_multiple_of(3),
        };
        let direct = build(name, &config, &[]).expect("its defaults");
        // SAFETY: it is ours.
        let library = unsafe { Library::of(paceline_controller_get) }.expect("ours");
        let spec = library.find(name).expect("each has a table");
        Self {
            delivery: Delivery::new(direct.pacer_below()),
            direct,
            foreign: Foreign::build(spec, &config, Signals::ALL, &[]).expect("its defaults"),
            flight: Vec::new(),
            now: Instant::from_nanos(7),
            sent: 0,
        }
    }

    fn in_flight(&self) -> Bytes {
        Bytes::new(self.flight.len() as u64 * u64::from(MSS))
    }

    fn notify(&mut self, mut event: impl FnMut(&mut dyn Controller)) {
        event(&mut self.direct);
        event(&mut self.foreign);
    }

    fn happen(&mut self, event: &Event) {
        let (now, in_flight) = (self.now, self.in_flight());
        let delivered = self.delivery.delivered();
        match *event {
            Event::Send => {
                let app_limited = self.delivery.is_app_limited();
                self.notify(|c| {
                    c.on_send(&Sent {
                        now,
                        size: MSS,
                        in_flight,
                        app_limited,
                    })
                });
                self.flight.push(self.delivery.on_send(now, MSS, in_flight));
                self.sent += 1;
            }
            Event::Ack {
                packets,
                after,
                marked,
                state,
                ets,
            } => self.acknowledge(packets, after, marked, state, ets),
            Event::Lose { again } => {
                let Some(packet) = (!self.flight.is_empty()).then(|| self.flight.remove(0)) else {
                    return;
                };
                self.delivery.on_lost(&packet);
                let lost = Lost {
                    now,
                    packet,
                    lost: self.delivery.lost(),
                    delivered,
                    in_flight: self.in_flight(),
                    starts_range: !again,
                    retransmission: again,
                };
                self.notify(|c| c.on_loss(&lost));
            }
            Event::Enter => self.notify(|c| c.on_recovery_enter(now, in_flight)),
            Event::Exit => self.notify(|c| c.on_recovery_exit(now)),
            Event::Timeout => self.notify(|c| c.on_timeout(now, in_flight)),
            Event::Spurious => self.notify(|c| c.on_spurious(now, delivered)),
            Event::Restart => self.notify(|c| c.on_idle_restart(now)),
            Event::Mss(mss) => self.notify(|c| c.on_mss(mss)),
        }
    }

    fn acknowledge(
        &mut self,
        packets: usize,
        after: u64,
        marked: bool,
        ca_state: CaState,
        ets: bool,
    ) {
        self.now += Duration::from_nanos(after);
        let (now, prior_in_flight) = (self.now, self.in_flight());
        let packets: Vec<PacketState> = self
            .flight
            .drain(..packets.min(self.flight.len()))
            .collect();
        let rtt = packets.last().map(|packet| now.since(packet.send_time));
        for (id, packet) in packets.iter().enumerate() {
            self.delivery
                .on_delivered(now, packet, self.sent + id as u64, marked);
        }
        let newly_acked = Bytes::new(packets.len() as u64 * u64::from(MSS));
        let ack = Ack {
            now,
            sample: self.delivery.sample(),
            newly_acked,
            newly_lost: Bytes::ZERO,
            newly_marked: marked.then_some(newly_acked),
            prior_in_flight,
            in_flight: self.in_flight(),
            delivered: self.delivery.delivered(),
            lost: self.delivery.lost(),
            sent: self.delivery.sent(),
            rtt,
            srtt: rtt.unwrap_or_default(),
            min_rtt: rtt.unwrap_or_default(),
            cwnd_limited: after.is_multiple_of(2),
            ca_state,
            una_advanced: !packets.is_empty(),
            delayed: after.is_multiple_of(3),
            one_way_delay: ets.then(|| Duration::from_nanos(after / 2)),
            network_rtt: if ets { rtt.map(|rtt| rtt / 2) } else { rtt },
            receiver_delay: ets.then(|| rtt.unwrap_or_default() / 2),
            ece: marked,
        };
        self.notify(|c| c.on_ack(&ack));
    }
}

/// Everything that a controller shows.
fn shown(controller: &dyn Controller) -> String {
    let mut state: Vec<(&str, Value)> = Vec::new();
    controller.visit_state(&mut paceline_congestion::Visitor::each(
        &mut |name, value| state.push((name, value)),
    ));
    format!(
        "{:?} {:?} {:?} {:?} {:?} {} {} {:?} {} {} {state:?}",
        controller.cwnd(),
        controller.pacing_rate(),
        controller.send_quantum(),
        controller.ssthresh(),
        controller.recovery_window(),
        controller.marks_app_limited(),
        controller.pacer_below(),
        controller.ecn(),
        controller.phase(),
        controller.round_count(),
    )
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let states = prop_oneof![
        6 => Just(CaState::Open),
        1 => Just(CaState::Disorder),
        1 => Just(CaState::Cwr),
        2 => Just(CaState::Recovery),
        1 => Just(CaState::Loss),
    ];
    let ack = (
        0usize..6,
        0u64..60_000_000,
        proptest::bool::weighted(0.1),
        states,
        any::<bool>(),
    )
        .prop_map(|(packets, after, marked, state, ets)| Event::Ack {
            packets,
            after,
            marked,
            state,
            ets,
        });
    let event = prop_oneof![
        12 => Just(Event::Send),
        12 => ack,
        2 => any::<bool>().prop_map(|again| Event::Lose { again }),
        1 => Just(Event::Enter),
        1 => Just(Event::Exit),
        1 => Just(Event::Timeout),
        1 => Just(Event::Spurious),
        1 => Just(Event::Restart),
        1 => (500u32..9000).prop_map(Event::Mss),
    ];
    proptest::collection::vec(event, 1..EVENTS)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ours_decide_the_same_behind_the_header(seed in any::<u64>(), events in events()) {
        for spec in controllers() {
            let mut both = Both::new(spec.name, seed);
            prop_assert_eq!(shown(&both.direct), shown(&both.foreign), "{} at first", spec.name);
            for (step, event) in events.iter().enumerate() {
                both.happen(event);
                prop_assert_eq!(
                    shown(&both.direct), shown(&both.foreign), "{} after {} {:?}", spec.name, step, event
                );
            }
        }
    }
}

#[test]
fn what_each_says_of_itself_comes_through() {
    // SAFETY: it is ours.
    let library = unsafe { Library::of(paceline_controller_get) }.expect("ours");
    assert_eq!(library.controllers().len(), controllers().len());
    for (spec, ours) in library.controllers().iter().zip(controllers()) {
        assert_eq!(
            (spec.name, spec.summary, spec.source),
            (ours.name, ours.summary, ours.source)
        );
        let options: Vec<_> = ours
            .options()
            .map(|option| (option.name, option.doc))
            .collect();
        assert_eq!(spec.options, options);
        assert_eq!(spec.phases, ours.phases);
        let mut fields = Vec::new();
        (ours.visit_fields)(&mut |field| fields.push(field));
        assert_eq!(spec.fields, fields);
    }
}

#[test]
fn a_copy_goes_its_own_way() {
    let mut both = Both::new("bbr3", 1);
    let copy = both.foreign.clone();
    let before = shown(&copy);
    for _ in 0..20 {
        both.happen(&Event::Send);
        both.happen(&Event::Ack {
            packets: 1,
            after: 1_000_000,
            marked: false,
            state: CaState::Open,
            ets: false,
        });
    }
    assert_ne!(shown(&both.foreign), before);
    assert_eq!(shown(&copy), before);
}

#[test]
fn refusals_say_why() {
    // SAFETY: it is ours.
    let library = unsafe { Library::of(paceline_controller_get) }.expect("ours");
    let bbr3 = library.find("bbr3").expect("it is there");
    let config = Config {
        mss: MSS,
        initial_window: Bytes::new(14_480),
        seed: 1,
        now: Instant::ZERO,
        srtt: None,
        has_selective_acks: true,
    };
    let error_of = |config: &Config, options: &[(&str, &str)]| {
        Foreign::build(bbr3, config, Signals::ALL, options)
            .expect_err("refused")
            .to_string()
    };
    assert_eq!(
        error_of(&config, &[("gain", "2")]),
        "`bbr3` refused: `bbr3` has no option `gain`"
    );
    assert_eq!(
        error_of(&config, &[("startup_pacing_gain", "2,89")]),
        "`bbr3` refused: `startup_pacing_gain` is a number from 1.001 to 10, not `2,89`"
    );
    assert_eq!(
        error_of(&Config { mss: 0, ..config }, &[]),
        "`bbr3` refused: `mss_bytes` and `initial_window_bytes` have to be above zero"
    );
    assert!(
        Foreign::build(
            bbr3,
            &config,
            Signals::ALL,
            &[("startup_pacing_gain", "2.89")]
        )
        .is_ok()
    );
}
