//! Controllers of a crate that links this one, exported through the table:
//! [`export!`](crate::export).

use core::marker::PhantomData;

use paceline_congestion::options::{OptionValue, Parameters};
use paceline_congestion::{Config, Controller, ControllerSpec, Described, Signals, Unmet};

use crate::table::{Family, copy};
use crate::types::paceline_controller;

/// A controller that [`export!`](crate::export) can export. It is plain data: it is never dropped.
pub trait Own: Described + Controller + Copy {
    /// Makes one.
    fn new(config: &Config, parameters: Self::Parameters) -> Self;
}

struct OwnFamily<C>(PhantomData<C>);

impl<C: Own> Family for OwnFamily<C> {
    type State = C;
    type Recipe = C::Parameters;

    fn recipe(_: &str, options: &[(&str, OptionValue)]) -> Option<Self::Recipe> {
        C::Parameters::with(options).ok()
    }

    fn check(recipe: &Self::Recipe, signals: Signals) -> Result<(), Unmet> {
        signals.check(C::NAME, C::needs(recipe))
    }

    fn build(recipe: Self::Recipe, config: &Config) -> Self::State {
        C::new(config, recipe)
    }
}

/// Fills `out` with the table of `C` if `index` is 0; `spec` describes it.
///
/// # Safety
/// `out` is writable for `out_size` bytes and aligned as a `paceline_controller`.
#[doc(hidden)]
pub unsafe fn get<C: Own>(
    spec: &'static ControllerSpec,
    index: usize,
    out: *mut paceline_controller,
    out_size: usize,
) -> u32 {
    // SAFETY: by this function's contract.
    unsafe { copy::<OwnFamily<C>>((index == 0).then_some(spec), out, out_size) }
}

/// Turns a `cdylib` into a library of one controller, which is an [`Own`](crate::Own): defines
/// `paceline_controller_get`.
///
/// The crate depends on this one without its default feature `library`, which defines that function
/// for our controllers.
#[macro_export]
macro_rules! export {
    ($controller:ty) => {
        /// The table of the controller, as in `paceline_controller.h`.
        ///
        /// # Safety
        /// `out` is writable for `out_size` bytes and aligned as a `paceline_controller`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn paceline_controller_get(
            index: usize,
            out: *mut $crate::types::paceline_controller,
            out_size: usize,
        ) -> u32 {
            static SPEC: $crate::ControllerSpec = $crate::ControllerSpec::of::<$controller>();
            // SAFETY: by this function's contract.
            unsafe { $crate::get::<$controller>(&SPEC, index, out, out_size) }
        }
    };
}
