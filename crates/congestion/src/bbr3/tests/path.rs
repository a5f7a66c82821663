//! A flow on a path, and the states that it goes through.

use std::collections::VecDeque;

use super::*;

/// One flow through one bottleneck, an ACK a packet, in virtual time: the smallest transport that
/// can drive the algorithm.
struct Path {
    bbr: Bbr3,
    delivery: Delivery,
    now: Instant,
    rate: Rate,
    rtt: Duration,
    /// Packets that may wait.
    buffer: usize,
    busy_until: Instant,
    next_send: Instant,
    /// In order of sending: when the ACK returns (none if dropped), and the packet.
    flight: VecDeque<(Option<Instant>, u64, PacketState)>,
    next_id: u64,
    in_flight: Bytes,
    srtt: Duration,
    recovery_until: Option<u64>,
    /// Packets the application still has; none if it never runs out.
    available: Option<u64>,
    /// Drops the packets for which it says so.
    drop: fn(&Self) -> bool,
    phases: Vec<&'static str>,
    losses: u64,
    limited: bool,
}

impl Path {
    fn new(mbps: u64, rtt: Duration, buffer: usize) -> Self {
        Self {
            bbr: Bbr3::new(&config(Some(rtt)), Parameters::default()),
            delivery: Delivery::default(),
            now: Instant::ZERO,
            rate: Rate::from_bps(mbps * 1_000_000),
            rtt,
            buffer,
            busy_until: Instant::ZERO,
            next_send: Instant::ZERO,
            flight: VecDeque::new(),
            next_id: 0,
            in_flight: Bytes::ZERO,
            srtt: rtt,
            recovery_until: None,
            available: None,
            drop: |_| false,
            phases: std::vec!["Startup"],
            losses: 0,
            limited: false,
        }
    }

    fn bdp(&self) -> u64 {
        self.rate.volume_in(self.rtt).get()
    }

    fn note_phase(&mut self) {
        if self.phases.last() != Some(&self.bbr.phase()) {
            self.phases.push(self.bbr.phase());
        }
    }

    fn send(&mut self) {
        let size = Bytes::new(u64::from(MSS));
        while self.next_send <= self.now {
            if self.in_flight + size > self.bbr.cwnd() {
                self.limited = true;
                break;
            }
            match &mut self.available {
                Some(0) => {
                    self.delivery.mark_app_limited(self.in_flight);
                    break;
                }
                Some(n) => *n -= 1,
                None => {}
            }
            self.bbr.on_send(&Sent {
                now: self.now,
                size: MSS,
                in_flight: self.in_flight,
                app_limited: self.delivery.is_app_limited(),
            });
            let packet = self.delivery.on_send(self.now, MSS, self.in_flight);
            self.in_flight += size;
            let per_packet = self.rate.time_for(size);
            let waiting = self.busy_until.since(self.now).as_nanos() / per_packet.as_nanos();
            let arrives = if waiting as usize > self.buffer || (self.drop)(self) {
                None
            } else {
                self.busy_until = self.busy_until.max(self.now) + per_packet;
                Some(self.busy_until + self.rtt)
            };
            self.flight.push_back((arrives, self.next_id, packet));
            self.next_id += 1;
            self.next_send =
                self.next_send.max(self.now) + self.bbr.pacing_rate().unwrap().time_for(size);
        }
    }

    /// The next ACK or pacing release; false when nothing is left to happen.
    fn step(&mut self) -> bool {
        let ack = self.flight.iter().find_map(|entry| entry.0);
        let blocked = self.in_flight + Bytes::new(u64::from(MSS)) > self.bbr.cwnd()
            || self.available == Some(0);
        let next = match (ack, blocked) {
            (Some(ack), true) => ack,
            (Some(ack), false) => ack.min(self.next_send.max(self.now)),
            (None, false) => self.next_send.max(self.now),
            (None, true) => return false,
        };
        self.now = next;
        if ack == Some(next) {
            self.receive();
            self.note_phase();
        }
        self.send();
        true
    }

    fn receive(&mut self) {
        let prior_in_flight = self.in_flight;
        let size = Bytes::new(u64::from(MSS));
        let index = self
            .flight
            .iter()
            .position(|entry| entry.0.is_some())
            .unwrap();
        // All sent before the one acknowledged were dropped: they are lost now.
        let mut newly_lost = Bytes::ZERO;
        let mut previous = None;
        for (_, id, packet) in self.flight.drain(..index) {
            self.in_flight -= size;
            newly_lost += size;
            self.losses += 1;
            self.delivery.on_lost(&packet);
            let loss = Lost {
                now: self.now,
                packet,
                lost: self.delivery.lost(),
                delivered: self.delivery.delivered(),
                in_flight: self.in_flight,
                starts_range: previous != Some(id.wrapping_sub(1)),
                retransmission: false,
            };
            previous = Some(id);
            self.bbr.on_loss(&loss);
        }
        let (_, id, packet) = self.flight.pop_front().unwrap();
        self.in_flight -= size;
        let rtt = self.now.since(packet.send_time);
        self.srtt = (self.srtt * 7 + rtt) / 8;
        self.delivery.on_rtt(rtt);
        self.delivery.on_delivered(self.now, &packet, id, false);
        if newly_lost > Bytes::ZERO && self.recovery_until.is_none() {
            self.recovery_until = Some(self.next_id);
            self.bbr.on_recovery_enter(self.now, self.in_flight);
        } else if self.recovery_until.is_some_and(|until| id >= until) {
            self.recovery_until = None;
            self.bbr.on_recovery_exit(self.now);
        }
        let sample = self.delivery.sample();
        self.bbr.on_ack(&Ack {
            now: self.now,
            sample,
            newly_acked: size,
            newly_lost,
            newly_marked: Some(Bytes::ZERO),
            prior_in_flight,
            in_flight: self.in_flight,
            delivered: self.delivery.delivered(),
            lost: self.delivery.lost(),
            sent: self.delivery.delivered() + self.delivery.lost() + self.in_flight,
            rtt: Some(rtt),
            srtt: self.srtt,
            min_rtt: self.rtt,
            cwnd_limited: std::mem::take(&mut self.limited),
            ca_state: CaState::Open,
            una_advanced: true,
            delayed: false,
            one_way_delay: None,
            network_rtt: Some(rtt),
            receiver_delay: None,
            ece: false,
        });
        if self.bbr.marks_app_limited() {
            self.delivery.mark_app_limited(self.in_flight);
        }
    }

    fn run_until(&mut self, done: impl Fn(&Self) -> bool) {
        for _ in 0..5_000_000 {
            if done(self) {
                return;
            }
            if !self.step() {
                break;
            }
        }
        panic!("never came: {:?}", self.phases);
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        self.run_until(|path| path.now >= end);
    }

    fn run_to(&mut self, phase: &'static str) {
        self.run_until(|path| path.bbr.phase() == phase);
    }
}

#[test]
fn starts_by_the_draft() {
    let bbr = Bbr3::new(&config(Some(ms(40))), Parameters::default());
    // 10 kB in 40 ms, times 4 ln 2.
    assert_eq!(bbr.pacing_rate().unwrap().bps(), 5_545_178);
    assert_eq!(bbr.cwnd().get(), 10_000);
    assert_eq!(bbr.send_quantum().get(), 2_000);
    // Without a handshake the placeholder is 1 ms.
    let bbr = Bbr3::new(&config(None), Parameters::default());
    assert_eq!(bbr.pacing_rate().unwrap().bps(), 221_807_120);
}

#[test]
fn startup_finds_the_rate_and_drains() {
    let mut path = Path::new(20, ms(40), 1000);
    path.run_to("Drain");
    let bw = path.bbr.max_bw.bps() as f64;
    assert!((bw / 20e6 - 1.0).abs() < 0.02, "{bw}");
    assert!(path.bbr.full_bw_reached && path.bbr.full_bw_count == 3);
    assert_eq!(path.bbr.pacing_gain, Gain::from_millionths(500_000));
    // The queue of one BDP drains within one of its own round trips (80 ms); DOWN ends at once,
    // because the data in flight already fits.
    let start = path.now;
    path.run_to("ProbeBW_CRUISE");
    assert!(path.now.since(start) < ms(100));
    assert!(path.in_flight.get() <= path.bdp());
    assert_eq!(path.losses, 0);
}

#[test]
fn the_cycle_goes_round() {
    let mut path = Path::new(20, ms(40), 1000);
    path.run_for(Duration::from_secs(20));
    let cycle: Vec<_> = path
        .phases
        .iter()
        .filter(|p| p.starts_with("ProbeBW"))
        .collect();
    for pair in cycle.windows(2) {
        let order = (*pair[0], *pair[1]);
        assert!(
            [
                ("ProbeBW_DOWN", "ProbeBW_CRUISE"),
                ("ProbeBW_DOWN", "ProbeBW_REFILL"),
                ("ProbeBW_CRUISE", "ProbeBW_REFILL"),
                ("ProbeBW_REFILL", "ProbeBW_UP"),
                ("ProbeBW_UP", "ProbeBW_DOWN"),
                // Around ProbeRTT.
                ("ProbeBW_CRUISE", "ProbeBW_CRUISE"),
                ("ProbeBW_UP", "ProbeBW_CRUISE"),
                ("ProbeBW_DOWN", "ProbeBW_DOWN"),
            ]
            .contains(&order),
            "{order:?}"
        );
    }
    assert!(path.phases.iter().filter(|p| **p == "ProbeBW_UP").count() >= 4);
    assert!(path.phases.contains(&"ProbeRTT"));
}

#[test]
fn each_state_has_its_gains() {
    let mut path = Path::new(20, ms(40), 1000);
    for (phase, pacing, cwnd) in [
        ("Drain", 500, 2000),
        ("ProbeBW_DOWN", 900, 2000),
        ("ProbeBW_CRUISE", 1000, 2000),
        ("ProbeBW_REFILL", 1000, 2000),
        ("ProbeBW_UP", 1250, 2250),
        ("ProbeRTT", 1000, 500),
        ("ProbeBW_CRUISE", 1000, 2000),
    ] {
        path.run_to(phase);
        let gains = (
            path.bbr.pacing_gain.millionths(),
            path.bbr.cwnd_gain.millionths(),
        );
        assert_eq!(gains, (pacing * 1000, cwnd * 1000), "{phase}");
    }
}

#[test]
fn probe_rtt_comes_every_five_seconds_and_lasts_two_hundred_ms() {
    let mut path = Path::new(20, ms(40), 1000);
    path.run_to("ProbeRTT");
    let first = path.now;
    assert_eq!(path.bbr.prior_cwnd, path.bbr.prior_cwnd.max(path.bbr.cwnd));
    path.run_to("ProbeBW_CRUISE");
    let elapsed = path.now.since(first);
    assert!(elapsed > ms(200) && elapsed < ms(400), "{elapsed:?}");
    path.run_to("ProbeRTT");
    let gap = path.now.since(first);
    assert!(
        gap > Duration::from_secs(5) && gap < Duration::from_secs(7),
        "{gap:?}"
    );
    // Half a BDP in flight, plus or minus the data acknowledged at once.
    path.run_until(|path| path.bbr.probe_rtt_done_stamp < Instant::MAX);
    assert!(path.in_flight.get() <= path.bdp() / 2 + 1000);
}

#[test]
fn high_loss_ends_startup_and_undo_returns_to_it() {
    let mut path = Path::new(20, ms(40), 1000);
    path.available = None;
    // One packet in eight is lost, so each loss is a separate range.
    path.drop = |path| path.next_id > 200 && path.next_id.is_multiple_of(8);
    path.run_to("Drain");
    assert_eq!(path.bbr.undo_state, UndoState::Startup);
    assert!(path.bbr.full_bw_now && path.bbr.full_bw_reached);
    assert!(!path.bbr.inflight_longterm.is_infinite());
    path.bbr.on_spurious(path.now, path.delivery.delivered());
    assert_eq!(path.bbr.phase(), "Startup");
    assert!(!path.bbr.full_bw_reached && path.bbr.inflight_longterm.is_infinite());
    assert_eq!(path.bbr.undo_state, UndoState::None);
}

#[test]
fn few_ranges_do_not_end_startup() {
    let mut path = Path::new(20, ms(40), 10_000);
    path.drop = |path| (300..330).contains(&path.next_id);
    path.run_to("Drain");
    // One burst of thirty is one range: the plateau ended Startup.
    assert_eq!(path.losses, 30);
    assert_eq!(path.bbr.undo_state, UndoState::None);
    assert_eq!(path.bbr.full_bw_count, 3);
}

#[test]
fn loss_in_up_cuts_the_longterm_bound_once_and_undo_lifts_it() {
    let mut path = Path::new(20, ms(40), 1000);
    path.run_to("ProbeBW_UP");
    path.run_until(|path| path.in_flight.get() > path.bdp() * 9 / 8);
    path.drop = |path| path.next_id.is_multiple_of(10);
    path.run_to("ProbeBW_DOWN");
    let cut = path.bbr.inflight_longterm;
    assert!(!cut.is_infinite() && cut.get() >= path.bdp() * 7 / 10);
    assert!(path.bbr.prev_probe_too_high && !path.bbr.is_bw_probe_sample);
    // Later losses of the episode find the state already saved, so the undo is complete (divergence
    // 1).
    path.run_for(ms(5));
    assert_eq!(
        path.bbr.inflight_longterm, cut,
        "reacted twice to one probe"
    );
    path.bbr.on_spurious(path.now, path.delivery.delivered());
    assert!(path.bbr.inflight_longterm.is_infinite());
    assert_eq!(path.bbr.phase(), "ProbeBW_REFILL");
}

#[test]
fn loss_while_cruising_lowers_the_short_term_bounds_until_refill() {
    let mut path = Path::new(20, ms(40), 1000);
    path.run_to("ProbeBW_CRUISE");
    path.drop = |path| path.next_id.is_multiple_of(20);
    path.run_until(|path| !path.bbr.bw_shortterm.is_infinite());
    assert!(path.bbr.bw <= path.bbr.bw_shortterm);
    assert!(path.bbr.bw_shortterm >= path.bbr.max_bw * Gain::from_millionths(700_000));
    path.run_to("ProbeBW_REFILL");
    assert!(path.bbr.bw_shortterm.is_infinite() && path.bbr.inflight_shortterm.is_infinite());
}

#[test]
fn application_limited_without_loss_never_leaves_startup() {
    let mut path = Path::new(20, ms(40), 1000);
    path.available = Some(0);
    for _ in 0..200 {
        path.available = Some(2);
        path.next_send = path.now;
        path.send();
        while path.step() {}
        path.delivery.mark_app_limited(path.in_flight);
        path.now += ms(10);
    }
    assert_eq!(path.bbr.phase(), "Startup");
}

#[test]
fn a_restart_from_idle_skips_probe_rtt() {
    let mut path = Path::new(20, ms(40), 1000);
    path.run_to("ProbeBW_CRUISE");
    path.available = Some(0);
    while path.step() {}
    path.delivery.mark_app_limited(path.in_flight);
    path.now += Duration::from_secs(6);
    path.available = None;
    path.send();
    assert!(path.bbr.idle_restart);
    assert_eq!(path.bbr.extra_acked_delivered, Bytes::ZERO);
    assert_eq!(
        path.bbr.pacing_rate,
        path.bbr.bw * Gain::from_millionths(990_000)
    );
    let before = path.phases.len();
    path.run_for(ms(300));
    assert!(!path.phases[before..].contains(&"ProbeRTT"));
    assert!(!path.bbr.idle_restart);
}

#[test]
fn a_timeout_leaves_room_for_one_packet_and_recovery_restores() {
    let mut path = Path::new(20, ms(40), 1000);
    path.run_to("ProbeBW_CRUISE");
    let before = path.bbr.cwnd();
    path.bbr.on_timeout(path.now, Bytes::ZERO);
    assert_eq!(path.bbr.cwnd().get(), 1000);
    path.bbr.on_recovery_exit(path.now);
    assert_eq!(path.bbr.cwnd(), before);
}

#[test]
fn a_bandwidth_ten_times_higher_is_found() {
    let mut path = Path::new(10, ms(40), 5000);
    path.run_to("ProbeBW_CRUISE");
    path.rate = Rate::from_bps(100_000_000);
    path.run_for(Duration::from_secs(8));
    assert!(
        path.bbr.max_bw.bps() > 95_000_000,
        "{}",
        path.bbr.max_bw.bps()
    );
}
