//! The events of a controller in Python. Names end in their unit; `None` means not known.

use pyo3::prelude::*;

macro_rules! classes {
    ($($(#[$class_doc:meta])* $class:ident($event:ident: $source:ty) {
        $($(#[$doc:meta])* $name:ident: $kind:ty = $value:expr,)*
    })*) => {$(
        $(#[$class_doc])*
        #[pyclass(frozen, get_all, module = "paceline")]
        pub struct $class {
            $($(#[$doc])* $name: $kind,)*
        }

        impl From<&$source> for $class {
            fn from($event: &$source) -> Self {
                Self { $($name: $value,)* }
            }
        }
    )*};
}

paceline_experiment::guest_events!(classes);
