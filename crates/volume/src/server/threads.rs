//! Communication between the threads of a volume, and the list of connections.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

use iocurve_meter::Nanos;

use super::admission::{Admission, Guest, Room};
use super::connection::Connection;
use super::socket::Socket;
use super::wake_up::WakeUp;
use crate::nfs4_state::Address;
use crate::pending::{ConnectionId, Timers};
use crate::stats::{ConnectionCounters, Connections};

/// Ids of events that are not a connection's.
pub(super) const WAKE_UP_ID: ConnectionId = 0;
pub(super) const LISTENER_ID: ConnectionId = 1;
const FIRST_CONNECTION_ID: ConnectionId = 2;

/// Most addresses that are remembered for calls that took long.
const SLOW_MAX: usize = 1024;

/// One for all threads.
#[derive(Debug)]
pub(crate) struct Threads {
    pub(super) inboxes: Vec<Inbox>,
    /// Core of each thread. Further threads, on any core, are for connections whose calls take long.
    cpus: Vec<usize>,
    /// The further thread that was chosen last.
    chosen: AtomicUsize,
    /// Addresses with a connection whose calls took long.
    slow: Mutex<HashSet<Address>>,
    stopping: AtomicBool,
    /// The thread that looks for calls that wait.
    watcher: Mutex<Option<Thread>>,
    watcher_sleeps: AtomicBool,
    next_connection: AtomicU64,
    /// The connections that may be open.
    admission: Mutex<Admission>,
    /// The connections that are open, and their clients.
    pub(crate) connections: Connections,
}

/// Connections that are handed to a thread, with their operations that wait for their time.
#[derive(Debug)]
pub(super) struct Inbox {
    connections: Mutex<Vec<(Connection, Timers)>>,
    pub(super) wake_up: WakeUp,
}

impl Threads {
    /// Prepares `count` threads on these cores; several threads share a core if there are fewer cores. `further` ones are for
    /// connections whose calls take long.
    pub(crate) fn new(count: usize, further: usize, cpus: &[usize], connections_max: usize) -> io::Result<Arc<Self>> {
        let inboxes = (0..count + further).map(|_| Inbox::new()).collect::<io::Result<_>>()?;
        Ok(Arc::new(Self {
            inboxes,
            cpus: cpus.iter().copied().cycle().take(count).collect(),
            chosen: AtomicUsize::new(0),
            slow: Mutex::default(),
            stopping: AtomicBool::new(false),
            watcher: Mutex::default(),
            watcher_sleeps: AtomicBool::new(false),
            next_connection: FIRST_CONNECTION_ID.into(),
            admission: Mutex::new(Admission::new(connections_max)),
            connections: Connections::default(),
        }))
    }

    /// Asks all threads to end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
        self.wake_watcher();
    }

    /// Has all threads look for operations that are due.
    pub(crate) fn wake(&self) {
        self.inboxes.iter().for_each(|inbox| inbox.wake_up.wake());
    }

    /// Number of threads, further ones included.
    pub(crate) fn count(&self) -> usize {
        self.inboxes.len()
    }

    /// Number of threads with a core.
    pub(crate) fn on_cores(&self) -> usize {
        self.cpus.len()
    }

    /// True if there are further threads: calls may wait for a disk.
    pub(super) fn has_further(&self) -> bool {
        self.count() > self.on_cores()
    }

    /// The further thread for a connection of an address whose calls took long. The next connections of the address begin there.
    pub(super) fn further(&self, address: Address) -> usize {
        self.note_slow(address);
        self.next_further()
    }

    /// Has the next connections of an address begin on a further thread.
    pub(super) fn note_slow(&self, address: Address) {
        let mut slow = self.slow();
        if slow.len() >= SLOW_MAX {
            slow.clear();
        }
        slow.insert(address);
    }

    /// As [`Self::further`] for a new connection, if there is one for its address.
    pub(super) fn further_from_start(&self, address: Address) -> Option<usize> {
        (self.has_further() && self.slow().contains(&address)).then(|| self.next_further())
    }

    fn next_further(&self) -> usize {
        let further = self.count() - self.on_cores();
        self.on_cores() + self.chosen.fetch_add(1, Ordering::Relaxed) % further
    }

    fn slow(&self) -> MutexGuard<'_, HashSet<Address>> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has calls that wait looked for from now on, as one may begin.
    #[inline]
    pub(super) fn watch(&self) {
        if self.watcher_sleeps.load(Ordering::Relaxed) {
            self.wake_watcher();
        }
    }

    #[cold]
    fn wake_watcher(&self) {
        self.watcher_sleeps.store(false, Ordering::Relaxed);
        if let Some(thread) = self.watcher.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            thread.unpark();
        }
    }

    /// Notes whether this thread, the one that looks for calls that wait, is about to sleep until one begins.
    pub(super) fn watcher_sleeps(&self, sleeps: bool) {
        *self.watcher.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
        self.watcher_sleeps.store(sleeps, Ordering::Relaxed);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Makes room for a connection of an address.
    pub(super) fn make_room(&self, address: Address, now: Nanos) -> Room {
        self.admission().make_room(address, now)
    }

    /// Enters a connection from `peer` for which there is room; returns its number and its counters.
    pub(super) fn opened(
        &self,
        peer: SocketAddr,
        socket: &Socket,
        now: Nanos,
    ) -> (ConnectionId, Arc<ConnectionCounters>) {
        let id = self.next_connection.fetch_add(1, Ordering::Relaxed);
        let counters = self.connections.opened(id, peer, now);
        let guest = Guest::new(Arc::clone(&counters), socket.stream());
        self.admission().enter(id, Address::of(peer.ip()), guest);
        (id, counters)
    }

    /// Strikes a connection off the list.
    pub(super) fn closed(&self, id: ConnectionId) {
        self.admission().leave(id);
        self.connections.closed(id);
    }

    fn admission(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The core of a thread; a further one has none.
    pub(super) fn cpu(&self, thread: usize) -> Option<usize> {
        self.cpus.get(thread).copied()
    }

    /// The thread that serves connections of a core.
    pub(super) fn of_cpu(&self, cpu: usize) -> Option<usize> {
        self.cpus.iter().position(|own| *own == cpu)
    }
}

impl Inbox {
    fn new() -> io::Result<Self> {
        Ok(Self { connections: Mutex::default(), wake_up: WakeUp::new()? })
    }

    pub(super) fn put(&self, connection: Connection, timers: Timers) {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).push((connection, timers));
        self.wake_up.wake();
    }

    pub(super) fn take(&self) -> Vec<(Connection, Timers)> {
        self.wake_up.clear();
        std::mem::take(&mut *self.connections.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
