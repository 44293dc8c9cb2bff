//! The state of NFSv4.1 clients: who they are, their sessions, the files they have open, and their locks (RFC 8881 §2.10, §8, §9).
//!
//! [`State`] is one for all threads. Everything that changes rarely is in tables behind one lock: clients and sessions are in
//! `clients`, opens and byte-range locks in `files`. READ and WRITE do not take that lock: a connection remembers its session, each
//! slot of a session has a separate lock ([`session`]), and a slot remembers the last state id that it was shown until the client
//! opens, closes or locks something.
//!
//! Nothing here knows stores or the encoding of calls; time is an argument.

mod clients;
mod directory_record;
mod files;
mod interval_tree;
mod ledger;
#[cfg(test)]
mod model;
mod ranges;
mod recovery;
pub(crate) mod session;
#[cfg(test)]
mod soak;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iocurve_meter::{Nanos, SECOND};
use iocurve_wire::nfs3::nfs_fh3;
use iocurve_wire::nfs4::{clientid4, sessionid4};

pub(crate) use clients::{ClientOwner, Exchanged, Principal, SessionRequest};
pub(crate) use directory_record::DirectoryRecord;
pub(crate) use files::{LockError, LockRequest, Locker, OpenRequest};
pub(crate) use ledger::Address;
pub(crate) use ranges::Range;
pub(crate) use recovery::ClientRecord;
pub(crate) use session::{NfsSession, Request, SlotUse, Started};

use crate::stats::Nfs4Stats;
use clients::Clients;
use files::{FileState, LockState, Open, StateKey};
use ledger::{Kind, Ledger};
use recovery::Grace;

/// Time for which a client's state is kept for certain without a sign of life (RFC 8881 §8.3).
pub(crate) const LEASE_SECONDS: u32 = 60;

const LEASE_NS: Nanos = LEASE_SECONDS as Nanos * SECOND;

/// Most locked ranges of one file.
const FILE_RANGES_MAX: usize = 1 << 14;

/// Most lock owners of a client that are kept without locks, for its next lock.
const IDLE_LOCK_OWNERS_MAX: usize = 1 << 10;

/// All clients and their state.
#[derive(Debug)]
pub(crate) struct State {
    /// Tells this start of the server from earlier ones, in state ids.
    boot: u32,
    /// Makes ids that no client can guess from its own.
    ids: RandomState,
    /// Names the server to its clients, over restarts.
    pub(crate) scope: String,
    tables: Mutex<Tables>,
}

#[derive(Debug)]
struct Tables {
    clients: Clients,
    sessions: HashMap<sessionid4, Arc<NfsSession>>,
    opens: HashMap<u64, Open>,
    locks: HashMap<u64, LockState>,
    /// Numbers of opens and lock owners' states.
    by_key: HashMap<StateKey, u64>,
    /// The files that are open, with their opens and locks.
    files: HashMap<nfs_fh3, FileState>,
    /// The room that clients take for all this.
    ledger: Ledger,
    /// Numbers given out so far, to clients, sessions and state.
    numbers: u64,
    grace: Grace,
}

impl State {
    /// No clients yet. `started` is the time of the start; `records` are those of the exports, which tell who had state before it.
    pub(crate) fn new(started_ns: u64, scope: String, records: Vec<Box<dyn ClientRecord>>, now: Nanos) -> Self {
        let tables = Tables {
            clients: Clients::default(),
            sessions: HashMap::new(),
            opens: HashMap::new(),
            locks: HashMap::new(),
            by_key: HashMap::new(),
            files: HashMap::new(),
            ledger: Ledger::default(),
            numbers: 0,
            grace: Grace::begin(records, now),
        };
        // Milliseconds tell starts apart; no two starts are 50 days apart to the millisecond.
        let boot = (started_ns / 1_000_000) as u32;
        Self { boot, ids: RandomState::new(), scope, tables: Mutex::new(tables) }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that what clients have sums up to what the tables hold, within the limits.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn check(&self) {
        self.tables().check();
    }

    /// The room that clients take.
    pub(crate) fn stats(&self) -> Nfs4Stats {
        self.tables().ledger.stats()
    }

    /// An id that cannot be guessed: a keyed hash of a number.
    fn id(&self, number: u64, part: u8) -> u64 {
        self.ids.hash_one((number, part))
    }

    /// The session with this id, if it exists.
    pub(crate) fn session(&self, id: &sessionid4) -> Option<Arc<NfsSession>> {
        self.tables().sessions.get(id).cloned()
    }
}

impl Tables {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Removes a client so that others can have what it had.
    fn revoke_client(&mut self, id: clientid4) {
        if let Some(known) = self.clients.get(id) {
            self.grace.revoked(&known.owner);
        }
        self.remove_client(id);
    }

    /// Removes a client with all its sessions and state.
    fn remove_client(&mut self, id: clientid4) {
        self.remove_state_of(id);
        for session in self.clients.remove(id) {
            if let Some(session) = self.sessions.remove(&session) {
                session.end();
            }
        }
        self.ledger.close_account(id);
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl Tables {
    /// Everything that is noted twice is noted alike.
    pub(crate) fn check(&self) {
        assert_eq!(self.by_key.len(), self.opens.len() + self.locks.len());
        let states: usize = self.files.values().map(FileState::states).sum();
        assert_eq!(states, self.by_key.len());
        let ranges: usize = self.files.values().map(FileState::ranges).sum();
        let slots: usize = self.sessions.values().map(|session| session.fore.ca_maxrequests as usize).sum();
        let reply_bytes: usize = self.sessions.values().map(|session| session.reply_bytes()).sum();
        self.ledger.check([self.clients.len(), slots, states, ranges, reply_bytes]);
    }
}
