use super::pace::Pace;
use super::recording::{Event, Kind, Recording, Row, What};

const MS: u64 = 1_000_000;

fn row(ms: u64, kind: Kind, seq: u64, len: u64) -> Row {
    Row {
        at: ms * MS,
        kind,
        seq,
        len,
    }
}

/// Four segments; the second is lost and sent again.
fn with_a_loss() -> Recording {
    let rows = [
        row(0, Kind::Sent, 0, 1000),
        row(0, Kind::Sent, 1000, 1000),
        row(1, Kind::Sent, 2000, 2000),
        row(40, Kind::Ack, 1000, 0),
        row(41, Kind::Ack, 1000, 0),
        row(41, Kind::Sack, 2000, 2000),
        row(42, Kind::Sent, 1000, 1000),
        row(82, Kind::Ack, 4000, 0),
    ];
    Recording::new(rows.into_iter(), 1000)
}

fn delivered(recording: &Recording) -> Vec<Vec<u32>> {
    let acks = recording
        .events
        .iter()
        .filter_map(|event| match event.what {
            What::Ack { from, to, .. } => {
                Some(recording.delivered[from as usize..to as usize].to_vec())
            }
            What::Sent(_) => None,
        });
    acks.collect()
}

#[test]
fn an_ack_delivers_the_latest_transmission_that_it_can_answer() {
    let recording = with_a_loss();
    assert_eq!(delivered(&recording), [vec![0], vec![2, 3], vec![4]]);
    let [lost, again] = [1, 4].map(|index: usize| recording.sent[index]);
    assert_eq!((lost.acked, lost.next), (None, Some(4)));
    assert_eq!((again.previous, again.start), (Some(1), 1000));
    assert_eq!(recording.min_rtt, 40 * MS);
    // The merged packet counts as its segments.
    assert_eq!(recording.sent[3].start, 3000);
}

#[test]
fn a_retransmission_that_no_ack_can_be_of_yet_was_not_needed() {
    let rows = [
        row(0, Kind::Sent, 0, 1000),
        row(40, Kind::Ack, 1000, 0),
        row(50, Kind::Sent, 1000, 1000),
        row(85, Kind::Sent, 1000, 1000),
        row(90, Kind::Ack, 2000, 0),
    ];
    let recording = Recording::new(rows.into_iter(), 1000);
    assert_eq!(delivered(&recording), [vec![0], vec![1]]);
    assert!(recording.sent[2].moot.is_some());
}

#[test]
fn what_is_lost_leaves_the_balance_when_a_later_packet_is_acknowledged() {
    let recording = with_a_loss();
    assert_eq!(
        recording.balance,
        [1000, 2000, 3000, 4000, 3000, 0, 1000, 0]
    );
}

#[test]
fn ranges_without_a_cumulative_point_are_a_quic_flow() {
    let rows = [
        row(0, Kind::Sent, 0, 1200),
        row(0, Kind::Sent, 1200, 1200),
        row(30, Kind::Sack, 1200, 1200),
    ];
    let recording = Recording::new(rows.into_iter(), 1200);
    assert!(!recording.is_stream);
    assert_eq!(delivered(&recording), [vec![1]]);
}

#[test]
fn a_pause_with_nothing_in_flight_is_the_application() {
    let bulk = with_a_loss();
    assert!(bulk.is_bulk());
    let rows = [
        row(0, Kind::Sent, 0, 1000),
        row(40, Kind::Ack, 1000, 0),
        row(90, Kind::Sent, 1000, 1000),
        row(130, Kind::Ack, 2000, 0),
    ];
    assert!(!Recording::new(rows.into_iter(), 1000).is_bulk());
    let short = [
        row(0, Kind::Sent, 0, 400),
        row(1, Kind::Sent, 400, 1000),
        row(40, Kind::Ack, 1400, 0),
    ];
    assert!(!Recording::new(short.into_iter(), 1000).is_bulk());
}

/// A window of so many packets at each millisecond: an ACK of one packet each 5 ms lets out what the
/// window has room for.
fn windowed(ends: u64, window: impl Fn(u64) -> u64) -> Recording {
    let mut rows = Vec::new();
    let (mut next, mut acked) = (0, 0);
    for ms in (0..ends).step_by(5) {
        if ms >= 40 && next > acked {
            acked += 1;
            rows.push(row(ms, Kind::Ack, 1000 * acked, 0));
        }
        while next - acked < window(ms) {
            rows.push(row(ms, Kind::Sent, 1000 * next, 1000));
            next += 1;
        }
    }
    Recording::new(rows.into_iter(), 1000)
}

/// Eight packets, and four from 1 s to 1.25 s, over a round trip of 40 ms.
fn with_a_dip() -> Recording {
    windowed(2000, |ms| if (1000..1250).contains(&ms) { 4 } else { 8 })
}

#[test]
fn a_pause_that_leaves_data_in_flight_ends_with_a_burst() {
    assert!(with_a_dip().is_bulk());
    let paused = |ms| {
        if (1000..1030).contains(&ms) { 0 } else { 8 }
    };
    assert!(!windowed(2000, paused).is_bulk());
}

#[test]
fn a_dip_lasts_until_the_queue_has_drained() {
    // The round trip is 40 ms at first, and 500 ms with the queue.
    let window = |ms| match ms {
        0..200 => 8,
        2000..2700 => 4,
        _ => 100,
    };
    assert_eq!(windowed(5000, window).dips, [2000 * MS]);
}

#[test]
fn bbr1_has_no_dip_within_ten_seconds_of_the_last() {
    let recipe = paceline_congestion::recipe("bbr1", &[]).expect("its defaults");
    let window = |ms| {
        if (6000..6250).contains(&ms) { 4 } else { 8 }
    };
    let recording = windowed(8000, window);
    assert_eq!(recording.dips, [6000 * MS]);
    let followed = super::follow(&recording, &recipe, None);
    let dips = followed.moments.iter();
    let mut dips = dips.filter(|moment| super::follow::is_probe_rtt(moment.phase));
    assert!(dips.next().is_none());
}

#[test]
fn a_dip_is_a_silence_with_little_in_flight_after_it() {
    let recording = with_a_dip();
    // The first ACK that lets out nothing.
    assert_eq!(recording.dips, [1000 * MS]);
    assert_eq!(with_a_loss().dips, [0; 0]);
}

#[test]
fn acks_recorded_late_are_put_back_to_where_they_let_data_out() {
    let (own, times) = (with_a_dip(), |recording: &Recording| {
        let events = recording.events.iter();
        let times = events.map(|event| (event.at, matches!(event.what, What::Sent(_))));
        times.collect::<Vec<_>>()
    });
    assert_eq!(own.offset(), Some(0));
    for by in [MS as i64, -700_000] {
        let shifted = own.shifted(by);
        assert_ne!(times(&shifted), times(&own));
        assert_eq!(shifted.offset(), Some(-by));
        let back = shifted.shifted(-by);
        assert_eq!(times(&back), times(&own));
        assert_eq!(delivered(&back), delivered(&own));
    }
    // The first ACK also shows it if a pacer sends at other times than ACKs come, and a probe of the
    // tail did before it.
    let sends = (0..200).flat_map(|n| {
        let at = MS * if n < 10 { 0 } else { 40 } + 700_000 * (n.max(10) - 10);
        let sent = Row {
            at,
            ..row(0, Kind::Sent, 1000 * n, 1000)
        };
        let ack = row(40 + n, Kind::Ack, 1000 * (n + 1), 0);
        let probe = (n == 9).then(|| row(38, Kind::Sent, 9000, 1000));
        [Some(sent), Some(ack), probe]
    });
    let mut rows: Vec<Row> = sends.flatten().collect();
    rows.sort_by_key(|row| row.at);
    let own = Recording::new(rows.into_iter(), 1000);
    assert_eq!(own.offset(), Some(0));
    for by in [MS as i64, -700_000] {
        assert_eq!(own.shifted(by).offset(), Some(-by));
    }
    assert_eq!(own.shifted(30 * MS as i64).offset(), None);
    // A sender that is never silent does not show it.
    assert_eq!(paced(|_| 1.0, 1).offset(), None);
    // Of two ACKs at one instant each lets out its own packet.
    let rows = [
        row(0, Kind::Sent, 0, 1000),
        row(0, Kind::Sent, 1000, 1000),
        row(40, Kind::Ack, 1000, 0),
        row(40, Kind::Sent, 2000, 1000),
        row(40, Kind::Ack, 2000, 0),
        row(40, Kind::Sent, 3000, 1000),
    ];
    let own = Recording::new(rows.into_iter(), 1000);
    assert_eq!(times(&own.shifted(0)), times(&own));
    // The first lets out two, as a window that grows by one has room for, and a pacer the third later.
    let rows = [
        row(0, Kind::Sent, 0, 1000),
        row(0, Kind::Sent, 1000, 1000),
        row(40, Kind::Ack, 1000, 0),
        row(40, Kind::Sent, 2000, 1000),
        row(40, Kind::Sent, 3000, 1000),
        row(40, Kind::Ack, 2000, 0),
        row(50, Kind::Sent, 4000, 1000),
    ];
    let own = Recording::new(rows.into_iter(), 1000);
    assert_eq!(times(&own.shifted(0)), times(&own));
}

/// The capture has the copy after the ACK: nothing else is to come of it.
#[test]
fn a_copy_after_its_ack_is_not_in_flight() {
    let steady = |late: bool| {
        let rows = (0..400).flat_map(|n| {
            let sent = row(5 * n, Kind::Sent, 1000 * n, 1000);
            let ack = (n >= 8).then(|| row(5 * n + 1, Kind::Ack, 1000 * (n - 7), 0));
            let copy = (late && n == 200).then(|| row(5 * n + 2, Kind::Sent, 1000, 1000));
            [Some(sent), ack, copy].into_iter().flatten()
        });
        let recording = Recording::new(rows, 1000);
        let recipe = paceline_congestion::recipe("bbr3", &[]).expect("its defaults");
        let judged = super::judge(&recording, &recipe, None, true);
        judged.followed.moments.last().expect("ACKs").in_flight
    };
    assert_eq!(steady(true), steady(false));
}

/// The first segment is lost, and the eleventh, which is sent in that episode: two reductions, from 10
/// segments to 5 and from 5 to 2.
#[test]
fn a_loss_in_an_episode_opens_another() {
    let sent =
        |ms, first: u64, end: u64| (first..end).map(move |n| row(ms, Kind::Sent, 1000 * n, 1000));
    let ack = |ms, point: u64, first: u64, end: u64| {
        let sack = row(ms, Kind::Sack, 1000 * first, 1000 * (end - first));
        [row(ms, Kind::Ack, 1000 * point, 0), sack]
    };
    let rows = sent(0, 0, 10)
        .chain(ack(40, 0, 1, 4))
        .chain(sent(41, 0, 1))
        .chain(sent(41, 10, 14))
        .chain(ack(42, 0, 1, 10))
        .chain(ack(80, 0, 11, 14))
        .chain(ack(81, 10, 11, 14));
    let recording = Recording::new(rows, 1000);
    let recipe = paceline_congestion::recipe("reno", &[]).expect("its defaults");
    let judged = super::judge(&recording, &recipe, None, true);
    let windows: Vec<u64> = judged
        .followed
        .moments
        .iter()
        .map(|moment| moment.window)
        .collect();
    assert_eq!(windows, [5000, 5000, 5000, 2000]);
}

/// Ten packets; the second is lost, and the tenth, which only the ACK that ends the episode shows. It
/// was sent before the episode, and RFC 9002 (B.6) reduces once: from 10 packets to 5.
#[test]
fn a_late_mark_of_what_an_episode_is_about_opens_none() {
    let ack = |ms, first: u64, end: u64| row(ms, Kind::Sack, 1000 * first, 1000 * (end - first));
    let send = |ms, n: u64| row(ms, Kind::Sent, 1000 * n, 1000);
    let rows = (0..10)
        .map(|n| send(0, n))
        .chain([ack(40, 0, 1), ack(41, 2, 5)])
        .chain((10..13).map(|n| send(42, n)))
        .chain([ack(43, 5, 9), ack(83, 10, 13)])
        .chain([send(84, 13), ack(124, 13, 14)]);
    let recording = Recording::new(rows, 1000);
    let recipe = paceline_congestion::recipe("reno", &[]).expect("its defaults");
    let judged = super::judge(&recording, &recipe, None, true);
    let windows = judged.followed.moments.iter().map(|moment| moment.window);
    assert_eq!(judged.followed.lost, 2000);
    assert!(windows.skip(1).all(|window| (5000..8000).contains(&window)));
}

/// Segments 3 and 5 are lost first, then 4 between them: it continues the range of the third.
#[test]
fn a_loss_belongs_to_the_range_before_it_whenever_that_was_marked() {
    let mut ranges = 0;
    for lost in [[3, 4, 5], [3, 5, 4]] {
        let mut missing = std::collections::BTreeMap::new();
        for n in lost {
            ranges += u32::from(super::follow::starts_range(&missing, 1000 * n));
            missing.insert(1000 * n, 1000 * (n + 1));
        }
    }
    assert_eq!(ranges, 1 + 2);
}

/// Its minimum RTT is 10 s old at 15 s, not at 10 s: what was sent again then took 39 ms, all else 41.
#[test]
fn what_is_sent_again_measures_the_round_trip() {
    let mut rows = Vec::new();
    for n in 0..16_000 {
        let ack = |point| row(n + 41, Kind::Ack, 1000 * point, 0);
        rows.push(row(n, Kind::Sent, 1000 * n, 1000));
        match n {
            // The first lasts 40 ms.
            0 => rows.push(row(40, Kind::Ack, 1000, 0)),
            5000..5048 => {
                rows.push(ack(5000));
                rows.push(row(n + 41, Kind::Sack, 5_001_000, 1000 * (n - 5000)));
            }
            _ => rows.push(ack(n + 1)),
        }
        if n == 5050 {
            rows.push(row(n, Kind::Sent, 5_000_000, 1000));
        }
    }
    rows.sort_by_key(|row| row.at);
    let recording = Recording::new(rows.into_iter(), 1000);
    let recipe = paceline_congestion::recipe("bbr1", &[]).expect("its defaults");
    let followed = super::follow(&recording, &recipe, None);
    let mut probes = followed.moments.iter();
    let probe = probes.find(|moment| super::follow::is_probe_rtt(moment.phase));
    let at = probe.expect("one").at / MS;
    assert!((15_080..15_150).contains(&at), "{at}");
}

#[test]
fn a_pace_is_that_of_bursts() {
    let rows = (0..10).map(|n| row(10 * n, Kind::Sent, 1000 * n, 1000));
    let recording = Recording::new(rows, 1000);
    let pace = Pace::of(&recording);
    assert_eq!(pace.of_bursts(0, 4), Some(100_000.0));
    assert_eq!(pace.of_bursts(5 * MS, 4), Some(100_000.0));
    assert_eq!(pace.of_bursts(85 * MS, 1), None);
    assert!((pace.over(15 * MS, 35 * MS) - 100_000.0).abs() < 1e-6);
    assert_eq!(pace.bursts().count(), 9);
}

#[test]
fn events_keep_the_order_of_the_rows() {
    let recording = with_a_loss();
    let times: Vec<u64> = recording
        .events
        .iter()
        .map(|Event { at, .. }| at / MS)
        .collect();
    assert_eq!(times, [0, 0, 1, 1, 40, 41, 42, 82]);
}

/// BBRv1's gain at a time in microseconds: a steady pace for 0.4 s, then probes of 40 ms, each after six
/// phases of 40 ms and, from the third on, a seventh.
fn gain_of_a_cycle(us: u64) -> f64 {
    let Some(mut us) = us.checked_sub(400_000) else {
        return 1.0;
    };
    let mut cycles = 0;
    loop {
        let length = 40_000 * if cycles < 2 { 8 } else { 9 };
        match us {
            0..40_000 => return 1.25,
            40_000..80_000 => return 0.75,
            us if us < length => return 1.0,
            _ => (us, cycles) = (us - length, cycles + 1),
        }
    }
}

/// A flow at a gain of 8 Mbit/s, which a path of 40 ms has: 40 packets, so many in a burst.
fn paced(gain: impl Fn(u64) -> f64, burst: u64) -> Recording {
    let (mut rows, mut at, mut served) = (Vec::new(), 0.0, 0.0_f64);
    for n in 0..5000 {
        let sent = at as u64;
        served = served.max(at) + 1000.0;
        if (n + 1) % burst == 0 {
            at += 1000.0 * burst as f64 / gain(sent);
        }
        let ack = served as u64 + 39_000;
        for (us, kind, seq, len) in [
            (sent, Kind::Sent, 1000 * n, 1000),
            (ack, Kind::Ack, 1000 * (n + 1), 0),
        ] {
            let at = 1000 * us;
            rows.push(Row { at, kind, seq, len });
        }
    }
    rows.sort_by_key(|row| row.at);
    Recording::new(rows.into_iter(), 1000)
}

#[test]
fn each_probe_of_bbr1_begins_when_the_flow_does() {
    let recipe = paceline_congestion::recipe("bbr1", &[]).expect("its defaults");
    let followed = super::follow(&paced(gain_of_a_cycle, 1), &recipe, None);
    let later: Vec<_> = followed
        .moments
        .iter()
        .filter(|moment| moment.phase == super::follow::CYCLE && moment.at > 400 * MS)
        .collect();
    let alike = |moment: &&&super::Moment| moment.gain == gain_of_a_cycle(moment.at / 1000);
    let share = later.iter().filter(alike).count() as f64 / later.len() as f64;
    assert!(later.len() > 4000 && share > 0.85, "{share}");
    let mut probes = later.iter().filter(|moment| moment.gain > 1.0);
    assert!(probes.all(|moment| alike(&moment)));
}

/// A flow whose window is always full: an ACK lets out each packet. It is as large as the path's BDP of
/// 40 packets, and from 1.5 s on twice as large and three bursts more, as BBRv1's.
fn full() -> Recording {
    let (mut rows, mut acks) = (Vec::new(), Vec::new());
    let mut served = 0;
    for n in 0..6000_usize {
        let window = (40 + n.saturating_sub(1500) / 2).min(88);
        let sent = if n < window { 0 } else { acks[n - window] };
        served = served.max(sent) + 1000;
        acks.push(served + 39_000);
        for (us, kind, seq, len) in [
            (sent, Kind::Sent, 1000 * n as u64, 1000),
            (acks[n], Kind::Ack, 1000 * (n as u64 + 1), 0),
        ] {
            rows.push(Row {
                at: 1000 * us,
                kind,
                seq,
                len,
            });
        }
    }
    rows.sort_by_key(|row| (row.at, row.kind == Kind::Sent));
    Recording::new(rows.into_iter(), 1000)
}

#[test]
fn a_full_window_hides_the_phase_of_bbr1() {
    let recording = full();
    let recipe = paceline_congestion::recipe("bbr1", &[]).expect("its defaults");
    let followed = super::follow(&recording, &recipe, None);
    let windows = super::windows::windows(&recording, &Pace::of(&recording), &followed);
    let hidden: Vec<_> = windows
        .iter()
        .filter(|w| w.is_hidden && !w.changes)
        .collect();
    assert!(hidden.len() > 50, "{}", hidden.len());
    assert!(hidden.iter().all(|window| window.did.is_allowed()));
    // In a phase that is known the flow does not keep to the gain of DOWN.
    let open = followed.moments.iter().map(|moment| super::Moment {
        is_hidden: false,
        ..*moment
    });
    let known = super::Followed {
        moments: open.collect(),
        ..followed
    };
    let windows = super::windows::windows(&recording, &Pace::of(&recording), &known);
    assert!(
        windows
            .iter()
            .any(|window| !window.changes && !window.did.is_allowed())
    );
}

#[test]
fn bbr1_changes_its_state_with_its_gain() {
    let recording = paced(gain_of_a_cycle, 1);
    let recipe = paceline_congestion::recipe("bbr1", &[]).expect("its defaults");
    let followed = super::follow(&recording, &recipe, None);
    let windows = super::windows::windows(&recording, &Pace::of(&recording), &followed);
    let mut states = windows.windows(2);
    assert!(states.all(|two| two[0].state == two[1].state || (two[0].changes && two[1].changes)));
}

#[test]
fn a_round_trip_of_a_few_bursts_shows_no_state_of_bbr1() {
    let recipe = paceline_congestion::recipe("bbr1", &[]).expect("its defaults");
    let [plain, coarse] =
        [1, 10].map(|burst| super::judge(&paced(|_| 1.0, burst), &recipe, None, true));
    let is_of_a_cycle = |check: &&super::Check| {
        super::is_broken(check)
            && !check.id.starts_with("startup")
            && !check.id.starts_with("drain")
    };
    assert!(plain.checks.iter().any(|check| is_of_a_cycle(&check)));
    assert!(!coarse.checks.iter().any(|check| is_of_a_cycle(&check)));
    let why = "a round trip of a few bursts hides when the flow probes";
    assert!(coarse.checks.iter().any(|check| check.why == Some(why)));
}

/// The check of this name, of a recording and the moments of a shadow.
fn check(recording: &Recording, followed: &super::Followed, id: &str) -> super::Check {
    let (_, checks) = super::checks::judge(recording, &Pace::of(recording), followed);
    let found = checks.into_iter().find(|check| check.id == id);
    found.expect("a check of this name")
}

/// What a shadow allows: 8 Mbit/s, or so many times that, and a window that is never full.
fn moments(phase: &'static str, gain: f64) -> Vec<super::Moment> {
    let moment = |ms| super::Moment {
        at: ms * MS,
        pace: Some(1e6 * gain),
        window: 1_000_000,
        in_flight: 40_000,
        sent: 0,
        phase,
        max_bw: 1e6,
        gain: 1.0,
        app_limited: false,
        is_hidden: false,
    };
    (0..4000).map(moment).collect()
}

#[test]
fn a_flow_that_waits_in_drain_has_a_smaller_window() {
    let verdict = |recording, is_bulk| {
        let followed = super::Followed {
            moments: moments("Drain", 1.0),
            is_bulk,
            ..super::Followed::default()
        };
        check(&recording, &followed, "drain.least").verdict
    };
    assert_eq!(verdict(paced(|_| 1.0, 1), true), super::Verdict::Held);
    let waits = |us| {
        if (1_000_000..1_600_000).contains(&us) {
            0.01
        } else {
            1.0
        }
    };
    assert_eq!(verdict(paced(waits, 1), true), super::Verdict::Broken);
    // Or its application has no more.
    assert_eq!(
        verdict(paced(waits, 1), false),
        super::Verdict::CannotBeTold
    );
}

#[test]
fn a_base_gain_in_up_is_excused_only_if_few_bursts_are_free() {
    // The flow paces at this gain, and the window is full but at one burst of so many.
    let verdict = |gain: f64, free: usize| {
        let recording = paced(|_| gain, 1);
        let mut moments = moments("ProbeBW_UP", 1.25);
        for moment in &mut moments {
            moment.gain = 1.25;
        }
        let sends = recording.sent.iter().enumerate().map(|(n, sent)| {
            let in_flight = if n % free == 0 { 40_000 } else { 1_000_000 };
            (sent.at, in_flight, 1_000_000)
        });
        let followed = super::Followed {
            moments,
            sends: sends.collect(),
            ..super::Followed::default()
        };
        check(&recording, &followed, "up.pacing").verdict
    };
    assert_eq!(verdict(1.25, 1), super::Verdict::Held);
    assert_eq!(verdict(1.0, 1), super::Verdict::Broken);
    assert_eq!(verdict(1.0, 3), super::Verdict::Broken);
    assert_eq!(verdict(1.0, 5), super::Verdict::CannotBeTold);
    // This is not the base rate.
    assert_eq!(verdict(1.1, 5), super::Verdict::Broken);
}

#[test]
fn a_flow_below_its_pace_in_its_first_two_rounds_lowers_it_in_startup() {
    let verdict = |pace: f64, knows_rtt| {
        let followed = super::Followed {
            moments: moments("Startup", 1.0),
            knows_rtt,
            is_bulk: true,
            ..super::Followed::default()
        };
        let slow = paced(|us| if us < 80_000 { pace } else { 1.0 }, 1);
        check(&slow, &followed, "startup.least").verdict
    };
    assert_eq!(verdict(1.0, true), super::Verdict::Held);
    assert_eq!(verdict(0.5, true), super::Verdict::Broken);
    assert_eq!(verdict(0.5, false), super::Verdict::NotSeen);
}

#[test]
fn waits_that_are_alike_are_not_drawn() {
    let verdict = |waits: &[u64], pace: f64| {
        let probe = |wait: &u64| super::Probe {
            at: MS,
            is_early: false,
            is_late: false,
            wait: Some(wait * MS),
        };
        let followed = super::Followed {
            moments: moments("ProbeBW_CRUISE", 1.0),
            probes: waits.iter().map(probe).collect(),
            ..super::Followed::default()
        };
        check(&paced(|_| pace, 1), &followed, "probe.random").verdict
    };
    assert_eq!(verdict(&[2000, 2110], 1.0), super::Verdict::Held);
    // Three of 5 ms come by chance in one of 13,000, three of 50 ms in one of 140.
    assert_eq!(verdict(&[2000, 2005, 2003], 1.0), super::Verdict::Broken);
    assert_eq!(verdict(&[2000, 2050, 2003], 1.0), super::Verdict::NotSeen);
    assert_eq!(verdict(&[2000], 1.0), super::Verdict::NotSeen);
    // A shadow takes a flow that is too fast for a probe as soon as it may.
    let fast = verdict(&[2000, 2000, 2000], 1.2);
    assert_eq!(fast, super::Verdict::CannotBeTold);
}

#[test]
fn a_flow_within_the_limits_shows_no_missed_probe() {
    let verdict = |gain| {
        let followed = super::Followed {
            moments: moments("ProbeBW_CRUISE", gain),
            probes: vec![super::Probe {
                at: MS,
                is_early: false,
                is_late: false,
                wait: None,
            }],
            overdue: vec![MS; 3],
            ..super::Followed::default()
        };
        check(&paced(|_| 1.0, 1), &followed, "probe.deadline").verdict
    };
    assert_eq!(verdict(1.0), super::Verdict::Broken);
    assert_eq!(verdict(2.0), super::Verdict::CannotBeTold);
}

/// There are two recoveries. The arguments are in kilobytes: the data in flight before, then the
/// window at the begin of recovery and at its end.
#[test]
fn the_cut_is_that_of_one_reduction_of_a_full_window() {
    let verdict = |before: u64, first: u64, last: u64| {
        let usual = moments("CongestionAvoidance", 1.0)[0];
        let mut followed = super::Followed {
            name: "reno",
            ..super::Followed::default()
        };
        for start in [0, 1000] {
            for (ms, phase, window) in [
                (0, "CongestionAvoidance", 100),
                (100, "Recovery", first),
                (150, "Recovery", last),
                (200, "CongestionAvoidance", last),
            ] {
                followed.moments.push(super::Moment {
                    at: (start + ms) * MS,
                    phase,
                    window: 1000 * window,
                    ..usual
                });
            }
            let sends = [(90, before, 100), (210, last, last)];
            let sends = sends.map(|(ms, in_flight, window)| {
                ((start + ms) * MS, 1000 * in_flight, 1000 * window)
            });
            followed.sends.extend(sends);
        }
        check(&with_a_dip(), &followed, "cut").verdict
    };
    assert_eq!(verdict(100, 50, 50), super::Verdict::Held);
    assert_eq!(verdict(100, 70, 70), super::Verdict::Broken);
    assert_eq!(verdict(100, 50, 25), super::Verdict::NotSeen);
}
