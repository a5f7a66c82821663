/// A maximum over the last `window` ticks of a clock that the caller counts, after Kathleen
/// Nichols: the best value of the window and the best two after it, so that an expired best has a
/// successor. Constant time and space.
#[derive(Clone, Debug, Default)]
pub(super) struct MaxFilter {
    values: [u64; 3],
    ticks: [u32; 3],
}

impl MaxFilter {
    /// Takes `value` at tick `now`; returns the maximum over the ticks after `now - window`.
    pub fn update(&mut self, now: u32, window: u32, value: u64) -> u64 {
        let age = |tick: u32| now.saturating_sub(tick);
        if value >= self.values[0] || age(self.ticks[2]) >= window {
            self.replace_from(0, now, value);
        } else if value >= self.values[1] {
            self.replace_from(1, now, value);
        } else if value >= self.values[2] {
            self.replace_from(2, now, value);
        }
        if age(self.ticks[0]) >= window {
            // The successors move up; the next may have expired as well.
            self.shift(now, value);
            if age(self.ticks[0]) >= window {
                self.shift(now, value);
            }
        } else if self.ticks[1] == self.ticks[0] && age(self.ticks[1]) > window / 4 {
            // A quarter of the window has passed without a second choice: take one from it.
            self.replace_from(1, now, value);
        } else if self.ticks[2] == self.ticks[1] && age(self.ticks[2]) > window / 2 {
            self.replace_from(2, now, value);
        }
        self.values[0]
    }

    fn replace_from(&mut self, first: usize, now: u32, value: u64) {
        self.values[first..].fill(value);
        self.ticks[first..].fill(now);
    }

    fn shift(&mut self, now: u32, value: u64) {
        self.values = [self.values[1], self.values[2], value];
        self.ticks = [self.ticks[1], self.ticks[2], now];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn holds_the_best_for_the_window_and_no_longer() {
        let mut filter = MaxFilter::default();
        assert_eq!(filter.update(0, 10, 100), 100);
        for round in 1..10 {
            assert_eq!(filter.update(round, 10, 50), 100, "round {round}");
        }
        assert_eq!(filter.update(10, 10, 40), 50);
    }

    #[test]
    fn a_window_of_one_remembers_one_round() {
        let mut filter = MaxFilter::default();
        assert_eq!(filter.update(3, 1, 9), 9);
        assert_eq!(filter.update(3, 1, 5), 9);
        assert_eq!(filter.update(4, 1, 2), 2);
    }

    proptest! {
        #[test]
        fn never_above_the_true_maximum_and_never_below_the_sample(
            steps in prop::collection::vec((0u32..4, 0u64..100), 1..200), window in 1u32..12,
        ) {
            let mut filter = MaxFilter::default();
            let mut samples: Vec<(u32, u64)> = Vec::new();
            let mut now = 0;
            for (gap, value) in steps {
                now += gap;
                samples.push((now, value));
                let got = filter.update(now, window, value);
                // An estimate of the maximum: the retained value may be younger than the window.
                let highest = samples.iter().filter(|s| now - s.0 < window).map(|s| s.1).max().unwrap();
                prop_assert!(got >= value && got <= highest);
            }
        }
    }
}
