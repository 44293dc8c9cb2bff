//! The limits of an export as data. Profiles with figures of real services are kept elsewhere.

use serde::{Deserialize, Serialize};

use iocurve_meter::{Nanos, PARTS, SECOND};

/// Longest latency that can be configured, or drawn from a distribution: an hour.
pub(crate) const LATENCY_NS_MAX: Nanos = 3600 * SECOND;

/// The smallest block that a cache holds or does not hold.
pub(super) const BLOCK_BYTES_MIN: u64 = 4096;

const TOO_LONG: &str = "latencies and service times are at most an hour";

/// Most servers; each takes some memory.
const SERVERS_MAX: u32 = 65_536;

/// Limits of an export.
///
/// READs and WRITEs are limited; other procedures are not. An operation is due once all of these allow it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Limits on rates, and on requests in flight; one at most of each name.
    pub caps: Vec<Cap>,
    /// Latency added to every READ, and to every WRITE without `write_latency`.
    pub latency: Latency,
    /// Latency added to every WRITE, where it is another; drawn by the seed of `latency`.
    pub write_latency: Option<Latency>,
    /// Operations that the server works on at once.
    pub parallelism: Option<Parallelism>,
    /// The caps of the export count in windows of this length, each from its start on. 0: at any time.
    pub window_ns: Nanos,
    /// Data that the server holds, which count for less at the caps of the export.
    pub server_cache: Option<ServerCache>,
}

/// A limit of an export as a whole, of each client or of each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cap {
    /// The holders of one budget each.
    pub scope: Scope,
    /// The quantity that is limited.
    pub quantity: Quantity,
    /// The operations that count.
    #[serde(default)]
    pub kind: Kind,
    /// The limit itself, at least 1.
    pub value: u64,
    /// More than `value` for a time; only of the operations, or the bytes, of both kinds of an export.
    #[serde(default)]
    pub burst: Option<Burst>,
    /// Bytes of READs that count as one, at least 1; only of the bytes of both kinds of an export.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub reads_per_write: u64,
}

const fn one() -> u64 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_one(value: &u64) -> bool {
    *value == 1
}

/// The holders of a cap, each of which has the whole of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The export.
    Volume,
    /// A client (IP address), over all its connections to an export.
    Client,
    /// A connection.
    Connection,
}

/// The quantity that a cap limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Bytes of READ and WRITE data per second.
    ///
    /// The egress cap of a virtual machine limits what it sends, which is WRITEs. Such caps are published in megabits: 16,000 Mb/s
    /// are 2,000 MB/s, or 1,907 MiB/s.
    BytesPerS,
    /// Operations per second.
    Iops,
    /// READs and WRITEs of a connection that may wait for their reply; further calls stay in the transport.
    Requests,
}

/// The operations that count against a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// READs and WRITEs, in sum.
    #[default]
    Any,
    /// READs.
    Read,
    /// WRITEs.
    Write,
}

/// A rate beyond the baseline while credits last. Each operation (or byte) above the baseline costs one credit, each one below earns one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// Most operations or bytes per second, at least the baseline. Documents call it `iops`, as the first bursts were.
    #[serde(rename = "iops")]
    pub value: u64,
    /// Most credits that can be saved; an export starts with all of them.
    pub credits: u64,
}

/// Latency added to each operation: a fixed part and one that varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Latency {
    /// The fixed part.
    pub base_ns: Nanos,
    /// A fixed part for each KiB.
    pub per_kib_ns: Nanos,
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

/// The server's own speed: the number of operations at once, and the time that each takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parallelism {
    /// Operations at once, at most 65,536.
    pub servers: u32,
    /// Time that one operation takes.
    pub service_ns: Nanos,
    /// Further time for each KiB.
    pub per_kib_ns: Nanos,
    /// Time that a WRITE takes, where it is another.
    pub write_service_ns: Option<Nanos>,
    /// Further time for each KiB of a WRITE, where it is another.
    pub write_per_kib_ns: Option<Nanos>,
}

/// A cache of the server that holds the data which were read or written last. Costs are in thousandths, at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerCache {
    /// Most bytes that it holds, at least a block of 4 KiB.
    pub bytes: u64,
    /// Cost of a READ of data that it holds, at caps on operations.
    pub read_iops: u32,
    /// Cost of each byte of such a READ, at caps on bytes.
    pub read_bytes: u32,
    /// Cost of a WRITE to data that it holds, at caps on operations.
    pub write_iops: u32,
    /// Cost of each byte of such a WRITE, at caps on bytes.
    pub write_bytes: u32,
}

impl ServerCache {
    /// The cost of a byte and of the operation, if the cache holds its data.
    #[inline]
    pub(super) fn costs(&self, is_write: bool) -> (u64, u64) {
        let Self { read_iops, read_bytes, write_iops, write_bytes, .. } = *self;
        let (bytes, operations) = if is_write { (write_bytes, write_iops) } else { (read_bytes, read_iops) };
        (bytes.into(), operations.into())
    }

    fn check(&self) -> Result<(), String> {
        let costs = [self.read_iops, self.read_bytes, self.write_iops, self.write_bytes];
        if self.bytes < BLOCK_BYTES_MIN {
            return Err(format!("a server cache holds at least {BLOCK_BYTES_MIN} bytes"));
        }
        if costs.iter().any(|cost| !(1..=PARTS).contains(&u64::from(*cost))) {
            return Err(format!("what is in a server cache costs 1 to {PARTS} thousandths"));
        }
        Ok(())
    }
}

/// The time of a number of bytes at a time for each KiB.
pub(super) fn of_bytes(per_kib_ns: Nanos, bytes: u64) -> Nanos {
    per_kib_ns.saturating_mul(bytes) >> 10
}

impl Parallelism {
    /// Servers that take the same time for each operation.
    pub const fn new(servers: u32, service_ns: Nanos) -> Self {
        Self { servers, service_ns, per_kib_ns: 0, write_service_ns: None, write_per_kib_ns: None }
    }

    /// The time that an operation takes.
    #[inline]
    pub(super) fn takes(&self, is_write: bool, bytes: u64) -> Nanos {
        let write = |own: Option<Nanos>, any: Nanos| own.filter(|_| is_write).unwrap_or(any);
        let per_kib_ns = write(self.write_per_kib_ns, self.per_kib_ns);
        write(self.write_service_ns, self.service_ns) + of_bytes(per_kib_ns, bytes)
    }
}

impl Cap {
    /// A cap on the bytes per second of an export.
    pub const fn bytes_per_s(value: u64) -> Self {
        Self {
            scope: Scope::Volume,
            quantity: Quantity::BytesPerS,
            kind: Kind::Any,
            value,
            burst: None,
            reads_per_write: 1,
        }
    }

    /// A cap on the operations per second of an export.
    pub const fn iops(value: u64) -> Self {
        Self { quantity: Quantity::Iops, ..Self::bytes_per_s(value) }
    }

    /// A cap on the requests in flight of a connection.
    pub const fn requests(value: u64) -> Self {
        Self { scope: Scope::Connection, quantity: Quantity::Requests, ..Self::bytes_per_s(value) }
    }

    /// The same with a burst above it.
    #[must_use]
    pub const fn bursting(self, value: u64, credits: u64) -> Self {
        Self { burst: Some(Burst { value, credits }), ..self }
    }

    /// The same where a number of bytes of READs counts as one.
    #[must_use]
    pub const fn weighing_reads(self, reads_per_write: u64) -> Self {
        Self { reads_per_write, ..self }
    }

    /// The same for one kind of operation.
    #[must_use]
    pub const fn of(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// The same for each client or connection.
    #[must_use]
    pub const fn each(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// True if an operation counts.
    #[inline]
    pub(super) fn counts(&self, is_write: bool) -> bool {
        match self.kind {
            Kind::Any => true,
            Kind::Read => !is_write,
            Kind::Write => is_write,
        }
    }

    /// The name of the limit, also that of its token bucket: `iops_read`, `client.bandwidth_write_bytes_per_s`.
    pub(super) fn name(&self) -> String {
        let scope = match self.scope {
            Scope::Volume => "",
            Scope::Client => "client.",
            Scope::Connection => "connection.",
        };
        let (quantity, unit) = match self.quantity {
            Quantity::BytesPerS => (self.data(), "_bytes_per_s"),
            Quantity::Iops => ("iops", ""),
            Quantity::Requests => ("requests_in_flight", ""),
        };
        let kind = match self.kind {
            Kind::Any => "",
            Kind::Read => "_read",
            Kind::Write => "_write",
        };
        format!("{scope}{quantity}{kind}{unit}")
    }

    const fn data(&self) -> &'static str {
        match self.scope {
            Scope::Volume => "throughput",
            Scope::Client | Scope::Connection => "bandwidth",
        }
    }

    /// The error of a cap of 0.
    fn zero(&self) -> String {
        let kind = match self.kind {
            Kind::Any => "",
            Kind::Read => "read ",
            Kind::Write => "write ",
        };
        let (quantity, unit) = match self.quantity {
            Quantity::BytesPerS => (self.data(), "byte per second"),
            Quantity::Iops => ("IOPS", "operation per second"),
            Quantity::Requests => return "the number of requests in flight must be at least one request".to_owned(),
        };
        let of = match self.scope {
            Scope::Volume => "limit",
            Scope::Client => "of a client",
            Scope::Connection => "of a connection",
        };
        format!("the {kind}{quantity} {of} must be at least one {unit}")
    }
}

impl Latency {
    /// The same latency for every operation.
    pub fn constant(base_ns: Nanos) -> Self {
        Self { base_ns, ..Self::default() }
    }

    fn check(&self) -> Result<(), String> {
        let varying_ns = match self.distribution {
            Distribution::Constant => 0,
            Distribution::Exponential { mean_ns } => mean_ns,
            Distribution::Lognormal { median_ns, p99_ns } if median_ns == 0 || p99_ns < median_ns => {
                return Err("a lognormal latency needs a median above 0 and a 99th percentile not below it".to_owned());
            }
            Distribution::Lognormal { p99_ns, .. } => p99_ns,
        };
        let longest = self.base_ns.max(self.per_kib_ns).max(varying_ns);
        if longest > LATENCY_NS_MAX { Err(TOO_LONG.to_owned()) } else { Ok(()) }
    }
}

impl Limits {
    /// Limits on rates and on requests in flight, without added latency.
    pub fn of<const N: usize>(caps: [Cap; N]) -> Self {
        Self { caps: caps.into(), ..Self::default() }
    }

    /// True if any limit applies.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }

    /// The cap of this scope, quantity and kind.
    pub(super) fn cap(&self, scope: Scope, quantity: Quantity, kind: Kind) -> Option<&Cap> {
        self.caps.iter().find(|cap| (cap.scope, cap.quantity, cap.kind) == (scope, quantity, kind))
    }

    /// Checks that the numbers make sense. The error is a message for people.
    pub fn check(&self) -> Result<(), String> {
        self.check_caps()?;
        self.check_burst()?;
        self.server_cache.iter().try_for_each(ServerCache::check)?;
        self.check_times()
    }

    fn check_caps(&self) -> Result<(), String> {
        if let Some(zero) = self.caps.iter().find(|cap| cap.value == 0) {
            return Err(zero.zero());
        }
        if self.parallelism.is_some_and(|parallelism| parallelism.servers == 0) {
            return Err("the parallelism must be at least one server".to_owned());
        }
        let is_known = |cap: &Cap| cap.quantity != Quantity::Requests || *cap == Cap::requests(cap.value);
        let is_first = |cap: &Cap| self.cap(cap.scope, cap.quantity, cap.kind) == Some(cap);
        match self.caps.iter().find(|cap| !is_known(cap) || !is_first(cap)) {
            Some(cap) if !is_known(cap) => Err("requests in flight are limited for each connection only".to_owned()),
            Some(cap) => Err(format!("there are two limits {}", cap.name())),
            None => Ok(()),
        }
    }

    fn check_burst(&self) -> Result<(), String> {
        let of_all = |cap: &Cap| (cap.scope, cap.kind) == (Scope::Volume, Kind::Any);
        for cap in &self.caps {
            let is_data = of_all(cap) && cap.quantity == Quantity::BytesPerS;
            if cap.reads_per_write == 0 || (cap.reads_per_write > 1 && !is_data) {
                return Err("only the throughput limit of reads and writes together weighs reads".to_owned());
            }
            let Some(burst) = cap.burst else { continue };
            if !is_data && *cap != Cap::iops(cap.value).bursting(burst.value, burst.credits) {
                return Err("a burst needs an IOPS or throughput limit to go beyond".to_owned());
            }
            if burst.value < cap.value {
                let (limit, unit) = if is_data { ("throughput", "bytes per second") } else { ("IOPS", "IOPS") };
                return Err(format!("the burst of {} {unit} is below the {limit} limit of {}", burst.value, cap.value));
            }
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), String> {
        self.write_latency.iter().chain([&self.latency]).try_for_each(Latency::check)?;
        let Some(speed) = self.parallelism else { return Ok(()) };
        let times = [Some(speed.service_ns), Some(speed.per_kib_ns), speed.write_service_ns, speed.write_per_kib_ns];
        match () {
            () if speed.servers > SERVERS_MAX => Err(format!("the parallelism is at most {SERVERS_MAX} servers")),
            () if speed.service_ns == 0 || speed.write_service_ns == Some(0) => {
                Err("the service time must be at least one nanosecond".to_owned())
            }
            () if times.iter().flatten().any(|time| *time > LATENCY_NS_MAX) => Err(TOO_LONG.to_owned()),
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
        assert!(Limits::of([Cap::iops(1)]).any());
        assert_eq!(Limits::default().check(), Ok(()));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let lognormal = |median_ns, p99_ns| Limits {
            latency: Latency { distribution: Distribution::Lognormal { median_ns, p99_ns }, ..Latency::default() },
            ..Limits::default()
        };
        let parallelism = |servers, service_ns| Limits {
            parallelism: Some(Parallelism::new(servers, service_ns)),
            ..Limits::default()
        };
        let slow_writes = Limits { write_latency: Some(Latency::constant(u64::MAX)), ..Limits::default() };
        let cached = |bytes, write_bytes| Limits {
            server_cache: Some(ServerCache { bytes, read_iops: 1, read_bytes: 1000, write_iops: 1, write_bytes }),
            ..Limits::default()
        };
        assert_eq!(cached(4096, 1000).check(), Ok(()));
        let cases = [
            (cached(4095, 1000), "a server cache holds at least 4096 bytes"),
            (cached(4096, 0), "what is in a server cache costs 1 to 1000 thousandths"),
            (cached(4096, 1001), "what is in a server cache costs 1 to 1000 thousandths"),
            (slow_writes, "latencies and service times are at most an hour"),
            (
                Limits::of([Cap::iops(0).of(Kind::Read)]),
                "the read IOPS limit must be at least one operation per second",
            ),
            (
                Limits::of([Cap::bytes_per_s(0).of(Kind::Write)]),
                "the write throughput limit must be at least one byte per second",
            ),
            (
                Limits::of([Cap::bytes_per_s(0).of(Kind::Write).each(Scope::Client)]),
                "the write bandwidth of a client must be at least one byte per second",
            ),
            (Limits::of([Cap::requests(0)]), "the number of requests in flight must be at least one request"),
            (
                Limits::of([Cap::requests(1).each(Scope::Client)]),
                "requests in flight are limited for each connection only",
            ),
            (Limits::of([Cap::iops(1).of(Kind::Read), Cap::iops(2).of(Kind::Read)]), "there are two limits iops_read"),
            (
                Limits::of([Cap::bytes_per_s(1).of(Kind::Read).bursting(9, 9)]),
                "a burst needs an IOPS or throughput limit to go beyond",
            ),
            (
                Limits::of([Cap::bytes_per_s(10).bursting(9, 9)]),
                "the burst of 9 bytes per second is below the throughput limit of 10",
            ),
            (
                Limits::of([Cap::iops(10).weighing_reads(3)]),
                "only the throughput limit of reads and writes together weighs reads",
            ),
            (
                Limits::of([Cap::bytes_per_s(10).weighing_reads(0)]),
                "only the throughput limit of reads and writes together weighs reads",
            ),
            (Limits::of([Cap::iops(10).bursting(9, 9)]), "the burst of 9 IOPS is below the IOPS limit of 10"),
            (lognormal(0, 5), "a lognormal latency needs a median above 0 and a 99th percentile not below it"),
            (lognormal(6, 5), "a lognormal latency needs a median above 0 and a 99th percentile not below it"),
            (lognormal(6, u64::MAX), "latencies and service times are at most an hour"),
            (parallelism(0, 1), "the parallelism must be at least one server"),
            (parallelism(65_537, 1), "the parallelism is at most 65536 servers"),
            (parallelism(1, 0), "the service time must be at least one nanosecond"),
            (
                Limits { latency: Latency::constant(u64::MAX), ..Limits::default() },
                "latencies and service times are at most an hour",
            ),
        ];
        for (limits, expected) in cases {
            assert_eq!(limits.check(), Err(expected.to_owned()));
        }
    }
}
