//! Transports of a library, and their ends as [`Endpoint`]s.

use std::alloc::Layout;
use std::ffi::c_char;
use std::fmt;
use std::mem::size_of;
use std::path::Path;
use std::sync::Arc;

use paceline_capi::stack::*;
use paceline_capi::types::*;
use paceline_capi::{EndConfig, codepoint, ecn};
use paceline_endpoint::{Amount, Batch, Datagram, Endpoint, Stats, Write};
use paceline_units::Instant;

use crate::PluginError;
use crate::open::{
    MESSAGE, NOT_TEXT, function, identifier, initialise, is_identifier, layout, line, listed,
    named, string, text_of,
};
use crate::state::State;

/// The error in the names of controllers.
const NOT_CONTROLLERS: &str = "the names of its controllers are not of letters, digits, `-`, `_`, `+` and `.`, with commas in between";

/// The most that a batch may hold.
const MAX_BATCH: u32 = 1 << 20;

type Get = unsafe extern "C" fn(usize, *mut paceline_stack, usize) -> u32;

/// The description of a library's transport.
#[derive(Debug)]
pub struct Transport {
    /// Its name.
    pub name: &'static str,
    /// A one-line description.
    pub summary: &'static str,
    /// The version of the transport.
    pub version: &'static str,
    /// The names of its own controllers; empty if it has none to choose from.
    pub controllers: Vec<&'static str>,
    /// Its controllers' options, name and description; none if it does not say which it has.
    pub options: Option<Vec<(&'static str, &'static str)>>,
    table: paceline_stack,
    layout: Layout,
}

// SAFETY: the header guarantees that tables are never written and that any thread may call their
// functions.
unsafe impl Send for Transport {}
// SAFETY: as above.
unsafe impl Sync for Transport {}

impl Transport {
    /// The transports of the shared library at `path`, which stays loaded until the process ends.
    ///
    /// # Errors
    /// If it cannot be loaded, or holds no transports of this interface's version.
    ///
    /// # Safety
    /// It runs the library's code, which has to keep the contract of `paceline_endpoint.h`.
    pub unsafe fn open(path: &Path) -> Result<Vec<Arc<Self>>, PluginError> {
        // SAFETY: a function of this name has this type, by this function's contract.
        unsafe {
            let get = function::<Get>(path, "paceline_stack_get", "paceline_endpoint.h")?;
            Self::of(get)
        }
    }

    /// The transports that `get` gives: those of a library that is linked.
    ///
    /// # Errors
    /// If it gives none of this interface's version.
    ///
    /// # Safety
    /// As for [`open`](Self::open).
    pub unsafe fn of(get: Get) -> Result<Vec<Arc<Self>>, PluginError> {
        // SAFETY: by this function's contract; zeros are a table without functions.
        let tables = unsafe { listed(|index, out| get(index, out, size_of::<paceline_stack>())) };
        let checked = tables.into_iter().enumerate().map(|(index, table)| {
            // SAFETY: by this function's contract.
            unsafe { Self::checked(index, table) }.map(Arc::new)
        });
        let transports = checked.collect::<Result<Vec<_>, _>>()?;
        match transports.is_empty() {
            true => Err(PluginError::Table {
                index: 0,
                what: "there is none",
            }),
            false => Ok(transports),
        }
    }

    /// [`open`](Self::open) for a library that somebody vouches for: who names a file as the stack to run wants its
    /// code to be run. Nothing else may call this, and nothing that a scenario or a record says.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn vouched(path: &Path) -> Result<Vec<Arc<Self>>, PluginError> {
        // SAFETY: whoever named the library is responsible for what it does.
        unsafe { Self::open(path) }
    }

    /// Whether its ends report the states of their controllers.
    pub fn reports_states(&self) -> bool {
        self.table.phase.is_some()
    }

    /// The transport of a table.
    ///
    /// # Safety
    /// The table keeps the contract of the header, and lives as long as the process.
    unsafe fn checked(index: usize, table: paceline_stack) -> Result<Self, PluginError> {
        let wrong = |what| PluginError::Table { index, what };
        if !(1..=PACELINE_ENDPOINT_ABI_VERSION).contains(&table.abi_version) {
            return Err(PluginError::Version {
                found: table.abi_version,
                ours: PACELINE_ENDPOINT_ABI_VERSION,
            });
        }
        if table.init.is_none()
            || table.receive.is_none()
            || table.on_timer.is_none()
            || table.poll_transmit.is_none()
            || table.next_timer.is_none()
            || table.write.is_none()
            || table.delivered.is_none()
            || table.stats.is_none()
        {
            return Err(wrong("a function other than `fini` is null"));
        }
        if table.max_batch_bytes == 0 || table.max_batch_bytes > MAX_BATCH {
            return Err(wrong("`max_batch_bytes` is zero or above 1 MiB"));
        }
        // SAFETY: by this function's contract.
        let text = |string| unsafe { line(string) }.ok_or_else(|| wrong(NOT_TEXT));
        let controllers = text(table.controllers)?.split(',');
        let controllers: Vec<_> = controllers.filter(|name| !name.is_empty()).collect();
        if !controllers.iter().all(|name| is_identifier(name)) {
            return Err(wrong(NOT_CONTROLLERS));
        }
        let options = table.option.map(|get| {
            // SAFETY: by this function's contract; zeros are an option without a text.
            let entries = unsafe { listed(|index, out| get(&raw const table, index, out)) };
            let option = |option: &paceline_option_info| {
                // SAFETY: by this function's contract.
                unsafe { Some((named(option.name)?, line(option.about)?)) }
            };
            let options: Option<Vec<_>> = entries.iter().map(option).collect();
            options.ok_or_else(|| wrong("an option without a name"))
        });
        Ok(Self {
            controllers,
            options: options.transpose()?,
            // SAFETY: by this function's contract.
            name: unsafe { identifier(table.name) }.map_err(wrong)?,
            summary: text(table.summary)?,
            version: text(table.version)?,
            layout: layout(table.state_size, table.state_align).map_err(wrong)?,
            table,
        })
    }
}

/// One end of a connection of a library's transport.
pub struct End {
    transport: Arc<Transport>,
    state: State,
    /// The buffer for batches.
    room: Vec<u8>,
    /// The time of the last step.
    now: Instant,
    /// Datagrams that wait for their departure, and when that is.
    waiting: Option<(Instant, Batch<Vec<u8>>)>,
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("End")
            .field("transport", &self.transport.name)
            .finish_non_exhaustive()
    }
}

impl End {
    /// A new end, with options as in a scenario.
    ///
    /// # Errors
    /// If the transport refuses the configuration or an option.
    pub fn build(
        transport: &Arc<Transport>,
        config: &EndConfig<'_>,
        options: &[(&str, &str)],
    ) -> Result<Self, PluginError> {
        if let Some(known) = &transport.options {
            let has = |name: &str| known.iter().any(|(known, _)| *known == name);
            if let Some((name, _)) = options.iter().find(|(name, _)| !has(name)) {
                let known: Vec<_> = known.iter().map(|(name, _)| *name).collect();
                return Err(PluginError::Refused {
                    name: transport.name,
                    message: match known.is_empty() {
                        true => format!("it has no options, and `{name}` was given"),
                        false => format!("it has no option `{name}`; it has {}", known.join(", ")),
                    },
                });
            }
        }
        let state = State::new(transport.layout);
        let given = paceline_end_config {
            sends: config.sends.into(),
            reserved: [0; 3],
            max_datagram_bytes: config.max_datagram,
            seed: config.seed,
            now_ns: config.now.as_nanos(),
            controller: string(config.controller),
        };
        initialise(transport.name, options, |options, message| {
            let init = transport.table.init?;
            // SAFETY: the state has the size and alignment that the table asks for; everything else
            // lives until the call has returned.
            Some(unsafe {
                init(
                    &raw const transport.table,
                    state.place(),
                    &raw const given,
                    options.as_ptr(),
                    options.len(),
                    message.as_mut_ptr().cast::<c_char>(),
                    message.len(),
                )
            })
        })?;
        let room = transport.table.max_batch_bytes.max(config.max_datagram);
        Ok(Self {
            transport: Arc::clone(transport),
            state,
            room: vec![0; room as usize],
            now: config.now,
            waiting: None,
        })
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(fini) = self.transport.table.fini {
            // SAFETY: `init` made the state, which is not used after this.
            unsafe { fini(self.state.place()) };
        }
    }
}

/// Calls a function of the table; `Transport::checked` has verified that it is there.
macro_rules! call {
    ($end:ident.$function:ident($($argument:expr),*)) => {
        $end.transport.table.$function.map(|function| {
            // SAFETY: `init` made the state, nobody else uses it, and the pointers stay valid until
            // the call has returned.
            unsafe { function($end.state.place(), $($argument),*) }
        })
    };
}

impl Endpoint for End {
    type Payload = Vec<u8>;

    fn receive(&mut self, now: Instant, datagram: Datagram<Vec<u8>>) {
        self.now = now;
        let given = paceline_datagram {
            data: datagram.payload.as_ptr(),
            size_bytes: u32::try_from(datagram.payload.len()).unwrap_or(u32::MAX),
            ecn: datagram.ecn.map_or(PACELINE_ECN_UNKNOWN, codepoint),
        };
        call!(self.receive(now.as_nanos(), &raw const given));
    }

    fn on_timer(&mut self, now: Instant) {
        self.now = now;
        call!(self.on_timer(now.as_nanos()));
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Batch<Vec<u8>>> {
        self.now = now;
        if let Some((departs, batch)) = self.waiting.take() {
            if departs <= now {
                return Some(batch);
            }
            self.waiting = Some((departs, batch));
            return None;
        }
        let capacity = u32::try_from(self.room.len()).unwrap_or(u32::MAX);
        let mut batch = paceline_batch {
            data: self.room.as_mut_ptr(),
            capacity_bytes: capacity,
            size_bytes: 0,
            segment_size_bytes: 0,
            ecn: PACELINE_NOT_ECT,
            departs_ns: 0,
        };
        if call!(self.poll_transmit(now.as_nanos(), &raw mut batch))? == 0 {
            return None;
        }
        let size = batch.size_bytes.min(capacity);
        let departs = Instant::from_nanos(batch.departs_ns);
        let batch = Batch {
            payload: self.room.get(..size as usize)?.to_vec(),
            size,
            segment_size: batch.segment_size_bytes,
            ecn: ecn(batch.ecn),
        };
        if departs > now {
            self.waiting = Some((departs, batch));
            return None;
        }
        Some(batch)
    }

    fn next_timer(&mut self) -> Option<Instant> {
        let nanos = call!(self.next_timer())?;
        let own = (nanos != PACELINE_NONE).then(|| Instant::from_nanos(nanos));
        let Some((departs, _)) = self.waiting else {
            return own;
        };
        // A timer that is due wants to send more, which has to wait.
        Some(
            own.filter(|own| *own > self.now)
                .map_or(departs, |own| own.min(departs)),
        )
    }

    fn write(&mut self, now: Instant, write: Write) {
        let bytes = match write.amount {
            Amount::None => 0,
            // More than any writable size means that it never ends.
            Amount::Bytes(bytes) => bytes.min(PACELINE_UNLIMITED - 1),
            Amount::Unlimited => PACELINE_UNLIMITED,
        };
        let (stop, close) = (write.stop.into(), write.close.into());
        call!(self.write(now.as_nanos(), bytes, stop, close));
    }

    fn delivered(&self) -> u64 {
        call!(self.delivered()).unwrap_or_default()
    }

    fn stats(&self) -> Stats {
        let mut stats = paceline_stats::UNKNOWN;
        call!(self.stats(&raw mut stats));
        Stats {
            phase: self.phase(),
            ..Stats::from(&stats)
        }
    }

    fn phase(&self) -> &'static str {
        let Some(phase) = self.transport.table.phase else {
            return "";
        };
        // SAFETY: `init` made the state, and the text is never freed.
        unsafe { line(phase(self.state.place())) }.unwrap_or_default()
    }

    fn failure(&self) -> Option<String> {
        let failure = self.transport.table.failure?;
        let mut message = [0; MESSAGE];
        // SAFETY: `init` made the state, and the message lives until the call has ended.
        let failed = unsafe {
            let room = message.as_mut_ptr().cast::<c_char>();
            failure(self.state.place(), room, message.len())
        };
        (failed != 0).then(|| text_of(&message).unwrap_or_else(|| "it does not say why".to_owned()))
    }
}
