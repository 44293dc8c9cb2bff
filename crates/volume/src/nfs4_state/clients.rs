//! The clients by id and by name, and what the tables know of each.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use iocurve_meter::Nanos;
use iocurve_wire::nfs4::operations::CREATE_SESSION4resok;
use iocurve_wire::nfs4::{clientid4, sequenceid4, sessionid4, verifier4};

use super::ledger::Origin;
use super::session::NfsClient;

#[derive(Debug)]
pub(super) struct Known {
    pub(super) shared: Arc<NfsClient>,
    pub(super) owner: Arc<[u8]>,
    pub(super) verifier: verifier4,
    pub(super) origin: Origin,
    /// Sequence id of the next `CREATE_SESSION`.
    pub(super) sequence: sequenceid4,
    /// Result of the last `CREATE_SESSION`, for the same call sent again by the same caller.
    pub(super) created: Option<(CREATE_SESSION4resok, Origin)>,
    pub(super) sessions: HashSet<sessionid4>,
    /// Numbers of its opens.
    pub(super) opens: HashSet<u64>,
    /// Its lock owners without locks, by the time at which they became so, as a number that grows.
    pub(super) idle_locks: BTreeMap<u64, u64>,
}

/// The clients by id and by name.
#[derive(Debug, Default)]
pub(super) struct Clients {
    by_id: HashMap<clientid4, Known>,
    /// Of each name the client that has not made a session yet, and the one that has.
    by_owner: HashMap<Arc<[u8]>, [Option<clientid4>; 2]>,
}

impl Clients {
    pub(super) fn get(&self, id: clientid4) -> Option<&Known> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: clientid4) -> Option<&mut Known> {
        self.by_id.get_mut(&id)
    }

    /// The client with this name that has made a session, or the one that has not yet.
    pub(super) fn named(&self, owner: &[u8], is_confirmed: bool) -> Option<clientid4> {
        self.by_owner.get(owner)?[usize::from(is_confirmed)]
    }

    pub(super) fn add(&mut self, id: clientid4, known: Known) {
        self.by_owner.entry(Arc::clone(&known.owner)).or_default()[usize::from(known.shared.is_confirmed())] = Some(id);
        self.by_id.insert(id, known);
    }

    /// Notes that a client has made a session.
    pub(super) fn confirm(&mut self, id: clientid4) {
        let Some(known) = self.by_id.get(&id) else { return };
        known.shared.confirm();
        self.by_owner.insert(Arc::clone(&known.owner), [None, Some(id)]);
    }

    /// Removes a client; returns its sessions.
    pub(super) fn remove(&mut self, id: clientid4) -> HashSet<sessionid4> {
        let Some(known) = self.by_id.remove(&id) else { return HashSet::new() };
        if let Some(named) = self.by_owner.get_mut(&known.owner) {
            named[usize::from(known.shared.is_confirmed())] = None;
            if *named == [None, None] {
                self.by_owner.remove(&known.owner);
            }
        }
        known.sessions
    }

    pub(super) fn is_expired(&self, id: clientid4, now: Nanos) -> bool {
        self.by_id.get(&id).is_none_or(|known| known.shared.is_expired(now))
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }
}

#[cfg(test)]
impl Known {
    pub(super) fn sequence(&self) -> sequenceid4 {
        self.sequence
    }
}
