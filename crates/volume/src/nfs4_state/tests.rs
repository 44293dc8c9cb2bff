use std::sync::{Arc, Mutex};

use iocurve_meter::{Nanos, SECOND};
use iocurve_wire::nfs3::nfs_fh3;
use iocurve_wire::nfs4::operations::SEQUENCE4args;
use iocurve_wire::nfs4::operations::share::*;
use iocurve_wire::nfs4::{channel_attrs4, nfsstat4, stateid4};

use super::session::LEASE_NS;
use super::tables::IDLE_LOCK_OWNERS_MAX;
use super::*;

const HERE: Address = Address::new(0xffff_7f00_0001);

const ORIGIN: Origin = Origin { address: HERE, principal: PRINCIPAL };

const REQUEST: Request = Request { principal: PRINCIPAL, bytes: 100, operations: 2 };

pub(super) const PRINCIPAL: Principal = Principal { flavor: 1, uid: 0 };

pub(super) const CHANNEL: channel_attrs4 = channel_attrs4 {
    ca_headerpadsize: 0,
    ca_maxrequestsize: 4096,
    ca_maxresponsesize: 4096,
    ca_maxresponsesize_cached: 4096,
    ca_maxoperations: 8,
    ca_maxrequests: 2,
    ca_rdma_ird: None,
};

fn state() -> State {
    State::new("test".to_owned(), [7; 16], Vec::new(), 0)
}

/// A client that may open files.
fn client(state: &State, name: &[u8], now: Nanos) -> Arc<NfsSession> {
    let session = new_client(state, name, now);
    state.reclaim_complete(&session.client).unwrap();
    session
}

fn new_client(state: &State, name: &[u8], now: Nanos) -> Arc<NfsSession> {
    let owner = ClientOwner { id: name, verifier: [1; 8], origin: ORIGIN };
    let Exchanged { client, sequence, .. } = state.exchange_id(&owner, false, now).unwrap();
    let request = SessionRequest { client, sequence, origin: ORIGIN, fore: CHANNEL, back: CHANNEL };
    let created = state.create_session(&request, now).unwrap();
    state.session(&created.csr_sessionid).unwrap()
}

fn file(number: u8) -> nfs_fh3 {
    nfs_fh3::new(&[number; 16]).unwrap()
}

fn open(
    state: &State,
    session: &NfsSession,
    owner: &[u8],
    (access, deny): (u32, u32),
    now: Nanos,
) -> Result<stateid4, nfsstat4> {
    let request = OpenRequest { owner, file: &file(1), access, deny };
    state.open(&session.client, &request, now).map(|(stateid, _)| stateid)
}

fn slot(session: &Arc<NfsSession>, sequence: u32, now: Nanos) -> SlotUse {
    let arguments = SEQUENCE4args {
        sa_sessionid: session.id,
        sa_sequenceid: sequence,
        sa_slotid: 0,
        sa_highest_slotid: 0,
        sa_cachethis: false,
    };
    match session.start(&arguments, REQUEST, now).unwrap() {
        Started::New(slot) => slot,
        other => panic!("{other:?}"),
    }
}

#[test]
fn share_reservations_exclude_other_owners() {
    let state = state();
    let (one, other) = (client(&state, b"one", 0), client(&state, b"other", 0));
    let (read, write, both) = (OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_ACCESS_WRITE, OPEN4_SHARE_ACCESS_BOTH);
    let first = open(&state, &one, b"a", (read, OPEN4_SHARE_DENY_WRITE), 0).unwrap();
    assert_eq!(open(&state, &other, b"a", (write, 0), 0), Err(nfsstat4::NFS4ERR_SHARE_DENIED));
    assert_eq!(open(&state, &one, b"b", (both, 0), 0), Err(nfsstat4::NFS4ERR_SHARE_DENIED));
    let second = open(&state, &other, b"a", (read, OPEN4_SHARE_DENY_WRITE), 0).unwrap();
    // The same owner adds to what it has, under the same state id.
    let same = open(&state, &one, b"a", (read, 0), 0).unwrap();
    assert_eq!((same.other, same.seqid), (first.other, first.seqid + 1));
    state.close(&one.client, &same, &file(1)).unwrap();
    state.close(&other.client, &second, &file(1)).unwrap();
    assert_eq!(state.close(&other.client, &second, &file(1)), Err(nfsstat4::NFS4ERR_BAD_STATEID));
    open(&state, &other, b"a", (write, 0), 0).unwrap();
}

#[test]
fn an_open_is_downgraded_to_opens_that_there_were() {
    let state = state();
    let one = client(&state, b"one", 0);
    open(&state, &one, b"a", (OPEN4_SHARE_ACCESS_READ, 0), 0).unwrap();
    let stateid = open(&state, &one, b"a", (OPEN4_SHARE_ACCESS_BOTH, OPEN4_SHARE_DENY_WRITE), 0).unwrap();
    let downgrade = |stateid, share| state.downgrade(&one.client, &stateid, &file(1), share);
    assert_eq!(downgrade(stateid, (OPEN4_SHARE_ACCESS_WRITE, 0)), Err(nfsstat4::NFS4ERR_INVAL));
    let lower = downgrade(stateid, (OPEN4_SHARE_ACCESS_READ, 0)).unwrap();
    assert_eq!(downgrade(stateid, (OPEN4_SHARE_ACCESS_READ, 0)), Err(nfsstat4::NFS4ERR_OLD_STATEID));
    let mut slot = slot(&one, 1, 0);
    let check = |slot: &mut SlotUse, access| state.check_access(slot, &lower, &file(1), access, 0);
    assert_eq!(check(&mut slot, OPEN4_SHARE_ACCESS_WRITE), Err(nfsstat4::NFS4ERR_OPENMODE));
    assert_eq!(check(&mut slot, OPEN4_SHARE_ACCESS_READ), Ok(()));
}

#[test]
fn a_state_id_is_checked_again_when_the_clients_state_has_changed() {
    let state = state();
    let one = client(&state, b"one", 0);
    let stateid = open(&state, &one, b"a", (OPEN4_SHARE_ACCESS_BOTH, 0), 0).unwrap();
    let mut slot = slot(&one, 1, 0);
    let mut check = |stateid| state.check_access(&mut slot, &stateid, &file(1), OPEN4_SHARE_ACCESS_READ, 0);
    assert_eq!([check(stateid), check(stateid)], [Ok(()), Ok(())]);
    assert_eq!(check(stateid4 { seqid: 0, ..stateid }), Ok(()), "0 stands for the current one");
    state.close(&one.client, &stateid, &file(1)).unwrap();
    assert_eq!(check(stateid), Err(nfsstat4::NFS4ERR_BAD_STATEID));
    assert_eq!(check(stateid4::ANONYMOUS), Ok(()));
}

#[test]
fn access_without_an_open_respects_reservations() {
    let state = state();
    let (one, other) = (client(&state, b"one", 0), client(&state, b"other", 0));
    open(&state, &one, b"a", (OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_DENY_BOTH), 0).unwrap();
    let mut slot = slot(&other, 1, 0);
    let mut check = |stateid, access| state.check_access(&mut slot, &stateid, &file(1), access, 0);
    assert_eq!(check(stateid4::ANONYMOUS, OPEN4_SHARE_ACCESS_READ), Err(nfsstat4::NFS4ERR_LOCKED));
    assert_eq!(check(stateid4::READ_BYPASS, OPEN4_SHARE_ACCESS_READ), Ok(()));
    assert_eq!(check(stateid4::READ_BYPASS, OPEN4_SHARE_ACCESS_WRITE), Err(nfsstat4::NFS4ERR_LOCKED));
}

fn lock(
    state: &State,
    session: &NfsSession,
    locker: Locker<'_>,
    (first, last, is_write): (u64, u64, bool),
    now: Nanos,
) -> Result<stateid4, LockError> {
    let range = Range { first, last };
    let request = LockRequest { file: &file(1), range, is_write, is_reclaim: false, locker };
    state.lock(&session.client, &request, now)
}

#[test]
fn locks_exclude_other_owners_until_they_are_released() {
    let state = state();
    let (one, other) = (client(&state, b"one", 0), client(&state, b"other", 0));
    let opens = [&one, &other].map(|session| open(&state, session, b"a", (OPEN4_SHARE_ACCESS_BOTH, 0), 0).unwrap());
    let new = |open| Locker::New { open, owner: b"locker" };
    let held = lock(&state, &one, new(opens[0]), (0, 99, true), 0).unwrap();
    let denied = lock(&state, &other, new(opens[1]), (50, 60, false), 0).unwrap_err();
    let LockError::Denied(conflict) = denied else { panic!("{denied:?}") };
    assert_eq!((conflict.range.first, conflict.range.last, conflict.is_write), (0, 99, true));
    assert_eq!(*conflict.owner, *b"locker");
    let test = |session: &NfsSession, first, last| {
        state.test_lock(&session.client, &file(1), (Range { first, last }, false), b"locker", 0).is_ok()
    };
    assert_eq!([test(&other, 99, 120), test(&other, 100, 120), test(&one, 0, 10)], [false, true, true]);
    let held = state.unlock(&one.client, &held, &file(1), Range { first: 0, last: 60 }).unwrap();
    lock(&state, &other, new(opens[1]), (50, 60, true), 0).unwrap();
    assert_eq!(state.free_stateid(&one.client, &held), Err(nfsstat4::NFS4ERR_LOCKS_HELD));
    let held = state.unlock(&one.client, &held, &file(1), Range { first: 0, last: u64::MAX }).unwrap();
    state.free_stateid(&one.client, &held).unwrap();
    assert_eq!(state.test_stateid(&one.client, &held), nfsstat4::NFS4ERR_BAD_STATEID);
    // CLOSE releases what is left.
    state.close(&other.client, &opens[1], &file(1)).unwrap();
    lock(&state, &one, new(opens[0]), (0, 99, true), 0).unwrap();
}

#[test]
fn a_silent_client_loses_its_state_only_to_others() {
    let state = state();
    let late = 2 * LEASE_NS;
    let (one, other) = (client(&state, b"one", 0), client(&state, b"other", 0));
    let stateid = open(&state, &one, b"a", (OPEN4_SHARE_ACCESS_WRITE, OPEN4_SHARE_DENY_WRITE), 0).unwrap();
    let mut own = slot(&one, 1, LEASE_NS / 2);
    assert_eq!(state.check_access(&mut own, &stateid, &file(1), OPEN4_SHARE_ACCESS_WRITE, late), Ok(()));
    own.finish(None);
    slot(&other, 1, late).finish(None);
    let denied = open(&state, &other, b"a", (OPEN4_SHARE_ACCESS_WRITE, 0), LEASE_NS);
    assert_eq!(denied, Err(nfsstat4::NFS4ERR_SHARE_DENIED), "its lease holds");
    open(&state, &other, b"a", (OPEN4_SHARE_ACCESS_WRITE, 0), late).unwrap();
    assert!(one.has_ended() && state.session(&one.id).is_none());
    assert!(!other.has_ended());
}

#[test]
fn a_client_that_restarts_loses_its_old_state_with_its_new_session() {
    let state = state();
    let one = client(&state, b"one", 0);
    open(&state, &one, b"a", (OPEN4_SHARE_ACCESS_WRITE, OPEN4_SHARE_DENY_BOTH), 0).unwrap();
    let owner = ClientOwner { id: b"one", verifier: [2; 8], origin: ORIGIN };
    let Exchanged { client, sequence, is_confirmed } = state.exchange_id(&owner, false, 0).unwrap();
    assert!(!is_confirmed && !one.has_ended(), "another client may guess the name");
    let request = SessionRequest { client, sequence, origin: ORIGIN, fore: CHANNEL, back: CHANNEL };
    let created = state.create_session(&request, 0).unwrap();
    assert!(one.has_ended());
    assert_eq!(state.create_session(&request, 0), Ok(created), "the same call sent again");
    let other = self::client(&state, b"other", 0);
    open(&state, &other, b"a", (OPEN4_SHARE_ACCESS_READ, 0), 0).unwrap();
    assert_eq!(state.destroy_client(client), Err(nfsstat4::NFS4ERR_CLIENTID_BUSY));
    state.destroy_session(&created.csr_sessionid).unwrap();
    assert_eq!(
        [state.destroy_client(client), state.destroy_client(client)],
        [Ok(()), Err(nfsstat4::NFS4ERR_STALE_CLIENTID)]
    );
}

#[test]
fn another_address_cannot_replace_a_client_that_has_state() {
    let state = state();
    let one = client(&state, b"one", 0);
    let restarted = |address, now| {
        let owner = ClientOwner { id: b"one", verifier: [2; 8], origin: Origin { address, principal: PRINCIPAL } };
        state.exchange_id(&owner, false, now)
    };
    assert_eq!(restarted(address(2), 0), Err(nfsstat4::NFS4ERR_CLID_INUSE));
    assert!(!one.has_ended() && restarted(HERE, 0).is_ok(), "it may have restarted where it is");
    let late = LEASE_NS + 2 * SECOND;
    let moved = restarted(address(2), late).unwrap();
    created(&state, moved, 1, late).unwrap();
    assert!(one.has_ended(), "its lease had expired");
}

#[test]
fn the_reply_that_made_a_session_is_for_its_caller_alone() {
    let state = state();
    let owner = ClientOwner { id: b"one", verifier: [1; 8], origin: ORIGIN };
    let Exchanged { client, sequence, .. } = state.exchange_id(&owner, false, 0).unwrap();
    let request = SessionRequest { client, sequence, origin: ORIGIN, fore: CHANNEL, back: CHANNEL };
    let created = state.create_session(&request, 0).unwrap();
    let user = Principal { uid: 1000, ..PRINCIPAL };
    for origin in [Origin { address: address(2), ..ORIGIN }, Origin { principal: user, ..ORIGIN }] {
        let other = SessionRequest { origin, ..request };
        assert_eq!(state.create_session(&other, 0), Err(nfsstat4::NFS4ERR_SEQ_MISORDERED));
    }
    assert_eq!(state.create_session(&request, 0), Ok(created));
}

#[test]
fn a_slot_carries_out_one_call_at_a_time() {
    let state = state();
    let one = client(&state, b"one", 0);
    let start = |sequence| {
        let arguments = SEQUENCE4args {
            sa_sessionid: one.id,
            sa_sequenceid: sequence,
            sa_slotid: 0,
            sa_highest_slotid: 0,
            sa_cachethis: true,
        };
        one.start(&arguments, REQUEST, 0)
    };
    let Ok(Started::New(first)) = start(1) else { panic!() };
    assert_eq!(start(1).unwrap_err(), nfsstat4::NFS4ERR_DELAY);
    assert_eq!(start(2).unwrap_err(), nfsstat4::NFS4ERR_SEQ_MISORDERED);
    first.finish(Some(b"reply".to_vec()));
    assert!(matches!(start(1), Ok(Started::Replay(reply)) if reply == b"reply"));
    // Dropped before its end, a call has not happened.
    drop(start(2));
    assert!(matches!(start(2), Ok(Started::New(_))));
}

/// A record that outlives servers.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept(Arc<Mutex<Vec<u64>>>);

impl ClientRecord for Kept {
    fn read(&self) -> Vec<u64> {
        self.0.lock().unwrap().clone()
    }

    fn write(&self, clients: &[u64]) {
        *self.0.lock().unwrap() = clients.to_vec();
    }
}

fn restarted(record: &Kept, now: Nanos) -> State {
    State::new("test".to_owned(), [7; 16], vec![Box::new(record.clone())], now)
}

#[test]
fn after_a_restart_clients_reclaim_before_others_get_state() {
    let record = Kept::default();
    let share = (OPEN4_SHARE_ACCESS_BOTH, 0);
    let before = restarted(&record, 0);
    let one = client(&before, b"one", 0);
    assert_eq!(before.check_open(&one.client, false, 0), Ok(()), "nobody to wait for");
    open(&before, &one, b"a", share, 0).unwrap();

    let state = restarted(&record, 0);
    let (one, other) = (new_client(&state, b"one", 0), client(&state, b"other", 0));
    assert_eq!(state.check_open(&other.client, false, 0), Err(nfsstat4::NFS4ERR_GRACE));
    let stranger = new_client(&state, b"stranger", 0);
    assert_eq!(state.check_open(&stranger.client, true, 0), Err(nfsstat4::NFS4ERR_RECLAIM_BAD));
    assert_eq!(state.check_open(&one.client, false, 0), Err(nfsstat4::NFS4ERR_GRACE));
    assert_eq!(state.check_open(&one.client, true, 0), Ok(()));
    open(&state, &one, b"a", share, 0).unwrap();
    state.reclaim_complete(&one.client).unwrap();
    assert_eq!(state.reclaim_complete(&one.client), Err(nfsstat4::NFS4ERR_COMPLETE_ALREADY));
    assert_eq!(state.check_open(&one.client, true, 0), Err(nfsstat4::NFS4ERR_NO_GRACE));
    assert_eq!(state.check_open(&other.client, false, 0), Ok(()), "all have come back");
}

#[test]
fn a_newcomer_is_on_record_though_there_are_as_many_addresses_as_records() {
    let (record, most) = (Kept::default(), recovery::RECORDED_MAX as u32);
    let state = restarted(&record, 0);
    let open_once = |number: u32| {
        let session = created(&state, exchanged(&state, number, address(number), 0).unwrap(), 1, 0).unwrap();
        state.reclaim_complete(&session.client).unwrap();
        open(&state, &session, b"a", (OPEN4_SHARE_ACCESS_READ, 0), 0).unwrap();
        record.read()
    };
    let full = (0..most).map(open_once).last().unwrap();
    let after = open_once(most);
    assert_eq!((full.len(), after.len()), (most as usize, most as usize));
    assert_eq!(after.iter().filter(|client| !full.contains(client)).count(), 1);
}

#[test]
fn the_record_is_keyed() {
    let digests = [[1; 16], [1; 16], [2; 16]].map(|key| {
        let record = Kept::default();
        let state = State::new("test".to_owned(), key, vec![Box::new(record.clone())], 0);
        open(&state, &client(&state, b"one", 0), b"a", (OPEN4_SHARE_ACCESS_READ, 0), 0).unwrap();
        record.read()
    });
    assert_eq!((digests[0].len(), &digests[0]), (1, &digests[1]));
    assert_ne!(digests[0], digests[2]);
}

#[test]
fn a_client_that_does_not_come_back_is_waited_for_as_long_as_a_lease() {
    let record = Kept::default();
    let before = restarted(&record, 0);
    let gone = client(&before, b"gone", 0);
    open(&before, &gone, b"a", (OPEN4_SHARE_ACCESS_READ, 0), 0).unwrap();

    let state = restarted(&record, 0);
    let other = client(&state, b"other", 0);
    assert_eq!(state.check_open(&other.client, false, LEASE_NS - 1), Err(nfsstat4::NFS4ERR_GRACE));
    assert_eq!(state.check_open(&other.client, false, LEASE_NS), Ok(()));
    assert!(record.read().is_empty(), "off the record");
    let late = new_client(&state, b"gone", LEASE_NS);
    assert_eq!(state.check_open(&late.client, true, LEASE_NS), Err(nfsstat4::NFS4ERR_NO_GRACE));
}

#[test]
fn one_address_cannot_fill_the_record() {
    let (record, most) = (Kept::default(), recovery::RECORDED_MAX as u32);
    let before = restarted(&record, 0);
    let arrive = |state: &State, name: u32, at: u32| {
        created(state, exchanged(state, name, address(at), 0).unwrap(), 1, 0).unwrap()
    };
    let open_once = |name: u32, at: u32| {
        let session = arrive(&before, name, at);
        before.reclaim_complete(&session.client).unwrap();
        open(&before, &session, b"a", (OPEN4_SHARE_ACCESS_READ, 0), 0).unwrap();
    };
    (0..most + 9).for_each(|name| open_once(name, 1));
    let first = record.read();
    open_once(1000, 2);
    let second = record.read();
    assert_eq!((first.len(), second.len()), (most as usize, most as usize));
    assert_eq!(second.iter().filter(|client| first.contains(client)).count(), most as usize - 1);
    // After a restart the newcomer reclaims, and so do the clients of the first address but the newest.
    let state = restarted(&record, 0);
    let may_reclaim = |name, at| state.check_open(&arrive(&state, name, at).client, true, 0).is_ok();
    assert_eq!([may_reclaim(1000, 2), may_reclaim(0, 1), may_reclaim(most - 2, 1)], [true; 3]);
    assert_eq!([may_reclaim(most - 1, 1), may_reclaim(most + 1, 1)], [false; 2]);
}

#[test]
fn a_client_whose_state_others_could_have_does_not_reclaim_it() {
    let record = Kept::default();
    let before = restarted(&record, 0);
    let share = (OPEN4_SHARE_ACCESS_BOTH, OPEN4_SHARE_DENY_BOTH);
    let (silent, other) = (client(&before, b"silent", 0), client(&before, b"other", 0));
    open(&before, &silent, b"a", share, 0).unwrap();
    open(&before, &other, b"a", share, LEASE_NS + 2 * SECOND).unwrap();
    let state = restarted(&record, 0);
    let (silent, other) = (new_client(&state, b"silent", 0), new_client(&state, b"other", 0));
    assert_eq!(state.check_open(&silent.client, true, 0), Err(nfsstat4::NFS4ERR_RECLAIM_BAD));
    assert_eq!(state.check_open(&other.client, true, 0), Ok(()));
}

/// An address, by its last number.
fn address(number: u32) -> Address {
    Address::new(0xffff_0a00_0000 + u128::from(number))
}

fn exchanged(state: &State, name: u32, address: Address, now: Nanos) -> Result<Exchanged, nfsstat4> {
    let owner =
        ClientOwner { id: &name.to_be_bytes(), verifier: [1; 8], origin: Origin { address, principal: PRINCIPAL } };
    state.exchange_id(&owner, false, now)
}

fn created(state: &State, exchanged: Exchanged, slots: u32, now: Nanos) -> Result<Arc<NfsSession>, nfsstat4> {
    let Exchanged { client, sequence, .. } = exchanged;
    let fore = channel_attrs4 { ca_maxrequests: slots, ..CHANNEL };
    let request = SessionRequest { client, sequence, origin: ORIGIN, fore, back: CHANNEL };
    let created = state.create_session(&request, now)?;
    Ok(state.session(&created.csr_sessionid).unwrap())
}

#[test]
fn clients_of_one_address_cannot_keep_another_address_out() {
    for is_confirmed in [true, false] {
        let state = state();
        let flood = |first: u32| {
            (first..first + 5000).filter_map(|name| exchanged(&state, name, address(1), 0).ok()).for_each(
                |exchanged| {
                    if is_confirmed {
                        created(&state, exchanged, 1, 0).unwrap();
                    }
                },
            );
        };
        flood(0);
        let newcomer = exchanged(&state, 100_000, address(2), 0).unwrap();
        flood(10_000);
        let session = created(&state, newcomer, 64, 0).unwrap();
        flood(20_000);
        assert!(!session.has_ended());
        assert_eq!(session.fore.ca_maxrequests, 64);
        let last = exchanged(&state, 30_000, address(1), 0);
        assert_eq!(
            last.is_ok(),
            !is_confirmed,
            "an address makes room for itself only at the cost of unconfirmed clients"
        );
    }
}

#[test]
fn clients_that_vanished_make_room_for_slots() {
    let state = state();
    for name in 0..2048 {
        created(&state, exchanged(&state, name, address(1), 0).unwrap(), 64, 0).unwrap();
    }
    let late = 2 * LEASE_NS;
    let session = created(&state, exchanged(&state, 5000, address(1), late).unwrap(), 64, late).unwrap();
    assert_eq!(session.fore.ca_maxrequests, 64);
}

/// A client of a user at an address.
fn arrived(state: &State, name: u32, origin: Origin, slots: u32, now: Nanos) -> Result<Arc<NfsSession>, nfsstat4> {
    let owner = ClientOwner { id: &name.to_be_bytes(), verifier: [1; 8], origin };
    let Exchanged { client, sequence, .. } = state.exchange_id(&owner, false, now)?;
    let fore = channel_attrs4 { ca_maxrequests: slots, ..CHANNEL };
    let created = state.create_session(&SessionRequest { client, sequence, origin, fore, back: CHANNEL }, now)?;
    Ok(state.session(&created.csr_sessionid).unwrap())
}

fn user(uid: u32, address: Address) -> Origin {
    Origin { address, principal: Principal { uid, ..PRINCIPAL } }
}

#[test]
fn users_of_one_address_have_shares_and_so_have_their_clients() {
    let state = state();
    for name in 0..600 {
        arrived(&state, name, user(1000, HERE), 256, 0).unwrap();
    }
    let other_user = arrived(&state, 1000, user(1001, HERE), 256, 0).unwrap();
    let same_user = arrived(&state, 1001, user(1000, HERE), 64, 0).unwrap();
    for name in 2000..2600 {
        let _ = arrived(&state, name, user(1000, HERE), 256, 0);
    }
    assert_eq!(
        [&other_user, &same_user].map(|one| (one.has_ended(), one.fore.ca_maxrequests)),
        [(false, 256), (false, 64)]
    );
}

#[test]
fn a_newcomer_is_served_though_there_are_as_many_addresses_or_users_as_clients() {
    let is_full = |origin: &dyn Fn(u32) -> Origin| {
        let state = state();
        for name in 0..4096 {
            arrived(&state, name, origin(name), 1, SECOND + u64::from(name)).unwrap();
        }
        let newcomer = arrived(&state, 5000, origin(5000), 64, 3 * SECOND).unwrap();
        let again = arrived(&state, 5001, origin(5000), 64, 3 * SECOND);
        (newcomer.has_ended(), newcomer.fore.ca_maxrequests, again.err())
    };
    let expected = (false, 64, Some(nfsstat4::NFS4ERR_DELAY));
    assert_eq!(is_full(&|name| user(0, address(name))), expected);
    assert_eq!(is_full(&|name| user(name, HERE)), expected);
}

#[test]
fn the_networks_of_an_ipv6_site_share() {
    let state = state();
    let network = |site: u128, network: u128| Address::new(0x2001_0db8 << 96 | site << 80 | network << 64 | 1);
    for name in 0..600 {
        arrived(&state, name, user(0, network(1, name.into())), 256, 0).unwrap();
    }
    let other = arrived(&state, 5000, user(0, network(2, 1)), 256, 0).unwrap();
    for name in 6000..6600 {
        let _ = arrived(&state, name, user(0, network(1, name.into())), 256, 0);
    }
    assert_eq!((other.has_ended(), other.fore.ca_maxrequests), (false, 256));
}

#[test]
fn slots_that_other_addresses_hold_for_a_full_share_are_not_taken_away() {
    let state = state();
    let session = |name| created(&state, exchanged(&state, name, address(name % 64), 0).unwrap(), 64, 0).unwrap();
    let sessions: Vec<_> = (0..2048).map(session).collect();
    let newcomer = exchanged(&state, 5000, address(100), 0).unwrap();
    assert_eq!(created(&state, newcomer, 256, 0).unwrap().fore.ca_maxrequests, 256, "the share of one in 65 is larger");
    // The addresses that made room for it are below their share now.
    let keeps_all = |number: &u32| sessions.iter().skip(*number as usize).step_by(64).all(|one| !one.has_ended());
    let full = (0..64).find(keeps_all).unwrap();
    let of_a_full_share = exchanged(&state, 6000, address(full), 0).unwrap();
    let ended = |of: &dyn Fn(u32) -> bool| {
        (0..).zip(&sessions).filter(|(number, one)| of(number % 64) && one.has_ended()).count()
    };
    let before = ended(&|at| at != full);
    // One in 33 clients of its user has 62 slots.
    assert_eq!(created(&state, of_a_full_share, 64, 0).unwrap().fore.ca_maxrequests, 62);
    assert_eq!((ended(&|at| at == full), ended(&|at| at != full)), (1, before));
}

#[test]
fn lock_owners_without_locks_do_not_add_up() {
    let state = state();
    let (one, other) = (client(&state, b"one", 0), client(&state, b"other", 0));
    let opened = open(&state, &one, b"a", (OPEN4_SHARE_ACCESS_BOTH, 0), 0).unwrap();
    let mut last = None;
    for owner in 0..20_000_u32 {
        let owner = owner.to_be_bytes();
        let held = lock(&state, &one, Locker::New { open: opened, owner: &owner }, (0, 9, true), 0).unwrap();
        last = Some(state.unlock(&one.client, &held, &file(1), Range { first: 0, last: 9 }).unwrap());
    }
    assert_eq!(state.tables().locks.len(), IDLE_LOCK_OWNERS_MAX);
    open(&state, &other, b"a", (OPEN4_SHARE_ACCESS_BOTH, 0), 0).unwrap();
    // A client goes on with the lock owner that it used last.
    lock(&state, &one, Locker::Known(last.unwrap()), (0, 9, true), 0).unwrap();
}

#[test]
fn a_client_that_opens_without_end_harms_itself() {
    let state = state();
    let (one, other) = (client(&state, b"one", 0), client(&state, b"other", 0));
    let mut status = Ok(());
    for owner in 0..70_000_u32 {
        let owner = owner.to_be_bytes();
        status = open(&state, &one, &owner, (OPEN4_SHARE_ACCESS_READ, 0), 0).map(drop);
    }
    assert_eq!(status, Err(nfsstat4::NFS4ERR_DELAY));
    open(&state, &other, b"a", (OPEN4_SHARE_ACCESS_READ, 0), 0).unwrap();
}

#[test]
fn ids_of_others_cannot_be_guessed() {
    let state = state();
    let sessions = [b"one", b"two"].map(|name| client(&state, name, 0));
    let [one, two] = sessions.each_ref().map(|session| u128::from_be_bytes(session.id));
    let [first, second] = sessions.each_ref().map(|session| session.client.id);
    // Of random bits about half differ: fewer than 32 of 128 do once in 10^8 runs, fewer than 8 of 64 once in 10^10.
    assert!((one ^ two).count_ones() >= 32 && (first ^ second).count_ones() >= 8);
    for step in 1..100 {
        let guess = (one + step).to_be_bytes();
        assert_eq!(state.destroy_session(&guess), Err(nfsstat4::NFS4ERR_BADSESSION));
    }
    let other = self::state();
    assert_ne!(client(&other, b"one", 0).id, sessions[0].id, "another start has other ids");
    let stateid = open(&state, &sessions[0], b"a", (OPEN4_SHARE_ACCESS_READ, 0), 0).unwrap();
    let next = open(&state, &sessions[0], b"b", (OPEN4_SHARE_ACCESS_READ, 0), 0).unwrap();
    let differing = |one: [u8; 12], other: [u8; 12]| {
        one.iter().zip(other).map(|(one, other)| (one ^ other).count_ones()).sum::<u32>()
    };
    assert!(differing(stateid.other, next.other) >= 6);
    for byte in 0..12 {
        let mut guess = stateid;
        guess.other[byte] ^= 1;
        assert_eq!(state.test_stateid(&sessions[0].client, &guess), nfsstat4::NFS4ERR_BAD_STATEID);
    }
}

#[test]
fn another_call_does_not_get_the_reply_that_a_slot_keeps() {
    let state = state();
    let one = client(&state, b"one", 0);
    let arguments = SEQUENCE4args {
        sa_sessionid: one.id,
        sa_sequenceid: 1,
        sa_slotid: 0,
        sa_highest_slotid: 0,
        sa_cachethis: true,
    };
    let Ok(Started::New(call)) = one.start(&arguments, REQUEST, 0) else { panic!() };
    call.finish(Some(b"reply".to_vec()));
    for request in [
        Request { principal: Principal { flavor: 1, uid: 1000 }, ..REQUEST },
        Request { bytes: 104, ..REQUEST },
        Request { operations: 3, ..REQUEST },
    ] {
        assert_eq!(one.start(&arguments, request, 0).unwrap_err(), nfsstat4::NFS4ERR_SEQ_FALSE_RETRY);
    }
    assert!(matches!(one.start(&arguments, REQUEST, 0), Ok(Started::Replay(reply)) if reply == b"reply"));
}

#[test]
fn kept_replies_are_bounded_for_all_and_by_address() {
    let state = state();
    let ask = |name: u32, at: u32, slots: u32| {
        let Exchanged { client, sequence, .. } = exchanged(&state, name, address(at), 0).unwrap();
        let fore = channel_attrs4 { ca_maxrequests: slots, ca_maxresponsesize_cached: 8192, ..CHANNEL };
        let request = SessionRequest { client, sequence, origin: ORIGIN, fore, back: CHANNEL };
        let created = state.create_session(&request, 0).unwrap();
        (created.csr_fore_chan_attrs.ca_maxresponsesize_cached, created.csr_sessionid)
    };
    // 64 MiB are 36 sessions of 256 slots with 7 KiB more than the one of each slot.
    let granted: Vec<_> = (0..100).map(|name| ask(name, 1, 256)).collect();
    assert_eq!(granted.iter().filter(|granted| granted.0 == 8192).count(), 36);
    assert!(granted[36..].iter().all(|granted| granted.0 == 1024));
    assert_eq!(ask(1000, 2, 256).0, 1024, "none are taken away, and 1 KiB is enough for a newcomer");
    for (_, session) in &granted[..30] {
        state.destroy_session(session).unwrap();
    }
    // Half of it is the newcomer's: 18 sessions.
    assert_eq!((2000..2050).filter(|name| ask(*name, 2, 256).0 == 8192).count(), 18);
}
