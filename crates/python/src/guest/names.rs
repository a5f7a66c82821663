//! Names of guests' fields and states, which live as long as ours.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// A name that lives as long as the process. There are as many as guests have names of fields and states.
pub fn interned(name: &str) -> &'static str {
    static NAMES: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let names = names.get_or_insert_default();
    if let Some(known) = names.get(name) {
        return known;
    }
    let leaked: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(leaked);
    leaked
}
