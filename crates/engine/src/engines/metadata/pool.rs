//! Threads that carry metadata operations out, so that many are in flight on a local file system.
//!
//! `io_uring` would hand the same calls to threads of the kernel (`openat`, `unlinkat`, `renameat` and the others never
//! complete at once there), at a higher cost: `bench.local_names` measures both.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::access::{Access, Job, Performed};
use crate::error::EngineError;

/// Most threads.
const THREADS_MAX: usize = 256;
/// Operations that take less run on the submitting thread, too, and by one thread for each other processor: more
/// would only take turns.
const SHORT_NS: u64 = 50_000;

/// Threads with a queue.
#[derive(Debug)]
pub(super) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    processors: usize,
    /// Moving average of the time of an operation.
    mean_ns: u64,
}

#[derive(Debug)]
struct Shared {
    access: Access,
    state: Mutex<State>,
    /// Jobs have come.
    submitted: Condvar,
    /// Jobs have completed.
    completed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    performed: Vec<Performed>,
    /// Time of the operations that threads completed since it was last taken, and their number.
    busy_ns: u64,
    counted: u64,
    /// Threads that wait for jobs.
    idle: usize,
    /// The engine waits for completions.
    is_awaited: bool,
    is_over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    pub(super) fn new(access: Access, depth: u32) -> Result<Self, EngineError> {
        let (state, submitted, completed) = (Mutex::default(), Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { access, state, submitted, completed });
        let mut threads = Vec::new();
        for _ in 0..(depth as usize).min(THREADS_MAX) {
            let shared = Arc::clone(&shared);
            let thread = thread::Builder::new().name("names".to_owned()).spawn(move || run(&shared));
            threads.push(thread.map_err(|source| EngineError::System { action: "start a thread", source })?);
        }
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Ok(Self { shared, threads, processors, mean_ns: SHORT_NS })
    }

    pub(super) fn threads(&self) -> usize {
        self.threads.len()
    }

    fn is_short(&self) -> bool {
        self.mean_ns < SHORT_NS
    }

    /// Hands jobs over.
    pub(super) fn send(&self, jobs: &mut Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        let mut state = self.shared.lock();
        state.jobs.extend(jobs.drain(..));
        let wakes = self.wakes(&state);
        drop(state);
        (0..wakes).for_each(|_| self.shared.submitted.notify_one());
    }

    /// Number of threads to wake for the jobs that wait.
    fn wakes(&self, state: &State) -> usize {
        let wanted = if self.is_short() { self.processors - 1 } else { self.threads.len() };
        let awake = self.threads.len() - state.idle;
        state.jobs.len().min(wanted.saturating_sub(awake))
    }

    /// Waits until at least one operation has completed, or until `deadline`; `None` does not wait. Carries operations
    /// out meanwhile, if they are short.
    pub(super) fn reap(&mut self, deadline: Option<Instant>, performed: &mut Vec<Performed>) {
        let mut state = self.shared.lock();
        loop {
            if let Some(mean) = state.busy_ns.checked_div(state.counted) {
                self.mean_ns = (3 * self.mean_ns + mean) / 4;
                (state.busy_ns, state.counted) = (0, 0);
            }
            performed.append(&mut state.performed);
            if !performed.is_empty() {
                return;
            }
            let Some(deadline) = deadline else { return };
            if self.is_short()
                && let Some(job) = state.jobs.pop_front()
            {
                drop(state);
                let begun = Instant::now();
                performed.push(self.shared.access.perform(job));
                self.mean_ns = (15 * self.mean_ns + begun.elapsed().as_nanos() as u64) / 16;
                state = self.shared.lock();
                continue;
            }
            let now = Instant::now();
            if now >= deadline {
                return;
            }
            // Jobs that were left to this thread, as they were short then; on one processor no other thread is awake.
            (0..self.wakes(&state)).for_each(|_| self.shared.submitted.notify_one());
            state.is_awaited = true;
            let waited = self.shared.completed.wait_timeout(state, deadline - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.is_awaited = false;
        }
    }
}

#[cfg(test)]
impl Pool {
    /// Hands jobs over on a machine of one processor, as short ones; they have become slow since.
    pub(super) fn send_as_short(&mut self, jobs: &mut Vec<Job>) {
        while self.shared.lock().idle < self.threads.len() {
            thread::yield_now();
        }
        (self.processors, self.mean_ns) = (1, 0);
        self.send(jobs);
        self.mean_ns = SHORT_NS;
    }
}

/// Operations of which a descriptor is not taken any more close it.
impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_over = true;
        state.jobs.clear();
        drop(state);
        self.shared.submitted.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared) {
    let mut state = shared.lock();
    loop {
        if state.is_over {
            return;
        }
        let Some(job) = state.jobs.pop_front() else {
            state.idle += 1;
            state = shared.submitted.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            continue;
        };
        drop(state);
        let begun = Instant::now();
        let performed = shared.access.perform(job);
        let busy_ns = begun.elapsed().as_nanos() as u64;
        state = shared.lock();
        state.performed.push(performed);
        (state.busy_ns, state.counted) = (state.busy_ns + busy_ns, state.counted + 1);
        if state.is_awaited {
            state.is_awaited = false;
            shared.completed.notify_one();
        }
    }
}

/// Longest wait at once.
pub(super) const WAIT_MAX: Duration = Duration::from_millis(100);
