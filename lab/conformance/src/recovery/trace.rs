//! A sender's transmissions, and how they are compared.

use std::fmt::{self, Write as _};

use paceline_units::Duration;

/// A segment was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// Time since the first write.
    pub time: Duration,
    /// The segment, from 1.
    pub number: u64,
    /// The number of the transmission, from 1.
    pub nth: u64,
}

impl fmt::Display for Transmission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, nth, .. } = self;
        write!(f, "{:.1} ms {number}#{nth}", millis(self.time))
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A kernel's transmissions: `# KERNEL`, then a line `MILLISECONDS SEGMENT#TRANSMISSION` for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The kernel.
    pub kernel: String,
    /// In the order of sending.
    pub sent: Vec<Transmission>,
}

impl Trace {
    /// Reads one.
    ///
    /// # Errors
    /// The number of a line that is not part of a trace.
    pub fn read(text: &str) -> Result<Self, usize> {
        let kernel = text.lines().next().and_then(|line| line.strip_prefix("# "));
        let lines = text.lines().enumerate().skip(1);
        let sent = lines.map(|(at, line)| transmission(line).ok_or(at + 1));
        Ok(Self {
            kernel: kernel.ok_or(1_usize)?.to_owned(),
            sent: sent.collect::<Result<_, _>>()?,
        })
    }

    /// Its text.
    pub fn write(&self) -> String {
        let mut text = format!("# {}\n", self.kernel);
        for Transmission { time, number, nth } in &self.sent {
            // Writing into a string does not fail.
            let _ = writeln!(text, "{:.1} {number}#{nth}", millis(*time));
        }
        text
    }
}

fn transmission(line: &str) -> Option<Transmission> {
    let (time, segment) = line.split_once(' ')?;
    let (number, nth) = segment.split_once('#')?;
    let (whole, tenths) = time.split_once('.')?;
    let micros = whole.parse::<u64>().ok()?.checked_mul(1000)?;
    let micros = micros.checked_add(100 * tenths.parse::<u64>().ok().filter(|t| *t < 10)?)?;
    Some(Transmission {
        time: Duration::from_micros(micros),
        number: number.parse().ok()?,
        nth: nth.parse().ok()?,
    })
}

/// How two senders differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The transmission, from 0.
    pub at: usize,
    /// The transmission of each.
    pub sent: [Option<Transmission>; 2],
}

/// Where two senders first differ: the segments, in order, and the time since the previous
/// transmission. Half a round trip is allowed there, or a quarter of the time if that is more:
/// kernels count in jiffies, and round more distant timeouts by up to an eighth.
pub fn compare(one: &[Transmission], other: &[Transmission], rtt: Duration) -> Option<Departure> {
    let mut before = [Duration::ZERO; 2];
    for at in 0..one.len().max(other.len()) {
        let sent = [one.get(at).copied(), other.get(at).copied()];
        let [Some(a), Some(b)] = sent else {
            return Some(Departure { at, sent });
        };
        let gaps = [a.time - before[0], b.time - before[1]];
        let (short, long) = (gaps[0].min(gaps[1]), gaps[0].max(gaps[1]));
        let allowed = (rtt / 2).max(long / 4);
        if (a.number, a.nth) != (b.number, b.nth) || long - short > allowed {
            return Some(Departure { at, sent });
        }
        before = [a.time, b.time];
    }
    None
}
