//! The effect of each event on a BBR and its socket.

use paceline_congestion::linux::{Algorithm, Field, Socket};

use super::{Difference, Subject, foreign};
use crate::input::{AckSocket, Input, JIFFIES};
use crate::trace::Event;

/// `TCP_ECN_OK | TCP_ECN_LOW`: negotiated, on a route that marks at a shallow threshold.
const ECN_OK_LOW: u32 = 1 | 16;

/// A BBR with its socket.
pub(crate) struct BbrReplay<A> {
    sk: Socket,
    /// Jiffies a second of the trace.
    hz: u32,
    core: Option<A>,
}

impl<A> BbrReplay<A> {
    pub(crate) fn new() -> Self {
        Self {
            sk: Socket::default(),
            hz: JIFFIES,
            core: None,
        }
    }
}

impl<A: Algorithm> Subject for BbrReplay<A> {
    fn apply(&mut self, event: &Event) -> Vec<Difference> {
        if matches!(event.input, Input::Cubic(_) | Input::Window(_)) {
            return vec![foreign(event)];
        }
        let mut differences = Vec::new();
        let mut draws = event.draws.iter();
        let mut random = |below: u32| match draws.next() {
            Some(draw) if draw.below == below => draw.drew,
            other => {
                let expected = other.map(|draw| draw.below);
                differences.push(draw_difference(expected, Some(below)));
                0
            }
        };
        let sk = &mut self.sk;
        if let Input::Init { hz, .. } = event.input {
            self.hz = hz;
        }
        let jiffies = event
            .jiffies
            .map(|jiffies| jiffies.wrapping_mul(JIFFIES / self.hz));
        if let Input::Init {
            cwnd,
            mss,
            srtt,
            min_rtt,
            ecn_flags,
            delivered,
            ..
        } = event.input
        {
            *sk = Socket {
                now: event.time,
                jiffies,
                wstamp_ns: 0,
                mss,
                cwnd,
                srtt,
                min_rtt,
                delivered,
                ecn_low: ecn_flags & ECN_OK_LOW == ECN_OK_LOW,
                ..Socket::default()
            };
            self.core = Some(A::new(sk, A::Parameters::default()));
        }
        (sk.now, sk.jiffies) = (event.time, jiffies);
        if let Some(core) = &mut self.core {
            match event.input {
                Input::Init { .. } | Input::Cubic(_) | Input::Window(_) => {}
                Input::Ack { socket, sample } => {
                    set_ack(sk, socket);
                    core.cong_control(sk, &sample, &mut random);
                }
                Input::Lost {
                    delivered,
                    lost,
                    cwnd,
                    packet,
                } => {
                    (sk.delivered, sk.lost, sk.cwnd) = (delivered, lost, cwnd);
                    core.skb_marked_lost(sk, &packet, &mut random);
                }
                Input::Ssthresh => core.ssthresh(sk),
                Input::SetState { state, cwnd } => {
                    sk.cwnd = cwnd;
                    core.set_state(sk, state, &mut random);
                    sk.ca_state = state;
                }
                Input::Undo => sk.cwnd = core.undo_cwnd(sk),
                Input::TxStart { app_limited } => {
                    sk.app_limited = app_limited;
                    core.tx_start(sk, &mut random);
                }
                Input::Tlp {
                    delivered,
                    app_limited,
                } => {
                    sk.delivered = delivered;
                    sk.tlp_orig_data_app_limited = app_limited;
                    core.tlp_recovery(sk, &mut random);
                }
            }
        }
        differences.extend(draws.map(|draw| draw_difference(Some(draw.below), None)));
        differences
    }

    fn visit(&self, visit: &mut dyn FnMut(&'static str, Field)) {
        if let Some(core) = &self.core {
            core.visit(&self.sk, visit);
        }
    }

    fn other_mode(&self, mode: &str) -> Option<String> {
        let phase = self.core.as_ref()?.phase();
        // A trace of v1 has the index in the gain cycle.
        let mut cycle_idx = None;
        self.visit(&mut |name, field| {
            if name == "cycle_idx" {
                cycle_idx = Some(field.raw());
            }
        });
        let suffix = cycle_idx.map_or(String::new(), |index| format!("/{index}"));
        (!is_mode(mode, phase, cycle_idx)).then(|| format!("{phase}{suffix}"))
    }
}

fn set_ack(sk: &mut Socket, ack: AckSocket) {
    let AckSocket {
        delivered,
        delivered_ce,
        delivered_mstamp,
        lost,
        packets_in_flight,
        is_cwnd_limited,
        ca_state,
        wstamp_ns,
        srtt,
        min_rtt,
        app_limited,
    } = ack;
    (sk.delivered, sk.delivered_ce) = (delivered, delivered_ce);
    (sk.delivered_mstamp, sk.wstamp_ns) = (delivered_mstamp, wstamp_ns);
    (sk.lost, sk.packets_in_flight) = (lost, packets_in_flight);
    (sk.is_cwnd_limited, sk.ca_state) = (is_cwnd_limited, ca_state);
    (sk.srtt, sk.min_rtt, sk.app_limited) = (srtt, min_rtt, app_limited);
}

/// Whether a trace's mode, as `PROBE_BW/UP`, `DRAIN/-` or v1's `PROBE_BW/3`, is this one.
fn is_mode(mode: &str, phase: &str, cycle_idx: Option<u64>) -> bool {
    let Some((head, tail)) = mode.split_once('/') else {
        return false;
    };
    match cycle_idx {
        Some(index) => head == phase && tail.parse() == Ok(index),
        None if tail == "-" => head == phase,
        None => {
            phase
                .strip_prefix(head)
                .and_then(|rest| rest.strip_prefix('_'))
                == Some(tail)
        }
    }
}

fn draw_difference(expected: Option<u32>, got: Option<u32>) -> Difference {
    let show = |below: Option<u32>| below.map_or(String::from("none"), |n| format!("below {n}"));
    Difference {
        field: String::from("draw"),
        expected: show(expected),
        got: show(got),
    }
}
