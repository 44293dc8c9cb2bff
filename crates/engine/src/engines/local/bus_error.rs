//! A bus error in mapped memory (the file was truncated, or the file system found no block for it) fails the copy, not
//! the process.
//!
//! The handler maps an empty page in place of the missing one, so that the copy continues, and records the miss. It
//! only handles the copy of the same thread; any other bus error goes to the previous handler.

use std::cell::Cell;
use std::io;
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

use crate::error::EngineError;

thread_local! {
    static GUARDED: Cell<Guarded> = const { Cell::new(Guarded { start: 0, bytes: 0 }) };
    static MISSED: Cell<bool> = const { Cell::new(false) };
}

/// The handler that was installed before ours.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler, once in the process.
pub(super) fn catch() -> Result<(), EngineError> {
    static INSTALLED: OnceLock<i32> = OnceLock::new();
    match *INSTALLED.get_or_init(install) {
        0 => Ok(()),
        errno => {
            let source = io::Error::from_raw_os_error(errno);
            Err(EngineError::System { action: "handle bus errors of mapped files", source })
        }
    }
}

/// Mapped memory that a copy reads from or writes to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guarded {
    pub start: usize,
    /// Length of the memory, and of the copy.
    pub bytes: usize,
}

impl Guarded {
    /// Copies all bytes; returns `true` if all pages were present. If not, empty pages have taken their place.
    ///
    /// # Safety
    /// `from` and `to` have room for the bytes and do not overlap; one of them is this memory, a shared mapping.
    #[inline]
    pub(super) unsafe fn copy(self, from: *const u8, to: *mut u8) -> bool {
        MISSED.set(false);
        GUARDED.set(self);
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the caller's promise.
        unsafe { ptr::copy_nonoverlapping(from, to, self.bytes) };
        compiler_fence(Ordering::SeqCst);
        GUARDED.set(Self { start: 0, bytes: 0 });
        !MISSED.get()
    }
}

fn install() -> i32 {
    // SAFETY: all zeros is a valid `sigaction`; the handler has the signature that SA_SIGINFO asks for.
    unsafe {
        let mut before: libc::sigaction = mem::zeroed();
        if libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before) != 0 {
            return io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        }
        let _ = BEFORE.set(before);
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        if libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) != 0 {
            return io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        }
    }
    0
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes valid pointers with SA_SIGINFO.
    let address = unsafe { (*info).si_addr() } as usize;
    let Guarded { start, bytes } = GUARDED.get();
    if address.wrapping_sub(start) < bytes && put_empty_page(address) {
        MISSED.set(true);
        return;
    }
    pass_on(signal, info, context);
}

fn put_empty_page(address: usize) -> bool {
    // SAFETY: only a number is passed.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let place = (address - address % page) as *mut libc::c_void;
    // SAFETY: replaces one page of a mapping that is being copied from or to, and that is inaccessible as it is.
    unsafe { libc::mmap(place, page, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) != libc::MAP_FAILED }
}

fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(before) = BEFORE.get() else { return };
    // SAFETY: calls the previous handler with the signature that its flags say; or lets the fault recur unhandled.
    unsafe {
        match before.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => {
                let mut default: libc::sigaction = mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const default, ptr::null_mut());
            }
            handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
                type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
                mem::transmute::<usize, Handler>(handler)(signal, info, context);
            }
            handler => mem::transmute::<usize, extern "C" fn(libc::c_int)>(handler)(signal),
        }
    }
}
