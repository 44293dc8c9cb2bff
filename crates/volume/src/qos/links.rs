//! Limits of single connections and clients. One that is at its limit delays nobody else.

use iocurve_meter::{Nanos, TokenBucket};
use std::collections::HashMap;
use std::hash::Hash;
use std::net::Ipv6Addr;

use super::bucket::{Bucket, CATCH_UPS_PER_S, Level, set_bucket};
use super::fair::Key;
use super::gate::Request;
use super::key_hash::KeyHash;
use super::limits::{Cap, Limits, Quantity, Scope};
use crate::pending::ConnectionId;

/// Rates that each client or each connection can have: of bytes and of operations, for each kind.
const SLOTS: usize = 6;

/// The tokens of the caps of one client or connection, each in its slot.
type Tokens = [Option<TokenBucket>; SLOTS];

/// The tokens that connections and clients have used of their limits.
#[derive(Debug)]
pub(super) struct Links {
    /// By client and connection, all that have transferred data while there was a limit.
    connections: Holders<[Key; 2]>,
    clients: Holders<Key>,
    /// Buckets keep what they gain in this time on top of their capacities.
    late_ns: Nanos,
}

/// The caps of one scope, and the tokens of all who have them.
#[derive(Debug)]
struct Holders<K> {
    caps: Vec<Cap>,
    tokens: HashMap<K, Tokens, KeyHash>,
}

impl Links {
    pub(super) fn new(limits: &Limits) -> Self {
        let (connections, clients) = (Holders::new(limits, Scope::Connection), Holders::new(limits, Scope::Client));
        Self { connections, clients, late_ns: 0 }
    }

    /// Takes the tokens of an operation admitted at `at`, and returns how long its transfer takes.
    pub(super) fn take<T>(&mut self, request: &Request<T>, at: Nanos) -> Nanos {
        let Self { connections, clients, late_ns } = self;
        if clients.caps.is_empty() && connections.caps.is_empty() {
            return 0;
        }
        // A client is known as long as one of its connections is, so connections are kept for both.
        let own = connections.take(request.path, request, at, *late_ns);
        if clients.caps.is_empty() { own } else { own.max(clients.take(request.path[0], request, at, *late_ns)) }
    }

    /// Sets the time for which buckets keep what they gain on top of their capacities.
    pub(super) fn set_late(&mut self, late_ns: Nanos) {
        self.late_ns = late_ns;
    }

    /// Changes the limits from `now` on. Operations that were admitted before keep their time.
    pub(super) fn set(&mut self, limits: &Limits, now: Nanos) {
        self.connections.set(limits, Scope::Connection, now);
        self.clients.set(limits, Scope::Client, now);
    }

    /// Forgets a connection, and with its last connection a client.
    pub(super) fn remove(&mut self, path: [Key; 2]) {
        self.connections.tokens.remove(&path);
        if !self.connections.tokens.keys().any(|other| other[0] == path[0]) {
            self.clients.tokens.remove(&path[0]);
        }
    }

    /// All buckets: those of clients in the order of their addresses, then those of connections in the order of their numbers.
    pub(super) fn buckets(&self, now: Nanos) -> Vec<Bucket> {
        let client = self.clients.levels(now).map(|(key, limit, level)| {
            let client = Some(Ipv6Addr::from_bits(*key).to_canonical());
            Bucket { limit, client, connection: None, level }
        });
        let connection = self.connections.levels(now).map(|(path, limit, level)| {
            let connection = Some(path[1] as ConnectionId);
            Bucket { limit, client: None, connection, level }
        });
        let mut buckets: Vec<_> = client.chain(connection).collect();
        buckets.sort_unstable_by(|one, other| one.place().cmp(&other.place()));
        buckets
    }
}

impl<K: Eq + Hash> Holders<K> {
    fn new(limits: &Limits, scope: Scope) -> Self {
        let caps = limits.caps.iter().filter(|cap| cap.scope == scope && cap.quantity != Quantity::Requests);
        Self { caps: caps.copied().collect(), tokens: HashMap::default() }
    }

    /// Takes the tokens of each cap that counts the operation, and returns the longest wait.
    fn take<T>(&mut self, key: K, request: &Request<T>, at: Nanos, late_ns: Nanos) -> Nanos {
        let tokens = self.tokens.entry(key).or_default();
        let counting = self.caps.iter().filter(|cap| cap.counts(request.is_write));
        let waits = counting.map(|cap| {
            let bucket = &mut tokens[slot(cap)];
            if bucket.is_none() {
                set_bucket(bucket, Some(cap.value), 0, CATCH_UPS_PER_S, at);
            }
            let cost = if cap.quantity == Quantity::Iops { 1 } else { request.bytes };
            bucket.as_mut().map_or(0, |bucket| bucket.take_late(at, late_ns, cost))
        });
        waits.max().unwrap_or(0)
    }

    fn set(&mut self, limits: &Limits, scope: Scope, now: Nanos) {
        self.caps = Self::new(limits, scope).caps;
        let mut rates = [None; SLOTS];
        self.caps.iter().for_each(|cap| rates[slot(cap)] = Some(cap.value));
        for tokens in self.tokens.values_mut() {
            tokens.iter_mut().zip(rates).for_each(|(bucket, rate)| set_bucket(bucket, rate, 0, CATCH_UPS_PER_S, now));
        }
    }

    fn levels(&self, now: Nanos) -> impl Iterator<Item = (&K, String, Level)> {
        self.tokens.iter().flat_map(move |(key, tokens)| {
            let level = move |cap: &Cap| Some((key, cap.name(), Level::of(tokens[slot(cap)].as_ref()?, now)));
            self.caps.iter().filter_map(level)
        })
    }
}

fn slot(cap: &Cap) -> usize {
    cap.kind as usize + if cap.quantity == Quantity::Iops { SLOTS / 2 } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use iocurve_meter::SECOND;

    use super::*;
    use crate::qos::{Kind, Latency, Qos};

    const MIB: u64 = 1 << 20;
    const FIRST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 1, 1));
    const SECOND_ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 1, 2));

    fn writes(bandwidth: u64) -> Cap {
        Cap::bytes_per_s(bandwidth).of(Kind::Write).each(Scope::Client)
    }

    fn connection(cap: Cap) -> Cap {
        cap.each(Scope::Connection)
    }

    fn path(client: IpAddr, connection: Key) -> [Key; 2] {
        let IpAddr::V4(client) = client else { panic!("tests have IPv4 addresses") };
        [client.to_ipv6_mapped().to_bits(), connection]
    }

    /// When an operation that comes `now` is answered.
    fn due(qos: &mut Qos<()>, now: Nanos, path: [Key; 2], is_write: bool, bytes: u64) -> Nanos {
        qos.admit(now, &Request { path, is_write, bytes, is_hit: false, item: () }, || (), |_, ()| {})
            .unwrap_or(Nanos::MAX)
    }

    #[test]
    fn the_writes_of_a_client_share_its_bandwidth_to_the_nanosecond() {
        let limits = Limits { latency: Latency::constant(7), ..Limits::of([writes(64 * MIB)]) };
        let mut qos = Qos::new(limits, 0);
        // A client may catch up on 1 MiB; each further MiB is due 1/64 s after the one before, by whichever connection.
        for number in 0..65 {
            assert_eq!(due(&mut qos, 0, path(FIRST, number % 4), true, MIB), number as Nanos * SECOND / 64 + 7);
        }
        // READs, and other clients, have nothing to do with it.
        assert_eq!(due(&mut qos, 0, path(FIRST, 1), false, 1000 * MIB), 7);
        assert_eq!(due(&mut qos, 0, path(SECOND_ONE, 9), true, MIB), 7);
        assert_eq!(due(&mut qos, SECOND, path(FIRST, 2), true, MIB), SECOND + SECOND / 64 + 7);
    }

    #[test]
    fn reads_have_a_bandwidth_of_their_own_and_a_connection_that_is_slower_decides() {
        let reads = Cap::bytes_per_s(640).of(Kind::Read).each(Scope::Client);
        let mut qos = Qos::new(Limits::of([reads, writes(6400), connection(Cap::bytes_per_s(3200))]), 0);
        assert_eq!(due(&mut qos, 0, path(FIRST, 1), false, 650), SECOND);
        assert_eq!(due(&mut qos, 0, path(FIRST, 2), true, 3250), SECOND);
    }

    #[test]
    fn a_connection_does_so_many_operations_per_second_of_any_size() {
        let limits = Limits::of([connection(Cap::iops(64)), connection(Cap::bytes_per_s(64 * MIB))]);
        let mut qos = Qos::new(limits, 0);
        // A connection may catch up on one operation; each further one is due 1/64 s after the one before.
        for number in 0..4 {
            assert_eq!(due(&mut qos, 0, path(FIRST, 1), number % 2 == 0, 512), number as Nanos * SECOND / 64);
        }
        assert_eq!(due(&mut qos, 0, path(FIRST, 2), false, 512), 0);
        let limits: Vec<_> = qos.buckets(0).into_iter().map(|bucket| (bucket.limit, bucket.connection)).collect();
        assert_eq!(limits[0], ("connection.bandwidth_bytes_per_s".to_owned(), Some(1)));
        assert_eq!(limits[1], ("connection.iops".to_owned(), Some(1)));
        // At 64 MiB/s a MiB takes as long as an operation at 64 IOPS: the slower of both decides.
        assert_eq!(due(&mut qos, SECOND, path(FIRST, 1), false, 3 * MIB), SECOND + SECOND / 32);
    }

    #[test]
    fn limits_of_one_kind_of_operation_leave_the_other_alone() {
        let client = |iops, kind| Cap::iops(iops).of(kind).each(Scope::Client);
        let limits = Limits::of([
            connection(Cap::iops(64).of(Kind::Read)),
            connection(Cap::bytes_per_s(64 * MIB).of(Kind::Write)),
            client(128, Kind::Read),
            client(32, Kind::Write),
        ]);
        let mut qos = Qos::new(limits, 0);
        for number in 0..4 {
            assert_eq!(due(&mut qos, 0, path(FIRST, 1), false, 4 * MIB), number * SECOND / 64);
        }
        // By another connection only the client's 128 per second count. It may catch up on two, and four are used.
        assert_eq!(due(&mut qos, 0, path(FIRST, 2), false, 512), 3 * SECOND / 128);
        // The first WRITE of the client; its second is due 1/32 s after it, or after the 3 MiB of its connection.
        assert_eq!(due(&mut qos, 0, path(FIRST, 1), true, 4 * MIB), 3 * SECOND / 64);
        assert_eq!(due(&mut qos, 0, path(FIRST, 2), true, 512), SECOND / 32);
    }

    #[test]
    fn a_bandwidth_that_comes_changes_or_goes_counts_from_then_on() {
        let mut qos = Qos::new(Limits::of([writes(640)]), 0);
        assert_eq!(due(&mut qos, 0, path(FIRST, 1), true, 650), SECOND);
        // Half of the 640 that were owed are left, and are paid at ten times the rate.
        qos.set_limits(SECOND / 2, Limits::of([writes(6400)]), |_, ()| {});
        assert_eq!(due(&mut qos, SECOND / 2, path(FIRST, 1), true, 320), SECOND / 2 + SECOND / 10);
        qos.set_limits(SECOND / 2, Limits::of([Cap::iops(1000)]), |_, ()| {});
        assert_eq!(due(&mut qos, SECOND / 2, path(FIRST, 1), true, 1 << 40), SECOND / 2);
    }

    #[test]
    fn a_client_is_forgotten_with_its_last_connection() {
        let mut qos = Qos::new(Limits::of([writes(640)]), 0);
        due(&mut qos, 0, path(FIRST, 1), true, 650);
        due(&mut qos, 0, path(FIRST, 2), true, 640);
        let bucket = |client, level| Bucket {
            limit: "client.bandwidth_write_bytes_per_s".to_owned(),
            client: Some(client),
            connection: None,
            level: Level { level, capacity: 10, rate_per_s: 640 },
        };
        due(&mut qos, 0, path(SECOND_ONE, 3), true, 4);
        assert_eq!(qos.buckets(0), [bucket(FIRST, -1280), bucket(SECOND_ONE, 6)]);
        qos.remove(0, path(FIRST, 1), |_, ()| {});
        assert_eq!(qos.buckets(0), [bucket(FIRST, -1280), bucket(SECOND_ONE, 6)]);
        qos.remove(0, path(FIRST, 2), |_, ()| {});
        assert_eq!(qos.buckets(0), [bucket(SECOND_ONE, 6)]);
    }
}
