//! One TCP connection of the mount: connected, disconnected or connecting.

use std::io;

use iocurve_epoll::Epoll;
use iocurve_meter::{Clock, Nanos, SECOND};
use iocurve_tls::Wait;

use crate::engines::request::Completion;
use crate::outcome::ConnectionOutcome;

use super::super::protocol::Protocol;
use super::super::transport::patience::no_answer;
use super::super::transport::socket::{Route, Socket};
use super::flight::Flight;
use super::incoming::{Incoming, Lost};
use super::outgoing::Outgoing;

/// First pause between two attempts to connect; it doubles each time.
const BACKOFF_NS_MIN: Nanos = 10_000_000;
/// Longest pause between two attempts to connect.
const BACKOFF_NS_MAX: Nanos = SECOND;
/// Most time of one attempt to connect.
const ATTEMPT_NS: Nanos = 5 * SECOND;

/// A connection, with its unsent and unparsed bytes.
#[derive(Debug)]
pub(in crate::engines::nfs) struct Connection {
    number: usize,
    status: Status,
    outgoing: Outgoing,
    incoming: Incoming,
    /// Pause before the next attempt to connect.
    backoff_ns: Nanos,
    /// Time since which a reply is outstanding, and nothing has come of it.
    waiting_since: Nanos,
    /// Time since which a whole reply is outstanding.
    unanswered_since: Nanos,
    /// Time since which there is this connection.
    up_since: Nanos,
    /// It was established again because no reply came, and none has come since.
    was_replaced: bool,
    /// The epoll set also waits until the socket can send.
    wants_to_send: bool,
}

#[derive(Debug)]
enum Status {
    Up(Socket),
    Connecting { socket: Socket, until: Nanos },
    Down { retry_at: Nanos },
}

impl Connection {
    /// Takes a connected socket; `number` is its index in the engine and the epoll set.
    pub(in crate::engines::nfs) fn new(
        number: usize,
        socket: Socket,
        epoll: &Epoll,
        incoming: Incoming,
        now: Nanos,
    ) -> io::Result<Self> {
        epoll.add(&socket, number as u64, libc::EPOLLIN)?;
        Ok(Self {
            number,
            status: Status::Up(socket),
            outgoing: Outgoing::default(),
            incoming,
            backoff_ns: 0,
            waiting_since: now,
            unanswered_since: now,
            up_since: now,
            was_replaced: false,
            wants_to_send: false,
        })
    }

    /// Returns `true` if calls can be sent.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.status, Status::Up(_))
    }

    /// The socket, if there is a connection, and `true` if it has calls to send.
    pub(super) fn socket(&self) -> Option<(&Socket, bool)> {
        match &self.status {
            Status::Up(socket) => Some((socket, !self.outgoing.is_empty())),
            _ => None,
        }
    }

    /// Name of the congestion control in use, if there is a connection.
    pub(super) fn congestion_control(&self) -> Option<String> {
        match &self.status {
            Status::Up(socket) => socket.congestion_control(),
            _ => None,
        }
    }

    /// State of the connection, if there is one.
    pub(super) fn tcp_info(&self) -> Option<ConnectionOutcome> {
        match &self.status {
            Status::Up(socket) => socket.tcp_info(),
            _ => None,
        }
    }

    /// Queues a call that was assigned to this connection. While it is down, the call waits in `flight`.
    pub(in crate::engines::nfs) fn queue<P: Protocol>(&mut self, call: u32, flight: &Flight<P>) {
        if self.is_up() {
            flight.write(call, &mut self.outgoing);
        }
    }

    /// Sends as much of the queue as the socket accepts. Without an epoll set the caller waits until it accepts more.
    pub(in crate::engines::nfs) fn flush<P: Protocol>(
        &mut self,
        flight: &Flight<P>,
        epoll: Option<&Epoll>,
    ) -> Result<(), Lost> {
        let Status::Up(socket) = &self.status else { return Ok(()) };
        if self.outgoing.is_empty() {
            return Ok(());
        }
        self.outgoing.send(socket, flight.slots()).map_err(Lost::Closed)?;
        if let Some(epoll) = epoll
            && self.wants_to_send == self.outgoing.is_empty()
        {
            self.wants_to_send = !self.wants_to_send;
            let events = if self.wants_to_send { libc::EPOLLIN | libc::EPOLLOUT } else { libc::EPOLLIN };
            epoll.modify(socket, self.number as u64, events).map_err(Lost::Closed)?;
        }
        Ok(())
    }

    /// Receives available data; waits for data only if it `waits`.
    pub(in crate::engines::nfs) fn receive<P: Protocol>(
        &mut self,
        waits: bool,
        flight: &mut Flight<P>,
        done: &mut Vec<Completion>,
    ) -> Result<(), Lost> {
        match &self.status {
            Status::Up(socket) => self.incoming.receive(socket, waits, self.number, flight, done),
            _ => Ok(()),
        }
    }

    /// Time for which a reply is outstanding.
    pub(in crate::engines::nfs) fn unanswered_ns<P: Protocol>(&mut self, flight: &Flight<P>, now: Nanos) -> Nanos {
        self.note_heard(now);
        if flight.calls.load(self.number).calls == 0 {
            (self.waiting_since, self.unanswered_since) = (now, now);
        }
        now.saturating_sub(self.waiting_since)
    }

    fn note_heard(&mut self, now: Nanos) {
        if std::mem::take(&mut self.incoming.heard) {
            self.backoff_ns = 0;
            (self.waiting_since, self.unanswered_since) = (now, now);
            self.was_replaced = false;
        }
        if std::mem::take(&mut self.incoming.heard_part) {
            self.waiting_since = now;
        }
    }

    /// Fails if no reply has come for `silence_ns_max`: the server may have forgotten the connection without a word, and
    /// answer on another. It fails once in a silence, for a server that is slow needs its time.
    pub(in crate::engines::nfs) fn check_silence(
        &mut self,
        unanswered_ns: Nanos,
        silence_ns_max: Nanos,
        now: Nanos,
    ) -> io::Result<()> {
        let silent_ns = unanswered_ns.min(now.saturating_sub(self.up_since));
        if self.was_replaced || !self.is_up() || silent_ns <= silence_ns_max {
            return Ok(());
        }
        self.was_replaced = true;
        Err(no_answer())
    }

    /// Closes the socket; its calls wait in `flight`.
    pub(in crate::engines::nfs) fn lose(&mut self, now: Nanos) {
        self.note_heard(now);
        // A part of a reply that is lost with the connection was none.
        self.waiting_since = self.unanswered_since;
        self.incoming.reset();
        self.outgoing.clear();
        self.wants_to_send = false;
        self.status = Status::Down { retry_at: now + self.backoff_ns };
        self.backoff_ns = (self.backoff_ns * 2).clamp(BACKOFF_NS_MIN, BACKOFF_NS_MAX);
    }

    /// Gives the socket away, if there is a connection.
    pub(in crate::engines::nfs) fn take_socket(&mut self) -> Option<Socket> {
        match std::mem::replace(&mut self.status, Status::Down { retry_at: Nanos::MAX }) {
            Status::Up(socket) => Some(socket),
            _ => None,
        }
    }

    /// Starts to reconnect if it is time; returns the time of the next check.
    pub(in crate::engines::nfs) fn revive(&mut self, route: &Route, epoll: &Epoll, now: Nanos) -> io::Result<Nanos> {
        match self.status {
            Status::Up(_) => Ok(Nanos::MAX),
            Status::Down { retry_at } if now < retry_at => Ok(retry_at),
            Status::Connecting { until, .. } if now < until => Ok(until),
            Status::Connecting { .. } => Err(io::ErrorKind::TimedOut.into()),
            Status::Down { .. } => {
                let socket = Socket::start(route)?;
                epoll.add(&socket, self.number as u64, libc::EPOLLOUT)?;
                self.status = Status::Connecting { socket, until: now + ATTEMPT_NS };
                Ok(now + ATTEMPT_NS)
            }
        }
    }

    /// Called when epoll reports the socket: an attempt to connect has ended, or TLS can go on. Returns `true` if the
    /// connection is up again, with all its calls queued again.
    pub(in crate::engines::nfs) fn attempt_ended<P: Protocol>(
        &mut self,
        flight: &Flight<P>,
        epoll: &Epoll,
        clock: &Clock,
    ) -> io::Result<bool> {
        if !matches!(self.status, Status::Connecting { .. }) {
            return Ok(false);
        }
        let Status::Connecting { socket, until } = std::mem::replace(&mut self.status, Status::Down { retry_at: 0 })
        else {
            unreachable!("checked above");
        };
        if let Some(wait) = socket.connected()? {
            let events = if wait == Wait::Write { libc::EPOLLOUT } else { libc::EPOLLIN };
            epoll.modify(&socket, self.number as u64, events)?;
            self.status = Status::Connecting { socket, until };
            return Ok(false);
        }
        epoll.modify(&socket, self.number as u64, libc::EPOLLIN)?;
        self.status = Status::Up(socket);
        self.up_since = clock.now();
        flight.write_all(self.number, &mut self.outgoing);
        Ok(true)
    }
}
