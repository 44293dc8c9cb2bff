//! CPU time of the calling thread, the processors it runs on, and the precision of its sleeps.

use crate::outcome::CpuTime;

/// CPU time, context switches and page faults of the calling thread so far.
pub(crate) fn thread_cpu_time() -> CpuTime {
    // SAFETY: an all-zero rusage is valid, and the call only writes to it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    let nanos = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    CpuTime {
        user_ns: nanos(usage.ru_utime),
        system_ns: nanos(usage.ru_stime),
        context_switches: (usage.ru_nvcsw + usage.ru_nivcsw) as u64,
        major_faults: usage.ru_majflt as u64,
        minor_faults: usage.ru_minflt as u64,
    }
}

/// Binds the calling thread to these processors.
pub(crate) fn bind_thread(cpus: &[u32]) -> std::io::Result<()> {
    // SAFETY: the set is plain memory of the size given.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &cpu in cpus {
            libc::CPU_SET(cpu as usize, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Sets the timer slack of the calling thread to 1 ns; by default sleeps end up to 50 µs late.
pub(crate) fn wake_on_time() {
    // SAFETY: changes only the timer slack of the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_touched_first_is_a_minor_fault_a_page() {
        let before = thread_cpu_time();
        let bytes = 64 * 65_536;
        // SAFETY: a new anonymous mapping of this length, touched page by page and then unmapped.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let memory = libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(memory, libc::MAP_FAILED);
            libc::madvise(memory, bytes, libc::MADV_NOHUGEPAGE);
            for place in (0..bytes).step_by(65_536) {
                memory.cast::<u8>().add(place).write_volatile(1);
            }
            libc::munmap(memory, bytes);
        }
        assert!(thread_cpu_time().minor_faults >= before.minor_faults + 64);
    }
}
