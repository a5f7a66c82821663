//! The description of a library's controller.

use std::alloc::Layout;

use paceline_capi::types::*;
use paceline_congestion::{Field, Quantity};

use crate::PluginError;
use crate::open::{NOT_TEXT, identifier, layout, line, listed, named};

/// The description of a library's controller.
#[derive(Debug)]
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// A one-line description.
    pub summary: &'static str,
    /// The document it implements.
    pub source: &'static str,
    /// Its options: name and description.
    pub options: Vec<(&'static str, &'static str)>,
    /// The states of its state machine.
    pub phases: Vec<&'static str>,
    /// The fields of its state.
    pub fields: Vec<Field>,
    pub(crate) table: paceline_controller,
    pub(crate) layout: Layout,
}

// SAFETY: the header guarantees that tables are never written and that any thread may call their
// functions.
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
            return Err(PluginError::Version {
                found: table.abi_version,
                ours: PACELINE_ABI_VERSION,
            });
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
        let layout = layout(table.state_size, table.state_align).map_err(wrong)?;
        // SAFETY: by this function's contract.
        let text = |string| unsafe { line(string) }.ok_or(NOT_TEXT);
        // SAFETY: by this function's contract.
        let name = unsafe { identifier(table.name) }.map_err(wrong)?;
        let mut spec = Self {
            name,
            summary: text(table.summary).map_err(wrong)?,
            source: text(table.source).map_err(wrong)?,
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

fn quantity(number: u32) -> Option<Quantity> {
    Some(match number {
        PACELINE_BYTES => Quantity::Bytes,
        PACELINE_BITS_PER_SECOND => Quantity::Rate,
        PACELINE_NANOSECONDS => Quantity::Duration,
        PACELINE_MILLIONTHS => Quantity::Gain,
        PACELINE_PACKETS => Quantity::Packets,
        PACELINE_COUNT => Quantity::Count,
        PACELINE_FLAG => Quantity::Flag,
        PACELINE_NUMBER => Quantity::Number,
        _ => return None,
    })
}
