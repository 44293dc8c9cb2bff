//! Sessions and their slots: each call in a session is executed once (RFC 8881 §2.10.6).

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iocurve_meter::{Nanos, SECOND};
use iocurve_wire::nfs3::nfs_fh3;
use iocurve_wire::nfs4::operations::SEQUENCE4args;
use iocurve_wire::nfs4::{channel_attrs4, clientid4, nfsstat4, sessionid4, stateid4};

/// Time for which a client's state is kept for certain without a sign of life (RFC 8881 §8.3).
pub(crate) const LEASE_SECONDS: u32 = 60;

pub(super) const LEASE_NS: Nanos = LEASE_SECONDS as Nanos * SECOND;

/// The principal of a call: the flavor of the credential and the user in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Principal {
    pub(crate) flavor: u32,
    pub(crate) uid: u32,
}

/// The part of a client that its sessions share; what else there is of it is in the tables.
#[derive(Debug)]
pub(crate) struct NfsClient {
    pub(crate) id: clientid4,
    /// Time of the last sign of life.
    renewed: AtomicU64,
    /// Counts changes of the client's opens and locks.
    generation: AtomicU64,
    /// The client has made a session.
    is_confirmed: AtomicBool,
    /// The client has reclaimed what it had before a restart of the server.
    pub(super) reclaim_complete: AtomicBool,
}

/// A time is written by one of several threads only this often: it is on a cache line that all of them read.
const RENEWAL_NS: Nanos = SECOND;

impl NfsClient {
    pub(super) fn new(id: clientid4, now: Nanos) -> Self {
        Self {
            id,
            renewed: now.into(),
            generation: 0.into(),
            is_confirmed: false.into(),
            reclaim_complete: false.into(),
        }
    }

    /// Notes a sign of life.
    #[inline]
    pub(super) fn renew(&self, now: Nanos) {
        if now.saturating_sub(self.renewed.load(Relaxed)) >= RENEWAL_NS {
            self.renewed.store(now, Relaxed);
        }
    }

    /// True if the lease has expired. Its state stays until it is in another client's way, or no courtesy is left.
    pub(super) fn is_expired(&self, now: Nanos) -> bool {
        now.saturating_sub(self.renewed.load(Relaxed)) > LEASE_NS + RENEWAL_NS
    }

    pub(super) fn renewed(&self) -> Nanos {
        self.renewed.load(Relaxed)
    }

    /// Notes that the client has made a session.
    pub(super) fn confirm(&self) {
        self.is_confirmed.store(true, Relaxed);
    }

    pub(super) fn is_confirmed(&self) -> bool {
        self.is_confirmed.load(Relaxed)
    }

    pub(super) fn changed(&self) {
        self.generation.fetch_add(1, Release);
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Acquire)
    }
}

/// A session of a client.
#[derive(Debug)]
pub(crate) struct NfsSession {
    pub(crate) id: sessionid4,
    pub(crate) client: Arc<NfsClient>,
    /// Limits of calls and replies.
    pub(crate) fore: channel_attrs4,
    slots: Box<[Mutex<Slot>]>,
    has_ended: AtomicBool,
}

/// The facts that tell whether two calls in a slot are the same one, sent twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) principal: Principal,
    /// Bytes of the call, and its operations.
    pub(crate) bytes: u32,
    pub(crate) operations: u32,
}

#[derive(Debug, Default)]
struct Slot {
    /// Sequence id of the last call, or of the one that is being executed.
    sequence: u32,
    request: Request,
    is_busy: bool,
    /// Result of the last call; empty if it is not kept.
    reply: Vec<u8>,
    shown: Option<Shown>,
}

/// A state id that was checked: until the client's state changes, it need not be checked again.
#[derive(Debug, Clone, Copy)]
struct Shown {
    stateid: stateid4,
    file: nfs_fh3,
    access: u32,
    generation: u64,
}

/// Result of SEQUENCE.
#[derive(Debug)]
pub(crate) enum Started {
    /// The call is to be executed.
    New(SlotUse),
    /// It was executed before, with this result.
    Replay(Vec<u8>),
    /// It was executed before, and the result was not kept.
    Uncached,
}

impl NfsSession {
    pub(super) fn new(id: sessionid4, client: Arc<NfsClient>, fore: channel_attrs4) -> Self {
        let slots = (0..fore.ca_maxrequests).map(|_| Mutex::default()).collect();
        Self { id, client, fore, slots, has_ended: AtomicBool::new(false) }
    }

    pub(super) fn end(&self) {
        self.has_ended.store(true, Release);
    }

    /// True once the session was destroyed, or its client.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Acquire)
    }

    /// Highest slot that may be used.
    pub(crate) fn highest_slot(&self) -> u32 {
        self.slots.len() as u32 - 1
    }

    /// Begins a call in a slot, and renews the lease.
    pub(crate) fn start(
        self: &Arc<Self>,
        arguments: &SEQUENCE4args,
        request: Request,
        now: Nanos,
    ) -> Result<Started, nfsstat4> {
        let SEQUENCE4args { sa_sequenceid: sequence, sa_slotid, .. } = *arguments;
        let mut slot = self.slot(sa_slotid).ok_or(nfsstat4::NFS4ERR_BADSLOT)?;
        let is_next = sequence == slot.sequence.wrapping_add(1);
        match () {
            () if slot.is_busy && sequence == slot.sequence => return Err(nfsstat4::NFS4ERR_DELAY),
            () if is_next && !slot.is_busy => {}
            () if sequence != slot.sequence || sequence == 0 => return Err(nfsstat4::NFS4ERR_SEQ_MISORDERED),
            // Another call, perhaps of another user, must not get this one's reply (§2.10.6.1.3.1).
            () if request != slot.request => return Err(nfsstat4::NFS4ERR_SEQ_FALSE_RETRY),
            () if slot.reply.is_empty() => return Ok(Started::Uncached),
            () => return Ok(Started::Replay(slot.reply.clone())),
        }
        slot.sequence = sequence;
        slot.request = request;
        slot.is_busy = true;
        slot.reply.clear();
        let shown = slot.shown;
        drop(slot);
        self.client.renew(now);
        Ok(Started::New(SlotUse { session: Arc::clone(self), slot: sa_slotid, shown, is_finished: false }))
    }

    fn slot(&self, number: u32) -> Option<MutexGuard<'_, Slot>> {
        self.slots.get(number as usize).map(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A call that is being executed in a slot. If it is dropped before it has finished, because its connection has ended while it
/// waited, the slot forgets it: the client may send it again.
#[derive(Debug)]
pub(crate) struct SlotUse {
    pub(crate) session: Arc<NfsSession>,
    slot: u32,
    shown: Option<Shown>,
    is_finished: bool,
}

impl SlotUse {
    /// Ends the call and keeps its result, if there is one to keep.
    pub(crate) fn finish(mut self, reply: Option<Vec<u8>>) {
        self.is_finished = true;
        if let Some(mut slot) = self.session.slot(self.slot) {
            slot.is_busy = false;
            slot.shown = self.shown;
            slot.reply = reply.unwrap_or_default();
            slot.reply.shrink_to_fit();
        }
    }

    /// True if this state id was checked for this file and access, and nothing has changed since.
    #[inline]
    pub(super) fn was_shown(&self, stateid: &stateid4, file: &nfs_fh3, access: u32) -> bool {
        self.shown.is_some_and(|shown| {
            shown.stateid == *stateid
                && shown.access == access
                && shown.file == *file
                && shown.generation == self.session.client.generation()
        })
    }

    /// Notes that a state id was checked, or was just made, in this generation of the client's state.
    pub(crate) fn show(&mut self, stateid: &stateid4, file: &nfs_fh3, access: u32, generation: u64) {
        self.shown = Some(Shown { stateid: *stateid, file: *file, access, generation });
    }
}

impl Drop for SlotUse {
    fn drop(&mut self) {
        if !self.is_finished
            && let Some(mut slot) = self.session.slot(self.slot)
        {
            slot.is_busy = false;
            slot.sequence = slot.sequence.wrapping_sub(1);
        }
    }
}
