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
    /// When the workload, or the phase of an [`App::OnOff`] one, began.
    since: Instant,
    /// Bytes written since then by a workload with a rate.
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
    /// The amount that a paced on/off workload writes at once.
    const CHUNK: u64 = 14_480;

    /// Starts `app` at `start`, with full packets of `mss` bytes.
    pub fn new(app: App, mss: u32, start: Instant) -> Self {
        Self {
            app,
            mss,
            since: start,
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
                // Packet by packet, but at most once per millisecond.
                let packet = Bytes::new(u64::from(self.mss));
                let chunk = rate.volume_in(Duration::from_millis(1)).max(packet);
                let bytes = self.due(now, rate, chunk.get());
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
            self.written = 0;
        }
        loop {
            let end = self.since + if self.silent { silence } else { on };
            if now < end || end == Instant::MAX {
                break;
            }
            self.since = end;
            self.written = 0;
            self.silent = !self.silent;
        }
        let bytes = match rate {
            Some(rate) if !self.silent => self.due(now, rate, Self::CHUNK),
            _ => 0,
        };
        let end = self.since + if self.silent { silence } else { on };
        self.wakeup = Some(self.wakeup.map_or(end, |wakeup| wakeup.min(end)));
        let unlimited = rate.is_none() && !self.silent;
        self.write(unlimited, bytes)
    }

    /// The chunks due by `now`; the first at the beginning. Sets the next wake-up.
    fn due(&mut self, now: Instant, rate: Rate, chunk: u64) -> u64 {
        let chunk = chunk.max(1);
        let passed = rate.volume_in(now.since(self.since)).get();
        let total = (passed / chunk).saturating_add(1).saturating_mul(chunk);
        let bytes = total.saturating_sub(self.written);
        self.written = total;
        let next = self.since + rate.time_for(Bytes::new(total));
        self.wakeup = (next < Instant::MAX).then_some(next);
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
            ..Self::new(app, self.mss, now)
        };
    }

    /// Stops writing at `now`. Data already written is still sent.
    pub fn pause(&mut self, now: Instant) {
        self.paused = true;
        self.wakeup = Some(now);
    }

    /// Resumes writing at `now`: the workload restarts.
    pub fn resume(&mut self, now: Instant) {
        self.paused = false;
        self.set_app(now, self.app);
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
        assert_eq!(amount(&mut flow, month), Amount::Bytes(14_480));
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
                    (late.since, late.silent, late.written, late.next_wakeup()),
                    (
                        early.since,
                        early.silent,
                        early.written,
                        early.next_wakeup()
                    ),
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
        let rate = Some(Rate::from_bps(8_000_000 * 2));
        let mut flow = Application::new(App::OnOff { on, off, rate }, MSS, at(0));
        assert_eq!(amount(&mut flow, 0), Amount::Bytes(14_480));
        assert_eq!(flow.next_wakeup(), Some(Instant::from_nanos(7_240_000)));
        assert_eq!(amount(&mut flow, 8), Amount::Bytes(14_480));
        assert_eq!(flow.next_wakeup(), Some(at(10)));
        assert_eq!(
            (amount(&mut flow, 10), flow.next_wakeup()),
            (Amount::None, Some(at(40)))
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
}
