//! The kernel's state of programs' sockets, in addition to the information in their packets.

use std::collections::HashMap;

use paceline_capture::TCP;
use paceline_record::{EventRow, SampleRow};
use paceline_recovery::SenderStats;
use paceline_tcp::{Counts, Rows, decode, mss};
use paceline_tcp::{Own, Sample};
use paceline_units::{Duration, Instant};

use crate::conversation::Conversation;
use crate::diag::{Diag, SocketInfo};
use crate::message::Talk;
use crate::namespace::{Host, HostError};

/// A socket that has sent data, at one time.
#[derive(Clone, Debug)]
pub struct SocketState {
    at: Instant,
    /// The direction of its data: the conversation, and whether it goes to the server.
    of: (Conversation, bool),
    cc: String,
    sample: Sample,
    counts: Counts,
}

/// Queries both hosts about the sockets of their programs.
pub struct SocketPoller {
    server: Diag,
    client: Diag,
    states: Vec<SocketState>,
}

impl SocketPoller {
    /// None if the kernel does not answer such queries.
    pub fn new(server: &Host, client: &Host) -> Result<Option<Self>, HostError> {
        let open = |host: &Host| host.enter().map(|()| Diag::open().ok());
        Ok(match (open(server)?, open(client)?) {
            (Some(server), Some(client)) => Some(Self {
                server,
                client,
                states: Vec::new(),
            }),
            _ => None,
        })
    }

    /// Queries now, for the sample at `at`.
    pub fn poll(&mut self, at: Instant) {
        for (diag, up) in [(&mut self.server, false), (&mut self.client, true)] {
            let states = &mut self.states;
            // Without a reply, unknown values stay unknown.
            let _ = diag.each(|socket| states.extend(SocketState::new(at, up, socket)));
        }
    }

    /// The states of all queries.
    pub fn states(self) -> Vec<SocketState> {
        self.states
    }
}

impl SocketState {
    /// The state of a socket at the client's end, or at the server's; none if it has sent nothing.
    fn new(at: Instant, up: bool, socket: SocketInfo<'_>) -> Option<Self> {
        let (other, port) = socket.other;
        let (server, client) = match up {
            true => (port, socket.port),
            false => (socket.port, port),
        };
        let cc = socket.cc.to_owned();
        let (is_bbr, mss) = (cc.starts_with("bbr"), mss(socket.info));
        let (sample, counts) = decode(socket.info, socket.own, is_bbr, mss);
        let of = Conversation {
            protocol: TCP,
            server,
            client,
            at: if up { socket.local } else { other },
        };
        (sample.row.sent_packets > 0).then_some(Self {
            at,
            of: (of, up),
            cc,
            sample,
            counts,
        })
    }

    /// Fills in values that packets do not reveal.
    fn merge(&self, over: &mut Sample) {
        let own = &self.sample.row;
        over.row = SampleRow {
            cwnd_bytes: own.cwnd_bytes,
            pacing_bps: own.pacing_bps,
            delivery_bps: own.delivery_bps,
            srtt_ns: own.srtt_ns,
            min_rtt_ns: own.min_rtt_ns,
            phase: own.phase.clone(),
            ca_state: own.ca_state.clone(),
            app_limited: own.app_limited,
            ..std::mem::take(&mut over.row)
        };
        over.own = self.sample.own;
    }
}

/// The states of a flow's sockets.
struct FlowStates<'t> {
    talk: &'t mut Talk,
    /// The remaining ones, the next last.
    coming: Vec<SocketState>,
    latest: Option<SocketState>,
    rows: Rows,
}

/// Merges the sockets' states into the rows of their conversations, which are in order of time. A
/// state holds until the next one, and for an interval after the last.
pub fn merge(
    states: Vec<SocketState>,
    rows: &mut [Sample],
    talks: &mut [Talk],
    interval: Duration,
) -> Vec<EventRow> {
    let mut flows = HashMap::new();
    let mut places = HashMap::new();
    for talk in talks {
        if let Some(of) = talk.of {
            places.insert((of, talk.up), talk.totals.flow);
            let sockets = FlowStates {
                coming: Vec::new(),
                latest: None,
                rows: Rows::default(),
                talk,
            };
            flows.insert(sockets.talk.totals.flow, sockets);
        }
    }
    for one in states.into_iter().rev() {
        if let Some(sockets) = places.get(&one.of).and_then(|flow| flows.get_mut(flow)) {
            sockets.coming.push(one);
        }
    }
    for sockets in flows.values_mut() {
        // The state that it had at its end.
        if let Some(last) = sockets.coming.first() {
            sockets.talk.cc.clone_from(&last.cc);
        }
        // A kernel may not report BBR's state for a closing connection.
        let is_bbr = |one: &SocketState| matches!(one.sample.own, Own::Bbr(_));
        if sockets.coming.iter().any(is_bbr) {
            let silent = sockets.coming.iter_mut().filter(|one| !is_bbr(one));
            silent.for_each(|one| one.sample.own = Own::Hidden);
        }
    }
    let mut events = Vec::new();
    for sample in rows {
        let Some(sockets) = flows.get_mut(&sample.row.flow) else {
            continue;
        };
        let now = sample.row.t_ns;
        while sockets.coming.last().is_some_and(|one| one.at <= now) {
            sockets.latest = sockets.coming.pop();
        }
        let holds =
            |one: &&SocketState| !sockets.coming.is_empty() || now.since(one.at) <= interval;
        let latest = sockets.latest.as_ref().filter(holds);
        if let Some(one) = latest.filter(|one| one.cc == sockets.talk.cc) {
            one.merge(sample);
            let mut merged = sample.clone();
            events.extend(sockets.rows.next(&mut merged, one.counts));
        }
    }
    for FlowStates { talk, rows, .. } in flows.into_values() {
        let Some((_, counts)) = rows.last else {
            continue;
        };
        let known = [
            ("spurious_packets", counts.duplicates),
            ("rto_count", counts.rto),
        ];
        for ((name, _), counter) in SenderStats::COUNTERS.iter().zip(&mut talk.totals.counters) {
            if let Some((_, count)) = known.iter().find(|(counter, _)| counter == name) {
                *counter = Some(*count);
            }
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use paceline_units::Bytes;

    use super::*;

    const OF: Conversation = Conversation {
        protocol: TCP,
        server: 80,
        client: 4000,
        at: Ipv4Addr::new(10, 3, 0, 2),
    };

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn state(at: u64, cwnd: u64, rto: u64, up: bool) -> SocketState {
        let row = SampleRow {
            cwnd_bytes: Some(Bytes::new(cwnd)),
            phase: "SlowStart".into(),
            ca_state: "Open".into(),
            ..SampleRow::default()
        };
        SocketState {
            at: ms(at),
            of: (OF, up),
            cc: "cubic".to_owned(),
            sample: Sample {
                row,
                own: Own::Window(Bytes::new(7)),
            },
            counts: Counts {
                rto,
                ..Counts::default()
            },
        }
    }

    fn row(at: u64, flow: u32) -> Sample {
        let row = SampleRow {
            t_ns: ms(at),
            flow,
            sent_packets: 9,
            ..SampleRow::default()
        };
        Sample {
            row,
            own: Own::Hidden,
        }
    }

    #[test]
    fn a_row_has_what_the_socket_said_last_in_its_interval() {
        let mut talk = Talk {
            of: Some(OF),
            cc: "tcp".to_owned(),
            ..Talk::default()
        };
        talk.totals.flow = 3;
        talk.totals.counters = vec![None; SenderStats::COUNTERS.len()];
        let mut talks = [talk];
        let mut rows = [5, 10, 18, 20, 30, 40, 60].map(|at| row(at, 3)).to_vec();
        rows.insert(2, row(10, 4));
        // The client's socket is the other direction's.
        let all = vec![
            state(9, 100, 0, false),
            state(9, 1, 0, true),
            state(19, 150, 1, false),
            state(31, 200, 1, false),
        ];
        let events = merge(all, &mut rows, &mut talks, Duration::from_millis(10));
        let windows: Vec<_> = rows
            .iter()
            .map(|row| row.row.cwnd_bytes.map(Bytes::get))
            .collect();
        // Before the first, for another flow, and long after the last it is unknown; a pause is
        // bridged.
        let known = [Some(100), Some(150), Some(150), Some(200)];
        let expected = [&[None, Some(100), None][..], &known, &[None]].concat();
        assert_eq!(windows, expected);
        assert_eq!(rows[1].own, Own::Window(Bytes::new(7)));
        assert_eq!(rows[1].row.sent_packets, 9);
        assert_eq!(talks[0].cc, "cubic");
        let rto = SenderStats::COUNTERS
            .iter()
            .position(|(name, _)| *name == "rto_count");
        assert_eq!(talks[0].totals.counters[rto.unwrap()], Some(1));
        // It began in slow start, and had a timeout.
        let times: Vec<_> = events
            .iter()
            .map(|event| (event.t_ns, event.flow))
            .collect();
        assert_eq!(times, [(ms(10), Some(3)), (ms(20), Some(3))]);
    }
}
