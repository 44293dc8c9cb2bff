//! Token buckets by limit, as operators see them.

use std::net::IpAddr;

use serde::Serialize;

use iocurve_meter::{Nanos, TokenBucket};

use crate::pending::ConnectionId;

/// An export that was idle may catch up on this fraction of a second: 1/64 s, 15.6 ms.
pub(crate) const CATCH_UPS_PER_S: u64 = 64;

/// A token bucket of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// The name of the limit that it enforces: `iops_read`, `client.bandwidth_write_bytes_per_s`.
    pub limit: String,
    /// Address of the client that it limits; none if it limits a connection or all clients.
    pub client: Option<IpAddr>,
    /// Number of the connection that it limits; none if it limits a client or all of them.
    pub connection: Option<ConnectionId>,
    /// Its tokens.
    #[serde(flatten)]
    pub level: Level,
}

/// The tokens of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Level {
    /// Bytes or operations that are admitted at once; negative if later ones must wait for that many.
    pub level: i64,
    /// Most tokens that can be saved up.
    pub capacity: u64,
    /// Tokens added per second.
    pub rate_per_s: u64,
}

impl Bucket {
    /// Its place among the buckets of clients and connections.
    pub(super) fn place(&self) -> (Option<ConnectionId>, Option<IpAddr>, &str) {
        (self.connection, self.client, &self.limit)
    }
}

impl Level {
    pub(super) fn of(bucket: &TokenBucket, now: Nanos) -> Self {
        Self { level: bucket.level(now), capacity: bucket.burst(), rate_per_s: bucket.rate_per_s() }
    }
}

/// Sets a bucket to a rate. It can save up `saved` tokens, and what an idle export may catch up on: this fraction of a second.
pub(super) fn set_bucket(
    bucket: &mut Option<TokenBucket>,
    rate: Option<u64>,
    saved: u64,
    catch_ups_per_s: u64,
    now: Nanos,
) {
    let Some(rate) = rate else { return *bucket = None };
    let most = saved.saturating_add((rate / catch_ups_per_s).max(1));
    match bucket {
        Some(bucket) => bucket.set_rate(rate, most, now),
        None => *bucket = Some(TokenBucket::new(rate, most, now)),
    }
}
