//! The limits of an export as data. Profiles with figures of real services are kept elsewhere.

use serde::{Deserialize, Serialize};

use iocurve_meter::{Nanos, SECOND};

/// Longest latency that can be configured, or drawn from a distribution: an hour.
pub(crate) const LATENCY_NS_MAX: Nanos = 3600 * SECOND;

/// Most servers; each takes some memory.
const SERVERS_MAX: u32 = 65_536;

/// Limits of an export. A limit that is `None` does not apply and costs nothing.
///
/// READs and WRITEs are limited; other procedures are not. An operation is due once all of these allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of READ and WRITE data per second, in sum.
    pub throughput_bytes_per_s: Option<u64>,
    /// Bytes of READ data per second.
    pub throughput_read_bytes_per_s: Option<u64>,
    /// Bytes of WRITE data per second.
    pub throughput_write_bytes_per_s: Option<u64>,
    /// READ and WRITE operations per second, in sum.
    pub iops: Option<u64>,
    /// READ operations per second.
    pub iops_read: Option<u64>,
    /// WRITE operations per second.
    pub iops_write: Option<u64>,
    /// More than `iops` for a time.
    pub burst: Option<Burst>,
    /// Latency added to every READ and WRITE.
    pub latency: Latency,
    /// Limits of each client.
    pub client: ClientLimits,
    /// Limits of each connection.
    pub connection: ConnectionLimits,
    /// Operations that the server works on at once.
    pub parallelism: Option<Parallelism>,
}

/// IOPS beyond the baseline while credits last. Each operation above the baseline costs one credit, each one below earns one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// Most operations per second, at least the baseline.
    pub iops: u64,
    /// Most credits that can be saved; an export starts with all of them.
    pub credits: u64,
}

/// Latency added to each operation: a fixed part and one that varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Latency {
    /// The fixed part.
    pub base_ns: Nanos,
    /// The part that varies, on top of it.
    pub distribution: Distribution,
    /// The same seed gives the same latencies in the same order.
    pub seed: u64,
}

/// The part of the latency that varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Distribution {
    /// No variation.
    #[default]
    Constant,
    /// An exponential tail.
    Exponential {
        /// Its mean.
        mean_ns: Nanos,
    },
    /// A logarithmic normal distribution.
    Lognormal {
        /// Half of the operations take less.
        median_ns: Nanos,
        /// 99 % of the operations take less.
        p99_ns: Nanos,
    },
}

/// Limits of each client (IP address), over all its connections to an export.
///
/// The egress cap of a virtual machine binds what it sends, and that is WRITEs. Such caps are published in megabits: 16,000 Mb/s
/// are 2,000 MB/s, or 1,907 MiB/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClientLimits {
    /// Bytes of READ data per second.
    pub bandwidth_read_bytes_per_s: Option<u64>,
    /// Bytes of WRITE data per second.
    pub bandwidth_write_bytes_per_s: Option<u64>,
    /// READs per second.
    pub iops_read: Option<u64>,
    /// WRITEs per second.
    pub iops_write: Option<u64>,
}

/// Limits of each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConnectionLimits {
    /// READs and WRITEs that may wait for their answer; further calls stay in the transport.
    pub requests_in_flight: Option<u32>,
    /// Bytes of READ and WRITE data per second, in sum.
    pub bandwidth_bytes_per_s: Option<u64>,
    /// Bytes of READ data per second.
    pub bandwidth_read_bytes_per_s: Option<u64>,
    /// Bytes of WRITE data per second.
    pub bandwidth_write_bytes_per_s: Option<u64>,
    /// READs and WRITEs per second, in sum.
    pub iops: Option<u64>,
    /// READs per second.
    pub iops_read: Option<u64>,
    /// WRITEs per second.
    pub iops_write: Option<u64>,
}

/// The server's own speed: the number of operations at once, and the time that each takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parallelism {
    /// Operations at once, at most 65,536.
    pub servers: u32,
    /// Time that one operation takes.
    pub service_ns: Nanos,
}

impl ConnectionLimits {
    /// True if bytes or operations per second are limited.
    pub(super) fn any_rate(&self) -> bool {
        Self { requests_in_flight: None, ..*self } != Self::default()
    }
}

impl Latency {
    /// The same latency for every operation.
    pub fn constant(base_ns: Nanos) -> Self {
        Self { base_ns, ..Self::default() }
    }
}

impl Limits {
    /// True if any limit applies.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }

    /// Checks that the numbers make sense. The error is a message for people.
    pub fn check(&self) -> Result<(), String> {
        self.check_rates()?;
        self.check_burst()?;
        self.check_times()
    }

    fn check_rates(&self) -> Result<(), String> {
        let byte = "byte per second";
        let operation = "operation per second";
        let rates = [
            (self.throughput_bytes_per_s, "the throughput limit", byte),
            (self.throughput_read_bytes_per_s, "the read throughput limit", byte),
            (self.throughput_write_bytes_per_s, "the write throughput limit", byte),
            (self.iops, "the IOPS limit", operation),
            (self.iops_read, "the read IOPS limit", operation),
            (self.iops_write, "the write IOPS limit", operation),
            (self.client.bandwidth_read_bytes_per_s, "the read bandwidth of a client", byte),
            (self.client.bandwidth_write_bytes_per_s, "the write bandwidth of a client", byte),
            (self.client.iops_read, "the read IOPS of a client", operation),
            (self.client.iops_write, "the write IOPS of a client", operation),
            (self.connection.bandwidth_bytes_per_s, "the bandwidth of a connection", byte),
            (self.connection.bandwidth_read_bytes_per_s, "the read bandwidth of a connection", byte),
            (self.connection.bandwidth_write_bytes_per_s, "the write bandwidth of a connection", byte),
            (self.connection.iops, "the IOPS of a connection", operation),
            (self.connection.iops_read, "the read IOPS of a connection", operation),
            (self.connection.iops_write, "the write IOPS of a connection", operation),
            (self.connection.requests_in_flight.map(u64::from), "the number of requests in flight", "request"),
            (self.parallelism.map(|parallelism| parallelism.servers.into()), "the parallelism", "server"),
        ];
        match rates.into_iter().find(|(rate, ..)| *rate == Some(0)) {
            Some((_, name, unit)) => Err(format!("{name} must be at least one {unit}")),
            None => Ok(()),
        }
    }

    fn check_burst(&self) -> Result<(), String> {
        match (self.burst, self.iops) {
            (Some(_), None) => Err("a burst needs an IOPS limit to go beyond".to_owned()),
            (Some(burst), Some(iops)) if burst.iops < iops => {
                Err(format!("the burst of {} IOPS is below the IOPS limit of {iops}", burst.iops))
            }
            _ => Ok(()),
        }
    }

    fn check_times(&self) -> Result<(), String> {
        let varying_ns = match self.latency.distribution {
            Distribution::Constant => 0,
            Distribution::Exponential { mean_ns } => mean_ns,
            Distribution::Lognormal { median_ns, p99_ns } if median_ns == 0 || p99_ns < median_ns => {
                return Err("a lognormal latency needs a median above 0 and a 99th percentile not below it".to_owned());
            }
            Distribution::Lognormal { p99_ns, .. } => p99_ns,
        };
        let service_ns = self.parallelism.map_or(1, |parallelism| parallelism.service_ns);
        let servers = self.parallelism.map_or(1, |parallelism| parallelism.servers);
        match () {
            () if servers > SERVERS_MAX => Err(format!("the parallelism is at most {SERVERS_MAX} servers")),
            () if service_ns == 0 => Err("the service time must be at least one nanosecond".to_owned()),
            () if self.latency.base_ns.max(varying_ns).max(service_ns) > LATENCY_NS_MAX => {
                Err("latencies and service times are at most an hour".to_owned())
            }
            () => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limits_limit_nothing() {
        assert!(!Limits::default().any());
        assert!(Limits { latency: Latency::constant(1), ..Limits::default() }.any());
        assert_eq!(Limits::default().check(), Ok(()));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let none = Limits::default();
        let lognormal = |median_ns, p99_ns| Limits {
            latency: Latency { distribution: Distribution::Lognormal { median_ns, p99_ns }, ..Latency::default() },
            ..none
        };
        let parallelism =
            |servers, service_ns| Limits { parallelism: Some(Parallelism { servers, service_ns }), ..none };
        let connection = ConnectionLimits { requests_in_flight: Some(0), ..ConnectionLimits::default() };
        let client = ClientLimits { bandwidth_write_bytes_per_s: Some(0), ..ClientLimits::default() };
        let cases = [
            (Limits { iops_read: Some(0), ..none }, "the read IOPS limit must be at least one operation per second"),
            (
                Limits { throughput_write_bytes_per_s: Some(0), ..none },
                "the write throughput limit must be at least one byte per second",
            ),
            (Limits { client, ..none }, "the write bandwidth of a client must be at least one byte per second"),
            (Limits { connection, ..none }, "the number of requests in flight must be at least one request"),
            (Limits { burst: Some(Burst { iops: 9, credits: 9 }), ..none }, "a burst needs an IOPS limit to go beyond"),
            (
                Limits { iops: Some(10), burst: Some(Burst { iops: 9, credits: 9 }), ..none },
                "the burst of 9 IOPS is below the IOPS limit of 10",
            ),
            (lognormal(0, 5), "a lognormal latency needs a median above 0 and a 99th percentile not below it"),
            (lognormal(6, 5), "a lognormal latency needs a median above 0 and a 99th percentile not below it"),
            (lognormal(6, u64::MAX), "latencies and service times are at most an hour"),
            (parallelism(0, 1), "the parallelism must be at least one server"),
            (parallelism(65_537, 1), "the parallelism is at most 65536 servers"),
            (parallelism(1, 0), "the service time must be at least one nanosecond"),
            (
                Limits { latency: Latency::constant(u64::MAX), ..none },
                "latencies and service times are at most an hour",
            ),
        ];
        for (limits, expected) in cases {
            assert_eq!(limits.check(), Err(expected.to_owned()));
        }
    }
}
