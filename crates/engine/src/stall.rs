//! Waiting for a server, as a hard mount does: who waits tells it here, for the live view and the outcome of the run.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iocurve_meter::{Clock, Nanos, SECOND};

use crate::outcome::Stall;

/// Longest wait for a server by the clean-up of a run that failed or was stopped.
pub(crate) const HURRIED_NS: Nanos = SECOND;

/// Servers that have answered this process. A restart of such a server is waited through; a server that never answered
/// is an error at once, because its address is probably wrong.
static ANSWERED: Mutex<BTreeSet<SocketAddr>> = Mutex::new(BTreeSet::new());

thread_local! {
    /// The stalls of the run that this thread works for.
    static STALLS: RefCell<Option<Arc<Stalls>>> = const { RefCell::new(None) };
}

/// Called with every reply at set-up.
pub(crate) fn answered(server: SocketAddr) {
    lock(&ANSWERED).insert(server);
}

pub(crate) fn has_answered(server: SocketAddr) -> bool {
    lock(&ANSWERED).contains(&server)
}

/// The stalls of one run.
#[derive(Debug)]
pub(crate) struct Stalls {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    phase: String,
    /// Stalls that go on, by number.
    open: Vec<(u64, Stall)>,
    over: Vec<Stall>,
    begun: u64,
}

impl Stalls {
    pub(crate) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self { clock, state: Mutex::default() })
    }

    /// Records the stalls of this thread here while `work` runs.
    pub(crate) fn recording<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        let before = STALLS.replace(Some(Arc::clone(self)));
        let result = work();
        STALLS.set(before);
        result
    }

    /// The phase of the run for stalls that begin from now on.
    pub(crate) fn phase(&self, phase: &str) {
        phase.clone_into(&mut lock(&self.state).phase);
    }

    /// Text about the oldest stall that goes on.
    pub(crate) fn waiting(&self) -> Option<String> {
        let state = lock(&self.state);
        let (_, stall) = state.open.first()?;
        let seconds = self.clock.now().saturating_sub(stall.start_ns) / SECOND;
        Some(format!("waiting for NFS server {} for {seconds} s: {}", stall.server, stall.reason))
    }

    /// All stalls in order. Stalls of several threads at one time for one server are one.
    pub(crate) fn all(&self) -> Vec<Stall> {
        let now = self.clock.now();
        let state = lock(&self.state);
        let open = state.open.iter().map(|(_, stall)| ended(stall.clone(), now));
        let mut stalls: Vec<Stall> = state.over.iter().cloned().chain(open).collect();
        stalls.sort_by(|a, b| (&a.server, a.start_ns).cmp(&(&b.server, b.start_ns)));
        stalls.dedup_by(|later, first| {
            let end = first.start_ns + first.duration_ns;
            let overlaps = later.server == first.server && later.start_ns <= end;
            if overlaps {
                first.duration_ns = end.max(later.start_ns + later.duration_ns) - first.start_ns;
            }
            overlaps
        });
        stalls.sort_by_key(|stall| stall.start_ns);
        stalls
    }

    fn begin(&self, server: &str, reason: String, since_ns: Nanos) -> u64 {
        let start_ns = self.clock.now().saturating_sub(since_ns);
        let mut state = lock(&self.state);
        state.begun += 1;
        let (number, phase) = (state.begun, state.phase.clone());
        state.open.push((number, Stall { server: server.to_owned(), phase, reason, start_ns, duration_ns: 0 }));
        number
    }

    fn end(&self, number: u64) {
        let now = self.clock.now();
        let mut state = lock(&self.state);
        if let Some(at) = state.open.iter().position(|(open, _)| *open == number) {
            let (_, stall) = state.open.remove(at);
            state.over.push(ended(stall, now));
        }
    }
}

/// A stall that ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    stalls: Arc<Stalls>,
    number: u64,
}

impl Waiting {
    /// Begins a stall of this thread's run that has lasted for `since_ns`; `None` where no run records it.
    pub(crate) fn begin(server: &str, reason: String, since_ns: Nanos) -> Option<Self> {
        STALLS.with_borrow(|stalls| {
            let stalls = Arc::clone(stalls.as_ref()?);
            let number = stalls.begin(server, reason, since_ns);
            Some(Self { stalls, number })
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.stalls.end(self.number);
    }
}

fn ended(stall: Stall, now: Nanos) -> Stall {
    Stall { duration_ns: now.saturating_sub(stall.start_ns), ..stall }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_of_several_threads_at_one_time_are_one() {
        let stalls = Stalls::new(Clock::new());
        stalls.phase("prepare");
        let stall = |server: &str, start_ns, duration_ns| Stall {
            server: server.into(),
            phase: "prepare".into(),
            reason: "refused".into(),
            start_ns,
            duration_ns,
        };
        lock(&stalls.state).over =
            vec![stall("a", 50, 30), stall("b", 10, 5), stall("a", 0, 20), stall("a", 10, 30), stall("a", 80, 10)];
        assert_eq!(stalls.all(), [stall("a", 0, 40), stall("b", 10, 5), stall("a", 50, 40)]);
    }

    #[test]
    fn a_wait_is_recorded_with_the_run_of_its_thread_and_ends_when_dropped() {
        assert!(Waiting::begin("s", "refused".into(), 0).is_none());
        let stalls = Stalls::new(Clock::new());
        stalls.phase("layout");
        stalls.recording(|| {
            let waiting = Waiting::begin("s", "refused".into(), 0);
            assert_eq!(stalls.waiting().as_deref(), Some("waiting for NFS server s for 0 s: refused"));
            drop(waiting);
        });
        assert_eq!(stalls.waiting(), None);
        let [stall] = &stalls.all()[..] else { panic!("one stall") };
        assert_eq!((stall.server.as_str(), stall.phase.as_str()), ("s", "layout"));
    }
}
