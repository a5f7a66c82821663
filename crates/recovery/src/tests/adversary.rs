//! Whatever the network does, every byte arrives once and in order.

use paceline_congestion::RecoveryWindow;
use paceline_units::{Bytes, Duration, Instant, Rate};
use proptest::prelude::*;

use super::harness::{Delays, MSS, Window, World, at, ms};
use paceline_units::options::Choice;

use crate::{Acknowledgment, Block, Receiver, ReceiverConfig, Recovery, SenderConfig};

/// One packet: copies that arrive, each after this many tenths of a millisecond.
fn delays() -> impl Strategy<Value = Delays> {
    let tenths =
        |range: std::ops::Range<u64>| range.prop_map(|tenths| Duration::from_micros(tenths * 100));
    prop_oneof![
        12 => tenths(200..210).prop_map(|delay| vec![delay]),
        2 => tenths(100..900).prop_map(|delay| vec![delay]),
        1 => tenths(5000..30_000).prop_map(|delay| vec![delay]),
        3 => Just(vec![]),
        1 => prop::collection::vec(tenths(150..600), 2..4),
    ]
}

fn controller() -> impl Strategy<Value = Window> {
    (
        1_u64..60,
        prop::option::of(0_u64..40_000_000),
        1_u64..20_000,
        any::<bool>(),
    )
        .prop_map(|(segments, rate, quantum, prr)| {
            let mut window = Window::new(segments);
            window.rate = rate.map(Rate::from_bps);
            window.quantum = Bytes::new(quantum);
            if !prr {
                window.recovery = RecoveryWindow::Controller;
            }
            window
        })
}

/// Every recovery algorithm, with every option.
fn config() -> impl Strategy<Value = SenderConfig> {
    let recovery = prop::sample::select(<Recovery as Choice>::ALL.to_vec());
    (recovery, any::<[bool; 5]>()).prop_map(|(recovery, flags)| {
        let [tlp, f_rto, undo, limited_transmit, tso_defer] = flags;
        SenderConfig {
            recovery,
            tlp,
            f_rto,
            undo,
            limited_transmit,
            tso_defer,
            ..SenderConfig::default()
        }
    })
}

/// An arbitrary acknowledgment, sometimes one that makes sense.
fn garbage() -> impl Strategy<Value = Acknowledgment> {
    let number = || {
        prop_oneof![
            4 => (0_u64..120).prop_map(|n| n * u64::from(MSS)),
            2 => 0_u64..120_000,
            1 => any::<u64>(),
            1 => Just(u64::MAX),
        ]
    };
    let block = (number(), number()).prop_map(|(start, end)| Block { start, end });
    let head = (
        number(),
        prop::collection::vec(block, 0..5),
        any::<bool>(),
        number(),
    );
    (head, number(), number(), number(), number()).prop_map(
        |((ack, blocks, dsack, ce_bytes), window, ts_echo, sent, delay)| {
            let mut blocks: crate::SackBlocks = blocks.into_iter().collect();
            blocks.dsack = dsack;
            Acknowledgment {
                ack,
                blocks,
                ts_echo: Instant::from_nanos(ts_echo),
                sent: Instant::from_nanos(sent),
                ce_bytes,
                window,
                delay: Duration::from_nanos(delay),
                ..Acknowledgment::default()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn everything_arrives_once_and_in_order(
        config in config(),
        controller in controller(),
        data in prop::collection::vec(delays(), 1..60),
        acks in prop::collection::vec(delays(), 1..60),
        writes in prop::collection::vec((0_u64..400, 1_u64..60_000), 1..5),
        sack_delay in 0_u64..5,
        pushed in any::<bool>(),
        window_growth in any::<bool>(),
    ) {
        // The script repeats, ending in a packet that gets through: never are all lost.
        let script = |mut script: Vec<Delays>| {
            script.push(vec![Duration::from_millis(20)]);
            move |number: u64| script[number as usize % script.len()].clone()
        };
        let (data, acks) = (script(data), script(acks));
        let mut world = World::with(
            SenderConfig { push: pushed, ..config },
            controller,
            |number, _: &_| data(number),
            |number, _: &_| acks(number),
        );
        world.receiver = Receiver::new(ReceiverConfig {
            sack_delay: ms(sack_delay),
            pushed,
            window_growth,
            ..ReceiverConfig::default()
        });
        let total: u64 = writes.iter().map(|(_, bytes)| bytes).sum();
        for (wait, bytes) in writes {
            let until = world.now + Duration::from_millis(wait);
            world.run(until);
            world.now = world.now.max(until);
            world.sender.write(world.now, bytes);
        }
        world.sender.close();
        prop_assert!(world.run(at(10_000_000)), "{:?}", world.sender);
        prop_assert!(world.sender.is_finished());
        prop_assert_eq!(world.receiver.delivered(), total);
        prop_assert_eq!(world.receiver.held(), 0);
        // Data reported to have arrived twice counts twice, and without SACK duplicate
        // acknowledgments may be caused by copies that the network has made.
        let delivered = world.sender.delivery().delivered().get();
        let again = world.sender.stats().retransmitted_packets * u64::from(MSS);
        prop_assert!(delivered >= total, "{} of {}", delivered, total);
        prop_assert!(!config.recovery.has_sack() || delivered <= total + again);
        prop_assert_eq!(world.sender.in_flight(), Bytes::ZERO);
    }

    /// Whatever came before, the short paths of acknowledgments give the same result as the general
    /// one.
    #[test]
    fn an_acknowledgment_may_go_the_short_way(
        controller in controller(),
        config in config(),
        data in prop::collection::vec(delays(), 1..60),
        acks in prop::collection::vec(delays(), 1..60),
        steady in 10_u64..200,
        paused in 0_u64..400,
    ) {
        // After a while the network works correctly.
        let script = |script: Vec<Delays>| move |number: u64| {
            let delays = script.get(number as usize).cloned();
            delays.unwrap_or_else(|| vec![Duration::from_millis(20)])
        };
        let (data, acks) = (script(data), script(acks));
        let mut world = World::with(
            config,
            controller,
            |number, _: &_| data(number),
            |number, _: &_| acks(number),
        );
        world.compares = true;
        for _ in 0..2 {
            world.sender.write(world.now, steady * u64::from(MSS) + 1);
            world.run(world.now + Duration::from_millis(paused));
        }
        world.sender.close();
        prop_assert!(world.run(at(10_000_000)), "{:?}", world.sender);
    }

    /// Without reordering and late acknowledgments there is nothing to undo.
    #[test]
    fn losses_that_are_losses_are_never_undone(
        segments in 2_u64..80,
        lost in prop::collection::vec(prop::bool::weighted(0.15), 10..200),
    ) {
        let delay = || vec![Duration::from_millis(20)];
        let mut world = World::new(
            Window::new(segments),
            |number, _: &_| match lost.get(number as usize) {
                Some(true) => vec![],
                _ => delay(),
            },
            |_, _: &_| delay(),
        );
        world.sender.write(Instant::ZERO, 400 * u64::from(MSS));
        world.sender.close();
        prop_assert!(world.run(at(10_000_000)));
        prop_assert_eq!(world.sender.stats().undo_count, 0);
        prop_assert_eq!(world.sender.stats().spurious_packets, 0);
    }

    /// Without losses, all acknowledgments are plain.
    #[test]
    fn an_undisturbed_flow_goes_the_short_way(segments in 2_u64..80, rtt in 1_u64..100) {
        let delay = || vec![Duration::from_millis(rtt)];
        let mut world = World::new(Window::new(segments), |_, _: &_| delay(), |_, _: &_| delay());
        world.sender.write(Instant::ZERO, 400 * u64::from(MSS));
        world.sender.close();
        prop_assert!(world.run(at(10_000_000)));
        prop_assert!(world.plain > 0);
        prop_assert_eq!(world.plain, world.acks_taken);
    }

    /// Behind one loss, all acknowledgments but the first and the last two say only that one range
    /// has grown.
    #[test]
    fn behind_a_loss_the_highest_range_grows_the_short_way(segments in 10_u64..80, rtt in 1_u64..100) {
        let delay = || vec![Duration::from_millis(rtt)];
        let data = |number, _: &_| if number == segments { vec![] } else { delay() };
        let mut world = World::new(Window::new(segments), data, |_, _: &_| delay());
        world.compares = true;
        world.sender.write(Instant::ZERO, 400 * u64::from(MSS));
        world.sender.close();
        prop_assert!(world.run(at(10_000_000)));
        prop_assert!(world.extensions + 3 >= segments, "{} of {}", world.extensions, segments);
    }

    /// However long and badly the network has failed: once it works, the flow makes progress within
    /// two of its timeouts, the pending one and one more, again and again until it is done.
    #[test]
    fn a_network_that_works_again_is_used_within_two_timeouts(
        config in config(),
        controller in controller(),
        data in prop::collection::vec(delays(), 1..60),
        heals in 50_u64..20_000,
    ) {
        let mut controller = controller;
        controller.slow_start = true;
        controller.rate = None;
        let works = move |sent: Instant| sent >= at(heals);
        let late = std::cell::Cell::new(Instant::ZERO);
        let mut world = World::with(
            config,
            controller,
            |number, segment: &crate::Segment| {
                let script = data.get(number as usize % data.len());
                let Some(bad) = script.filter(|_| !works(segment.sent)) else {
                    return vec![ms(20)];
                };
                for delay in bad {
                    late.set(late.get().max(segment.sent + *delay));
                }
                bad.clone()
            },
            |_, _: &_| vec![ms(20)],
        );
        world.sender.write(world.now, 600_000);
        world.sender.close();
        world.run(at(heals));
        // As long as data sent earlier still arrives, its SACKs rearm the timer.
        let settled = at(heals).max(late.get() + ms(20));
        world.run(settled);
        world.now = world.now.max(settled);
        while !world.sender.is_finished() {
            let before = world.receiver.delivered();
            // A running timer was armed with the timeout at that time, which may have been backed
            // off further. After it, one more.
            let pending = world.sender.next_timer().unwrap_or(world.now);
            let rto = world.sender.rto();
            let until = (world.now + rto * 2).max(pending + rto) + ms(100);
            world.run(until);
            world.now = world.now.max(until);
            prop_assert!(
                world.receiver.delivered() > before || world.sender.is_finished(),
                "{:?}",
                world.sender
            );
        }
    }

    #[test]
    fn garbage_does_no_harm(
        config in config(),
        controller in controller(),
        steps in prop::collection::vec((garbage(), 0_u64..300), 1..80),
    ) {
        let mut world = World::with(config, controller, |_, _: &_| vec![], |_, _: &_| vec![]);
        world.sender.write(Instant::ZERO, 100_500);
        for (ack, wait) in steps {
            world.send();
            prop_assert!(world.sender.una() <= world.sender.snd_nxt());
            world.now += Duration::from_millis(wait);
            world.sender.on_ack(world.now, &ack);
            prop_assert_eq!(world.sender.audit(), Ok(()));
            world.sender.on_timer(world.now);
            prop_assert_eq!(world.sender.audit(), Ok(()));
        }
    }
}
