//! Where a stack meets the world: its clock and its random bytes, which an executable or a library defines by
//! [`seams!`](crate::seams!).

use std::cell::Cell;

/// The clock's reading at the engine's origin, in nanoseconds: a stack may look back in time from there.
const ORIGIN: u64 = 1_000_000_000_000_000;

// In Paceline's process each thread runs a world of its own; in a process of its own, a stack is one thread.
thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
    static DRAWS: Cell<u64> = const { Cell::new(0) };
}

/// Sets the clock.
pub fn set_time(engine_ns: u64) {
    NOW.set(engine_ns);
}

/// Seeds the random bytes.
pub fn set_seed(seed: u64) {
    DRAWS.set(seed);
}

/// The reading of every clock, in nanoseconds.
pub fn clock_ns() -> u64 {
    ORIGIN.saturating_add(NOW.get())
}

/// The engine's time for a time that [`clock_ns`] has told.
pub fn engine_ns(clock_ns: u64) -> u64 {
    clock_ns.saturating_sub(ORIGIN)
}

/// Eight random bytes: SplitMix64.
pub fn draw() -> [u8; 8] {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut z = DRAWS.get().wrapping_add(STEP);
    DRAWS.set(z);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)).to_le_bytes()
}

/// Defines what the code around it and its libraries in C read the clock and draw random bytes with: `clock_gettime`,
/// `getrandom`, and `syscall`, by which some get the same. On Linux, for x86-64 and 64-bit Arm.
///
/// An executable is linked with `-rdynamic`, so that what looks these names up at run time finds them. A library is linked
/// with `-Bsymbolic`, so that it takes its own and its host keeps the system's; what is looked up there at run time is the
/// system's.
#[macro_export]
macro_rules! seams {
    () => {
        /// Every clock shows the engine's time.
        ///
        /// # Safety
        /// As clock_gettime(2).
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn clock_gettime(
            _clock: $crate::libc::clockid_t,
            out: *mut $crate::libc::timespec,
        ) -> $crate::libc::c_int {
            let now = $crate::seams::clock_ns();
            let time = $crate::libc::timespec {
                tv_sec: (now / 1_000_000_000) as _,
                tv_nsec: (now % 1_000_000_000) as _,
            };
            // SAFETY: by this function's contract.
            unsafe { out.write(time) };
            0
        }

        /// Random bytes follow from the seed.
        ///
        /// # Safety
        /// As getrandom(2).
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn getrandom(
            out: *mut u8,
            size: usize,
            _flags: $crate::libc::c_uint,
        ) -> isize {
            for at in (0..size).step_by(8) {
                let some = $crate::seams::draw();
                // SAFETY: by this function's contract there is room for `size` bytes.
                unsafe { out.add(at).copy_from(some.as_ptr(), some.len().min(size - at)) };
            }
            size as isize
        }

        /// The kernel's calls, but for random bytes.
        ///
        /// # Safety
        /// As syscall(2). Its arguments are those of a variadic function, which both architectures pass alike.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn syscall(
            number: $crate::libc::c_long,
            a: usize,
            b: usize,
            c: usize,
            d: usize,
            e: usize,
            f: usize,
        ) -> $crate::libc::c_long {
            if number == $crate::libc::SYS_getrandom {
                // SAFETY: by this function's contract.
                return unsafe { getrandom(a as *mut u8, b, c as u32) } as $crate::libc::c_long;
            }
            let mut result: isize;
            // SAFETY: by this function's contract.
            #[cfg(target_arch = "x86_64")]
            unsafe {
                ::core::arch::asm!(
                    "syscall",
                    inlateout("rax") number as isize => result,
                    in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
                    lateout("rcx") _, lateout("r11") _,
                    options(nostack)
                );
            }
            // SAFETY: by this function's contract.
            #[cfg(target_arch = "aarch64")]
            unsafe {
                ::core::arch::asm!(
                    "svc 0",
                    inlateout("x0") a as isize => result,
                    in("x8") number, in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
                    options(nostack)
                );
            }
            if (-4095..0).contains(&result) {
                // SAFETY: the place of this thread's error number.
                unsafe { *$crate::libc::__errno_location() = -result as i32 };
                result = -1;
            }
            result as $crate::libc::c_long
        }
    };
}
