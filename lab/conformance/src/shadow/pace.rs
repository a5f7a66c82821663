//! The pace of a flow, from its bursts.

use super::recording::Recording;

/// Packets that leave within this time are one burst, in nanoseconds.
pub const TOGETHER: u64 = 20_000;

/// The bytes sent by each time, straight between bursts.
#[derive(Clone, Debug)]
pub struct Pace {
    /// When each burst began.
    at: Vec<u64>,
    /// The bytes sent before it.
    before: Vec<f64>,
}

impl Pace {
    /// That of a flow.
    pub fn of(recording: &Recording) -> Self {
        let (mut at, mut before) = (Vec::new(), Vec::new());
        let (mut total, mut last) = (0.0, None);
        for sent in &recording.sent {
            if last.is_none_or(|last| sent.at > last + TOGETHER) {
                at.push(sent.at);
                before.push(total);
            }
            last = Some(sent.at);
            total += f64::from(sent.size);
        }
        Self { at, before }
    }

    /// Bytes sent by a time.
    pub fn sent_by(&self, time: u64) -> f64 {
        let after = self.at.partition_point(|at| *at <= time);
        let Some(index) = after.checked_sub(1) else {
            return 0.0;
        };
        let from = self.before[index];
        match (self.at.get(after), self.before.get(after)) {
            (Some(next), Some(to)) => {
                let share = (time - self.at[index]) as f64 / (next - self.at[index]) as f64;
                from + (to - from) * share
            }
            _ => from,
        }
    }

    /// Bytes per second over a span of time.
    pub fn over(&self, from: u64, to: u64) -> f64 {
        let span = to.saturating_sub(from).max(1) as f64;
        (self.sent_by(to) - self.sent_by(from)) / span * 1e9
    }

    /// The number of the first burst that begins at a time or after it.
    pub fn index(&self, time: u64) -> usize {
        self.at.partition_point(|at| *at < time)
    }

    /// Bytes per second of the `count` bursts that begin at a time or after it; none at the end.
    pub fn of_bursts(&self, time: u64, count: usize) -> Option<f64> {
        let first = self.index(time);
        let (from, to) = (*self.at.get(first)?, *self.at.get(first + count)?);
        Some((self.before[first + count] - self.before[first]) / (to - from) as f64 * 1e9)
    }

    /// Each burst with the gap that follows it: time, bytes, nanoseconds.
    pub fn bursts(&self) -> impl Iterator<Item = (u64, f64, u64)> + '_ {
        self.at
            .windows(2)
            .zip(self.before.windows(2))
            .map(|(at, before)| (at[0], before[1] - before[0], at[1] - at[0]))
    }
}
