//! A TUN device: read the packets that a host sends from it; write packets to it for the host to
//! receive.
//!
//! tun-rs would bring a netlink library and nix, twice each, for one `open` and one `ioctl`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::sys;

/// Where TUN devices come from.
pub const DEVICE: &str = "/dev/net/tun";

/// A TUN device of the network namespace in which it was created. It disappears when this is
/// dropped.
pub struct Tun(File);

impl Tun {
    /// Makes the device `name`.
    pub fn open(name: &str) -> io::Result<Self> {
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).custom_flags(flags);
        let file = options.open(DEVICE)?;
        sys::attach_tun(file.as_fd(), name)?;
        Ok(Self(file))
    }

    /// Reads the next packet; none while there is none.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.0).read(buffer) {
            Ok(length) => Ok(Some(length)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Passes a packet to the host. The kernel receives it within this call.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.0).write(packet).map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
