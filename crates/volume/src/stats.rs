//! What a volume has done. Each thread counts for itself, in plain loads and stores; readers add up.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::qos::{Bucket, Limits};

/// Most clients whose closed connections are remembered apart from each other.
const CLIENTS_MAX: usize = 1024;

macro_rules! counters {
    ($(#[$stats_meta:meta])* $stats:ident, $(#[$counters_meta:meta])* $counters:ident {
        $($(#[$meta:meta])* $name:ident),* $(,)?
    }) => {
        $(#[$stats_meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
        pub struct $stats { $($(#[$meta])* pub $name: u64),* }

        $(#[$counters_meta])*
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct $counters { $(pub(crate) $name: Counter),* }

        impl $counters {
            /// The counters now.
            pub(crate) fn read(&self) -> $stats {
                $stats { $($name: self.$name.0.load(Relaxed)),* }
            }
        }

        impl std::ops::AddAssign for $stats {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// READs and WRITEs of an export, a client or a connection.
    IoStats,
    /// Those that one thread counted, on cache lines of their own.
    IoCounters {
        /// READs answered.
        reads,
        /// Bytes of data in them.
        read_bytes,
        /// WRITEs carried out.
        writes,
        /// Bytes of data in them.
        write_bytes,
        /// READs and WRITEs that had to wait for a limit or the added latency.
        throttled_operations,
        /// How long they waited, together.
        throttled_ns,
    }
}

counters! {
    /// What else a volume has done since it was started.
    CallStats,
    /// That of one thread, on cache lines of their own.
    CallCounters {
        /// COMMITs answered.
        commits,
        /// Other calls answered, of all programs.
        other_operations,
        /// Connections accepted.
        connections_accepted,
        /// Connections closed.
        connections_closed,
        /// Connections closed because the peer broke the protocol.
        protocol_errors,
    }
}

impl IoCounters {
    /// Counts what was done; only the counters' thread may.
    #[inline]
    pub(crate) fn add(&self, done: &IoStats) {
        self.reads.add(done.reads);
        self.read_bytes.add(done.read_bytes);
        self.writes.add(done.writes);
        self.write_bytes.add(done.write_bytes);
        self.throttled_operations.add(done.throttled_operations);
        self.throttled_ns.add(done.throttled_ns);
    }
}

/// What one thread has done.
#[derive(Debug)]
pub(crate) struct Counters {
    /// READs and WRITEs of each export.
    pub(crate) exports: Box<[IoCounters]>,
    /// All other calls.
    pub(crate) calls: CallCounters,
}

impl Counters {
    /// Of a thread that has done nothing.
    pub(crate) fn new(exports: usize) -> Self {
        Self { exports: (0..exports).map(|_| IoCounters::default()).collect(), calls: CallCounters::default() }
    }
}

/// A number that one thread adds to and others read.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds; only one thread may. A plain load and store cost less than a locked addition.
    #[inline]
    pub(crate) fn add(&self, value: u64) {
        self.0.store(self.0.load(Relaxed) + value, Relaxed);
    }
}

/// What a volume has done since it was started.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Stats {
    /// Nanoseconds since the start.
    pub uptime_ns: u64,
    /// All READs and WRITEs.
    #[serde(flatten)]
    pub io: IoStats,
    /// All other calls.
    #[serde(flatten)]
    pub calls: CallStats,
    /// By export, in the order of the configuration.
    pub exports: Vec<ExportStats>,
    /// By client address, also those that have left.
    pub clients: Vec<ClientStats>,
    /// Connections that are open now.
    pub connections: Vec<ConnectionStats>,
}

/// An export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExportStats {
    /// What clients mount.
    pub path: String,
    /// Its size.
    pub quota_bytes: u64,
    /// What of it is used.
    pub used_bytes: u64,
    /// What it is limited to now.
    pub limits: Limits,
    /// Credits that are left for a burst; none without one.
    pub burst_credits: Option<u64>,
    /// What the token buckets of its limits hold.
    pub buckets: Vec<Bucket>,
    /// What was done.
    #[serde(flatten)]
    pub io: IoStats,
}

/// A client: all connections from one address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClientStats {
    /// Its address; none for clients beyond the number that is remembered.
    pub address: Option<IpAddr>,
    /// Connections that are open now.
    pub connections: u64,
    /// What was done.
    #[serde(flatten)]
    pub io: IoStats,
}

/// A connection that is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConnectionStats {
    /// Its number; never used twice.
    pub id: u64,
    /// Address and port of the client.
    pub peer: SocketAddr,
    /// Requests that wait for a limit or the added latency now.
    pub in_flight: u64,
    /// What was done.
    #[serde(flatten)]
    pub io: IoStats,
}

/// What one connection has done; written by the thread that has it.
#[derive(Debug)]
pub(crate) struct ConnectionCounters {
    peer: SocketAddr,
    in_flight: AtomicU64,
    io: IoCounters,
}

impl ConnectionCounters {
    /// Counts what one turn did, and notes how many requests still wait.
    #[inline]
    pub(crate) fn turned(&self, done: &IoStats, in_flight: usize) {
        self.io.add(done);
        self.in_flight.store(in_flight as u64, Relaxed);
    }
}

/// Who is and was connected.
#[derive(Debug, Default)]
pub(crate) struct Connections(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    open: BTreeMap<u64, Arc<ConnectionCounters>>,
    /// What closed connections did.
    closed: BTreeMap<Option<IpAddr>, IoStats>,
}

impl Connections {
    /// Counters of a new connection.
    pub(crate) fn opened(&self, id: u64, peer: SocketAddr) -> Arc<ConnectionCounters> {
        let counters = ConnectionCounters { peer, in_flight: AtomicU64::new(0), io: IoCounters::default() };
        let counters = Arc::new(counters);
        self.known().open.insert(id, Arc::clone(&counters));
        counters
    }

    /// Keeps of a connection what its client is remembered for.
    pub(crate) fn closed(&self, id: u64) {
        let mut known = self.known();
        let Some(counters) = known.open.remove(&id) else { return };
        let client = Some(counters.peer.ip());
        let apart = known.closed.len() < CLIENTS_MAX || known.closed.contains_key(&client);
        *known.closed.entry(client.filter(|_| apart)).or_default() += counters.io.read();
    }

    /// Clients by address, and connections by number.
    pub(crate) fn read(&self) -> (Vec<ClientStats>, Vec<ConnectionStats>) {
        let known = self.known();
        let mut clients: BTreeMap<_, _> = known.closed.iter().map(|(client, io)| (*client, (0, *io))).collect();
        let connections: Vec<_> = known.open.iter().map(|(id, counters)| connection(*id, counters)).collect();
        for ConnectionStats { peer, io, .. } in &connections {
            let (open, sum) = clients.entry(Some(peer.ip())).or_default();
            *open += 1;
            *sum += *io;
        }
        let client = |(address, (connections, io))| ClientStats { address, connections, io };
        (clients.into_iter().map(client).collect(), connections)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn connection(id: u64, counters: &ConnectionCounters) -> ConnectionStats {
    let in_flight = counters.in_flight.load(Relaxed);
    ConnectionStats { id, peer: counters.peer, in_flight, io: counters.io.read() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up() {
        let (one, two) = (IoCounters::default(), IoCounters::default());
        one.reads.add(2);
        two.reads.add(3);
        two.write_bytes.add(4);
        let mut sum = one.read();
        sum += two.read();
        assert_eq!((sum.reads, sum.write_bytes), (5, 4));
    }

    #[test]
    fn a_client_is_remembered_when_its_connections_have_closed() {
        let connections = Connections::default();
        let peer = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let (one, other) = (connections.opened(1, peer(700)), connections.opened(2, peer(701)));
        one.turned(&IoStats { reads: 3, ..IoStats::default() }, 5);
        other.turned(&IoStats { reads: 4, ..IoStats::default() }, 0);
        connections.closed(2);
        let (clients, open) = connections.read();
        assert_eq!(clients.len(), 1);
        assert_eq!((clients[0].address, clients[0].connections), (Some(peer(0).ip()), 1));
        assert_eq!(clients[0].io.reads, 7);
        assert_eq!((open.len(), open[0].id, open[0].peer, open[0].in_flight), (1, 1, peer(700), 5));
    }

    #[test]
    fn clients_beyond_the_bound_are_one() {
        let connections = Connections::default();
        for n in 0..CLIENTS_MAX as u32 + 2 {
            let address = IpAddr::from((0x0a00_0000 + n).to_be_bytes());
            connections
                .opened(u64::from(n), (address, 1).into())
                .turned(&IoStats { writes: 1, ..IoStats::default() }, 0);
            connections.closed(u64::from(n));
        }
        let (clients, _) = connections.read();
        assert_eq!((clients.len(), clients[0].address, clients[0].io.writes), (CLIENTS_MAX + 1, None, 2));
    }
}
