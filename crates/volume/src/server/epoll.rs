//! System calls of a reactor: epoll, wake-ups, and the cores of this machine. Ids say whose event it is.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, epoll_event};

use iocurve_meter::Nanos;

/// Watches descriptors for events.
#[derive(Debug)]
pub(super) struct Epoll(OwnedFd);

impl Epoll {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: a system call without pointers.
        owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(Self)
    }

    pub(super) fn add(&self, fd: &impl AsRawFd, id: u64, events: c_int) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd.as_raw_fd(), id, events)
    }

    pub(super) fn modify(&self, fd: &impl AsRawFd, id: u64, events: c_int) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd.as_raw_fd(), id, events)
    }

    pub(super) fn remove(&self, fd: &impl AsRawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd.as_raw_fd(), 0, 0)
    }

    fn control(&self, operation: c_int, fd: RawFd, id: u64, events: c_int) -> io::Result<()> {
        let mut event = epoll_event { events: events as u32, u64: id };
        // SAFETY: an event of ours.
        match unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd, &raw mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Waits for events, at most for `timeout` (to the nanosecond, which `epoll_wait` cannot), and returns how many came.
    pub(super) fn wait(&self, events: &mut [epoll_event], timeout: Option<Nanos>) -> io::Result<usize> {
        let timeout = timeout.map(|ns| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let (fd, none, length) = (self.0.as_raw_fd(), std::ptr::null::<libc::sigset_t>(), events.len());
        // SAFETY: `events` has room for `length` of them; there is no signal mask.
        let count =
            unsafe { libc::syscall(libc::SYS_epoll_pwait2, fd, events.as_mut_ptr(), length, timeout, none, 0_usize) };
        match usize::try_from(count) {
            Ok(count) => Ok(count),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                error => Err(error),
            },
        }
    }
}

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

/// Cores that this process may use.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    // SAFETY: a set is plain bits; all zeros is an empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: a set of ours and its size.
    unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    // SAFETY: the number is below the size of the set.
    let allowed = (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) });
    let cpus: Vec<_> = allowed.collect();
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// Binds this thread to a core and makes its timers exact. Where either fails the thread is slower, but works.
pub(super) fn pin(cpu: usize) {
    // SAFETY: as in `allowed_cpus`.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
    }
}
