//! A library of controllers.

use std::mem::size_of;
use std::path::Path;
use std::sync::Arc;

use paceline_capi::types::paceline_controller;

use crate::open::{function, listed};
use crate::{PluginError, Spec};

type Get = unsafe extern "C" fn(usize, *mut paceline_controller, usize) -> u32;

/// A library of controllers. It stays loaded until the process ends.
#[derive(Debug)]
pub struct Library {
    controllers: Vec<Arc<Spec>>,
}

impl Library {
    /// Loads the shared library at `path`.
    ///
    /// # Errors
    /// If it cannot be loaded, or holds no controllers of this interface's version.
    ///
    /// # Safety
    /// It runs the library's code, which has to keep the contract of `paceline_controller.h`.
    pub unsafe fn open(path: &Path) -> Result<Self, PluginError> {
        // SAFETY: a function of this name has this type, by this function's contract.
        let get =
            unsafe { function::<Get>(path, "paceline_controller_get", "paceline_controller.h") }?;
        // SAFETY: by this function's contract; it is never unloaded.
        unsafe { Self::of(get) }
    }

    /// [`open`](Self::open) for a library that a person vouches for: naming a file as the
    /// controller to run means to run its code. Nothing else may call this, in particular nothing
    /// controlled by a scenario or a record.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn vouched(path: &Path) -> Result<Self, PluginError> {
        // SAFETY: whoever named the library is responsible for its behaviour.
        unsafe { Self::open(path) }
    }

    /// The controllers that `get` returns.
    ///
    /// # Errors
    /// If it returns none, or one whose table is wrong.
    ///
    /// # Safety
    /// `get` is a `paceline_controller_get` that keeps the contract of the header, and the tables
    /// that it returns live as long as the process.
    pub unsafe fn of(get: Get) -> Result<Self, PluginError> {
        // SAFETY: by this function's contract; all zeros is a table without functions.
        let tables =
            unsafe { listed(|index, out| get(index, out, size_of::<paceline_controller>())) };
        let checked = tables.into_iter().enumerate().map(|(index, table)| {
            // SAFETY: by this function's contract.
            unsafe { Spec::checked(index, table) }.map(Arc::new)
        });
        let controllers = checked.collect::<Result<Vec<_>, _>>()?;
        match controllers.is_empty() {
            true => Err(PluginError::Table {
                index: 0,
                what: "there is none",
            }),
            false => Ok(Self { controllers }),
        }
    }

    /// Its controllers.
    pub fn controllers(&self) -> &[Arc<Spec>] {
        &self.controllers
    }

    /// The controller of this name.
    pub fn find(&self, name: &str) -> Option<&Arc<Spec>> {
        self.controllers.iter().find(|spec| spec.name == name)
    }
}
