//! A connection with its socket, as threads hand it to each other.

use std::sync::Arc;

use iocurve_meter::Nanos;

use super::close::Close;
use super::session::{Interest, Session};
use super::socket::Socket;
use super::worker::Worker;
use crate::stats::ConnectionCounters;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) session: Session,
    pub(super) socket: Socket,
    pub(super) counters: Arc<ConnectionCounters>,
    /// The event that epoll watches for.
    pub(super) interest: Interest,
    pub(super) turns: u32,
    /// Number of the last turn that took long.
    pub(super) long_turn: u32,
    /// Its thread will look whether its transfers are late.
    pub(super) is_watched: bool,
    /// Its client has had its time in this round; its turn is in the next one.
    pub(super) is_deferred: bool,
    /// Its thread will give it a turn when there is memory.
    pub(super) is_short_of_memory: bool,
    /// The thread, other than its own, on whose core its last packet arrived when that was looked up last.
    pub(super) elsewhere: Option<usize>,
}

impl Connection {
    pub(super) fn new(session: Session, socket: Socket, counters: Arc<ConnectionCounters>) -> Self {
        Self {
            session,
            socket,
            counters,
            interest: Interest::Receive,
            turns: 0,
            long_turn: 0,
            is_watched: false,
            is_deferred: false,
            is_short_of_memory: false,
            elsewhere: None,
        }
    }

    /// Gives the session a turn.
    pub(super) fn turn(&mut self, worker: &mut Worker, now: Nanos) -> Result<Interest, Close> {
        let Self { session, socket, counters, .. } = self;
        let turned = match session.turn(worker, socket, now) {
            Ok(Interest::Receive) if socket.has_opened() => Ok(Interest::Turn),
            turned => turned,
        };
        counters.turned(&std::mem::take(&mut worker.io), session.in_flight(), now);
        turned
    }
}
