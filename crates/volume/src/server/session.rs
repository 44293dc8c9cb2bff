//! One connection: bytes in, bytes out. It knows no sockets and reads no clock.
//!
//! A turn takes what the transport has, answers every complete call in it, and sends all replies at once. Bytes that the transport
//! does not take are copied, and no more calls are read until they have gone; so a slow peer holds a bounded amount of memory and
//! nothing of the store.

use std::net::SocketAddr;
use std::sync::Arc;

use crossbeam_epoch as epoch;

use iocurve_meter::Nanos;

use super::close::Close;
use super::incoming::{Arrival, Incoming, Stop};
use super::outgoing::Outgoing;
use super::transport::Transport;
use super::worker::{Spare, Worker};
use crate::memory::{Account, ConnectionMemory, TIGHT_BYTES};
use crate::nfs4_state::{Address, NfsSession};
use crate::pending::{ConnectionId, Delayed, Pending};
use crate::programs::dispatch::SMALL_CALL_BYTES_MAX;
use crate::programs::turn::{Peer, Turn};
use crate::served::Exports;
use crate::served::credential::Credential;

/// Longest time for a record to arrive.
const RECORD_NS_MAX: Nanos = 30_000_000_000;

/// As `RECORD_NS_MAX`, for large records while memory is tight.
const TIGHT_RECORD_NS_MAX: Nanos = 2_000_000_000;

/// Longest time without a byte of a large record or of unsent replies while memory is tight.
const TIGHT_STALL_NS_MAX: Nanos = 500_000_000;

/// Longest time for which a peer that has sent its last call is answered: it may have gone, and others wait behind its operations.
const ENDED_NS_MAX: Nanos = 10_000_000_000;

/// A turn ends once it has sent this many bytes; then other connections have theirs.
const TURN_BYTES: usize = 4 << 20;

/// The event that a connection waits for after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Bytes from the peer.
    Receive,
    /// Room to send.
    Send,
    /// None: it has more to do as soon as others have had their turn.
    Turn,
    /// One of its delayed operations is due.
    Due,
    /// None: memory is tight, and what comes next is large.
    Memory,
    /// As `Turn`, after calls that took long: further ones are better made where others do not wait for them.
    Elsewhere,
}

/// Progress of the record whose bytes arrive, or of replies that leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Transfer {
    arrival: Arrival,
    /// Time at which it was noticed.
    since: Nanos,
    /// Last time at which bytes moved.
    moved: Nanos,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Session {
    peer: Peer,
    credential: Credential,
    pending: Pending,
    /// The NFSv4.1 session that was used last.
    nfs4: Option<Arc<NfsSession>>,
    incoming: Incoming,
    outgoing: Outgoing,
    /// Memory that it holds between turns.
    account: Account,
    /// The transfer that the peer has begun and not finished.
    transfer: Option<Transfer>,
    /// Time at which it was noticed that the peer has sent its last call.
    ended: Option<Nanos>,
    /// It goes to a thread for calls that wait once nothing of it waits in this one; nothing is received until then.
    is_held_back: bool,
}

impl Session {
    /// A connection with nothing received yet.
    pub(crate) fn new(connection: ConnectionId, peer: SocketAddr, exports: &Exports) -> Self {
        Self {
            peer: Peer::new(connection, peer, exports),
            credential: Credential::default(),
            pending: Pending::default(),
            nfs4: None,
            incoming: Incoming::new(),
            outgoing: Outgoing::default(),
            account: Account::default(),
            transfer: None,
            ended: None,
            is_held_back: false,
        }
    }

    /// Receives nothing while operations wait, until it is movable; or goes on.
    pub(super) fn hold_back(&mut self, is_held_back: bool) {
        self.is_held_back = is_held_back;
    }

    pub(super) fn is_held_back(&self) -> bool {
        self.is_held_back
    }

    pub(super) fn id(&self) -> ConnectionId {
        self.peer.connection
    }

    /// The client's address.
    pub(super) fn address(&self) -> Address {
        Address::new(self.peer.path[0])
    }

    /// Takes an operation that is due now; a turn must follow.
    pub(super) fn due(&mut self, delayed: Delayed) {
        self.pending.due(delayed);
    }

    /// True if it can move to another thread: none of its operations wait in this one.
    pub(super) fn is_movable(&self) -> bool {
        self.in_flight() == 0
    }

    /// Counts the operations that were received and wait for their time or their turn.
    pub(super) fn in_flight(&self) -> usize {
        self.pending.in_flight()
    }

    /// Drops all its operations and its memory when the connection ends. Returns whether operations of others may be admitted sooner.
    pub(super) fn forget(&mut self, worker: &mut Worker, now: Nanos) -> bool {
        worker.served.memory.settle(&mut self.account, 0, 0, 0);
        self.pending.is_throttled() && worker.forget(&self.peer, now)
    }

    /// Notes that the peer has sent its last call.
    pub(super) fn note_end(&mut self, now: Nanos) {
        self.ended = self.ended.or(Some(now));
    }

    /// True if the peer has begun a transfer that it must finish in time, or has ended: look at [`is_late`](Self::is_late) now and then.
    pub(super) fn is_transferring(&self) -> bool {
        self.transfer.is_some() || self.ended.is_some()
    }

    /// True if the peer takes too long to send a record. While memory is tight, so does a peer that holds much and moves little.
    pub(super) fn is_late(&self, is_tight: bool, now: Nanos) -> bool {
        if self.ended.is_some_and(|since| is_tight || now.saturating_sub(since) >= ENDED_NS_MAX) {
            return true;
        }
        let Some(Transfer { arrival, since, moved }) = self.transfer else { return false };
        let (age_ns, stall_ns) = (now.saturating_sub(since), now.saturating_sub(moved));
        let holds_much = self.transfer_bytes() + self.incoming.held_bytes() > SMALL_CALL_BYTES_MAX + TIGHT_BYTES;
        let is_inside = arrival != Arrival::Between;
        match () {
            () if is_inside && age_ns >= RECORD_NS_MAX => true,
            () if is_tight && holds_much => {
                stall_ns >= TIGHT_STALL_NS_MAX || is_inside && age_ns >= TIGHT_RECORD_NS_MAX
            }
            () => false,
        }
    }

    /// Sends unsent bytes, receives, answers. Call it after the event that the last turn returned.
    pub(crate) fn turn<T: Transport>(
        &mut self,
        worker: &mut Worker,
        transport: &mut T,
        now: Nanos,
    ) -> Result<Interest, Close> {
        let turned = self.take_turn(worker, transport, now);
        self.settle(&worker.served.memory, turned.as_ref().ok() == Some(&Interest::Due), transport.held_bytes());
        self.note_transfer(turned.as_ref().ok(), now);
        if self.incoming.has_ended() {
            self.note_end(now);
        }
        turned
    }

    /// Notes the memory that it holds after a turn. Calls behind operations that wait are not the peer's to finish.
    #[inline]
    fn settle(&mut self, memory: &ConnectionMemory, is_waiting: bool, sealed: usize) {
        let (record, held) = (self.transfer_bytes() + sealed, self.incoming.held_bytes());
        let (waiting, operations) = (self.pending.bytes(), self.pending.in_flight());
        let (transfers, calls) = if is_waiting { (record, held) } else { (record + held, 0) };
        memory.settle(&mut self.account, transfers, calls + waiting, operations);
    }

    /// Bytes of the record that is arriving, and of replies that the peer has not taken.
    fn transfer_bytes(&self) -> usize {
        self.incoming.record_bytes() + self.outgoing.bytes()
    }

    /// Notes how far a transfer is after a turn. One that waits for this side is none.
    fn note_transfer(&mut self, interest: Option<&Interest>, now: Nanos) {
        let arrival = match interest {
            Some(Interest::Receive) => self.incoming.arrival(),
            _ => Arrival::Between,
        };
        let is_sending = interest == Some(&Interest::Send);
        if arrival == Arrival::Between && !is_sending {
            self.transfer = None;
            return;
        }
        let before = self.transfer.filter(|before| before.arrival == arrival);
        self.transfer = Some(Transfer { arrival, since: before.map_or(now, |before| before.since), moved: now });
    }

    fn take_turn<T: Transport>(
        &mut self,
        worker: &mut Worker,
        transport: &mut T,
        now: Nanos,
    ) -> Result<Interest, Close> {
        if !self.outgoing.flush(transport, worker.spare())? {
            return Ok(Interest::Send);
        }
        let Self { peer, credential, pending, nfs4, incoming, outgoing, is_held_back, .. } = self;
        let (mut turn, input, spare) = worker.turn(credential, pending, nfs4, peer, now);
        serve(&mut turn, incoming, outgoing, transport, input, spare, *is_held_back)
    }
}

/// Answers batch after batch until there is nothing to do or the turn is over.
fn serve<T: Transport>(
    turn: &mut Turn<'_>,
    incoming: &mut Incoming,
    outgoing: &mut Outgoing,
    transport: &mut T,
    input: &mut [u8],
    spare: &mut Spare,
    is_held_back: bool,
) -> Result<Interest, Close> {
    let (mut at, mut filled) = (0, incoming.release(input));
    let (mut received, mut answered_bytes) = (false, 0);
    let mut interest = Interest::Turn;
    while answered_bytes < TURN_BYTES {
        let guard = epoch::pin();
        let mut answered = answer(incoming, turn, &input[..filled], &mut at);
        let waits = is_held_back && turn.pending.in_flight() > 0;
        if matches!(answered, Ok(Stop::Input)) && !received && !waits {
            received = true;
            input.copy_within(at..filled, 0);
            (at, filled) = (0, filled - at);
            answered = incoming
                .receive(turn, transport, input, &mut filled)
                .and_then(|()| answer(incoming, turn, &input[..filled], &mut at));
        }
        answered_bytes += turn.batch.length();
        let gone = outgoing.send(turn.batch, &turn.served.exports, transport, spare);
        drop(guard);
        let (stop, gone) = (answered?, gone?);
        if !gone || stop != Stop::Batch {
            interest = match stop {
                _ if !gone => Interest::Send,
                // Calls from before the end are answered first.
                Stop::Input if incoming.has_ended() && turn.pending.in_flight() == 0 => return Err(Close::Ended),
                Stop::Input if incoming.has_ended() || waits => Interest::Due,
                Stop::Pending => Interest::Due,
                Stop::Memory => Interest::Memory,
                Stop::Long if turn.may_wait() => Interest::Elsewhere,
                Stop::Long => Interest::Turn,
                _ => Interest::Receive,
            };
            break;
        }
    }
    incoming.hold(&input[at..filled]);
    Ok(interest)
}

/// Answers the calls in `input` from `at` on, and moves `at` behind them.
fn answer(incoming: &mut Incoming, turn: &mut Turn<'_>, input: &[u8], at: &mut usize) -> Result<Stop, Close> {
    let mut rest = &input[*at..];
    let stop = incoming.answer(turn, &mut rest);
    *at = input.len() - rest.len();
    stop
}

#[cfg(test)]
mod tests;
