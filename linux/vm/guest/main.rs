//! The guest's only program: performs the host's script, runs the flows, and reports what it
//! observed.
//!
//! It knows nothing about scenarios. The host sends netlink messages, files and times; the guest
//! answers with the kernel's own structures, unchanged.

#[path = "../src/wire.rs"]
#[allow(dead_code)]
mod wire;

mod flow;
mod losses;
mod run;
#[allow(unsafe_code)]
mod sys;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use sys::Shared;
use wire::{BBR3, Header, LIBRARIES, LOAD, MAGIC, OBJECT, State};

fn main() {
    if let Err(error) = start() {
        // The console is the only output; the machine has nothing else to do.
        println!("paceline guest: {error}");
    }
    loop {
        std::thread::park();
    }
}

fn start() -> io::Result<()> {
    for (kind, target) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        fs::create_dir_all(target)?;
        sys::mount_at(kind, target)?;
    }
    load_modules()?;
    let bbr3 = register_bbr3();
    let shared = shared_memory()?;
    shared.set_word(Header::Bbr3 as usize, u64::from(bbr3));
    sys::never_idle(&shared, Header::Idle as usize);
    shared.set_word(Header::Magic as usize, MAGIC);
    shared.set_word(Header::State as usize, State::Ready as u64);
    // Here the host takes the snapshot from which every run starts.
    sys::stop_machine();
    let state = match run::run(&shared) {
        Ok(()) => State::Done,
        Err(error) => {
            println!("paceline guest: {error}");
            State::Failed
        }
    };
    shared.set_word(Header::State as usize, state as u64);
    sys::stop_machine();
    Ok(())
}

/// The modules in /modules, in the order of their dependencies.
fn load_modules() -> io::Result<()> {
    let list = fs::read_to_string("/modules/list")?;
    for name in list.lines() {
        let path = Path::new("/modules").join(name);
        let loaded = File::open(path).and_then(|file| sys::load_module(&file));
        loaded.map_err(|error| io::Error::other(format!("load the module {name}: {error}")))?;
    }
    Ok(())
}

/// A file of the initial file system.
fn place(path: &str) -> PathBuf {
    Path::new("/").join(path)
}

/// The program that loads BPF objects.
fn loader() -> Command {
    let mut load = Command::new(place(LOAD));
    load.env("LD_LIBRARY_PATH", place(LIBRARIES));
    load
}

/// Registers BBRv3, if the host has provided a program for it; returns whether it is there. A
/// kernel that refuses it has printed the reason on the console.
fn register_bbr3() -> bool {
    let done = loader().arg(place(OBJECT)).arg(BBR3).status();
    done.is_ok_and(|status| status.success())
}

/// The memory of the device that QEMU calls ivshmem.
fn shared_memory() -> io::Result<Shared> {
    for device in fs::read_dir("/sys/bus/pci/devices")? {
        let device = device?.path();
        let says = |file: &str, what: &str| {
            fs::read_to_string(device.join(file)).is_ok_and(|text| text.trim() == what)
        };
        if says("vendor", "0x1af4") && says("device", "0x1110") {
            // Without this the kernel leaves the device's memory disabled.
            fs::write(device.join("enable"), "1")?;
            let path = device.join("resource2");
            let size = fs::metadata(&path)?.len();
            let file = File::options().read(true).write(true).open(path)?;
            return Shared::map(&file, size as usize);
        }
    }
    Err(io::Error::other("there is no shared memory"))
}
