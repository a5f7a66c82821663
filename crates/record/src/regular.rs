//! Regular files of a bounded size: what others name may be a FIFO that nobody writes into, a device
//! without an end, or a file that memory does not hold.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The most bytes of a text: a scenario, a trace, what a run says of itself.
pub const TEXT: u64 = 64 << 20;

/// Opens a regular file for reading, without waiting for anybody.
///
/// # Errors
/// Those of the system, and [`io::ErrorKind::InvalidInput`] for what is no regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let file = nonblocking(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !kind.is_file() {
        let message = "it is no regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(file)
}

#[cfg(unix)]
fn nonblocking(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

#[cfg(not(unix))]
fn nonblocking(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Reads a regular file of at most `limit` bytes as text.
///
/// # Errors
/// As [`open`], [`io::ErrorKind::FileTooLarge`] beyond the limit, and
/// [`io::ErrorKind::InvalidData`] for what is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let message = format!("it is larger than {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_up_to_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_text(&path, 5).unwrap(), "12345");
        let error = read_text(&path, 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "it is larger than 4 bytes");
        std::fs::write(&path, b"\xff").unwrap();
        assert_eq!(
            read_text(&path, 5).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        assert_eq!(
            read_text(dir.path(), 5).unwrap_err().kind(),
            io::ErrorKind::IsADirectory
        );
        assert_eq!(
            read_text(&dir.path().join("y"), 5).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn fifos_and_devices_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        for path in [
            fifo.as_path(),
            Path::new("/dev/zero"),
            Path::new("/dev/tty"),
        ] {
            if let Err(error) = open(path) {
                assert_ne!(error.kind(), io::ErrorKind::NotFound, "{path:?}");
            } else {
                panic!("{path:?} was opened");
            }
        }
    }
}
