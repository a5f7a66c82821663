//! System calls of the guest. This is its only module with `unsafe`: the program has no dependency,
//! so that a single call of the compiler builds it. Every call passes memory that lives as long as
//! the call, with its true length; descriptors live as long as the guest.

use std::ffi::{CString, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

unsafe extern "C" {
    fn mount(s: *const c_char, t: *const c_char, f: *const c_char, n: c_ulong, d: *const c_void) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
    fn mmap(at: *mut c_void, n: usize, prot: c_int, flags: c_int, fd: c_int, off: i64) -> *mut c_void;
    fn ioperm(from: c_ulong, count: c_ulong, on: c_int) -> c_int;
    fn sched_setscheduler(pid: c_int, policy: c_int, param: *const c_int) -> c_int;
    fn unshare(flags: c_int) -> c_int;
    fn setns(fd: c_int, kind: c_int) -> c_int;
    fn dup2(from: c_int, to: c_int) -> c_int;
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, n: c_uint) -> c_int;
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, n: *mut c_uint) -> c_int;
    fn bind(fd: c_int, address: *const c_void, n: c_uint) -> c_int;
    fn connect(fd: c_int, address: *const c_void, n: c_uint) -> c_int;
    fn listen(fd: c_int, backlog: c_int) -> c_int;
    fn accept4(fd: c_int, address: *mut c_void, n: *mut c_uint, flags: c_int) -> c_int;
    fn send(fd: c_int, bytes: *const c_void, n: usize, flags: c_int) -> isize;
    fn recv(fd: c_int, bytes: *mut c_void, n: usize, flags: c_int) -> isize;
    fn shutdown(fd: c_int, how: c_int) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn ioctl(fd: c_int, request: c_ulong, ...) -> c_int;
    fn epoll_create1(flags: c_int) -> c_int;
    fn epoll_ctl(fd: c_int, op: c_int, of: c_int, event: *mut Event) -> c_int;
    fn clock_gettime(clock: c_int, time: *mut [i64; 2]) -> c_int;
    fn if_nametoindex(name: *const c_char) -> c_uint;
}

fn check(result: c_int) -> io::Result<c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

fn c_string(text: &str) -> io::Result<CString> {
    Ok(CString::new(text)?)
}

/// Mounts a file system of the kernel's.
pub fn mount_at(kind: &str, target: &str) -> io::Result<()> {
    let (kind, target) = (c_string(kind)?, c_string(target)?);
    // SAFETY: terminated strings, no data.
    check(unsafe { mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) })?;
    Ok(())
}

/// Loads a module of the kernel's.
pub fn load_module(file: &impl AsRawFd) -> io::Result<()> {
    const FINIT_MODULE: c_long = 313;
    // SAFETY: a descriptor, an empty terminated string, no flags.
    let result = unsafe { syscall(FINIT_MODULE, file.as_raw_fd(), c"".as_ptr(), 0) };
    check(result as c_int)?;
    Ok(())
}

/// The memory that is shared with the host.
pub struct Shared {
    base: *mut u8,
    pub size: usize,
}

impl Shared {
    /// Maps a file of that size.
    pub fn map(file: &impl AsRawFd, size: usize) -> io::Result<Self> {
        const READ_WRITE: c_int = 3;
        const SHARED: c_int = 1;
        // SAFETY: a fresh mapping that nothing else refers to; it is never undone.
        let base = unsafe { mmap(std::ptr::null_mut(), size, READ_WRITE, SHARED, file.as_raw_fd(), 0) };
        if base as isize == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: base.cast(), size })
    }

    pub fn word(&self, place: usize) -> u64 {
        assert!(place * 8 + 8 <= self.size);
        // SAFETY: within the mapping, aligned; the host writes it while the guest stands still.
        unsafe { self.base.cast::<u64>().add(place).read_volatile() }
    }

    pub fn set_word(&self, place: usize, value: u64) {
        assert!(place * 8 + 8 <= self.size);
        // SAFETY: as above.
        unsafe { self.base.cast::<u64>().add(place).write_volatile(value) }
    }

    pub fn read(&self, at: usize, bytes: &mut [u8]) {
        assert!(at.checked_add(bytes.len()).is_some_and(|end| end <= self.size));
        // SAFETY: within the mapping, and `bytes` is elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(self.base.add(at), bytes.as_mut_ptr(), bytes.len()) }
    }

    pub fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at.checked_add(bytes.len()).is_some_and(|end| end <= self.size));
        // SAFETY: within the mapping, and `bytes` is elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(at), bytes.len()) }
    }
}

const BPF: c_long = 321;

/// Creates a BPF map with one entry of that many bytes.
pub fn make_map(size: usize, entries: usize) -> io::Result<RawFd> {
    const CREATE: c_int = 0;
    const ARRAY: u32 = 2;
    // map_type, key_size, value_size, max_entries, map_flags
    let asked = [ARRAY, 4, size as u32, entries as u32, 0];
    // SAFETY: a bpf_attr of 20 bytes without pointers.
    check(unsafe { syscall(BPF, CREATE, &asked, size_of_val(&asked)) } as c_int)
}

/// Reads an entry of such a map, of its size.
pub fn get_entry(map: RawFd, key: u32, value: &mut [u8]) -> io::Result<()> {
    const LOOKUP: c_int = 1;
    // map_fd, key, value, flags
    let asked = [map as u64, &raw const key as u64, value.as_mut_ptr() as u64, 0];
    // SAFETY: a bpf_attr of 32 bytes that names a key and a value.
    check(unsafe { syscall(BPF, LOOKUP, &asked, size_of_val(&asked)) } as c_int)?;
    Ok(())
}

/// Sets an entry of such a map, of its size.
pub fn set_entry(map: RawFd, key: u32, value: &[u8]) -> io::Result<()> {
    const UPDATE: c_int = 2;
    // map_fd, key, value, flags
    let asked = [map as u64, &raw const key as u64, value.as_ptr() as u64, 0];
    // SAFETY: a bpf_attr of 32 bytes that names a key and a value.
    check(unsafe { syscall(BPF, UPDATE, &asked, size_of_val(&asked)) } as c_int)?;
    Ok(())
}

/// Loads a program that decides on packets.
pub fn load_classifier(instructions: &[u64]) -> io::Result<RawFd> {
    const LOAD: c_int = 5;
    const CLASSIFIER: u64 = 3;
    // prog_type and insn_cnt, insns, license, log_level and log_size, log_buf, kern_version and
    // prog_flags
    let kind = (instructions.len() as u64) << 32 | CLASSIFIER;
    let asked = [kind, instructions.as_ptr() as u64, c"GPL".as_ptr() as u64, 0, 0, 0];
    // SAFETY: a bpf_attr of 48 bytes that names as many instructions, and a terminated string.
    check(unsafe { syscall(BPF, LOAD, &asked, size_of_val(&asked)) } as c_int)
}

/// A ring buffer that BPF programs write (kernel.org, bpf/ringbuf.html).
pub struct Ring {
    consumed: *mut u64,
    produced: *const u64,
    data: *const u8,
    size: usize,
}

impl Ring {
    /// Opens the one pinned at that path, of that size.
    pub fn open(path: &str, size: usize) -> io::Result<Self> {
        const OBJ_GET: c_int = 7;
        const READ: c_int = 1;
        const SHARED: c_int = 1;
        const PAGE: usize = 4096;
        let path = c_string(path)?;
        let asked = [path.as_ptr() as u64, 0];
        // SAFETY: a bpf_attr of 16 bytes that names a terminated string.
        let fd = check(unsafe { syscall(BPF, OBJ_GET, &asked, size_of_val(&asked)) } as c_int)?;
        let map = |length: usize, protection: c_int, offset: usize| {
            // SAFETY: a fresh mapping that nothing else refers to; it is never undone.
            let at = unsafe { mmap(std::ptr::null_mut(), length, protection, SHARED, fd, offset as i64) };
            match at as isize {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(at),
            }
        };
        // The reader's position, the writer's, and the data, which are there twice in a row.
        let consumed = map(PAGE, READ | 2, 0)?.cast();
        let produced = map(PAGE + 2 * size, READ, PAGE)?;
        // SAFETY: the mapping is that long.
        let data = unsafe { produced.cast::<u8>().add(PAGE) };
        Ok(Self { consumed, produced: produced.cast(), data, size })
    }

    /// Takes the oldest entry, if one is complete.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        const HEADER: usize = 8;
        const BUSY: u32 = 1 << 31;
        const LENGTH: u32 = (1 << 30) - 1;
        // SAFETY: aligned words within the mappings, which programs of the kernel write.
        unsafe {
            let at = self.consumed.read_volatile();
            if at >= self.produced.read_volatile() {
                return None;
            }
            let entry = self.data.add(at as usize % self.size);
            let length = entry.cast::<u32>().read_volatile();
            if length & BUSY != 0 {
                return None;
            }
            let length = (length & LENGTH) as usize;
            let bytes = std::slice::from_raw_parts(entry.add(HEADER), length).to_vec();
            self.consumed.write_volatile(at + (HEADER + length).next_multiple_of(8) as u64);
            Some(bytes)
        }
    }
}

/// Starts a thread that uses up all idle time, and counts its rounds of 512 instructions in a word
/// of the shared memory. Without it the processor would halt, and the machine would advance its
/// clock by rules of the host's. It shares the address space of the rest: QEMU forgets every
/// translation when the processor changes to another.
pub fn never_idle(shared: &Shared, place: usize) {
    const SCHED_IDLE: c_int = 5;
    assert!(place * 8 + 8 <= shared.size);
    // SAFETY: within the mapping, which is never unmapped.
    let word = unsafe { shared.base.cast::<u64>().add(place) } as usize;
    std::thread::spawn(move || {
        let zero: c_int = 0;
        // SAFETY: sched_param is one int; 0 is this thread. The loop writes that word only, which
        // no other thread writes, and never ends.
        unsafe {
            sched_setscheduler(0, SCHED_IDLE, &zero);
            std::arch::asm!(
                "2:", ".rept 510", "nop", ".endr", "inc qword ptr [{word}]", "jmp 2b",
                word = in(reg) word, options(noreturn)
            )
        }
    });
}

/// Stops the machine until the host lets it continue.
pub fn stop_machine() {
    const PVPANIC: u16 = 0x505;
    // SAFETY: ioperm takes numbers only. The device behind the port pauses the machine; if the port
    // is not open, the instruction ends this program, and with it the guest. The port does not stay
    // open, because that makes each switch to a thread longer.
    unsafe {
        ioperm(PVPANIC.into(), 1, 1);
        std::arch::asm!("out dx, al", in("dx") PVPANIC, in("al") 1_u8);
        ioperm(PVPANIC.into(), 1, 0);
    }
}

/// Makes a network namespace and enters it.
pub fn new_network() -> io::Result<()> {
    const NEWNET: c_int = 0x4000_0000;
    // SAFETY: numbers only.
    check(unsafe { unshare(NEWNET) })?;
    Ok(())
}

/// Enters a namespace.
pub fn enter(fd: RawFd) -> io::Result<()> {
    // SAFETY: numbers only.
    check(unsafe { setns(fd, 0) })?;
    Ok(())
}

/// Gives a descriptor another number.
pub fn renumber(from: &impl AsRawFd, to: RawFd) -> io::Result<()> {
    // SAFETY: numbers only; nothing else has the new one.
    check(unsafe { dup2(from.as_raw_fd(), to) })?;
    Ok(())
}

/// Nanoseconds since the machine started.
pub fn now() -> u64 {
    const MONOTONIC: c_int = 1;
    clock(MONOTONIC)
}

/// Nanoseconds of real time, which runs as `now` does.
pub fn real_time() -> u64 {
    const REALTIME: c_int = 0;
    clock(REALTIME)
}

fn clock(number: c_int) -> u64 {
    let mut time = [0; 2];
    // SAFETY: a timespec is two longs.
    unsafe { clock_gettime(number, &mut time) };
    time[0] as u64 * 1_000_000_000 + time[1] as u64
}

const NONBLOCK: c_int = 0o4000;

/// Makes a socket that does not block.
pub fn make_socket(domain: c_int, kind: c_int, protocol: c_int) -> io::Result<RawFd> {
    // SAFETY: numbers only.
    check(unsafe { socket(domain, kind | NONBLOCK, protocol) })
}

/// Sets an option of a socket.
pub fn set_option(fd: RawFd, level: c_int, name: c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the value's own length.
    check(unsafe { setsockopt(fd, level, name, value.as_ptr().cast(), value.len() as c_uint) })?;
    Ok(())
}

/// Reads an option of a socket into `value`; returns its length.
pub fn option(fd: RawFd, level: c_int, name: c_int, value: &mut [u8]) -> io::Result<usize> {
    let mut length = value.len() as c_uint;
    // SAFETY: the value's own length.
    check(unsafe { getsockopt(fd, level, name, value.as_mut_ptr().cast(), &mut length) })?;
    Ok(length as usize)
}

/// sockaddr_in
pub fn address(ip: [u8; 4], port: u16) -> [u8; 16] {
    let mut address = [0; 16];
    address[..2].copy_from_slice(&2_u16.to_ne_bytes());
    address[2..4].copy_from_slice(&port.to_be_bytes());
    address[4..8].copy_from_slice(&ip);
    address
}

/// Binds a socket to an address of any kind.
pub fn bind_to(fd: RawFd, address: &[u8]) -> io::Result<()> {
    // SAFETY: the address's own length.
    check(unsafe { bind(fd, address.as_ptr().cast(), address.len() as c_uint) })?;
    Ok(())
}

/// Begins to connect.
pub fn connect_to(fd: RawFd, address: &[u8]) -> io::Result<()> {
    const IN_PROGRESS: i32 = 115;
    // SAFETY: the address's own length.
    match check(unsafe { connect(fd, address.as_ptr().cast(), address.len() as c_uint) }) {
        Err(error) if error.raw_os_error() == Some(IN_PROGRESS) => Ok(()),
        result => result.map(drop),
    }
}

/// Resets a connection.
pub fn reset(fd: RawFd) -> io::Result<()> {
    // AF_UNSPEC
    connect_to(fd, &[0; 16])
}

pub fn listen_at(fd: RawFd) -> io::Result<()> {
    // SAFETY: numbers only.
    check(unsafe { listen(fd, 1) })?;
    Ok(())
}

pub fn accept(fd: RawFd) -> io::Result<RawFd> {
    // SAFETY: no address is asked for.
    check(unsafe { accept4(fd, std::ptr::null_mut(), std::ptr::null_mut(), NONBLOCK) })
}

fn length(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Writes as much as a socket accepts.
pub fn write(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    const NOSIGNAL: c_int = 0x4000;
    // SAFETY: the bytes' own length.
    length(unsafe { send(fd, bytes.as_ptr().cast(), bytes.len(), NOSIGNAL) })
}

/// Reads from a socket.
pub fn read(fd: RawFd, bytes: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the bytes' own length.
    length(unsafe { recv(fd, bytes.as_mut_ptr().cast(), bytes.len(), 0) })
}

/// Packets that the kernel writes to shared memory (packet(7), PACKET_RX_RING, version 2): reading
/// one is no system call.
pub struct PacketRing {
    base: *mut u8,
    next: usize,
}

impl PacketRing {
    /// Each packet is cut to fit a frame: 66 bytes of head, Ethernet, IPv4 without options, TCP
    /// with all.
    const FRAME: usize = 192;
    const FRAMES: usize = Self::BLOCKS * Self::BLOCK / Self::FRAME;
    /// A whole number of frames, and of pages.
    const BLOCK: usize = 12 << 10;
    const BLOCKS: usize = 512;

    /// Makes a ring for a packet socket.
    pub fn new(fd: RawFd) -> io::Result<Self> {
        const PACKET: c_int = 263;
        const VERSION: c_int = 10;
        const RX_RING: c_int = 5;
        set_option(fd, PACKET, VERSION, &1_u32.to_ne_bytes())?;
        let sizes = [Self::BLOCK, Self::BLOCKS, Self::FRAME, Self::FRAMES];
        let asked: Vec<u8> = sizes.iter().flat_map(|size| (*size as u32).to_ne_bytes()).collect();
        set_option(fd, PACKET, RX_RING, &asked)?;
        let shared = Shared::map(&fd, Self::BLOCK * Self::BLOCKS)?;
        Ok(Self { base: shared.base, next: 0 })
    }

    /// The next packet's first bytes, and the nanoseconds of real time at which the kernel had it.
    pub fn take<'a>(&mut self, bytes: &'a mut [u8]) -> Option<(&'a [u8], u64)> {
        let at = self.next * Self::FRAME;
        // SAFETY: struct tpacket2_hdr begins each frame, and all frames are within the mapping. The
        // kernel does not touch a frame from the status 1 on until the status is 0 again; there is
        // one processor, so that the order of the accesses is that of the program.
        unsafe {
            let frame = self.base.add(at);
            let status = frame.cast::<u32>();
            if status.read_volatile() & 1 == 0 {
                return None;
            }
            let word = |place: usize| frame.cast::<u32>().add(place).read_volatile();
            let (kept, begin) = (word(2) as usize, (word(3) & 0xffff) as usize);
            let length = kept.min(bytes.len()).min(Self::FRAME.saturating_sub(begin));
            std::ptr::copy_nonoverlapping(frame.add(begin), bytes.as_mut_ptr(), length);
            let real = u64::from(word(4)) * 1_000_000_000 + u64::from(word(5));
            status.write_volatile(0);
            self.next = (self.next + 1) % Self::FRAMES;
            Some((&bytes[..length], real))
        }
    }
}

/// Drops up to `most` bytes that a TCP socket has (MSG_TRUNC of tcp(7)); returns how many.
pub fn discard(fd: RawFd, most: usize) -> io::Result<usize> {
    const TRUNC: c_int = 0x20;
    // SAFETY: with this flag TCP writes nothing.
    length(unsafe { recv(fd, std::ptr::null_mut(), most, TRUNC) })
}

/// No more will be written.
pub fn end_writing(fd: RawFd) -> io::Result<()> {
    const WRITE: c_int = 1;
    // SAFETY: numbers only.
    check(unsafe { shutdown(fd, WRITE) })?;
    Ok(())
}

pub fn close_fd(fd: RawFd) {
    // SAFETY: its owner gives it up.
    unsafe { close(fd) };
}

/// The index of a device.
pub fn device(name: &str) -> io::Result<u32> {
    let name = c_string(name)?;
    // SAFETY: a terminated string.
    match unsafe { if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        number => Ok(number),
    }
}

/// Sets one of a device's offloads (ethtool of linux/sockios.h).
pub fn set_offload(fd: RawFd, name: &str, command: u32, value: u32) -> io::Result<()> {
    const SIOCETHTOOL: c_ulong = 0x8946;
    let mut asked = [command, value];
    let mut request = [0_u8; 40];
    request[..name.len().min(15)].copy_from_slice(&name.as_bytes()[..name.len().min(15)]);
    request[16..24].copy_from_slice(&(&raw mut asked as usize).to_ne_bytes());
    // SAFETY: an ifreq whose pointer leads to an ethtool_value, both alive.
    check(unsafe { ioctl(fd, SIOCETHTOOL, request.as_mut_ptr()) })?;
    Ok(())
}

/// Seeds the kernel's random numbers, and makes them follow from the seed at once (random(4)).
pub fn seed_random(fd: &impl AsRawFd, seed: &[u8]) -> io::Result<()> {
    const RNDADDENTROPY: c_ulong = 0x4008_5203;
    const RNDRESEEDCRNG: c_ulong = 0x5207;
    let mut pool = (seed.len() as u32 * 8).to_ne_bytes().to_vec();
    pool.extend((seed.len() as u32).to_ne_bytes());
    pool.extend(seed);
    // SAFETY: a rand_pool_info with its own length.
    check(unsafe { ioctl(fd.as_raw_fd(), RNDADDENTROPY, pool.as_ptr()) })?;
    // SAFETY: no argument.
    check(unsafe { ioctl(fd.as_raw_fd(), RNDRESEEDCRNG) })?;
    Ok(())
}

/// struct epoll_event
#[derive(Clone, Copy)]
#[repr(C, packed)]
pub struct Event {
    pub events: u32,
    pub data: u64,
}

pub const READABLE: u32 = 1;
pub const WRITABLE: u32 = 4;

/// An epoll instance for sockets.
pub struct Poll(RawFd);

impl Poll {
    pub fn new() -> io::Result<Self> {
        // SAFETY: numbers only.
        Ok(Self(check(unsafe { epoll_create1(0) })?))
    }

    /// Waits for `events` of a socket from now on; `known` if it is already registered.
    pub fn watch(&self, fd: RawFd, events: u32, data: u64, known: bool) -> io::Result<()> {
        let (add, modify) = (1, 3);
        let mut event = Event { events, data };
        let op = if known { modify } else { add };
        // SAFETY: an event that lives.
        check(unsafe { epoll_ctl(self.0, op, fd, &mut event) })?;
        Ok(())
    }

    /// Waits for at most `time` nanoseconds.
    pub fn wait<'a>(&self, events: &'a mut [Event], time: u64) -> io::Result<&'a [Event]> {
        const EPOLL_PWAIT2: c_long = 441;
        let time = [(time / 1_000_000_000) as i64, (time % 1_000_000_000) as i64];
        // SAFETY: as many events as there is room for, a timespec, no signals.
        let count = unsafe {
            let none = std::ptr::null::<c_void>();
            syscall(EPOLL_PWAIT2, self.0, events.as_mut_ptr(), events.len(), &time, none, 8)
        };
        let count = check(count as c_int)?;
        Ok(&events[..count as usize])
    }
}
