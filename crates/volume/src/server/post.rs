//! Takeover: a thread whose call waits keeps its connection alone, and another thread goes on with the others.
//!
//! Before a thread of a volume whose calls may wait makes those of a connection, it lends the rest to its post. A watcher (`crew`) looks at the
//! posts every 10 ms while there are turns: where the same turn lasts and its thread neither runs nor is ready to, another thread takes what was
//! lent and serves it. Once the call has ended, its thread hands the connection to that one, and ends.

use std::collections::{HashMap, VecDeque};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, mem};

use iocurve_epoll::Epoll;
use iocurve_meter::Nanos;
use iocurve_tls::ServerTls;

use super::connection::Connection;
use crate::nfs4_state::Address;
use crate::pending::{ConnectionId, Delayed, Timers};

/// The connections of a thread, and what it knows of them.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) listener: Option<TcpListener>,
    /// Time at which to accept again after a failure.
    pub(super) accept_again: Option<Nanos>,
    pub(super) connections: HashMap<ConnectionId, Connection>,
    /// Connections that have more to do.
    pub(super) again: VecDeque<ConnectionId>,
    /// Connections with operations that are due, the first one last.
    pub(super) due: Vec<ConnectionId>,
    /// Connections whose transfer may be late, and when to look at each, soonest first.
    pub(super) watched: VecDeque<(Nanos, ConnectionId)>,
    /// Connections that wait for memory, the last one last, and when to try them again.
    pub(super) short_of_memory: (Nanos, Vec<ConnectionId>),
    /// Those of them that are being tried.
    pub(super) trying: Vec<ConnectionId>,
    /// Connections whose call waits in another thread, with their operations that are due meanwhile.
    pub(super) absent: HashMap<ConnectionId, Vec<Delayed>>,
    /// Operations that wait for their time, while all this is lent.
    pub(super) timers: Timers,
}

/// The connection whose calls are being made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waits {
    pub(super) connection: ConnectionId,
    pub(super) socket: RawFd,
    pub(super) address: Address,
}

/// The load of one thread, with which another may go on.
#[derive(Debug)]
pub(crate) struct Post {
    /// Number of the thread.
    pub(super) own: usize,
    pub(super) epoll: Epoll,
    /// TLS of the connections that it accepts; they have none if `None`.
    pub(super) tls: Option<ServerTls>,
    lent: Mutex<Lent>,
}

#[derive(Debug, Default)]
struct Lent {
    held: Held,
    /// `None` between turns.
    waits: Option<Waits>,
    /// Turns so far.
    turns: u64,
    /// The system's number of the thread.
    task: libc::pid_t,
}

/// The lent load, for the thread that goes on with it.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) held: Held,
    pub(super) waits: Waits,
}

impl Post {
    pub(super) fn new(own: usize, epoll: Epoll, tls: Option<ServerTls>) -> Self {
        Self { own, epoll, tls, lent: Mutex::default() }
    }

    /// Notes that this thread serves.
    pub(super) fn enter(&self) {
        // SAFETY: a system call without arguments.
        self.lent().task = unsafe { libc::gettid() };
    }

    /// Lends what others may go on with; returns the number of the turn.
    pub(super) fn lend(&self, held: &mut Held, waits: Waits) -> u64 {
        let mut lent = self.lent();
        lent.turns += 1;
        lent.waits = Some(waits);
        mem::swap(&mut lent.held, held);
        lent.turns
    }

    /// Ends the loan of a turn; returns false if another thread has taken over.
    pub(super) fn take_back(&self, held: &mut Held, turn: u64) -> bool {
        let mut lent = self.lent();
        let is_own = lent.turns == turn;
        if is_own {
            lent.waits = None;
            mem::swap(&mut lent.held, held);
        }
        is_own
    }

    /// True between turns, and the number of the last one.
    pub(super) fn turn(&self) -> (bool, u64) {
        let lent = self.lent();
        (lent.waits.is_none(), lent.turns)
    }

    /// True if this turn still lasts, and its thread neither runs nor is ready to.
    pub(super) fn is_stuck(&self, turn: u64) -> bool {
        let lent = self.lent();
        let (lasts, task) = (lent.turns == turn && lent.waits.is_some(), lent.task);
        drop(lent);
        lasts && is_waiting(task)
    }

    /// Takes what was lent for this turn, if it still lasts.
    pub(super) fn take_over(&self, turn: u64) -> Option<Taken> {
        let mut lent = self.lent();
        let waits = lent.waits.filter(|_| lent.turns == turn)?;
        lent.waits = None;
        lent.turns += 1;
        // Its events would come again and again, and mean nothing to the thread that has the others.
        let _ = self.epoll.remove(&waits);
        Some(Taken { held: mem::take(&mut lent.held), waits })
    }

    fn lent(&self) -> MutexGuard<'_, Lent> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsRawFd for Waits {
    fn as_raw_fd(&self) -> RawFd {
        self.socket
    }
}

/// True if a thread neither runs nor is ready to.
fn is_waiting(task: libc::pid_t) -> bool {
    let line = fs::read_to_string(format!("/proc/self/task/{task}/stat")).unwrap_or_default();
    line.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('R'))
}
