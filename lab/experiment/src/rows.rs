//! Rows of the record that all engines build from the same data.

use paceline_endpoint::Stats;
use paceline_path::{Link, Packet};
use paceline_record::{EventRow, QueueRow, SampleRow};
use paceline_recovery::SenderStats;
use paceline_units::{Bytes, Instant, Rate, Setting, Value};

use crate::change::Change;

/// The counters of flows whose ACKs cross links, with their documentation.
pub const ACK_COUNTERS: &[(&str, &str)] = &[
    (
        "ack_sent_packets",
        "ACKs and SYN-ACKs, or packets of a QUIC receiver, offered to links; null if they cross no link, and \
         absent if no link has a return direction.",
    ),
    (
        "ack_lost_packets",
        "Those of them that links lost, or their first copy; likewise.",
    ),
    (
        "ack_filtered_packets",
        "Those of them that an ACK filter removed or that were thinned out; likewise.",
    ),
];

/// The rows of a requested change: one for each key. `rate` is the present one of the link that it
/// changes.
pub fn change_rows(t: Instant, change: &Change, rate: Rate) -> impl Iterator<Item = EventRow> {
    let (mut flow, mut link) = (None, None);
    match change {
        Change::Link(number, _) => link = Some(*number as u32),
        Change::App(number, _) => flow = Some(*number as u32),
        Change::Rtt(_) => {}
    }
    let row = move |(key, to): (String, Setting)| EventRow {
        flow,
        link,
        before_value: (key == "rate")
            .then(|| Value::Rate(rate).number())
            .flatten(),
        ..EventRow::change(t, key, to)
    };
    change.describe(rate).into_iter().map(row)
}

/// The state of an end of another transport. Its recovery state is not known.
pub fn end_row(now: Instant, flow: u32, stats: &Stats, delivered: u64) -> SampleRow {
    SampleRow {
        t_ns: now,
        flow,
        cwnd_bytes: stats.cwnd,
        in_flight_bytes: stats.in_flight,
        pacing_bps: stats.pacing_rate,
        delivery_bps: stats.delivery_rate,
        rtt_ns: stats.latest_rtt,
        srtt_ns: stats.srtt,
        min_rtt_ns: stats.min_rtt,
        goodput_bytes: Bytes::new(delivered),
        delivered_bytes: stats.acknowledged,
        sent_packets: stats.sent_packets,
        lost_packets: stats.lost_packets,
        retransmitted_packets: stats.retransmitted_packets,
        phase: stats.phase.into(),
        ca_state: "".into(),
        app_limited: stats.app_limited,
    }
}

/// The counters that the engine has; the others are none.
pub fn end_counters(stats: &Stats) -> Vec<Option<u64>> {
    let counters = SenderStats::COUNTERS.iter();
    let known = counters.map(|(name, _)| match *name {
        "sent_packets" => Some(stats.sent_packets),
        "lost_packets" => Some(stats.lost_packets),
        "retransmitted_packets" => Some(stats.retransmitted_packets),
        _ => None,
    });
    known.collect()
}

/// The row of a link, by its number, at a time.
pub fn queue_row<P: Packet + Clone>(t: Instant, number: u32, link: &mut Link<P>) -> QueueRow {
    let backlog = link.backlog(t);
    let counters = *link.counters();
    QueueRow {
        t_ns: t,
        link: number,
        backlog_bytes: backlog.bytes,
        backlog_packets: backlog.packets,
        delay_ns: Some(backlog.delay),
        peak_bytes: link.take_peak(t),
        rate_bps: Some(link.rate()).filter(|rate| !rate.is_infinite()),
        capacity_bytes: link.capacity(t),
        // A copy uses no capacity.
        delivered_bytes: counters.delivered.bytes - counters.duplicated.bytes,
        dropped_packets: counters.dropped().packets,
        offered_packets: counters.offered.packets,
        marked_packets: counters.marked.packets,
    }
}

#[cfg(test)]
mod tests {
    use paceline_scenario::{AppChange, LinkKey, PolicerChange, RateChange};
    use paceline_units::{App, Bytes, Duration, Gain, Hold, Policer};

    use super::*;
    use crate::change::LinkChange;

    fn of_link(key: LinkKey) -> Change {
        Change::Link(0, LinkChange::Key(key))
    }

    fn rows(change: &Change) -> Vec<EventRow> {
        change_rows(Instant::from_nanos(5), change, Rate::from_bps(8_000_000)).collect()
    }

    fn rows_of(change: &Change) -> Vec<(String, Option<f64>, String, String)> {
        let text = |text: Option<paceline_record::Text>| text.unwrap_or_default().into_owned();
        let row = |row: EventRow| {
            (
                text(row.key),
                row.value,
                text(row.unit),
                row.detail.into_owned(),
            )
        };
        rows(change).into_iter().map(row).collect()
    }

    #[test]
    fn a_factor_is_said_as_the_rate_that_it_gives() {
        let half = Gain::from_millionths(500_000);
        let rows = rows(&Change::Link(2, LinkChange::Rate(RateChange::Factor(half))));
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].flow, rows[0].link), (None, Some(2)));
        assert_eq!(
            (rows[0].before_value, rows[0].value),
            (Some(8e6), Some(4e6))
        );
        assert_eq!(rows[0].unit.as_deref(), Some("bit/s"));
    }

    #[test]
    fn each_key_has_a_row() {
        let policer = Policer {
            rate: Rate::from_bps(1_000),
            burst: Bytes::new(3_000),
        };
        let row = |key: &str, value, unit: &str, word: &str| {
            (key.to_owned(), value, unit.to_owned(), word.to_owned())
        };
        assert_eq!(
            rows_of(&of_link(LinkKey::Policer(PolicerChange::Set(policer)))),
            [
                row("policer.rate", Some(1e3), "bit/s", ""),
                row("policer.burst", Some(3e3), "byte", ""),
            ]
        );
        assert_eq!(
            rows_of(&of_link(LinkKey::Policer(PolicerChange::Off))),
            [row("policer", None, "", "off")]
        );
        let hold = Hold {
            packets: 3,
            delay: Duration::from_nanos(9),
        };
        assert_eq!(
            rows_of(&of_link(LinkKey::Hold(hold))),
            [
                row("hold.packets", Some(3.0), "packet", ""),
                row("hold.delay", Some(9.0), "ns", ""),
            ]
        );
        assert_eq!(
            rows_of(&Change::Rtt(Duration::from_millis(60))),
            [row("rtt", Some(6e7), "ns", "")]
        );
        assert_eq!(
            rows_of(&Change::App(1, AppChange::Pause)),
            [row("app", None, "", "pause")]
        );
        assert_eq!(
            rows_of(&Change::App(1, AppChange::Set(App::Bulk))),
            [row("app", None, "", "bulk")]
        );
        assert_eq!(rows(&Change::App(1, AppChange::Pause))[0].flow, Some(1));
    }
}
