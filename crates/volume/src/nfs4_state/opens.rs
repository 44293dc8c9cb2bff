//! OPEN with share reservations, and byte-range locks (RFC 8881 §9, §18.2, §18.10 to §18.12, §18.16, §18.18, §18.38, §18.48).

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use iocurve_meter::Nanos;
use iocurve_wire::nfs3::nfs_fh3;
use iocurve_wire::nfs4::operations::share::{OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_ACCESS_WRITE};
use iocurve_wire::nfs4::{clientid4, nfsstat4, stateid4};

use super::files::StateKey;
use super::interval_tree::Range;
use super::ledger::Kind;
use super::ranges::Locked;
use super::session::{NfsClient, SlotUse};
use super::tables::{State, Tables};

/// Most locked ranges of one file.
const FILE_RANGES_MAX: usize = 1 << 14;

/// An OPEN whose file has been found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenRequest<'a> {
    pub(crate) owner: &'a [u8],
    pub(crate) file: &'a nfs_fh3,
    pub(crate) access: u32,
    pub(crate) deny: u32,
}

/// A LOCK.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LockRequest<'a> {
    pub(crate) file: &'a nfs_fh3,
    pub(crate) range: Range,
    pub(crate) is_write: bool,
    pub(crate) is_reclaim: bool,
    pub(crate) locker: Locker<'a>,
}

/// The owner of a new lock.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Locker<'a> {
    /// One that may not have a state id for the file yet.
    New { open: stateid4, owner: &'a [u8] },
    /// One that has.
    Known(stateid4),
}

/// The lock that is in the way of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) range: Range,
    pub(crate) is_write: bool,
    /// The caller's id, or 0 if it is another client's lock: ids of clients are for them alone.
    pub(crate) client: clientid4,
    pub(crate) owner: Arc<[u8]>,
}

/// A failed LOCK or LOCKT.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LockError {
    Denied(Conflict),
    Failed(nfsstat4),
}

impl From<nfsstat4> for LockError {
    fn from(status: nfsstat4) -> Self {
        Self::Failed(status)
    }
}

/// The state that a state id names.
#[derive(Debug, Clone, Copy)]
enum Named {
    Open(u64),
    Lock(u64),
}

impl State {
    /// Checks that a client may open files now: it must have reclaimed what it had, and no other client may still have to reclaim.
    pub(crate) fn check_open(&self, client: &NfsClient, is_reclaim: bool, now: Nanos) -> Result<(), nfsstat4> {
        self.tables().check_grace(client, is_reclaim, now)
    }

    /// OPEN: adds access and share reservation to those that the owner has. Returns whether the owner had the file open before, too.
    pub(crate) fn open(
        &self,
        client: &NfsClient,
        asked: &OpenRequest<'_>,
        now: Nanos,
    ) -> Result<(stateid4, bool), nfsstat4> {
        let mut tables = self.tables();
        let key = StateKey::new(client.id, asked.file, false, asked.owner);
        let own = tables.by_key.get(&key).copied();
        tables.settle_share_conflicts(asked, own, now)?;
        if own.is_none() {
            tables.make_room_of(client, (Kind::States, key.room()), now)?;
        }
        tables.record(client);
        let number = own.unwrap_or_else(|| tables.add_open(key));
        let open = tables.opens.get_mut(&number).ok_or(nfsstat4::NFS4ERR_SERVERFAULT)?;
        open.opened |= 1 << (4 * asked.access + asked.deny);
        open.seqid = next_seqid(open.seqid);
        let stateid = self.stateid(number, open.seqid);
        let share = (open.access | asked.access, open.deny | asked.deny);
        tables.set_share(number, share);
        client.changed();
        Ok((stateid, own.is_some()))
    }

    /// CLOSE: the open goes with all its locks.
    pub(crate) fn close(&self, client: &NfsClient, stateid: &stateid4, file: &nfs_fh3) -> Result<(), nfsstat4> {
        let mut tables = self.tables();
        let number = self.find_open(&tables, client, stateid, file)?;
        tables.remove_open(number);
        client.changed();
        Ok(())
    }

    /// `OPEN_DOWNGRADE`.
    pub(crate) fn downgrade(
        &self,
        client: &NfsClient,
        stateid: &stateid4,
        file: &nfs_fh3,
        (access, deny): (u32, u32),
    ) -> Result<stateid4, nfsstat4> {
        let mut tables = self.tables();
        let number = self.find_open(&tables, client, stateid, file)?;
        let open = tables.opens.get_mut(&number).ok_or(nfsstat4::NFS4ERR_BAD_STATEID)?;
        let opened = open.opened & within(access, deny);
        if union(opened) != (access, deny) {
            return Err(nfsstat4::NFS4ERR_INVAL);
        }
        open.opened = opened;
        open.seqid = next_seqid(open.seqid);
        let stateid = self.stateid(number, open.seqid);
        tables.set_share(number, (access, deny));
        client.changed();
        Ok(stateid)
    }

    /// Checks the state id of a READ, a WRITE or a SETATTR of the size. Takes no lock if the slot was shown the same one before.
    pub(crate) fn check_access(
        &self,
        slot: &mut SlotUse,
        stateid: &stateid4,
        file: &nfs_fh3,
        access: u32,
        now: Nanos,
    ) -> Result<(), nfsstat4> {
        if slot.was_shown(stateid, file, access) {
            return Ok(());
        }
        let client = &slot.session.client;
        let generation = client.generation();
        let mut tables = self.tables();
        if *stateid == stateid4::ANONYMOUS || *stateid == stateid4::READ_BYPASS {
            let passes = *stateid == stateid4::READ_BYPASS && access == OPEN4_SHARE_ACCESS_READ;
            return if passes { Ok(()) } else { tables.check_denied(file, access, now) };
        }
        let open = match self.find(&tables, client, stateid, file)? {
            Named::Open(number) => number,
            Named::Lock(number) => tables.locks[&number].open,
        };
        let granted = tables.opens.get(&open).ok_or(nfsstat4::NFS4ERR_BAD_STATEID)?.access;
        if access == OPEN4_SHARE_ACCESS_WRITE && granted & access == 0 {
            return Err(nfsstat4::NFS4ERR_OPENMODE);
        }
        drop(tables);
        slot.show(stateid, file, access, generation);
        Ok(())
    }

    /// LOCK.
    pub(crate) fn lock(&self, client: &NfsClient, asked: &LockRequest<'_>, now: Nanos) -> Result<stateid4, LockError> {
        let mut tables = self.tables();
        let (open, known) = self.find_locker(&tables, client, asked)?;
        tables.check_grace(client, asked.is_reclaim, now)?;
        let needed = if asked.is_write { OPEN4_SHARE_ACCESS_WRITE } else { OPEN4_SHARE_ACCESS_READ };
        if tables.opens[&open].access & needed == 0 {
            return Err(nfsstat4::NFS4ERR_OPENMODE.into());
        }
        tables.settle_lock_conflicts(client, asked, known, now)?;
        if tables.files.get(asked.file).is_some_and(|file| file.ranges.len() >= FILE_RANGES_MAX) {
            return Err(nfsstat4::NFS4ERR_DELAY.into());
        }
        tables.make_room_of(client, (Kind::Ranges, 1), now)?;
        let number = match (known, &asked.locker) {
            (Some(number), _) => number,
            (None, Locker::New { owner, .. }) => {
                let key = StateKey::new(client.id, asked.file, true, owner);
                tables.make_room_of(client, (Kind::States, key.room()), now)?;
                tables.add_lock_state(key, open)
            }
            (None, Locker::Known(_)) => return Err(nfsstat4::NFS4ERR_BAD_STATEID.into()),
        };
        let (range, is_write) = (asked.range, asked.is_write);
        tables.change_ranges(number, |ranges| ranges.lock(Locked { range, is_write, state: number }));
        Ok(self.lock_changed(&mut tables, client, number))
    }

    /// LOCKT: the lock that would be in the way.
    pub(crate) fn test_lock(
        &self,
        client: &NfsClient,
        file: &nfs_fh3,
        (range, is_write): (Range, bool),
        owner: &[u8],
        now: Nanos,
    ) -> Result<(), LockError> {
        let mut tables = self.tables();
        let own = tables.by_key.get(&StateKey::new(client.id, file, true, owner)).copied();
        let locker = Locker::New { open: stateid4::ANONYMOUS, owner };
        let asked = LockRequest { file, range, is_write, is_reclaim: false, locker };
        tables.settle_lock_conflicts(client, &asked, own, now)
    }

    /// LOCKU.
    pub(crate) fn unlock(
        &self,
        client: &NfsClient,
        stateid: &stateid4,
        file: &nfs_fh3,
        range: Range,
    ) -> Result<stateid4, nfsstat4> {
        let mut tables = self.tables();
        let Named::Lock(number) = self.find(&tables, client, stateid, file)? else {
            return Err(nfsstat4::NFS4ERR_BAD_STATEID);
        };
        tables.change_ranges(number, |ranges| ranges.unlock(&range, number));
        Ok(self.lock_changed(&mut tables, client, number))
    }

    /// `TEST_STATEID` for one state id.
    pub(crate) fn test_stateid(&self, client: &NfsClient, stateid: &stateid4) -> nfsstat4 {
        self.find_any(&self.tables(), client, stateid).map_or_else(|status| status, |_| nfsstat4::NFS4_OK)
    }

    /// `FREE_STATEID`: forgets a lock owner without locks.
    pub(crate) fn free_stateid(&self, client: &NfsClient, stateid: &stateid4) -> Result<(), nfsstat4> {
        let mut tables = self.tables();
        let Named::Lock(number) = self.find_any(&tables, client, stateid)? else {
            return Err(nfsstat4::NFS4ERR_LOCKS_HELD);
        };
        if tables.locks[&number].ranges > 0 {
            return Err(nfsstat4::NFS4ERR_LOCKS_HELD);
        }
        tables.remove_lock_state(number);
        client.changed();
        Ok(())
    }

    /// `RECLAIM_COMPLETE`.
    pub(crate) fn reclaim_complete(&self, client: &NfsClient) -> Result<(), nfsstat4> {
        let mut tables = self.tables();
        if client.reclaim_complete.swap(true, AcqRel) {
            return Err(nfsstat4::NFS4ERR_COMPLETE_ALREADY);
        }
        let Tables { clients, grace, .. } = &mut *tables;
        if let Some(known) = clients.get(client.id) {
            grace.completed(&known.owner);
        }
        Ok(())
    }

    fn stateid(&self, number: u64, seqid: u32) -> stateid4 {
        stateid4 { seqid, other: self.proven(number) }
    }

    /// The number of a state, and a check of it that only this start of the server can make: six bytes each.
    fn proven(&self, number: u64) -> [u8; 12] {
        let mut other = [0; 12];
        other[..6].copy_from_slice(&number.to_be_bytes()[2..]);
        other[6..].copy_from_slice(&self.id(number, 3).to_be_bytes()[2..]);
        other
    }

    /// The state of a client that a state id names, if its seqid is the current one or 0, which stands for that.
    fn find_any(&self, tables: &Tables, client: &NfsClient, stateid: &stateid4) -> Result<Named, nfsstat4> {
        let number = stateid.other[..6].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        if stateid.other != self.proven(number) {
            return Err(nfsstat4::NFS4ERR_BAD_STATEID);
        }
        let open = tables.opens.get(&number).map(|open| (open.key.client, open.seqid, Named::Open(number)));
        let lock = || tables.locks.get(&number).map(|lock| (lock.key.client, lock.seqid, Named::Lock(number)));
        match open.or_else(lock) {
            Some((owner, _, _)) if owner != client.id => Err(nfsstat4::NFS4ERR_BAD_STATEID),
            Some((_, seqid, _)) if stateid.seqid != 0 && stateid.seqid < seqid => Err(nfsstat4::NFS4ERR_OLD_STATEID),
            Some((_, seqid, _)) if stateid.seqid > seqid => Err(nfsstat4::NFS4ERR_BAD_STATEID),
            Some((_, _, named)) => Ok(named),
            None => Err(nfsstat4::NFS4ERR_BAD_STATEID),
        }
    }

    /// As [`find_any`](Self::find_any), for state of one file.
    fn find(&self, tables: &Tables, client: &NfsClient, stateid: &stateid4, file: &nfs_fh3) -> Result<Named, nfsstat4> {
        let named = self.find_any(tables, client, stateid)?;
        let of = match named {
            Named::Open(number) => &tables.opens[&number].key.file,
            Named::Lock(number) => &tables.locks[&number].key.file,
        };
        if of == file { Ok(named) } else { Err(nfsstat4::NFS4ERR_BAD_STATEID) }
    }

    fn find_open(
        &self,
        tables: &Tables,
        client: &NfsClient,
        stateid: &stateid4,
        file: &nfs_fh3,
    ) -> Result<u64, nfsstat4> {
        match self.find(tables, client, stateid, file)? {
            Named::Open(number) => Ok(number),
            Named::Lock(_) => Err(nfsstat4::NFS4ERR_BAD_STATEID),
        }
    }

    /// The open for which a lock is requested, and the lock owner's state if it has one.
    fn find_locker(
        &self,
        tables: &Tables,
        client: &NfsClient,
        asked: &LockRequest<'_>,
    ) -> Result<(u64, Option<u64>), nfsstat4> {
        match asked.locker {
            Locker::New { open, owner } => {
                let open = self.find_open(tables, client, &open, asked.file)?;
                let key = StateKey::new(client.id, asked.file, true, owner);
                Ok((open, tables.by_key.get(&key).copied()))
            }
            Locker::Known(stateid) => match self.find(tables, client, &stateid, asked.file)? {
                Named::Lock(number) => Ok((tables.locks[&number].open, Some(number))),
                Named::Open(_) => Err(nfsstat4::NFS4ERR_BAD_STATEID),
            },
        }
    }

    /// The state id of a lock owner after its locks have changed.
    fn lock_changed(&self, tables: &mut Tables, client: &NfsClient, number: u64) -> stateid4 {
        client.changed();
        let seqid = tables.locks.get_mut(&number).map_or(1, |lock| {
            lock.seqid = next_seqid(lock.seqid);
            lock.seqid
        });
        self.stateid(number, seqid)
    }
}

impl Tables {
    fn check_grace(&mut self, client: &NfsClient, is_reclaim: bool, now: Nanos) -> Result<(), nfsstat4> {
        let Self { clients, grace, .. } = self;
        let known = clients.get(client.id).ok_or(nfsstat4::NFS4ERR_EXPIRED)?;
        grace.check(&known.owner, is_reclaim, client.reclaim_complete.load(Relaxed), now)
    }

    /// Puts a client on record that is about to have state.
    fn record(&mut self, client: &NfsClient) {
        let Self { clients, grace, ledger, .. } = self;
        if let Some(known) = clients.get(client.id) {
            grace.record(&known.owner, ledger.origin_of(client.id).map(|origin| origin.address));
        }
    }

    /// Fails if an OPEN is against the share reservation of another owner. Those of clients whose lease has expired go.
    fn settle_share_conflicts(
        &mut self,
        asked: &OpenRequest<'_>,
        own: Option<u64>,
        now: Nanos,
    ) -> Result<(), nfsstat4> {
        while let Some(client) = self.share_conflict(asked.file, asked.access, asked.deny, own) {
            self.evict(client, now).map_err(|()| nfsstat4::NFS4ERR_SHARE_DENIED)?;
        }
        Ok(())
    }

    /// Fails if access without an open is against another open's share reservation.
    fn check_denied(&mut self, file: &nfs_fh3, access: u32, now: Nanos) -> Result<(), nfsstat4> {
        while let Some(client) = self.share_conflict(file, access, 0, None) {
            self.evict(client, now).map_err(|()| nfsstat4::NFS4ERR_LOCKED)?;
        }
        Ok(())
    }

    /// The client of an open, other than `own`, that excludes this access or is excluded by this reservation.
    fn share_conflict(&self, file: &nfs_fh3, access: u32, deny: u32, own: Option<u64>) -> Option<clientid4> {
        let file = self.files.get(file)?;
        // An open that denies what is accessed, or accesses what is denied.
        let in_the_way = deny | access << 2;
        let shares = file.shares.iter().enumerate().filter(|(bit, _)| in_the_way >> bit & 1 == 1);
        let mut others = shares.filter_map(|(_, opens)| opens.iter().find(|number| Some(**number) != own));
        others.find_map(|number| self.opens.get(number)).map(|open| open.key.client)
    }

    /// Fails if another owner's lock is in the way. Those of clients whose lease has expired go.
    fn settle_lock_conflicts(
        &mut self,
        client: &NfsClient,
        asked: &LockRequest<'_>,
        own: Option<u64>,
        now: Nanos,
    ) -> Result<(), LockError> {
        while let Some(conflict) = self.lock_conflict(asked, own) {
            let shown = if conflict.client == client.id { client.id } else { 0 };
            let denied = |()| LockError::Denied(Conflict { client: shown, ..conflict.clone() });
            self.evict(conflict.client, now).map_err(denied)?;
        }
        Ok(())
    }

    fn lock_conflict(&self, asked: &LockRequest<'_>, own: Option<u64>) -> Option<Conflict> {
        let held = self.files.get(asked.file)?.ranges.conflict(&asked.range, asked.is_write, own)?;
        let StateKey { client, owner, .. } = &self.locks.get(&held.state)?.key;
        Some(Conflict { range: held.range, is_write: held.is_write, client: *client, owner: Arc::clone(owner) })
    }

    /// Removes a client whose state is in the way of another's, if its lease has expired.
    fn evict(&mut self, client: clientid4, now: Nanos) -> Result<(), ()> {
        if !self.clients.is_expired(client, now) {
            return Err(());
        }
        self.revoke_client(client);
        Ok(())
    }
}

/// The bits of OPENs whose access and deny are within these.
fn within(access: u32, deny: u32) -> u16 {
    let is_within = |bit: &u32| ((bit / 4) & !access, (bit % 4) & !deny) == (0, 0);
    (0..16).filter(is_within).fold(0, |bits, bit| bits | (1 << bit))
}

/// Access and deny of these OPENs together.
fn union(opened: u16) -> (u32, u32) {
    let bits = (0..16).filter(|bit| (opened >> bit) & 1 == 1);
    bits.fold((0, 0), |(access, deny), bit| (access | (bit / 4), deny | (bit % 4)))
}

/// 0 is never given out: it means the current one.
fn next_seqid(seqid: u32) -> u32 {
    seqid.checked_add(1).unwrap_or(1)
}
