//! Times of files: nanoseconds since 1970 inside the stores, seconds and nanoseconds in the protocol.

use std::time::{SystemTime, UNIX_EPOCH};

use iocurve_wire::nfs3::nfstime3;

/// Reads the wall clock.
pub(crate) fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

#[inline]
pub(super) fn to_nfstime(ns: u64) -> nfstime3 {
    nfstime3 { seconds: (ns / 1_000_000_000) as u32, nseconds: (ns % 1_000_000_000) as u32 }
}

pub(super) fn from_nfstime(time: nfstime3) -> u64 {
    u64::from(time.seconds) * 1_000_000_000 + u64::from(time.nseconds)
}
