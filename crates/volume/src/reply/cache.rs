//! Replies to calls that must not be executed twice.
//!
//! A client that loses its connection sends its unanswered calls again on a new one, with the same xid (RFC 5531 §9). A REMOVE that was
//! executed would then be answered with `NFS3ERR_NOENT`; so the first reply is kept for a while and sent again. The same call is
//! one with the same xid, credential and arguments from the same address; ports change with connections. READ and WRITE are never
//! looked up here.

use std::collections::hash_map::{Entry, RandomState};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use iocurve_meter::Nanos;
use iocurve_wire::rpc::CallHeader;

/// Time for which a reply is kept: clients give up a connection and come back well within it.
const KEPT_NS: Nanos = 120_000_000_000;

/// Parts, each with a lock.
const SHARDS: usize = 16;

/// Most replies of one client in one part; beyond it, its oldest is dropped. A client sends again what it has not seen answered: the
/// last calls that it had in flight, however many it makes in a second. No client has 8,192 in flight.
const CLIENT_REPLIES_MAX: usize = 8192 / SHARDS;

/// Most replies in one part; beyond it, a client with more than its share drops its oldest. A reply has about 300 bytes.
const SHARD_REPLIES_MAX: usize = 4096;

/// Recent replies, bounded in number and age, and by client.
#[derive(Debug, Default)]
pub(crate) struct ReplyCache {
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Debug, Default)]
struct Shard {
    /// `None` while a call is in progress.
    replies: HashMap<Key, Option<Box<[u8]>>>,
    /// Keys and times of each client's replies, oldest first.
    clients: HashMap<u64, VecDeque<(Nanos, Key)>>,
    /// Number of replies.
    kept: usize,
}

/// Identifies a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    xid: u32,
    client: u64,
    digest: u64,
}

/// The answer to the question whether a call was made before.
#[derive(Debug)]
pub(crate) enum Repeated<'c> {
    /// The caller executes it now.
    No(Execution<'c>),
    /// It is in progress: its reply comes on the other connection, or the client sends it once more.
    InProgress,
    /// The record that answered it.
    Answered(Box<[u8]>),
}

/// A call in progress. It may be made again once this is dropped.
#[derive(Debug)]
pub(crate) struct Execution<'c> {
    cache: &'c ReplyCache,
    key: Key,
}

impl Execution<'_> {
    /// Keeps the record that answers the call.
    pub(crate) fn keep(self, record: &[u8], now: Nanos) {
        let key = self.key;
        self.cache.shard(key).keep(key, record, now);
    }
}

impl Drop for Execution<'_> {
    fn drop(&mut self) {
        let mut shard = self.cache.shard(self.key);
        if shard.replies.get(&self.key).is_some_and(Option::is_none) {
            shard.replies.remove(&self.key);
        }
    }
}

impl ReplyCache {
    /// Identifies a call from `peer`.
    pub(crate) fn key(&self, peer: &str, header: &CallHeader<'_>, arguments: &[u8]) -> Key {
        let digest = self.hasher.hash_one((peer, header.proc, header.cred.flavor, header.cred.body, arguments));
        Key { xid: header.xid, client: self.hasher.hash_one(peer), digest }
    }

    /// Tells whether a call was made before, and marks it as in progress if it was not.
    pub(crate) fn begin(&self, key: Key, now: Nanos) -> Repeated<'_> {
        let mut shard = self.shard(key);
        shard.expire(key.client, now);
        match shard.replies.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(None);
                Repeated::No(Execution { cache: self, key })
            }
            Entry::Occupied(entry) => entry.get().clone().map_or(Repeated::InProgress, Repeated::Answered),
        }
    }

    fn shard(&self, key: Key) -> MutexGuard<'_, Shard> {
        self.shards[key.digest as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn keep(&mut self, key: Key, record: &[u8], now: Nanos) {
        self.replies.insert(key, Some(record.into()));
        let own = self.clients.entry(key.client).or_default();
        own.push_back((now, key));
        self.kept += 1;
        if own.len() > CLIENT_REPLIES_MAX {
            self.forget_oldest(key.client);
        }
        if self.kept > SHARD_REPLIES_MAX {
            let share = SHARD_REPLIES_MAX / self.clients.len();
            let greedy = self.clients.iter().find(|(_, replies)| replies.len() > share);
            let greedy = greedy.map_or(key.client, |(client, _)| *client);
            self.forget_oldest(greedy);
        }
    }

    /// Drops the replies of a client that are too old.
    fn expire(&mut self, client: u64, now: Nanos) {
        let is_old = |(since, _): &(Nanos, Key)| now.saturating_sub(*since) > KEPT_NS;
        while self.clients.get(&client).is_some_and(|replies| replies.front().is_some_and(is_old)) {
            self.forget_oldest(client);
        }
    }

    fn forget_oldest(&mut self, client: u64) {
        let Some(replies) = self.clients.get_mut(&client) else { return };
        if let Some((_, key)) = replies.pop_front() {
            self.replies.remove(&key);
            self.kept -= 1;
        }
        if replies.is_empty() {
            self.clients.remove(&client);
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

    fn keep(cache: &ReplyCache, key: Key, record: &[u8]) {
        if let Repeated::No(execution) = cache.begin(key, 0) {
            execution.keep(record, 0);
        }
    }

    /// The record that answered a call.
    fn find(cache: &ReplyCache, key: Key, now: Nanos) -> Option<Box<[u8]>> {
        if let Repeated::Answered(record) = cache.begin(key, now) { Some(record) } else { None }
    }

    #[test]
    fn only_the_same_call_finds_its_reply() {
        let cache = ReplyCache::default();
        let key = |peer: &str, xid, arguments: &[u8]| cache.key(peer, &header(xid, REMOVE), arguments);
        keep(&cache, key("a", 1, b"f"), b"reply");
        assert_eq!(find(&cache, key("a", 1, b"f"), KEPT_NS).as_deref(), Some(&b"reply"[..]));
        for other in [key("b", 1, b"f"), key("a", 2, b"f"), key("a", 1, b"g")] {
            assert_eq!(find(&cache, other, 0), None);
        }
        assert_eq!(find(&cache, cache.key("a", &header(1, 13), b"f"), 0), None);
        assert_eq!(find(&cache, key("a", 1, b"f"), KEPT_NS + 1), None, "too old");
    }

    #[test]
    fn a_call_is_in_progress_until_it_is_answered_or_given_up() {
        let cache = ReplyCache::default();
        let key = cache.key("a", &header(1, REMOVE), b"f");
        let Repeated::No(first) = cache.begin(key, 0) else { panic!("there was none before") };
        assert!(matches!(cache.begin(key, 0), Repeated::InProgress));
        drop(first);
        let Repeated::No(second) = cache.begin(key, 0) else { panic!("it was given up") };
        second.keep(b"reply", 0);
        assert_eq!(find(&cache, key, 0).as_deref(), Some(&b"reply"[..]));
    }

    #[test]
    fn the_oldest_replies_of_a_client_make_room_for_its_own() {
        let cache = ReplyCache::default();
        let key = |peer: &str, xid| cache.key(peer, &header(xid, REMOVE), b"f");
        keep(&cache, key("patient", 1), b"kept");
        let count = (2 * SHARDS * SHARD_REPLIES_MAX) as u32;
        for xid in 0..count {
            keep(&cache, key("busy", xid), &[]);
        }
        assert!((0..100).all(|back| find(&cache, key("busy", count - 1 - back), 0).is_some()));
        assert!(find(&cache, key("patient", 1), 0).is_some(), "another client costs it nothing");
        for (peer, xid) in (0..count).map(|xid| (format!("client {}", xid % 500), xid)) {
            keep(&cache, key(&peer, xid), &[]);
        }
        assert!(find(&cache, key("patient", 1), 0).is_some(), "it has less than its share");
        for shard in &cache.shards {
            let shard = shard.lock().unwrap();
            let kept: usize = shard.clients.values().map(VecDeque::len).sum();
            assert_eq!((shard.replies.len(), shard.kept), (kept, kept));
            assert!(kept <= SHARD_REPLIES_MAX && shard.clients.values().all(|own| own.len() <= CLIENT_REPLIES_MAX));
        }
    }
}
