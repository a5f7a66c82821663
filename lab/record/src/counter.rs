//! Spans of time, and counters over them.

/// A span of time in nanoseconds, `from` before `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl Span {
    /// `None` when it would be empty.
    pub(crate) fn new(from: i64, to: i64) -> Option<Self> {
        (from < to).then_some(Self { from, to })
    }

    pub(crate) fn length(self) -> u64 {
        self.to.abs_diff(self.from)
    }

    pub(crate) fn meet(self, other: Self) -> Option<Self> {
        Self::new(self.from.max(other.from), self.to.min(other.to))
    }

    pub(crate) fn contains(self, time: i64) -> bool {
        (self.from..=self.to).contains(&time)
    }

    pub(crate) fn covers(self, other: Self) -> bool {
        self.from <= other.from && other.to <= self.to
    }
}

/// A counter over time: known at its rows, linear between them.
#[derive(Clone, Debug)]
pub(crate) struct Counter<'a> {
    pub(crate) times: &'a [i64],
    pub(crate) values: &'a [i64],
    /// Which rows are its own, in order of time.
    pub(crate) rows: &'a [usize],
    /// When it was zero.
    pub(crate) origin: i64,
    /// When it stopped, and at what value.
    pub(crate) end: Option<(i64, i64)>,
}

impl Counter<'_> {
    /// Its value at a time.
    fn at(&self, time: i64) -> i64 {
        if let Some((end, value)) = self.end
            && time >= end
        {
            return value;
        }
        let point = |row: &usize| Some((*self.times.get(*row)?, *self.values.get(*row)?));
        let after = self
            .rows
            .partition_point(|row| self.times.get(*row).is_some_and(|t| *t <= time));
        let before = after.checked_sub(1).and_then(|k| self.rows.get(k));
        let before = before.and_then(point);
        let (t0, v0) = before.unwrap_or((self.origin, 0));
        let after = self.rows.get(after).and_then(point);
        let after = match (after, self.end) {
            (Some(row), Some(end)) if end.0 < row.0 => Some(end),
            (row, end) => row.or(end),
        };
        let Some((t1, v1)) = after else {
            return v0;
        };
        if time <= t0 || t1 <= t0 {
            return v0;
        }
        let [t0, v0, t1, v1] = [t0, v0, t1, v1].map(i128::from);
        let value = v0 + (v1 - v0).saturating_mul(i128::from(time) - t0) / (t1 - t0);
        i64::try_from(value).unwrap_or(i64::MAX)
    }

    /// Its growth between two times.
    pub(crate) fn between(&self, from: i64, to: i64) -> u64 {
        let grown = i128::from(self.at(to)) - i128::from(self.at(from));
        u64::try_from(grown).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_grows_evenly_between_what_is_known() {
        // Rows 0 and 2 are its own; it was zero at 10, and stopped at 50 between its rows.
        let counter = Counter {
            times: &[20, 25, 60],
            values: &[100, 7, 900],
            rows: &[0, 2],
            origin: 10,
            end: Some((50, 700)),
        };
        let at: Vec<i64> = [0, 10, 15, 20, 35, 50, 55, 99]
            .map(|t| counter.at(t))
            .into();
        assert_eq!(at, [0, 0, 50, 100, 400, 700, 700, 700]);
        assert_eq!(counter.between(15, 35), 350);
        let without_end = Counter {
            end: None,
            ..counter
        };
        let at: Vec<i64> = [20, 40, 60, 99].map(|t| without_end.at(t)).into();
        assert_eq!(at, [100, 500, 900, 900]);
    }

    #[test]
    fn two_rows_at_one_time_are_a_step() {
        let counter = Counter {
            times: &[5, 5],
            values: &[1, 9],
            rows: &[0, 1],
            origin: 0,
            end: None,
        };
        assert_eq!([4, 5, 6].map(|t| counter.at(t)), [0, 9, 9]);
    }
}
