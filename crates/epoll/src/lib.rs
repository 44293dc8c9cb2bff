//! Waits for events of several descriptors at once, to the nanosecond.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, epoll_event, timespec};

use iocurve_meter::{Nanos, SECOND};

/// False once the system said that it has no `epoll_pwait2`: Linux before 5.11.
static HAS_EPOLL_PWAIT2: AtomicBool = AtomicBool::new(true);

/// Descriptors to wait for. Each has an id, which its events carry; closing a descriptor removes it.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// A set without descriptors.
    ///
    /// # Errors
    ///
    /// Those of `epoll_create1`: there are no descriptors or no memory left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: a system call without pointers.
        let fd = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: just made, and not shared.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd as RawFd) }))
    }

    /// Adds a descriptor.
    ///
    /// # Errors
    ///
    /// Those of `epoll_ctl`.
    pub fn add(&self, fd: &impl AsRawFd, id: u64, events: c_int) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd.as_raw_fd(), id, events)
    }

    /// Changes the events to wait for.
    ///
    /// # Errors
    ///
    /// Those of `epoll_ctl`.
    pub fn modify(&self, fd: &impl AsRawFd, id: u64, events: c_int) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd.as_raw_fd(), id, events)
    }

    /// Removes a descriptor that stays open.
    ///
    /// # Errors
    ///
    /// Those of `epoll_ctl`.
    pub fn remove(&self, fd: &impl AsRawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd.as_raw_fd(), 0, 0)
    }

    fn control(&self, operation: c_int, fd: RawFd, id: u64, events: c_int) -> io::Result<()> {
        let mut event = epoll_event { events: events as u32, u64: id };
        // SAFETY: an event of ours.
        checked(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd, &raw mut event) }).map(drop)
    }

    /// Waits for events, at most for `timeout`, and returns how many came. A signal ends the wait with none.
    ///
    /// # Errors
    ///
    /// Those of `epoll_pwait2`.
    #[inline]
    pub fn wait(&self, events: &mut [epoll_event], timeout: Option<Nanos>) -> io::Result<usize> {
        let timeout = timeout.map(|ns| timespec { tv_sec: (ns / SECOND) as _, tv_nsec: (ns % SECOND) as _ });
        if HAS_EPOLL_PWAIT2.load(Ordering::Relaxed) {
            match none_if_interrupted(self.pwait2(events, timeout.as_ref())) {
                Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                    HAS_EPOLL_PWAIT2.store(false, Ordering::Relaxed);
                }
                result => return result,
            }
        }
        none_if_interrupted(self.poll_and_wait(events, timeout.as_ref()))
    }

    fn pwait2(&self, events: &mut [epoll_event], timeout: Option<&timespec>) -> io::Result<usize> {
        let (fd, timeout, no_mask) = (self.0.as_raw_fd(), pointer(timeout), ptr::null::<libc::sigset_t>());
        // SAFETY: `events` has room for its length of them; there is no signal mask.
        let count = unsafe {
            libc::syscall(libc::SYS_epoll_pwait2, fd, events.as_mut_ptr(), events.len(), timeout, no_mask, 0_usize)
        };
        checked(count as c_int)
    }

    /// As `pwait2`, by two system calls that every system has.
    fn poll_and_wait(&self, events: &mut [epoll_event], timeout: Option<&timespec>) -> io::Result<usize> {
        let mut set = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: a descriptor and a time of ours; there is no signal mask.
        checked(unsafe { libc::ppoll(&raw mut set, 1, pointer(timeout), ptr::null()) })?;
        // SAFETY: `events` has room for its length of them.
        checked(unsafe { libc::epoll_wait(set.fd, events.as_mut_ptr(), events.len() as c_int, 0) })
    }
}

fn pointer(timeout: Option<&timespec>) -> *const timespec {
    timeout.map_or(ptr::null(), ptr::from_ref)
}

fn checked(result: c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn none_if_interrupted(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use super::*;

    type Wait = fn(&Epoll, &mut [epoll_event], Option<&timespec>) -> io::Result<usize>;

    const WAITS: [Wait; 2] = [Epoll::pwait2, Epoll::poll_and_wait];
    const MILLISECOND: timespec = timespec { tv_sec: 0, tv_nsec: 1_000_000 };

    #[test]
    fn both_ways_to_wait_report_the_same_events() {
        let ((near, mut far), (other, _end)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let epoll = Epoll::new().unwrap();
        epoll.add(&near, 7, libc::EPOLLIN).unwrap();
        epoll.add(&other, 8, libc::EPOLLIN).unwrap();
        far.write_all(b"x").unwrap();
        for wait in WAITS {
            let mut events = [epoll_event { events: 0, u64: 0 }; 4];
            assert_eq!(wait(&epoll, &mut events, None).unwrap(), 1);
            assert_eq!((events[0].events, events[0].u64), (libc::EPOLLIN as u32, 7));
        }
    }

    #[test]
    fn both_ways_to_wait_end_at_their_time_and_not_before() {
        let (near, _far) = UnixStream::pair().unwrap();
        let epoll = Epoll::new().unwrap();
        epoll.add(&near, 7, libc::EPOLLIN).unwrap();
        for wait in WAITS {
            let begun = Instant::now();
            assert_eq!(wait(&epoll, &mut [epoll_event { events: 0, u64: 0 }], Some(&MILLISECOND)).unwrap(), 0);
            assert!(begun.elapsed() >= Duration::from_millis(1));
        }
    }

    #[test]
    fn what_was_removed_has_no_events() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let epoll = Epoll::new().unwrap();
        epoll.add(&near, 7, libc::EPOLLOUT).unwrap();
        let mut events = [epoll_event { events: 0, u64: 0 }];
        assert_eq!(epoll.wait(&mut events, Some(0)).unwrap(), 1);
        epoll.modify(&near, 7, libc::EPOLLIN).unwrap();
        assert_eq!(epoll.wait(&mut events, Some(0)).unwrap(), 0);
        far.write_all(b"x").unwrap();
        assert_eq!(epoll.wait(&mut events, Some(0)).unwrap(), 1);
        epoll.remove(&near).unwrap();
        assert_eq!(epoll.wait(&mut events, Some(0)).unwrap(), 0);
    }
}
