//! Text across the boundary, and options read from it.

use core::ffi::c_char;
use core::fmt::{self, Write};

use paceline_congestion::options::{OptionKind, OptionValue};
use paceline_units::{Bytes, Duration, Frequency, Gain, Rate, Size};

use crate::types::paceline_string;

impl paceline_string {
    /// `text`, which lives as long as the program.
    pub const fn of(text: &'static str) -> Self {
        Self {
            data: text.as_ptr().cast(),
            length: text.len(),
        }
    }

    /// No text.
    pub const EMPTY: Self = Self::of("");

    /// The text, if it is UTF-8.
    ///
    /// # Safety
    /// If `data` is not null, `length` bytes can be read there for as long as `'t`.
    pub unsafe fn text<'t>(self) -> Option<&'t str> {
        if self.data.is_null() {
            return (self.length == 0).then_some("");
        }
        // SAFETY: by this function's contract.
        let bytes = unsafe { core::slice::from_raw_parts(self.data.cast::<u8>(), self.length) };
        core::str::from_utf8(bytes).ok()
    }
}

/// The `count` values from `first` on, which may be null if there are none.
///
/// # Safety
/// If `count` is not 0, as many values can be read there for as long as `'s`.
pub(crate) unsafe fn slice<'s, T>(first: *const T, count: usize) -> &'s [T] {
    match count {
        0 => &[],
        // SAFETY: by this function's contract.
        _ => unsafe { core::slice::from_raw_parts(first, count) },
    }
}

/// A message in memory of the caller: text that does not fit is left out, and a zero ends it.
pub(crate) struct Message<'m> {
    room: &'m mut [u8],
    used: usize,
}

impl<'m> Message<'m> {
    /// A message in `size` bytes at `place`, if there are any.
    ///
    /// # Safety
    /// If `place` is not null, `size` bytes can be written there for as long as `'m`.
    pub unsafe fn at(place: *mut c_char, size: usize) -> Self {
        let room: &mut [u8] = match place.is_null() {
            true => &mut [],
            // SAFETY: by this function's contract.
            false => unsafe {
                place.write_bytes(0, size);
                core::slice::from_raw_parts_mut(place.cast::<u8>(), size)
            },
        };
        Self { room, used: 0 }
    }

    /// Says why a call failed, and returns its status.
    pub fn refuse(&mut self, status: u32, why: impl fmt::Display) -> u32 {
        // Text that does not fit is left out; writing does not fail.
        let _ = write!(self, "{why}");
        status
    }
}

impl Write for Message<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // The last byte stays zero, and no character is split.
        let free = self.room.len().saturating_sub(self.used + 1);
        let mut length = text.len().min(free);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        if let (Some(room), Some(bytes)) = (
            self.room.get_mut(self.used..self.used + length),
            text.as_bytes().get(..length),
        ) {
            room.copy_from_slice(bytes);
            self.used += length;
        }
        Ok(())
    }
}

/// The value of `text` for an option of `kind`, within its bounds.
pub(crate) fn value(kind: OptionKind, text: &str) -> Option<OptionValue> {
    let value = match kind {
        OptionKind::Gain(..) => OptionValue::Gain(gain(text)?),
        OptionKind::Share | OptionKind::ShareAboveZero => {
            OptionValue::Share(Gain::parse(text).ok()?)
        }
        OptionKind::Count(..) => OptionValue::Count(text.parse().ok()?),
        OptionKind::Duration(..) => OptionValue::Duration(Duration::parse(text).ok()?),
        OptionKind::Bytes(..) => OptionValue::Bytes(match text {
            "infinite" => Bytes::INFINITE,
            _ => Bytes::parse(text).ok()?,
        }),
        OptionKind::Rate => OptionValue::Rate(Rate::parse(text).ok()?),
        OptionKind::Frequency => OptionValue::Frequency(Frequency::parse(text).ok()?),
        OptionKind::Size => OptionValue::Size(Size::parse_bdp(text).ok()?),
        OptionKind::Flag => OptionValue::Flag(text.parse().ok()?),
        OptionKind::Choice(words) => OptionValue::Choice(words.iter().find(|word| **word == text)?),
    };
    kind.accepts(&value).then_some(value)
}

/// A plain number such as `2.89`, in steps of a millionth.
fn gain(text: &str) -> Option<Gain> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 6 {
        return None;
    }
    let whole: u32 = whole.parse().ok()?;
    let mut millionths = 0;
    for place in 0..6 {
        let digit = part.as_bytes().get(place).map_or(0, |byte| byte - b'0');
        millionths = millionths * 10 + u32::from(digit);
    }
    Some(Gain::from_millionths(
        whole.checked_mul(Gain::SCALE)?.checked_add(millionths)?,
    ))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use paceline_congestion::controllers;
    use std::format;

    use super::*;

    /// Every default that an option shows can be written.
    #[test]
    fn every_default_is_read_back() {
        for spec in controllers() {
            for option in spec.options() {
                let text = format!("{}", option.default);
                assert_eq!(
                    value(option.kind, &text),
                    Some(option.default),
                    "{} {} {text}",
                    spec.name,
                    option.name
                );
            }
        }
    }

    #[test]
    fn numbers_are_read_exactly() {
        let millionths = |text| gain(text).map(Gain::millionths);
        assert_eq!(millionths("2.89"), Some(2_890_000));
        assert_eq!(millionths("2"), Some(2_000_000));
        assert_eq!(millionths("0.000001"), Some(1));
        assert_eq!(millionths("4294.967295"), Some(u32::MAX));
        for wrong in [
            "",
            ".5",
            "-1",
            "1e3",
            "0.0000001",
            "4294.967296",
            "2,89",
            "1.2.3",
            "99999999999",
        ] {
            assert_eq!(millionths(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_message_is_cut_at_a_character_and_ends() {
        let mut room = [1 as c_char; 8];
        {
            // SAFETY: the array has 8 bytes.
            let mut message = unsafe { Message::at(room.as_mut_ptr(), room.len()) };
            write!(message, "about µs").expect("never fails");
        }
        assert_eq!(room.map(|c| c as u8), *b"about \0\0");
        // SAFETY: no options are given.
        let mut none = unsafe { Message::at(core::ptr::null_mut(), 8) };
        write!(none, "nobody listens").expect("never fails");
    }
}
