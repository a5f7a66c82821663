//! A flow's two ends.

use std::io;
use std::os::fd::RawFd;

use crate::sys::{self, Poll};
use crate::wire::{self, FLOW_BODY};

const TCP: i32 = 6;
const CONGESTION: i32 = 13;
const NOTSENT_LOWAT: i32 = 25;
const WINDOW_CLAMP: i32 = 10;
const TCP_INFO: i32 = 11;
const CC_INFO: i32 = 26;
const SOCKET: i32 = 1;
const MAX_PACING_RATE: i32 = 47;

/// The size of one write.
const CHUNK: usize = 64 << 10;
/// The size of one read.
const DISCARD: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Waiting,
    Connecting,
    Open,
    /// Everything is written; the receiver does not have all of it yet.
    Draining,
    Over,
}

/// The socket of an event, next to the flow's number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Sender = 0,
    Listener = 1,
    Receiver = 2,
}

pub struct Flow {
    pub stage: Stage,
    sender: RawFd,
    listener: RawFd,
    receiver: Option<RawFd>,
    address: [u8; 16],
    clamp: Option<[u8; 4]>,
    /// Bytes that its receiver has read, and when it read the last.
    pub taken: u64,
    pub last: u64,
    /// Its receiver has reached the end.
    pub ended: bool,
    pub pending: u64,
    pub unlimited: bool,
    pub closing: bool,
    /// Whether it waits to be able to write.
    waits: bool,
}

pub fn tag(flow: usize, end: End) -> u64 {
    flow as u64 * 4 + end as u64
}

pub fn untag(data: u64) -> (usize, End) {
    let end = match data % 4 {
        0 => End::Sender,
        1 => End::Listener,
        _ => End::Receiver,
    };
    ((data / 4) as usize, end)
}

pub fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

fn word(body: &[u8], at: usize) -> [u8; 4] {
    let bytes = body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.unwrap_or_default()
}

impl Flow {
    /// Creates the sockets of a flow, each in its host.
    pub fn new(number: usize, body: &[u8], poll: &Poll) -> io::Result<Self> {
        const INET: i32 = 2;
        const STREAM: i32 = 1;
        let (lowat, clamp) = (word(body, 4), word(body, 8));
        let name = body.get(FLOW_BODY..).unwrap_or_default();
        let address = sys::address(word(body, 0), wire::PORT);
        let clamp = (clamp != [0; 4]).then_some(clamp);
        let flags = u32::from_le_bytes(word(body, 12));
        let hosts = match flags & wire::UP {
            0 => [wire::SENDERS, wire::RECEIVERS],
            _ => [wire::RECEIVERS, wire::SENDERS],
        };
        let [here, there] = hosts.map(|host| wire::NAMESPACE_FD + i32::from(host));

        sys::enter(there)?;
        let listener = sys::make_socket(INET, STREAM, TCP)?;
        if let Some(clamp) = clamp {
            sys::set_option(listener, TCP, WINDOW_CLAMP, &clamp)?;
        }
        if name == b"dctcp" {
            // Its packets are ECN-capable from the first, and only its own receiver accepts that.
            sys::set_option(listener, TCP, CONGESTION, name)?;
        }
        sys::bind_to(listener, &address)?;
        sys::listen_at(listener)?;
        poll.watch(listener, sys::READABLE, tag(number, End::Listener), false)?;

        sys::enter(here)?;
        let sender = sys::make_socket(INET, STREAM, TCP)?;
        sys::set_option(sender, TCP, CONGESTION, name)?;
        if lowat != [0; 4] {
            sys::set_option(sender, TCP, NOTSENT_LOWAT, &lowat)?;
        }
        if flags & wire::PACED != 0 {
            // Any maximum but the one that means none turns the kernel's pacing on; this one never
            // limits.
            sys::set_option(sender, SOCKET, MAX_PACING_RATE, &(u64::MAX - 1).to_ne_bytes())?;
        }
        Ok(Self {
            stage: Stage::Waiting,
            sender,
            listener,
            receiver: None,
            address,
            clamp,
            taken: 0,
            last: 0,
            ended: false,
            pending: 0,
            unlimited: false,
            closing: false,
            waits: false,
        })
    }

    pub fn connect(&mut self, number: usize, poll: &Poll) -> io::Result<()> {
        self.stage = Stage::Connecting;
        sys::connect_to(self.sender, &self.address)?;
        self.waits = true;
        poll.watch(self.sender, sys::WRITABLE, tag(number, End::Sender), false)
    }

    /// Whether the connection is open now, once its socket can be written to.
    pub fn is_connected(&mut self) -> io::Result<()> {
        const ERROR: i32 = 4;
        let mut error = [0; 4];
        sys::option(self.sender, SOCKET, ERROR, &mut error)?;
        match i32::from_ne_bytes(error) {
            0 => {
                self.stage = Stage::Open;
                Ok(())
            }
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    /// Writes as much as the socket accepts.
    pub fn write(&mut self, number: usize, poll: &Poll) -> io::Result<()> {
        static ZEROS: [u8; CHUNK] = [0; CHUNK];
        if self.stage != Stage::Open {
            return Ok(());
        }
        let mut full = false;
        while !full && (self.unlimited || self.pending > 0) {
            let most = if self.pending > 0 { self.pending.min(CHUNK as u64) as usize } else { CHUNK };
            match sys::write(self.sender, &ZEROS[..most]) {
                Ok(written) => {
                    self.pending = self.pending.saturating_sub(written as u64);
                    full = written < most;
                }
                Err(error) if would_block(&error) => full = true,
                Err(error) => return Err(error),
            }
        }
        if !full && self.closing {
            self.stage = Stage::Draining;
            sys::end_writing(self.sender)?;
        }
        if full != self.waits {
            self.waits = full;
            let events = if full { sys::WRITABLE } else { 0 };
            poll.watch(self.sender, events, tag(number, End::Sender), true)?;
        }
        Ok(())
    }

    pub fn accept(&mut self, number: usize, poll: &Poll) -> io::Result<()> {
        match sys::accept(self.listener) {
            Ok(receiver) => {
                self.receiver = Some(receiver);
                poll.watch(receiver, sys::READABLE, tag(number, End::Receiver), false)
            }
            Err(error) if would_block(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reads the data delivered to its receiver.
    pub fn take(&mut self, now: u64) -> io::Result<()> {
        const RESET: i32 = 104;
        let Some(receiver) = self.receiver else {
            return Ok(());
        };
        loop {
            match sys::discard(receiver, DISCARD) {
                Ok(0) => {
                    self.ended = true;
                    sys::close_fd(receiver);
                    self.receiver = None;
                    return Ok(());
                }
                Ok(taken) => {
                    self.taken += taken as u64;
                    self.last = now;
                    if taken < DISCARD {
                        break;
                    }
                }
                Err(error) if would_block(&error) => break,
                Err(error) if error.raw_os_error() == Some(RESET) => {
                    sys::close_fd(receiver);
                    self.receiver = None;
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        // The kernel resets it as the buffer grows.
        self.clamp.map_or(Ok(()), |clamp| sys::set_option(receiver, TCP, WINDOW_CLAMP, &clamp))
    }

    /// Cuts it off.
    pub fn reset(&mut self) {
        if self.stage == Stage::Over {
            return;
        }
        // It is over, whatever the kernel says.
        let _ = sys::reset(self.sender);
        self.end();
    }

    /// Releases its sockets: one that is closed at both ends would wake the program endlessly.
    pub fn end(&mut self) {
        if self.stage == Stage::Over {
            return;
        }
        self.stage = Stage::Over;
        sys::close_fd(self.sender);
        sys::close_fd(self.listener);
        if let Some(receiver) = self.receiver.take() {
            sys::close_fd(receiver);
        }
    }

    /// The kernel's state of the sender, after the bytes that the receiver has.
    pub fn state(&self) -> io::Result<Vec<u8>> {
        let (mut info, mut own) = ([0; 512], [0; 64]);
        let info = sys::option(self.sender, TCP, TCP_INFO, &mut info).map(|n| &info[..n])?;
        // A controller without private state reports none.
        let own = match sys::option(self.sender, TCP, CC_INFO, &mut own) {
            Ok(length) => &own[..length],
            Err(_) => &[],
        };
        let mut body = self.taken.to_le_bytes().to_vec();
        body.extend((info.len() as u16).to_le_bytes());
        body.extend((own.len() as u16).to_le_bytes());
        body.extend(info);
        body.extend(own);
        Ok(body)
    }
}
