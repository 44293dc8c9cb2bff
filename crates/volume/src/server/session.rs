//! One connection: bytes in, bytes out. It knows no sockets and reads no clock.
//!
//! A turn takes what the transport has, answers every complete call in it, and sends all replies at once. Bytes that the transport
//! does not take are copied, and no more calls are read until they have gone; so a slow peer holds a bounded amount of memory and
//! nothing of the store.

use std::sync::Arc;

use crossbeam_epoch as epoch;

use iocurve_meter::Nanos;

use super::close::Close;
use super::incoming::{Incoming, Stop};
use super::outgoing::Outgoing;
use super::transport::Transport;
use super::worker::{Spare, Worker};
use crate::credential::Credential;
use crate::nfs4_state::NfsSession;
use crate::pending::{ConnectionId, Delayed, Pending};
use crate::turn::{Peer, Turn};

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
}

impl Session {
    /// A connection with nothing received yet.
    pub(crate) fn new(connection: ConnectionId, address: String) -> Self {
        Self {
            peer: Peer::new(connection, address),
            credential: Credential::default(),
            pending: Pending::default(),
            nfs4: None,
            incoming: Incoming::new(),
            outgoing: Outgoing::default(),
        }
    }

    pub(super) fn id(&self) -> ConnectionId {
        self.peer.connection
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

    /// Drops all its operations when the connection ends. Returns whether those of others may be admitted sooner.
    pub(super) fn forget(&self, worker: &mut Worker, now: Nanos) -> bool {
        self.pending.is_throttled() && worker.forget(&self.peer, now)
    }

    /// Sends unsent bytes, receives, answers. Call it after the event that the last turn returned.
    pub(crate) fn turn<T: Transport>(
        &mut self,
        worker: &mut Worker,
        transport: &mut T,
        now: Nanos,
    ) -> Result<Interest, Close> {
        if !self.outgoing.flush(transport, worker.spare())? {
            return Ok(Interest::Send);
        }
        let Self { peer, credential, pending, nfs4, incoming, outgoing } = self;
        let (mut turn, input, spare) = worker.turn(credential, pending, nfs4, peer, now);
        serve(&mut turn, incoming, outgoing, transport, input, spare)
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
) -> Result<Interest, Close> {
    let (mut at, mut filled) = (0, incoming.release(input));
    let (mut received, mut answered_bytes) = (false, 0);
    let mut interest = Interest::Turn;
    while answered_bytes < TURN_BYTES {
        let guard = epoch::pin();
        let mut answered = answer(incoming, turn, &input[..filled], &mut at);
        if matches!(answered, Ok(Stop::Input)) && !received {
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
                Stop::Pending => Interest::Due,
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
