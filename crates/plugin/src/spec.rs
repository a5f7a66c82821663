//! What a controller of a library says of itself.

use std::alloc::Layout;
use std::mem::MaybeUninit;

use paceline_capi::types::*;
use paceline_congestion::{Field, Quantity};

use crate::PluginError;

/// The most controllers, options, phases and fields that are asked for: what never ends is broken.
const MOST: usize = 1000;
/// The largest state.
const MAX_STATE: usize = 64 << 20;

/// A controller of a library: what it says of itself.
#[derive(Debug)]
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// The document it implements.
    pub source: &'static str,
    /// Its options: name, and what each does.
    pub options: Vec<(&'static str, &'static str)>,
    /// The states of its state machine.
    pub phases: Vec<&'static str>,
    /// The fields of its state.
    pub fields: Vec<Field>,
    pub(crate) table: paceline_controller,
    pub(crate) layout: Layout,
}

// SAFETY: the header has it that tables are never written and that their functions may be called by any thread.
unsafe impl Send for Spec {}
// SAFETY: as above.
unsafe impl Sync for Spec {}

impl Spec {
    /// The controller of a table.
    ///
    /// # Safety
    /// The table keeps the contract of the header, and lives as long as the process.
    pub(crate) unsafe fn checked(
        index: usize,
        table: paceline_controller,
    ) -> Result<Self, PluginError> {
        let wrong = |what| PluginError::Table { index, what };
        if table.abi_version != PACELINE_ABI_VERSION {
            return Err(PluginError::Version(table.abi_version));
        }
        if table.init.is_none()
            || table.on_ack.is_none()
            || table.outputs.is_none()
            || table.phase.is_none()
            || table.phase_name.is_none()
        {
            return Err(wrong(
                "`init`, `on_ack`, `outputs`, `phase` or `phase_name` is null",
            ));
        }
        if table.field.is_some() != table.values.is_some() {
            return Err(wrong(
                "one of `field` and `values` is null, the other is not",
            ));
        }
        if table.state_size > MAX_STATE {
            return Err(wrong("`state_size` is above 64 MiB"));
        }
        // An allocation needs a byte.
        let layout = Layout::from_size_align(table.state_size.max(1), table.state_align)
            .map_err(|_| wrong("`state_align` is not a power of two"))?;
        // SAFETY: by this function's contract.
        let text = |string| unsafe { line(string) };
        let not_text = || wrong("a text is not UTF-8, or has control characters");
        let name = text(table.name).ok_or_else(not_text)?;
        if name.is_empty()
            || !name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_+.".contains(&b))
        {
            return Err(wrong(
                "its name is not of letters, digits, `-`, `_`, `+` and `.`",
            ));
        }
        let mut spec = Self {
            name,
            summary: text(table.summary).ok_or_else(not_text)?,
            source: text(table.source).ok_or_else(not_text)?,
            options: Vec::new(),
            phases: Vec::new(),
            fields: Vec::new(),
            table,
            layout,
        };
        // SAFETY: by this function's contract.
        let lists = unsafe { spec.read_lists() };
        lists.ok_or_else(|| {
            wrong("an option, a phase or a field without a name, or a quantity of no meaning")
        })?;
        Ok(spec)
    }

    /// Reads options, phases and fields; none if one of them is wrong.
    ///
    /// # Safety
    /// As [`Self::checked`].
    unsafe fn read_lists(&mut self) -> Option<()> {
        let table = &raw const self.table;
        // SAFETY: by this function's contract; zeros are each of these without a text.
        let (options, phases, fields) = unsafe {
            (
                self.table
                    .option
                    .map(|get| listed(|index, out| get(table, index, out))),
                self.table
                    .phase_name
                    .map(|get| listed(|index, out| get(table, index, out))),
                self.table
                    .field
                    .map(|get| listed(|index, out| get(table, index, out))),
            )
        };
        for option in options.unwrap_or_default() {
            // SAFETY: by this function's contract.
            let (name, about) = unsafe { (named(option.name)?, line(option.about)?) };
            self.options.push((name, about));
        }
        for phase in phases.unwrap_or_default() {
            // SAFETY: by this function's contract.
            self.phases.push(unsafe { named(phase)? });
        }
        for field in fields.unwrap_or_default() {
            let field: paceline_field = field;
            // SAFETY: by this function's contract.
            let name = unsafe { named(field.name)? };
            let quantity = quantity(field.quantity)?;
            self.fields.push(Field { name, quantity });
        }
        Some(())
    }
}

/// What `get` gives from index 0 on, until it gives nothing, or too much.
///
/// # Safety
/// `get` writes a `T` or nothing, and zeros are a `T`.
pub(crate) unsafe fn listed<T>(mut get: impl FnMut(usize, *mut T) -> u32) -> Vec<T> {
    let mut found = Vec::new();
    while found.len() < MOST {
        let mut one = MaybeUninit::<T>::zeroed();
        if get(found.len(), one.as_mut_ptr()) != PACELINE_OK {
            break;
        }
        // SAFETY: by this function's contract.
        found.push(unsafe { one.assume_init() });
    }
    found
}

/// A text of one line that a library shows.
///
/// # Safety
/// If it is not null, it can be read as long as the process lives.
unsafe fn line(string: paceline_string) -> Option<&'static str> {
    // SAFETY: by this function's contract.
    let text = unsafe { string.text::<'static>() }?;
    (!text.chars().any(char::is_control)).then_some(text)
}

/// The same, of something that has to have a name.
///
/// # Safety
/// As [`line`].
unsafe fn named(string: paceline_string) -> Option<&'static str> {
    // SAFETY: by this function's contract.
    unsafe { line(string) }.filter(|name| !name.is_empty())
}

fn quantity(number: u32) -> Option<Quantity> {
    Some(match number {
        PACELINE_BYTES => Quantity::Bytes,
        PACELINE_BITS_PER_SECOND => Quantity::Rate,
        PACELINE_NANOSECONDS => Quantity::Duration,
        PACELINE_MILLIONTHS => Quantity::Gain,
        PACELINE_PACKETS => Quantity::Packets,
        PACELINE_COUNT => Quantity::Count,
        PACELINE_FLAG => Quantity::Flag,
        _ => return None,
    })
}
