//! qlog: one end's view of QUIC connections, in whatever version its stack writes.
//!
//! Supported are the current drafts (draft-ietf-quic-qlog-main-schema-14, quic-events-13), 0.3 and
//! 0.4, and drafts 00 to 02 with events as arrays; as one JSON text, JSON text sequences, or one
//! text per line. The data that this end sends is a flow, and so is the data that it receives.

mod events;
mod follow;

use std::collections::BTreeMap;

use paceline_record::{EventKind, EventRow, PacketKind, PacketRow, Run, SampleRow};
use paceline_units::{Duration, Instant};
use serde_json::json;

use crate::build::{Build, FlowSummary, PACKETS, counted, interval};
use crate::error::CaptureError;
use crate::source::{Format, Source};
use events::{Event, Head, Info};
use follow::{Connection, Counting, Did};

/// Maximum number of connections that are followed.
const CONNECTIONS: usize = 500;

/// The connections of a file, by trace and by group of events.
#[derive(Default)]
struct Connections {
    all: Vec<(String, Connection)>,
    places: BTreeMap<(usize, String), usize>,
    epoch: Option<i128>,
    latest: Instant,
    backwards: u64,
    beyond: u64,
    events: u64,
}

impl Connections {
    /// The time of an event since the first; time does not run backwards.
    fn time(&mut self, event: &Event) -> Instant {
        let epoch = *self.epoch.get_or_insert(event.nanos);
        let at = u64::try_from(event.nanos - epoch).unwrap_or(0);
        let at = Instant::from_nanos(at.min(u64::MAX / 4));
        self.backwards += u64::from(at < self.latest);
        self.latest = self.latest.max(at);
        self.latest
    }

    /// Processes an event: finds its connection and its effect.
    fn on_event(&mut self, now: Instant, head: &Head, event: &Event) -> Option<(usize, Vec<Did>)> {
        self.events += 1;
        let place = match self.places.get(&(head.number, event.group.clone())) {
            Some(place) => *place,
            None if self.all.len() >= CONNECTIONS => {
                self.beyond += 1;
                return None;
            }
            None => {
                let name = match (head.title.as_str(), event.group.as_str()) {
                    ("", group) => group,
                    (title, _) => title,
                };
                let from = head.vantage.as_str();
                let label = [name, from].into_iter().filter(|part| !part.is_empty());
                let label = label.collect::<Vec<_>>().join(", ");
                self.all.push((label, Connection::default()));
                let place = self.all.len() - 1;
                self.places
                    .insert((head.number, event.group.clone()), place);
                place
            }
        };
        let (_, connection) = self.all.get_mut(place)?;
        Some((place, connection.on_event(now, head.unit, event)))
    }
}

/// A flow of the record: its connection, and whether the end that wrote the file sends it.
struct Chosen {
    connection: usize,
    sent: bool,
    start: Instant,
    end: Instant,
}

/// Reads a qlog.
pub fn read(source: &Source<'_>) -> Result<Run, CaptureError> {
    let mut survey = Connections::default();
    let info = events::read(source, |head, event| {
        let now = survey.time(event);
        survey.on_event(now, head, event);
        true
    })?;
    let chosen = choose(&mut survey);
    if chosen.is_empty() {
        let events = survey.events;
        let sends = survey.all.iter().any(|(_, one)| one.is_unanswered());
        return Err(CaptureError::empty(if sends {
            format!(
                "it has packet_sent, but none of {events} events acknowledges a packet: packet_received with ACK frames is needed, which a run of a QUIC stack does not record (judge the run's folder)"
            )
        } else {
            format!(
                "none of {events} events sends or receives data: packet_sent and packet_received are needed to tell goodput"
            )
        }));
    }
    let summaries: Vec<FlowSummary> = chosen.iter().map(|flow| flow.summary(&survey)).collect();
    let active = chosen.iter().map(|flow| flow.end.since(flow.start));
    let interval = interval(active);
    let duration = survey.latest.since(Instant::ZERO);
    let duration = duration.max(Duration::from_millis(1));
    let mut build = Build::new(source, Format::Qlog, &summaries, duration, interval);
    build.notes = notes(&survey, &info);
    let like = |(name, one): &(String, Connection)| (name.clone(), Connection::like(one));
    let mut follow = Connections {
        all: survey.all.iter().map(like).collect(),
        places: survey.places.clone(),
        ..Connections::default()
    };
    let mut rows = Rows {
        build,
        chosen: &chosen,
        with_packets: info.events <= PACKETS,
    };
    events::read(source, |head, event| {
        let now = follow.time(event);
        if !rows
            .build
            .sample_until(now, |flow, after| row(&chosen, &follow, flow, after))
        {
            return false;
        }
        if let Some((place, did)) = follow.on_event(now, head, event) {
            rows.on_event(now, place, &did);
        }
        true
    })?;
    let mut build = rows.build;
    build.sample_until(survey.latest + interval, |flow, after| {
        row(&chosen, &follow, flow, after)
    });
    if let Some(cut) = &info.cut {
        build.cut(survey.latest, cut);
    }
    let version = json!(info.version);
    Ok(build.finish(&summaries, Some(("version", version))))
}

/// The directions that carried data. A direction with little data compared to the other consists of
/// requests.
fn choose(survey: &mut Connections) -> Vec<Chosen> {
    let mut chosen = Vec::new();
    for (place, (_, connection)) in survey.all.iter_mut().enumerate() {
        connection.settle();
        let sizes = [connection.carried(true), connection.carried(false)];
        for (sent, [own, other]) in [(true, sizes), (false, [sizes[1], sizes[0]])] {
            if own == 0 || own < other / 100 {
                continue;
            }
            if let Some((start, end)) = connection.active(sent) {
                chosen.push(Chosen {
                    connection: place,
                    sent,
                    start,
                    end,
                });
            }
        }
    }
    chosen.sort_by_key(|flow| (flow.start, flow.connection, !flow.sent));
    chosen
}

impl Chosen {
    fn summary(&self, survey: &Connections) -> FlowSummary {
        let Some((label, connection)) = survey.all.get(self.connection) else {
            return FlowSummary::default();
        };
        let way = if self.sent { "sends" } else { "receives" };
        let label = match label.as_str() {
            "" => way.to_owned(),
            label => format!("{label} {way}"),
        };
        let mut summary = connection.summary(self.sent);
        summary.label = label.chars().filter(|c| !c.is_control()).take(80).collect();
        summary.start = self.start;
        summary.last = self.end;
        summary
    }
}

fn notes(survey: &Connections, info: &Info) -> Vec<String> {
    let sums = survey.all.iter().map(|(_, connection)| connection);
    let whole = sums.clone().filter(|one| one.counting != Counting::Frames);
    let unnamed = sums
        .clone()
        .filter(|one| one.counting == Counting::InFlight);
    let (whole, unnamed) = (whole.count(), unnamed.count());
    let seconds = sums.clone().filter(|one| one.is_in_seconds()).count();
    let datagrams = sums.clone().map(Connection::datagrams).sum();
    let metrics = sums.filter(|one| !one.has_metrics).count();
    let counts = [
        (
            "events earlier than the one before, taken as if at its time",
            survey.backwards,
        ),
        ("events of connections beyond the first 500", survey.beyond),
        ("events without time or name, left out", info.odd),
        (
            "bytes of DATAGRAM frames (RFC 9221), which count as goodput like those of streams",
            datagrams,
        ),
        (
            "connections without stream frames, whose goodput is of whole packets",
            whole as u64,
        ),
        (
            "connections without acknowledgments, where what is neither lost nor in flight has arrived",
            unnamed as u64,
        ),
        (
            "connections with RTTs in seconds: in milliseconds they would be a thousandth of the handshake's",
            seconds as u64,
        ),
        (
            "connections without recovery metrics, whose RTT and bytes in flight are from packets and ACKs",
            metrics as u64,
        ),
    ];
    let mut notes = counted(&counts);
    if info.events > PACKETS {
        notes.push(format!(
            "the table of packets is left out: {} events are too many",
            info.events
        ));
    }
    notes.push("positions in `packets` count payload in the order of sending".to_owned());
    notes
}

/// The known state of a flow.
fn row(chosen: &[Chosen], follow: &Connections, flow: usize, after: Option<Instant>) -> SampleRow {
    let known = chosen.get(flow).and_then(|flow| {
        let (_, connection) = follow.all.get(flow.connection)?;
        Some(connection.row(flow.sent, after))
    });
    known.unwrap_or_default()
}

/// Converts events into rows of a record.
struct Rows<'a> {
    build: Build<'a>,
    chosen: &'a [Chosen],
    with_packets: bool,
}

impl Rows<'_> {
    fn on_event(&mut self, now: Instant, place: usize, did: &[Did]) {
        for did in did {
            let of = |sent| {
                let mut flows = (0..).zip(self.chosen);
                flows
                    .find(|(_, flow)| flow.connection == place && flow.sent == sent)
                    .map(|(number, _)| number)
            };
            let packet = match did {
                Did::Sent { at, len, again } => {
                    let kind = match *again {
                        true => PacketKind::Retransmit,
                        false => PacketKind::Send,
                    };
                    Some((true, kind, at, len))
                }
                Did::Acked { at, len } => Some((true, PacketKind::Sack, at, len)),
                Did::Received { at, len } => Some((false, PacketKind::Deliver, at, len)),
                Did::State { from, to } => {
                    let row = EventRow::new(now, of(true), EventKind::State);
                    self.build.event(row.between(from.clone(), to.clone()));
                    None
                }
            };
            if let Some((sent, kind, at, len)) = packet.filter(|_| self.with_packets)
                && let Some(flow) = of(sent)
            {
                self.build
                    .packet(PacketRow::new(now, flow, kind, *at, *len));
            }
        }
    }
}
