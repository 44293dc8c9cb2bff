//! The cores of this machine.

use std::mem::size_of;

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
