//! The tables of clients, sessions, opens and locks, which change together.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iocurve_meter::Nanos;
use iocurve_wire::nfs3::nfs_fh3;
use iocurve_wire::nfs4::{clientid4, nfsstat4, sessionid4};

use super::clients::Clients;
use super::files::{FileState, LockState, Open, StateKey};
use super::ledger::{Kind, Ledger, Origin, beyond_guaranteed};
use super::ranges::Ranges;
use super::recovery::{ClientRecord, Grace};
use super::session::{NfsClient, NfsSession};
use crate::stats::Nfs4Stats;

/// Most lock owners of a client that are kept without locks, for its next lock.
pub(super) const IDLE_LOCK_OWNERS_MAX: usize = 1 << 10;

/// All clients and their state.
#[derive(Debug)]
pub(crate) struct State {
    /// Makes ids that no client can guess from others, nor has from an earlier start.
    ids: RandomState,
    /// Names the server to its clients, over restarts.
    pub(crate) scope: String,
    /// Program and version, for the implementation id of `EXCHANGE_ID`.
    pub(crate) implementation: String,
    tables: Mutex<Tables>,
}

#[derive(Debug)]
pub(super) struct Tables {
    pub(super) clients: Clients,
    pub(super) sessions: HashMap<sessionid4, Arc<NfsSession>>,
    pub(super) opens: HashMap<u64, Open>,
    pub(super) locks: HashMap<u64, LockState>,
    /// Numbers of opens and lock owners' states.
    pub(super) by_key: HashMap<StateKey, u64>,
    /// The files that are open, with their opens and locks.
    pub(super) files: HashMap<nfs_fh3, FileState>,
    /// The room that clients take for all this.
    pub(super) ledger: Ledger,
    /// Numbers given out so far, to clients, sessions and state.
    pub(super) numbers: u64,
    pub(super) grace: Grace,
}

impl State {
    /// No clients yet. `records` are those of the exports, which tell by digests with this key who had state before the start.
    pub(crate) fn new(scope: String, key: [u8; 16], records: Vec<Box<dyn ClientRecord>>, now: Nanos) -> Self {
        let tables = Tables {
            clients: Clients::default(),
            sessions: HashMap::new(),
            opens: HashMap::new(),
            locks: HashMap::new(),
            by_key: HashMap::new(),
            files: HashMap::new(),
            ledger: Ledger::default(),
            numbers: 0,
            grace: Grace::begin(key, records, now),
        };
        Self { ids: RandomState::new(), scope, implementation: "iocurve".to_owned(), tables: Mutex::new(tables) }
    }

    pub(super) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that what clients have sums up to what the tables hold, within the limits.
    pub(crate) fn check(&self) {
        self.tables().check();
    }

    /// The room that clients take.
    pub(crate) fn stats(&self) -> Nfs4Stats {
        self.tables().ledger.stats()
    }

    /// An id that cannot be guessed: a keyed hash of a number.
    pub(super) fn id(&self, number: u64, part: u8) -> u64 {
        self.ids.hash_one((number, part))
    }

    /// The session with this id, if it exists.
    pub(crate) fn session(&self, id: &sessionid4) -> Option<Arc<NfsSession>> {
        self.tables().sessions.get(id).cloned()
    }
}

impl Tables {
    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Removes a client so that others can have what it had.
    pub(super) fn revoke_client(&mut self, id: clientid4) {
        if let Some(known) = self.clients.get(id) {
            self.grace.revoked(&known.owner);
        }
        self.remove_client(id);
    }

    /// Removes a client with all its sessions and state.
    pub(super) fn remove_client(&mut self, id: clientid4) {
        self.remove_state_of(id);
        for session in self.clients.remove(id) {
            if let Some(session) = self.sessions.remove(&session) {
                session.end();
            }
        }
        self.ledger.close_account(id);
    }

    /// Makes room for an amount of a kind of state of a client, or for a client that does not exist yet.
    pub(super) fn make_room(
        &mut self,
        (kind, amount): (Kind, usize),
        origin: Origin,
        client: Option<clientid4>,
        now: Nanos,
    ) -> Result<(), nfsstat4> {
        if kind == Kind::Clients {
            while let Some(client) = self.ledger.forgotten(now) {
                self.revoke_client(client);
            }
        }
        while !self.ledger.has_room(kind, amount) {
            let first = self.ledger.first_to_go((kind, amount), origin, client, now).ok_or(nfsstat4::NFS4ERR_DELAY)?;
            self.revoke_client(first);
        }
        Ok(())
    }

    /// Makes room for more of a kind of state of a client: for another open or lock owner, its own lock owners without locks go first.
    pub(super) fn make_room_of(
        &mut self,
        client: &NfsClient,
        (kind, amount): (Kind, usize),
        now: Nanos,
    ) -> Result<(), nfsstat4> {
        let may_take = |tables: &Self| tables.ledger.may_take(client.id, kind, amount);
        let is_full = |tables: &Self| !tables.ledger.has_room(kind, amount) || !may_take(tables);
        while kind == Kind::States && is_full(self) {
            let Some(idle) = self.clients.get(client.id).and_then(|known| known.idle_locks.values().next()) else {
                break;
            };
            self.remove_lock_state(*idle);
        }
        if !may_take(self) {
            return Err(nfsstat4::NFS4ERR_DELAY);
        }
        let origin = self.ledger.origin_of(client.id).ok_or(nfsstat4::NFS4ERR_EXPIRED)?;
        // The client lives, so it does not make room for itself.
        client.renew(now);
        self.make_room((kind, amount), origin, Some(client.id), now)
    }

    pub(super) fn add_open(&mut self, key: StateKey) -> u64 {
        let number = self.number();
        self.add_state(number, &key);
        if let Some(known) = self.clients.get_mut(key.client) {
            known.opens.insert(number);
        }
        let open = Open { key, seqid: 0, access: 0, deny: 0, opened: 0, locks: BTreeSet::new() };
        self.opens.insert(number, open);
        number
    }

    pub(super) fn add_lock_state(&mut self, key: StateKey, open: u64) -> u64 {
        let number = self.number();
        self.add_state(number, &key);
        if let Some(open) = self.opens.get_mut(&open) {
            open.locks.insert(number);
        }
        self.locks.insert(number, LockState { key, seqid: 0, open, ranges: 0, idle: 0 });
        number
    }

    fn add_state(&mut self, number: u64, key: &StateKey) {
        self.files.entry(key.file).or_default().states += 1;
        self.by_key.insert(key.clone(), number);
        self.ledger.take(key.client, Kind::States, key.room());
    }

    fn remove_state(&mut self, key: &StateKey) {
        self.by_key.remove(key);
        self.ledger.give_back(key.client, Kind::States, key.room());
        let Some(file) = self.files.get_mut(&key.file) else { return };
        file.states -= 1;
        if file.states == 0 {
            self.files.remove(&key.file);
        }
    }

    /// Sets access and deny of an open.
    pub(super) fn set_share(&mut self, number: u64, (access, deny): (u32, u32)) {
        let Some(open) = self.opens.get_mut(&number) else { return };
        (open.access, open.deny) = (access, deny);
        let Some(file) = self.files.get_mut(&open.key.file) else { return };
        for (bit, opens) in file.shares.iter_mut().enumerate() {
            if (access | deny << 2) >> bit & 1 == 1 {
                opens.insert(number);
            } else {
                opens.remove(&number);
            }
        }
    }

    pub(super) fn remove_open(&mut self, number: u64) {
        self.set_share(number, (0, 0));
        let Some(open) = self.opens.remove(&number) else { return };
        for lock in open.locks {
            self.remove_lock_state(lock);
        }
        if let Some(known) = self.clients.get_mut(open.key.client) {
            known.opens.remove(&number);
        }
        self.remove_state(&open.key);
    }

    pub(super) fn remove_lock_state(&mut self, number: u64) {
        self.count_ranges(number, |ranges| ranges.unlock_all(number));
        let Some(lock) = self.locks.remove(&number) else { return };
        if let Some(known) = self.clients.get_mut(lock.key.client) {
            known.idle_locks.remove(&lock.idle);
        }
        if let Some(open) = self.opens.get_mut(&lock.open) {
            open.locks.remove(&number);
        }
        self.remove_state(&lock.key);
    }

    /// Changes the locked ranges of a lock owner. Without any it is idle; if too many are, the first of them goes.
    pub(super) fn change_ranges(&mut self, number: u64, change: impl FnOnce(&mut Ranges)) {
        self.count_ranges(number, change);
        let order = self.number();
        let Some(lock) = self.locks.get_mut(&number) else { return };
        let Some(known) = self.clients.get_mut(lock.key.client) else { return };
        known.idle_locks.remove(&lock.idle);
        lock.idle = if lock.ranges == 0 { order } else { 0 };
        if lock.idle != 0 {
            known.idle_locks.insert(lock.idle, number);
        }
        if known.idle_locks.len() > IDLE_LOCK_OWNERS_MAX
            && let Some(first) = known.idle_locks.values().next().copied()
        {
            self.remove_lock_state(first);
        }
    }

    /// Changes the locked ranges of a lock owner, and counts them.
    fn count_ranges(&mut self, number: u64, change: impl FnOnce(&mut Ranges)) {
        let Some(lock) = self.locks.get_mut(&number) else { return };
        let Some(file) = self.files.get_mut(&lock.key.file) else { return };
        let (before, others) = (lock.ranges, file.ranges.len() - lock.ranges);
        change(&mut file.ranges);
        lock.ranges = file.ranges.len() - others;
        self.ledger.give_back(lock.key.client, Kind::Ranges, before);
        self.ledger.take(lock.key.client, Kind::Ranges, lock.ranges);
    }

    /// Removes all opens and locks of a client.
    fn remove_state_of(&mut self, client: clientid4) {
        let opens = self.clients.get_mut(client).map(|known| std::mem::take(&mut known.opens)).unwrap_or_default();
        for number in opens {
            self.remove_open(number);
        }
    }
}

impl NfsSession {
    /// Bytes that its slots may keep of replies, beyond those of each slot.
    pub(super) fn reply_bytes(&self) -> usize {
        beyond_guaranteed(self.fore.ca_maxrequests, self.fore.ca_maxresponsesize_cached)
    }
}

impl Tables {
    /// Everything that is noted twice is noted alike.
    pub(crate) fn check(&self) {
        assert_eq!(self.by_key.len(), self.opens.len() + self.locks.len());
        let states: usize = self.files.values().map(FileState::states).sum();
        assert_eq!(states, self.by_key.len());
        let states = self.by_key.keys().map(StateKey::room).sum();
        let ranges: usize = self.files.values().map(FileState::ranges).sum();
        let slots: usize = self.sessions.values().map(|session| session.fore.ca_maxrequests as usize).sum();
        let reply_bytes: usize = self.sessions.values().map(|session| session.reply_bytes()).sum();
        self.ledger.check([self.clients.len(), slots, states, ranges, reply_bytes]);
    }
}
