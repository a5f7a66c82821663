//! What a flow did against what its shadow allowed, check by check.

use super::follow::{CYCLE, Followed, Moment, Probe, is_probe_rtt};
use super::pace::{Pace, TOGETHER};
use super::recording::Recording;
use super::windows::{Did, State, Window, episodes, median, share, windows};

/// Whether a check holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The flow did what the document says.
    Held,
    /// It did not.
    Broken,
    /// The recording has too few occasions.
    NotSeen,
    /// It hangs on what the recording does not show.
    CannotBeTold,
}

impl Verdict {
    /// In words.
    pub fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Broken => "broken",
            Self::NotSeen => "not seen",
            Self::CannotBeTold => "cannot be told",
        }
    }
}

/// The outcome of one check.
#[derive(Clone, Debug)]
pub struct Check {
    /// Its name.
    pub id: &'static str,
    /// The section of draft-ietf-ccwg-bbr-06 that it is of, or that of an RFC.
    pub section: &'static str,
    /// What the document requires.
    pub requires: &'static str,
    /// What was measured, if anything was.
    pub measured: Option<f64>,
    /// The least and the most that holds.
    pub bounds: (f64, f64),
    /// The unit of both.
    pub unit: &'static str,
    /// How often.
    pub count: usize,
    /// The verdict.
    pub verdict: Verdict,
    /// When it was first broken, in nanoseconds.
    pub at: Option<u64>,
    /// Why it cannot be told.
    pub why: Option<&'static str>,
}

impl Check {
    /// The recording does not decide it.
    pub fn cannot_be_told(&mut self, why: &'static str) {
        self.verdict = Verdict::CannotBeTold;
        self.why = Some(why);
        self.at = None;
    }
}

/// A flow that is allowed what it does for this share of time is like its shadow.
const LIKE: f64 = 0.96;
/// The share of probes from which on a fault is the flow's, not its shadow's.
const SYSTEMATIC: f64 = 0.8;
/// Below so many packets in a BDP no pace shows a state.
const LEAST_BDP: f64 = 8.0;
/// Below so many bursts in a round trip no pace shows a state that lasts one.
const LEAST_BURSTS: f64 = 8.0;
/// Two losses are 2 % of so many packets, which end a probe (5.5.10.2), with 1.25 BDP in flight.
const TWO_LOSSES: f64 = 2.0 / 0.02 / 1.25;
/// So many packets beyond a window are tolerated.
const TOLERATED: f64 = 3.0;

/// A burst that neither the window nor the application limits.
struct Burst {
    state: State,
    /// Which of the times in this state.
    episode: u32,
    gain: f64,
    bytes: f64,
    /// What the bandwidth allowed, in bytes.
    allowed: f64,
    at: u64,
}

/// The episode that has most of what is bad, if there are three: a shadow that lost the flow once
/// breaks nothing.
fn worst<T>(bad: impl Iterator<Item = u32>, of: &[&T], episode: impl Fn(&T) -> u32) -> Option<u32> {
    let mut known: Vec<u32> = of.iter().map(|one| episode(one)).collect();
    known.dedup();
    if known.len() < 3 {
        return None;
    }
    let mut counts = std::collections::BTreeMap::new();
    for episode in bad {
        *counts.entry(episode).or_insert(0) += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(episode, _)| episode)
}

/// The least share of which so many of all are a sample, by Wilson's interval of three deviations:
/// neighbours are alike.
fn at_least(part: usize, all: usize) -> f64 {
    const Z2: f64 = 9.0;
    let (n, share) = (all as f64, part as f64 / all.max(1) as f64);
    let spread = (Z2 * (share * (1.0 - share) / n + Z2 / (4.0 * n * n))).sqrt();
    (share + Z2 / (2.0 * n) - spread) / (1.0 + Z2 / n)
}

/// Everything that the checks look at.
pub(super) struct Judged<'a> {
    pub(super) recording: &'a Recording,
    pace: &'a Pace,
    pub(super) followed: &'a Followed,
    windows: Vec<Window>,
    /// The BDP in packets.
    bdp: f64,
}

/// Judges a flow by its shadow. Returns the share of time in which it did what the shadow allows,
/// and every check. It may do less when the application has no more, but then it is not like it.
pub fn judge(recording: &Recording, pace: &Pace, followed: &Followed) -> (f64, Vec<Check>) {
    let usual = median(
        followed
            .moments
            .iter()
            .map(|moment| moment.max_bw)
            .collect(),
    );
    let rtt = recording.min_rtt as f64 / 1e9;
    let judged = Judged {
        bdp: usual.unwrap_or(0.0) * rtt / f64::from(recording.mss),
        windows: windows(recording, pace, followed),
        recording,
        pace,
        followed,
    };
    let own = share(&judged.windows, |did| did == Did::AsAllowed);
    if followed.is_loss_based() {
        let mut checks = judged.growth();
        checks.push(judged.overall());
        return (own, checks);
    }
    let mut checks = judged.gains();
    checks.extend(judged.shares());
    checks.push(judged.startup_least());
    checks.push(judged.drain_least());
    checks.extend(judged.probe_rtts());
    checks.extend(judged.probes());
    checks.push(judged.overall());
    let small = judged.bdp < LEAST_BDP;
    let hidden = judged.hides();
    let is_fast = checks
        .iter()
        .any(|one| one.id == "cruise.most" && one.verdict == Verdict::Broken);
    for check in &mut checks {
        if check.verdict != Verdict::CannotBeTold {
            check.why = None;
        }
        let why = match check.verdict {
            Verdict::NotSeen => None,
            Verdict::Broken if small => Some("a BDP of a few packets shows no pace"),
            _ if judged.bdp < TOLERATED => Some("a BDP of a packet or two shows no window"),
            Verdict::Broken
                if matches!(check.id, "startup.use" | "startup.least" | "drain.least")
                    && !followed.is_bulk =>
            {
                Some("the application limits the flow at times")
            }
            Verdict::Broken if check.id == "probe.random" && is_fast => {
                Some("a flow that is always too fast seems to probe as soon as it may")
            }
            // Startup and Drain come before any probe.
            Verdict::Broken if check.id.starts_with("startup") || check.id.starts_with("drain") => {
                None
            }
            Verdict::Broken => hidden,
            _ => None,
        };
        if let Some(why) = why {
            check.cannot_be_told(why);
        }
        if check.verdict != Verdict::Broken {
            check.at = None;
        }
    }
    (own, checks)
}

impl Judged<'_> {
    /// What may have hidden when the flow probed, so that its shadow lost it.
    fn hides(&self) -> Option<&'static str> {
        let share = |is: &dyn Fn(&Window) -> bool| {
            let cycle = self.windows.iter().filter(|w| State::cycles(w.state));
            let all = cycle.clone().count().max(1);
            cycle.filter(|window| is(window)).count() as f64 / all as f64
        };
        let sent: f64 = self
            .recording
            .sent
            .iter()
            .map(|sent| f64::from(sent.size))
            .sum();
        let loses = self.followed.lost as f64 > 0.001 * sent;
        let strange = self.followed.overdue.len() + self.early().len();
        // Nearly all of them are no accident.
        let strange = strange as f64 / self.rests().max(1) as f64;
        // What BBRv1 allows hangs less on when it probes: any gain of its cycle is allowed then.
        let is_hidden = !self.followed.has_cycle() && share(&|window| window.is_hidden) >= 0.1;
        let lost_track = (0.1..SYSTEMATIC).contains(&strange) || is_hidden;
        let few_bursts = self.bursts() < LEAST_BURSTS;
        let is_short = self.followed.has_cycle() || strange >= 0.1;
        if few_bursts && is_short {
            Some("a round trip of a few bursts hides when the flow probes")
        } else if lost_track && share(&|window| window.is_limited) > 0.15 {
            Some("the window limits the flow, and hides when it probes")
        } else if share(&|window| window.app_limited) > 0.02 {
            Some("the application limits the flow at times")
        } else if self.bdp < 16.0 {
            Some("a BDP of a few packets shows a pace badly")
        } else if loses && self.bdp < TWO_LOSSES {
            Some(
                "a loss or two decide whether a probe goes on, and no packet shows when each was marked",
            )
        } else if loses && lost_track {
            Some("losses hide when the flow probes")
        } else {
            None
        }
    }

    /// Bursts in the minimum RTT.
    fn bursts(&self) -> f64 {
        let gap = median(self.pace.bursts().map(|(.., gap)| gap as f64).collect());
        self.recording.min_rtt as f64 / gap.unwrap_or(0.0).max(1.0)
    }

    /// How often the flow waited for its next probe.
    fn rests(&self) -> usize {
        let Followed {
            probes, overdue, ..
        } = self.followed;
        let late = probes.iter().filter(|probe| probe.is_late).count();
        probes.len() + overdue.len().saturating_sub(late)
    }

    /// Probes that came too soon.
    fn early(&self) -> Vec<&Probe> {
        let probes = self.followed.probes.iter();
        probes.filter(|probe| probe.is_early).collect()
    }

    /// The gains, read off the bursts that neither the window nor the application limits.
    fn gains(&self) -> Vec<Check> {
        let mut groups: Vec<Burst> = Vec::new();
        let episodes = episodes(self.followed.moments.iter().map(State::of));
        let mut limited: Vec<State> = Vec::new();
        let (moments, mss) = (&self.followed.moments, f64::from(self.recording.mss));
        for (at, bytes, gap) in self.pace.bursts() {
            let Some(index) = moments
                .partition_point(|moment| moment.at <= at)
                .checked_sub(1)
            else {
                continue;
            };
            let moment = &moments[index];
            let Some(pace) = moment.pace else { continue };
            // The pacer's next release was set before a change.
            let settled = index == 0 || moments[index - 1].gain == moment.gain;
            let window = moment.window as f64;
            let sent = self
                .followed
                .sends
                .partition_point(|(time, ..)| *time <= at + TOGETHER);
            let in_flight = sent
                .checked_sub(1)
                .map_or(0, |sent| self.followed.sends[sent].1);
            let is_free = (in_flight as f64) < window - (3.0 * mss).max(0.04 * window);
            let is_pause = gap as f64 > 6.0 * bytes / pace.max(1.0) * 1e9;
            if !is_free {
                limited.push(State::of(moment));
            }
            let is_known = !moment.is_hidden || moment.phase != CYCLE;
            if settled && is_free && is_known && !is_pause && !moment.app_limited {
                let ratio = bytes / gap as f64 * 1e9 / pace.max(1.0);
                groups.push(Burst {
                    state: State::of(moment),
                    episode: episodes[index],
                    gain: ratio * moment.gain,
                    bytes,
                    allowed: gap as f64 * pace / 1e9 / moment.gain,
                    at,
                });
            }
        }
        let check = |id, section, requires, state, least: f64, tolerance: f64| {
            let of: Vec<_> = groups.iter().filter(|burst| burst.state == state).collect();
            let nominal = moments.iter().filter(|moment| State::of(moment) == state);
            // Of a state that the shadow never was in no gain is known.
            let bounds = median(nominal.map(|moment| moment.gain).collect())
                .map_or((f64::NEG_INFINITY, f64::INFINITY), |gain| {
                    (gain * (1.0 - tolerance), gain * (1.0 + tolerance))
                });
            let holds = |gain: f64| (bounds.0..=bounds.1).contains(&gain);
            let typical = |of: &[&Burst]| {
                let typical = median(of.iter().map(|burst| burst.gain).collect())?;
                let bytes: f64 = of.iter().map(|burst| burst.bytes).sum();
                let allowed: f64 = of.iter().map(|burst| burst.allowed).sum();
                let mean = bytes / allowed.max(1e-9);
                Some(if holds(typical) || !holds(mean) {
                    typical
                } else {
                    mean
                })
            };
            let bad = of.iter().filter(|burst| !holds(burst.gain));
            let worst = worst(bad.map(|burst| burst.episode), &of, |burst| burst.episode);
            let rest: Vec<_> = of
                .iter()
                .copied()
                .filter(|burst| Some(burst.episode) != worst)
                .collect();
            let measured = typical(&of);
            let measured = typical(&rest).filter(|gain| holds(*gain)).or(measured);
            let verdict = match measured {
                Some(gain) if holds(gain) => Verdict::Held,
                Some(_) if of.len() as f64 >= least => Verdict::Broken,
                _ => Verdict::NotSeen,
            };
            // If few bursts are free, they belong to a probe that the shadow missed, or that the shadow
            // began too soon: then the flow still paces at its base rate.
            let hidden = limited.iter().filter(|of| **of == state).count();
            let is_base = measured.is_some_and(|gain| gain < 1.01);
            let is_selected = (matches!(state, State::Cruise | State::Down)
                || (state == State::Up && is_base))
                && verdict == Verdict::Broken
                && hidden > 3 * of.len();
            Check {
                id,
                section,
                requires,
                measured,
                bounds,
                unit: "",
                count: of.len(),
                verdict: if is_selected {
                    Verdict::CannotBeTold
                } else {
                    verdict
                },
                at: of
                    .iter()
                    .find(|burst| !holds(burst.gain))
                    .map(|burst| burst.at),
                why: is_selected.then_some("the window limits the flow nearly always"),
            }
        };
        vec![
            check(
                "startup.pacing",
                "5.3.1",
                "paces at the gain of Startup, 4 ln 2 in the draft",
                State::Startup,
                12.0,
                0.03,
            ),
            check(
                "drain.pacing",
                "5.3.2",
                "paces at the gain of Drain, .5 in the draft",
                State::Drain,
                8.0,
                0.03,
            ),
            check(
                "down.pacing",
                "5.3.3.1",
                "paces at the gain of ProbeBW_DOWN, .9 in the draft",
                State::Down,
                60.0,
                0.008,
            ),
            check(
                "cruise.pacing",
                "5.3.3.2",
                "paces at the bandwidth, less the margin, in ProbeBW_CRUISE",
                State::Cruise,
                30.0,
                0.008,
            ),
            check(
                "refill.pacing",
                "5.3.3.3",
                "paces at the bandwidth, less the margin, in ProbeBW_REFILL",
                State::Refill,
                5.0,
                0.03,
            ),
            check(
                "up.pacing",
                "5.3.3.4",
                "paces at the gain of ProbeBW_UP, 1.25 in the draft",
                State::Up,
                60.0,
                0.008,
            ),
        ]
    }

    /// A check of the share of windows in which a state was not kept.
    #[expect(clippy::too_many_arguments, reason = "a row of a table")]
    pub(super) fn share_of(
        &self,
        id: &'static str,
        section: &'static str,
        requires: &'static str,
        state: State,
        kinds: &[Did],
        most: f64,
        least: usize,
    ) -> Check {
        let of: Vec<_> = self
            .windows
            .iter()
            .filter(|w| w.state == state && !w.changes)
            .collect();
        let bad: Vec<_> = of
            .iter()
            .copied()
            .filter(|window| kinds.contains(&window.did))
            .collect();
        let worst = worst(bad.iter().map(|window| window.episode), &of, |window| {
            window.episode
        });
        let count = |of: &[&Window]| {
            let counted = of.iter().filter(|window| Some(window.episode) != worst);
            counted.count()
        };
        let all = bad.len() as f64 / of.len().max(1) as f64;
        let rest = count(&bad) as f64 / count(&of).max(1) as f64;
        let share = if rest <= most { rest } else { all };
        let verdict = match (of.len(), share <= most) {
            (1.., true) => Verdict::Held,
            // Too few to call it broken.
            (count, _) if count < least => Verdict::NotSeen,
            (count, _) if at_least(bad.len(), count) <= most => Verdict::CannotBeTold,
            _ => Verdict::Broken,
        };
        Check {
            id,
            section,
            requires,
            measured: (!of.is_empty()).then_some(100.0 * share),
            bounds: (0.0, 100.0 * most),
            unit: "%",
            count: of.len(),
            verdict,
            at: bad
                .first()
                .filter(|_| verdict == Verdict::Broken)
                .map(|window| window.at),
            why: (verdict == Verdict::CannotBeTold)
                .then_some("it is near the bound, and a longer recording would tell"),
        }
    }

    /// The share of windows in which a state was not kept.
    fn shares(&self) -> Vec<Check> {
        use Did::{LessToSend, TooFast, TooMuch, TooSlow};
        let check = |id, section, requires, state, kinds: &[Did], most, least| {
            self.share_of(id, section, requires, state, kinds, most, least)
        };
        vec![
            check(
                "startup.window",
                "5.6.4.6",
                "keeps within the window in Startup",
                State::Startup,
                &[TooMuch],
                0.15,
                8,
            ),
            check(
                "startup.use",
                "5.3.1",
                "sends as fast as it may in Startup",
                State::Startup,
                &[TooSlow, LessToSend],
                0.15,
                8,
            ),
            check(
                "drain",
                "5.3.2",
                "keeps to pace and window in Drain",
                State::Drain,
                &[TooFast, TooSlow, TooMuch],
                0.25,
                5,
            ),
            check(
                "down",
                "5.3.3.1",
                "keeps to pace and window in ProbeBW_DOWN",
                State::Down,
                &[TooFast, TooSlow, TooMuch],
                0.1,
                6,
            ),
            check(
                "cruise.most",
                "5.3.3.2",
                "sends no more than allowed in ProbeBW_CRUISE",
                State::Cruise,
                &[TooFast, TooMuch],
                0.02,
                30,
            ),
            check(
                "cruise.least",
                "5.3.3.2",
                "sends no less than allowed in ProbeBW_CRUISE",
                State::Cruise,
                &[TooSlow],
                0.03,
                30,
            ),
            check(
                "refill",
                "5.3.3.3",
                "keeps to pace and window in ProbeBW_REFILL",
                State::Refill,
                &[TooFast, TooSlow, TooMuch],
                0.2,
                4,
            ),
            check(
                "up.window",
                "5.3.3.4",
                "keeps within the window in ProbeBW_UP",
                State::Up,
                &[TooMuch],
                0.1,
                6,
            ),
            check(
                "up.most",
                "5.3.3.4",
                "paces no faster than allowed in ProbeBW_UP",
                State::Up,
                &[TooFast],
                0.1,
                6,
            ),
            check(
                "up.least",
                "5.3.3.4",
                "sends as fast as it may in ProbeBW_UP",
                State::Up,
                &[TooSlow, LessToSend],
                0.15,
                6,
            ),
            check(
                "probe_rtt.window",
                "5.3.4",
                "keeps within the window of ProbeRTT",
                State::ProbeRtt,
                &[TooMuch],
                0.15,
                6,
            ),
        ]
    }

    /// Until the maximum bandwidth is that of two rounds, Startup keeps the pace of the initial window.
    fn startup_least(&self) -> Check {
        let first = self.followed.moments.first().map_or(0, |first| first.at);
        let until = match self.followed.knows_rtt {
            true => first + 2 * self.recording.min_rtt,
            // Nobody knows the pace.
            false => 0,
        };
        self.least_of(
            "startup.least",
            "5.6.2",
            "keeps its pace in the first two round trips of Startup",
            State::Startup,
            until,
            20.0,
        )
    }

    fn drain_least(&self) -> Check {
        self.least_of(
            "drain.least",
            "5.3.2",
            "sends no less than its pace allows in Drain",
            State::Drain,
            u64::MAX,
            8.0,
        )
    }

    /// The share that was sent in a state, until a time, of what its pace allows. If the shadow's
    /// window has room and the flow waits, its window or its pace is smaller. Fewer than `enough`
    /// packets show nothing.
    fn least_of(
        &self,
        id: &'static str,
        section: &'static str,
        requires: &'static str,
        state: State,
        until: u64,
        enough: f64,
    ) -> Check {
        const LEAST: f64 = 90.0;
        let (moments, mss) = (&self.followed.moments, f64::from(self.recording.mss));
        let room = |moment: &Moment| moment.window as f64 - moment.in_flight as f64;
        let has_room =
            |moment: &Moment| room(moment) > (TOLERATED * mss).max(0.07 * moment.window as f64);
        let (mut sent, mut allowed, mut at) = (0.0, 0.0, None);
        for two in moments.windows(2) {
            let (moment, to) = (&two[0], two[1].at);
            let is_judged = State::of(moment) == state && to <= until;
            if is_judged && has_room(moment) && !moment.app_limited {
                let span = (to - moment.at) as f64 / 1e9;
                // Until the next ACK no more than the window has room for.
                allowed += (moment.pace.unwrap_or(0.0) * span).min(room(moment));
                sent += self.pace.sent_by(to) - self.pace.sent_by(moment.at);
                at = at.or(Some(moment.at));
            }
        }
        let packets = allowed / mss;
        let least = LEAST - 100.0 * TOLERATED / packets.max(1.0);
        let measured = (packets >= enough).then_some(100.0 * sent / allowed);
        let verdict = match measured {
            Some(share) if share >= least => Verdict::Held,
            Some(_) => Verdict::Broken,
            None => Verdict::NotSeen,
        };
        Check {
            id,
            section,
            requires,
            measured,
            bounds: (least, f64::INFINITY),
            unit: "%",
            count: packets as usize,
            verdict,
            at,
            why: None,
        }
    }

    /// Each ProbeRTT of the shadow: from its begin to its end.
    fn dips(&self) -> Vec<(usize, usize)> {
        let moments = &self.followed.moments;
        let is_in = |index: usize| is_probe_rtt(moments[index].phase);
        let begins = (1..moments.len()).filter(|index| is_in(*index) && !is_in(index - 1));
        let spans = begins.filter_map(|begin| {
            let end = (begin..moments.len()).find(|index| !is_in(*index))?;
            Some((begin, end))
        });
        spans.collect()
    }

    fn probe_rtts(&self) -> Vec<Check> {
        let (moments, sends) = (&self.followed.moments, &self.followed.sends);
        let mss = f64::from(self.recording.mss);
        let dips = self.dips();
        let (mut begun, mut lengths, mut depths) = (Vec::new(), Vec::new(), Vec::new());
        let (mut shortest, mut longest) = (Vec::new(), Vec::new());
        for (number, (begin, end)) in dips.iter().enumerate() {
            let (from, to) = (moments[*begin].at, moments[*end].at);
            let first = sends.partition_point(|(at, ..)| *at < from);
            let after = sends.partition_point(|(at, ..)| *at < to);
            let within = |(_, in_flight, window): &(u64, u64, u64)| {
                *in_flight as f64 <= *window as f64 + 1.5 * mss
            };
            let Some(low) = (first..after).find(|index| within(&sends[*index])) else {
                continue;
            };
            begun.push(from);
            let late = (low + after) / 2..after;
            depths.extend(late.map(|index| (sends[index].1 as f64 - sends[index].2 as f64) / mss));
            // Until more is in flight than ProbeRTT allows.
            let window = moments[end - 1].window as f64;
            let high = |index: &usize| {
                let (at, in_flight, now) = sends[*index];
                let allowed = if at < to { now as f64 } else { window };
                in_flight as f64 > 1.2 * allowed + 2.5 * mss
            };
            // Until the next one.
            let next = dips.get(number + 1);
            let next = next.map_or(u64::MAX, |(begin, _)| moments[*begin].at);
            let rest = sends.partition_point(|(at, ..)| *at < next);
            if let Some(high) = (low..rest).find(high) {
                let before = &moments[begin - 1];
                let own = (to - sends[low].0) as f64 / 1e6;
                // The window fills again within a round trip or two, with the queue of before.
                let rtt = before.in_flight as f64 / before.max_bw.max(1.0) * 1e3;
                lengths.push((sends[high].0 - sends[low].0) as f64 / 1e6);
                shortest.push(own - 20.0);
                longest.push(own + 2.5 * rtt + 50.0);
            }
        }
        let missed = dips.len() - begun.len();
        let begin_of = |(begin, _): &(usize, usize)| moments[*begin].at;
        let first_missed = dips.iter().map(begin_of).find(|at| !begun.contains(at));
        // One that begins too soon is none of the shadow's.
        let own = &self.recording.dips;
        let apart = |starts: &[u64]| -> Vec<f64> {
            starts
                .windows(2)
                .map(|two| (two[1] - two[0]) as f64 / 1e9)
                .collect()
        };
        let (expected, own) = (apart(&begun), apart(own));
        let intervals = if own.len() > 2 * expected.len() + 1 {
            own
        } else {
            expected
        };
        let check = |id, section, requires, values: Vec<f64>, bounds: (f64, f64), unit| {
            let count = values.len();
            let measured = median(values);
            let verdict = match measured {
                Some(value) if (bounds.0..=bounds.1).contains(&value) => Verdict::Held,
                Some(_) => Verdict::Broken,
                None => Verdict::NotSeen,
            };
            let at = dips.first().filter(|_| verdict == Verdict::Broken);
            let at = at.map(|(begin, _)| moments[*begin].at);
            Check {
                id,
                section,
                requires,
                measured,
                bounds,
                unit,
                count,
                verdict,
                at,
                why: None,
            }
        };
        let (interval, requires) = if self.followed.has_cycle() {
            (9.9, "enters ProbeRTT no sooner than 10 s after the last")
        } else {
            (4.9, "enters ProbeRTT no sooner than 5 s after the last")
        };
        // The pace may fill less than the window of a few packets.
        let depth = (-2.5 - 0.1 * self.bdp, 1.5);
        let length = (
            median(shortest).unwrap_or(0.0),
            median(longest).unwrap_or(0.0),
        );
        vec![
            Check {
                measured: (!dips.is_empty()).then_some(missed as f64),
                count: dips.len(),
                verdict: match (dips.len(), missed) {
                    (0, _) => Verdict::NotSeen,
                    (_, 0) => Verdict::Held,
                    _ => Verdict::Broken,
                },
                at: first_missed,
                ..check(
                    "probe_rtt.begins",
                    "5.3.4.3",
                    "enters ProbeRTT 5 s after the last minimum of the RTT",
                    Vec::new(),
                    (0.0, 0.0),
                    "missed",
                )
            },
            check(
                "probe_rtt.depth",
                "5.3.4",
                "has half of the BDP in flight in ProbeRTT",
                depths,
                depth,
                "packets",
            ),
            check(
                "probe_rtt.duration",
                "5.3.4",
                "stays in ProbeRTT for 200 ms and a round trip",
                lengths,
                length,
                "ms",
            ),
            check(
                "probe_rtt.interval",
                "5.3.4.3",
                requires,
                intervals,
                (interval, f64::INFINITY),
                "s",
            ),
        ]
    }

    fn probes(&self) -> Vec<Check> {
        let Followed {
            probes, overdue, ..
        } = self.followed;
        let early = self.early();
        let rests = self.rests();
        let percent = |part: usize, all: usize| (all > 0).then(|| 100.0 * part as f64 / all as f64);
        // A probe that is detected or missed wrongly is one of many.
        let verdict = |bad: usize, all: usize, most: f64| match bad as f64 / all as f64 {
            _ if all == 0 => Verdict::NotSeen,
            ..=0.1 => Verdict::Held,
            share if share <= most || all < 2 => Verdict::CannotBeTold,
            _ => Verdict::Broken,
        };
        // A probe that the shadow misses is faster than the shadow allows. If the flow keeps within its
        // limits for 99 % of the time, the shadow missed none.
        let is_within_limits = share(&self.windows, Did::is_allowed) >= 0.99;
        let most = if is_within_limits && rests >= 4 {
            0.5
        } else {
            SYSTEMATIC
        };
        vec![
            Check {
                id: "probe.wait",
                section: "5.3.3.8",
                requires: "probes no sooner than after 2 s or Reno's rounds (% too soon)",
                measured: percent(early.len(), probes.len()),
                bounds: (0.0, 10.0),
                unit: "%",
                count: probes.len(),
                verdict: verdict(early.len(), probes.len(), SYSTEMATIC),
                at: early.first().map(|probe| probe.at),
                why: Some("some probes may have been taken for others"),
            },
            Check {
                id: "probe.deadline",
                section: "5.3.3.8",
                requires: "probes within 3 s, 63 rounds or Reno's (% not seen)",
                measured: percent(overdue.len(), rests),
                bounds: (0.0, 10.0),
                unit: "%",
                count: rests,
                verdict: verdict(overdue.len(), rests, most),
                at: overdue.first().copied(),
                why: Some("some probes may have been hidden"),
            },
            self.draws(),
        ]
    }

    /// Whether the waits for probes are drawn: the difference between the longest and the shortest,
    /// which a draw spreads over a second.
    fn draws(&self) -> Check {
        /// The probability with which drawn waits are so close; below it they count as not drawn.
        const CHANCE: f64 = 1e-4;
        let probes = self.followed.probes.iter();
        let waits: Vec<f64> = probes
            .filter_map(|probe| Some(probe.wait? as f64 / 1e9))
            .collect();
        let least = waits.iter().copied().fold(f64::INFINITY, f64::min);
        let most = waits.iter().copied().fold(0.0, f64::max);
        let spread = (most - least).clamp(0.0, 1.0);
        // The range of so many uniform draws is at most that.
        let count = waits.len() as i32;
        let chance = |spread: f64| {
            f64::from(count) * spread.powi(count - 1) - f64::from(count - 1) * spread.powi(count)
        };
        let verdict = match count {
            ..2 => Verdict::NotSeen,
            _ if spread >= 0.1 => Verdict::Held,
            _ if chance(spread) < CHANCE => Verdict::Broken,
            _ => Verdict::NotSeen,
        };
        Check {
            id: "probe.random",
            section: "5.3.3.8",
            requires: "adds a random wait of up to 1 s",
            measured: (count >= 2).then_some(most - least),
            bounds: (0.1, f64::INFINITY),
            unit: "s",
            count: waits.len(),
            verdict,
            at: self.followed.probes.first().map(|probe| probe.at),
            why: None,
        }
    }

    fn overall(&self) -> Check {
        let of: Vec<_> = self
            .windows
            .iter()
            .filter(|window| !window.changes)
            .collect();
        let bad = of.iter().filter(|window| !window.did.is_allowed());
        let worst = worst(bad.map(|window| window.episode), &of, |window| {
            window.episode
        });
        let rest = of.iter().filter(|window| Some(window.episode) != worst);
        let good = rest
            .clone()
            .filter(|window| window.did.is_allowed())
            .count();
        let share = good as f64 / rest.count().max(1) as f64;
        let judged = of.len();
        let verdict = match judged {
            0..20 => Verdict::NotSeen,
            _ if share >= LIKE => Verdict::Held,
            _ => Verdict::Broken,
        };
        Check {
            id: "all",
            section: match self.followed.name {
                "reno" | "reno-linux" => "RFC 5681",
                _ if self.followed.is_loss_based() => "RFC 9438",
                _ => "5",
            },
            requires: "sends what it allows",
            measured: (judged > 0).then_some(100.0 * share),
            bounds: (100.0 * LIKE, 100.0),
            unit: "%",
            count: judged,
            verdict,
            at: self.departs().filter(|_| verdict == Verdict::Broken),
            why: None,
        }
    }

    /// When the flow first departs for longer: in five of six windows.
    fn departs(&self) -> Option<u64> {
        let steady: Vec<_> = self
            .windows
            .iter()
            .filter(|window| !window.changes)
            .collect();
        let is_bad = |window: &&&Window| !window.did.is_allowed();
        let windows = steady
            .windows(6)
            .find(|six| six.iter().filter(is_bad).count() >= 5)?;
        windows.iter().find(is_bad).map(|window| window.at)
    }
}
