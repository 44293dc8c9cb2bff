//! Limits of single connections and clients. One that is at its limit delays nobody else.

use std::collections::HashMap;
use std::net::Ipv6Addr;

use iocurve_meter::{Nanos, TokenBucket};

use super::bucket::{Bucket, Level, set_bucket};
use super::fair::Key;
use super::gate::Request;
use super::limits::Limits;
use crate::pending::ConnectionId;

/// The fields of `Limits` in the order of `ClientLimits::bandwidths`.
const CLIENT_LIMITS: [&str; 2] = ["client.bandwidth_read_bytes_per_s", "client.bandwidth_write_bytes_per_s"];
/// The fields of `Limits` in the order of `ConnectionLimits::rates`.
const CONNECTION_LIMITS: [&str; 2] = ["connection.bandwidth_bytes_per_s", "connection.iops"];

/// The tokens that connections and clients have used of their limits.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// By client and connection, all that have transferred data while there was a limit: bytes and operations.
    connections: HashMap<[Key; 2], [Option<TokenBucket>; 2]>,
    /// By client: READs and WRITEs.
    clients: HashMap<Key, [Option<TokenBucket>; 2]>,
}

impl Links {
    /// Takes the tokens of an operation admitted at `at`, and returns how long its transfer takes.
    pub(super) fn take<T>(&mut self, limits: &Limits, request: &Request<T>, at: Nanos) -> Nanos {
        let (connection, client) = (limits.connection.rates(), limits.client.bandwidths());
        if connection == [None; 2] && client == [None; 2] {
            return 0;
        }
        let kind = usize::from(request.is_write);
        let [bytes, operations] = self.connections.entry(request.path).or_default();
        let own = take(bytes, connection[0], request.bytes, at).max(take(operations, connection[1], 1, at));
        let shared = client[kind].map_or(0, |rate| {
            let links = self.clients.entry(request.path[0]).or_default();
            take(&mut links[kind], Some(rate), request.bytes, at)
        });
        own.max(shared)
    }

    /// Changes the limits from `now` on. Operations that were admitted before keep their time.
    pub(super) fn set(&mut self, limits: &Limits, now: Nanos) {
        let connections = self.connections.values_mut().map(|links| (links, limits.connection.rates()));
        let clients = self.clients.values_mut().map(|links| (links, limits.client.bandwidths()));
        for (links, rates) in connections.chain(clients) {
            for (link, rate) in links.iter_mut().zip(rates) {
                set_bucket(link, rate, 0, now);
            }
        }
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
        let client = self.clients.iter().flat_map(|(key, links)| {
            let client = Some(Ipv6Addr::from_bits(*key).to_canonical());
            let bucket = move |(limit, level)| Bucket { limit, client, connection: None, level };
            levels(CLIENT_LIMITS, links, now).map(bucket)
        });
        let connection = self.connections.iter().flat_map(|(path, links)| {
            let connection = Some(path[1] as ConnectionId);
            let bucket = move |(limit, level)| Bucket { limit, client: None, connection, level };
            levels(CONNECTION_LIMITS, links, now).map(bucket)
        });
        let mut buckets: Vec<_> = client.chain(connection).collect();
        buckets.sort_unstable_by_key(|bucket| (bucket.connection, bucket.client, bucket.limit));
        buckets
    }
}

fn levels(
    limits: [&'static str; 2],
    links: &[Option<TokenBucket>; 2],
    now: Nanos,
) -> impl Iterator<Item = (&'static str, Level)> {
    limits.into_iter().zip(links).filter_map(move |(limit, link)| Some((limit, Level::of(link.as_ref()?, now))))
}

fn take(link: &mut Option<TokenBucket>, rate: Option<u64>, amount: u64, at: Nanos) -> Nanos {
    if link.is_none() {
        set_bucket(link, rate, 0, at);
    }
    link.as_mut().map_or(0, |link| link.take(at, amount))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use iocurve_meter::SECOND;

    use super::*;
    use crate::qos::{ClientLimits, ConnectionLimits, Latency, Qos};

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
        let client = ClientLimits { bandwidth_read_bytes_per_s: Some(640), bandwidth_write_bytes_per_s: Some(6400) };
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
