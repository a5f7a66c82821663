//! Regular files of a bounded size: a path from outside may be a FIFO without a writer, an endless
//! device, or a file too large for memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The maximum size of a text in bytes: a scenario, a trace, a run's `run.json`.
pub const TEXT: u64 = 64 << 20;

/// Opens a regular file for reading, without blocking.
///
/// # Errors
/// Those of the system, and [`io::ErrorKind::InvalidInput`] if it is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    regular(nonblocking(path)?)
}

/// Opens a regular file below a folder like [`open`], and follows no link on the way.
///
/// # Errors
/// As for [`open`], and for a path that leaves the folder or contains a link.
#[cfg(unix)]
pub fn open_beneath(root: &Path, path: &Path) -> io::Result<File> {
    use std::path::Component;

    use rustix::fs::{Mode, OFlags};
    let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = rustix::fs::open(root, folder, Mode::empty())?;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else {
            break;
        };
        let flags = match parts.peek() {
            Some(_) => folder,
            None => OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC,
        };
        at = rustix::fs::openat(&at, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
        if parts.peek().is_none() {
            return regular(at.into());
        }
    }
    Err(io::ErrorKind::InvalidInput.into())
}

fn regular(file: File) -> io::Result<File> {
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
/// As for [`open`], [`io::ErrorKind::FileTooLarge`] beyond the limit, and
/// [`io::ErrorKind::InvalidData`] if it is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    text_of(open(path)?, limit)
}

/// Reads an open file of at most `limit` bytes as text.
///
/// # Errors
/// As for [`read_text`].
pub fn text_of(file: File, limit: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
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

    #[cfg(unix)]
    #[test]
    fn beneath_a_folder_no_link_is_followed() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/x"), "1").unwrap();
        std::fs::write(dir.path().join("x"), "2").unwrap();
        symlink("b", root.join("a/folder")).unwrap();
        symlink("x", root.join("a/b/file")).unwrap();
        let read = |path: &Path| open_beneath(&root, path).and_then(|file| text_of(file, 5));
        assert_eq!(read(Path::new("a/b/x")).unwrap(), "1");
        for path in ["a/folder/x", "a/b/file", "../x", "a/../../x", "a/b", ""] {
            assert!(read(Path::new(path)).is_err(), "{path}");
        }
        assert!(read(&dir.path().join("x")).is_err());
        // The folder itself may be a link.
        symlink("root", dir.path().join("link")).unwrap();
        assert!(open_beneath(&dir.path().join("link"), Path::new("a/b/x")).is_ok());
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
