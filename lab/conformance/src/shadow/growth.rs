//! Checks of loss-based algorithms: how the window grows, and what a loss leaves of it.

use super::checks::{Check, Judged, Verdict};
use super::windows::{Did, State, median};

/// Recoveries from which the window after a loss is known.
const LEAST_CUTS: usize = 2;

/// What one algorithm requires, by document and section.
struct Sections {
    slow_start: &'static str,
    avoidance: &'static str,
    cut: &'static str,
    /// The share of the window that is left after a loss.
    beta: f64,
}

const CUBIC: Sections = Sections {
    slow_start: "RFC 9438 4.10",
    avoidance: "RFC 9438 4.2",
    cut: "RFC 9438 4.6",
    beta: 0.7,
};
const RENO: Sections = Sections {
    slow_start: "RFC 5681 3.1",
    avoidance: "RFC 5681 3.1",
    cut: "RFC 5681 3.2",
    beta: 0.5,
};

/// How a recovery began.
struct Begin {
    at: u64,
    /// What the first reduction left of the window.
    window: u64,
    /// Whether the recovery before it had ended at least a round trip earlier.
    is_settled: bool,
}

impl Judged<'_> {
    /// Every check of a loss-based algorithm but the last.
    pub(super) fn growth(&self) -> Vec<Check> {
        let sections = match self.followed.name {
            "reno" | "reno-linux" => RENO,
            _ => CUBIC,
        };
        let Sections {
            slow_start,
            avoidance,
            ..
        } = sections;
        vec![
            self.share_of(
                "slow_start.most",
                slow_start,
                "keeps within the window in slow start",
                State::SlowStart,
                &[Did::TooMuch],
                0.15,
                8,
            ),
            self.share_of(
                "slow_start.least",
                slow_start,
                "fills the window in slow start",
                State::SlowStart,
                &[Did::TooSlow],
                0.15,
                8,
            ),
            self.share_of(
                "avoidance.most",
                avoidance,
                "keeps within the window in congestion avoidance",
                State::Avoidance,
                &[Did::TooMuch],
                0.05,
                30,
            ),
            self.share_of(
                "avoidance.least",
                avoidance,
                "fills the window in congestion avoidance",
                State::Avoidance,
                &[Did::TooSlow],
                0.05,
                30,
            ),
            self.cut(&sections),
        ]
    }

    /// The share of the window that is left after a loss: the most in flight in the round trip
    /// after a recovery, over that before it.
    fn cut(&self, sections: &Sections) -> Check {
        let (moments, sends) = (&self.followed.moments, &self.followed.sends);
        let mss = f64::from(self.recording.mss);
        let rtt = self.recording.min_rtt;
        let most = |from: u64, to: u64| {
            let first = sends.partition_point(|(at, ..)| *at < from);
            let sent = sends[first..].iter().take_while(|(at, ..)| *at < to);
            sent.map(|(_, in_flight, window)| (*in_flight, *window))
                .max()
        };
        let (mut shares, mut slack, mut begins) = (Vec::new(), Vec::new(), Vec::new());
        let (mut begin, mut ended) = (None, 0);
        for two in moments.windows(2) {
            let (last, moment) = (&two[0], &two[1]);
            let (recovered, recovers) = (last.phase == "Recovery", moment.phase == "Recovery");
            let now = moment.at;
            if recovers && !recovered {
                begin = Some(Begin {
                    at: now,
                    window: moment.window,
                    is_settled: now >= ended + rtt,
                });
            }
            if recovers || !recovered {
                continue;
            }
            let Some(begin) = begin.take() else {
                continue;
            };
            let before = most(begin.at.saturating_sub(rtt), begin.at);
            let (Some((before, window)), Some((after, _))) = (before, most(now, now + rtt)) else {
                continue;
            };
            ended = now;
            // A cut shows only if the window was full before it. Two reductions leave less, and soon
            // after another recovery more is in flight.
            let is_full = before as f64 > 0.9 * window as f64;
            let is_one = last.window >= begin.window && begin.is_settled;
            if is_full && is_one && moment.phase == "CongestionAvoidance" {
                begins.push(begin.at);
                shares.push(after as f64 / before as f64);
                slack.push(3.0 * mss / before as f64);
            }
        }
        let count = shares.len();
        let measured = median(shares.clone());
        let slack = 0.04 + median(slack).unwrap_or(0.0);
        let bounds = (sections.beta - slack, sections.beta + slack);
        let verdict = match measured {
            Some(share) if (bounds.0..=bounds.1).contains(&share) => Verdict::Held,
            Some(_) if count >= LEAST_CUTS => Verdict::Broken,
            _ => Verdict::NotSeen,
        };
        Check {
            id: "cut",
            section: sections.cut,
            requires: "keeps its share of the window after a loss",
            measured,
            bounds,
            unit: "",
            count,
            verdict,
            at: begins
                .into_iter()
                .zip(shares)
                .find(|(_, share)| !(bounds.0..=bounds.1).contains(share))
                .map(|(begin, _)| begin)
                .filter(|_| verdict == Verdict::Broken),
            why: None,
        }
    }
}
