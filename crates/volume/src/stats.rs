//! Counters of a volume. Each thread has its own, written by plain loads and stores; readers add them up.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iocurve_meter::Nanos;
use iocurve_wire::nfs3::nfsproc3;
use iocurve_wire::nfs4::nfs_opnum4;
use serde::Serialize;

use crate::qos::{Bucket, Limits};
use crate::store::faulty::FaultStats;

/// Most clients whose closed connections are counted apart from each other.
const CLIENTS_MAX: usize = 1024;
/// Numbers of `NFSv3` procedures, and of NFSv4.1 operations, are below.
const PROCEDURES: usize = 22;
const OPERATIONS: usize = 59;

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
    /// The counters of one thread, on separate cache lines.
    IoCounters {
        /// READs answered.
        reads,
        /// Bytes of data in them.
        read_bytes,
        /// WRITEs executed.
        writes,
        /// Bytes of data in them.
        write_bytes,
        /// READs and WRITEs that had to wait for a limit or the added latency.
        throttled_operations,
        /// Sum of the times that they waited.
        throttled_ns,
    }
}

counters! {
    /// Other calls, and connections, since the start.
    CallStats,
    /// The counters of one thread, on separate cache lines.
    CallCounters {
        /// COMMITs answered.
        commits,
        /// Other calls answered, of all programs.
        other_operations,
        /// Connections accepted.
        connections_accepted,
        /// Connections closed at once: no export admits their address, or all are open and their address has its share.
        connections_refused,
        /// Connections closed.
        connections_closed,
        /// Connections closed because the peer broke the protocol.
        protocol_errors,
        /// Connections closed because a record did not arrive in time, or because they held memory that others needed, or were idle while
        /// others needed their place.
        connections_timed_out,
    }
}

impl IoCounters {
    /// Adds counts. Only the thread that owns the counters may call this.
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

/// All counters of one thread.
#[derive(Debug)]
pub(crate) struct Counters {
    /// READs and WRITEs of each export.
    pub(crate) exports: Box<[IoCounters]>,
    /// All other calls.
    pub(crate) calls: CallCounters,
    /// Calls by `NFSv3` procedure.
    pub(crate) nfs3: [Counter; PROCEDURES],
    /// Operations of COMPOUNDs by number.
    pub(crate) nfs4: [Counter; OPERATIONS],
    /// Time for which the thread was starved.
    pub(crate) starved_ns: Counter,
}

impl Counters {
    pub(crate) fn new(exports: usize) -> Self {
        let exports = (0..exports).map(|_| IoCounters::default()).collect();
        Self {
            exports,
            calls: CallCounters::default(),
            nfs3: std::array::from_fn(|_| Counter::default()),
            nfs4: std::array::from_fn(|_| Counter::default()),
            starved_ns: Counter::default(),
        }
    }

    /// Adds the calls of each procedure to those of other threads.
    pub(crate) fn add_calls_to(&self, stats: &mut Stats) {
        let name = |number| nfsproc3::from_u32(number).and_then(|procedure| procedure.name().strip_prefix("NFSPROC3_"));
        add_by_name(&self.nfs3, name, &mut stats.nfs3_procedures);
        // GETATTR, the cheapest call, has this counter alone.
        stats.calls.other_operations += self.nfs3[nfsproc3::NFSPROC3_GETATTR as usize].read();
        let is_other = |operation: &nfs_opnum4| !matches!(operation, nfs_opnum4::OP_READ | nfs_opnum4::OP_WRITE);
        let found = |number| nfs_opnum4::from_u32(number).filter(is_other);
        let name = |number| found(number).and_then(|operation| operation.name().strip_prefix("OP_"));
        add_by_name(&self.nfs4, name, &mut stats.nfs4_operations);
    }
}

/// Adds counters above 0 to the sums of their names.
fn add_by_name(
    counters: &[Counter],
    name: impl Fn(u32) -> Option<&'static str>,
    sums: &mut BTreeMap<&'static str, u64>,
) {
    for (number, counter) in (0..).zip(counters) {
        if let (count @ 1.., Some(name)) = (counter.read(), name(number)) {
            *sums.entry(name).or_default() += count;
        }
    }
}

/// A counter that one thread writes and others read.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds to the counter. Only one thread may: a plain load and store cost less than a locked addition.
    #[inline]
    pub(crate) fn add(&self, value: u64) {
        self.0.store(self.0.load(Relaxed) + value, Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Counters of a volume since its start.
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
    /// `NFSv3` calls by procedure (`LOOKUP`), without READ and WRITE, which are counted by export; those that were called.
    pub nfs3_procedures: BTreeMap<&'static str, u64>,
    /// Operations of NFSv4.1 COMPOUNDs by name (`LOOKUP`), in the same way.
    pub nfs4_operations: BTreeMap<&'static str, u64>,
    /// Of each thread the nanoseconds for which it was starved: ready to run, and without a processor for more than 1/64 s at a time.
    pub threads_starved_ns: Vec<u64>,
    /// Bytes that connections hold for records in part, replies not taken and operations that wait.
    pub connection_memory_bytes: u64,
    /// State of NFSv4.1 clients.
    pub nfs4: Nfs4Stats,
    /// By export, in the order of the configuration.
    pub exports: Vec<ExportStats>,
    /// By client address, also those that have left.
    pub clients: Vec<ClientStats>,
    /// Open connections.
    pub connections: Vec<ConnectionStats>,
}

/// State that the volume keeps for NFSv4.1 clients now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Nfs4Stats {
    /// Clients, those without a session included.
    pub clients: u64,
    /// Slots of their sessions.
    pub slots: u64,
    /// Opens and lock owners.
    pub states: u64,
    /// Locked ranges.
    pub ranges: u64,
}

/// State and counters of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExportStats {
    /// Path that clients mount.
    pub path: String,
    /// Size of the export.
    pub quota_bytes: u64,
    /// Bytes of it that are used.
    pub used_bytes: u64,
    /// Current limits.
    pub limits: Limits,
    /// Burst credits left; none if the limits have no burst.
    pub burst_credits: Option<u64>,
    /// Token buckets of its limits.
    pub buckets: Vec<Bucket>,
    /// Nanoseconds for which buckets now keep what they gain on top of their capacities, because a thread came late; at most 250 ms.
    pub catch_up_ns: u64,
    /// Faults injected so far; none if the volume injects none.
    pub faults: Option<FaultStats>,
    /// READs and WRITEs.
    #[serde(flatten)]
    pub io: IoStats,
}

/// Counters of a client: all connections from one address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClientStats {
    /// Address; none for the sum of clients beyond those that are remembered one by one.
    pub address: Option<IpAddr>,
    /// Open connections.
    pub connections: u64,
    /// READs and WRITEs.
    #[serde(flatten)]
    pub io: IoStats,
}

/// Counters of an open connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConnectionStats {
    /// Number of the connection; never used twice.
    pub id: u64,
    /// Address and port of the client.
    pub peer: SocketAddr,
    /// READs and WRITEs that wait for a limit or the added latency now.
    pub in_flight: u64,
    /// READs and WRITEs.
    #[serde(flatten)]
    pub io: IoStats,
}

/// Counters of one connection, written by the thread that serves it.
#[derive(Debug)]
pub(crate) struct ConnectionCounters {
    peer: SocketAddr,
    in_flight: AtomicU64,
    /// Time of its last turn.
    active: AtomicU64,
    io: IoCounters,
}

impl ConnectionCounters {
    /// Adds the counts of one turn, and sets its time and the number of requests that wait.
    #[inline]
    pub(crate) fn turned(&self, done: &IoStats, in_flight: usize, now: Nanos) {
        self.io.add(done);
        self.in_flight.store(in_flight as u64, Relaxed);
        self.active.store(now, Relaxed);
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    /// Time of its last turn.
    pub(crate) fn active(&self) -> Nanos {
        self.active.load(Relaxed)
    }
}

/// Counters of all connections, open and closed.
#[derive(Debug, Default)]
pub(crate) struct Connections(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    open: BTreeMap<u64, Arc<ConnectionCounters>>,
    /// Sums over closed connections, by client.
    closed: BTreeMap<Option<IpAddr>, IoStats>,
}

impl Connections {
    /// Adds a connection and returns its counters.
    pub(crate) fn opened(&self, id: u64, peer: SocketAddr, now: Nanos) -> Arc<ConnectionCounters> {
        let counters = ConnectionCounters { peer, in_flight: 0.into(), active: now.into(), io: IoCounters::default() };
        let counters = Arc::new(counters);
        self.known().open.insert(id, Arc::clone(&counters));
        counters
    }

    /// Removes a connection, and adds its counts to those of its client.
    pub(crate) fn closed(&self, id: u64) {
        let mut known = self.known();
        let Some(counters) = known.open.remove(&id) else { return };
        let client = Some(counters.peer.ip());
        let apart = known.closed.len() < CLIENTS_MAX || known.closed.contains_key(&client);
        *known.closed.entry(client.filter(|_| apart)).or_default() += counters.io.read();
    }

    /// Returns clients by address, and open connections by number.
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
    let ConnectionCounters { peer, io, .. } = counters;
    ConnectionStats { id, peer: *peer, in_flight: counters.in_flight(), io: io.read() }
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
        let (one, other) = (connections.opened(1, peer(700), 0), connections.opened(2, peer(701), 0));
        one.turned(&IoStats { reads: 3, ..IoStats::default() }, 5, 0);
        other.turned(&IoStats { reads: 4, ..IoStats::default() }, 0, 0);
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
            connections.opened(u64::from(n), (address, 1).into(), 0).turned(
                &IoStats { writes: 1, ..IoStats::default() },
                0,
                0,
            );
            connections.closed(u64::from(n));
        }
        let (clients, _) = connections.read();
        assert_eq!((clients.len(), clients[0].address, clients[0].io.writes), (CLIENTS_MAX + 1, None, 2));
    }
}
