//! The memory of a foreign controller.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::c_void;
use std::ptr::NonNull;

/// The memory of one state: plain data, which may be copied and moved and needs no call to release
/// it.
#[derive(Debug)]
pub(crate) struct State {
    place: NonNull<u8>,
    layout: Layout,
}

impl State {
    /// Zeros of `layout`, whose size is not zero.
    pub fn new(layout: Layout) -> Self {
        // SAFETY: `Spec::checked` rejects a layout of size zero.
        let place = unsafe { alloc_zeroed(layout) };
        match NonNull::new(place) {
            Some(place) => Self { place, layout },
            None => handle_alloc_error(layout),
        }
    }

    /// Its address.
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
        // SAFETY: `new` allocated this memory with this layout.
        unsafe { dealloc(self.place.as_ptr(), self.layout) }
    }
}

// SAFETY: the header guarantees that states share nothing, so that any thread may use each, one at
// a time.
unsafe impl Send for State {}
