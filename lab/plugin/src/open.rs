//! Opening a library and reading its tables.

use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::path::Path;

use paceline_capi::types::{PACELINE_BAD_POINTER, PACELINE_OK, paceline_option, paceline_string};

use crate::PluginError;

/// The maximum number of entries of one kind: an endless list is broken.
const MOST: usize = 1000;
/// The largest state.
const MAX_STATE: usize = 64 << 20;

/// The longest message of a refusal.
pub(crate) const MESSAGE: usize = 512;

/// An error in a text.
pub(crate) const NOT_TEXT: &str = "a text is not UTF-8, or has control characters";

/// The function of this name in the shared library at `path`, which is never unloaded.
///
/// # Safety
/// It runs the library's code; a function of this name has type `F`.
pub(crate) unsafe fn function<F: Copy>(
    path: &Path,
    name: &'static str,
    header: &'static str,
) -> Result<F, PluginError> {
    // SAFETY: by this function's contract.
    let library = unsafe { libloading::Library::new(path) }.map_err(PluginError::Open)?;
    // SAFETY: by this function's contract.
    let symbol = unsafe { library.get::<F>(name.as_bytes()) };
    let symbol = *symbol.map_err(|_| PluginError::NotOurs {
        function: name,
        header,
    })?;
    // The library's texts and functions are used from now on.
    std::mem::forget(library);
    Ok(symbol)
}

/// The memory of a state.
pub(crate) fn layout(size: usize, align: usize) -> Result<Layout, &'static str> {
    if size > MAX_STATE {
        return Err("`state_size` is above 64 MiB");
    }
    // An allocation needs a byte.
    Layout::from_size_align(size.max(1), align).map_err(|_| "`state_align` is not a power of two")
}

/// The name of a controller or a transport.
///
/// # Safety
/// As [`line`].
pub(crate) unsafe fn identifier(string: paceline_string) -> Result<&'static str, &'static str> {
    // SAFETY: by this function's contract.
    let name = unsafe { line(string) }.ok_or(NOT_TEXT)?;
    match is_identifier(name) {
        true => Ok(name),
        false => Err("its name is not of letters, digits, `-`, `_`, `+` and `.`"),
    }
}

pub(crate) fn is_identifier(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_+.".contains(&byte);
    !name.is_empty() && name.bytes().all(allowed)
}

/// Calls an `init` with options as a scenario writes them, and room for its message; the error that it returned.
pub(crate) fn initialise(
    name: &'static str,
    options: &[(&str, &str)],
    init: impl FnOnce(&[paceline_option], &mut [u8]) -> Option<u32>,
) -> Result<(), PluginError> {
    let options: Vec<paceline_option> = options
        .iter()
        .map(|(name, value)| paceline_option {
            name: string(name),
            value: string(value),
        })
        .collect();
    let mut message = [0u8; MESSAGE];
    let status = init(&options, &mut message).unwrap_or(PACELINE_BAD_POINTER);
    if status == PACELINE_OK {
        return Ok(());
    }
    Err(PluginError::Refused {
        name,
        message: text_of(&message).unwrap_or_else(|| format!("status {status}, without a reason")),
    })
}

/// What a library has written into the room for a message, if anything.
pub(crate) fn text_of(message: &[u8]) -> Option<String> {
    let text = message.split(|byte| *byte == 0).next()?;
    let text = String::from_utf8_lossy(text).replace(char::is_control, "?");
    (!text.is_empty()).then_some(text)
}

/// `text` for the time of a call.
pub(crate) fn string(text: &str) -> paceline_string {
    paceline_string {
        data: text.as_ptr().cast(),
        length: text.len(),
    }
}

/// The tables that `get` returns from index 0 on, until it returns nothing, or too many.
///
/// # Safety
/// `get` writes a `T` or nothing, and all zeros is a valid `T`.
pub(crate) unsafe fn listed<T>(mut get: impl FnMut(usize, *mut T) -> u32) -> Vec<T> {
    let mut entries = Vec::new();
    while entries.len() < MOST {
        let mut one = MaybeUninit::<T>::zeroed();
        if get(entries.len(), one.as_mut_ptr()) != PACELINE_OK {
            break;
        }
        // SAFETY: by this function's contract.
        entries.push(unsafe { one.assume_init() });
    }
    entries
}

/// A one-line text of a library.
///
/// # Safety
/// If it is not null, it can be read as long as the process lives.
pub(crate) unsafe fn line(string: paceline_string) -> Option<&'static str> {
    // SAFETY: by this function's contract.
    let text = unsafe { string.text::<'static>() }?;
    (!text.chars().any(char::is_control)).then_some(text)
}

/// The same, of something that must have a name.
///
/// # Safety
/// As [`line`].
pub(crate) unsafe fn named(string: paceline_string) -> Option<&'static str> {
    // SAFETY: by this function's contract.
    unsafe { line(string) }.filter(|name| !name.is_empty())
}
