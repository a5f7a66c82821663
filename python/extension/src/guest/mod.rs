//! Controllers from outside this program: classes in Python, and libraries behind the C header.

mod declared;
mod events;
mod library;
mod python;
mod stack;

use std::path::PathBuf;
use std::sync::Arc;

use paceline_experiment::{self as experiment, Guests};
use paceline_plugin::{Library, PluginError, Transport};
use paceline_record::GuestInfo;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use declared::Declared;
pub use events::{Ack, Config, Loss, Sent};
use library::LibraryGuest;
use python::PythonGuest;
use stack::LibraryStack;

/// A controller from outside this program, ready to be named in scenarios.
#[pyclass(frozen, module = "paceline._paceline", name = "Guest")]
pub struct PyGuest {
    kind: Kind,
}

enum Kind {
    Controller(Arc<dyn experiment::Guest>, Vec<Declared>),
    Stack(Arc<LibraryStack>),
}

#[pymethods]
impl PyGuest {
    /// A class that derives from `paceline.Controller`, with its options and the type of each:
    /// `flag`, `integer`, `number`, `text` or `any`.
    #[staticmethod]
    fn python(
        name: String,
        file: String,
        sha256: String,
        class: Py<PyAny>,
        options: Vec<(String, String)>,
    ) -> Self {
        let declared = options
            .into_iter()
            .map(|(name, kind)| Declared { name, kind });
        let options: Vec<Declared> = declared.collect();
        let language = "python".to_owned();
        let guest = PythonGuest {
            info: GuestInfo {
                name,
                language,
                file,
                sha256,
            },
            class,
            options: options.clone(),
        };
        Self {
            kind: Kind::Controller(Arc::new(guest), options),
        }
    }

    /// A controller of the shared library at `path`: the one called `which`, or its only one. Its
    /// code runs in this process. `ValueError` says why it cannot be used.
    #[staticmethod]
    fn library(
        name: String,
        file: String,
        sha256: String,
        path: PathBuf,
        which: Option<&str>,
    ) -> PyResult<Self> {
        let info = GuestInfo {
            name: name.clone(),
            language: "c".into(),
            file,
            sha256,
        };
        let kind = match Library::vouched(&path) {
            Ok(library) => {
                let all = library.controllers();
                let spec = chosen("controllers", all, &name, which, |spec| spec.name)?;
                let guest = LibraryGuest { info, spec };
                let options = guest.options();
                Kind::Controller(Arc::new(guest), options)
            }
            Err(error @ PluginError::NotOurs { .. }) => match Transport::vouched(&path) {
                Ok(all) => {
                    let transport = chosen("stacks", &all, &name, which, |one| one.name)?;
                    Kind::Stack(Arc::new(LibraryStack { info, transport }))
                }
                Err(PluginError::NotOurs { .. }) => return Err(load_error(&error)),
                Err(error) => return Err(load_error(&error)),
            },
            Err(error) => return Err(load_error(&error)),
        };
        Ok(Self { kind })
    }

    /// Its name in scenarios.
    #[getter]
    fn name(&self) -> &str {
        match &self.kind {
            Kind::Controller(guest, _) => &guest.info().name,
            Kind::Stack(stack) => &stack.info.name,
        }
    }

    /// Its options.
    #[getter]
    fn options(&self) -> Vec<&str> {
        match &self.kind {
            Kind::Controller(_, options) => options.iter().map(|option| &*option.name).collect(),
            Kind::Stack(_) => Vec::new(),
        }
    }

    /// The controllers of a transport, its version, a line about it, and its options with what they do; `None` of a
    /// controller.
    #[getter]
    fn stack(&self) -> Option<Described<'_>> {
        match &self.kind {
            Kind::Controller(..) => None,
            Kind::Stack(stack) => {
                let transport = &stack.transport;
                let controllers = transport.controllers.clone();
                let options = transport.options.clone().unwrap_or_default();
                Some((controllers, transport.version, transport.summary, options))
            }
        }
    }
}

/// The controllers of a transport, its version, a line about it, its options with what they do.
type Described<'t> = (Vec<&'t str>, &'t str, &'t str, Vec<(&'t str, &'t str)>);

fn load_error(error: &PluginError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The one called `which`, or the only one, or the one that is called as the guest is.
fn chosen<T>(
    what: &str,
    all: &[Arc<T>],
    guest: &str,
    which: Option<&str>,
    name: impl Fn(&T) -> &'static str,
) -> PyResult<Arc<T>> {
    let chosen = match (which, all) {
        (None, [only]) => Some(only),
        (which, _) => {
            let wanted = which.unwrap_or(guest);
            all.iter().find(|one| name(one) == wanted)
        }
    };
    chosen.cloned().ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|one| name(one)).collect();
        let names = experiment::list(&names);
        PyValueError::new_err(format!("it has the {what} {names}: name one of them"))
    })
}

/// These guests, by their names.
pub fn guests(given: &[PyRef<'_, PyGuest>]) -> Guests {
    let add = |guests: Guests, one: &PyRef<'_, PyGuest>| match &one.kind {
        Kind::Controller(guest, _) => guests.with(Arc::clone(guest)),
        Kind::Stack(stack) => guests.with_stack(Arc::<LibraryStack>::clone(stack)),
    };
    given.iter().fold(Guests::none(), add)
}
