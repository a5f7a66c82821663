//! The memory of a foreign controller.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::c_void;
use std::ptr::NonNull;

/// The memory of one state: plain data, which may be copied and moved and needs no call when it is given up.
#[derive(Debug)]
pub(crate) struct State {
    place: NonNull<u8>,
    layout: Layout,
}

impl State {
    /// Zeros of `layout`, whose size is not zero.
    pub fn new(layout: Layout) -> Self {
        // SAFETY: `Spec::checked` lets no layout of size zero pass.
        let place = unsafe { alloc_zeroed(layout) };
        match NonNull::new(place) {
            Some(place) => Self { place, layout },
            None => handle_alloc_error(layout),
        }
    }

    /// Where it is.
    pub fn place(&self) -> *mut c_void {
        self.place.as_ptr().cast()
    }
}

impl Clone for State {
    fn clone(&self) -> Self {
        let copy = Self::new(self.layout);
        // SAFETY: both places hold `layout.size()` bytes and are different.
        unsafe {
            self.place
                .copy_to_nonoverlapping(copy.place, self.layout.size());
        }
        copy
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: `new` got this place for this layout.
        unsafe { dealloc(self.place.as_ptr(), self.layout) }
    }
}

// SAFETY: the header has it that states share nothing, so that each may be used by any thread, one at a time.
unsafe impl Send for State {}
