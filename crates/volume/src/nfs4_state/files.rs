//! OPEN with share reservations, and byte-range locks (RFC 8881 §9, §18.2, §18.10 to §18.12, §18.16, §18.18, §18.38, §18.48).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use iocurve_meter::Nanos;
use iocurve_wire::nfs3::nfs_fh3;
use iocurve_wire::nfs4::operations::share::{OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_ACCESS_WRITE};
use iocurve_wire::nfs4::{clientid4, nfsstat4, stateid4};

use super::ranges::{Locked, Range, Ranges};
use super::session::{NfsClient, SlotUse};
use super::{FILE_RANGES_MAX, IDLE_LOCK_OWNERS_MAX, Kind, State, Tables};

/// A file that an open owner has open.
#[derive(Debug)]
pub(super) struct Open {
    key: StateKey,
    seqid: u32,
    /// Union of the access bits, and of the deny bits.
    access: u32,
    deny: u32,
    /// Bit `4 * access + deny` for each OPEN: `OPEN_DOWNGRADE` goes back to a union of some of these.
    opened: u16,
    /// Numbers of the lock owners' states that were made with it.
    locks: BTreeSet<u64>,
}

/// A file in which a lock owner has locks, or had some.
#[derive(Debug)]
pub(super) struct LockState {
    key: StateKey,
    seqid: u32,
    /// Number of the open that it was made with.
    open: u64,
    /// Number of its locked ranges.
    ranges: usize,
    /// Its place among the lock owners without locks; 0 if it has some.
    idle: u64,
}

/// The key of an open or of a lock owner's state. Open owners and lock owners have separate names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct StateKey {
    client: clientid4,
    file: nfs_fh3,
    is_lock: bool,
    owner: Arc<[u8]>,
}

/// An open file: its opens and its locks.
#[derive(Debug, Default)]
pub(super) struct FileState {
    /// Number of opens and lock owners' states.
    states: usize,
    /// The opens that read, write, deny reading and deny writing.
    shares: [BTreeSet<u64>; 4],
    ranges: Ranges,
}

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
            tables.make_room_of(client, Kind::States, now)?;
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
        tables.settle_lock_conflicts(asked, known, now)?;
        if tables.files.get(asked.file).is_some_and(|file| file.ranges.len() >= FILE_RANGES_MAX) {
            return Err(nfsstat4::NFS4ERR_DELAY.into());
        }
        tables.make_room_of(client, Kind::Ranges, now)?;
        let number = match (known, &asked.locker) {
            (Some(number), _) => number,
            (None, Locker::New { owner, .. }) => {
                tables.make_room_of(client, Kind::States, now)?;
                tables.add_lock_state(StateKey::new(client.id, asked.file, true, owner), open)
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
        tables.settle_lock_conflicts(&asked, own, now)
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
        let mut other = [0; 12];
        other[..8].copy_from_slice(&number.to_be_bytes());
        other[8..].copy_from_slice(&self.boot.to_be_bytes());
        stateid4 { seqid, other }
    }

    /// The state of a client that a state id names, if its seqid is the current one or 0, which stands for that.
    fn find_any(&self, tables: &Tables, client: &NfsClient, stateid: &stateid4) -> Result<Named, nfsstat4> {
        let (number, boot) = stateid.other.split_at(8);
        let number = u64::from_be_bytes(number.try_into().expect("eight bytes"));
        if boot != self.boot.to_be_bytes() {
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
            grace.record(&known.owner, ledger.address_of(client.id));
        }
    }

    /// Makes room for one more of a kind of state of a client: for another open or lock owner, its own lock owners without locks go
    /// first.
    fn make_room_of(&mut self, client: &NfsClient, kind: Kind, now: Nanos) -> Result<(), nfsstat4> {
        let is_full = |tables: &Self| !tables.ledger.has_room(kind, 1) || !tables.ledger.may_take(client.id, kind, 1);
        while kind == Kind::States && is_full(self) {
            let Some(idle) = self.clients.get(client.id).and_then(|known| known.idle_locks.values().next()) else {
                break;
            };
            self.remove_lock_state(*idle);
        }
        if !self.ledger.may_take(client.id, kind, 1) {
            return Err(nfsstat4::NFS4ERR_DELAY);
        }
        let address = self.ledger.address_of(client.id).ok_or(nfsstat4::NFS4ERR_EXPIRED)?;
        // The client lives, so it does not make room for itself.
        client.renew(now);
        self.make_room(kind, 1, address, now)
    }

    fn add_open(&mut self, key: StateKey) -> u64 {
        let number = self.number();
        self.add_state(number, &key);
        if let Some(known) = self.clients.get_mut(key.client) {
            known.opens.insert(number);
        }
        let open = Open { key, seqid: 0, access: 0, deny: 0, opened: 0, locks: BTreeSet::new() };
        self.opens.insert(number, open);
        number
    }

    fn add_lock_state(&mut self, key: StateKey, open: u64) -> u64 {
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
        self.ledger.take(key.client, Kind::States, 1);
    }

    fn remove_state(&mut self, key: &StateKey) {
        self.by_key.remove(key);
        self.ledger.give_back(key.client, Kind::States, 1);
        let Some(file) = self.files.get_mut(&key.file) else { return };
        file.states -= 1;
        if file.states == 0 {
            self.files.remove(&key.file);
        }
    }

    /// Sets access and deny of an open.
    fn set_share(&mut self, number: u64, (access, deny): (u32, u32)) {
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
        asked: &LockRequest<'_>,
        own: Option<u64>,
        now: Nanos,
    ) -> Result<(), LockError> {
        while let Some(conflict) = self.lock_conflict(asked, own) {
            self.evict(conflict.client, now).map_err(|()| LockError::Denied(conflict))?;
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

    fn remove_open(&mut self, number: u64) {
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

    fn remove_lock_state(&mut self, number: u64) {
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
    fn change_ranges(&mut self, number: u64, change: impl FnOnce(&mut Ranges)) {
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
    pub(super) fn remove_state_of(&mut self, client: clientid4) {
        let opens = self.clients.get_mut(client).map(|known| std::mem::take(&mut known.opens)).unwrap_or_default();
        for number in opens {
            self.remove_open(number);
        }
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl FileState {
    pub(super) fn states(&self) -> usize {
        self.states
    }

    pub(super) fn ranges(&self) -> usize {
        self.ranges.len()
    }
}

impl StateKey {
    fn new(client: clientid4, file: &nfs_fh3, is_lock: bool, owner: &[u8]) -> Self {
        Self { client, file: *file, is_lock, owner: owner.into() }
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
