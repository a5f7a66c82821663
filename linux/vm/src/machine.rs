//! A virtual machine: QEMU as a child process, and its protocol (QMP) over its standard streams.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use paceline_experiment::{RunError, Unavailable};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::wire::{Header, MAGIC, SCRIPT, State};

/// The emulator's program.
pub const QEMU: &str = "qemu-system-x86_64";
/// The memory that host and guest share, in bytes.
pub const SHARED: u64 = 64 << 20;
/// QEMU is given this long for an answer. A guest that makes no progress while QEMU computes as
/// long is hung: a busy machine may leave it little of each second.
const PATIENCE: Duration = Duration::from_secs(120);
/// The same for a QEMU that does not compute.
const STANDSTILL: Duration = Duration::from_secs(1200);

/// The machine's configuration. All of it affects the guest's behaviour, and is part of a
/// snapshot's name.
///
/// One instruction takes a nanosecond (`icount shift=0`), and while the guest waits the clock does
/// not wait for the host's (`sleep=off`). Nothing in the machine is random. Without `cx16` Linux
/// 6.12 does not allocate by `cmpxchg16b`, whose flags QEMU 7.2 corrupts on an interrupt.
pub const MACHINE: [&str; 25] = [
    "-nodefaults",
    "-no-user-config",
    "-display",
    "none",
    "-no-reboot",
    "-M",
    "pc",
    "-cpu",
    "qemu64,-rdrand,-rdseed,-cx16",
    "-m",
    "256",
    "-smp",
    "1",
    "-accel",
    "tcg,thread=single",
    "-icount",
    "shift=0,sleep=off",
    "-seed",
    "42",
    "-rtc",
    "base=2026-01-01T00:00:00,clock=vm",
    "-device",
    "pvpanic",
    "-action",
    "panic=pause",
];

/// A folder for this user only, which is removed when this is dropped.
pub fn scratch() -> Result<TempDir, RunError> {
    let made = tempfile::Builder::new().prefix("paceline-vm-").tempdir();
    made.map_err(RunError::io("make a temporary folder"))
}

/// A processor of this machine that no other machine of ours uses, while this lives.
struct Processor {
    number: u32,
    /// Its name is taken as long as it is open, and free again however this process ends.
    _name: UnixDatagram,
}

impl Processor {
    /// None if others use all that this process may use.
    fn free() -> Option<Self> {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let status = read("/proc/self/status");
        let online = read("/sys/devices/system/cpu/online");
        let prefix = "Cpus_allowed_list:";
        let allowed = status.lines().find_map(|line| line.strip_prefix(prefix));
        // Those that are offline may be allowed as well.
        let online: Vec<u32> = processors(&online).collect();
        let usable = |number: &u32| online.contains(number);
        processors(allowed.unwrap_or_default())
            .filter(usable)
            .find_map(Self::take)
    }

    fn take(number: u32) -> Option<Self> {
        let name = SocketAddr::from_abstract_name(format!("paceline-vm-{number}")).ok()?;
        let _name = UnixDatagram::bind_addr(&name).ok()?;
        Some(Self { number, _name })
    }
}

/// The numbers of a list such as `0-3,8`.
fn processors(list: &str) -> impl Iterator<Item = u32> {
    list.trim().split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let ends = first.parse::<u32>().ok().zip(last.parse().ok());
        ends.map(|(first, last)| first..=last).into_iter().flatten()
    })
}

/// A running machine, which ends when this is dropped.
pub struct Machine {
    child: Child,
    _processor: Option<Processor>,
    commands: ChildStdin,
    messages: Receiver<Value>,
    shared: File,
    scratch: TempDir,
}

impl Drop for Machine {
    fn drop(&mut self) {
        // It has not been waited for, so that its number is still its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// QEMU's version string.
pub fn version() -> Result<String, Unavailable> {
    let mut command = Command::new(QEMU);
    let output = command.arg("--version").stdin(Stdio::null()).output();
    let missing = || {
        Unavailable::new(
            format!("there is no {QEMU}"),
            "sudo apt install --no-install-recommends qemu-system-x86",
        )
    };
    let output = output.map_err(|_| missing())?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(str::to_owned).ok_or_else(missing)
}

impl Machine {
    /// Starts one with the given arguments in addition to [`MACHINE`].
    pub fn start(arguments: &[&str]) -> Result<Self, RunError> {
        let scratch = scratch()?;
        let memory = scratch.path().join("shared");
        let mut options = File::options();
        let options = options.read(true).write(true).create_new(true);
        let shared = options.open(&memory);
        let shared = shared.map_err(RunError::io(format!("make {}", memory.display())))?;
        shared
            .set_len(SHARED)
            .map_err(RunError::io("make the shared memory"))?;
        let backend = format!(
            "memory-backend-file,id=shared,share=on,size={SHARED},mem-path={}",
            memory.display()
        );
        let console = format!("file:{}", scratch.path().join("console").display());
        let errors = File::create(scratch.path().join("errors"));
        let errors = errors.map_err(RunError::io("make a file for errors"))?;
        // QEMU's threads wake each other at each of the guest's timers. On one processor, where
        // none interrupts another (SCHED_BATCH), that takes two thirds of the time.
        let processor = Processor::free();
        // If this process is killed, the kernel ends the machine (prctl(2)).
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "chrt", "--batch", "0"]);
        if let Some(Processor { number, .. }) = &processor {
            command.args(["taskset", "--cpu-list", &number.to_string()]);
        }
        command
            .arg(QEMU)
            .args(MACHINE)
            .args([
                "-object",
                &backend,
                "-device",
                "ivshmem-plain,memdev=shared,master=on",
            ])
            .args(["-serial", &console, "-qmp", "stdio"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            // Ctrl-C in a terminal is for this process, which then ends the machine.
            .process_group(0);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                Unavailable::new("there is no setpriv", "sudo apt install util-linux").into()
            }
            _ => RunError::io(format!("start {QEMU}"))(error),
        })?;
        let (Some(commands), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(RunError::Failed("QEMU has no streams".into()));
        };
        let (send, messages) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Ok(value) = serde_json::from_str(&line)
                    && send.send(value).is_err()
                {
                    break;
                }
            }
        });
        let mut machine = Self {
            child,
            _processor: processor,
            commands,
            messages,
            shared,
            scratch,
        };
        machine.next_message(PATIENCE)?;
        machine.execute("qmp_capabilities", json!({}))?;
        Ok(machine)
    }

    /// The last output of QEMU or the guest, for an error.
    fn last_words(&self) -> String {
        let read = |name: &str| {
            let text = std::fs::read(self.scratch.path().join(name)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).trim().to_owned();
            let last = text.lines().rev().take(3).map(str::to_owned);
            last.collect::<Vec<_>>()
        };
        let mut lines = read("errors");
        lines.extend(read("console"));
        match lines.is_empty() {
            true => String::new(),
            false => format!(": {}", lines.join("; ")),
        }
    }

    /// An error: `what` happened, with the last output of QEMU or the guest.
    pub fn failed(&self, what: &str) -> RunError {
        RunError::Failed(format!("{what}{}", self.last_words()))
    }

    fn next_message(&mut self, wait: Duration) -> Result<Option<Value>, RunError> {
        match self.messages.recv_timeout(wait) {
            Ok(value) => Ok(Some(value)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.failed("QEMU has ended")),
        }
    }

    /// Sends a QMP command; returns its result.
    pub fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, RunError> {
        let line = json!({ "execute": command, "arguments": arguments });
        let sent = writeln!(self.commands, "{line}").and_then(|()| self.commands.flush());
        if sent.is_err() {
            return Err(self.failed("QEMU has ended"));
        }
        loop {
            let Some(mut message) = self.next_message(PATIENCE)? else {
                return Err(self.failed(&format!("QEMU does not answer {command}")));
            };
            if let Some(error) = message.get("error") {
                let why = error["desc"].as_str().unwrap_or("no reason");
                return Err(self.failed(&format!("QEMU refuses {command}: {why}")));
            }
            if let Some(value) = message.get_mut("return") {
                return Ok(value.take());
            }
        }
    }

    /// Waits until the guest stops the machine. `on_progress` is called a few times a second with the
    /// elapsed time of the run in nanoseconds, and may stop the wait.
    pub fn until_stopped(
        &mut self,
        on_progress: &mut dyn FnMut(u64) -> Result<(), RunError>,
    ) -> Result<State, RunError> {
        const PERIOD: Duration = Duration::from_millis(50);
        let now = |machine: &Self| (machine.computed(), Instant::now());
        let (mut alive, mut last) = (now(self), (0, 0));
        loop {
            if let Some(event) = self.next_message(PERIOD)? {
                match event["event"].as_str() {
                    Some("STOP") => return self.state(),
                    Some("SHUTDOWN") => return Err(self.failed("the guest has panicked")),
                    _ => continue,
                }
            }
            let progress = (self.word(Header::Passed)?, self.word(Header::Idle)?);
            if progress != last {
                (alive, last) = (now(self), progress);
            }
            let (computed, at) = alive;
            if self.computed().saturating_sub(computed) > PATIENCE || at.elapsed() > STANDSTILL {
                return Err(self.failed("the guest hangs"));
            }
            on_progress(progress.0)?;
        }
    }

    /// The CPU time of QEMU so far, zero once it has ended.
    fn computed(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        stat.map_or(Duration::ZERO, |stat| cpu_time(&stat))
    }

    fn state(&mut self) -> Result<State, RunError> {
        if self.word(Header::Magic)? != MAGIC {
            return Err(self.failed("the guest has panicked"));
        }
        let states = [State::Ready, State::Full, State::Done, State::Failed];
        let word = self.word(Header::State)?;
        let state = states.into_iter().find(|state| *state as u64 == word);
        state.ok_or_else(|| self.failed("the guest does not say why it has stopped"))
    }

    /// Whether the guest has BBRv3.
    pub fn has_bbr3(&self) -> Result<bool, RunError> {
        Ok(self.word(Header::Bbr3)? == 1)
    }

    /// Lets the guest continue.
    pub fn go_on(&mut self) -> Result<(), RunError> {
        self.execute("cont", json!({})).map(drop)
    }

    fn word(&self, place: Header) -> Result<u64, RunError> {
        let mut bytes = [0; 8];
        let read = self.shared.read_exact_at(&mut bytes, place as u64 * 8);
        read.map_err(RunError::io("read the shared memory"))?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Passes the script to the guest.
    pub fn hand(&self, script: &[u8]) -> Result<(), RunError> {
        // The rest is for the guest's log.
        if script.len() as u64 > SHARED / 2 {
            let what = "the scenario has too many changes for a run of this length: shorten it";
            return Err(RunError::Failed(what.into()));
        }
        let length = (script.len() as u64).to_le_bytes();
        let at = Header::Script as u64 * 8;
        let written = self.shared.write_all_at(script, SCRIPT as u64);
        let written = written.and_then(|()| self.shared.write_all_at(&length, at));
        written.map_err(RunError::io("write the shared memory"))
    }

    /// Takes the guest's log since the last time, which follows a script of that length.
    pub fn take(&self, script: usize, log: &mut Vec<u8>) -> Result<(), RunError> {
        let length = usize::try_from(self.word(Header::Log)?).unwrap_or(usize::MAX);
        let at = (SCRIPT + script).next_multiple_of(4096);
        if (at as u64).saturating_add(length as u64) > SHARED {
            return Err(self.failed("the guest says that it has told more than there is room for"));
        }
        let before = log.len();
        log.resize(before + length, 0);
        let rest = log.get_mut(before..).unwrap_or_default();
        let read = self.shared.read_exact_at(rest, at as u64);
        read.map_err(RunError::io("read the shared memory"))
    }

    /// Writes the machine's state to a file, and ends it.
    pub fn save(mut self, to: &Path) -> Result<(), RunError> {
        let uri = format!("exec:cat > {}", quoted(to));
        self.execute("migrate", json!({ "uri": uri }))?;
        loop {
            let status = self.execute("query-migrate", json!({}))?;
            match status["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("failed" | "cancelled") => {
                    return Err(self.failed("QEMU cannot save its state"));
                }
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Starts one from a saved state.
    pub fn restore(from: &Path) -> Result<Self, RunError> {
        let incoming = format!("exec:cat {}", quoted(from));
        let mut machine = Self::start(&["-S", "-incoming", &incoming])?;
        let begun = Instant::now();
        loop {
            let status = machine.execute("query-status", json!({}))?;
            if status["status"].as_str() != Some("inmigrate") {
                break;
            }
            if begun.elapsed() > PATIENCE {
                return Err(machine.failed("QEMU does not read its state"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        match machine.word(Header::Magic)? {
            MAGIC => Ok(machine),
            _ => Err(machine.failed("the snapshot is of another QEMU, or damaged")),
        }
    }
}

/// The CPU time of a process from its line of /proc/PID/stat: fields 14 and 15, in ticks of 10 ms.
fn cpu_time(stat: &str) -> Duration {
    // The second field, the name in parentheses, may contain spaces.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_ascii_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_of_a_list() {
        let all = |list| processors(list).collect::<Vec<_>>();
        assert_eq!(all("\t0-2,8"), [0, 1, 2, 8]);
        assert_eq!(all("5"), [5]);
        assert!(all("").is_empty());
    }

    #[test]
    fn cpu_time_of_a_process() {
        let line = "41 (a) b) S 1 41 41 0 -1 4194304 155 0 0 0 250 31 9 9 20 0 1 0 7812";
        assert_eq!(cpu_time(line), Duration::from_millis(2810));
        assert_eq!(cpu_time(""), Duration::ZERO);
    }

    #[test]
    fn two_machines_do_not_share_a_processor() {
        // No machine has as many.
        let taken = Processor::take(u32::MAX);
        assert!(taken.is_some());
        assert!(Processor::take(u32::MAX).is_none());
        drop(taken);
        assert!(Processor::take(u32::MAX).is_some());
    }

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(quoted(Path::new("/a b/$(c)")), "'/a b/$(c)'");
        assert_eq!(quoted(Path::new("/it's")), r"'/it'\''s'");
    }
}
