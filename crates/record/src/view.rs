use std::cell::OnceCell;
use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type};
use arrow_array::{Array, Int64Array, RecordBatch, StringArray, TypedDictionaryArray, UInt32Array};

use paceline_units::Rate;

use crate::columns::saturate;
use crate::counter::{Counter, Span};
use crate::{RecordError, RunInfo};

/// A table whose columns are taken by name and type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableView<'a> {
    pub(crate) table: &'static str,
    pub(crate) batch: &'a RecordBatch,
}

impl<'a> TableView<'a> {
    fn column<T>(
        self,
        name: &'static str,
        cast: impl Fn(&'a dyn Array) -> Option<T>,
    ) -> Result<T, RecordError> {
        let column = self.batch.column_by_name(name);
        column
            .and_then(|c| cast(c.as_ref()))
            .ok_or(RecordError::Column {
                table: self.table,
                column: name,
            })
    }

    /// Quantities of which some may be absent.
    pub(crate) fn ints(self, name: &'static str) -> Result<&'a Int64Array, RecordError> {
        self.column(name, |c| c.as_primitive_opt::<Int64Type>())
    }

    /// Quantities of which none is absent.
    pub(crate) fn values(self, name: &'static str) -> Result<&'a [i64], RecordError> {
        self.column(name, |c| {
            let ints = c.as_primitive_opt::<Int64Type>()?;
            (ints.null_count() == 0).then(|| &**ints.values())
        })
    }

    /// Numbers of flows or links.
    pub(crate) fn ids(self, name: &'static str) -> Result<&'a UInt32Array, RecordError> {
        self.column(name, |c| c.as_primitive_opt::<UInt32Type>())
    }

    /// Names.
    pub(crate) fn texts(
        self,
        name: &'static str,
    ) -> Result<TypedDictionaryArray<'a, Int32Type, StringArray>, RecordError> {
        self.column(name, |c| {
            c.as_dictionary_opt::<Int32Type>()?.downcast_dict()
        })
    }
}

/// A flow's rows, as metrics see them.
#[derive(Debug)]
pub struct FlowRows {
    pub(crate) flow: u32,
    /// From its start to its stop, its finish or the end of the run, whichever is first.
    pub(crate) active: Option<Span>,
    pub(crate) start: i64,
    pub(crate) finish: Option<i64>,
    goodput: i64,
    /// When its counters stopped.
    end: i64,
    pub(crate) sent: u64,
    pub(crate) retransmitted: u64,
    pub(crate) rto_count: u64,
    /// Of the slowest link that its data crosses, at the start.
    capacity: Option<Rate>,
    rows: Vec<usize>,
    rtts: OnceCell<Vec<i64>>,
}

/// A link's rows, and whether data crosses it.
#[derive(Debug)]
struct LinkRows {
    rows: Vec<usize>,
    flows: Vec<usize>,
}

/// The rows of a run, as metrics see them.
#[derive(Debug)]
pub struct Rows<'a> {
    payload_ratio: f64,
    /// Time between two regular rows of a flow.
    interval: i64,
    pub(crate) flows: Vec<FlowRows>,
    links: Vec<LinkRows>,
    /// From the first flow's start to the last flow's end.
    pub(crate) window: Option<Span>,
    times: &'a [i64],
    goodputs: &'a [i64],
    rtts: &'a Int64Array,
    acknowledged: &'a [i64],
    delivery_rates: &'a Int64Array,
    link_times: &'a [i64],
    delays: &'a Int64Array,
    backlogs: &'a [i64],
    peaks: &'a [i64],
    capacities: &'a [i64],
    delivered: &'a [i64],
    dropped: &'a [i64],
    offered: &'a [i64],
    pub(crate) events: TableView<'a>,
    sorted_rtts: OnceCell<Vec<i64>>,
    sorted_delays: OnceCell<Vec<i64>>,
}

impl<'a> Rows<'a> {
    /// The rows of a run's tables.
    ///
    /// # Errors
    /// [`RecordError::Column`] when a table has not the columns it should have.
    pub(crate) fn new(
        info: &RunInfo,
        flows: TableView<'a>,
        samples: TableView<'a>,
        queue: TableView<'a>,
        events: TableView<'a>,
    ) -> Result<Self, RecordError> {
        let duration = saturate(info.duration.as_nanos());
        let starts = flows.values("start_ns")?;
        let stops = flows.ints("stop_ns")?;
        let finishes = flows.ints("finish_ns")?;
        let goodputs = flows.values("goodput_bytes")?;
        let sent = flows.values("sent_packets")?;
        let retransmitted = flows.values("retransmitted_packets")?;
        let rtos = flows.values("rto_count")?;
        let mut flow_rows: Vec<FlowRows> = (flows.ids("flow")?.values().iter().zip(starts))
            .zip(stops.iter().zip(finishes))
            .zip(goodputs.iter().zip(sent))
            .zip(retransmitted.iter().zip(rtos))
            .map(
                |((((flow, start), (stop, finish)), (goodput, sent)), (again, rtos))| {
                    // Times are not negative; those of a damaged table may be.
                    let start = (*start).max(0);
                    let end = finish.unwrap_or(duration).max(0);
                    let last = end.min(stop.unwrap_or(duration)).min(duration);
                    FlowRows {
                        flow: *flow,
                        active: Span::new(start, last),
                        start,
                        finish,
                        goodput: *goodput,
                        end,
                        sent: count(*sent),
                        retransmitted: count(*again),
                        rto_count: count(*rtos),
                        capacity: None,
                        rows: Vec::new(),
                        rtts: OnceCell::new(),
                    }
                },
            )
            .collect();
        let position: BTreeMap<u32, usize> = flow_rows
            .iter()
            .enumerate()
            .map(|(k, f)| (f.flow, k))
            .collect();
        let position = |flow: u32| position.get(&flow).copied();
        let grouped = group(samples.ids("flow")?, flow_rows.len(), position);
        for (flow, rows) in flow_rows.iter_mut().zip(grouped) {
            flow.rows = rows;
        }
        let sample_goodputs = samples.values("goodput_bytes")?;
        for flow in &mut flow_rows {
            // Totals that say less than the rows are not totals.
            let last = flow.rows.last().and_then(|row| sample_goodputs.get(*row));
            flow.goodput = flow.goodput.max(last.copied().unwrap_or(0));
        }

        let grouped = group(queue.ids("link")?, info.links.len(), |link| {
            usize::try_from(link).ok()
        });
        let mut links = Vec::new();
        for (rows, link) in grouped.into_iter().zip(&info.links) {
            let flows = link.flows.iter().filter_map(|flow| position(*flow));
            let flows: Vec<usize> = flows.collect();
            for flow in &flows {
                if let Some(flow) = flow_rows.get_mut(*flow) {
                    let before = flow.capacity.unwrap_or(link.capacity);
                    flow.capacity = Some(before.min(link.capacity));
                }
            }
            links.push(LinkRows { rows, flows });
        }

        let from = flow_rows
            .iter()
            .filter_map(|f| f.active)
            .map(|a| a.from)
            .min();
        let to = flow_rows
            .iter()
            .filter_map(|f| f.active)
            .map(|a| a.to)
            .max();
        Ok(Self {
            payload_ratio: info.payload_ratio,
            interval: saturate(info.sample_interval.as_nanos()).max(1),
            links,
            window: from.zip(to).and_then(|(from, to)| Span::new(from, to)),
            flows: flow_rows,
            times: samples.values("t_ns")?,
            goodputs: sample_goodputs,
            rtts: samples.ints("rtt_ns")?,
            acknowledged: samples.values("delivered_bytes")?,
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
            sorted_rtts: OnceCell::new(),
            sorted_delays: OnceCell::new(),
        })
    }

    /// Payload that a flow's receiver handed over in a span.
    pub(crate) fn goodput(&self, flow: &FlowRows, span: Span) -> u64 {
        let counter = Counter {
            times: self.times,
            values: self.goodputs,
            rows: &flow.rows,
            origin: flow.start,
            end: Some((flow.end, flow.goodput)),
        };
        counter.between(span.from, span.to)
    }

    /// Payload that all receivers handed over in a span.
    pub(crate) fn total_goodput(&self, span: Span) -> u64 {
        self.flows
            .iter()
            .fold(0, |sum, flow| self.goodput(flow, span).saturating_add(sum))
    }

    /// The latest RTTs in a flow's rows while it is active, in rising order.
    pub(crate) fn rtts<'f>(&self, flow: &'f FlowRows) -> &'f [i64] {
        flow.rtts.get_or_init(|| {
            let Some(active) = flow.active else {
                return Vec::new();
            };
            // A row between the regular ones has no weight of its own.
            let mut latest = None;
            let regular = |row: &&usize| {
                let Some(t) = self.times.get(**row) else {
                    return false;
                };
                let before = latest.replace(t / self.interval);
                before != latest || *t == active.to
            };
            let rows: Vec<usize> = flow.rows.iter().filter(regular).copied().collect();
            self.pick(&rows, self.times, self.rtts, active)
        })
    }

    /// The latest RTTs in the rows of all flows while each is active, in rising order.
    pub(crate) fn all_rtts(&self) -> &[i64] {
        self.sorted_rtts.get_or_init(|| {
            let mut all: Vec<i64> = Vec::new();
            for flow in &self.flows {
                all.extend(self.rtts(flow));
            }
            // Stable, because it makes use of what is sorted already.
            all.sort();
            all
        })
    }

    /// The delays of the bottleneck's queue in its rows in the window, in rising order.
    pub(crate) fn delays(&self) -> &[i64] {
        self.sorted_delays
            .get_or_init(|| match self.window.zip(self.bottleneck()) {
                Some((window, link)) => self.pick(&link.rows, self.link_times, self.delays, window),
                None => Vec::new(),
            })
    }

    fn pick(&self, rows: &[usize], times: &[i64], values: &Int64Array, span: Span) -> Vec<i64> {
        let inside = rows
            .iter()
            .filter(|row| times.get(**row).is_some_and(|t| span.contains(*t)));
        let mut picked: Vec<i64> = inside
            .filter(|row| values.is_valid(**row))
            .map(|row| values.value(*row))
            .collect();
        picked.sort_unstable();
        picked
    }

    /// The greatest backlog of the bottleneck in the window.
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

    /// From the row in which a flow first has data acknowledged to the first whose rate sample is
    /// `share` of the payload rate of the slowest link that the flow crosses.
    pub(crate) fn time_to_rate(&self, flow: &FlowRows, share: f64) -> Option<i64> {
        let rate = flow.capacity?.bps() as f64 * self.payload_ratio * share;
        let acknowledged = |row: &&usize| self.acknowledged.get(**row).is_some_and(|b| *b > 0);
        let first = flow.rows.iter().find(acknowledged)?;
        let reached = flow.rows.iter().find(|row| {
            let known = acknowledged(row) && self.delivery_rates.is_valid(**row);
            known && self.delivery_rates.value(**row) as f64 >= rate
        })?;
        let from = self.times.get(*first)?;
        self.times.get(*reached)?.checked_sub(*from)
    }

    /// Of the links that carry data, the busiest in the window; of two as busy, the first.
    fn bottleneck(&self) -> Option<&LinkRows> {
        let mut busiest: Option<(&LinkRows, u128, u128)> = None;
        for link in self
            .links
            .iter()
            .filter(|l| !l.flows.is_empty() && !l.rows.is_empty())
        {
            let delivered = u128::from(self.on_link(link, self.delivered));
            let capacity = u128::from(self.on_link(link, self.capacities));
            // delivered / capacity of the two, without a division
            if busiest.is_none_or(|(_, d, c)| c == 0 || delivered * c > d * capacity) {
                busiest = Some((link, delivered, capacity));
            }
        }
        busiest.map(|(link, ..)| link)
    }

    /// What a link's counter grew by in the window.
    fn on_link(&self, link: &LinkRows, values: &[i64]) -> u64 {
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

    /// Goodput over the most that the bottleneck's capacity and the headers allow.
    pub(crate) fn utilisation(&self) -> Option<f64> {
        let window = self.window?;
        let link = self.bottleneck()?;
        let flows = link.flows.iter().filter_map(|k| self.flows.get(*k));
        let goodput: u128 = flows
            .map(|flow| u128::from(self.goodput(flow, window)))
            .sum();
        let most = self.on_link(link, self.capacities) as f64 * self.payload_ratio;
        (most > 0.0).then(|| goodput as f64 / most)
    }

    /// Probability that a packet that crosses every link that carries data is dropped.
    pub(crate) fn loss(&self) -> Option<f64> {
        let mut survived = None;
        for link in self.links.iter().filter(|l| !l.flows.is_empty()) {
            let last = |values: &[i64]| link.rows.last().and_then(|r| values.get(*r)).copied();
            if let Some((dropped, offered)) = last(self.dropped).zip(last(self.offered))
                && offered > 0
            {
                let passed = offered.saturating_sub(dropped) as f64 / offered as f64;
                survived = Some(survived.unwrap_or(1.0) * passed);
            }
        }
        survived.map(|survived| 1.0 - survived)
    }

    /// The times of the bottleneck's rows in the window.
    pub(crate) fn bottleneck_times(&self) -> Option<impl Iterator<Item = i64> + '_> {
        let (window, link) = self.window.zip(self.bottleneck())?;
        let times = link.rows.iter().filter_map(|row| self.link_times.get(*row));
        Some(times.copied().filter(move |t| window.contains(*t)))
    }

    /// Packets that the bottleneck was offered and dropped in a span, and the bytes
    /// that it could have carried.
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

    /// Payload bytes in so many bytes on the wire.
    pub(crate) fn payload_of(&self, bytes: u64) -> f64 {
        bytes as f64 * self.payload_ratio
    }

    /// The shortest of the flows' latest RTTs at a time.
    pub(crate) fn shortest_rtt(&self, time: i64) -> Option<i64> {
        let latest = |flow: &FlowRows| {
            let after = flow
                .rows
                .partition_point(|row| self.times.get(*row).is_some_and(|t| *t <= time));
            let row = *flow.rows.get(after.checked_sub(1)?)?;
            self.rtts.is_valid(row).then(|| self.rtts.value(row))
        };
        let active = |flow: &&FlowRows| flow.active.is_some_and(|span| span.contains(time));
        self.flows.iter().filter(active).filter_map(latest).min()
    }

    /// When something of a kind last happened.
    pub(crate) fn last_event(&self, kind: &str) -> Option<i64> {
        let (times, kinds) = (
            self.events.values("t_ns").ok()?,
            self.events.texts("kind").ok()?,
        );
        let happened = times.iter().zip(kinds).filter(|(_, k)| *k == Some(kind));
        happened.map(|(t, _)| *t).max()
    }
}

/// The rows of each of `count` things, which `position` finds by number.
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

fn count(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
