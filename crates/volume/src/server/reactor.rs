//! Threads and sockets: one thread per core, each with the connections whose packets arrive on its core.
//!
//! Moving a connection's bytes from one core to another costs about as much as serving them. On a loopback connection packets
//! arrive on the client's core, so that a client and the thread that serves it take turns on one core with the data in its caches.
//!
//! A volume whose calls may wait for a disk has further threads: a connection whose calls took long goes to one of them, so that the
//! others of its thread do not wait for its next ones.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use libc::{c_int, epoll_event};

use iocurve_epoll::Epoll;
use iocurve_meter::{Clock, Nanos};
use iocurve_tls::{Channel, ServerTls};

use super::admission::Room;
use super::close::Close;
use super::connection::Connection;
use super::cores::pin;
use super::incoming::INPUT_BYTES;
use super::punctuality::Punctuality;
use super::session::{Interest, Session};
use super::socket::Socket;
use super::threads::{LISTENER_ID, Threads, WAKE_UP_ID};
use super::worker::Worker;
use crate::nfs4_state::Address;
use crate::pending::ConnectionId;
use crate::served::Served;
use crate::stats::Counters;
use crate::store::Upkeep;

/// Most events of one wait.
const EVENTS_MAX: usize = 256;

/// The core on which a connection's packets arrive is looked up once in this many turns.
const TURNS_PER_LOOKUP: u32 = 256;

/// A connection whose calls took long returns to a core after this many turns that did not.
const TURNS_TO_RETURN: u32 = 1024;

/// Pause after a connection could not be accepted (no file descriptors left).
const ACCEPT_PAUSE_NS: Nanos = 100_000_000;

/// With n operations waiting for their time, a thread wakes up to n times this later for the first one, and finds more of them due.
/// If many wait, their wait is long, and waking for each of them would cost more than serving them.
const LATE_NS: Nanos = 1_000;

/// The latest that a thread wakes up.
const LATE_NS_MAX: Nanos = 50_000;

/// Pause before the next try to reclaim memory that a thread may still be sending from.
const RECLAIM_PAUSE_NS: Nanos = 1_000_000;

/// Pause between two looks at a connection whose transfer may be late.
const WATCH_PAUSE_NS: Nanos = 500_000_000;

/// Pause before the next try of a connection that waits for memory.
const MEMORY_PAUSE_NS: Nanos = 5_000_000;

/// A thread that has been idle for this long repairs huge pages until it has something to do.
const IDLE_NS: Nanos = 100_000_000;

/// A wait for events.
struct Wait {
    /// `None` if there is nothing to do without an event.
    timeout: Option<Nanos>,
    /// When its first timer ends, at the latest; `Nanos::MAX` without one.
    end: Nanos,
}

/// One thread with its connections.
#[derive(Debug)]
pub(crate) struct Reactor {
    worker: Worker,
    threads: Arc<Threads>,
    /// Number of this thread.
    own: usize,
    epoll: Epoll,
    listener: Option<TcpListener>,
    /// TLS of the connections that it accepts; they have none if `None`.
    tls: Option<ServerTls>,
    /// Time at which to accept again after a failure.
    accept_again: Option<Nanos>,
    connections: HashMap<ConnectionId, Connection>,
    /// Connections that have more to do.
    again: Vec<ConnectionId>,
    /// Connections whose transfer may be late, and when to look at each, soonest first.
    watched: VecDeque<(Nanos, ConnectionId)>,
    /// Connections that wait for memory, the last one last, and when to try them again.
    short_of_memory: (Nanos, Vec<ConnectionId>),
    clock: Clock,
}

impl Reactor {
    /// Prepares thread number `own`. The thread with the listener hands out the connections that it accepts.
    pub(crate) fn new(
        served: Arc<Served>,
        counters: Arc<Counters>,
        threads: Arc<Threads>,
        own: usize,
        listener: Option<TcpListener>,
        tls: Option<ServerTls>,
        clock: Clock,
    ) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        epoll.add(&threads.inboxes[own].wake_up, WAKE_UP_ID, libc::EPOLLIN)?;
        if let Some(listener) = &listener {
            listener.set_nonblocking(true)?;
            epoll.add(listener, LISTENER_ID, libc::EPOLLIN)?;
        }
        let worker = Worker::new(served, own, counters, INPUT_BYTES);
        let worker = if threads.has_further() { worker.with_short_turns(clock.clone()) } else { worker };
        Ok(Self {
            worker,
            threads,
            own,
            epoll,
            listener,
            tls,
            accept_again: None,
            connections: HashMap::new(),
            again: Vec::new(),
            watched: VecDeque::new(),
            short_of_memory: (0, Vec::new()),
            clock,
        })
    }

    /// Serves until the volume stops.
    pub(crate) fn run(mut self) -> io::Result<()> {
        if let Some(cpu) = self.threads.cpu(self.own) {
            pin(cpu);
        }
        let mut events = [epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
        let mut due = Vec::new();
        let mut is_repairing = false;
        let mut punctuality = Punctuality::new(self.clock.now());
        while !self.threads.is_stopping() {
            let idle = self.store().needs_repair().then_some(if is_repairing { 0 } else { IDLE_NS });
            let Wait { timeout, end } = self.wait();
            let timeout = timeout.into_iter().chain(idle).min();
            let count = self.epoll.wait(&mut events, timeout)?;
            let now = self.clock.now();
            self.worker.came_late(now, punctuality.late_ns(end, now));
            is_repairing = count == 0 && timeout == idle && idle.is_some() && self.store().repair_huge_page();
            for event in &events[..count] {
                self.event(event.u64, event.events as c_int, now)?;
            }
            self.due(&mut due, now);
            self.close_late(now);
            self.try_short_of_memory(now);
            for id in std::mem::take(&mut self.again) {
                self.turn(id, now);
            }
            if self.accept_again.is_some_and(|again| again <= now) {
                self.accept_again = None;
                self.watch_listener(libc::EPOLLIN)?;
            }
        }
        Ok(())
    }

    fn store(&self) -> &impl Upkeep {
        &self.worker.served.exports
    }

    /// The longest wait for events.
    fn wait(&self) -> Wait {
        if !self.again.is_empty() {
            return Wait { timeout: Some(0), end: Nanos::MAX };
        }
        let reclaim = self.store().reclaim().then_some(RECLAIM_PAUSE_NS);
        let late = (LATE_NS * (self.worker.waiting() as Nanos).saturating_sub(1)).min(LATE_NS_MAX);
        let watched = self.watched.front().map(|(at, _)| *at);
        let short_of_memory = (!self.short_of_memory.1.is_empty()).then_some(self.short_of_memory.0);
        let due = self.worker.next().map(|due| due.saturating_add(late));
        let now = self.clock.now();
        let idle_files = self.store().close_idle(now);
        let timers = [due, self.accept_again, watched, short_of_memory, idle_files];
        let end = timers.into_iter().flatten().min().map(|next| next.max(now));
        let timeout = end.map(|end| end - now).into_iter().chain(reclaim).min();
        Wait { timeout, end: end.unwrap_or(Nanos::MAX) }
    }

    fn event(&mut self, id: ConnectionId, events: c_int, now: Nanos) -> io::Result<()> {
        match id {
            WAKE_UP_ID => {
                for connection in self.threads.inboxes[self.own].take() {
                    self.adopt(connection);
                }
            }
            LISTENER_ID => self.accept(now)?,
            // The peer has gone; epoll would report that again and again for a connection that waits for its time.
            id if events & (libc::EPOLLERR | libc::EPOLLHUP) != 0 => self.close(id, &Close::Ended),
            // It has sent its last call, and may wait for replies.
            id if events & libc::EPOLLRDHUP != 0 => self.note_end(id, now),
            id => self.turn(id, now),
        }
        Ok(())
    }

    /// Has epoll report no more that the peer has sent its last call, if it waits for replies. One that waits for memory would keep it
    /// from those who stay.
    fn note_end(&mut self, id: ConnectionId, now: Nanos) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.session.note_end(now);
        if connection.interest != Interest::Due || self.epoll.modify(&connection.socket, id, 0).is_err() {
            return self.close(id, &Close::Ended);
        }
        self.watch_transfer(id, now);
    }

    /// Gives every connection its operations that are due, and a turn.
    fn due(&mut self, touched: &mut Vec<ConnectionId>, now: Nanos) {
        self.worker.collect(now);
        while let Some(delayed) = self.worker.timers.pop(now) {
            let id = delayed.connection;
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.session.due(delayed);
                touched.push(id);
            }
        }
        touched.sort_unstable();
        touched.dedup();
        for id in touched.drain(..) {
            self.turn(id, now);
        }
    }

    /// Closes watched connections whose transfer takes too long.
    fn close_late(&mut self, now: Nanos) {
        while self.watched.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, id)) = self.watched.pop_front()
        {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            connection.is_watched = false;
            if connection.session.is_late(self.worker.served.memory.tight().transfers, now) {
                self.close(id, &Close::RecordTimeout);
            } else {
                self.watch_transfer(id, now);
            }
        }
    }

    /// Watches a connection as long as it has a transfer.
    fn watch_transfer(&mut self, id: ConnectionId, now: Nanos) {
        if let Some(connection) = self.connections.get_mut(&id)
            && connection.session.is_transferring()
            && !connection.is_watched
        {
            connection.is_watched = true;
            self.watched.push_back((now + WATCH_PAUSE_NS, id));
        }
    }

    /// Gives connections that wait for memory a turn while there is some. The one that came last is first: under attack the others are
    /// likely to be those that stall.
    fn try_short_of_memory(&mut self, now: Nanos) {
        let (at, connections) = &mut self.short_of_memory;
        if *at > now || connections.is_empty() {
            return;
        }
        *at = now + MEMORY_PAUSE_NS;
        let mut waiting = std::mem::take(connections);
        while !self.worker.served.memory.tight().transfers
            && let Some(id) = waiting.pop()
        {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.is_short_of_memory = false;
                self.turn(id, now);
            }
        }
        waiting.append(&mut self.short_of_memory.1);
        self.short_of_memory.1 = waiting;
    }

    /// Accepts all waiting connections.
    fn accept(&mut self, now: Nanos) -> io::Result<()> {
        while let Some(listener) = &self.listener {
            match listener.accept() {
                Ok((stream, peer)) => self.accepted(stream, peer, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    self.accept_again = Some(now + ACCEPT_PAUSE_NS);
                    return self.watch_listener(0);
                }
            }
        }
        Ok(())
    }

    /// Gives a new connection to the thread on whose core its packets arrive.
    fn accepted(&mut self, stream: TcpStream, peer: SocketAddr, now: Nanos) {
        let calls = &self.worker.counters.calls;
        calls.connections_accepted.add(1);
        let is_admitted = self.worker.served.exports.admit_address(peer.ip());
        match if is_admitted { self.threads.make_room(Address::of(peer.ip()), now) } else { Room::None } {
            Room::Free => {}
            Room::InPlaceOf(guest) => {
                guest.end();
                calls.connections_timed_out.add(1);
            }
            Room::None => {
                calls.connections_refused.add(1);
                return calls.connections_closed.add(1);
            }
        }
        let Ok(tls) = self.tls.as_ref().map(|tls| Channel::server(tls).map(Box::new)).transpose() else {
            return calls.connections_closed.add(1);
        };
        let socket = Socket::new(stream, peer.ip().is_loopback(), tls);
        let (id, counters) = self.threads.opened(peer, &socket, now);
        let thread = self.threads.further_from_start(Address::of(peer.ip()));
        let thread = thread.or_else(|| socket.incoming_cpu().and_then(|cpu| self.threads.of_cpu(cpu)));
        let thread = thread.unwrap_or(id as usize % self.threads.on_cores());
        let connection = Connection::new(Session::new(id, peer, &self.worker.served.exports), socket, counters);
        if thread == self.own {
            self.adopt(connection);
        } else {
            self.threads.inboxes[thread].put(connection);
        }
    }

    fn watch_listener(&self, events: c_int) -> io::Result<()> {
        self.listener.as_ref().map_or(Ok(()), |listener| self.epoll.modify(listener, LISTENER_ID, events))
    }

    /// Begins to serve a connection. It has a turn at once, since another thread may have received a complete call for it.
    fn adopt(&mut self, mut connection: Connection) {
        connection.interest = Interest::Receive;
        (connection.is_watched, connection.is_short_of_memory) = (false, false);
        connection.session.hold_back(false);
        let id = connection.session.id();
        if self.epoll.add(&connection.socket, id, libc::EPOLLIN).is_ok() {
            self.connections.insert(id, connection);
            self.again.push(id);
        } else {
            self.threads.closed(id);
            self.worker.counters.calls.connections_closed.add(1);
        }
    }

    /// Gives a connection its turn.
    fn turn(&mut self, id: ConnectionId, now: Nanos) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Connection { session, socket, counters, .. } = connection;
        let turned = match session.turn(&mut self.worker, socket, now) {
            Ok(Interest::Receive) if socket.has_opened() => Ok(Interest::Turn),
            turned => turned,
        };
        counters.turned(&std::mem::take(&mut self.worker.io), session.in_flight(), now);
        match turned {
            Err(close) => self.close(id, &close),
            Ok(interest) => {
                connection.turns += 1;
                let lookup = connection.turns.is_multiple_of(TURNS_PER_LOOKUP) && interest == Interest::Receive;
                if interest == Interest::Elsewhere {
                    connection.long_turn = connection.turns;
                    session.hold_back(self.threads.cpu(self.own).is_some());
                }
                let (is_held_back, is_movable) = (session.is_held_back(), session.is_movable());
                let address = session.address();
                match interest {
                    Interest::Turn | Interest::Elsewhere => self.again.push(id),
                    Interest::Memory => self.short_of_memory(id, now),
                    _ => {}
                }
                self.watch_transfer(id, now);
                if self.watch(id, interest).is_err() {
                    return self.close(id, &Close::Ended);
                }
                if is_held_back && is_movable {
                    self.hand_over(id, self.threads.further(address));
                } else if lookup && !is_held_back {
                    self.follow_packets(id);
                }
            }
        }
    }

    /// Has epoll watch for the event that a connection waits for.
    fn watch(&mut self, id: ConnectionId, interest: Interest) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        if connection.interest == interest {
            return Ok(());
        }
        connection.interest = interest;
        let events = match interest {
            Interest::Receive => libc::EPOLLIN,
            Interest::Send => libc::EPOLLOUT,
            Interest::Turn | Interest::Elsewhere => 0,
            // A peer that has gone is noticed though nothing is received from it: its end once, its reset at once.
            Interest::Due | Interest::Memory => libc::EPOLLRDHUP,
        };
        self.epoll.modify(&connection.socket, id, events)
    }

    /// Moves a connection to the core where its packets arrive, once they arrived there at two lookups in a row.
    fn follow_packets(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.long_turn > 0 && connection.turns - connection.long_turn < TURNS_TO_RETURN {
            return;
        }
        let thread = connection.socket.incoming_cpu().and_then(|cpu| self.threads.of_cpu(cpu));
        let thread = thread.filter(|thread| *thread != self.own && connection.session.is_movable());
        let seen_before = thread.is_some() && connection.elsewhere == thread;
        connection.elsewhere = thread;
        if let (true, Some(thread)) = (seen_before, thread) {
            self.hand_over(id, thread);
        }
    }

    /// Gives a connection to another thread, unless operations of it wait in this one.
    fn hand_over(&mut self, id: ConnectionId, thread: usize) {
        if self.connections.get(&id).is_some_and(|connection| connection.session.is_movable())
            && let Some(mut connection) = self.connections.remove(&id)
            && self.epoll.remove(&connection.socket).is_ok()
        {
            connection.elsewhere = None;
            self.threads.inboxes[thread].put(connection);
        }
    }

    fn short_of_memory(&mut self, id: ConnectionId, now: Nanos) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !std::mem::replace(&mut connection.is_short_of_memory, true) {
            let (at, connections) = &mut self.short_of_memory;
            if connections.is_empty() {
                *at = now + MEMORY_PAUSE_NS;
            }
            connections.push(id);
        }
    }

    fn close(&mut self, id: ConnectionId, close: &Close) {
        let Some(mut connection) = self.connections.remove(&id) else { return };
        if connection.session.forget(&mut self.worker, self.clock.now()) {
            self.threads.wake();
        }
        self.threads.closed(id);
        self.worker.counters.calls.connections_closed.add(1);
        self.worker.counters.calls.protocol_errors.add(u64::from(close.is_protocol_error()));
        self.worker.counters.calls.connections_timed_out.add(u64::from(close.is_timeout()));
    }
}
