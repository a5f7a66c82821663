//! The data in the memory shared by host and guest. Both include this file.
//!
//! The memory begins with a header of 64-bit little-endian words, [`Header`]; the host's script
//! begins at [`SCRIPT`]. The guest's log begins where the script ends. Script and log are sequences
//! of records: a kind, a number, the length of the body, a time in nanoseconds, the body, and zeros
//! up to eight bytes.

/// The beginning of the memory when the guest is ready.
pub const MAGIC: u64 = u64::from_le_bytes(*b"pacelin1");

/// Words at the beginning of the memory, by index.
#[derive(Clone, Copy)]
#[repr(usize)]
pub enum Header {
    /// [`MAGIC`]; the guest writes it.
    Magic,
    /// The script's length in bytes; the host writes it.
    Script,
    /// The log's length in bytes; the guest writes it.
    Log,
    /// The elapsed time of the run in nanoseconds, updated from time to time; the guest writes it.
    Passed,
    /// [`State`]; the guest writes it.
    State,
    /// Number of rounds of the idle loop; the guest writes it.
    Idle,
    /// 1 if BBRv3 is registered in the guest's kernel; the guest writes it.
    Bbr3,
}

/// Why the guest has stopped the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum State {
    /// It waits for a script.
    Ready = 1,
    /// The log is full: the host takes it and lets the guest continue with an empty one.
    Full = 2,
    /// The run has ended.
    Done = 3,
    /// The run cannot continue; the last record of the log says why.
    Failed = 4,
}

/// In the initial file system: the program that registers a controller, and its input.
pub const LOAD: &str = "bpf/load";
/// The object of the controller.
pub const OBJECT: &str = "bpf/paceline_bbr3.o";
/// Its name.
pub const BBR3: &str = "paceline_bbr3";
/// The object that records the kernel's own controllers.
pub const RECORDER: &str = "bpf/paceline_stock.o";
/// Its ring buffer, in the guest.
pub const CALLS: &str = "/sys/fs/bpf/calls";
/// The size of that, in bytes.
pub const CALLS_SIZE: usize = 8 << 20;
/// The folder of the libraries that the program needs.
pub const LIBRARIES: &str = "lib";

/// The start of the script.
pub const SCRIPT: usize = 4096;
/// Instructions in a round of the idle loop: each takes a nanosecond of the guest's time.
pub const IDLE_ROUND: u64 = 512;

/// Declares the kinds of records.
macro_rules! kinds {
    ($($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $kind:ident = $value:literal,)* })*) => {
        $($(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u16)]
        pub enum $name {
            $($(#[$doc])* $kind = $value,)*
        }

        impl $name {
            /// The kind with a number.
            pub fn of(value: u16) -> Option<Self> {
                match value {
                    $($value => Some(Self::$kind),)*
                    _ => None,
                }
            }
        })*
    };
}

kinds! {
    /// The host's commands. Those without a time are done in order before the run begins.
    Command {
        /// In the namespace of that number: writes a file; the body is its path, a zero, its content.
        File = 1,
        /// In that namespace: sends a netlink message, and waits for its acknowledgment.
        Netlink = 2,
        /// In that namespace: turns off splitting and merging of segments for the device of that
        /// name.
        Plain = 3,
        /// A flow of that number: see [`FLOW_BODY`].
        Flow = 4,
        /// A netlink message to send in that namespace at each sample, for its reply.
        Query = 5,
        /// Seeds the kernel's random numbers.
        Seed = 6,
        /// Begins the run: the body is its duration and the time between samples.
        Begin = 7,
        /// Captures headers at the device of that namespace; the body is its name.
        Capture = 8,
        /// Records the calls of a controller's functions; the body is what their names begin with.
        Trace = 9,
        /// Registers the controller of an object; the body is the object.
        Controller = 10,
        /// Loads the program that loses packets in the direction of that number, as the descriptor
        /// [`LOSSES_FD`] plus the number. Body: how many lists of losses there will be, and whether
        /// packets without data count, as 64-bit words; the first list.
        Losses = 11,
        /// At a time: sends a netlink message in that namespace.
        At = 16,
        /// At a time: the flow connects.
        Connect = 17,
        /// At a time: the flow has this many bytes more to write.
        Write = 18,
        /// At a time: the flow always has more to write.
        Unlimited = 19,
        /// At a time: the flow writes nothing more than it has.
        Pause = 20,
        /// At a time: the flow ends when everything is written.
        Close = 21,
        /// At a time: the flow is reset.
        Stop = 22,
        /// At a time, in the direction of that number. Body: whether it is not for the packets that
        /// wait, as a 64-bit word; the list of losses, of the same length as the first, or empty:
        /// none is lost.
        LossesAt = 23,
    }

    /// The guest's reports.
    Report {
        /// The flow has begun to connect.
        Start = 1,
        /// It is open.
        Established = 2,
        /// Its state: bytes that the receiver has, lengths of TCP_INFO and TCP_CC_INFO, both.
        Sample = 3,
        /// Its receiver has everything, and had the last at that time.
        Finish = 4,
        /// It was reset.
        Stop = 5,
        /// It broke: the system's error number.
        Broken = 6,
        /// The reply to the query of that number.
        Reply = 7,
        /// A command of the script failed: its place in the script, the system's error number.
        CommandFailed = 8,
        /// A packet at the capture of that number: its headers, from Ethernet on.
        Packet = 9,
        /// The number of rounds of the idle loop.
        Idle = 10,
        /// The counters of TCP in the namespace of that number, as in /proc/net/netstat.
        Counters = 11,
        /// A call of a controller's function, before or after it, as the recorder wrote it.
        Call = 12,
    }
}

/// Body of [`Command::Flow`]: the receiver's address in four bytes; as 32-bit words the limit of unsent
/// bytes and the window's clamp (0 for none), and [`PACED`] and [`UP`]; the controller's name.
pub const FLOW_BODY: usize = 16;
/// The stack paces the flow, whatever its controller.
pub const PACED: u32 = 1;
/// The flow's sender is on the receivers' host.
pub const UP: u32 = 2;

/// The system's error number with which the guest reports that the kernel refuses a BPF program
/// (EOPNOTSUPP).
pub const REFUSES_PROGRAM: i32 = 95;

/// The descriptor in the guest of the program that loses packets on the way there; that of the way
/// back is the next.
///
/// A list of losses is a word, and then a bit for each packet. The word is 0 if none is lost,
/// [`SINGLE`] or [`BURSTS`].
pub const LOSSES_FD: i32 = 110;
/// The number of queries of each direction.
pub const QUERIES: usize = 3;
/// Each packet is lost or not, independently: lists of this kind are one sequence.
pub const SINGLE: u64 = 1;
/// Losses in bursts: the sequence begins with the list.
pub const BURSTS: u64 = 2;

/// The namespaces, by number.
pub const SENDERS: u16 = 0;
/// In front of the bottleneck.
pub const ROUTER: u16 = 1;
/// Behind it, where packets take their time.
pub const DELAY: u16 = 2;
/// The receivers' host.
pub const RECEIVERS: u16 = 3;
/// Number of namespaces.
pub const NAMESPACES: u16 = 4;
/// The descriptor of a namespace in the guest: this and its number.
pub const NAMESPACE_FD: i32 = 100;
/// The port on which receivers listen.
pub const PORT: u16 = 5001;

/// A record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// [`Command`] or [`Report`].
    pub kind: u16,
    /// The namespace, flow, query or capture.
    pub number: u16,
    /// Nanoseconds of the run.
    pub at: u64,
    /// The content, which depends on the kind.
    pub body: &'a [u8],
}

const HEAD: usize = 16;

impl<'a> Record<'a> {
    /// Its size in bytes.
    pub fn size(&self) -> usize {
        HEAD + self.body.len().next_multiple_of(8)
    }

    /// Its header.
    pub fn head(&self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..2].copy_from_slice(&self.kind.to_le_bytes());
        head[2..4].copy_from_slice(&self.number.to_le_bytes());
        head[4..8].copy_from_slice(&(self.body.len() as u32).to_le_bytes());
        head[8..].copy_from_slice(&self.at.to_le_bytes());
        head
    }

    /// Takes the first record of `bytes`; none at the end, or if it is truncated.
    pub fn take(bytes: &mut &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
        let half = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let (_, time) = head.split_last_chunk::<8>()?;
        let padded = length.checked_next_multiple_of(8)?;
        let (body, rest) = rest.split_at_checked(padded)?;
        *bytes = rest;
        Some(Self {
            kind: half(0),
            number: half(2),
            at: u64::from_le_bytes(*time),
            body: body.get(..length)?,
        })
    }
}
