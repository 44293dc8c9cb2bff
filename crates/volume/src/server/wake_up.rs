//! Wakes a thread that waits for events.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Wakes a thread from its wait.
#[derive(Debug)]
pub(super) struct WakeUp(OwnedFd);

impl WakeUp {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: a system call without pointers.
        owned(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) }).map(Self)
    }

    pub(super) fn wake(&self) {
        let one = 1_u64;
        // SAFETY: eight bytes of our own. It fails only if the thread has been woken 2⁶⁴ times already.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Clears all wake-ups so far.
    pub(super) fn clear(&self) {
        let mut count = 0_u64;
        // SAFETY: eight bytes of our own. The count only needs to be taken away.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl AsRawFd for WakeUp {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
