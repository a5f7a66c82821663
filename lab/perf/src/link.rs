//! A connection, its clock and its pacing.

use std::io;
use std::time;

use paceline_endpoint::Stats;
use paceline_quic::quinn::Chosen;
use paceline_recovery::Pacer;
use paceline_units::{Bytes, Duration, Instant};
use quinn_proto::{Connection, ConnectionEvent, ConnectionHandle, Endpoint, Event};

use crate::wire::Wire;

/// The maximum number of datagrams sent at once, as in quinn itself.
const MAX_BATCH: u64 = 10;
/// The maximum delay for which a turn still counts from its due time: threads wake up slightly
/// late.
const LATE: Duration = Duration::from_millis(1);

/// Time since the program started, on our clock and on the stack's.
#[derive(Clone, Copy)]
pub(crate) struct Clock(time::Instant);

impl Clock {
    pub fn new() -> Self {
        Self(time::Instant::now())
    }

    pub fn now(&self) -> Instant {
        self.of(time::Instant::now())
    }

    pub fn of(&self, at: time::Instant) -> Instant {
        let since = at.saturating_duration_since(self.0).as_nanos();
        Instant::from_nanos(u64::try_from(since).unwrap_or(u64::MAX))
    }

    pub fn at(&self, now: Instant) -> time::Instant {
        self.0 + time::Duration::from_nanos(now.as_nanos())
    }
}

pub(crate) struct Link {
    pub handle: ConnectionHandle,
    pub connection: Connection,
    clock: Clock,
    chosen: Option<Chosen>,
    pacer: Pacer,
    /// Whether the pacer holds back data that the stack may have to send.
    is_paced: bool,
    latest: Instant,
    room: Vec<u8>,
}

impl Link {
    pub fn new(handle: ConnectionHandle, connection: Connection, clock: Clock) -> Self {
        Self {
            handle,
            connection,
            clock,
            chosen: None,
            pacer: Pacer::default(),
            is_paced: false,
            latest: Instant::ZERO,
            room: Vec::new(),
        }
    }

    /// Replaces its controller.
    pub fn choose(&mut self, chosen: Chosen) {
        self.chosen = Some(chosen);
    }

    /// The state of its sender.
    pub fn stats(&self) -> Stats {
        let chosen = self.chosen.as_ref();
        chosen.map_or_else(Stats::default, |chosen| chosen.stats(&self.connection))
    }

    pub fn handle_event(&mut self, event: ConnectionEvent) {
        self.connection.handle_event(event);
    }

    /// Handles due timeouts and data released by the pacer.
    pub fn turn(&mut self, wire: &mut Wire) -> io::Result<()> {
        let now = self.clock.now();
        let Some(due) = self.due().filter(|due| *due <= now) else {
            return Ok(());
        };
        // At the time when it was due: a pacer gives no credit for unused time, and would lose each
        // delay.
        let is_late = now.since(due) > LATE;
        let at = if is_late { now } else { due.max(self.latest) };
        let then = self.clock.at(at);
        let out = self.connection.poll_timeout();
        if out.is_some_and(|out| out <= then) {
            self.connection.handle_timeout(then);
        }
        self.transmit(wire, at)
    }

    /// The connection's counts of packets sent and received.
    pub fn poll(&mut self, endpoint: &mut Endpoint) -> Option<Event> {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        self.connection.poll()
    }

    /// Sends what may be sent now.
    pub fn transmit(&mut self, wire: &mut Wire, now: Instant) -> io::Result<()> {
        self.latest = now.max(self.latest);
        let now = self.latest;
        // The pacer has nothing to hold back until the socket has room.
        self.is_paced = false;
        if !wire.flush()? {
            return Ok(());
        }
        loop {
            let pace = self.chosen.as_ref().and_then(Chosen::pace);
            let mtu = self.connection.current_mtu();
            let mut most = MAX_BATCH;
            if let Some(pace) = pace {
                let quantum = Bytes::new(pace.quantum());
                self.is_paced =
                    pace.rate().is_some() && !self.pacer.allows(now, mtu.into(), quantum);
                if self.is_paced {
                    return Ok(());
                }
                most = (quantum.get() / u64::from(mtu)).clamp(1, MAX_BATCH);
            }
            self.room.clear();
            let transmit =
                self.connection
                    .poll_transmit(self.clock.at(now), most as usize, &mut self.room);
            let Some(transmit) = transmit else {
                return Ok(());
            };
            if let Some(pace) = pace {
                let size = u32::try_from(transmit.size).unwrap_or(u32::MAX);
                self.pacer.on_send(now, size, pace.rate());
            }
            if !wire.send(transmit, &self.room)? {
                return Ok(());
            }
        }
    }

    /// When its next turn is due.
    pub fn due(&mut self) -> Option<Instant> {
        let out = self.connection.poll_timeout().map(|at| self.clock.of(at));
        let paced = self.is_paced.then(|| self.pacer.release());
        [out, paced].into_iter().flatten().min()
    }
}
