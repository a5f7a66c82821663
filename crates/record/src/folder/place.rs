//! Replaces a folder atomically: written under a temporary name, then renamed.
//!
//! The writer holds a lock on the temporary folder, which is released when the writer ends, however
//! that happens. A temporary folder without a lock was left by a process that was killed.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::folder::files::is_ours;

const MARK: &str = ".partial-";
const ASIDE: &str = "old";

/// A folder to which nobody else writes as long as this lives.
pub(super) struct Beside {
    path: PathBuf,
    /// None where folders cannot be locked: then no folder is ever considered left behind.
    _lock: Option<File>,
}

impl Beside {
    /// Makes an empty folder in `parent` that will become `name`.
    pub(super) fn new(parent: &Path, name: &OsStr) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let (name, id) = (name.to_string_lossy(), std::process::id());
            let path = parent.join(format!(".{name}{MARK}{id}-{count}"));
            match fs::create_dir(&path) {
                // Of a process of the same number, dead or in another container.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            let lock = lock(&path);
            if path.exists() && !lock.as_ref().is_err_and(is_held) {
                let _lock = lock.ok();
                return Ok(Self { path, _lock });
            }
            // Before it was locked, another process took it for left behind.
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the folder to its final path. The previous content is removed, except for what
    /// someone else put into it.
    pub(super) fn put(&self, place: &Path) -> io::Result<()> {
        match fs::rename(&self.path, place) {
            // Checking first would not work: another process may be faster.
            Err(_) if place.exists() => settle(&exchange(&self.path, place)?, place),
            moved => moved,
        }
    }
}

/// Removes, where possible, the remains of killed processes in `parent`.
pub(super) fn tidy(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(place) = place_of(&name.to_string_lossy()).map(|place| parent.join(place)) else {
            continue;
        };
        let left = entry.path();
        // Not a link to a folder.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let Ok(_lock) = lock(&left) else {
            continue;
        };
        // If something cannot be removed, because it belongs to another user for example, that does
        // no harm.
        let _ = if left.extension() == Some(OsStr::new(ASIDE)) && !place.exists() {
            fs::rename(&left, &place)
        } else {
            settle(&left, &place)
        };
    }
}

/// The final name for which a temporary folder of this name was written.
fn place_of(name: &str) -> Option<&str> {
    let (place, id) = name.strip_prefix('.')?.rsplit_once(MARK)?;
    let id = id.strip_suffix(&format!(".{ASIDE}")).unwrap_or(id);
    let (process, count) = id.split_once('-')?;
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (number(process) && number(count)).then_some(place)
}

/// Removes the run in a temporary folder. Files that are not part of a run move to the final
/// folder, or stay if that has something of the same name.
///
/// Two processes may do so at once.
pub(super) fn settle(old: &Path, place: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(old) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        let done = if is_ours(&name.to_string_lossy()) {
            fs::remove_file(&path)
        } else if place.is_dir() && !place.join(&name).exists() {
            fs::rename(&path, place.join(&name))
        } else {
            Ok(())
        };
        unless_gone(done)?;
    }
    match fs::remove_dir(old) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => unless_gone(removed),
    }
}

fn unless_gone(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Locks a folder for this process, for as long as the file is open.
#[cfg(unix)]
fn lock(folder: &Path) -> io::Result<File> {
    use rustix::fs::{FlockOperation, flock};
    let file = File::open(folder)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

#[cfg(not(unix))]
fn lock(_: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether another process holds the lock.
fn is_held(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Puts `new` at `place`, and returns where the old content went.
#[cfg(target_os = "linux")]
fn exchange(new: &Path, place: &Path) -> io::Result<PathBuf> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, new, CWD, place, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(new.into()),
        // Some file systems cannot.
        Err(_) => exchange_in_steps(new, place),
    }
}

#[cfg(not(target_os = "linux"))]
fn exchange(new: &Path, place: &Path) -> io::Result<PathBuf> {
    exchange_in_steps(new, place)
}

/// Not in one step: a process killed in between leaves the old run under its temporary name, and
/// the next cleanup restores it.
fn exchange_in_steps(new: &Path, place: &Path) -> io::Result<PathBuf> {
    let mut aside = new.as_os_str().to_owned();
    aside.push(format!(".{ASIDE}"));
    let aside = PathBuf::from(aside);
    let _lock = lock(place);
    fs::rename(place, &aside)?;
    if let Err(error) = fs::rename(new, place) {
        fs::rename(&aside, place)?;
        return Err(error);
    }
    Ok(aside)
}

#[cfg(test)]
mod tests;
