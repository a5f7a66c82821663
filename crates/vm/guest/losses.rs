//! Loses the packets of a list: a BPF program at a device, which counts packets.

use std::io;
use std::os::fd::RawFd;

use crate::sys;
use crate::wire;

/// The word at the beginning of a list.
const HEAD: usize = 8;

/// The map with the list.
pub struct Losses {
    list: RawFd,
    length: usize,
}

impl Losses {
    /// Loads the program as [`wire::LOSSES_FD`].
    pub fn load(list: &[u8]) -> io::Result<Self> {
        let maps = Self { list: sys::make_map(list.len())?, length: list.len() };
        maps.set(list)?;
        let count = sys::make_map(8)?;
        let program = program(maps.list, count, (list.len() - HEAD.min(list.len())) as i32);
        let program = sys::load_classifier(&program)?;
        sys::renumber(&program, wire::LOSSES_FD)?;
        Ok(maps)
    }

    /// Sets the list; an empty one loses nothing.
    pub fn set(&self, list: &[u8]) -> io::Result<()> {
        let mut value = list.to_vec();
        value.resize(self.length, 0);
        sys::set_entry(self.list, &value)
    }
}

/// An instruction (RFC 9669).
fn op(code: u8, to: u8, from: u8, offset: i16, value: i32) -> u64 {
    let registers = from << 4 | to;
    u64::from(code)
        | u64::from(registers) << 8
        | u64::from(offset as u16) << 16
        | u64::from(value as u32) << 32
}

/// Counts each packet with data, and each SYN; drops it if its bit among `bytes` is set.
fn program(list: RawFd, count: RawFd, bytes: i32) -> Vec<u64> {
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
    let mut program = vec![
        op(MOVE, 6, 1, 0, 0),
        op(PACKET_BYTE, 0, 0, 0, FLAGS),
        op(IF_BITS, 0, 0, 6, SYN),
        op(PACKET_BYTE, 0, 0, 0, LENGTH),
        op(SHIFT_RIGHT, 0, 0, 0, 2),
        op(AND, 0, 0, 0, 0x3c),
        op(ADD, 0, 0, 0, HEADERS),
        op(LOAD_WORD, 1, 6, 0, 0),
        op(IF_AT_LEAST_REGISTER, 0, 1, PASS, 0),
        // The key of both maps.
        op(STORE_WORD, STACK, 0, -4, 0),
    ];
    program.extend(look_up(list));
    program.extend([
        op(MOVE, 7, 0, 0, 0),
        op(LOAD_DOUBLE, 1, 7, 0, 0),
        op(IF_EQUAL, 1, 0, PASS, 0),
    ]);
    program.extend(look_up(count));
    program.extend([
        op(LOAD_DOUBLE, 1, 0, 0, 0),
        op(MOVE, 2, 1, 0, 0),
        op(ADD, 2, 0, 0, 1),
        op(STORE_DOUBLE, 0, 2, 0, 0),
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
