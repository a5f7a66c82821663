//! Kathleen Nichols' windowed maximum, as in Linux's `win_minmax`: the best three
//! samples, each from a later part of the window.

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    time: u32,
    value: u32,
}

/// The maximum of the last `window` ticks, to within a quarter of the window.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowedMax {
    best: Entry,
    second: Entry,
    third: Entry,
}

impl WindowedMax {
    /// The maximum.
    pub fn get(&self) -> u32 {
        self.best.value
    }

    /// Processes `value` at `time`.
    pub fn update(&mut self, window: u32, time: u32, value: u32) {
        let new = Entry { time, value };
        let age = |entry: Entry| time.wrapping_sub(entry.time);
        if value >= self.best.value || age(self.third) > window {
            (self.best, self.second, self.third) = (new, new, new);
            return;
        }
        if value >= self.second.value {
            (self.second, self.third) = (new, new);
        } else if value >= self.third.value {
            self.third = new;
        }
        // Promote the remaining samples when the best expires, and keep the runners-up from later
        // parts of the window than those above them.
        if age(self.best) > window {
            (self.best, self.second, self.third) = (self.second, self.third, new);
            if age(self.best) > window {
                (self.best, self.second, self.third) = (self.second, self.third, new);
            }
        } else if self.second.time == self.best.time && age(self.best) > window / 4 {
            (self.second, self.third) = (new, new);
        } else if self.third.time == self.second.time && age(self.best) > window / 2 {
            self.third = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::WindowedMax;

    #[test]
    fn the_maximum_expires_with_the_window() {
        let mut max = WindowedMax::default();
        max.update(10, 0, 100);
        for time in 1..=10 {
            max.update(10, time, 50 + time);
            assert_eq!(max.get(), 100, "at {time}");
        }
        max.update(10, 11, 40);
        assert!((51..=60).contains(&max.get()), "{}", max.get());
        max.update(10, 12, 200);
        assert_eq!(max.get(), 200);
    }

    #[test]
    fn never_below_the_newest_sample() {
        let mut max = WindowedMax::default();
        let mut value = 1u32;
        for time in 0..1000 {
            value = value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            max.update(10, time, value);
            assert!(max.get() >= value);
        }
    }
}
