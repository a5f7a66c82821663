//! A sender's program over the kernel's TCP.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

use paceline_record::EventKind;
use paceline_recovery::Amount;
use paceline_tcp::packet::receiver;
use paceline_units::{Duration, Instant};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use socket2::Socket;

use super::{Connection, LOOK, Program, Shared, Sockets, Stage, address, locked};
use crate::sys;

/// The size of one write.
const CHUNK: usize = 256 * 1024;

impl Shared<'_> {
    pub(super) fn send_tcp(
        &self,
        connection: &Connection<'_>,
        Sockets { sender, .. }: &Sockets,
        stop: Instant,
    ) -> io::Result<()> {
        if !self.connect(connection, sender, stop)? {
            return Ok(());
        }
        // Copying them would hold the socket, and its ACKs, for as long as the machine needs to
        // find memory.
        let zeros = sys::zeros(CHUNK)?;
        let mut program = Program::new(connection);
        let (mut pending, mut unlimited, mut closing) = (0_u64, false, false);
        loop {
            let now = self.now();
            if self.over() || now >= self.end {
                return Ok(());
            }
            if now >= stop {
                return self.close(connection, EventKind::Stop, None);
            }
            let write = program.poll(now);
            unlimited &= !write.stop;
            match write.amount {
                Amount::None => {}
                Amount::Bytes(bytes) => pending += bytes,
                Amount::Unlimited => unlimited = true,
            }
            closing |= write.close;
            let wake = stop.min(self.end).min(program.next());
            let wait = wake.since(now).min(LOOK);
            if !unlimited && pending == 0 {
                if closing {
                    return self.drain(connection, sender, stop);
                }
                self.sleep_until(now + wait);
                continue;
            }
            if sys::poll([PollFd::new(sender, PollFlags::OUT)], wait)? != [true] {
                continue;
            }
            let most = if pending > 0 { pending } else { u64::MAX };
            let most = usize::try_from(most).unwrap_or(CHUNK).min(CHUNK);
            // The socket uses the file's pages and copies nothing.
            match rustix::fs::sendfile(sender, &zeros, Some(&mut 0), most) {
                Ok(sent) => pending = pending.saturating_sub(sent as u64),
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Opens the connection; false if the run, or the flow's time, is over before it is open.
    fn connect(
        &self,
        connection: &Connection<'_>,
        socket: &Socket,
        stop: Instant,
    ) -> io::Result<bool> {
        match socket.connect(&address(receiver(connection.flow))) {
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            result => result?,
        }
        loop {
            let now = self.now();
            if self.over() || now >= self.end.min(stop) {
                return Ok(false);
            }
            let wait = self.end.min(stop).since(now).min(LOOK);
            if sys::poll([PollFd::new(socket, PollFlags::OUT)], wait)? == [true] {
                break;
            }
        }
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        self.event(self.now(), connection.flow, EventKind::Established);
        let mut state = locked(&connection.state);
        state.stage = Stage::Open;
        self.sample(connection, &mut state)?;
        Ok(true)
    }

    /// Everything is written: waits until it is acknowledged.
    fn drain(&self, connection: &Connection<'_>, socket: &Socket, stop: Instant) -> io::Result<()> {
        socket.shutdown(std::net::Shutdown::Write)?;
        while !self.over() && self.now() < self.end {
            if self.now() >= stop {
                return self.close(connection, EventKind::Stop, None);
            }
            let (_, counts) = super::read(socket.as_fd(), false, connection.plan.mss)?;
            let all = counts.unacknowledged == 0 && counts.unsent == 0;
            if all && connection.ended.load(Relaxed) {
                let last = Instant::from_nanos(connection.last.load(Relaxed));
                return self.close(connection, EventKind::Finish, Some(last));
            }
            self.sleep_until(self.now() + Duration::from_millis(1));
        }
        Ok(())
    }
}
