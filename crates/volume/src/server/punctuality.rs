//! Measures how long a thread had no processor when it was ready to run.
//!
//! The kernel counts it in `schedstat` (Documentation/scheduler/sched-stats.rst). A timer that ends late tells as well, also where a
//! hypervisor took the processor.

use std::fs::File;
use std::os::unix::fs::FileExt;

use iocurve_meter::{Nanos, SECOND};

use crate::qos::CATCH_UPS_PER_S;

/// A thread that runs within this time is punctual: the limits make up for it without being told.
const PUNCTUAL_NS: Nanos = SECOND / CATCH_UPS_PER_S;

/// The delay is read at least this often while the thread runs, so that one stall is not the sum of many short delays.
const READ_NS: Nanos = 10_000_000;

/// Bytes of three numbers.
const SCHEDSTAT_BYTES: usize = 64;

/// The punctuality of the thread that made it.
#[derive(Debug)]
pub(super) struct Punctuality {
    /// None where the kernel does not tell.
    schedstat: Option<File>,
    delay_ns: Nanos,
    read: Nanos,
    woke: Nanos,
}

impl Punctuality {
    pub(super) fn new(now: Nanos) -> Self {
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        let mut new = Self { schedstat, delay_ns: 0, read: now, woke: now };
        new.delayed(now);
        new
    }

    /// The time by which the thread runs late `now`, when it should have run at `expected` at the latest; 0 if it is punctual.
    pub(super) fn late_ns(&mut self, expected: Nanos, now: Nanos) -> Nanos {
        let gap_ns = now.saturating_sub(std::mem::replace(&mut self.woke, now));
        let is_long = gap_ns > PUNCTUAL_NS;
        if !is_long && now.saturating_sub(self.read) < READ_NS {
            return 0;
        }
        let delayed_ns = self.delayed(now).min(gap_ns);
        let late_ns = delayed_ns.max(now.saturating_sub(expected));
        if is_long && late_ns > PUNCTUAL_NS { late_ns } else { 0 }
    }

    /// Time without a processor since the last call.
    fn delayed(&mut self, now: Nanos) -> Nanos {
        self.read = now;
        let delay_ns = self.schedstat.as_ref().and_then(delay_ns).unwrap_or(self.delay_ns);
        delay_ns.saturating_sub(std::mem::replace(&mut self.delay_ns, delay_ns))
    }
}

/// The second number of `schedstat`: nanoseconds for which the thread was ready and waited for a processor.
fn delay_ns(schedstat: &File) -> Option<Nanos> {
    let mut text = [0; SCHEDSTAT_BYTES];
    let length = schedstat.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..length]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// A thread, and a file with its delay instead of the kernel's.
    struct Thread(Punctuality, File);

    impl Thread {
        fn new() -> Self {
            let file = tempfile::tempfile().unwrap();
            let schedstat = Some(file.try_clone().unwrap());
            Self(Punctuality { schedstat, delay_ns: 0, read: 0, woke: 0 }, file)
        }

        fn delay(&self, delay_ns: Nanos) {
            self.1.write_at(format!("5 {delay_ns} 7\n").as_bytes(), 0).unwrap();
        }
    }

    #[test]
    fn only_a_long_stall_is_late() {
        let mut thread = Thread::new();
        thread.delay(0);
        assert_eq!(thread.0.late_ns(Nanos::MAX, 500 * MS), 0, "it slept");
        thread.delay(130 * MS);
        assert_eq!(thread.0.late_ns(Nanos::MAX, 640 * MS), 130 * MS);
        // Short delays do not add up.
        for step in 1..100 {
            thread.delay((130 + 3 * step) * MS);
            assert_eq!(thread.0.late_ns(Nanos::MAX, (640 + 6 * step) * MS), 0);
        }
        assert_eq!(thread.0.late_ns(Nanos::MAX, 5_000 * MS), 0);
    }

    #[test]
    fn a_timer_that_ends_late_tells_without_the_kernel() {
        let mut punctuality = Punctuality { schedstat: None, delay_ns: 0, read: 0, woke: 0 };
        assert_eq!(punctuality.late_ns(20 * MS, 35 * MS), 0);
        assert_eq!(punctuality.late_ns(50 * MS, 100 * MS), 50 * MS);
        assert_eq!(punctuality.late_ns(Nanos::MAX, 900 * MS), 0);
    }

    #[test]
    fn the_kernel_tells_of_this_thread() {
        let mut punctuality = Punctuality::new(0);
        assert!(punctuality.schedstat.as_ref().and_then(delay_ns).is_some());
        assert_eq!(punctuality.late_ns(Nanos::MAX, 1), 0);
    }
}
