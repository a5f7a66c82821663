//! Controllers from outside this program: classes in Python, and libraries behind the C header.

mod declared;
mod events;
mod library;
mod python;

use std::path::PathBuf;
use std::sync::Arc;

use paceline_experiment::{self as experiment, Guests};
use paceline_plugin::Library;
use paceline_record::GuestInfo;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use declared::Declared;
pub use events::{Ack, Config, Loss, Sent};
use library::LibraryGuest;
use python::PythonGuest;

/// A controller from outside this program, ready to be named in scenarios.
#[pyclass(frozen, module = "paceline._paceline", name = "Guest")]
pub struct PyGuest {
    guest: Arc<dyn experiment::Guest>,
    options: Vec<Declared>,
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
            guest: Arc::new(guest),
            options,
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
        let library = Library::vouched(&path);
        let library = library.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let found = match (which, library.controllers()) {
            (None, [only]) => Some(only),
            (None, several) => several.iter().find(|spec| spec.name == name),
            (Some(which), _) => library.find(which),
        };
        let Some(spec) = found else {
            let names: Vec<&str> = library.controllers().iter().map(|spec| spec.name).collect();
            let names = experiment::list(&names);
            return Err(PyValueError::new_err(format!(
                "it has the controllers {names}: name one of them"
            )));
        };
        let guest = LibraryGuest {
            info: GuestInfo {
                name,
                language: "c".into(),
                file,
                sha256,
            },
            spec: Arc::clone(spec),
        };
        let options = guest.options();
        Ok(Self {
            guest: Arc::new(guest),
            options,
        })
    }

    /// Its name in scenarios.
    #[getter]
    fn name(&self) -> &str {
        &self.guest.info().name
    }

    /// Its options.
    #[getter]
    fn options(&self) -> Vec<&str> {
        self.options.iter().map(|option| &*option.name).collect()
    }
}

/// These guests, by their names.
pub fn guests(given: &[PyRef<'_, PyGuest>]) -> Guests {
    let add = |guests: Guests, one: &PyRef<'_, PyGuest>| guests.with(Arc::clone(&one.guest));
    given.iter().fold(Guests::none(), add)
}
