//! The rows of a run in the form that metrics use.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use arrow_array::{Array, ArrayAccessor, Int64Array, UInt32Array};
use paceline_units::Rate;

use crate::column::saturate;
use crate::counter::{Counter, Span};
use crate::error::RecordError;
use crate::info::{LinkInfo, RunInfo};
use crate::rows::EventKind;
use crate::view::TableView;

const CHANGE: &str = EventKind::Change.word();
/// The engine whose runs may have rows between the regular ones, as `record.rounds` asks for.
const SIMULATOR: &str = "sim";

/// A flow's rows in the form that metrics use.
#[derive(Debug)]
pub struct FlowSeries {
    pub(crate) flow: u32,
    /// From its start to its stop, its finish or the end of the run, whichever is first.
    pub(crate) active: Option<Span>,
    pub(crate) start: i64,
    pub(crate) finish: Option<i64>,
    goodput: i64,
    /// When its counters stopped.
    end: i64,
    /// Counters, if the engine knows them.
    pub(crate) sent: Option<u64>,
    pub(crate) retransmitted: Option<u64>,
    pub(crate) rto_count: Option<u64>,
    pub(crate) acks_sent: Option<u64>,
    pub(crate) acks_lost: Option<u64>,
    pub(crate) acks_filtered: Option<u64>,
    /// Of the slowest link that its data crosses, at the start.
    pub(crate) capacity: Option<Rate>,
    /// Payload over wire bytes of its full packets.
    pub(crate) payload_ratio: f64,
    pub(crate) rows: Vec<usize>,
    rtts: OnceCell<Vec<i64>>,
}

/// A link's rows, and whether data crosses it.
#[derive(Debug)]
pub(crate) struct LinkSeries {
    pub(crate) rows: Vec<usize>,
    pub(crate) flows: Vec<usize>,
    /// Whether it is the return direction of a link.
    pub(crate) is_return: bool,
    /// Whether it has a rate.
    pub(crate) is_limited: bool,
}

/// A change that the scenario makes: time, link, key and new value.
pub(crate) type Change<'a> = (i64, Option<u32>, &'a str, Option<f64>);

/// The rows of a run in the form that metrics use.
#[derive(Debug)]
pub struct Series<'a> {
    payload_ratio: f64,
    /// Time between two regular rows of a flow.
    interval: i64,
    pub(crate) flows: Vec<FlowSeries>,
    pub(crate) links: Vec<LinkSeries>,
    /// From the first flow's start to the last flow's end, and the payload delivered in that time.
    pub(crate) window: Option<Span>,
    goodput: OnceCell<u64>,
    pub(crate) times: &'a [i64],
    pub(crate) goodputs: &'a [i64],
    pub(crate) rtts: &'a Int64Array,
    pub(crate) acknowledged: &'a [i64],
    pub(crate) in_flight: &'a [i64],
    delivery_rates: &'a Int64Array,
    pub(crate) link_times: &'a [i64],
    delays: &'a Int64Array,
    backlogs: &'a [i64],
    peaks: &'a [i64],
    pub(crate) capacities: &'a [i64],
    delivered: &'a [i64],
    dropped: &'a [i64],
    offered: &'a [i64],
    pub(crate) events: TableView<'a>,
    changes: OnceCell<Option<Vec<Change<'a>>>>,
    sorted_rtts: OnceCell<Vec<i64>>,
    sorted_delays: OnceCell<Vec<i64>>,
    sorted_return_delays: OnceCell<Vec<i64>>,
}

impl<'a> Series<'a> {
    /// The columns of a table that metrics read; none if all of it is read.
    pub(crate) fn columns(table: &str) -> Option<&'static [&'static str]> {
        match table {
            "samples" => Some(&[
                "t_ns",
                "flow",
                "goodput_bytes",
                "rtt_ns",
                "delivered_bytes",
                "delivery_bps",
                "in_flight_bytes",
            ]),
            "queue" => Some(&[
                "t_ns",
                "link",
                "delay_ns",
                "backlog_bytes",
                "peak_bytes",
                "capacity_bytes",
                "delivered_bytes",
                "dropped_packets",
                "offered_packets",
            ]),
            "events" => Some(&[
                "t_ns", "flow", "kind", "from", "detail", "link", "key", "value",
            ]),
            _ => None,
        }
    }

    /// The series of a run's tables.
    ///
    /// # Errors
    /// [`RecordError::Column`] when a table lacks a required column.
    pub(crate) fn new(
        info: &RunInfo,
        flows: TableView<'a>,
        samples: TableView<'a>,
        queue: TableView<'a>,
        events: TableView<'a>,
    ) -> Result<Self, RecordError> {
        let goodputs = samples.values("goodput_bytes")?;
        let times = samples.values("t_ns")?;
        let interval = saturate(info.sample_interval.as_nanos()).max(1);
        let mut of_flows = flow_series(flows, saturate(info.duration.as_nanos()))?;
        let places: BTreeMap<u32, usize> = (0..).zip(&of_flows).map(|(k, f)| (f.flow, k)).collect();
        let place = |flow: u32| places.get(&flow).copied();
        let grouped = group(samples.ids("flow")?, of_flows.len(), place);
        for (number, (flow, mut rows)) in of_flows.iter_mut().zip(grouped).enumerate() {
            flow.payload_ratio = info.payload_ratio_of(number);
            // Totals below the last row are not totals.
            let last = rows.last().and_then(|row| goodputs.get(*row));
            flow.goodput = flow.goodput.max(last.copied().unwrap_or(0));
            if info.backend == SIMULATOR {
                keep_regular(&mut rows, times, interval);
            }
            flow.rows = rows;
        }
        let links = link_series(info, queue.ids("link")?, place, &mut of_flows);
        let active = || of_flows.iter().filter_map(|flow| flow.active);
        let from = active().map(|span| span.from).min();
        let to = active().map(|span| span.to).max();
        Ok(Self {
            payload_ratio: info.payload_ratio,
            interval,
            links,
            window: from.zip(to).and_then(|(from, to)| Span::new(from, to)),
            goodput: OnceCell::new(),
            flows: of_flows,
            times,
            goodputs,
            rtts: samples.ints("rtt_ns")?,
            acknowledged: samples.values("delivered_bytes")?,
            in_flight: samples.values("in_flight_bytes")?,
            delivery_rates: samples.ints("delivery_bps")?,
            link_times: queue.values("t_ns")?,
            delays: queue.ints("delay_ns")?,
            backlogs: queue.values("backlog_bytes")?,
            peaks: queue.values("peak_bytes")?,
            capacities: queue.values("capacity_bytes")?,
            delivered: queue.values("delivered_bytes")?,
            dropped: queue.values("dropped_packets")?,
            offered: queue.values("offered_packets")?,
            events,
            changes: OnceCell::new(),
            sorted_rtts: OnceCell::new(),
            sorted_delays: OnceCell::new(),
            sorted_return_delays: OnceCell::new(),
        })
    }

    /// Payload that a flow's receiver delivered in a span.
    pub(crate) fn goodput(&self, flow: &FlowSeries, span: Span) -> u64 {
        let counter = Counter {
            times: self.times,
            values: self.goodputs,
            rows: &flow.rows,
            origin: flow.start,
            end: Some((flow.end, flow.goodput)),
        };
        counter.between(span.from, span.to)
    }

    /// Payload that all receivers delivered in a span.
    pub(crate) fn total_goodput(&self, span: Span) -> u64 {
        self.flows
            .iter()
            .fold(0, |sum, flow| self.goodput(flow, span).saturating_add(sum))
    }

    /// The same over the window, of which every flow's share is a part.
    pub(crate) fn window_goodput(&self) -> Option<u64> {
        let window = self.window?;
        Some(*self.goodput.get_or_init(|| self.total_goodput(window)))
    }

    /// The RTTs of a flow's rows in which one was measured while it is active, in rising order.
    pub(crate) fn rtts<'f>(&self, flow: &'f FlowSeries) -> &'f [i64] {
        flow.rtts.get_or_init(|| {
            let Some(active) = flow.active else {
                return Vec::new();
            };
            // A row between the regular ones carries no weight.
            let mut latest = None;
            let regular = |row: &&usize| {
                let Some(t) = self.times.get(**row) else {
                    return false;
                };
                let before = latest.replace(t / self.interval);
                before != latest || *t == active.to
            };
            // A flow without new acknowledgments keeps its latest RTT, which counts once.
            let mut known = None;
            let measured = |row: &&usize| {
                let rtt = self.rtts.is_valid(**row).then(|| self.rtts.value(**row));
                let now = (self.acknowledged.get(**row), rtt);
                known.replace(now) != Some(now)
            };
            let rows = flow.rows.iter().filter(regular).filter(measured);
            let rows: Vec<usize> = rows.copied().collect();
            self.pick(&rows, self.times, self.rtts, active)
        })
    }

    /// The same of all flows, in rising order.
    pub(crate) fn all_rtts(&self) -> &[i64] {
        self.sorted_rtts.get_or_init(|| {
            let count = self.flows.iter().map(|flow| self.rtts(flow).len()).sum();
            let mut all: Vec<i64> = Vec::with_capacity(count);
            for flow in &self.flows {
                all.extend(self.rtts(flow));
            }
            // A stable sort, because it exploits existing order.
            all.sort();
            all
        })
    }

    /// The delays of the bottleneck's queue in its rows in the window, in rising order.
    pub(crate) fn delays(&self) -> &[i64] {
        self.sorted_delays
            .get_or_init(|| self.delays_of(self.bottleneck()))
    }

    /// The same of the busiest return direction.
    pub(crate) fn return_delays(&self) -> &[i64] {
        self.sorted_return_delays
            .get_or_init(|| self.delays_of(self.busiest_return()))
    }

    fn delays_of(&self, link: Option<&LinkSeries>) -> Vec<i64> {
        match self.window.zip(link) {
            Some((window, link)) => self.pick(&link.rows, self.link_times, self.delays, window),
            None => Vec::new(),
        }
    }

    fn pick(&self, rows: &[usize], times: &[i64], values: &Int64Array, span: Span) -> Vec<i64> {
        let inside = rows
            .iter()
            .filter(|row| times.get(**row).is_some_and(|t| span.contains(*t)));
        let known = inside.filter(|row| values.is_valid(**row));
        let mut picked: Vec<i64> = known.map(|row| values.value(*row)).collect();
        picked.sort_unstable();
        picked
    }

    /// The maximum backlog of the bottleneck in the window.
    pub(crate) fn greatest_backlog(&self) -> Option<i64> {
        let window = self.window?;
        let rows = self.bottleneck()?.rows.iter();
        let inside = rows.filter(|row| {
            self.link_times
                .get(**row)
                .is_some_and(|t| window.contains(*t))
        });
        inside
            .filter_map(|row| self.backlogs.get(*row).max(self.peaks.get(*row)).copied())
            .max()
    }

    /// The time from the row in which a flow first has data acknowledged to the first row whose
    /// rate sample is `share` of the payload rate of the slowest link that the flow crosses.
    pub(crate) fn time_to_rate(&self, flow: &FlowSeries, share: f64) -> Option<i64> {
        let rate = flow.capacity?.bps() as f64 * flow.payload_ratio * share;
        let from = self.first_acknowledged(flow)?;
        let reached = flow.rows.iter().find(|row| {
            let known = self.has_acknowledged(row) && self.delivery_rates.is_valid(**row);
            known && self.delivery_rates.value(**row) as f64 >= rate
        })?;
        self.times.get(*reached)?.checked_sub(from)
    }

    /// The time of the first row in which a flow has data acknowledged.
    pub(crate) fn first_acknowledged(&self, flow: &FlowSeries) -> Option<i64> {
        let first = flow.rows.iter().find(|row| self.has_acknowledged(row))?;
        self.times.get(*first).copied()
    }

    fn has_acknowledged(&self, row: &usize) -> bool {
        self.acknowledged.get(*row).is_some_and(|b| *b > 0)
    }

    /// Among the links that carry data, the busiest in the window; among equally busy ones, the
    /// first. A return direction is it only if no link carries data.
    fn bottleneck(&self) -> Option<&LinkSeries> {
        let of = |is_return: bool| {
            let carries = move |l: &&LinkSeries| !l.flows.is_empty() && l.is_return == is_return;
            self.busiest(self.links.iter().filter(carries))
        };
        of(false).or_else(|| of(true))
    }

    /// The busiest return direction, whatever it carries.
    fn busiest_return(&self) -> Option<&LinkSeries> {
        let returns = || self.links.iter().filter(|link| link.is_return);
        let limited = self.busiest(returns().filter(|link| link.is_limited));
        limited.or_else(|| self.busiest(returns()))
    }

    fn busiest<'l>(&self, links: impl Iterator<Item = &'l LinkSeries>) -> Option<&'l LinkSeries> {
        let mut busiest: Option<(&LinkSeries, u128, u128)> = None;
        for link in links.filter(|link| !link.rows.is_empty()) {
            let delivered = u128::from(self.on_link(link, self.delivered));
            let capacity = u128::from(self.on_link(link, self.capacities));
            // delivered / capacity of the two, without a division
            if busiest.is_none_or(|(_, d, c)| c == 0 || delivered * c > d * capacity) {
                busiest = Some((link, delivered, capacity));
            }
        }
        busiest.map(|(link, ..)| link)
    }

    /// The growth of a link's counter in the window.
    fn on_link(&self, link: &LinkSeries, values: &[i64]) -> u64 {
        let counter = Counter {
            times: self.link_times,
            values,
            rows: &link.rows,
            origin: 0,
            end: None,
        };
        self.window
            .map_or(0, |window| counter.between(window.from, window.to))
    }

    /// Whether a link has a return direction.
    pub(crate) fn has_return(&self) -> bool {
        self.links.iter().any(|link| link.is_return)
    }

    /// Wire bytes that the busiest return direction carried, and those that it could have carried.
    pub(crate) fn return_use(&self) -> Option<(u64, u64)> {
        let link = self.busiest_return().filter(|link| link.is_limited)?;
        let grown = |values| self.on_link(link, values);
        Some((grown(self.delivered), grown(self.capacities)))
    }

    /// Payload that the receivers of the flows whose data crosses return directions delivered in the
    /// window.
    pub(crate) fn return_goodput(&self) -> Option<u64> {
        let window = self.window?;
        let returns = self.links.iter().filter(|link| link.is_return);
        let flows: BTreeSet<usize> = returns
            .flat_map(|link| link.flows.iter().copied())
            .collect();
        let goodputs = flows.iter().filter_map(|k| self.flows.get(*k));
        let sum = goodputs.map(|flow| self.goodput(flow, window)).sum();
        (!flows.is_empty()).then_some(sum)
    }

    /// Goodput divided by the maximum that the bottleneck's capacity and the headers allow.
    pub(crate) fn utilisation(&self) -> Option<f64> {
        let window = self.window?;
        let link = self.bottleneck()?;
        let most = self.on_link(link, self.capacities) as f64 * self.payload_ratio;
        (most > 0.0).then(|| self.carried(link, window) / most)
    }

    /// Goodput of the flows that cross a link in a span, each as if its packets had the payload of
    /// the run's fullest: the wire bytes that it takes, times that ratio.
    fn carried(&self, link: &LinkSeries, span: Span) -> f64 {
        let of_flow = |flow: &FlowSeries| {
            let goodput = self.goodput(flow, span) as f64;
            match flow.payload_ratio == self.payload_ratio {
                true => goodput,
                false => goodput * (self.payload_ratio / flow.payload_ratio),
            }
        };
        self.crossing(link).map(of_flow).sum()
    }

    fn crossing(&self, link: &LinkSeries) -> impl Iterator<Item = &FlowSeries> {
        link.flows.iter().filter_map(|k| self.flows.get(*k))
    }

    /// Packets that links with data drop, divided by those that enter the network.
    pub(crate) fn loss(&self) -> Option<f64> {
        let mut dropped: u64 = 0;
        // The links that the same flows cross are in a row; the first of them is offered the most.
        let mut rows: BTreeMap<&[usize], u64> = BTreeMap::new();
        for link in self.links.iter().filter(|l| !l.flows.is_empty()) {
            let last = |values: &[i64]| {
                let value = link.rows.last().and_then(|r| values.get(*r)).copied()?;
                u64::try_from(value).ok()
            };
            if let Some((drops, offered)) = last(self.dropped).zip(last(self.offered)) {
                dropped = dropped.saturating_add(drops);
                let most = rows.entry(&link.flows).or_default();
                *most = offered.max(*most);
            }
        }
        let mut known = BTreeSet::new();
        let mut apart = true;
        for flow in rows.keys().copied().flatten() {
            apart &= known.insert(flow);
        }
        let entered = match apart {
            true => rows
                .values()
                .fold(0, |sum: u64, most| sum.saturating_add(*most)),
            // Some flows share only a part of their way: what entered is what they have sent.
            false => (known.iter().filter_map(|k| self.flows.get(**k)))
                .try_fold(0, |sum: u64, flow| Some(sum.saturating_add(flow.sent?)))?,
        };
        let passed = entered.saturating_sub(dropped) as f64;
        (entered > 0).then(|| 1.0 - passed / entered as f64)
    }

    /// The times of the bottleneck's rows in the window.
    pub(crate) fn bottleneck_times(&self) -> Option<impl Iterator<Item = i64> + '_> {
        let (window, link) = self.window.zip(self.bottleneck())?;
        let times = link.rows.iter().filter_map(|row| self.link_times.get(*row));
        Some(times.copied().filter(move |t| window.contains(*t)))
    }

    /// Packets offered to and dropped by the bottleneck in a span, and the bytes that it could have
    /// carried.
    pub(crate) fn bottleneck_in(&self, span: Span) -> Option<(u64, u64, u64)> {
        let link = self.bottleneck()?;
        let grown = |values| {
            Counter {
                times: self.link_times,
                values,
                rows: &link.rows,
                origin: 0,
                end: None,
            }
            .between(span.from, span.to)
        };
        let (offered, dropped) = (grown(self.offered), grown(self.dropped));
        Some((offered, dropped, grown(self.capacities)))
    }

    /// The goodput over the bottleneck in a span, and the maximum that its capacity and the headers
    /// allow.
    pub(crate) fn bottleneck_goodput(&self, span: Span) -> Option<(f64, f64)> {
        let link = self.bottleneck()?;
        let (_, _, capacity) = self.bottleneck_in(span)?;
        let most = capacity as f64 * self.payload_ratio;
        Some((self.carried(link, span), most))
    }

    /// The minimum at a time of the latest RTTs of the flows that cross the bottleneck.
    pub(crate) fn shortest_rtt(&self, time: i64) -> Option<i64> {
        let latest = |flow: &FlowSeries| {
            let after = flow
                .rows
                .partition_point(|row| self.times.get(*row).is_some_and(|t| *t <= time));
            let row = *flow.rows.get(after.checked_sub(1)?)?;
            self.rtts.is_valid(row).then(|| self.rtts.value(row))
        };
        let active = |flow: &&FlowSeries| flow.active.is_some_and(|span| span.contains(time));
        let crossing = self.crossing(self.bottleneck()?);
        crossing.filter(active).filter_map(latest).min()
    }

    /// When the scenario last changed a key of a link that has a flow in common with the bottleneck.
    pub(crate) fn last_change(&self, key: &str) -> Option<i64> {
        let flows: BTreeSet<_> = self.bottleneck()?.flows.iter().collect();
        let meets = |link: &LinkSeries| link.flows.iter().any(|flow| flows.contains(flow));
        let meets: Vec<bool> = self.links.iter().map(meets).collect();
        // An old record does not say which link it was.
        let concerns = |link: Option<u32>| {
            link.is_none_or(|link| meets.get(link as usize).copied().unwrap_or(false))
        };
        let of_key = self.changes()?.iter().filter(|(_, _, of, _)| *of == key);
        let changed = of_key.filter(|(_, link, ..)| concerns(*link));
        changed.map(|(t, ..)| *t).max()
    }

    /// The changes that the scenario made.
    pub(crate) fn changes(&self) -> Option<&[Change<'a>]> {
        let find = || {
            let times = self.events.values("t_ns").ok()?;
            let links = self.events.ids("link").ok()?;
            let values = self.events.numbers("value").ok()?;
            let kinds = self.events.texts("kind").ok()?;
            let keys = self.events.texts("key").ok()?;
            let is_change: Vec<bool> = (kinds.values().iter())
                .map(|kind| kind == Some(CHANGE))
                .collect();
            let changes = kinds.keys().iter().enumerate().filter(|(_, kind)| {
                kind.is_some_and(|kind| is_change.get(kind as usize) == Some(&true))
            });
            let change = |(row, _): (usize, Option<i32>)| {
                let link = links.is_valid(row).then(|| links.value(row));
                let value = values.is_valid(row).then(|| values.value(row));
                let key = keys.is_valid(row).then(|| keys.value(row));
                Some((*times.get(row)?, link, key?, value))
            };
            Some(changes.filter_map(change).collect())
        };
        self.changes.get_or_init(find).as_deref()
    }
}

/// Keeps a simulated flow's rows at the whole intervals, and its last one. Those between them are
/// recorded or not; no metric depends on that.
fn keep_regular(rows: &mut Vec<usize>, times: &[i64], interval: i64) {
    let last = rows.last().copied();
    let mut before = None;
    rows.retain(|row| match times.get(*row) {
        Some(t) if t % interval == 0 => before.replace(*t) != Some(*t),
        _ => Some(*row) == last,
    });
}

/// The flows, each with its totals, without rows.
fn flow_series(table: TableView<'_>, duration: i64) -> Result<Vec<FlowSeries>, RecordError> {
    let (starts, goodputs) = (table.ints("start_ns")?, table.ints("goodput_bytes")?);
    let (stops, finishes) = (table.ints("stop_ns")?, table.ints("finish_ns")?);
    let known = |values: &Int64Array, row| values.is_valid(row).then(|| values.value(row));
    let counter = |name, row| u64::try_from(known(table.ints_if_any(name)?, row)?).ok();
    let of_row = |(row, flow): (usize, &u32)| {
        // Times are not negative, except in a damaged table.
        let start = known(starts, row).unwrap_or(0).max(0);
        let finish = known(finishes, row);
        let end = finish.unwrap_or(duration).max(0);
        let stop = known(stops, row).unwrap_or(duration);
        FlowSeries {
            flow: *flow,
            active: Span::new(start, end.min(stop).min(duration)),
            start,
            finish,
            goodput: known(goodputs, row).unwrap_or(0),
            end,
            sent: counter("sent_packets", row),
            retransmitted: counter("retransmitted_packets", row),
            rto_count: counter("rto_count", row),
            acks_sent: counter("ack_sent_packets", row),
            acks_lost: counter("ack_lost_packets", row),
            acks_filtered: counter("ack_filtered_packets", row),
            capacity: None,
            payload_ratio: f64::NAN,
            rows: Vec::new(),
            rtts: OnceCell::new(),
        }
    };
    let flows = table.ids("flow")?.values().iter().enumerate();
    Ok(flows.map(of_row).collect())
}

/// The links, each with its rows; sets each flow's minimum capacity on its way.
fn link_series(
    info: &RunInfo,
    ids: &UInt32Array,
    place: impl Fn(u32) -> Option<usize>,
    flows: &mut [FlowSeries],
) -> Vec<LinkSeries> {
    let number = |link: u32| usize::try_from(link).ok();
    let rows = group(ids, info.links.len(), number);
    let of_link = |(rows, link): (_, &LinkInfo)| {
        let crossing: Vec<usize> = link.flows.iter().filter_map(|flow| place(*flow)).collect();
        for flow in &crossing {
            if let Some(flow) = flows.get_mut(*flow) {
                let before = flow.capacity.unwrap_or(link.capacity);
                flow.capacity = Some(before.min(link.capacity));
            }
        }
        LinkSeries {
            rows,
            flows: crossing,
            is_return: link.return_of.is_some(),
            is_limited: !link.capacity.is_infinite(),
        }
    };
    rows.into_iter().zip(&info.links).map(of_link).collect()
}

/// The rows of each of `count` items; `position` returns the index of a number.
fn group(
    ids: &UInt32Array,
    count: usize,
    position: impl Fn(u32) -> Option<usize>,
) -> Vec<Vec<usize>> {
    let mut groups = vec![Vec::new(); count];
    for (row, id) in ids.values().iter().enumerate() {
        if let Some(group) = position(*id).and_then(|k| groups.get_mut(k)) {
            group.push(row);
        }
    }
    groups
}
