//! Links whose queue decides at dequeue.

use super::*;
use crate::{Aqm, CapacityTrace, Codel, DualPi2, FqCodel, Pie, Red, StepMark};
use paceline_units::{BurstLoss, Frequency, Reorder, Site, Size};
use proptest::prelude::*;

/// Size, number, ECN: none, classic, L4S.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Probe(u32, u32, u8);

impl Packet for Probe {
    fn size(&self) -> u32 {
        self.0
    }

    fn mark(&mut self) -> bool {
        self.2 > 0
    }

    fn flow(&self) -> u64 {
        u64::from(self.1 % 7)
    }

    fn is_l4s(&self) -> bool {
        self.2 == 2
    }
}

fn us(n: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(n)
}

const CODEL: Codel = Codel {
    target: Duration::from_millis(5),
    interval: Duration::from_millis(100),
    ecn: true,
};

const SITE: Site = Site {
    rate: Rate::from_bps(50_000_000),
    rtt: Duration::from_millis(40),
    mtu: Bytes::new(1500),
};

/// One of each kind, fast enough for a short test.
fn kinds() -> [Aqm; 4] {
    let quick = Codel {
        target: Duration::from_micros(500),
        interval: Duration::from_millis(2),
        ..CODEL
    };
    [
        Aqm::Codel(quick),
        Aqm::FqCodel(FqCodel {
            target: quick.target,
            interval: quick.interval,
            ecn: true,
            flows: 4,
            quantum: Bytes::new(600),
            total_backlog: true,
        }),
        Aqm::Pie(Pie {
            target: Duration::from_millis(1),
            update: Duration::from_millis(1),
            alpha: Frequency::from_millionths(125_000_000),
            beta: Frequency::from_millionths(1_250_000_000),
            burst: Duration::from_millis(1),
            ecn: true,
            mark_limit: Gain::from_millionths(100_000),
            derandomize: true,
        }),
        Aqm::DualPi2(DualPi2 {
            target: Duration::from_millis(1),
            rtt_max: Duration::from_millis(5),
            coupling: 2,
            ramp_min: Duration::from_micros(800),
            ramp_range: Duration::from_micros(400),
            classic_share: Gain::from_millionths(100_000),
        }),
    ]
}

fn link(service: Service, limit: QueueLimit, aqm: Option<Aqm>) -> Link<Probe> {
    let mut link = Link::new(LinkConfig {
        service,
        delay: Duration::from_millis(20),
        limit,
        seed: 1,
    });
    link.set_aqm(aqm, &SITE);
    link
}

fn fifty() -> Service {
    Service::Fixed(Rate::from_bps(50_000_000))
}

/// Takes the packets that arrive up to `until`, with their times.
fn take(link: &mut Link<Probe>, until: Instant, arrived: &mut Vec<(Instant, u32)>) {
    while let Some(at) = link.next_arrival().filter(|&at| at <= until) {
        arrived.extend(link.arrive(at).map(|probe| (at, probe.1)));
    }
}

/// The number of each packet is its acknowledgment number; one connection for each flow.
fn as_ack(packet: &Probe) -> Option<Header> {
    Some(Header {
        connection: packet.flow(),
        acknowledges: true,
        pure: true,
        ack: packet.1,
        ..Header::default()
    })
}

#[test]
fn an_ack_takes_the_place_of_an_older_one_in_each_kind_of_queue() {
    // 0, 7, 14, ... are one connection; 24 us each, behind the first. Two of them wait at most.
    let fq = Aqm::FqCodel(FqCodel::default());
    for aqm in [
        None,
        Some(Aqm::Codel(CODEL)),
        Some(fq),
        Some(kinds()[2]),
        Some(kinds()[3]),
    ] {
        let mut link = link(fifty(), QueueLimit::Bytes(4 * 1500), aqm);
        link.set_ack_filter(us(0), AckFilter::Cake);
        link.tell_drops();
        let mut arrived = Vec::new();
        let verdict = link.enqueue_read(us(0), Probe(150, 1, 0), as_ack);
        assert_eq!(verdict, Verdict::Queued);
        for n in 0..20 {
            let verdict = link.enqueue_read(us(1 + n), Probe(150, n as u32 * 7, 0), as_ack);
            assert_eq!(verdict, Verdict::Queued, "{aqm:?}");
        }
        take(&mut link, us(100_000), &mut arrived);
        let dropped: Vec<_> = std::iter::from_fn(|| link.next_drop()).collect();
        assert!(
            dropped
                .iter()
                .all(|(.., cause)| *cause == DropCause::Filtered)
        );
        let gone: Vec<u32> = dropped.iter().map(|(_, packet, _)| packet.1 / 7).collect();
        let arrived: Vec<u32> = arrived.iter().map(|(_, number)| *number / 7).collect();
        // All came before the first had left.
        assert_eq!(gone, (0..18).collect::<Vec<_>>(), "{aqm:?}");
        assert_eq!(arrived, [0, 18, 19], "{aqm:?}");
        assert!(link.is_balanced());
        assert_eq!(
            (link.counters().dropped_filtered.packets, link.held()),
            (18, 0)
        );
    }
}

#[test]
fn a_head_drop_makes_way_for_the_next() {
    // 240 us a packet, so the sojourn time of packet n is 240 n us. Packet 21 waits 5.04 ms, so the
    // queue is bad from 5.04 ms on. At 105.04 ms the server becomes free and drops the first
    // packet.
    let mut link = link(fifty(), QueueLimit::Packets(1000), Some(Aqm::Codel(CODEL)));
    link.tell_drops();
    for n in 0..600 {
        link.enqueue(us(0), Probe(1500, n, 0));
    }
    let mut arrived = Vec::new();
    take(&mut link, us(200_000), &mut arrived);
    let (at, lost, cause) = link.next_drop().unwrap();
    assert_eq!(cause, DropCause::Early);
    assert_eq!((at, lost.1), (us(105_120), 438));
    assert_eq!(arrived[437], (us(125_120), 437));
    assert_eq!(arrived[438], (us(125_360), 439));
    assert_eq!(link.counters().dropped_early.packets, 1);
    assert!(link.is_balanced());
    assert_eq!(link.next_drop(), None);
}

#[test]
fn the_backlog_is_what_waits_in_both_places() {
    let mut link = link(fifty(), QueueLimit::Packets(100), Some(Aqm::Codel(CODEL)));
    for n in 0..5 {
        link.enqueue(us(0), Probe(1500, n, 0));
    }
    let backlog = link.backlog(us(300));
    assert_eq!((backlog.bytes.get(), backlog.packets), (6000, 4));
    assert_eq!(backlog.delay, Duration::from_micros(1200 - 300));
    assert_eq!(link.take_peak(us(300)).get(), 7500);
    // Along a trace: the packet in transmission uses this opportunity, the three behind it one
    // each.
    let trace = Service::Trace(CapacityTrace::parse("1\n2\n2\n10\n").unwrap());
    let mut link = self::link(trace, QueueLimit::Packets(100), Some(Aqm::Codel(CODEL)));
    for n in 0..4 {
        link.enqueue(us(0), Probe(1500, n, 0));
    }
    assert_eq!(link.backlog(us(0)).delay, Duration::from_millis(10));
}

#[test]
fn fair_queues_share_and_dual_queues_prefer() {
    let fair = Aqm::FqCodel(FqCodel::default());
    for (aqm, first) in [(fair, 2), (kinds()[3], 1)] {
        let mut link = link(fifty(), QueueLimit::Packets(1000), Some(aqm));
        for n in 0..20 {
            link.enqueue(us(0), Probe(1500, 7 * n, 0));
        }
        link.enqueue(us(0), Probe(1500, 1, 2));
        let mut arrived = Vec::new();
        take(&mut link, Instant::MAX, &mut arrived);
        let place = arrived.iter().position(|(_, number)| *number == 1).unwrap();
        // Behind the packet in transmission, and for fair queues behind one turn.
        assert!(place <= first, "{aqm:?}: {place}");
        assert_eq!(arrived.len(), 21);
    }
}

#[test]
fn bursts_of_loss_are_accounted_for() {
    let mut link = link(fifty(), QueueLimit::Packets(2000), None);
    let percent = |n: u32| Gain::from_millionths(n * 10_000);
    link.set_loss(
        us(0),
        Loss::Burst(BurstLoss {
            p: percent(2),
            r: percent(25),
            good: percent(0),
            bad: percent(100),
        }),
    );
    for n in 0..2000 {
        link.enqueue(us(0), Probe(1500, n, 0));
    }
    let mut arrived = Vec::new();
    take(&mut link, Instant::MAX, &mut arrived);
    let lost = link.counters().dropped_random.packets;
    assert_eq!(arrived.len() as u64 + lost, 2000);
    // 0.02 / 0.27 of 2000 are 148.
    assert!((75..225).contains(&lost), "{lost}");
    assert!(link.is_balanced());
}

proptest! {
    /// A queue that never signals is a FIFO, whether or not it waits beside the server.
    #[test]
    fn without_signals_it_is_a_fifo(
        steps in prop::collection::vec((0u64..2000, 0u8..20, 40u32..3000), 1..300),
        packets in any::<bool>(), limit in 1u64..30, traced in any::<bool>(),
    ) {
        let limit = if packets { QueueLimit::Packets(limit) } else { QueueLimit::Bytes(limit * 1000) };
        let service = || match traced {
            true => Service::Trace(CapacityTrace::parse("0\n1\n1\n4\n9\n").unwrap()),
            false => fifty(),
        };
        let never = Codel { target: Duration::MAX, ..CODEL };
        let mut links = [None, Some(Aqm::Codel(never))].map(|aqm| link(service(), limit, aqm));
        let [mut plain, mut queued] = [Vec::new(), Vec::new()];
        let mut now = Instant::ZERO;
        for (number, (gap, what, size)) in (0..).zip(steps) {
            now += Duration::from_micros(gap);
            take(&mut links[0], now, &mut plain);
            take(&mut links[1], now, &mut queued);
            let verdicts = links.each_mut().map(|link| match what {
                0 => { link.set_rate(now, Rate::ZERO); None }
                1 => { link.set_rate(now, Rate::from_bps(u64::from(size) * 20_000)); None }
                2 => { link.set_delay(now, Duration::from_micros(u64::from(size))); None }
                3 => { link.set_aggregation(now, Duration::from_micros(u64::from(size % 4) * 1000)); None }
                4 => { link.set_grant_delay(now, Duration::from_micros(u64::from(size % 3) * 1000)); None }
                _ => Some(link.enqueue(now, Probe(size, number, 0))),
            });
            prop_assert_eq!(verdicts[0], verdicts[1]);
            let [a, b] = links.each_mut().map(|link| link.backlog(now));
            prop_assert_eq!((a.bytes, a.packets), (b.bytes, b.packets));
            // Rounded for each packet there, for all together here.
            let apart = a.delay.max(b.delay) - a.delay.min(b.delay);
            prop_assert!(apart <= Duration::from_nanos(a.packets), "{:?} {:?}", a, b);
            let [a, b] = links.each_mut().map(|link| link.take_peak(now));
            prop_assert_eq!(a, b);
        }
        for (link, arrived) in links.iter_mut().zip([&mut plain, &mut queued]) {
            link.set_rate(now, Rate::from_bps(1_000_000));
            take(link, Instant::MAX, arrived);
        }
        prop_assert_eq!(plain, queued);
        prop_assert_eq!(links[0].counters(), links[1].counters());
    }

    /// A link that looks at the packets that wait, from the start or from later on, is a plain one
    /// while there are no ACKs.
    #[test]
    fn a_filter_without_acks_changes_nothing(
        steps in prop::collection::vec((0u64..1500, 0u8..20, 40u32..3000, 0u8..2), 1..300),
        packets in any::<bool>(), limit in 1u64..30, early in 0usize..3, from in 0u32..100,
    ) {
        let limit = if packets { QueueLimit::Packets(limit) } else { QueueLimit::Bytes(limit * 1000) };
        let mark = StepMark { threshold: Size::Packets(3) };
        let red = Red { min: Size::Packets(2), max: Size::Packets(8), weight: Gain::ONE, ..Red::default() };
        let aqm = [None, Some(Aqm::StepMark(mark)), Some(Aqm::Red(red))][early];
        let mut links = [(); 2].map(|()| link(fifty(), limit, aqm));
        let mut arrived = [Vec::new(), Vec::new()];
        let mut now = Instant::ZERO;
        for (number, (gap, what, size, ecn)) in (0..).zip(steps) {
            now += Duration::from_micros(gap);
            if number == from {
                links[1].set_ack_filter(now, AckFilter::Cake);
            }
            let verdicts = links.each_mut().map(|link| match what {
                0 => { link.set_rate(now, Rate::from_bps(u64::from(size) * 20_000)); None }
                1 => { link.set_delay(now, Duration::from_micros(u64::from(size))); None }
                _ => Some(link.enqueue(now, Probe(size, number, ecn))),
            });
            prop_assert_eq!(verdicts[0], verdicts[1]);
            let [a, b] = links.each_mut().map(|link| link.backlog(now));
            prop_assert_eq!((a.bytes, a.packets), (b.bytes, b.packets));
        }
        links.iter_mut().zip(&mut arrived).for_each(|(link, arrived)| take(link, Instant::MAX, arrived));
        prop_assert_eq!(&arrived[0], &arrived[1]);
        prop_assert_eq!(links[0].counters(), links[1].counters());
    }

    /// In every case each packet is delivered or dropped, time moves forward, and reporting drops
    /// changes nothing.
    #[test]
    fn each_kind_conserves_and_is_the_same_told_or_not(
        steps in prop::collection::vec((0u64..1500, 0u8..30, 40u32..3000, 0u8..3), 1..400),
        kind in 0usize..4, limit in 1u64..60,
    ) {
        let aqm = kinds()[kind];
        let mut links = [false, true].map(|reports| {
            let mut link = link(fifty(), QueueLimit::Packets(limit), Some(aqm));
            if reports { link.tell_drops(); }
            link
        });
        let mut arrived = [Vec::new(), Vec::new()];
        let (mut now, mut rejected, mut offered) = (Instant::ZERO, 0, 0);
        for (number, (gap, what, size, ecn)) in (0..).zip(steps) {
            now += Duration::from_micros(gap);
            for (link, arrived) in links.iter_mut().zip(&mut arrived) {
                take(link, now, arrived);
                match what {
                    0 => link.set_rate(now, Rate::ZERO),
                    1 => link.set_rate(now, Rate::from_bps(u64::from(size) * 20_000)),
                    2 => link.set_loss(now, Loss::Independent(Gain::from_millionths(size * 100))),
                    3 => link.set_duplicate(Gain::from_millionths(size * 30)),
                    4 => link.set_reorder(now, Reorder { probability: Gain::from_millionths(size * 30), delay: Duration::from_millis(1) }),
                    5 => link.set_jitter(now, Duration::from_micros(u64::from(size))),
                    _ => {
                        let verdict = link.enqueue(now, Probe(size, number, ecn));
                        rejected += u64::from(verdict != Verdict::Queued);
                        offered += 1;
                    }
                }
                // Brings the link up to date.
                let backlog = link.backlog(now);
                prop_assert!(link.is_balanced());
                let departing: u64 = link.entries.iter().filter(|e| e.departure > now)
                    .map(|e| u64::from(e.packet.size())).sum();
                let queued = link.waiting();
                prop_assert_eq!(backlog.bytes.get(), departing + queued);
                // The server is never idle while packets wait.
                prop_assert!(queued == 0 || link.busy_until > now);
            }
        }
        for (link, arrived) in links.iter_mut().zip(&mut arrived) {
            link.set_rate(now, Rate::from_bps(1_000_000));
            take(link, Instant::MAX, arrived);
            prop_assert!(arrived.is_sorted_by_key(|(at, ..)| *at));
            prop_assert_eq!(link.held(), 0);
            prop_assert!(link.is_balanced());
        }
        prop_assert_eq!(&arrived[0], &arrived[1]);
        prop_assert_eq!(links[0].counters(), links[1].counters());
        let reported = std::iter::from_fn(|| links[1].next_drop()).collect::<Vec<_>>();
        prop_assert!(reported.is_sorted_by_key(|(at, ..)| *at));
        let counters = *links[1].counters();
        prop_assert_eq!(reported.len() as u64 + rejected / 2, counters.dropped().packets);
        prop_assert_eq!(offered / 2, counters.offered.packets);
    }
}
