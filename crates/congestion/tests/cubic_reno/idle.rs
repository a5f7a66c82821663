//! After nothing was sent for longer than the retransmission timeout (RFC 5681 section 4.1).

use paceline_congestion::options::OptionValue;
use paceline_congestion::{Ack, CaState, Controller};
use paceline_units::{Bytes, Duration};

use crate::flow::{Flow, MSS};

const RTT: Duration = Duration::from_millis(40);

/// The window is at most the initial one, the threshold stays, and slow start leads to it.
#[test]
fn the_window_begins_anew() {
    for name in ["reno", "cubic", "dctcp"] {
        for (option, kept) in [("restart", false), ("keep", true)] {
            let options = [("after_idle", OptionValue::Choice(option))];
            let mut flow = Flow::new(name, 10, RTT, &options);
            for _ in 0..40 {
                flow.ack(MSS);
            }
            flow.controller.on_recovery_enter(flow.now, Bytes::ZERO);
            flow.controller.on_recovery_exit(flow.now);
            let (cwnd, ssthresh) = (flow.cwnd(), flow.controller.ssthresh());
            assert!(cwnd > 10 * MSS, "{name}");
            flow.controller.on_idle_restart(flow.now);
            let expected = if kept { cwnd } else { 10 * MSS };
            assert_eq!(flow.cwnd(), expected, "{name} {option}");
            assert_eq!(flow.controller.ssthresh(), ssthresh);
            flow.ack(MSS);
            let grown = flow.cwnd() - expected;
            assert_eq!(grown == MSS, !kept, "{name} {option}");
        }
    }
}

/// A window below the initial one stays: `RW = min(IW, cwnd)`.
#[test]
fn a_small_window_stays() {
    let mut flow = Flow::new("reno", 10, RTT, &[]);
    flow.controller.on_timeout(flow.now, Bytes::ZERO);
    flow.controller.on_idle_restart(flow.now);
    assert_eq!(flow.cwnd(), MSS);
}

/// Linux's `tcp_cwnd_restart`: once for each timeout of the pause.
#[test]
fn linux_halves_the_window_and_raises_the_threshold() {
    for name in ["reno", "cubic", "dctcp"] {
        let options = [("after_idle", OptionValue::Choice("halve"))];
        let mut flow = Flow::new(name, 10, RTT, &options);
        for _ in 0..90 {
            flow.ack(MSS);
        }
        flow.recover();
        let reduced = flow.cwnd();
        for _ in 0..1000 {
            if flow.cwnd() < 2 * reduced {
                flow.round();
            }
        }
        let cwnd = flow.cwnd();
        assert!(cwnd >= 2 * reduced, "{name}");
        flow.controller.on_idle_restart(flow.now);
        assert_eq!(flow.cwnd(), cwnd / 2, "{name}");
        let ssthresh = flow.ssthresh();
        assert_eq!(ssthresh, 3 * cwnd / 4, "{name}");
        for _ in 0..4 {
            flow.controller.on_idle_restart(flow.now);
        }
        assert_eq!(flow.cwnd(), 10 * MSS, "{name}");
        assert_eq!(flow.ssthresh(), ssthresh, "{name}");
    }
}

/// `reno-linux` is `reno` with Linux's options: it keeps what it has counted towards the next segment,
/// and an ACK of many segments adds as many in slow start.
#[test]
fn reno_of_linux_keeps_its_count_and_has_no_limit_in_slow_start() {
    let grown = |name| {
        let mut flow = Flow::new(name, 10, RTT, &[]);
        flow.ack(8 * MSS);
        let slow_start = flow.cwnd();
        for _ in 0..40 {
            flow.ack(MSS);
        }
        flow.recover();
        flow.ack(flow.cwnd() - MSS);
        flow.controller.on_idle_restart(flow.now);
        while flow.cwnd() < flow.ssthresh() {
            flow.ack(MSS);
        }
        let before = flow.cwnd();
        let acks = (1..100).find(|_| {
            flow.ack(MSS);
            flow.cwnd() > before
        });
        (slow_start / MSS, before / MSS, acks)
    };
    // `reno` counts a complete window of 26 segments again; `reno-linux` has kept all but one of
    // its 29.
    assert_eq!(grown("reno"), (12, 26, Some(26)));
    assert_eq!(grown("reno-linux"), (18, 29, Some(1)));
}

/// A pause is no congestion event: slow start goes on as HyStart++'s, by up to eight segments for an
/// acknowledgment, not as without it, by two.
#[test]
fn linux_s_restart_does_not_end_hystart() {
    for name in ["reno", "cubic"] {
        let options = [
            ("after_idle", OptionValue::Choice("halve")),
            ("hystart", OptionValue::Flag(true)),
        ];
        let mut flow = Flow::new(name, 10, RTT, &options);
        for _ in 0..30 {
            flow.ack(MSS);
        }
        let before = flow.cwnd();
        flow.controller.on_idle_restart(flow.now);
        let cwnd = flow.cwnd();
        assert_eq!(cwnd, before / 2, "{name}");
        flow.ack(8 * MSS);
        assert_eq!(flow.cwnd(), cwnd + 8 * MSS, "{name}");
    }
}

/// The window does not grow while the transport reduces it, for a loss or after marks.
#[test]
fn the_window_does_not_grow_while_it_is_reduced() {
    for name in ["reno", "cubic", "dctcp", "cubic-linux"] {
        for (state, grows) in [
            (CaState::Open, true),
            (CaState::Disorder, true),
            (CaState::Cwr, false),
            (CaState::Recovery, false),
        ] {
            let mut flow = Flow::new(name, 10, RTT, &[]);
            let ack = Ack {
                ca_state: state,
                ..flow.ack_of(MSS)
            };
            flow.feed(ack);
            assert_eq!(flow.cwnd() > 10 * MSS, grows, "{name} {state:?}");
        }
    }
}

/// Linux's `tcp_enter_loss`: a timeout in the round trip after marks does not lower the threshold a
/// second time.
#[test]
fn a_timeout_while_the_window_is_reduced_after_marks_keeps_the_threshold() {
    for name in ["reno", "cubic", "dctcp", "cubic-linux"] {
        for (state, keeps) in [(CaState::Open, false), (CaState::Cwr, true)] {
            let options = [("initial_ssthresh", OptionValue::Bytes(Bytes::new(10 * MSS)))];
            let options = if name == "cubic-linux" {
                &[][..]
            } else {
                &options
            };
            let mut flow = Flow::new(name, 10, RTT, options);
            let ack = Ack {
                ca_state: state,
                una_advanced: false,
                ..flow.ack_of(MSS)
            };
            flow.feed(ack);
            let before = flow.ssthresh();
            flow.controller.on_timeout(flow.now, Bytes::ZERO);
            assert_eq!(flow.ssthresh() == before, keeps, "{name} {state:?}");
        }
    }
}
