//! Remarks on a run: what its figures do not say by themselves.

use arrow_array::Array as _;

use crate::counter::{Counter, Span};
use crate::info::RunInfo;
use crate::rows::EventKind;
use crate::series::{FlowSeries, Series};

/// The engines whose paths are known.
const ENGINES: [&str; 3] = ["sim", "emu", "vm"];
/// The number of round trips without progress that is remarked on.
const ROUNDS: i64 = 10;
/// The number of full packets that a receiver must have kept for itself.
const PACKETS: i64 = 10;

/// A time in which a flow makes no progress.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stall {
    flow: usize,
    span: Span,
    /// In round trips.
    rounds: i64,
    /// Bytes acknowledged in that time.
    acknowledged: i64,
}

/// The path of the flows, as far as a stall depends on it.
struct Path {
    /// The links that each flow crosses.
    links: Vec<Vec<usize>>,
    /// The times in which a link loses every packet, because the scenario says so.
    lossy: Vec<(usize, Span)>,
    /// The longest RTT that the scenario sets.
    rtt: i64,
}

impl Series<'_> {
    /// Remarks, each a sentence without its full stop.
    pub(crate) fn notes(&self, info: &RunInfo) -> Vec<String> {
        if !ENGINES.contains(&info.backend.as_str()) || self.links.is_empty() {
            return Vec::new();
        }
        let path = self.path();
        let (mut kept, mut idle) = (Vec::new(), Vec::new());
        for (number, flow) in self.flows.iter().enumerate() {
            let known = info.flows.get(number);
            let base = known.map_or(0, |flow| crate::column::saturate(flow.base_rtt.as_nanos()));
            let mss = known.map_or(0, |flow| i64::from(flow.mss));
            let rtt = base.max(path.rtt).max(1);
            if !flow.rows.is_empty() && !self.pauses(flow, rtt) {
                continue;
            }
            let stall = self.longest(number, flow, &path, rtt, false);
            let keeps = stall.filter(|stall| stall.acknowledged >= PACKETS * mss);
            kept.extend(keeps);
            let silent = self.longest(number, flow, &path, rtt, true);
            idle.extend(silent.or_else(|| unopened(number, flow, rtt)));
        }
        let name = |stall: &Stall| {
            let flow = info.flows.get(stall.flow);
            flow.map_or_else(String::new, |flow| format!("{} ({})", flow.flow, flow.cc))
        };
        let mut notes = Vec::new();
        if let Some(most) = kept.iter().max_by_key(|stall| stall.span.length()) {
            let who = match kept.len() {
                1 => String::new(),
                count => format!("The receivers of {count} flows stop handing over data. "),
            };
            notes.push(format!(
                "{who}The receiver of flow {} hands over nothing from {} to {}, while {} are acknowledged: \
                 the link carries what is not goodput",
                name(most),
                seconds(most.span.from),
                seconds(most.span.to),
                volume(most.acknowledged),
            ));
        }
        if let Some(most) = idle.iter().max_by_key(|stall| stall.span.length()) {
            let who = match idle.len() {
                1 => String::new(),
                count => format!("{count} flows move nothing for {ROUNDS} round trips or more. "),
            };
            notes.push(format!(
                "{who}Flow {} moves nothing for {} from {} on, {} round trips, although it has data to send and its \
                 links are up",
                name(most),
                seconds(most.span.to.saturating_sub(most.span.from)),
                seconds(most.span.from),
                most.rounds,
            ));
        }
        notes.extend(self.lost_in_slowdowns(info));
        notes
    }

    fn path(&self) -> Path {
        let mut links = vec![Vec::new(); self.flows.len()];
        for (number, link) in self.links.iter().enumerate() {
            for flow in &link.flows {
                if let Some(links) = links.get_mut(*flow) {
                    links.push(number);
                }
            }
        }
        // Which links its ACKs cross is not recorded: any of them may be.
        for (links, flow) in links.iter_mut().zip(&self.flows) {
            if flow.acks_sent.is_some() {
                *links = (0..self.links.len()).collect();
            }
        }
        let mut path = Path {
            links,
            lossy: Vec::new(),
            rtt: 0,
        };
        let Some(changes) = self.changes() else {
            return path;
        };
        for &(time, link, key, value) in changes {
            let link = link.map_or(0, |link| link as usize);
            match (key, value) {
                ("rtt", Some(rtt)) => path.rtt = path.rtt.max(rtt as i64),
                ("loss", Some(share)) => {
                    // The previous one ends here, whatever it was.
                    if let Some((_, open)) = path.lossy.iter_mut().rev().find(|(of, _)| *of == link)
                    {
                        open.to = open.to.min(time);
                    }
                    if share >= 1.0 {
                        let span = Span::new(time, i64::MAX);
                        path.lossy.extend(span.map(|span| (link, span)));
                    }
                }
                _ => {}
            }
        }
        path
    }

    /// Whether a link on a flow's way is stopped, or loses everything, between two of its rows.
    fn is_down(&self, flow: usize, path: &Path, span: Span) -> bool {
        let links = path.links.get(flow).into_iter().flatten();
        links.copied().any(|number| {
            let Some(link) = self.links.get(number) else {
                return false;
            };
            let capacity = Counter {
                times: self.link_times,
                values: self.capacities,
                rows: &link.rows,
                origin: 0,
                end: None,
            };
            let lossy = path.lossy.iter().filter(|(of, _)| *of == number);
            (link.is_limited && capacity.between(span.from, span.to) == 0)
                || lossy
                    .map(|(_, lossy)| lossy.meet(span))
                    .any(|both| both.is_some())
        })
    }

    /// Whether a flow's receiver hands over nothing for [`ROUNDS`] round trips, whatever the cause.
    fn pauses(&self, flow: &FlowSeries, rtt: i64) -> bool {
        let mut since = None;
        flow.rows.iter().any(|row| {
            let (Some(time), Some(goodput)) = (self.times.get(*row), self.goodputs.get(*row))
            else {
                return false;
            };
            match since {
                Some((from, handed)) if handed == *goodput => {
                    time.saturating_sub(from) / rtt >= ROUNDS
                }
                _ => {
                    since = Some((*time, *goodput));
                    false
                }
            }
        })
    }

    /// The longest time in which a flow's receiver hands over nothing although there is data on its
    /// way, and in which nothing is acknowledged either if `silent`. None below [`ROUNDS`] round
    /// trips.
    fn longest(
        &self,
        number: usize,
        flow: &FlowSeries,
        path: &Path,
        base: i64,
        silent: bool,
    ) -> Option<Stall> {
        let mut longest: Option<Stall> = None;
        let mut begin: Option<(i64, i64, i64)> = None;
        let mut before: Option<(i64, i64, i64)> = None;
        for row in &flow.rows {
            let (Some(time), Some(goodput)) = (self.times.get(*row), self.goodputs.get(*row))
            else {
                continue;
            };
            let (Some(acknowledged), Some(in_flight)) =
                (self.acknowledged.get(*row), self.in_flight.get(*row))
            else {
                continue;
            };
            // What has arrived and is not acknowledged yet is in flight, but not on its way.
            let waits = *in_flight > goodput.saturating_sub(*acknowledged).max(0);
            let same = before.is_some_and(|(since, handed, acked)| {
                handed == *goodput
                    && (acked == *acknowledged || !silent)
                    && Span::new(since, *time).is_none_or(|span| !self.is_down(number, path, span))
            });
            before = Some((*time, *goodput, *acknowledged));
            if !waits {
                begin = None;
                continue;
            }
            let latest = match self.rtts.is_valid(*row) {
                true => self.rtts.value(*row),
                false => 0,
            };
            match begin.filter(|_| same) {
                None => begin = Some((*time, *acknowledged, base.max(latest))),
                Some((from, acked, rtt)) => {
                    let rounds = time.saturating_sub(from) / rtt;
                    let span = Span::new(from, *time);
                    let more = longest.is_none_or(|most| {
                        span.is_some_and(|span| span.length() > most.span.length())
                    });
                    if let Some(span) = span.filter(|_| rounds >= ROUNDS && more) {
                        longest = Some(Stall {
                            flow: number,
                            span,
                            rounds,
                            acknowledged: acknowledged.saturating_sub(acked),
                        });
                    }
                }
            }
        }
        longest
    }

    /// A remark on LEDBAT++ flows that lose packets in a slowdown with the default for that.
    fn lost_in_slowdowns(&self, info: &RunInfo) -> Option<String> {
        const NAME: &str = "ledbat++";
        let is_one = |flow: u32| {
            info.flows
                .iter()
                .any(|known| known.flow == flow && known.cc == NAME)
        };
        let chosen = info
            .scenario_toml
            .contains("loss_in_slowdown = \"threshold\"");
        if chosen || info.flows.iter().all(|flow| flow.cc != NAME) {
            return None;
        }
        let times = self.events.values("t_ns").ok()?;
        let flows = self.events.ids("flow").ok()?;
        let kinds = self.events.texts("kind").ok()?;
        let olds = self.events.texts("from").ok()?;
        let news = self.events.texts("detail").ok()?;
        let slow = |state: Option<&str>| matches!(state, Some("Slowdown" | "Ramp"));
        let mut states = std::collections::BTreeMap::new();
        let (mut first, mut count) = (None, 0_u64);
        let changes = olds.into_iter().zip(news);
        let rows = times.iter().zip(flows).zip(kinds).zip(changes);
        for (((time, flow), kind), (old, new)) in rows {
            let Some(flow) = flow.filter(|flow| is_one(*flow)) else {
                continue;
            };
            let lost = match kind {
                Some(kind) if kind == EventKind::Rto.word() => {
                    slow(states.get(&flow).copied().flatten())
                }
                Some(kind) if kind == EventKind::State.word() => {
                    states.insert(flow, new);
                    slow(old) && new == Some("Recovery")
                }
                _ => false,
            };
            if lost {
                first.get_or_insert((flow, *time));
                count += 1;
            }
        }
        let (flow, time) = first?;
        let more = match count {
            1 => String::new(),
            count => format!(", the first of {count} times"),
        };
        Some(format!(
            "Flow {flow} ({NAME}) loses packets in a slowdown or its ramp at {}{more}: by default that halves the few \
             packets of the window at that time, and growing back takes a packet or less a round trip; \
             cc.loss_in_slowdown = \"threshold\" halves the window before the slowdown",
            seconds(time)
        ))
    }
}

/// A flow whose connection is never open: it has no rows.
fn unopened(number: usize, flow: &FlowSeries, rtt: i64) -> Option<Stall> {
    let span = flow.active.filter(|_| flow.rows.is_empty())?;
    let rounds = span.to.saturating_sub(span.from) / rtt;
    (rounds >= ROUNDS).then_some(Stall {
        flow: number,
        span,
        rounds,
        acknowledged: 0,
    })
}

fn seconds(nanos: i64) -> String {
    let millis = nanos / 1_000_000;
    match nanos < 1_000_000_000 {
        true => format!("{} ms", nanos as f64 / 1e6),
        false => format!("{} s", millis as f64 / 1e3),
    }
}

fn volume(bytes: i64) -> String {
    match bytes < 1_000_000 {
        true => format!("{} kB", bytes / 1_000),
        false => format!("{} MB", (bytes / 100_000) as f64 / 10.0),
    }
}

#[cfg(test)]
mod tests {
    use paceline_units::{Bytes, Duration};

    use super::*;
    use crate::rows::{EventRow, QueueRow, SampleRow};
    use crate::testing::{at_ms, change, flow_info, queue, recorder, run_info, sample};

    /// A flow of 40 ms with a row every second, each with its goodput, the data acknowledged and the
    /// data in flight in kB, over a link whose rate is a share of 8 Mbit/s in each second.
    fn notes(
        rows: &[(u64, u64, u64)],
        up: impl Fn(u64) -> bool,
        events: &[EventRow],
    ) -> Vec<String> {
        let mut recorder = recorder(run_info(vec![flow_info(0, 0)]));
        let mut capacity = 0;
        for (second, (goodput, acknowledged, in_flight)) in (0..).zip(rows) {
            let row = SampleRow {
                delivered_bytes: Bytes::new(acknowledged * 1_000),
                in_flight_bytes: Bytes::new(in_flight * 1_000),
                ..sample(0, at_ms(second * 1_000), goodput * 1_000, Some(50))
            };
            recorder.sample(row, |_| {});
            capacity += if second > 0 && up(second) {
                1_000_000
            } else {
                0
            };
            recorder.queue(QueueRow {
                capacity_bytes: Bytes::new(capacity),
                ..queue(0, second, 50)
            });
        }
        for event in events {
            recorder.event(event.clone());
        }
        let run = recorder.finish(&[]);
        let summary = run.summary_json();
        let summary = summary.get("notes").and_then(|notes| notes.as_array());
        summary
            .into_iter()
            .flatten()
            .map(|note| note.as_str().unwrap().to_owned())
            .collect()
    }

    const STALLED: [(u64, u64, u64); 5] = [
        (0, 0, 9),
        (500, 500, 9),
        (500, 500, 9),
        (500, 500, 9),
        (900, 900, 9),
    ];

    #[test]
    fn a_flow_that_moves_nothing_is_told() {
        let remarks = notes(&STALLED, |_| true, &[]);
        assert_eq!(
            remarks,
            [
                "Flow 0 (bbr3) moves nothing for 2 s from 1 s on, 40 round trips, although it has data to send and its \
              links are up"
            ]
        );
        // It has nothing to send; what it has sent has arrived; its link is stopped.
        let idle = STALLED.map(|(goodput, acknowledged, _)| (goodput, acknowledged, 0));
        assert!(notes(&idle, |_| true, &[]).is_empty());
        let arrived = STALLED
            .map(|(goodput, acknowledged, in_flight)| (goodput + 9, acknowledged, in_flight));
        assert!(notes(&arrived, |_| true, &[]).is_empty());
        assert!(notes(&STALLED, |second| !(2..4).contains(&second), &[]).is_empty());
        // One second of it is left: 20 round trips.
        let remarks = notes(&STALLED, |second| second != 2, &[]);
        assert!(
            remarks[0].contains("for 1 s from 2 s on, 20 round trips"),
            "{remarks:?}"
        );
    }

    #[test]
    fn what_the_scenario_does_to_a_flow_is_not_told() {
        let event = |key: &'static str, ms, value| EventRow {
            key: Some(key.into()),
            value: Some(value),
            link: Some(0),
            ..change(ms, 0, 0)
        };
        let outage = [event("loss", 900, 1.0), event("loss", 3_500, 0.0)];
        assert!(notes(&STALLED, |_| true, &outage).is_empty());
        let early = [event("loss", 900, 1.0), event("loss", 1_000, 0.0)];
        assert_eq!(notes(&STALLED, |_| true, &early).len(), 1);
        assert!(notes(&STALLED, |_| true, &[event("rtt", 900, 3e8)]).is_empty());
    }

    #[test]
    fn a_receiver_that_keeps_its_data_is_told() {
        let kept = [
            (0, 0, 9),
            (500, 500, 9),
            (500, 900, 9),
            (500, 1_300, 9),
            (500, 1_700, 9),
        ];
        let remarks = notes(&kept, |_| true, &[]);
        assert_eq!(
            remarks,
            [
                "The receiver of flow 0 (bbr3) hands over nothing from 1 s to 4 s, while 1.2 MB are acknowledged: the \
              link carries what is not goodput"
            ]
        );
    }

    #[test]
    fn a_loss_in_a_slowdown_is_told() {
        let noted = |name: &str, toml: &str, from: &'static str, to: &'static str| {
            let mut flow = flow_info(0, 0);
            flow.cc = name.into();
            let mut info = run_info(vec![flow]);
            info.scenario_toml = toml.into();
            info.duration = Duration::from_secs(5);
            let mut recorder = recorder(info);
            let state = |ms, from, to| {
                EventRow::new(at_ms(ms), Some(0), EventKind::State).between(from, to)
            };
            recorder.event(state(1_000, "CongestionAvoidance", from));
            recorder.event(match to {
                "" => EventRow::new(at_ms(1_500), Some(0), EventKind::Rto),
                to => state(1_500, from, to),
            });
            let run = recorder.finish(&[]);
            run.summary_json()
                .to_string()
                .contains("in a slowdown or its ramp at 1.5 s")
        };
        for (from, to) in [
            ("Slowdown", ""),
            ("Slowdown", "Recovery"),
            ("Ramp", ""),
            ("Ramp", "Recovery"),
        ] {
            assert!(noted("ledbat++", "", from, to), "{from}, {to}");
            assert!(!noted(
                "ledbat++",
                "loss_in_slowdown = \"threshold\"",
                from,
                to
            ));
            assert!(!noted("ledbat", "", from, to));
        }
        assert!(!noted("ledbat++", "", "Slowdown", "Ramp"));
        assert!(!noted("ledbat++", "", "SlowStart", ""));
    }
}
