//! What a flow did, a short window of time after the other, against what its shadow allowed.

use super::follow::{CYCLE, Followed, Moment, is_probe_rtt};
use super::pace::Pace;
use super::recording::Recording;

/// The states of BBR and of loss-based algorithms, whatever they are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
    SlowStart,
    Avoidance,
    /// The transport sets the window.
    Recovery,
}

impl State {
    pub(super) fn cycles(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    pub(super) fn of(moment: &Moment) -> Self {
        match moment.phase {
            "Startup" | "STARTUP" => Self::Startup,
            "Drain" | "DRAIN" => Self::Drain,
            CYCLE if moment.gain > 1.0 => Self::Up,
            CYCLE if moment.gain < 1.0 => Self::Down,
            CYCLE => Self::Cruise,
            phase if is_probe_rtt(phase) => Self::ProbeRtt,
            phase if phase.ends_with("_DOWN") => Self::Down,
            phase if phase.ends_with("_CRUISE") => Self::Cruise,
            phase if phase.ends_with("_REFILL") => Self::Refill,
            phase if phase.ends_with("_UP") => Self::Up,
            "SlowStart" | "CSS" | "Loss" => Self::SlowStart,
            "CongestionAvoidance" => Self::Avoidance,
            _ => Self::Recovery,
        }
    }
}

/// What the flow did within a short window of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) at: u64,
    pub(super) state: State,
    /// Which of the times in this state.
    pub(super) episode: u32,
    pub(super) did: Did,
    /// The state changes about now.
    pub(super) changes: bool,
    /// The window leaves no room for more.
    pub(super) is_limited: bool,
    pub(super) app_limited: bool,
    /// A full window hid when the flow's last probe began.
    pub(super) is_hidden: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Did {
    AsAllowed,
    /// Faster than the pace.
    TooFast,
    /// Slower than the pace, though the window had room; if only a window limits, less than it.
    TooSlow,
    /// More in flight than the window.
    TooMuch,
    /// Slower, and the application seems to have had no more to send.
    LessToSend,
}

impl Did {
    pub(super) fn is_allowed(self) -> bool {
        matches!(self, Self::AsAllowed | Self::LessToSend)
    }
}

/// A pace within this share of the allowed one is that.
const TOLERANCE: f64 = 0.03;
/// A recording is cut into at most so many.
const MOST_WINDOWS: u64 = 1_000_000;
pub(super) fn share(windows: &[Window], is: impl Fn(Did) -> bool) -> f64 {
    let judged = windows.iter().filter(|window| !window.changes);
    let all = judged.clone().count();
    let good = judged.filter(|window| is(window.did)).count();
    good as f64 / all.max(1) as f64
}

pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Numbers the times in a state.
pub(super) fn episodes(states: impl Iterator<Item = State>) -> Vec<u32> {
    let (mut number, mut last) = (0, None);
    let numbers = states.map(|state| {
        number += u32::from(last.replace(state) != Some(state));
        number
    });
    numbers.collect()
}

/// Lays the flow against its shadow, a quarter of a round trip at a time.
pub(super) fn windows(recording: &Recording, pace: &Pace, followed: &Followed) -> Vec<Window> {
    let moments = &followed.moments;
    let (Some(first), Some(last)) = (moments.first(), moments.last()) else {
        return Vec::new();
    };
    let mss = f64::from(recording.mss);
    let usual = if followed.is_loss_based() {
        pace.over(first.at, last.at)
    } else {
        median(moments.iter().map(|moment| moment.max_bw).collect()).unwrap_or(0.0)
    };
    let packets = (6.0 * mss / usual.max(1.0) * 1e9) as u64;
    let ends = last.at.min(recording.sent.last().map_or(0, |sent| sent.at));
    // A round trip on one machine is so short that there would be millions.
    let least = ends.saturating_sub(first.at) / MOST_WINDOWS + 1;
    let width = (recording.min_rtt.min(1 << 40) / 4).max(packets).max(least);
    let mut windows = Vec::new();
    let cycle = moments.iter().filter(|moment| moment.phase == CYCLE);
    let gains = cycle.fold((1.0, 1.0), |(least, most): (f64, f64), moment| {
        (least.min(moment.gain), most.max(moment.gain))
    });
    let (mut moment, mut send) = (0, 0);
    // The window of the last five, a phase of the cycle.
    let mut recent = [0; 5];
    let mut from = first.at;
    while from + width < ends {
        let to = from + width;
        // What was allowed: the pace, from ACK to ACK.
        let (mut allowed, mut at) = (0.0, from);
        let mut middle = &moments[moment];
        let mut changes = false;
        loop {
            let next = moments.get(moment + 1).map_or(u64::MAX, |next| next.at);
            let until = next.min(to);
            let span = (until - at) as f64;
            allowed += moments[moment]
                .pace
                .map_or(f64::INFINITY, |pace| pace * span);
            if until <= from + width / 2 || at <= from + width / 2 {
                middle = &moments[moment];
            }
            at = until;
            if next > to {
                break;
            }
            let [last, next] = [&moments[moment], &moments[moment + 1]];
            // BBRv1's states differ by their gain.
            changes |= last.phase != next.phase || State::of(last) != State::of(next);
            moment += 1;
        }
        changes |= State::of(middle) == State::Recovery;
        let allowed = allowed / width as f64;
        recent.rotate_right(1);
        recent[0] = middle.window;
        let mut allowed = Allowed {
            slowest: allowed,
            fastest: allowed,
            more: 0,
        };
        if middle.is_hidden && middle.phase == CYCLE {
            // In the phase of the shadow, or in another.
            allowed.slowest *= gains.0 / middle.gain;
            allowed.fastest *= gains.1 / middle.gain;
            allowed.more = recent.iter().max().map_or(0, |most| most - middle.window);
        }
        let (did, is_limited, end) =
            did(recording, pace, followed, send, (from, to), allowed, middle);
        send = end;
        windows.push(Window {
            at: from,
            state: State::of(middle),
            episode: 0,
            did,
            changes,
            is_limited,
            app_limited: middle.app_limited && !is_probe_rtt(middle.phase),
            is_hidden: middle.is_hidden,
        });
        from = to;
    }
    let numbers = episodes(windows.iter().map(|window| window.state));
    for (window, number) in windows.iter_mut().zip(numbers) {
        window.episode = number;
    }
    // What was sent before a change still shows after it.
    let changed: Vec<usize> = (0..windows.len()).filter(|i| windows[*i].changes).collect();
    for index in changed {
        for near in index.saturating_sub(1)..(index + 2).min(windows.len()) {
            windows[near].changes = true;
        }
    }
    windows
}

/// What is allowed in a short window of time, in bytes per second, and in bytes beyond the window.
#[derive(Clone, Copy)]
struct Allowed {
    slowest: f64,
    fastest: f64,
    more: u64,
}

fn did(
    recording: &Recording,
    pace: &Pace,
    followed: &Followed,
    mut send: usize,
    (from, to): (u64, u64),
    allowed: Allowed,
    middle: &Moment,
) -> (Did, bool, usize) {
    let Allowed {
        slowest,
        fastest,
        more,
    } = allowed;
    let mss = f64::from(recording.mss);
    let width = (to - from) as f64 / 1e9;
    // In packets beyond the window; below zero is room.
    let mut beyond = f64::NEG_INFINITY;
    while let Some((at, in_flight, window)) = followed.sends.get(send) {
        if *at >= to {
            break;
        }
        if *at >= from {
            beyond = beyond.max((*in_flight as f64 - *window as f64) / mss);
        }
        send += 1;
    }
    let window = middle.window as f64 / mss;
    let tolerance = |allowed: f64| TOLERANCE + 1.5 * mss / (width * allowed.max(1.0));
    let measured = pace.over(from, to);
    // Without a send: what is in flight decides, after the last one if no ACK came since.
    let last = send.checked_sub(1).map(|last| followed.sends[last]);
    let (in_flight, allows) = match last {
        Some((at, in_flight, window)) if at >= middle.at => (in_flight, window),
        _ => (middle.in_flight, middle.window),
    };
    let excess = (in_flight as f64 - allows as f64) / mss;
    let is_limited = beyond.max(excess) > -(0.07 * window).max(3.0);
    let did = if beyond - more as f64 / mss > (0.02 * window).max(3.0) {
        Did::TooMuch
    } else if measured > fastest * (1.0 + tolerance(fastest)) {
        Did::TooFast
    } else if !is_limited
        && (followed.is_loss_based()
            || (slowest.is_finite() && measured < slowest * (1.0 - tolerance(slowest))))
    {
        if middle.app_limited || (followed.is_loss_based() && !followed.is_bulk) {
            Did::LessToSend
        } else {
            Did::TooSlow
        }
    } else {
        Did::AsAllowed
    };
    (did, is_limited, send)
}
