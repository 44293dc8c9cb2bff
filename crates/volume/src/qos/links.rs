//! Limits of single connections and clients. One that is at its limit delays nobody else.

use iocurve_meter::{Nanos, TokenBucket};
use std::collections::HashMap;
use std::net::Ipv6Addr;

use super::bucket::{Bucket, Level, set_bucket};
use super::fair::Key;
use super::gate::Request;
use super::limits::{ClientLimits, Limits};
use crate::pending::ConnectionId;

/// A limit of each client or each connection.
struct Link {
    /// The field of `Limits`.
    name: &'static str,
    rate: fn(&Limits) -> Option<u64>,
    operations: Operations,
    /// True if it counts operations; otherwise it counts bytes.
    is_iops: bool,
}

/// The operations that a limit counts.
#[derive(PartialEq)]
enum Operations {
    All,
    Reads,
    Writes,
}

use Operations::{All, Reads, Writes};

impl Link {
    const fn bandwidth(name: &'static str, operations: Operations, rate: fn(&Limits) -> Option<u64>) -> Self {
        Self { name, rate, operations, is_iops: false }
    }

    const fn iops(name: &'static str, operations: Operations, rate: fn(&Limits) -> Option<u64>) -> Self {
        Self { name, rate, operations, is_iops: true }
    }

    fn counts(&self, is_write: bool) -> bool {
        match self.operations {
            All => true,
            Reads => !is_write,
            Writes => is_write,
        }
    }
}

static OF_CLIENTS: [Link; 4] = [
    Link::bandwidth("client.bandwidth_read_bytes_per_s", Reads, |limits| limits.client.bandwidth_read_bytes_per_s),
    Link::bandwidth("client.bandwidth_write_bytes_per_s", Writes, |limits| limits.client.bandwidth_write_bytes_per_s),
    Link::iops("client.iops_read", Reads, |limits| limits.client.iops_read),
    Link::iops("client.iops_write", Writes, |limits| limits.client.iops_write),
];

static OF_CONNECTIONS: [Link; 6] = [
    Link::bandwidth("connection.bandwidth_bytes_per_s", All, |limits| limits.connection.bandwidth_bytes_per_s),
    Link::bandwidth("connection.bandwidth_read_bytes_per_s", Reads, |limits| {
        limits.connection.bandwidth_read_bytes_per_s
    }),
    Link::bandwidth("connection.bandwidth_write_bytes_per_s", Writes, |limits| {
        limits.connection.bandwidth_write_bytes_per_s
    }),
    Link::iops("connection.iops", All, |limits| limits.connection.iops),
    Link::iops("connection.iops_read", Reads, |limits| limits.connection.iops_read),
    Link::iops("connection.iops_write", Writes, |limits| limits.connection.iops_write),
];

/// The tokens of each link, in the order of its table.
type Tokens<const N: usize> = [Option<TokenBucket>; N];

/// The tokens that connections and clients have used of their limits.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// By client and connection, all that have transferred data while there was a limit.
    connections: HashMap<[Key; 2], Tokens<6>>,
    clients: HashMap<Key, Tokens<4>>,
}

impl Links {
    /// Takes the tokens of an operation admitted at `at`, and returns how long its transfer takes.
    pub(super) fn take<T>(&mut self, limits: &Limits, request: &Request<T>, at: Nanos) -> Nanos {
        let has_clients = limits.client != ClientLimits::default();
        if !has_clients && !limits.connection.any_rate() {
            return 0;
        }
        // A client is known as long as one of its connections is, so connections are kept for both.
        let own = take(self.connections.entry(request.path).or_default(), &OF_CONNECTIONS, limits, request, at);
        if !has_clients {
            return own;
        }
        own.max(take(self.clients.entry(request.path[0]).or_default(), &OF_CLIENTS, limits, request, at))
    }

    /// Changes the limits from `now` on. Operations that were admitted before keep their time.
    pub(super) fn set(&mut self, limits: &Limits, now: Nanos) {
        self.connections.values_mut().for_each(|tokens| set(tokens, &OF_CONNECTIONS, limits, now));
        self.clients.values_mut().for_each(|tokens| set(tokens, &OF_CLIENTS, limits, now));
    }

    /// Forgets a connection, and with its last connection a client.
    pub(super) fn remove(&mut self, path: [Key; 2]) {
        self.connections.remove(&path);
        if !self.connections.keys().any(|other| other[0] == path[0]) {
            self.clients.remove(&path[0]);
        }
    }

    /// All buckets: those of clients in the order of their addresses, then those of connections in the order of their numbers.
    pub(super) fn buckets(&self, now: Nanos) -> Vec<Bucket> {
        let client = self.clients.iter().flat_map(|(key, tokens)| {
            let client = Some(Ipv6Addr::from_bits(*key).to_canonical());
            levels(tokens, &OF_CLIENTS, now).map(move |(limit, level)| Bucket {
                limit,
                client,
                connection: None,
                level,
            })
        });
        let connection = self.connections.iter().flat_map(|(path, tokens)| {
            let connection = Some(path[1] as ConnectionId);
            levels(tokens, &OF_CONNECTIONS, now).map(move |(limit, level)| Bucket {
                limit,
                client: None,
                connection,
                level,
            })
        });
        let mut buckets: Vec<_> = client.chain(connection).collect();
        buckets.sort_unstable_by_key(|bucket| (bucket.connection, bucket.client, bucket.limit));
        buckets
    }
}

/// Takes the tokens of each link that counts the operation, and returns the longest wait.
fn take<T, const N: usize>(
    tokens: &mut Tokens<N>,
    links: &'static [Link; N],
    limits: &Limits,
    request: &Request<T>,
    at: Nanos,
) -> Nanos {
    let counting = tokens.iter_mut().zip(links).filter(|(_, link)| link.counts(request.is_write));
    let waits = counting.map(|(tokens, link)| {
        if tokens.is_none() {
            set_bucket(tokens, (link.rate)(limits), 0, at);
        }
        tokens.as_mut().map_or(0, |tokens| tokens.take(at, if link.is_iops { 1 } else { request.bytes }))
    });
    waits.max().unwrap_or(0)
}

fn set<const N: usize>(tokens: &mut Tokens<N>, links: &'static [Link; N], limits: &Limits, now: Nanos) {
    for (tokens, link) in tokens.iter_mut().zip(links) {
        set_bucket(tokens, (link.rate)(limits), 0, now);
    }
}

fn levels<const N: usize>(
    tokens: &Tokens<N>,
    links: &'static [Link; N],
    now: Nanos,
) -> impl Iterator<Item = (&'static str, Level)> {
    links.iter().zip(tokens).filter_map(move |(link, tokens)| Some((link.name, Level::of(tokens.as_ref()?, now))))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use iocurve_meter::SECOND;

    use super::*;
    use crate::qos::{ConnectionLimits, Latency, Qos};

    const MIB: u64 = 1 << 20;
    const FIRST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 1, 1));
    const SECOND_ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 1, 2));

    fn writes(bandwidth: u64) -> ClientLimits {
        ClientLimits { bandwidth_write_bytes_per_s: Some(bandwidth), ..ClientLimits::default() }
    }

    fn path(client: IpAddr, connection: Key) -> [Key; 2] {
        let IpAddr::V4(client) = client else { panic!("tests have IPv4 addresses") };
        [client.to_ipv6_mapped().to_bits(), connection]
    }

    /// When an operation that comes `now` is answered.
    fn due(qos: &mut Qos<()>, now: Nanos, path: [Key; 2], is_write: bool, bytes: u64) -> Nanos {
        let mut answered = Nanos::MAX;
        qos.admit(now, Request { path, is_write, bytes, item: () }, |due, ()| answered = due);
        answered
    }

    #[test]
    fn the_writes_of_a_client_share_its_bandwidth_to_the_nanosecond() {
        let limits = Limits { client: writes(64 * MIB), latency: Latency::constant(7), ..Limits::default() };
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
        let client = ClientLimits { bandwidth_read_bytes_per_s: Some(640), ..writes(6400) };
        let connection = ConnectionLimits { bandwidth_bytes_per_s: Some(3200), ..ConnectionLimits::default() };
        let mut qos = Qos::new(Limits { client, connection, ..Limits::default() }, 0);
        assert_eq!(due(&mut qos, 0, path(FIRST, 1), false, 650), SECOND);
        assert_eq!(due(&mut qos, 0, path(FIRST, 2), true, 3250), SECOND);
    }

    #[test]
    fn a_connection_does_so_many_operations_per_second_of_any_size() {
        let connection =
            ConnectionLimits { iops: Some(64), bandwidth_bytes_per_s: Some(64 * MIB), ..Default::default() };
        let mut qos = Qos::new(Limits { connection, ..Limits::default() }, 0);
        // A connection may catch up on one operation; each further one is due 1/64 s after the one before.
        for number in 0..4 {
            assert_eq!(due(&mut qos, 0, path(FIRST, 1), number % 2 == 0, 512), number as Nanos * SECOND / 64);
        }
        assert_eq!(due(&mut qos, 0, path(FIRST, 2), false, 512), 0);
        let limits: Vec<_> = qos.buckets(0).into_iter().map(|bucket| (bucket.limit, bucket.connection)).collect();
        assert_eq!(limits[0], ("connection.bandwidth_bytes_per_s", Some(1)));
        assert_eq!(limits[1], ("connection.iops", Some(1)));
        // At 64 MiB/s a MiB takes as long as an operation at 64 IOPS: the slower of both decides.
        assert_eq!(due(&mut qos, SECOND, path(FIRST, 1), false, 3 * MIB), SECOND + SECOND / 32);
    }

    #[test]
    fn limits_of_one_kind_of_operation_leave_the_other_alone() {
        let connection = ConnectionLimits {
            iops_read: Some(64),
            bandwidth_write_bytes_per_s: Some(64 * MIB),
            ..ConnectionLimits::default()
        };
        let client = ClientLimits { iops_read: Some(128), iops_write: Some(32), ..ClientLimits::default() };
        let mut qos = Qos::new(Limits { client, connection, ..Limits::default() }, 0);
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
        let mut qos = Qos::new(Limits { client: writes(640), ..Limits::default() }, 0);
        assert_eq!(due(&mut qos, 0, path(FIRST, 1), true, 650), SECOND);
        // Half of the 640 that were owed are left, and are paid at ten times the rate.
        qos.set_limits(SECOND / 2, Limits { client: writes(6400), ..Limits::default() }, |_, ()| {});
        assert_eq!(due(&mut qos, SECOND / 2, path(FIRST, 1), true, 320), SECOND / 2 + SECOND / 10);
        qos.set_limits(SECOND / 2, Limits { iops: Some(1000), ..Limits::default() }, |_, ()| {});
        assert_eq!(due(&mut qos, SECOND / 2, path(FIRST, 1), true, 1 << 40), SECOND / 2);
    }

    #[test]
    fn a_client_is_forgotten_with_its_last_connection() {
        let mut qos = Qos::new(Limits { client: writes(640), ..Limits::default() }, 0);
        due(&mut qos, 0, path(FIRST, 1), true, 650);
        due(&mut qos, 0, path(FIRST, 2), true, 640);
        let bucket = |client, level| Bucket {
            limit: "client.bandwidth_write_bytes_per_s",
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
