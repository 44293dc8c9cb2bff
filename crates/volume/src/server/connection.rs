//! A connection with its socket, as threads hand it to each other.

use std::sync::Arc;

use super::session::{Interest, Session};
use super::socket::Socket;
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
            is_short_of_memory: false,
            elsewhere: None,
        }
    }
}
