//! Workloads: what the application hands to the sender, and when.
//!
//! [`Application::poll`] says how much to write now; [`Application::next_wakeup`]
//! when to ask again. Nothing here blocks on the sender: a rate-limited
//! application writes at its rate whatever the network does.

use paceline_endpoint::{Amount, Write};
use paceline_units::{App, Bytes, Duration, Instant, Rate};

/// A workload in progress.
#[derive(Clone, Debug)]
pub struct Application {
    app: App,
    /// Payload of a full packet: the minimum written at once at a fixed rate.
    mss: u32,
    /// When the flow starts: no workload begins before.
    start: Instant,
    /// When the workload, or the phase of an [`App::OnOff`] one, began.
    since: Instant,
    /// How long an on/off workload has been on in its earlier phases.
    talked: Duration,
    /// Bytes that a workload with a rate has written.
    written: u64,
    /// Whether an on/off workload is silent.
    silent: bool,
    /// Whether the application has declared that it always has more data.
    unlimited: bool,
    paused: bool,
    /// When it next acts; none if never.
    wakeup: Option<Instant>,
}

impl Application {
    /// Starts `app` at `start`, with full packets of `mss` bytes.
    pub fn new(app: App, mss: u32, start: Instant) -> Self {
        Self {
            app,
            mss,
            start,
            since: start,
            talked: Duration::ZERO,
            written: 0,
            silent: false,
            unlimited: false,
            paused: false,
            wakeup: Some(start),
        }
    }

    /// The amount to write now. Pass it to the sender, and poll again at [`Self::next_wakeup`].
    #[inline]
    pub fn poll(&mut self, now: Instant) -> Write {
        match self.wakeup {
            Some(wakeup) if wakeup <= now => self.wake(now),
            _ => Write::default(),
        }
    }

    fn wake(&mut self, now: Instant) -> Write {
        self.wakeup = None;
        if self.paused {
            return self.write(false, 0);
        }
        match self.app {
            App::Bulk => self.write(true, 0),
            App::Sized { size } => Write {
                close: true,
                ..self.write(false, size.get())
            },
            App::Limited { rate } => {
                let bytes = self.due(now, rate);
                self.write(false, bytes)
            }
            App::OnOff { on, off, rate } => self.on_off(now, on, off, rate),
        }
    }

    fn on_off(&mut self, now: Instant, on: Duration, off: Duration, rate: Option<Rate>) -> Write {
        // A cycle of zero length would never advance.
        let silence = if on + off == Duration::ZERO {
            Duration::MAX
        } else {
            off
        };
        // Whole cycles end as they begin.
        let cycle = (on + silence).as_nanos().max(1);
        let cycles = now.since(self.since).as_nanos() / cycle;
        if cycles > 0 {
            self.since += (on + silence) * cycles;
            self.talked += on * cycles;
        }
        loop {
            let end = self.since + if self.silent { silence } else { on };
            if now < end || end == Instant::MAX {
                break;
            }
            if !self.silent {
                self.talked += on;
            }
            self.since = end;
            self.silent = !self.silent;
        }
        let end = self.since + if self.silent { silence } else { on };
        self.wakeup = Some(end);
        let bytes = rate.map_or(0, |rate| self.talk(now, rate));
        let unlimited = rate.is_none() && !self.silent;
        self.write(unlimited, bytes)
    }

    /// What a workload with a rate writes at once: a packet, but a millisecond's worth if that is more.
    fn chunk(&self, rate: Rate) -> u64 {
        let packet = Bytes::new(u64::from(self.mss.max(1)));
        rate.volume_in(Duration::from_millis(1)).max(packet).get()
    }

    /// The chunks due by `now`; the first at the beginning. Sets the next wake-up.
    fn due(&mut self, now: Instant, rate: Rate) -> u64 {
        let chunk = self.chunk(rate);
        let passed = rate.volume_in(now.since(self.since)).get();
        let total = (passed / chunk).saturating_add(1).saturating_mul(chunk);
        let bytes = total.saturating_sub(self.written);
        self.written = total;
        let next = self.since + rate.time_for(Bytes::new(total));
        self.wakeup = (next < Instant::MAX).then_some(next);
        bytes
    }

    /// The data of an on/off workload due by `now`: in a phase the chunks that are complete, at its
    /// end the rest, so that it is never ahead of its rate. Moves the wake-up to the next chunk if
    /// that is earlier.
    fn talk(&mut self, now: Instant, rate: Rate) -> u64 {
        let chunk = self.chunk(rate);
        let phase = match self.silent {
            true => Duration::ZERO,
            false => now.since(self.since),
        };
        let earlier = rate.volume_in(self.talked).get();
        let passed = rate.volume_in(self.talked + phase).get();
        let total = passed - (passed - earlier) % chunk;
        let bytes = total.saturating_sub(self.written);
        self.written = total;
        let next = rate.time_for(Bytes::new(total.saturating_add(chunk)));
        if !self.silent && next < Duration::MAX {
            let next = self.since + (next - self.talked);
            self.wakeup = self.wakeup.map(|end| end.min(next));
        }
        bytes
    }

    fn write(&mut self, unlimited: bool, bytes: u64) -> Write {
        let was = std::mem::replace(&mut self.unlimited, unlimited);
        let amount = match (was, unlimited) {
            (false, true) => Amount::Unlimited,
            _ if bytes > 0 => Amount::Bytes(bytes),
            _ => Amount::None,
        };
        Write {
            amount,
            stop: was && !unlimited,
            close: false,
        }
    }

    /// When to poll again; none if nothing will happen on its own.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.wakeup
    }

    /// Switches to `app` at `now`, from its beginning.
    pub fn set_app(&mut self, now: Instant, app: App) {
        let (unlimited, paused) = (self.unlimited, self.paused);
        *self = Self {
            unlimited,
            paused,
            ..Self::new(app, self.mss, now.max(self.start))
        };
    }

    /// Stops writing at `now`. Data already written is still sent.
    pub fn pause(&mut self, now: Instant) {
        self.paused = true;
        self.wakeup = Some(now);
    }

    /// Resumes writing at `now` after a pause: the workload restarts.
    pub fn resume(&mut self, now: Instant) {
        if std::mem::take(&mut self.paused) {
            self.set_app(now, self.app);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 2000;

    const fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn amount(application: &mut Application, now: u64) -> Amount {
        application.poll(at(now)).amount
    }

    #[test]
    fn bulk_says_so_once_and_can_be_paused() {
        let mut bulk = Application::new(App::Bulk, MSS, at(5));
        assert_eq!(amount(&mut bulk, 4), Amount::None);
        assert_eq!(bulk.next_wakeup(), Some(at(5)));
        assert_eq!(amount(&mut bulk, 5), Amount::Unlimited);
        assert_eq!(
            (amount(&mut bulk, 6), bulk.next_wakeup()),
            (Amount::None, None)
        );
        bulk.pause(at(10));
        assert!(bulk.poll(at(10)).stop);
        assert_eq!(amount(&mut bulk, 11), Amount::None);
        bulk.resume(at(20));
        assert_eq!(amount(&mut bulk, 20), Amount::Unlimited);
    }

    #[test]
    fn a_sized_one_writes_once_and_closes() {
        let bytes = Bytes::new(1234);
        let mut sized = Application::new(App::Sized { size: bytes }, MSS, at(0));
        let write = sized.poll(at(0));
        assert_eq!((write.amount, write.close), (Amount::Bytes(1234), true));
        assert_eq!(sized.poll(at(1)), Write::default());
    }

    #[test]
    fn a_limited_one_writes_chunks_at_its_rate() {
        let rate = Rate::from_bps(8_000_000); // 1000 bytes a millisecond
        let mut limited = Application::new(App::Limited { rate }, MSS, at(10));
        assert_eq!(amount(&mut limited, 10), Amount::Bytes(2000));
        assert_eq!(limited.next_wakeup(), Some(at(12)));
        assert_eq!(amount(&mut limited, 11), Amount::None);
        assert_eq!(amount(&mut limited, 12), Amount::Bytes(2000));
        // A late poll catches up.
        assert_eq!(amount(&mut limited, 17), Amount::Bytes(4000));
        assert_eq!(limited.next_wakeup(), Some(at(18)));
        // Unlimited from now on, then limited again.
        limited.set_app(at(17), App::Bulk);
        assert_eq!(amount(&mut limited, 17), Amount::Unlimited);
        limited.set_app(at(30), App::Limited { rate });
        let write = limited.poll(at(30));
        assert_eq!((write.amount, write.stop), (Amount::Bytes(2000), true));
    }

    #[test]
    fn a_change_before_the_start_waits_for_it() {
        let rate = Rate::from_bps(8_000_000);
        let mut limited = Application::new(App::Bulk, MSS, at(100));
        limited.set_app(at(10), App::Limited { rate });
        assert_eq!(limited.next_wakeup(), Some(at(100)));
        // One packet, and not the 90,000 bytes since the change.
        assert_eq!(amount(&mut limited, 100), Amount::Bytes(2000));
        assert_eq!(limited.next_wakeup(), Some(at(102)));
        // Nothing resumes that was not paused.
        limited.resume(at(101));
        assert_eq!(amount(&mut limited, 101), Amount::None);
        let size = Bytes::new(9);
        let mut sized = Application::new(App::Sized { size }, MSS, at(100));
        sized.pause(at(10));
        assert_eq!(sized.poll(at(100)), Write::default());
        sized.resume(at(200));
        assert_eq!(amount(&mut sized, 200), Amount::Bytes(9));
    }

    #[test]
    fn a_limited_one_without_rate_rests() {
        let rate = Rate::ZERO;
        let mut limited = Application::new(App::Limited { rate }, MSS, at(0));
        assert_eq!(amount(&mut limited, 0), Amount::Bytes(2000));
        assert_eq!(limited.next_wakeup(), None);
    }

    /// Polled again after 30 days of cycles of 2 ns, as when a connection takes that long to open.
    #[test]
    fn cycles_that_nobody_saw_are_skipped() {
        let of = |on, off| App::OnOff {
            on: Duration::from_nanos(on),
            off: Duration::from_nanos(off),
            rate: Some(Rate::from_bps(8_000_000_000)), // 1 byte a nanosecond
        };
        let month = 30 * 24 * 3600 * 1000;
        let mut flow = Application::new(of(1, 1), MSS, at(0));
        // It has been on for half of the time.
        let bytes = month * 1_000_000 / 2;
        assert_eq!(amount(&mut flow, month), Amount::Bytes(bytes));
        assert_eq!(
            flow.next_wakeup(),
            Some(at(month) + Duration::from_nanos(1))
        );
        // As if each phase had been polled.
        for (on, off, start) in [(3, 5, 0), (5, 3, 1), (8, 0, 2), (0, 8, 3), (1, 30_000, 4)] {
            for end in 100..140 {
                let instant = Instant::from_nanos;
                let mut late = Application::new(of(on, off), MSS, instant(start));
                let mut early = late.clone();
                late.poll(instant(start));
                let mut wakeup = early.next_wakeup().unwrap();
                while wakeup <= instant(end) {
                    early.poll(wakeup);
                    wakeup = early.next_wakeup().unwrap();
                }
                late.poll(instant(end));
                assert_eq!(
                    format!("{late:?}"),
                    format!("{early:?}"),
                    "{on}, {off}, {start}, {end}"
                );
            }
        }
    }

    #[test]
    fn on_off_alternates() {
        let (on, off) = (ms(10), ms(30));
        let mut flow = Application::new(
            App::OnOff {
                on,
                off,
                rate: None,
            },
            MSS,
            at(0),
        );
        assert_eq!(
            (amount(&mut flow, 0), flow.next_wakeup()),
            (Amount::Unlimited, Some(at(10)))
        );
        assert!(flow.poll(at(10)).stop);
        assert_eq!(flow.next_wakeup(), Some(at(40)));
        assert_eq!(amount(&mut flow, 40), Amount::Unlimited);
        // 600 bytes a millisecond: three packets are due after 3.33, 6.67 and 10 ms.
        let rate = Some(Rate::from_bps(8_000 * 600));
        let mut flow = Application::new(App::OnOff { on, off, rate }, MSS, at(0));
        assert_eq!(amount(&mut flow, 0), Amount::None);
        assert_eq!(flow.next_wakeup(), Some(Instant::from_nanos(3_333_334)));
        assert_eq!(amount(&mut flow, 7), Amount::Bytes(4000));
        assert_eq!(flow.next_wakeup(), Some(at(10)));
        assert_eq!(
            (amount(&mut flow, 10), flow.next_wakeup()),
            (Amount::Bytes(2000), Some(at(40)))
        );
        let mut stuck = Application::new(
            App::OnOff {
                on: ms(0),
                off: ms(0),
                rate: None,
            },
            MSS,
            at(0),
        );
        assert_eq!(amount(&mut stuck, 100), Amount::None);
    }
    /// 64 kbit/s for 50 ms of each second: 400 bytes a phase, less than a packet.
    #[test]
    fn an_on_phase_shorter_than_a_packet_writes_what_it_may() {
        let app = App::OnOff {
            on: ms(50),
            off: ms(950),
            rate: Some(Rate::from_bps(64_000)),
        };
        let mut talker = Application::new(app, 1448, at(0));
        let mut written = Vec::new();
        while let Some(wakeup) = talker.next_wakeup().filter(|wakeup| *wakeup < at(3_000)) {
            if let Amount::Bytes(bytes) = talker.poll(wakeup).amount {
                written.push((wakeup, bytes));
            }
        }
        let wanted = [50, 1050, 2050].map(|time| (at(time), 400));
        assert_eq!(written, wanted);
    }

    /// At every wake-up the sum is at most rate x time on, and at the end of each phase exactly that.
    #[test]
    fn an_on_off_workload_is_never_ahead_of_its_rate() {
        for bps in [1, 100, 64_000, 1_000_003, 37_000_000, 5_000_000_000] {
            for (on, off) in [(1, 1), (7, 3), (50, 950), (333, 1), (2_000, 0)] {
                let rate = Rate::from_bps(bps);
                let app = App::OnOff {
                    on: ms(on),
                    off: ms(off),
                    rate: Some(rate),
                };
                let mut talker = Application::new(app, MSS, at(5));
                let (mut sum, mut polls) = (0, 0);
                while let Some(wakeup) = talker.next_wakeup().filter(|wakeup| *wakeup < at(9_000)) {
                    if let Amount::Bytes(bytes) = talker.poll(wakeup).amount {
                        sum += bytes;
                    }
                    let passed = wakeup.since(at(5)).as_nanos();
                    let (on, cycle) = (on * 1_000_000, (on + off) * 1_000_000);
                    let talked = passed / cycle * on + (passed % cycle).min(on);
                    let most = u128::from(talked) * u128::from(bps) / 8_000_000_000;
                    let sum = u128::from(sum);
                    assert!(sum <= most, "{bps}, {on}, {off}: {sum} at {passed}");
                    if passed % cycle == on {
                        assert_eq!(sum, most, "{bps}, {on}, {off} at {passed}");
                    }
                    polls += 1;
                }
                assert!(polls > 3, "{bps}, {on}, {off}");
            }
        }
    }
}
