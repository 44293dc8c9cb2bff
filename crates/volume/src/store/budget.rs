//! The bytes that a store may keep.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use iocurve_wire::nfs3::nfsstat3;

/// Counts bytes within two bounds: a quota, which may change, and the capacity of the store.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicU64,
    quota: AtomicU64,
    capacity: u64,
}

impl Budget {
    /// Starts with nothing used.
    pub(super) fn new(quota: u64, capacity: u64) -> Self {
        Self { used: 0.into(), quota: quota.into(), capacity }
    }

    /// Uses `bytes` if they fit; the error names the lower bound, `NFS3ERR_DQUOT` the quota, `NFS3ERR_NOSPC` the capacity.
    pub(super) fn take(&self, bytes: u64) -> Result<(), nfsstat3> {
        let (quota, limit) = (self.quota(), self.limit());
        let fits = |used: u64| used.checked_add(bytes).filter(|used| *used <= limit);
        let full = if quota <= self.capacity { nfsstat3::NFS3ERR_DQUOT } else { nfsstat3::NFS3ERR_NOSPC };
        self.used.fetch_update(Relaxed, Relaxed, fits).map(drop).map_err(|_| full)
    }

    /// Uses `bytes` even beyond the bounds: they are in the store already.
    pub(super) fn use_anyway(&self, bytes: u64) {
        self.used.fetch_add(bytes, Relaxed);
    }

    /// Gives `bytes` back. Of files that others change as well there may be more to give back than was used.
    pub(super) fn give_back(&self, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        // It always has a new value.
        let _ = self.used.fetch_update(Relaxed, Relaxed, less);
    }

    /// Changes the quota. A quota below current usage removes nothing, but `take` fails until enough was given back.
    pub(crate) fn set_quota(&self, quota: u64) {
        self.quota.store(quota, Relaxed);
    }

    pub(crate) fn quota(&self) -> u64 {
        self.quota.load(Relaxed)
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// The lower of both bounds.
    pub(super) fn limit(&self) -> u64 {
        self.quota().min(self.capacity)
    }

    /// Bytes that `take` still has to give.
    pub(super) fn free(&self) -> u64 {
        self.limit().saturating_sub(self.used())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_kept_to_the_byte() {
        let budget = Budget::new(10, u64::MAX);
        assert_eq!(budget.take(10), Ok(()));
        assert_eq!(budget.take(1), Err(nfsstat3::NFS3ERR_DQUOT));
        budget.give_back(4);
        assert_eq!((budget.take(4), budget.used()), (Ok(()), 10));
        budget.give_back(11);
        assert_eq!(budget.used(), 0, "never less than nothing");
    }
}
