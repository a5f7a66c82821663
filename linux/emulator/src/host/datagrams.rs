//! A sender's program over a QUIC stack.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use paceline_record::EventKind;
use paceline_recovery::Amount;
use paceline_units::Instant;
use rustix::event::{PollFd, PollFlags};

use super::{Connection, LOOK, Program, Shared, Stage, locked};
use crate::ends::Ends;
use crate::sys;

impl Shared<'_> {
    pub(super) fn send_datagrams(
        &self,
        connection: &Connection<'_>,
        ends: &Ends,
        stop: Instant,
    ) -> io::Result<()> {
        // It opens its connection itself.
        locked(&connection.state).stage = Stage::Open;
        let mut program = Program::new(connection);
        let (mut written, mut closing) = (0_u64, false);
        loop {
            let now = self.now();
            if self.over() || now >= self.end {
                return Ok(());
            }
            if now >= stop {
                return self.close(connection, EventKind::Stop, None);
            }
            let write = program.poll(now);
            if let Amount::Bytes(bytes) = write.amount {
                written += bytes;
            }
            closing |= write.close;
            let wait = ends.sender().step(|| self.now(), write)?;
            if closing && connection.goodput.load(Relaxed) >= written {
                let last = Instant::from_nanos(connection.last.load(Relaxed));
                return self.close(connection, EventKind::Finish, Some(last));
            }
            let wake = wait.until.min(stop).min(self.end).min(program.next());
            let mut ready = PollFlags::IN;
            ready.set(PollFlags::OUT, wait.room);
            let longest = wake.since(self.now()).min(LOOK);
            sys::poll([PollFd::new(&ends.incoming, ready)], longest)?;
        }
    }
}
