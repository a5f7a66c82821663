//! After nothing was sent for longer than the retransmission timeout (RFC 5681 section 4.1).

use paceline_congestion::Controller;
use paceline_congestion::options::OptionValue;
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
