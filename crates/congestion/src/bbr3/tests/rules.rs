//! Single rules of the algorithm, driven by hand: one state, one event, one response.

use super::*;

fn fresh(srtt: Option<Duration>) -> Bbr3 {
    with_acks(srtt, true)
}

fn with_acks(srtt: Option<Duration>, has_selective_acks: bool) -> Bbr3 {
    let config = Config {
        mss: 1000,
        initial_window: Bytes::new(10_000),
        seed: 7,
        now: Instant::ZERO,
        srtt,
        has_selective_acks,
    };
    Bbr3::new(&config, Parameters::default())
}

/// An acknowledgment of one packet, 100 packets in flight.
fn ack() -> Ack {
    Ack {
        now: Instant::from_nanos(1_000_000),
        sample: RateSample {
            has_data: true,
            delivered: Bytes::new(1000),
            tx_in_flight: Bytes::new(100_000),
            ..RateSample::default()
        },
        newly_acked: Bytes::new(1000),
        newly_lost: Bytes::ZERO,
        newly_marked: Some(Bytes::ZERO),
        prior_in_flight: Bytes::new(100_000),
        in_flight: Bytes::new(99_000),
        delivered: Bytes::new(1000),
        lost: Bytes::ZERO,
        sent: Bytes::new(1000) + Bytes::new(99_000),
        rtt: None,
        srtt: Duration::from_millis(40),
        min_rtt: Duration::from_millis(40),
        cwnd_limited: true,
        ca_state: CaState::Open,
        una_advanced: true,
        delayed: false,
        one_way_delay: None,
        network_rtt: None,
        receiver_delay: None,
        ece: false,
    }
}

#[test]
fn reno_coexistence_counts_packets() {
    let mut bbr = fresh(Some(Duration::from_millis(40)));
    bbr.state = State::Cruise;
    bbr.full_bw_reached = true;
    bbr.bw_probe_wait = Duration::from_secs(60);
    bbr.cwnd = Bytes::new(1_000_000);
    // 4 Mbit/s over 40 ms are 20 packets, 40 Mbit/s are 200: then 63 rounds are the limit.
    for (mbps, rounds) in [(4, 20), (40, 63)] {
        bbr.bw = Rate::from_bps(mbps * 1_000_000);
        bbr.rounds_since_probe_up = rounds - 1;
        bbr.update_probe_bw_cycle_phase(&ack(), Rate::ZERO);
        assert_eq!(bbr.state, State::Cruise);
        bbr.rounds_since_probe_up = rounds;
        bbr.update_probe_bw_cycle_phase(&ack(), Rate::ZERO);
        assert_eq!(bbr.state, State::Refill);
        bbr.state = State::Cruise;
    }
}

#[test]
fn the_first_rtt_replaces_the_placeholder() {
    let mut bbr = fresh(None);
    assert_eq!(bbr.pacing_rate.bps(), 221_807_120); // 10 kB in 1 ms, times 4 ln 2
    let mut first = ack();
    first.sample.has_data = false;
    bbr.on_ack(&first);
    assert_eq!(bbr.pacing_rate.bps(), 5_545_178); // in 40 ms
}

#[test]
fn the_first_ack_ends_no_loss_round() {
    let mut bbr = fresh(None);
    bbr.update_latest_delivery_signals(&ack(), Rate::ZERO);
    assert!(!bbr.loss_round_start);
    let mut later = ack();
    later.sample.prior_delivered = Bytes::new(1);
    bbr.update_latest_delivery_signals(&later, Rate::ZERO);
    assert!(bbr.loss_round_start);
}

#[test]
fn a_sample_without_a_rate_is_no_plateau() {
    let mut bbr = fresh(None);
    bbr.full_bw = Rate::from_bps(8_000_000);
    bbr.round_start = true;
    for _ in 0..5 {
        bbr.check_full_bw_reached(&ack(), Rate::ZERO);
    }
    assert_eq!(bbr.full_bw_count, 0);
    bbr.check_full_bw_reached(&ack(), Rate::from_bps(8_000_000));
    assert_eq!(bbr.full_bw_count, 1);
}

#[test]
fn loss_ends_startup_only_in_recovery_with_six_ranges_above_two_percent() {
    // In flight 100 kB: 2 kB lost are 2 %, not more.
    for (recovery, ranges, lost, ends) in [
        (true, 6, 2001, true),
        (false, 6, 2001, false),
        (true, 5, 2001, false),
        (true, 6, 2000, false),
    ] {
        let mut bbr = fresh(None);
        bbr.loss_round_start = true;
        bbr.in_fast_recovery = recovery;
        bbr.loss_ranges_in_round = ranges;
        let mut lossy = ack();
        lossy.sample.lost = Bytes::new(lost);
        bbr.check_startup_done(&lossy);
        assert_eq!(
            bbr.state == State::Drain,
            ends,
            "{recovery} {ranges} {lost}"
        );
    }
}

#[test]
fn drain_ends_in_the_fourth_round_at_the_latest() {
    let mut bbr = fresh(Some(Duration::from_millis(40)));
    bbr.state = State::Drain;
    bbr.bw = Rate::from_bps(8_000_000); // a BDP of 40 packets, with 99 in flight
    bbr.drain_start_round = 5;
    bbr.round_count = 8;
    bbr.check_drain_done(&ack());
    assert_eq!(bbr.state, State::Drain);
    bbr.round_count = 9;
    bbr.check_drain_done(&ack());
    assert_eq!(bbr.state, State::Down);
}

#[test]
fn rates_do_not_fall_to_zero() {
    let mut bbr = fresh(None);
    bbr.state = State::Cruise;
    bbr.full_bw_reached = true;
    bbr.loss_round_start = true;
    bbr.is_loss_in_round = true;
    bbr.bw_shortterm = Rate::from_bps(1);
    bbr.update_congestion_signals(&ack(), Rate::ZERO);
    assert_eq!(bbr.bw_shortterm.bps(), 1);
    bbr.bw = Rate::ZERO;
    let before = bbr.pacing_rate;
    bbr.set_pacing_rate(Gain::ONE);
    assert_eq!(bbr.pacing_rate, before);
}

#[test]
fn probe_rtt_returns_to_the_window_just_left() {
    let mut bbr = fresh(Some(Duration::from_millis(40)));
    bbr.state = State::Cruise;
    bbr.cwnd = Bytes::new(80_000);
    bbr.prior_cwnd = Bytes::new(900_000); // of an episode long ago
    bbr.probe_rtt_expired = true;
    bbr.check_probe_rtt(&ack());
    assert_eq!(bbr.state, State::ProbeRtt);
    assert_eq!(bbr.prior_cwnd.get(), 80_000);
}

#[test]
fn inflight_at_loss_by_hand() {
    let bbr = Bbr3::new(&config(None), Parameters::default());
    let loss = Lost {
        now: Instant::ZERO,
        packet: PacketState {
            tx_in_flight: Bytes::new(101_000),
            size: 1000,
            ..PacketState::default()
        },
        lost: Bytes::new(2000),
        delivered: Bytes::ZERO,
        in_flight: Bytes::ZERO,
        starts_range: true,
        retransmission: false,
    };
    // 100 kB before it, 1 kB of it lost: (0.02 * 100000 - 1000) / 0.98 = 1020 of the packet fit.
    assert_eq!(bbr.inflight_at_loss(&loss, Bytes::new(2000)).get(), 101_020);
    // More was lost before than the threshold allows: the prefix is 0, not negative.
    assert_eq!(bbr.inflight_at_loss(&loss, Bytes::new(9000)).get(), 100_000);
}

#[test]
fn a_bdp_below_a_packet_waits_for_a_round_between_probes() {
    let mut bbr = Bbr3::new(&config(Some(ms(1))), Parameters::default());
    bbr.bw = Rate::from_bps(1_000_000);
    assert!(bbr.target_inflight() < Bytes::new(u64::from(MSS)));
    bbr.rounds_since_probe_up = 0;
    assert!(!bbr.is_reno_coexistence_probe_time());
    bbr.rounds_since_probe_up = 1;
    assert!(bbr.is_reno_coexistence_probe_time());
}

#[test]
fn the_max_filter_spans_two_cycles() {
    let mut bbr = Bbr3::new(&config(None), Parameters::default());
    bbr.max_bw_filter = [Rate::from_bps(5), Rate::from_bps(9)];
    bbr.max_bw = Rate::from_bps(9);
    bbr.advance_max_bw_filter(Instant::ZERO);
    assert_eq!(bbr.max_bw_filter, [Rate::from_bps(9), Rate::ZERO]);
    // Without a sample in this cycle the last one is kept.
    bbr.advance_max_bw_filter(Instant::ZERO);
    assert_eq!(bbr.max_bw, Rate::from_bps(9));
    bbr.max_bw_filter[1] = Rate::from_bps(3);
    bbr.advance_max_bw_filter(Instant::ZERO);
    assert_eq!(bbr.max_bw, Rate::from_bps(3));
}

/// 5.5.10.2 and 5.3.1.3 for `C.has_selective_acks` false: any loss is too high, and one within fast
/// recovery ends Startup.
#[test]
fn without_selective_acks_any_loss_is_high() {
    for (selective, within, ends) in [
        (false, true, true),
        (false, false, false),
        (true, true, false),
    ] {
        let mut bbr = with_acks(None, selective);
        assert_eq!(
            bbr.is_inflight_too_high(Bytes::new(1), Bytes::new(100_000)),
            !selective
        );
        if within {
            bbr.enter_fast_recovery();
        }
        bbr.handle_lost_packet(&lost(1));
        bbr.check_startup_done(&ack());
        assert_eq!(bbr.state == State::Drain, ends, "{selective} {within}");
        assert_eq!(bbr.full_bw_now, ends);
    }
}

/// 5.3.4.3: the connection is marked application-limited on each ACK in ProbeRTT, including the one
/// that ends it.
#[test]
fn the_last_ack_of_probe_rtt_marks_as_well() {
    let mut bbr = fresh(Some(ms(40)));
    bbr.state = State::ProbeRtt;
    bbr.probe_rtt_done_stamp = Instant::ZERO;
    bbr.probe_rtt_round_done = true;
    bbr.on_ack(&ack());
    assert!(bbr.state != State::ProbeRtt && bbr.marks_app_limited());
    bbr.on_ack(&ack());
    assert!(!bbr.marks_app_limited());
}

/// 5.2.3: every ACK advances ProbeRTT, even one that delivers nothing; such an ACK starts no round.
#[test]
fn an_ack_without_a_sample_ends_probe_rtt() {
    let mut bbr = fresh(Some(ms(40)));
    bbr.state = State::ProbeRtt;
    bbr.probe_rtt_done_stamp = Instant::ZERO;
    bbr.probe_rtt_round_done = true;
    let empty = Ack {
        sample: RateSample::default(),
        newly_acked: Bytes::ZERO,
        ..ack()
    };
    bbr.prior_cwnd = Bytes::new(90_000);
    let rounds = bbr.round_count;
    bbr.on_ack(&empty);
    assert!(bbr.state != State::ProbeRtt);
    assert_eq!((bbr.round_count, bbr.round_start), (rounds, false));
    // The restored value stays until something is delivered.
    assert_eq!(bbr.cwnd, Bytes::new(90_000));
}

/// 5.6.4.2 `BDPMultiple`: while no RTT is known it is the initial window, whatever the gain.
#[test]
fn without_an_rtt_the_initial_window_is_not_multiplied() {
    let mut bbr = Bbr3::new(
        &Config {
            initial_window: Bytes::new(50_000),
            ..config(None)
        },
        Parameters::default(),
    );
    bbr.bw = Rate::from_bps(8_000_000);
    bbr.pacing_rate = bbr.bw;
    bbr.set_send_quantum(); // quanta are small
    assert_eq!(bbr.max_inflight().get(), 50_000);
    assert_eq!(
        bbr.inflight(bbr.bw, Gain::from_millionths(500_000)).get(),
        50_000
    );
    assert_eq!(bbr.probe_rtt_cwnd().get(), 50_000);
    bbr.min_rtt = ms(40);
    assert_eq!(bbr.max_inflight().get(), 80_000);
}

/// 5.5.11.2 `StartProbeBW_REFILL` begins a round at the current `C.delivered`.
#[test]
fn an_undo_begins_a_round_at_what_is_delivered_now() {
    let mut bbr = fresh(Some(ms(40)));
    bbr.state = State::Cruise;
    bbr.undo_state = UndoState::Up;
    bbr.delivered = Bytes::new(1000);
    bbr.on_spurious(Instant::ZERO, Bytes::new(7000));
    assert_eq!(bbr.state, State::Refill);
    assert_eq!(bbr.next_round_delivered, Bytes::new(7000));
}

fn with(set: impl FnOnce(&mut Parameters)) -> Bbr3 {
    let mut parameters = Parameters::default();
    set(&mut parameters);
    let mut bbr = Bbr3::new(&config(Some(ms(40))), parameters);
    bbr.full_bw_reached = true;
    bbr.state = State::Cruise;
    bbr.bw_probe_wait = Duration::from_secs(60);
    bbr.max_bw_filter = [Rate::from_bps(9_000_000), Rate::from_bps(4_000_000)];
    bbr.max_bw = Rate::from_bps(9_000_000);
    bbr.bw = bbr.max_bw;
    bbr.cwnd = Bytes::new(100_000);
    bbr
}

/// An acknowledgment at a time, with a sample of 1 Mbit/s.
fn ack_at(now: Duration) -> Ack {
    let mut ack = ack();
    ack.now = Instant::ZERO + now;
    ack.rtt = Some(ms(400));
    ack.sample.interval = ms(8);
    ack
}

#[test]
fn the_filter_advances_on_entering_down_or_a_round_later() {
    for (on_down, after_down, after_round) in [(false, 9, 4), (true, 4, 4)] {
        let mut bbr = with(|p| p.advance_on_down = on_down);
        bbr.start_probe_bw_down(Instant::ZERO);
        assert_eq!(bbr.max_bw, Rate::from_bps(after_down * 1_000_000));
        bbr.round_start = true;
        bbr.update_probe_bw_cycle_phase(&ack(), Rate::ZERO);
        assert_eq!(bbr.max_bw, Rate::from_bps(after_round * 1_000_000));
        assert_eq!(bbr.cycle_count, 1);
    }
}

#[test]
fn the_filter_advances_by_time_if_its_slot_has_a_full_sample() {
    for (after, limited, advances) in [
        (Duration::from_secs(6), false, true),
        (Duration::from_secs(6), true, false),
        (Duration::ZERO, false, false),
    ] {
        let mut bbr = with(|p| p.advance_after = after);
        bbr.next_round_delivered = Bytes::INFINITE;
        let mut early = ack_at(ms(5999));
        early.sample.app_limited = limited;
        bbr.on_ack(&early);
        assert_eq!(bbr.cycle_count, 0);
        let mut late = ack_at(ms(6001));
        late.sample.app_limited = limited;
        bbr.update_probe_bw_cycle_phase(&late, Rate::ZERO);
        assert_eq!(bbr.cycle_count, u32::from(advances), "{after:?} {limited}");
    }
}

#[test]
fn probe_rtt_waits_for_the_end_of_a_bandwidth_probe() {
    for (waits, phase, enters) in [
        (false, AckPhase::Refilling, true),
        (true, AckPhase::Refilling, false),
        (true, AckPhase::ProbeFeedback, false),
        (true, AckPhase::ProbeStopping, false),
        (true, AckPhase::Init, true),
    ] {
        let mut bbr = with(|p| p.probe_rtt_waits = waits);
        bbr.ack_phase = phase;
        let due = ack_at(ms(5001));
        bbr.update_min_rtt(&due);
        bbr.check_probe_rtt(&due);
        assert_eq!(bbr.state == State::ProbeRtt, enters, "{waits} {phase:?}");
        bbr.ack_phase = AckPhase::Init;
        bbr.update_min_rtt(&due);
        bbr.check_probe_rtt(&due);
        assert_eq!(bbr.state, State::ProbeRtt, "put off, and not left out");
    }
    // An earlier ProbeRTT in Startup left its phase.
    let mut bbr = with(|p| p.probe_rtt_waits = true);
    (bbr.state, bbr.full_bw_reached, bbr.ack_phase) =
        (State::Startup, false, AckPhase::ProbeStopping);
    let due = ack_at(ms(5001));
    bbr.update_min_rtt(&due);
    bbr.check_probe_rtt(&due);
    assert_eq!(bbr.state, State::ProbeRtt);
}

/// Half of 9 Mbit/s over 40 ms are 22.5 kB; over the 400 ms of a `min_rtt` that expires on entry 225;
/// of 4 Mbit/s over 40 ms 10 kB, over 400 ms 100.
#[test]
fn the_window_of_probe_rtt_by_its_options() {
    for (latest, prior, window) in [
        (false, false, 225_000),
        (true, false, 100_000),
        (false, true, 22_500),
        (true, true, 10_000),
    ] {
        let mut bbr = with(|p| {
            p.probe_rtt_latest_bw = latest;
            p.probe_rtt_prior_min_rtt = prior;
        });
        bbr.bw_latest = Rate::from_bps(4_000_000);
        let due = ack_at(ms(10_001));
        bbr.update_min_rtt(&due);
        assert_eq!(bbr.min_rtt, ms(400));
        bbr.check_probe_rtt(&due);
        assert_eq!(bbr.probe_rtt_cwnd(), Bytes::new(window));
    }
}

#[test]
fn min_rtt_rises_only_after_a_probe_rtt_that_drained() {
    // 62.5 kB in the 500 ms of the reduced window are 1 Mbit/s: half of 2, nearly all of 1.2.
    for (option, before, limited, rises) in [
        (false, 1_200_000, false, true),
        (true, 1_200_000, false, false),
        (true, 2_000_000, false, true),
        (true, 1_200_000, true, true),
    ] {
        let mut bbr = with(|p| p.min_rtt_if_drained = option);
        bbr.bw_latest = Rate::from_bps(before);
        let mut due = ack_at(ms(5001));
        due.sample.app_limited = limited;
        due.in_flight = Bytes::ZERO;
        bbr.update_min_rtt(&due);
        bbr.check_probe_rtt(&due);
        let mut done = ack_at(ms(5501));
        done.delivered = due.delivered + Bytes::new(62_500);
        bbr.round_start = true;
        bbr.check_probe_rtt(&done);
        assert_ne!(bbr.state, State::ProbeRtt);
        done.now = Instant::ZERO + ms(10_400);
        bbr.update_min_rtt(&done);
        assert_eq!(bbr.min_rtt == ms(400), rises, "{option} {before} {limited}");
    }
}

fn lost(packets: u64) -> Lost {
    Lost {
        now: Instant::ZERO,
        packet: PacketState {
            tx_in_flight: Bytes::new(100_000),
            size: 1000,
            ..PacketState::default()
        },
        lost: Bytes::new(packets * 1000),
        delivered: Bytes::ZERO,
        in_flight: Bytes::ZERO,
        starts_range: true,
        retransmission: false,
    }
}

/// In ProbeBW_UP with the option `ecn`, and an acknowledgment with one marked packet of `delivered`.
fn marked(ecn: EcnResponse, delivered: u64) -> (Bbr3, Ack) {
    let mut bbr = fresh(Some(Duration::from_millis(40)));
    bbr.parameters.ecn = ecn;
    bbr.full_bw_reached = true;
    bbr.bw = Rate::from_bps(20_000_000);
    bbr.state = State::Up;
    bbr.is_bw_probe_sample = true;
    let mut marked = ack();
    marked.newly_marked = Some(Bytes::new(1000));
    marked.sample.delivered = Bytes::new(delivered);
    marked.sample.delivered_ce = Bytes::new(1000);
    (bbr, marked)
}

#[test]
fn a_mark_as_high_loss_ends_the_probe_and_counts_as_loss() {
    let (mut bbr, marked) = marked(EcnResponse::Loss, 100_000);
    assert_eq!(bbr.ecn(), Ecn::Ect0);
    bbr.on_ack(&marked);
    assert_eq!(bbr.state, State::Down);
    assert!(bbr.prev_probe_too_high && !bbr.is_bw_probe_sample);
    assert_eq!(
        bbr.inflight_longterm,
        Bytes::new(100_000),
        "the data in flight at the mark"
    );
    assert_eq!(bbr.undo_state, UndoState::None, "a mark is never spurious");
    let (mut bbr, marked) = self::marked(EcnResponse::Loss, 100_000);
    bbr.state = State::Cruise;
    bbr.note_marks(&marked);
    assert!(bbr.is_loss_in_round);
}

#[test]
fn with_alpha_more_than_half_of_a_sample_ends_the_probe() {
    for (delivered, state) in [(2000, State::Up), (1999, State::Down)] {
        let (mut bbr, marked) = marked(EcnResponse::Alpha, delivered);
        bbr.on_ack(&marked);
        assert_eq!(bbr.state, state, "{delivered}");
        assert!(!bbr.is_loss_in_round);
    }
}

#[test]
fn alpha_cuts_a_third_of_itself_from_the_data_in_flight_and_leaves_the_rate() {
    let (mut bbr, marked) = marked(EcnResponse::Alpha, 100_000);
    bbr.state = State::Cruise;
    bbr.cwnd = Bytes::new(90_000);
    bbr.note_marks(&marked);
    assert_eq!(
        bbr.marked_inflight(),
        Bytes::new(60_000),
        "alpha starts at 1"
    );
    assert!(bbr.marked_inflight().is_infinite(), "once in a loss round");
    assert!(bbr.bw_shortterm.is_infinite());
    // A round of ten packets with one marked: 15/16 + 1/160.
    let mut clean = ack();
    clean.newly_acked = Bytes::new(9000);
    bbr.note_marks(&clean);
    bbr.end_round_of_marks();
    bbr.note_marks(&marked);
    assert_eq!(bbr.marked_inflight(), Bytes::new(61_687));
}

#[test]
fn without_the_option_marks_mean_nothing() {
    let (mut bbr, marked) = marked(EcnResponse::None, 1000);
    assert_eq!(bbr.ecn(), Ecn::NotEct);
    bbr.on_ack(&marked);
    assert_eq!(bbr.state, State::Up);
    assert!(!bbr.is_loss_in_round && bbr.inflight_shortterm.is_infinite());
}
