//! Communication between the threads of a volume, and the list of connections.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::connection::Connection;
use super::wake_up::WakeUp;
use crate::pending::ConnectionId;
use crate::stats::Connections;

/// Ids of events that are not a connection's.
pub(super) const WAKE_UP_ID: ConnectionId = 0;
pub(super) const LISTENER_ID: ConnectionId = 1;
const FIRST_CONNECTION_ID: ConnectionId = 2;

/// One for all threads.
#[derive(Debug)]
pub(crate) struct Threads {
    pub(super) inboxes: Vec<Inbox>,
    /// Core of each thread.
    cpus: Vec<usize>,
    stopping: AtomicBool,
    next_connection: AtomicU64,
    /// Most connections that may be open.
    pub(super) connections_max: usize,
    /// The connections that are open, and their clients.
    pub(crate) connections: Connections,
}

/// Connections that are handed to a thread.
#[derive(Debug)]
pub(super) struct Inbox {
    connections: Mutex<Vec<Connection>>,
    pub(super) wake_up: WakeUp,
}

impl Threads {
    /// Prepares `count` threads on these cores; several threads share a core if there are fewer cores.
    pub(crate) fn new(count: usize, cpus: &[usize], connections_max: usize) -> io::Result<Arc<Self>> {
        let inboxes = (0..count).map(|_| Inbox::new()).collect::<io::Result<_>>()?;
        Ok(Arc::new(Self {
            inboxes,
            cpus: cpus.iter().copied().cycle().take(count).collect(),
            stopping: AtomicBool::new(false),
            next_connection: FIRST_CONNECTION_ID.into(),
            connections_max,
            connections: Connections::default(),
        }))
    }

    /// Asks all threads to end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
    }

    /// Has all threads look for operations that are due.
    pub(crate) fn wake(&self) {
        self.inboxes.iter().for_each(|inbox| inbox.wake_up.wake());
    }

    pub(crate) fn count(&self) -> usize {
        self.inboxes.len()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(super) fn new_connection_id(&self) -> ConnectionId {
        self.next_connection.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn cpu(&self, thread: usize) -> usize {
        self.cpus[thread]
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

    pub(super) fn put(&self, connection: Connection) {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        self.wake_up.wake();
    }

    pub(super) fn take(&self) -> Vec<Connection> {
        self.wake_up.clear();
        std::mem::take(&mut *self.connections.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
