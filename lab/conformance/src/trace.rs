//! Reads a golden trace: lines of `key=value`, one per event, each followed by its random draws and
//! the resulting state.

use std::io::{BufRead, BufReader, Read};

use crate::input::Input;
use crate::pairs::{Pairs, number};

/// The first bytes of a zstd frame.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// No line of a trace comes near this length.
const MAX_LINE: usize = 1 << 16;
/// No trace is longer than this, uncompressed.
pub(crate) const MAX_BYTES: u64 = 64 << 20;
/// No trace has more events: the shortest lines take far more memory than octets.
const MAX_EVENTS: usize = 1 << 20;

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It cannot be decompressed, or is not text.
    #[error("line {line}: {source}")]
    Io {
        /// The line, from 1.
        line: u64,
        /// What went wrong.
        source: std::io::Error,
    },
    /// A line is malformed.
    #[error("line {line}: {message}")]
    Line {
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        message: String,
    },
}

/// `R`: a random draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// The upper bound (exclusive).
    pub below: u32,
    /// The result.
    pub drew: u32,
}

/// `S`: the state after an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Mode and phase, as `PROBE_BW/UP`.
    pub mode: Box<str>,
    /// The other fields, in the order of [`Trace::keys`].
    pub values: Box<[u64]>,
}

/// An event and its results.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its line, from 1.
    pub line: u64,
    /// The text of its line.
    pub text: Box<str>,
    /// Time in microseconds.
    pub time: u64,
    /// Time in jiffies, if the trace has it.
    pub jiffies: Option<u32>,
    /// The event.
    pub input: Input,
    /// Its random draws.
    pub draws: Vec<Draw>,
    /// The state after it, if the trace has one.
    pub state: Option<State>,
}

/// A golden trace.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The keys of a state line after `mode`, in order.
    pub keys: Vec<String>,
    /// The events; the first is the connection's beginning.
    pub events: Vec<Event>,
}

/// Reads a trace, plain or compressed with zstd.
pub fn read_trace(bytes: &[u8]) -> Result<Trace, TraceError> {
    if bytes.starts_with(&ZSTD_MAGIC) {
        let decoder = zstd::Decoder::with_buffer(bytes)
            .map_err(|source| TraceError::Io { line: 1, source })?;
        read_lines(BufReader::new(decoder))
    } else {
        read_lines(bytes)
    }
}

fn read_lines(reader: impl BufRead) -> Result<Trace, TraceError> {
    let mut reader = reader.take(MAX_BYTES + 1);
    let mut trace = Trace::default();
    let mut line = 0;
    let mut buffer = Vec::new();
    loop {
        line += 1;
        buffer.clear();
        let limit = MAX_LINE as u64;
        let read = (&mut reader).take(limit).read_until(b'\n', &mut buffer);
        match read {
            Err(source) => return Err(TraceError::Io { line, source }),
            Ok(0) => break,
            Ok(_) if reader.limit() == 0 => {
                let message = format!("the trace has more than {MAX_BYTES} bytes");
                return Err(error(line, message));
            }
            Ok(length) if length >= MAX_LINE => return Err(error(line, "the line is too long")),
            Ok(_) => {}
        }
        let text = str::from_utf8(&buffer).map_err(|_| error(line, "not UTF-8"))?;
        trace
            .push(line, text.trim_end())
            .map_err(|message| error(line, message))?;
    }
    if trace.events.is_empty() {
        return Err(error(line, "the trace is empty"));
    }
    Ok(trace)
}

fn error(line: u64, message: impl Into<String>) -> TraceError {
    let message = message.into();
    TraceError::Line { line, message }
}

impl Trace {
    fn push(&mut self, line: u64, text: &str) -> Result<(), String> {
        let mut pairs = Pairs::new(text)?;
        match pairs.letter {
            "" => Ok(()),
            "R" => self.push_draw(&mut pairs),
            "S" => self.push_state(&pairs),
            _ => {
                let time = pairs.get("t")?;
                let jiffies = pairs.find("j")?;
                let input = Input::read(&mut pairs)?;
                if self.events.is_empty() && input.name() != "init" {
                    return Err("the first event must be I, i or n".into());
                }
                if self.events.len() == MAX_EVENTS {
                    return Err(format!("the trace has more than {MAX_EVENTS} events"));
                }
                self.events.push(Event {
                    line,
                    text: text.into(),
                    time,
                    jiffies,
                    input,
                    draws: Vec::new(),
                    state: None,
                });
                Ok(())
            }
        }
    }

    fn push_draw(&mut self, pairs: &mut Pairs<'_>) -> Result<(), String> {
        let draw = Draw {
            below: pairs.get("below")?,
            drew: pairs.get("drew")?,
        };
        match self.events.last_mut() {
            Some(event) if event.state.is_none() => event.draws.push(draw),
            _ => return Err("R does not follow an event".into()),
        }
        Ok(())
    }

    fn push_state(&mut self, pairs: &Pairs<'_>) -> Result<(), String> {
        let Some(event) = self.events.last_mut().filter(|event| event.state.is_none()) else {
            return Err("S does not follow an event".into());
        };
        let (head, fields) = pairs.pairs.split_at_checked(3).ok_or("S is cut short")?;
        let &[("ev", name), ("t", time), ("mode", mode)] = head else {
            return Err("S does not begin with ev, t and mode".into());
        };
        if name != event.input.name() || number::<u64>("t", time)? != event.time {
            return Err(format!(
                "S is of {name} at {time}, not of the event before it"
            ));
        }
        if self.keys.is_empty() {
            self.keys = fields.iter().map(|(key, _)| String::from(*key)).collect();
        }
        let keys = self.keys.iter().map(String::as_str);
        if !keys.eq(fields.iter().map(|(key, _)| *key)) {
            return Err("S has other fields than the first one".into());
        }
        let values = fields.iter().map(|(key, value)| number(key, value));
        event.state = Some(State {
            mode: mode.into(),
            values: values.collect::<Result<_, _>>()?,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INIT: &str = "I t=1000000 cwnd=10 mss=1448 srtt=0 minrtt=4294967295 ecn_flags=0\n";
    const STATE: &str = "S ev=init t=1000000 mode=STARTUP/- cwnd=10 pacing=5\n";

    fn message(text: &str) -> String {
        read_trace(text.as_bytes())
            .err()
            .map_or(String::new(), |error| error.to_string())
    }

    #[test]
    fn a_line_becomes_an_event() -> Result<(), TraceError> {
        let text = format!("{INIT}R below=7 drew=3\n{STATE}U t=1000001\n");
        let trace = read_trace(text.as_bytes())?;
        assert_eq!(trace.keys, ["cwnd", "pacing"]);
        assert_eq!(trace.events.len(), 2);
        assert_eq!(trace.events[0].draws, [Draw { below: 7, drew: 3 }]);
        let state = State {
            mode: "STARTUP/-".into(),
            values: [10, 5].into(),
        };
        assert_eq!(trace.events[0].state, Some(state));
        assert_eq!((trace.events[1].line, trace.events[1].time), (4, 1_000_001));
        Ok(())
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        assert_eq!(message(""), "line 1: the trace is empty");
        assert_eq!(
            message("U t=5\n"),
            "line 1: the first event must be I, i or n"
        );
        assert_eq!(
            message(&format!("{INIT}Q t=5\n")),
            "line 2: no event begins with \"Q\""
        );
        assert_eq!(message(&format!("{INIT}U\n")), "line 2: U has no t");
        assert_eq!(
            message(&format!("{INIT}U t\n")),
            "line 2: \"t\" is not key=value"
        );
        assert_eq!(
            message(&format!("{INIT}X t=1 apl=-1\n")),
            "line 2: apl=-1 is not a number of its range"
        );
        assert_eq!(
            message(&format!("{INIT}C t=1 ca=5 cwnd=1\n")),
            "line 2: ca=5 is no recovery state"
        );
        assert_eq!(
            message(&format!("{INIT}{STATE}{STATE}")),
            "line 3: S does not follow an event"
        );
        assert_eq!(
            message(&format!("{INIT}U t=2\n{STATE}")),
            "line 3: S is of init at 1000000, not of the event before it"
        );
        assert_eq!(
            message(&format!(
                "{INIT}{STATE}U t=2\nS ev=undo t=2 mode=DRAIN/- cwnd=1\n"
            )),
            "line 4: S has other fields than the first one"
        );
    }
}
