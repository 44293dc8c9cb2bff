//! The grace period after a restart (RFC 8881 §8.4.2): clients that had state before reclaim it, and nobody gets new state meanwhile.
//!
//! The clients that had state are on record with the files, so that a server that had no clients serves at once, and one that had some waits for just
//! these, at most for the time of a lease.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::hash::Hasher;

#[allow(deprecated)]
// SipHash-2-4 by its documentation: what is not deprecated may hash differently in the next release
use std::hash::SipHasher;

use iocurve_meter::Nanos;
use iocurve_wire::nfs4::nfsstat4;

use super::ledger::Address;
use super::session::LEASE_NS;

/// Most clients on record; those beyond it cannot reclaim after a restart.
pub(super) const RECORDED_MAX: usize = 256;

/// Keeps the digests of clients that have state where a restart of the server does not lose them.
pub(crate) trait ClientRecord: Debug + Send {
    /// The clients that had state when the server ended.
    fn read(&self) -> Vec<u64>;

    /// Replaces the record.
    fn write(&self, clients: &[u64]);
}

#[derive(Debug)]
pub(super) struct Grace {
    /// The secret of the digests of clients. With the same one after a restart clients are known again.
    key: [u8; 16],
    records: Vec<Box<dyn ClientRecord>>,
    /// Clients on record.
    recorded: BTreeMap<u64, Recorded>,
    /// Clients put on record so far.
    numbers: u64,
    /// Clients that had state before the restart and may still reclaim it.
    awaited: BTreeSet<u64>,
    end: Nanos,
}

/// A client on record.
#[derive(Debug, Clone, Copy, Default)]
struct Recorded {
    /// None until a client that was on record before a restart has state again.
    address: Option<Address>,
    /// Its place in the order in which clients were put on record.
    number: u64,
}

impl Grace {
    pub(super) fn begin(key: [u8; 16], records: Vec<Box<dyn ClientRecord>>, now: Nanos) -> Self {
        let awaited: BTreeSet<u64> = records.iter().flat_map(|record| record.read()).collect();
        let recorded = awaited.iter().map(|client| (*client, Recorded::default())).collect();
        Self { key, records, recorded, numbers: 0, awaited, end: now.saturating_add(LEASE_NS) }
    }

    /// Checks that a client may reclaim (`is_reclaim`) or get new state.
    pub(super) fn check(
        &mut self,
        owner: &[u8],
        is_reclaim: bool,
        has_reclaimed: bool,
        now: Nanos,
    ) -> Result<(), nfsstat4> {
        let is_on = self.is_on(now);
        match is_reclaim {
            false if is_on || !has_reclaimed => Err(nfsstat4::NFS4ERR_GRACE),
            true if !is_on || has_reclaimed => Err(nfsstat4::NFS4ERR_NO_GRACE),
            true if !self.awaited.contains(&self.digest(owner)) => Err(nfsstat4::NFS4ERR_RECLAIM_BAD),
            _ => Ok(()),
        }
    }

    /// True during the grace period. When it is over, clients that have not come back go off the record.
    fn is_on(&mut self, now: Nanos) -> bool {
        if !self.awaited.is_empty() && now >= self.end {
            let late = std::mem::take(&mut self.awaited);
            self.recorded.retain(|client, _| !late.contains(client));
            self.write();
        }
        !self.awaited.is_empty()
    }

    /// Puts a client that has state on record. If the record is full, each address has an equal share of it, and the address with most
    /// clients on record makes room for one below its share.
    pub(super) fn record(&mut self, owner: &[u8], address: Option<Address>) {
        let client = self.digest(owner);
        if let Some(recorded) = self.recorded.get_mut(&client) {
            recorded.address = address;
            return;
        }
        if self.recorded.len() >= RECORDED_MAX {
            let Some(other) = self.to_make_room_for(address) else { return };
            self.recorded.remove(&other);
        }
        self.numbers += 1;
        self.recorded.insert(client, Recorded { address, number: self.numbers });
        self.write();
    }

    /// The client that goes off a full record for one of an address: the newest of the address with most, if this one is below its share.
    fn to_make_room_for(&self, address: Option<Address>) -> Option<u64> {
        let mut clients: HashMap<_, usize> = HashMap::from([(address, 0)]);
        self.recorded.values().for_each(|recorded| *clients.entry(recorded.address).or_default() += 1);
        let share = (RECORDED_MAX / clients.len()).max(1);
        let (most, _) = clients.iter().max_by_key(|(_, clients)| **clients)?;
        let of_most = self.recorded.iter().filter(|(_, recorded)| recorded.address == *most);
        let newest = of_most.max_by_key(|(_, recorded)| recorded.number).map(|(client, _)| *client);
        newest.filter(|_| clients[&address] < share)
    }

    /// Takes a client off the record whose state others may have had since: it must not reclaim it (RFC 8881 §8.4.3).
    pub(super) fn revoked(&mut self, owner: &[u8]) {
        if !self.awaited.contains(&self.digest(owner)) {
            self.forget(owner);
        }
    }

    /// Notes that a client has reclaimed all it wants.
    pub(super) fn completed(&mut self, owner: &[u8]) {
        let client = self.digest(owner);
        self.awaited.remove(&client);
    }

    /// Takes a client off the record.
    pub(super) fn forget(&mut self, owner: &[u8]) {
        let client = self.digest(owner);
        self.awaited.remove(&client);
        if self.recorded.remove(&client).is_some() {
            self.write();
        }
    }

    /// A number for a client's name, the same in each version of this program. Without the key no client finds a name with the number of
    /// another.
    fn digest(&self, owner: &[u8]) -> u64 {
        let [low, high] = [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|byte| self.key[at + byte])));
        #[allow(deprecated)]
        let mut hasher = SipHasher::new_with_keys(low, high);
        hasher.write(owner);
        hasher.finish()
    }

    fn write(&self) {
        let clients: Vec<u64> = self.recorded.keys().copied().collect();
        self.records.iter().for_each(|record| record.write(&clients));
    }
}
