//! Loses the packets of lists, one after the other: a BPF program at a device, which counts packets.

use std::io;
use std::os::fd::RawFd;

use crate::sys;
use crate::wire;

/// The word at the beginning of a list.
const HEAD: usize = 8;
/// At most as many lists are in the maps, where they take turns. So many changes while the packets
/// of one queue leave it are enough.
const TURNS: u32 = 8;

/// The maps: the lists; of each the packets counted and those that it is still for; the number of
/// the list in use.
pub struct Losses {
    lists: RawFd,
    counts: RawFd,
    current: RawFd,
    length: usize,
    /// The kind of the last list, and its number.
    kind: u64,
    last: u32,
    /// Packets that lists of the kind [`wire::SINGLE`] had before it.
    single: u64,
}

impl Losses {
    /// Loads the program of a direction ([`wire::Command::Losses`]).
    pub fn load(body: &[u8], direction: u16) -> io::Result<Self> {
        let (lists, rest) = split(body);
        let (all, list) = split(rest);
        let lists = lists.min(TURNS.into()) as usize;
        let losses = Self {
            lists: sys::make_map(list.len(), lists)?,
            counts: sys::make_map(16, lists)?,
            current: sys::make_map(8, 1)?,
            length: list.len(),
            kind: word(list),
            last: 0,
            single: 0,
        };
        sys::set_entry(losses.lists, 0, list)?;
        losses.set_counts(0, [0, u64::MAX])?;
        let bytes = (list.len() - HEAD.min(list.len())) as i32;
        let program = sys::load_classifier(&program(&losses, bytes, all != 0))?;
        sys::renumber(&program, wire::LOSSES_FD + i32::from(direction))?;
        Ok(losses)
    }

    /// The next list ([`wire::Command::LossesAt`]), for the packets behind the next `waiting` ones.
    pub fn change(&mut self, list: &[u8], waiting: u64) -> io::Result<()> {
        let mut current = [0; 8];
        sys::get_entry(self.current, 0, &mut current)?;
        let mut waiting = waiting;
        for earlier in u64::from_ne_bytes(current) as u32..self.last {
            waiting = waiting.saturating_sub(self.counts(earlier)?[1]);
        }
        let [count, _] = self.counts(self.last)?;
        self.set_counts(self.last, [count, waiting])?;
        if self.kind == wire::SINGLE {
            self.single = count + waiting;
        }
        let mut value = list.to_vec();
        value.resize(self.length, 0);
        self.kind = word(&value);
        self.last += 1;
        sys::set_entry(self.lists, self.last % TURNS, &value)?;
        let count = if self.kind == wire::BURSTS { 0 } else { self.single };
        self.set_counts(self.last, [count, u64::MAX])
    }

    fn counts(&self, list: u32) -> io::Result<[u64; 2]> {
        let mut value = [0; 16];
        sys::get_entry(self.counts, list % TURNS, &mut value)?;
        Ok([word(&value), word(&value[8..])])
    }

    fn set_counts(&self, list: u32, counts: [u64; 2]) -> io::Result<()> {
        sys::set_entry(self.counts, list % TURNS, counts.map(u64::to_ne_bytes).as_flattened())
    }
}

/// The first word, and what follows it.
pub fn split(bytes: &[u8]) -> (u64, &[u8]) {
    (word(bytes), bytes.get(8..).unwrap_or_default())
}

fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word))
}

/// An instruction (RFC 9669).
fn op(code: u8, to: u8, from: u8, offset: i16, value: i32) -> u64 {
    let registers = from << 4 | to;
    u64::from(code)
        | u64::from(registers) << 8
        | u64::from(offset as u16) << 16
        | u64::from(value as u32) << 32
}

/// Counts each packet with data, and each SYN, or `all`; drops it if its bit among `bytes` is set.
fn program(maps: &Losses, bytes: i32, all: bool) -> Vec<u64> {
    const MOVE: u8 = 0xbf;
    const SET: u8 = 0xb7;
    const ADD: u8 = 0x07;
    const ADD_REGISTER: u8 = 0x0f;
    const AND: u8 = 0x57;
    const SHIFT_RIGHT: u8 = 0x77;
    const SHIFT_RIGHT_BY: u8 = 0x7f;
    const MODULO: u8 = 0x97;
    const PACKET_BYTE: u8 = 0x30;
    const LOAD_BYTE: u8 = 0x71;
    const LOAD_WORD: u8 = 0x61;
    const LOAD_DOUBLE: u8 = 0x79;
    const STORE_WORD: u8 = 0x62;
    const STORE_REGISTER: u8 = 0x63;
    const IF_NOT: u8 = 0x55;
    const STORE_DOUBLE: u8 = 0x7b;
    const IF_BITS: u8 = 0x45;
    const IF_EQUAL: u8 = 0x15;
    const IF_AT_LEAST: u8 = 0x35;
    const IF_AT_LEAST_REGISTER: u8 = 0x3d;
    const MAP: u8 = 0x18;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    const LOOKUP: i32 = 1;
    const STACK: u8 = 10;
    /// A jump to the end; its distance is filled in below.
    const PASS: i16 = i16::MAX;
    // Ethernet and IPv4 without options, then TCP: its length in words, and its flags.
    const HEADERS: i32 = 14 + 20;
    const LENGTH: i32 = HEADERS + 12;
    const FLAGS: i32 = HEADERS + 13;
    const SYN: i32 = 2;
    let look_up = |map: RawFd| {
        [
            op(MOVE, 2, STACK, 0, 0),
            op(ADD, 2, 0, 0, -4),
            op(MAP, 1, 1, 0, map),
            0,
            op(CALL, 0, 0, 0, LOOKUP),
            op(IF_EQUAL, 0, 0, PASS, 0),
        ]
    };
    let mut program = vec![op(MOVE, 6, 1, 0, 0)];
    if !all {
        program.extend([
            op(PACKET_BYTE, 0, 0, 0, FLAGS),
            op(IF_BITS, 0, 0, 6, SYN),
            op(PACKET_BYTE, 0, 0, 0, LENGTH),
            op(SHIFT_RIGHT, 0, 0, 0, 2),
            op(AND, 0, 0, 0, 0x3c),
            op(ADD, 0, 0, 0, HEADERS),
            op(LOAD_WORD, 1, 6, 0, 0),
            op(IF_AT_LEAST_REGISTER, 0, 1, PASS, 0),
        ]);
    }
    // The key of the maps.
    program.push(op(STORE_WORD, STACK, 0, -4, 0));
    program.extend(look_up(maps.current));
    program.extend([
        op(MOVE, 8, 0, 0, 0),
        op(LOAD_DOUBLE, 1, 8, 0, 0),
        op(AND, 1, 0, 0, TURNS as i32 - 1),
        op(STORE_REGISTER, STACK, 1, -4, 0),
    ]);
    let counts = look_up(maps.counts);
    program.extend(counts);
    program.extend([
        op(MOVE, 9, 0, 0, 0),
        op(LOAD_DOUBLE, 1, 9, 8, 0),
        // The list has had its packets: the next one.
        op(IF_NOT, 1, 0, 8 + counts.len() as i16, 0),
        op(LOAD_DOUBLE, 1, 8, 0, 0),
        op(ADD, 1, 0, 0, 1),
        op(STORE_DOUBLE, 8, 1, 0, 0),
        op(AND, 1, 0, 0, TURNS as i32 - 1),
        op(STORE_REGISTER, STACK, 1, -4, 0),
    ]);
    program.extend(counts);
    program.extend([
        op(MOVE, 9, 0, 0, 0),
        op(LOAD_DOUBLE, 1, 9, 8, 0),
        op(IF_EQUAL, 1, 0, PASS, 0),
        op(ADD, 1, 0, 0, -1),
        op(STORE_DOUBLE, 9, 1, 8, 0),
    ]);
    program.extend(look_up(maps.lists));
    program.extend([
        op(MOVE, 7, 0, 0, 0),
        op(LOAD_DOUBLE, 1, 7, 0, 0),
        op(IF_EQUAL, 1, 0, PASS, 0),
        op(LOAD_DOUBLE, 1, 9, 0, 0),
        op(MOVE, 2, 1, 0, 0),
        op(ADD, 2, 0, 0, 1),
        op(STORE_DOUBLE, 9, 2, 0, 0),
        op(MODULO, 1, 0, 0, bytes.saturating_mul(8)),
        op(MOVE, 3, 1, 0, 0),
        op(SHIFT_RIGHT, 3, 0, 0, 3),
        op(IF_AT_LEAST, 3, 0, PASS, bytes),
        op(ADD_REGISTER, 7, 3, 0, 0),
        op(LOAD_BYTE, 4, 7, HEAD as i16, 0),
        op(AND, 1, 0, 0, 7),
        op(SHIFT_RIGHT_BY, 4, 1, 0, 0),
        op(AND, 4, 0, 0, 1),
        op(IF_EQUAL, 4, 0, PASS, 0),
        op(SET, 0, 0, 0, 2),
        op(EXIT, 0, 0, 0, 0),
    ]);
    let end = program.len();
    for (place, instruction) in program.iter_mut().enumerate() {
        if *instruction >> 16 & 0xffff == PASS as u64 {
            let distance = (end - place - 1) as u64;
            *instruction = *instruction & !(0xffff << 16) | distance << 16;
        }
    }
    program.extend([op(SET, 0, 0, 0, 0), op(EXIT, 0, 0, 0, 0)]);
    program
}
