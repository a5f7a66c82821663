//! Registers a controller of a BPF object in the guest's kernel, and ends: the registration stays.
//!
//! A separate program. It opens libbpf, which comes from the host's installation, so that the
//! guest's own program stays static and nothing of libbpf is needed to compile either. Without
//! Rust's library it needs only the C library.

#![no_std]
#![no_main]

use core::ffi::{CStr, c_char, c_int, c_void};

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn perror(what: *const c_char);
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Reports what failed, with the C library's reason; returns the exit code.
fn failed(what: &CStr) -> c_int {
    // SAFETY: a terminated string.
    unsafe { perror(what.as_ptr()) };
    1
}

/// `load OBJECT NAME`
///
/// # Safety
/// The C library calls it, with its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn main(count: c_int, arguments: *const *const c_char) -> c_int {
    const NOW: c_int = 2;
    if count != 3 {
        return 2;
    }
    // SAFETY: there are three, and functions of libbpf are called as libbpf.h declares them.
    unsafe {
        let (object, name) = (*arguments.add(1), *arguments.add(2));
        let library = dlopen(c"libbpf.so.1".as_ptr(), NOW);
        if library.is_null() {
            return failed(c"open libbpf");
        }
        let symbol = |name: &CStr| dlsym(library, name.as_ptr());
        let symbols = [
            symbol(c"bpf_object__open"),
            symbol(c"bpf_object__load"),
            symbol(c"bpf_object__find_map_by_name"),
            symbol(c"bpf_map__attach_struct_ops"),
            symbol(c"bpf_link__disconnect"),
        ];
        if symbols.iter().any(|symbol| symbol.is_null()) {
            return failed(c"find the functions of libbpf");
        }
        let [open, load, find, attach, disconnect] = symbols;
        let open: extern "C" fn(*const c_char) -> *mut c_void = core::mem::transmute(open);
        let load: extern "C" fn(*mut c_void) -> c_int = core::mem::transmute(load);
        let find: extern "C" fn(*mut c_void, *const c_char) -> *mut c_void = core::mem::transmute(find);
        let attach: extern "C" fn(*mut c_void) -> *mut c_void = core::mem::transmute(attach);
        let disconnect: extern "C" fn(*mut c_void) = core::mem::transmute(disconnect);

        let opened = open(object);
        if opened.is_null() {
            return failed(c"open the object");
        }
        if load(opened) != 0 {
            return failed(c"load the programs");
        }
        let map = find(opened, name);
        if map.is_null() {
            return failed(c"find the controller");
        }
        let link = attach(map);
        if link.is_null() {
            return failed(c"register the controller");
        }
        disconnect(link);
    }
    0
}
