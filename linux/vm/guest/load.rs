//! Registers a controller of a BPF object in the guest's kernel, or attaches the programs of one, and
//! ends: the registration stays, and so do the programs.
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

/// The longest path of a pinned program: its folder, a slash, and the name with its end.
const PATH: usize = 128;

/// `folder/name`, terminated; none if it is too long.
fn path_of(folder: &[u8], name: &[u8]) -> Option<[u8; PATH]> {
    let mut path = [0; PATH];
    let mut rest = path.get_mut(..PATH - 1)?.iter_mut();
    for byte in folder.iter().chain(b"/").chain(name) {
        *rest.next()? = *byte;
    }
    Some(path)
}

/// An object of libbpf.
type Pointer = *mut c_void;

/// `load OBJECT NAME` registers the controller of that name.
///
/// `load OBJECT PATH FUNCTIONS` attaches the programs that follow functions whose names begin with
/// FUNCTIONS or with `tcp_`, and pins them and the map named as PATH ends, beside and at it.
///
/// # Safety
/// The C library calls it, with its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn main(count: c_int, arguments: *const *const c_char) -> c_int {
    const NOW: c_int = 2;
    if count != 3 && count != 4 {
        return 2;
    }
    // SAFETY: there are as many, and functions of libbpf are called as libbpf.h declares them.
    unsafe {
        let argument = |place: usize| *arguments.add(place);
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
            symbol(c"bpf_object__next_program"),
            symbol(c"bpf_program__name"),
            symbol(c"bpf_program__set_autoload"),
            symbol(c"bpf_program__autoload"),
            symbol(c"bpf_program__attach"),
            symbol(c"bpf_link__pin"),
            symbol(c"bpf_map__pin"),
        ];
        if symbols.iter().any(|symbol| symbol.is_null()) {
            return failed(c"find the functions of libbpf");
        }
        let [open, load, find, register, disconnect, next, name_of, choose, chosen, attach, pin, pin_map] = symbols;
        let open: extern "C" fn(*const c_char) -> Pointer = core::mem::transmute(open);
        let load: extern "C" fn(Pointer) -> c_int = core::mem::transmute(load);
        let find: extern "C" fn(Pointer, *const c_char) -> Pointer = core::mem::transmute(find);
        let register: extern "C" fn(Pointer) -> Pointer = core::mem::transmute(register);
        let disconnect: extern "C" fn(Pointer) = core::mem::transmute(disconnect);
        let next: extern "C" fn(Pointer, Pointer) -> Pointer = core::mem::transmute(next);
        let name_of: extern "C" fn(Pointer) -> *const c_char = core::mem::transmute(name_of);
        let choose: extern "C" fn(Pointer, bool) -> c_int = core::mem::transmute(choose);
        let chosen: extern "C" fn(Pointer) -> bool = core::mem::transmute(chosen);
        let attach: extern "C" fn(Pointer) -> Pointer = core::mem::transmute(attach);
        let pin: extern "C" fn(Pointer, *const c_char) -> c_int = core::mem::transmute(pin);
        let pin_map: extern "C" fn(Pointer, *const c_char) -> c_int = core::mem::transmute(pin_map);

        let object = open(argument(1));
        if object.is_null() {
            return failed(c"open the object");
        }
        if count == 3 {
            if load(object) != 0 {
                return failed(c"load the programs");
            }
            let map = find(object, argument(2));
            if map.is_null() {
                return failed(c"find the controller");
            }
            let link = register(map);
            if link.is_null() {
                return failed(c"register the controller");
            }
            disconnect(link);
            return 0;
        }
        let (path, functions) = (CStr::from_ptr(argument(2)).to_bytes(), CStr::from_ptr(argument(3)).to_bytes());
        let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else {
            return 2;
        };
        let (folder, map) = path.split_at(slash);
        let mut program = next(object, core::ptr::null_mut());
        while !program.is_null() {
            let name = CStr::from_ptr(name_of(program)).to_bytes();
            choose(program, name.starts_with(functions) || name.starts_with(b"tcp_"));
            program = next(object, program);
        }
        if load(object) != 0 {
            return failed(c"load the programs");
        }
        let mut program = next(object, core::ptr::null_mut());
        while !program.is_null() {
            if chosen(program) {
                let link = attach(program);
                if link.is_null() {
                    return failed(c"attach a program");
                }
                let place = path_of(folder, CStr::from_ptr(name_of(program)).to_bytes());
                if !place.is_some_and(|place| pin(link, place.as_ptr().cast()) == 0) {
                    return failed(c"pin a program");
                }
            }
            program = next(object, program);
        }
        let name = path_of(b"", &map[1..]);
        let map = name.map_or(core::ptr::null_mut(), |name| find(object, name.as_ptr().add(1).cast()));
        if map.is_null() || pin_map(map, argument(2)) != 0 {
            return failed(c"pin the map");
        }
    }
    0
}
