//! A script: the application's writes, and the path's treatment of each transmission.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use paceline_units::{Duration, Rng};
use serde::Deserialize;
use serde::de::{self, Deserializer};

/// Payload bytes of every segment.
pub const MSS: u32 = 1000;

/// One script. Segments, their transmissions and acknowledgments are counted from 1; times count
/// from the first write.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// A description.
    pub about: String,
    /// The controller of both senders.
    pub cc: Cc,
    /// The RTT of the empty path.
    pub rtt: Duration,
    /// Initial window in segments.
    pub initial_window: u32,
    /// Whether the receiver acknowledges selectively.
    pub sack: bool,
    /// Whether it reports duplicates (RFC 2883).
    pub dsack: bool,
    /// In-order segments for each acknowledgment.
    pub ack_every: u32,
    /// The maximum delay of an acknowledgment.
    pub ack_delay: Duration,
    /// The minimum time between two segments that arrive.
    pub spacing: Duration,
    /// The application's writes.
    pub writes: Vec<Write>,
    /// Transmissions that are lost.
    pub drop: Vec<Pick>,
    /// Transmissions that are delayed.
    pub delay: Vec<Delay>,
    /// Transmissions that arrive twice.
    pub duplicate: Vec<Pick>,
    /// Acknowledgments that are lost.
    pub drop_acks: Vec<Pick>,
    /// Acknowledgments that are delayed.
    pub delay_acks: Vec<Delay>,
    /// Outages in both directions.
    pub blackouts: Vec<Blackout>,
    /// When it ends, if not everything is acknowledged before.
    pub end: Duration,
    /// Writes and losses are drawn from this seed.
    pub drawn: Option<u64>,
    /// Why the senders differ, if they are known to.
    pub differs: Option<String>,
    /// The same with the kind of recovery that is the kernel's.
    pub linux_differs: Option<String>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            about: String::new(),
            cc: Cc::Reno,
            rtt: Duration::from_millis(100),
            initial_window: 10,
            sack: true,
            dsack: true,
            ack_every: 1,
            ack_delay: Duration::from_millis(40),
            spacing: Duration::ZERO,
            writes: Vec::new(),
            drop: Vec::new(),
            delay: Vec::new(),
            duplicate: Vec::new(),
            drop_acks: Vec::new(),
            delay_acks: Vec::new(),
            blackouts: Vec::new(),
            end: Duration::from_secs(20),
            drawn: None,
            differs: None,
            linux_differs: None,
        }
    }
}

/// A controller that exists in Linux and here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cc {
    /// Linux's Reno: `reno-linux`.
    Reno,
    /// Linux's CUBIC: `cubic-linux`.
    Cubic,
}

impl Cc {
    /// Linux's name.
    pub const fn linux(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
        }
    }

    /// Our name.
    pub const fn ours(self) -> &'static str {
        match self {
            Self::Reno => "reno-linux",
            Self::Cubic => "cubic-linux",
        }
    }
}

/// The application writes whole segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// The time.
    #[serde(default)]
    pub at: Duration,
    /// The number of segments.
    pub segments: u64,
}

/// Delayed packets, and their delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delay {
    /// The packets.
    pub of: Pick,
    /// The additional delay.
    pub by: Duration,
}

/// An outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blackout {
    /// Its start.
    pub at: Duration,
    /// Its duration.
    #[serde(rename = "for")]
    pub length: Duration,
}

/// Transmissions of segments: `"5"` is the first of segment 5, `"5-9#2"` the second of each of the
/// segments 5 to 9, `"5#1-3"` the first three of segment 5. Acknowledgments are counted in the order
/// of sending: `"5-9"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    first: u64,
    last: u64,
    from: u64,
    to: u64,
}

impl Pick {
    /// Whether it selects the `nth` transmission of `number`.
    pub const fn holds(&self, number: u64, nth: u64) -> bool {
        self.first <= number && number <= self.last && self.from <= nth && nth <= self.to
    }
}

impl FromStr for Pick {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` picks nothing: write \"5\", \"5-9\", \"5#2\" or \"5-9#1-3\"");
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            (1 <= first && first <= last).then_some((first, last))
        };
        let (numbers, nths) = text.split_once('#').unwrap_or((text, "1"));
        let (first, last) = range(numbers).ok_or_else(wrong)?;
        let (from, to) = range(nths).ok_or_else(wrong)?;
        Ok(Self {
            first,
            last,
            from,
            to,
        })
    }
}

impl<'de> Deserialize<'de> for Pick {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// Why a file is not a script.
#[derive(Debug)]
pub struct ScriptError(String);

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScriptError {}

impl Script {
    /// The maximum number of segments and the maximum duration of a script.
    const MOST: u64 = 10_000;
    const LONGEST: Duration = Duration::from_secs(600);

    /// Reads the scripts of a file, each a table, by their names.
    ///
    /// # Errors
    /// If the text is not TOML, a key is unknown or a value is out of bounds.
    pub fn read(text: &str) -> Result<BTreeMap<String, Self>, ScriptError> {
        let mut scripts: BTreeMap<String, Self> = toml::from_str(text)
            .map_err(|error| ScriptError(error.to_string().trim_end().into()))?;
        for (name, script) in &mut scripts {
            if let Some(seed) = script.drawn {
                *script = script.clone().draw(seed);
            }
            script
                .check()
                .map_err(|what| ScriptError(format!("[{name}]: {what}")))?;
        }
        Ok(scripts)
    }

    fn check(&self) -> Result<(), &'static str> {
        let segments = self.writes.iter().map(|write| write.segments);
        match segments.fold(0, u64::saturating_add) {
            0 => return Err("nothing is written: writes = [{ segments = 20 }]"),
            Self::MOST.. => return Err("`writes`: no more than 9999 segments"),
            _ => {}
        }
        if !self.writes.is_sorted_by_key(|write| write.at) {
            return Err("`writes`: in the order of their times");
        }
        if !(Duration::from_millis(10)..=Duration::from_secs(2)).contains(&self.rtt) {
            return Err("`rtt`: from 10 ms to 2 s");
        }
        if self.end > Self::LONGEST {
            return Err("`end`: no more than 600 s");
        }
        if self.initial_window == 0 || self.ack_every == 0 {
            return Err("`initial_window` and `ack_every`: 1 at least");
        }
        Ok(())
    }

    /// The RTT of the handshake is the minimum: results that depend on the minimum RTT then do not
    /// depend on microseconds.
    pub fn handshake_rtt(&self) -> Duration {
        self.rtt - Duration::from_millis(2)
    }

    /// Total bytes that the application writes.
    pub fn bytes(&self) -> u64 {
        let segments: u64 = self.writes.iter().map(|write| write.segments).sum();
        segments * u64::from(MSS)
    }

    /// Draws the events: 30 to 109 segments, in one write or two. Up to 12 % of the first and some
    /// of the later transmissions are lost, a few delayed, a few duplicated; acknowledgments get
    /// lost as well.
    fn draw(self, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let segments = 30 + rng.below(80);
        let one = |number: u64, nth: u64| Pick {
            first: number,
            last: number,
            from: nth,
            to: nth,
        };
        let mut script = Self {
            sack: rng.below(5) > 0,
            rtt: Duration::from_millis(60 + 20 * rng.below(5)),
            writes: vec![Write {
                at: Duration::ZERO,
                segments,
            }],
            ..self
        };
        if rng.below(2) == 0 {
            script.writes.push(Write {
                at: Duration::from_millis(3000),
                segments: 1 + rng.below(30),
            });
        }
        let lost = 1 + rng.below(12);
        for number in 1..=script.bytes() / u64::from(MSS) {
            for nth in 1..=3 {
                let share = if nth == 1 { lost } else { 2 * lost };
                if rng.below(100) < share {
                    script.drop.push(one(number, nth));
                }
            }
            if rng.below(100) < 2 {
                script.delay.push(Delay {
                    of: one(number, 1),
                    by: script.rtt / 8,
                });
            }
            if rng.below(100) < 2 {
                script.duplicate.push(one(number, 1));
            }
            if rng.below(100) < 3 {
                script.drop_acks.push(one(number, 1));
            }
        }
        script
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_are_segments_and_their_transmissions() {
        let pick: Pick = "5-9#2".parse().unwrap();
        assert!(pick.holds(5, 2) && pick.holds(9, 2));
        assert!(!pick.holds(10, 2) && !pick.holds(5, 1) && !pick.holds(5, 3));
        let pick: Pick = "5#1-3".parse().unwrap();
        assert!(pick.holds(5, 1) && pick.holds(5, 3) && !pick.holds(6, 1));
        for wrong in ["", "0", "5-", "9-5", "5#", "5#0", "a", "5#2#3", "-5"] {
            assert!(wrong.parse::<Pick>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_script_says_what_is_wrong_with_it() {
        let writes = "writes = [{ segments = 5 }]\n";
        let read = |text: &str| Script::read(&format!("[one]\n{text}"));
        assert!(read(writes).is_ok());
        for (text, says) in [
            ("", "nothing is written"),
            ("writes = [{ segments = 0 }]", "nothing is written"),
            ("writes = [{ segments = 10000 }]", "9999"),
            (
                "writes = [{ at = \"1 s\", segments = 1 }, { segments = 1 }]",
                "order",
            ),
            (&format!("{writes}drop = [\"x\"]"), "picks nothing"),
            (&format!("{writes}drops = []"), "drops"),
            (&format!("{writes}rtt = \"1 ms\""), "rtt"),
            (&format!("{writes}rtt = 100"), "a time such as"),
            (&format!("{writes}cc = \"bbr\""), "reno"),
            (&format!("{writes}ack_every = 0"), "ack_every"),
            (&format!("{writes}end = \"601 s\""), "end"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn a_seed_draws_the_same_script_each_time() {
        let drawn = |seed| {
            let scripts = Script::read(&format!("one.drawn = {seed}")).unwrap();
            scripts["one"].drop.clone()
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }
}
