use super::*;
use crate::{Aqm, CapacityTrace, Red, StepMark};
use paceline_units::{Policer, Reorder, Site, Size};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Sized(u32, u32);

impl Packet for Sized {
    fn size(&self) -> u32 {
        self.0
    }
}

/// Even numbers are ECN-capable; the flag says whether the packet is marked.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Capable(u32, bool);

impl Packet for Capable {
    fn size(&self) -> u32 {
        1500
    }

    fn mark(&mut self) -> bool {
        self.1 = self.0.is_multiple_of(2);
        self.1
    }
}

fn us(n: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(n)
}

fn link(service: Service, limit: QueueLimit) -> Link<Sized> {
    Link::new(LinkConfig {
        service,
        delay: Duration::from_millis(20),
        limit,
        seed: 1,
    })
}

/// 1500 B at 50 Mbit/s take 240 us.
fn fifty(limit: QueueLimit) -> Link<Sized> {
    link(Service::Fixed(Rate::from_bps(50_000_000)), limit)
}

fn arrivals(link: &mut Link<Sized>) -> Vec<u64> {
    let mut times = Vec::new();
    while let Some(at) = link.next_arrival() {
        if link.arrive(at).is_some() {
            times.push(at.as_nanos() / 1000);
        }
    }
    times
}

#[test]
fn a_packet_or_a_byte_that_is_nowhere_unbalances_a_link() {
    let mut link = fifty(QueueLimit::Packets(10));
    link.enqueue(us(0), Sized(1500, 0));
    assert!(link.is_balanced());
    link.entries.pop_back();
    assert!(!link.is_balanced());

    let mut link = fifty(QueueLimit::Packets(10));
    link.enqueue(us(0), Sized(1500, 0));
    arrivals(&mut link);
    assert!(link.is_balanced());
    link.counters.delivered.bytes += Bytes::new(1);
    assert!(!link.is_balanced());
}

#[test]
fn serves_in_turn_and_delays() {
    let mut link = fifty(QueueLimit::Packets(10));
    for n in 0..3 {
        assert_eq!(link.enqueue(us(0), Sized(1500, n)), Verdict::Queued);
    }
    let backlog = link.backlog(us(100));
    assert_eq!((backlog.packets, backlog.bytes.get()), (3, 4500));
    assert_eq!(backlog.delay, Duration::from_micros(620));
    assert_eq!(arrivals(&mut link), [20_240, 20_480, 20_720]);
    assert!(link.is_balanced());
}

#[test]
fn the_limit_counts_what_waits() {
    // One in transmission, two waiting.
    let mut link = fifty(QueueLimit::Packets(2));
    let verdicts: Vec<bool> = (0..5)
        .map(|n| link.enqueue(us(0), Sized(1500, n)) == Verdict::Queued)
        .collect();
    assert_eq!(verdicts, [true, true, true, false, false]);
    assert_eq!(link.counters().dropped_queue.packets, 2);
    // After one departure there is room again.
    assert_eq!(link.enqueue(us(240), Sized(1500, 9)), Verdict::Queued);

    let mut bytes = fifty(QueueLimit::Bytes(2999));
    let verdicts: Vec<bool> = (0..4)
        .map(|n| bytes.enqueue(us(0), Sized(1500, n)) == Verdict::Queued)
        .collect();
    assert_eq!(verdicts, [true, true, false, false]);
    assert_eq!(bytes.enqueue(us(0), Sized(1499, 9)), Verdict::Queued);
}

#[test]
fn the_rate_holds_exactly_over_many_packets() {
    // 1500 B at 7 Mbit/s are 1 714 285.714... ns; 7000 of them are 12 s.
    let mut link = link(
        Service::Fixed(Rate::from_bps(7_000_000)),
        QueueLimit::Packets(u64::MAX),
    );
    for n in 0..7000 {
        link.enqueue(us(0), Sized(1500, n));
    }
    assert_eq!(arrivals(&mut link).last(), Some(&12_020_000));
}

#[test]
fn the_rate_holds_where_a_packet_takes_about_a_nanosecond() {
    // 1500 B at 10 Tbit/s are 1.2 ns. Each packet arrives in the nanosecond in which the one before
    // departs: 1000 of them are 1.2 us.
    let mut link = link(
        Service::Fixed(Rate::from_bps(10_000_000_000_000)),
        QueueLimit::Packets(1),
    );
    for n in 0..1000 {
        link.enqueue(link.busy_until, Sized(1500, n));
    }
    assert_eq!(link.busy_until, Instant::ZERO + Duration::from_nanos(1200));
}

#[test]
fn a_new_rate_serves_what_waits() {
    let mut link = fifty(QueueLimit::Packets(10));
    for n in 0..3 {
        link.enqueue(us(0), Sized(1500, n));
    }
    // Half of the first is sent; the rest is sent ten times slower.
    link.set_rate(us(120), Rate::from_bps(5_000_000));
    assert_eq!(arrivals(&mut link), [21_320, 23_720, 26_120]);
}

#[test]
fn a_stopped_link_keeps_its_packets_and_resumes() {
    let mut link = fifty(QueueLimit::Packets(10));
    link.enqueue(us(0), Sized(1500, 0));
    link.set_rate(us(120), Rate::ZERO);
    link.enqueue(us(200), Sized(1500, 1));
    assert_eq!(link.next_arrival(), None);
    assert_eq!(link.backlog(us(300)).delay, Duration::MAX);
    // A second stop must not forget the half already sent.
    link.set_rate(us(400), Rate::ZERO);
    link.set_rate(us(1000), Rate::from_bps(50_000_000));
    assert_eq!(arrivals(&mut link), [21_120, 21_360]);
    // Stopped while idle.
    link.set_rate(us(50_000), Rate::ZERO);
    link.enqueue(us(50_000), Sized(1500, 2));
    link.set_rate(us(51_000), Rate::from_bps(50_000_000));
    assert_eq!(arrivals(&mut link), [71_240]);
    assert!(link.is_balanced());
}

#[test]
fn a_shorter_delay_keeps_order() {
    let mut link = fifty(QueueLimit::Packets(10));
    link.enqueue(us(0), Sized(1500, 0));
    link.enqueue(us(0), Sized(1500, 1));
    link.set_delay(us(300), Duration::from_millis(1));
    // The first departed with 20 ms to go; the second would arrive before it.
    assert_eq!(arrivals(&mut link), [20_240, 20_240]);
}

#[test]
fn a_trace_gives_its_opportunities() {
    let trace = CapacityTrace::parse("1\n2\n2\n10\n").unwrap();
    let mut link = link(Service::Trace(trace), QueueLimit::Packets(100));
    for n in 0..5 {
        link.enqueue(us(0), Sized(1500, n));
    }
    // It arrives 20 ms later; the fifth uses the first opportunity of the next round.
    assert_eq!(
        arrivals(&mut link),
        [21_000, 22_000, 22_000, 30_000, 31_000]
    );
    // Unused opportunities are lost; two small packets share one.
    link.enqueue(us(41_500), Sized(700, 5));
    link.enqueue(us(41_500), Sized(700, 6));
    link.enqueue(us(41_500), Sized(700, 7));
    assert_eq!(arrivals(&mut link), [62_000, 62_000, 62_000]);
    assert_eq!(link.capacity(us(10_500)).get(), 4 * 1500);
}

#[test]
fn scripted_and_random_loss_are_counted() {
    let mut link = fifty(QueueLimit::Packets(2000));
    link.drop_next(2);
    link.set_loss(us(0), Loss::Independent(Gain::from_millionths(100_000)));
    for n in 0..1000 {
        link.enqueue(us(0), Sized(1500, n));
    }
    let delivered = arrivals(&mut link).len() as u64;
    let counters = link.counters();
    assert_eq!(counters.dropped_scripted.packets, 2);
    assert_eq!(counters.dropped_random.packets + delivered, 998);
    // 10 % of 998, within five standard deviations.
    assert!((52..148).contains(&counters.dropped_random.packets));
    assert!(link.is_balanced());
}

fn order(link: &mut Link<Sized>) -> Vec<(u64, u32)> {
    let mut arrived = Vec::new();
    while let Some(at) = link.next_arrival() {
        arrived.extend(
            link.arrive(at)
                .map(|packet| (at.as_nanos() / 1000, packet.1)),
        );
    }
    arrived
}

#[test]
fn held_packets_are_overtaken_and_keep_their_order() {
    let mut link = fifty(QueueLimit::Packets(10));
    link.hold_next(us(0), hold(2, 1000));
    link.hold_next(us(0), hold(1, 500));
    for n in 0..6 {
        link.enqueue(us(0), Sized(1500, n));
    }
    let expected = [
        (20_960, 3),
        // The third's arrival in order, 20 720, plus half a millisecond.
        (21_200, 4),
        (21_220, 2),
        (21_240, 0),
        (21_440, 5),
        (21_480, 1),
    ];
    assert_eq!(order(&mut link), expected);
    assert!(link.is_balanced());
}

#[test]
fn a_flight_held_beyond_what_follows_arrives_whole() {
    let mut link = fifty(QueueLimit::Packets(1000));
    link.hold_next(us(0), hold(100, 3_000_000));
    for n in 0..200 {
        link.enqueue(us(0), Sized(1500, n));
    }
    let arrived = order(&mut link);
    assert_eq!(arrived.len(), 200);
    assert!(arrived[..100].iter().map(|(_, n)| *n).eq(100..200));
    assert!(arrived[100..].iter().map(|(_, n)| *n).eq(0..100));
    assert_eq!(arrived[100].0, 3_020_240);
}

#[test]
fn reordering_and_duplication_come_as_often_as_said() {
    let mut link = fifty(QueueLimit::Packets(2000));
    let reorder = Reorder {
        probability: Gain::from_millionths(100_000),
        delay: Duration::from_millis(5),
    };
    link.set_reorder(us(0), reorder);
    link.set_duplicate(Gain::from_millionths(50_000));
    for n in 0..1000 {
        link.enqueue(us(0), Sized(1500, n));
    }
    let arrived = order(&mut link);
    let turn = |n: u32| 20_000 + 240 * (u64::from(n) + 1);
    let late = arrived.iter().filter(|(at, n)| *at > turn(*n)).count();
    assert!(
        arrived
            .iter()
            .all(|(at, n)| *at == turn(*n) || *at == turn(*n) + 5_000)
    );
    // Within five standard deviations.
    assert!((52..148).contains(&late), "{late}");
    let copies = link.counters().duplicated.packets;
    assert!((15..85).contains(&copies), "{copies}");
    assert_eq!(arrived.len() as u64, 1000 + copies);
}

#[test]
fn jitter_stays_within_its_bound_and_in_order() {
    let mut link = fifty(QueueLimit::Packets(2000));
    link.set_jitter(us(0), Duration::from_millis(2));
    for n in 0..1000 {
        link.enqueue(us(u64::from(n) * 5_000), Sized(1500, n));
    }
    let late: Vec<u64> = order(&mut link)
        .iter()
        .map(|(at, n)| at - 20_240 - u64::from(*n) * 5_000)
        .collect();
    assert_eq!(late.len(), 1000);
    assert!(late.iter().all(|late| *late <= 2_000));
    // Uniform: mean 1000, standard deviation of the mean 18.
    let mean = late.iter().sum::<u64>() / 1000;
    assert!((910..1090).contains(&mean), "{mean}");
    assert!(late.iter().any(|late| *late < 20) && late.iter().any(|late| *late > 1_980));
}

#[test]
fn departures_are_bundled_in_slots() {
    let mut link = fifty(QueueLimit::Packets(100));
    link.set_aggregation(us(0), Duration::from_micros(700));
    for n in 0..6 {
        link.enqueue(us(0), Sized(1500, n));
    }
    // They depart every 240 us and go on at 700, 1400 and 2100 us.
    assert_eq!(
        arrivals(&mut link),
        [20_700, 20_700, 21_400, 21_400, 21_400, 22_100]
    );
}

#[test]
fn departures_wait_for_their_grants() {
    let mut link = fifty(QueueLimit::Packets(100));
    link.set_aggregation(us(0), Duration::from_micros(500));
    link.set_grant_delay(us(0), Duration::from_micros(800));
    for n in 0..8 {
        link.enqueue(us(0), Sized(1500, n));
    }
    // Two depart until the request at 500 us, granted at 1500. There the next four are requested,
    // and at 2500 the last two.
    let granted = [
        21_500, 21_500, 22_500, 22_500, 22_500, 22_500, 23_500, 23_500,
    ];
    let mut changed = fifty(QueueLimit::Packets(100));
    changed.set_aggregation(us(0), Duration::from_micros(500));
    changed.set_grant_delay(us(0), Duration::from_micros(800));
    for n in 0..8 {
        changed.enqueue(us(0), Sized(1500, n));
    }
    // A plan that is made again is the same, whatever has departed.
    for at in [100, 800, 1_300] {
        changed.set_delay(us(at), Duration::from_millis(20));
        changed.set_rate(us(at), Rate::from_bps(50_000_000));
    }
    assert_eq!(arrivals(&mut changed), granted);
    assert_eq!(arrivals(&mut link), granted);
    // Idle since: one packet waits for a request and its grant.
    link.enqueue(us(30_000), Sized(1500, 8));
    assert_eq!(arrivals(&mut link), [51_500]);
    // Without grants only the slots remain, without those neither.
    link.set_grant_delay(us(60_000), Duration::ZERO);
    link.enqueue(us(60_000), Sized(1500, 9));
    assert_eq!(arrivals(&mut link), [80_500]);
    link.set_aggregation(us(90_000), Duration::ZERO);
    link.enqueue(us(90_000), Sized(1500, 10));
    assert_eq!(arrivals(&mut link), [110_240]);
    assert!(link.is_plain() && link.is_balanced());
}

/// This many packets, for this many microseconds.
fn hold(packets: u32, micros: u64) -> Hold {
    let delay = Duration::from_micros(micros);
    Hold { packets, delay }
}

const SITE: Site = Site {
    rate: Rate::from_bps(50_000_000),
    rtt: Duration::from_millis(40),
    mtu: Bytes::new(1500),
};

fn capable(aqm: Aqm) -> Link<Capable> {
    let mut link = Link::new(LinkConfig {
        service: Service::Fixed(Rate::from_bps(50_000_000)),
        delay: Duration::from_millis(20),
        limit: QueueLimit::Packets(100),
        seed: 1,
    });
    link.set_aqm(Some(aqm), &SITE);
    link
}

fn marks(link: &mut Link<Capable>) -> Vec<u32> {
    let mut marked = Vec::new();
    while let Some(at) = link.next_arrival() {
        marked.extend(
            link.arrive(at)
                .filter(|packet| packet.1)
                .map(|packet| packet.0),
        );
    }
    marked
}

#[test]
fn a_step_marks_what_can_be_marked_and_drops_nothing() {
    // Number 0 is in transmission, 1 to 4 wait within the threshold.
    for threshold in [
        Size::Packets(4),
        Size::Bytes(Bytes::new(4 * 1500)),
        Size::Time(Duration::from_micros(4 * 240)),
    ] {
        let mut link = capable(Aqm::StepMark(StepMark { threshold }));
        for n in 0..10 {
            assert_eq!(link.enqueue(us(0), Capable(n, false)), Verdict::Queued);
        }
        assert_eq!(marks(&mut link), [6, 8], "{threshold:?}");
        assert_eq!(link.counters().marked.packets, 2);
        assert!(link.is_balanced());
    }
}

#[test]
fn red_marks_or_drops_in_a_standing_queue() {
    let red = Red {
        min: Size::Packets(2),
        max: Size::Packets(50),
        probability: Gain::from_millionths(500_000),
        weight: Gain::from_millionths(200_000),
        ecn: true,
        gentle: false,
        per_gap: false,
    };
    let mut link = capable(Aqm::Red(red));
    let mut dropped = Vec::new();
    for n in 0..2000 {
        // Slightly faster than the link serves them: about forty packets queue up.
        if link.enqueue(us(u64::from(n) * 236), Capable(n, false)) != Verdict::Queued {
            dropped.push(n);
        }
    }
    let marked = marks(&mut link);
    let counters = *link.counters();
    assert_eq!(counters.marked.packets, marked.len() as u64);
    assert_eq!(counters.dropped_early.packets, dropped.len() as u64);
    assert!(marked.len() > 20 && dropped.len() > 20);
    assert!(dropped.iter().all(|n| n % 2 == 1));
    assert!(link.is_balanced());
}

#[test]
fn a_policer_drops_at_once_and_does_not_queue() {
    let mut link = fifty(QueueLimit::Packets(100));
    let policer = Policer {
        rate: Rate::from_bps(10_000_000),
        burst: Bytes::new(3000),
    };
    link.set_policer(us(0), Some(policer));
    let offer = |link: &mut Link<Sized>, at: u64| link.enqueue(us(at), Sized(1500, 0));
    let policed = Verdict::Dropped(DropCause::Policer);
    assert_eq!(offer(&mut link, 0), Verdict::Queued);
    assert_eq!(offer(&mut link, 0), Verdict::Queued);
    assert_eq!(offer(&mut link, 0), policed);
    // 1500 B at 10 Mbit/s arrive every 1.2 ms.
    assert_eq!(offer(&mut link, 1_199), policed);
    assert_eq!(offer(&mut link, 1_200), Verdict::Queued);
    link.set_policer(us(1_200), None);
    assert_eq!(offer(&mut link, 1_200), Verdict::Queued);
    assert_eq!(link.counters().dropped_policer.packets, 2);
    assert!(link.is_balanced());
}

proptest! {
    #[test]
    fn conserves_and_orders_whatever_happens(
        steps in prop::collection::vec((0u64..5000, 0u8..20, 40u32..3000), 1..300),
        packets in any::<bool>(), limit in 0u64..30,
    ) {
        let limit = if packets { QueueLimit::Packets(limit) } else { QueueLimit::Bytes(limit * 1000) };
        let mut link = fifty(limit);
        let mut now = Instant::ZERO;
        let mut next = 0;
        let mut arrived = Vec::new();
        for (gap, what, size) in steps {
            let until = now + Duration::from_micros(gap);
            while let Some(at) = link.next_arrival().filter(|&at| at <= until) {
                prop_assert!(at >= now, "an arrival in the past");
                now = at;
                arrived.extend(link.arrive(at).map(|p| p.1));
            }
            now = until;
            match what {
                0 => link.set_rate(now, Rate::ZERO),
                1 => link.set_rate(now, Rate::from_bps(u64::from(size) * 10_000)),
                2 => link.set_delay(now, Duration::from_micros(u64::from(size))),
                3 => link.drop_next(1),
                4 => link.set_jitter(now, Duration::from_micros(u64::from(size))),
                5 => link.set_aggregation(now, Duration::from_micros(u64::from(size % 4) * 1000)),
                6 => link.set_policer(now, Some(Policer {
                    rate: Rate::from_bps(u64::from(size) * 10_000),
                    burst: Bytes::new(gap),
                })),
                7 => link.set_policer(now, None),
                8 => link.set_grant_delay(now, Duration::from_micros(u64::from(size % 4) * 700)),
                _ => { link.enqueue(now, Sized(size, next)); next += 1; }
            }
            prop_assert!(link.is_balanced());
            let waiting: u64 = link.entries.iter().filter(|e| e.departure > now)
                .map(|e| u64::from(e.packet.size())).sum();
            prop_assert_eq!(link.backlog(now).bytes.get(), waiting);
            prop_assert!(link.entries.iter().is_sorted_by_key(|e| (e.departure, e.arrival)));
        }
        link.set_rate(now, Rate::from_bps(1_000_000));
        while let Some(at) = link.next_arrival() {
            arrived.extend(link.arrive(at).map(|p| p.1));
        }
        prop_assert!(arrived.is_sorted());
        prop_assert_eq!(link.held(), 0);
        prop_assert!(link.is_balanced());
    }

    /// A link that checks the impairments for each packet and a link that knows there are none
    /// behave the same.
    #[test]
    fn the_plain_way_is_the_one_that_asks(
        steps in prop::collection::vec((0u64..5000, 0u8..40, 40u32..3000), 1..300),
    ) {
        let mut links = [fifty(QueueLimit::Packets(20)), fifty(QueueLimit::Packets(20))];
        links[1].is_plain = false;
        let mut arrived: [Vec<(Instant, u32)>; 2] = Default::default();
        let mut now = Instant::ZERO;
        let reach = |until: Instant, links: &mut [Link<Sized>; 2], arrived: &mut [Vec<_>; 2]| {
            for (link, arrived) in links.iter_mut().zip(arrived) {
                while let Some(at) = link.next_arrival().filter(|&at| at <= until) {
                    arrived.extend(link.arrive(at).map(|p| (at, p.1)));
                }
            }
        };
        for (number, (gap, what, size)) in (0..).zip(steps) {
            now += Duration::from_micros(gap);
            reach(now, &mut links, &mut arrived);
            let share = Gain::from_millionths(if size % 2 == 0 { 0 } else { size * 300 });
            let verdicts = links.each_mut().map(|link| {
                match what {
                    0 => link.set_rate(now, Rate::from_bps(u64::from(size % 7) * 3_000_000)),
                    1 => link.set_duplicate(share),
                    2 => link.set_reorder(now, Reorder { probability: share, delay: Duration::from_micros(gap) }),
                    3 => link.hold_next(now, hold(size % 5, gap * 10)),
                    4 => link.set_loss(now, Loss::Independent(share)),
                    5 => link.set_jitter(now, Duration::from_micros(gap * u64::from(size % 2))),
                    6 => link.drop_next(u64::from(size % 3)),
                    7 => link.set_delay(now, Duration::from_micros(10 * gap)),
                    8 => link.set_aggregation(now, Duration::from_micros(gap * u64::from(size % 2))),
                    9 => link.set_grant_delay(now, Duration::from_micros(gap * u64::from(size % 2))),
                    _ => return Some(link.enqueue(now, Sized(size, number))),
                }
                None
            });
            links[1].is_plain = false;
            prop_assert_eq!(verdicts[0], verdicts[1]);
            prop_assert_eq!(links[0].next_arrival(), links[1].next_arrival());
            prop_assert_eq!(links[0].counters(), links[1].counters());
            if size % 3 == 0 {
                let [one, other] = links.each_mut().map(|link| (link.backlog(now), link.take_peak(now)));
                prop_assert_eq!(one, other);
            }
        }
        reach(Instant::MAX, &mut links, &mut arrived);
        prop_assert_eq!(&arrived[0], &arrived[1]);
    }

    /// A link that reports arrivals ahead reports those that another has.
    #[test]
    fn what_is_told_ahead_arrives(
        steps in prop::collection::vec((0u64..5000, 40u32..3000), 1..300),
        loss in 0u32..2,
        jitter in 0u64..2,
    ) {
        let mut links = [fifty(QueueLimit::Packets(20)), fifty(QueueLimit::Packets(20))];
        for link in &mut links {
            link.set_loss(Instant::ZERO, Loss::Independent(Gain::from_millionths(loss * 100_000)));
            link.set_jitter(Instant::ZERO, Duration::from_micros(jitter * 300));
        }
        let [ahead, other] = &mut links;
        prop_assert!(ahead.tell_ahead());
        let (mut now, mut predicted, mut arrived, mut taken) = (Instant::ZERO, vec![], vec![], vec![]);
        for (number, (gap, size)) in (0..).zip(steps) {
            now += Duration::from_micros(gap);
            while let Some(at) = other.next_arrival().filter(|&at| at <= now) {
                arrived.extend(other.arrive(at).map(|packet| (at, packet.1)));
            }
            let packet = Sized(size, number);
            prop_assert_eq!(ahead.enqueue(now, packet), other.enqueue(now, packet));
            while let Some((at, packet)) = ahead.next_ahead() {
                predicted.push((at, packet.1));
            }
            if size % 3 == 0 {
                ahead.take_ahead(now, |packet| taken.push(packet.1));
                prop_assert_eq!(ahead.counters(), other.counters());
                prop_assert_eq!(ahead.backlog(now), other.backlog(now));
                prop_assert_eq!(ahead.take_peak(now), other.take_peak(now));
                prop_assert!(taken.iter().eq(arrived.iter().map(|(_, number)| number)));
            }
        }
        prop_assert!(predicted.starts_with(&arrived));
    }

    #[test]
    fn what_is_held_or_copied_is_accounted_for(
        steps in prop::collection::vec((0u64..5000, 0u8..20, 40u32..3000), 1..300),
    ) {
        let mut link = fifty(QueueLimit::Packets(20));
        let (mut now, mut accepted) = (Instant::ZERO, 0);
        let mut arrived = Vec::new();
        let mut lost = 0;
        for (gap, what, size) in steps {
            let until = now + Duration::from_micros(gap);
            while let Some(at) = link.next_arrival().filter(|&at| at <= until) {
                prop_assert!(at >= now, "an arrival in the past");
                now = at;
                arrived.extend(link.arrive(at).map(|p| p.1));
            }
            now = until;
            let share = Gain::from_millionths(size * 300);
            match what {
                0 => link.set_rate(now, Rate::from_bps(u64::from(size) * 10_000)),
                1 => link.set_duplicate(share),
                2 => link.set_reorder(now, Reorder { probability: share, delay: Duration::from_micros(gap) }),
                3 => link.hold_next(now, hold(size % 5, gap * 10)),
                4 => link.set_loss(now, Loss::Independent(share)),
                _ => match link.enqueue(now, Sized(size, accepted)) {
                    Verdict::Queued => accepted += 1,
                    Verdict::Dropped(DropCause::Random) => { accepted += 1; lost += 1; }
                    Verdict::Dropped(_) => {}
                },
            }
            prop_assert!(link.is_balanced());
        }
        while let Some(at) = link.next_arrival() {
            arrived.extend(link.arrive(at).map(|p| p.1));
        }
        let counters = *link.counters();
        prop_assert_eq!(arrived.len() as u64, counters.delivered.packets);
        prop_assert_eq!(link.held(), 0);
        prop_assert_eq!(counters.dropped_random.packets, lost);
        prop_assert!(link.is_balanced());
        // Each packet that was accepted and not lost arrives once or twice.
        arrived.sort_unstable();
        let twice = arrived.windows(2).filter(|pair| pair[0] == pair[1]).count();
        prop_assert_eq!(twice as u64, counters.duplicated.packets);
        arrived.dedup();
        prop_assert_eq!(arrived.len() as u64, u64::from(accepted) - lost);
    }
}
