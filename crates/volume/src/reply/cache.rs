//! Replies to calls that must not be executed twice.
//!
//! A client that loses its connection sends its unanswered calls again on a new one, with the same xid (RFC 5531 §9). A REMOVE that was
//! executed would then be answered with `NFS3ERR_NOENT`; so the first reply is kept for a while and sent again. The same call is
//! one with the same xid, credential and arguments from the same address; ports change with connections. READ and WRITE are never
//! looked up here.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use iocurve_meter::Nanos;
use iocurve_wire::rpc::CallHeader;

/// Time for which a reply is kept: clients give up a connection and come back well within it.
const KEPT_NS: Nanos = 120_000_000_000;

/// Parts, each with a lock.
const SHARDS: usize = 16;

/// Most replies in one part; beyond it, the oldest is dropped. A reply has about 300 bytes.
const SHARD_REPLIES_MAX: usize = 1024;

/// Recent replies, bounded in number and age.
#[derive(Debug, Default)]
pub(crate) struct ReplyCache {
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Debug, Default)]
struct Shard {
    replies: HashMap<Key, Box<[u8]>>,
    /// Keys and their times, oldest first.
    order: VecDeque<(Nanos, Key)>,
}

/// Identifies a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    xid: u32,
    digest: u64,
}

impl ReplyCache {
    /// Identifies a call from `peer`.
    pub(crate) fn key(&self, peer: &str, header: &CallHeader<'_>, arguments: &[u8]) -> Key {
        let digest = self.hasher.hash_one((peer, header.proc, header.cred.flavor, header.cred.body, arguments));
        Key { xid: header.xid, digest }
    }

    /// Returns the record that answered this call before.
    pub(crate) fn find(&self, key: Key, now: Nanos) -> Option<Box<[u8]>> {
        let mut shard = self.shard(key);
        shard.expire(now);
        shard.replies.get(&key).cloned()
    }

    /// Keeps the record that answers a call.
    pub(crate) fn keep(&self, key: Key, record: &[u8], now: Nanos) {
        let mut shard = self.shard(key);
        shard.expire(now);
        if shard.replies.insert(key, record.into()).is_none() {
            shard.order.push_back((now, key));
        }
        if shard.order.len() > SHARD_REPLIES_MAX {
            shard.forget_oldest();
        }
    }

    fn shard(&self, key: Key) -> MutexGuard<'_, Shard> {
        self.shards[key.digest as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn expire(&mut self, now: Nanos) {
        while self.order.front().is_some_and(|(since, _)| now.saturating_sub(*since) > KEPT_NS) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, key)) = self.order.pop_front() {
            self.replies.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use iocurve_wire::nfs3::nfsproc3;
    use iocurve_wire::rpc::opaque_auth;

    use super::*;

    const REMOVE: u32 = nfsproc3::NFSPROC3_REMOVE as u32;

    fn header(xid: u32, proc: u32) -> CallHeader<'static> {
        let (cred, verf) = (opaque_auth::NONE, opaque_auth::NONE);
        CallHeader { xid, rpcvers: 2, prog: 100_003, vers: 3, proc, cred, verf }
    }

    #[test]
    fn only_the_same_call_finds_its_reply() {
        let cache = ReplyCache::default();
        let key = |peer: &str, xid, arguments: &[u8]| cache.key(peer, &header(xid, REMOVE), arguments);
        cache.keep(key("a", 1, b"f"), b"reply", 0);
        assert_eq!(cache.find(key("a", 1, b"f"), KEPT_NS).as_deref(), Some(&b"reply"[..]));
        for other in [key("b", 1, b"f"), key("a", 2, b"f"), key("a", 1, b"g")] {
            assert_eq!(cache.find(other, 0), None);
        }
        assert_eq!(cache.find(cache.key("a", &header(1, 13), b"f"), 0), None);
        assert_eq!(cache.find(key("a", 1, b"f"), KEPT_NS + 1), None, "too old");
    }

    #[test]
    fn the_oldest_replies_make_room() {
        let cache = ReplyCache::default();
        let key = |xid| cache.key("a", &header(xid, REMOVE), b"f");
        let count = (2 * SHARDS * SHARD_REPLIES_MAX) as u32;
        for xid in 0..count {
            cache.keep(key(xid), &[], 0);
        }
        let kept = (0..count).filter(|xid| cache.find(key(*xid), 0).is_some()).count();
        assert!(kept <= SHARDS * SHARD_REPLIES_MAX && cache.find(key(count - 1), 0).is_some(), "{kept}");
        assert!(cache.shards.iter().all(|shard| {
            let shard = shard.lock().unwrap();
            shard.replies.len() == shard.order.len() && shard.order.len() <= SHARD_REPLIES_MAX
        }));
    }
}
