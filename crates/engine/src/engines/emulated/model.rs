//! Model of a virtual machine and its disks: the limits that an operation counts against, and the time when it
//! completes. Time is an argument.
//!
//! The limits follow Azure's documentation (learn.microsoft.com: azure/virtual-machines/disks-performance, 2026-09).
//! Without a host cache, an operation counts against the disk and the machine's uncached limits. With one, a read that
//! hits the cache counts against the machine's cached limits alone; a read that misses, and each write of a read-only
//! cache, counts against all three. A write to a read/write cache completes when it is in the cache, and counts against
//! disk and uncached limits as it is written back.

use std::collections::VecDeque;

use iocurve_meter::Nanos;

use super::cache::Cache;
use super::throttle::{Credits, Throttle};
use crate::plan::{DiskPlan, HostCache, OperationKind, VmPlan};

/// A limit that operations wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Operations per second of the disk.
    DiskIops,
    /// Bytes per second of the disk.
    DiskThroughput,
    /// Operations per second of the machine, to disks.
    UncachedIops,
    /// Bytes per second of the machine, to disks.
    UncachedThroughput,
    /// Operations per second of the machine, with a cache.
    CachedIops,
    /// Bytes per second of the machine, with a cache.
    CachedThroughput,
}

impl Limit {
    pub(crate) const ALL: [Self; 6] = [
        Self::DiskIops,
        Self::DiskThroughput,
        Self::UncachedIops,
        Self::UncachedThroughput,
        Self::CachedIops,
        Self::CachedThroughput,
    ];

    /// Counter of the operations that waited for the limit.
    pub(crate) fn counter(self) -> String {
        self.label().replace("limited_by", "waited_for")
    }

    /// Label for results that the limit constrained.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::DiskIops => "limited_by_disk_iops",
            Self::DiskThroughput => "limited_by_disk_throughput",
            Self::UncachedIops => "limited_by_vm_uncached_iops",
            Self::UncachedThroughput => "limited_by_vm_uncached_throughput",
            Self::CachedIops => "limited_by_vm_cached_iops",
            Self::CachedThroughput => "limited_by_vm_cached_throughput",
        }
    }
}

/// An operation on a file of a disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    pub kind: OperationKind,
    /// Index of the file in the machine's cache.
    pub file: usize,
    pub offset: u64,
    pub length: u32,
}

/// Completion time of an operation, the limit that it waited for longest, if it waited, and whether the cache had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admitted {
    pub due: Nanos,
    pub limit: Option<Limit>,
    /// A read that the machine's cache answered.
    pub is_hit: bool,
}

/// A virtual machine with its disks. A disk without a VM has its own machine without limits.
#[derive(Debug)]
pub(super) struct Machine {
    uncached: Option<Throttle>,
    cached: Option<Throttle>,
    cache_bytes: u64,
    slack: Nanos,
    pub cache: Cache,
    disks: Vec<Disk>,
}

#[derive(Debug)]
struct Disk {
    gate: Throttle,
    io_bytes: u64,
    cache: HostCache,
    latency: Nanos,
    write_back: WriteBack,
}

impl Machine {
    /// A machine without disks. Throughput missed in the last `slack` can be made up for.
    pub(super) fn new(vm: Option<&VmPlan>, slack: Nanos, now: Nanos) -> Self {
        let gate = |limits| Throttle::new(&limits, slack, now);
        let cache_bytes = vm.map_or(0, |vm| vm.cache_bytes);
        Self {
            uncached: vm.and_then(|vm| vm.uncached).map(gate),
            cached: vm.and_then(|vm| vm.cached).map(gate),
            cache_bytes,
            slack,
            cache: Cache::new(cache_bytes),
            disks: Vec::new(),
        }
    }

    /// Attaches a disk; returns its index.
    pub(super) fn attach(&mut self, plan: &DiskPlan, now: Nanos) -> usize {
        self.disks.push(Disk {
            gate: Throttle::new(&plan.limits, self.slack, now),
            io_bytes: u64::from(plan.io_bytes),
            cache: plan.cache,
            latency: plan.latency_ns,
            write_back: WriteBack::default(),
        });
        self.disks.len() - 1
    }

    /// Admits an operation at `now`: charges it, and caches the blocks that it reads. Trims are not charged; flushes
    /// only wait for pending write-back.
    pub(super) fn admit(&mut self, disk: usize, access: Access, now: Nanos) -> Admitted {
        let Access { kind, file, offset, length } = access;
        let bytes = u64::from(length);
        let Self { uncached, cached, cache_bytes, cache, disks, .. } = self;
        let disk = &mut disks[disk];
        let at_once = match kind {
            OperationKind::Read | OperationKind::Write => None,
            OperationKind::Trim => Some(now),
            _ => Some(disk.write_back.done().max(now)),
        };
        if let Some(due) = at_once {
            return Admitted { due, limit: None, is_hit: false };
        }
        let operations = bytes.div_ceil(disk.io_bytes).max(1);
        let take = |gate: &mut Option<Throttle>| gate.as_mut().map_or([0; 2], |gate| gate.take(now, operations, bytes));
        let mut waits = [0; 6];
        let mut is_hit = false;
        if disk.cache != HostCache::None {
            waits[4..].copy_from_slice(&take(cached));
            match kind {
                OperationKind::Read => is_hit = cache.read(file, offset, bytes),
                _ => cache.write(file, offset, bytes),
            }
        }
        if is_hit {
            return Admitted { is_hit, ..longest(waits, now, 0) };
        }
        let mut to_disk = [0; 4];
        to_disk[2..].copy_from_slice(&take(uncached));
        to_disk[..2].copy_from_slice(&disk.gate.take(now, operations, bytes));
        if disk.cache == HostCache::ReadWrite && kind == OperationKind::Write {
            let written = longest([to_disk[0], to_disk[1], to_disk[2], to_disk[3], 0, 0], now, disk.latency);
            let in_cache = longest(waits, now, 0);
            let room = disk.write_back.push(*cache_bytes, bytes, written.due, now);
            let at_disk = Admitted { due: room, limit: written.limit, is_hit: false };
            return if room > in_cache.due { at_disk } else { in_cache };
        }
        waits[..4].copy_from_slice(&to_disk);
        longest(waits, now, disk.latency)
    }

    /// Remaining credits of a disk and its machine, by name; limits without a burst are left out.
    pub(super) fn credits(&self, disk: usize, now: Nanos) -> Vec<(&'static str, Credits)> {
        let gates = [
            ("disk", Some(&self.disks[disk].gate)),
            ("vm_uncached", self.uncached.as_ref()),
            ("vm_cached", self.cached.as_ref()),
        ];
        gates.into_iter().filter_map(|(name, gate)| Some((name, gate?.credits(now)?))).collect()
    }

    /// Sets credits by name, as saved `since` ago.
    pub(super) fn restore_credits(&mut self, disk: usize, name: &str, credits: Credits, since: Nanos, now: Nanos) {
        let gate = match name {
            "disk" => Some(&mut self.disks[disk].gate),
            "vm_uncached" => self.uncached.as_mut(),
            "vm_cached" => self.cached.as_mut(),
            _ => None,
        };
        if let Some(gate) = gate.filter(|gate| gate.credits(now).is_some()) {
            gate.restore(now, credits, since);
        }
    }
}

/// The longest of the waits, in the order of [`Limit::ALL`], plus a latency.
fn longest(waits: [Nanos; 6], now: Nanos, latency: Nanos) -> Admitted {
    let (number, wait) = waits.into_iter().enumerate().max_by_key(|&(_, wait)| wait).unwrap_or((0, 0));
    Admitted { due: now + wait + latency, limit: (wait > 0).then_some(Limit::ALL[number]), is_hit: false }
}

/// Writes in a read/write cache that are not on the disk yet.
#[derive(Debug, Default)]
struct WriteBack {
    /// For each write, the time at which it is on the disk, and its bytes; the oldest first.
    pending: VecDeque<(Nanos, u64)>,
    bytes: u64,
}

impl WriteBack {
    /// Adds a write that will be on the disk at `written`; returns the time at which the cache has space for it.
    fn push(&mut self, capacity: u64, bytes: u64, written: Nanos, now: Nanos) -> Nanos {
        let mut room = now;
        while let Some(&(due, size)) = self.pending.front()
            && (due <= now || self.bytes + bytes > capacity)
        {
            room = room.max(due);
            self.bytes -= size;
            self.pending.pop_front();
        }
        self.pending.push_back((written, bytes));
        self.bytes += bytes;
        room
    }

    /// Time at which all writes are on the disk.
    fn done(&self) -> Nanos {
        self.pending.back().map_or(0, |&(due, _)| due)
    }
}

#[cfg(test)]
mod tests;
