//! Threads and sockets: one thread per core, each with the connections whose packets arrive on its core.
//!
//! Moving a connection's bytes from one core to another costs about as much as serving them. On a loopback connection packets
//! arrive on the client's core, so that a client and the thread that serves it take turns on one core with the data in its caches.
//!
//! A volume whose calls may wait for a disk has further threads: a connection whose calls took long goes to one of them, so that the
//! others of its thread do not wait for its next ones. While a call is made, another thread may take over (`post`).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
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
use super::post::{Held, Post, Taken, Waits};
use super::punctuality::Punctuality;
use super::session::{Interest, Session};
use super::socket::Socket;
use super::threads::{LISTENER_ID, Threads, WAKE_UP_ID};
use super::worker::Worker;
use crate::nfs4_state::Address;
use crate::pending::{ConnectionId, Timers};
use crate::served::Served;
use crate::stats::Counters;
use crate::store::Upkeep;

/// Most events of one wait.
const EVENTS_MAX: usize = 256;

/// The core on which a connection's packets arrive is looked up once in this many turns.
const TURNS_PER_LOOKUP: u32 = 256;

/// A connection whose calls took long returns to a core after this many turns that did not.
const TURNS_TO_RETURN: u32 = 1024;

/// A client gets no further turn in a round of a thread in which its turns took this time: others come first.
const ROUND_NS: Nanos = 250_000;

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
    post: Arc<Post>,
    held: Held,
    /// Time that the turns of each client took in this round.
    spent: HashMap<Address, Nanos>,
    /// When the last turn of the round ended; `None` in a round of one turn, in which no time is counted.
    counted: Option<Nanos>,
    /// Another thread has taken over, and has its connections.
    is_relieved: bool,
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
        let (post, held) = (Arc::new(Post::new(own, epoll, tls)), Held { listener, ..Held::default() });
        Ok(Self::at(post, held, (served, counters, threads), clock))
    }

    /// A thread at a post, with the connections there.
    fn at(
        post: Arc<Post>,
        held: Held,
        (served, counters, threads): (Arc<Served>, Arc<Counters>, Arc<Threads>),
        clock: Clock,
    ) -> Self {
        let worker = Worker::new(served, post.own, counters, INPUT_BYTES);
        let worker = worker.with_clock(clock.clone(), threads.has_further());
        Self { worker, threads, post, held, spent: HashMap::new(), counted: None, is_relieved: false, clock }
    }

    /// A thread that goes on with what another one has lent, whose call waits.
    pub(super) fn in_place_of(
        post: Arc<Post>,
        Taken { held, waits }: Taken,
        served: Arc<Served>,
        counters: Arc<Counters>,
        threads: Arc<Threads>,
        clock: Clock,
    ) -> Self {
        let mut reactor = Self::at(post, held, (served, counters, threads), clock);
        let Held { timers, trying, short_of_memory: (_, waiting), absent, .. } = &mut reactor.held;
        reactor.worker.timers = std::mem::take(timers);
        waiting.append(trying);
        absent.insert(waits.connection, Vec::new());
        reactor.move_away(waits.address);
        reactor
    }

    pub(crate) fn post(&self) -> Arc<Post> {
        Arc::clone(&self.post)
    }

    /// Serves until the volume stops, or another thread has taken over; returns whether one has.
    pub(crate) fn run(mut self) -> io::Result<bool> {
        if let Some(cpu) = self.threads.cpu(self.post.own) {
            pin(cpu);
        }
        self.post.enter();
        let mut events = [epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
        let mut is_repairing = false;
        let mut punctuality = Punctuality::new(self.clock.now());
        while !self.threads.is_stopping() && !self.is_relieved {
            let idle = self.store().needs_repair().then_some(if is_repairing { 0 } else { IDLE_NS });
            let Wait { timeout, end } = self.wait();
            let timeout = timeout.into_iter().chain(idle).min();
            let count = self.post.epoll.wait(&mut events, timeout)?;
            let now = self.clock.now();
            self.begin_round(count + self.held.again.len(), now);
            self.worker.came_late(now, punctuality.late_ns(end, now));
            is_repairing = count == 0 && timeout == idle && idle.is_some() && self.store().repair_huge_page();
            for _ in 0..self.held.again.len() {
                let Some(id) = self.held.again.pop_front() else { break };
                if let Some(connection) = self.held.connections.get_mut(&id) {
                    connection.is_deferred = false;
                    self.turn(id, now);
                }
            }
            for event in &events[..count] {
                self.event(event.u64, event.events as c_int, now)?;
            }
            self.due(now);
            self.close_late(now);
            self.try_short_of_memory(now);
            if self.held.accept_again.is_some_and(|again| again <= now) {
                self.held.accept_again = None;
                self.watch_listener(libc::EPOLLIN)?;
            }
        }
        Ok(self.is_relieved)
    }

    fn store(&self) -> &impl Upkeep {
        &self.worker.served.exports
    }

    /// The longest wait for events.
    fn wait(&self) -> Wait {
        if !self.held.again.is_empty() {
            return Wait { timeout: Some(0), end: Nanos::MAX };
        }
        let reclaim = self.store().reclaim().then_some(RECLAIM_PAUSE_NS);
        let late = (LATE_NS * (self.worker.waiting() as Nanos).saturating_sub(1)).min(LATE_NS_MAX);
        let watched = self.held.watched.front().map(|(at, _)| *at);
        let short_of_memory = (!self.held.short_of_memory.1.is_empty()).then_some(self.held.short_of_memory.0);
        let due = self.worker.next().map(|due| due.saturating_add(late));
        let now = self.clock.now();
        let idle_files = self.store().close_idle(now);
        let timers = [due, self.held.accept_again, watched, short_of_memory, idle_files];
        let end = timers.into_iter().flatten().min().map(|next| next.max(now));
        let timeout = end.map(|end| end - now).into_iter().chain(reclaim).min();
        Wait { timeout, end: end.unwrap_or(Nanos::MAX) }
    }

    fn event(&mut self, id: ConnectionId, events: c_int, now: Nanos) -> io::Result<()> {
        match id {
            _ if self.is_relieved => {}
            WAKE_UP_ID => {
                for (connection, timers) in self.threads.inboxes[self.post.own].take() {
                    self.worker.timers.append(timers);
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
        let Some(connection) = self.held.connections.get_mut(&id) else { return };
        connection.session.note_end(now);
        if connection.interest != Interest::Due || self.post.epoll.modify(&connection.socket, id, 0).is_err() {
            return self.close(id, &Close::Ended);
        }
        self.watch_transfer(id, now);
    }

    /// Gives every connection its operations that are due, and a turn.
    fn due(&mut self, now: Nanos) {
        self.worker.collect(now);
        while let Some(delayed) = self.worker.timers.pop(now) {
            let id = delayed.connection;
            if let Some(connection) = self.held.connections.get_mut(&id) {
                connection.session.due(delayed);
                self.held.due.push(id);
            } else if let Some(kept) = self.held.absent.get_mut(&id) {
                kept.push(delayed);
            }
        }
        self.held.due.sort_unstable_by_key(|id| Reverse(*id));
        self.held.due.dedup();
        while let Some(id) = self.held.due.pop() {
            self.turn(id, now);
        }
    }

    /// Closes watched connections whose transfer takes too long.
    fn close_late(&mut self, now: Nanos) {
        while self.held.watched.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, id)) = self.held.watched.pop_front()
        {
            let Some(connection) = self.held.connections.get_mut(&id) else { continue };
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
        if let Some(connection) = self.held.connections.get_mut(&id)
            && connection.session.is_transferring()
            && !connection.is_watched
        {
            connection.is_watched = true;
            self.held.watched.push_back((now + WATCH_PAUSE_NS, id));
        }
    }

    /// Gives connections that wait for memory a turn while there is some. The one that came last is first: under attack the others are
    /// likely to be those that stall.
    fn try_short_of_memory(&mut self, now: Nanos) {
        let Held { short_of_memory: (at, waiting), trying, .. } = &mut self.held;
        if *at > now || waiting.is_empty() {
            return;
        }
        *at = now + MEMORY_PAUSE_NS;
        trying.append(waiting);
        while !self.worker.served.memory.tight().transfers
            && let Some(id) = self.held.trying.pop()
        {
            if let Some(connection) = self.held.connections.get_mut(&id) {
                connection.is_short_of_memory = false;
                self.turn(id, now);
            }
        }
        let Held { short_of_memory: (_, waiting), trying, .. } = &mut self.held;
        trying.append(waiting);
        std::mem::swap(trying, waiting);
    }

    /// Accepts all waiting connections.
    fn accept(&mut self, now: Nanos) -> io::Result<()> {
        while let Some(listener) = &self.held.listener {
            match listener.accept() {
                Ok((stream, peer)) => self.accepted(stream, peer, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    self.held.accept_again = Some(now + ACCEPT_PAUSE_NS);
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
        let Ok(tls) = self.post.tls.as_ref().map(|tls| Channel::server(tls).map(Box::new)).transpose() else {
            return calls.connections_closed.add(1);
        };
        let socket = Socket::new(stream, peer.ip().is_loopback(), tls);
        let (id, counters) = self.threads.opened(peer, &socket, now);
        let thread = self.threads.further_from_start(Address::of(peer.ip()));
        let thread = thread.or_else(|| socket.incoming_cpu().and_then(|cpu| self.threads.of_cpu(cpu)));
        let thread = thread.unwrap_or(id as usize % self.threads.on_cores());
        let connection = Connection::new(Session::new(id, peer, &self.worker.served.exports), socket, counters);
        if thread == self.post.own {
            self.adopt(connection);
        } else {
            self.threads.inboxes[thread].put(connection, Timers::default());
        }
    }

    fn watch_listener(&self, events: c_int) -> io::Result<()> {
        self.held.listener.as_ref().map_or(Ok(()), |listener| self.post.epoll.modify(listener, LISTENER_ID, events))
    }

    /// Begins to serve a connection. It has a turn at once, since another thread may have received a complete call for it.
    fn adopt(&mut self, mut connection: Connection) {
        connection.interest = Interest::Receive;
        (connection.is_watched, connection.is_short_of_memory, connection.is_deferred) = (false, false, false);
        connection.session.hold_back(false);
        let id = connection.session.id();
        for delayed in self.held.absent.remove(&id).into_iter().flatten() {
            connection.session.due(delayed);
        }
        if self.post.epoll.add(&connection.socket, id, libc::EPOLLIN).is_ok() {
            self.held.connections.insert(id, connection);
            self.held.again.push_back(id);
        } else {
            self.threads.closed(id);
            self.worker.counters.calls.connections_closed.add(1);
        }
    }

    /// Gives a connection its turn.
    fn turn(&mut self, id: ConnectionId, now: Nanos) {
        let Some(connection) = self.held.connections.get_mut(&id) else { return };
        let client = connection.session.address();
        if self.counted.is_some() && self.spent.get(&client).is_some_and(|spent| *spent >= ROUND_NS) {
            if !std::mem::replace(&mut connection.is_deferred, true) {
                self.held.again.push_back(id);
            }
            return;
        }
        connection.is_deferred = false;
        if self.threads.has_further() {
            self.turn_apart(id, now);
        } else {
            let turned = connection.turn(&mut self.worker, now);
            self.turned(id, turned, now);
        }
        if let Some(before) = self.counted {
            let after = self.clock.now();
            *self.spent.entry(client).or_default() += after.saturating_sub(before);
            self.counted = Some(after);
        }
    }

    /// Counts the time of clients from now on, if there is more than one turn to give.
    fn begin_round(&mut self, turns: usize, now: Nanos) {
        self.spent.clear();
        self.counted = (turns > 1).then_some(now);
    }

    /// As [`Self::turn`]; meanwhile another thread may take over the others, if a call of this one waits.
    fn turn_apart(&mut self, id: ConnectionId, now: Nanos) {
        let Some(mut connection) = self.held.connections.remove(&id) else { return };
        std::mem::swap(&mut self.held.timers, &mut self.worker.timers);
        let (socket, address) = (connection.socket.as_raw_fd(), connection.session.address());
        let turn = self.post.lend(&mut self.held, Waits { connection: id, socket, address });
        self.threads.watch();
        let turned = connection.turn(&mut self.worker, now);
        self.is_relieved = !self.post.take_back(&mut self.held, turn);
        if self.is_relieved {
            return self.give_up(connection, turned);
        }
        std::mem::swap(&mut self.held.timers, &mut self.worker.timers);
        let new = std::mem::take(&mut self.held.timers);
        self.worker.timers.append(new);
        self.held.connections.insert(id, connection);
        self.turned(id, turned, now);
    }

    /// Gives the connection whose call has waited to the thread that has the others.
    fn give_up(&mut self, connection: Connection, turned: Result<Interest, Close>) {
        if let Err(close) = turned {
            self.count_close(&close);
            connection.socket.end();
        }
        let timers = std::mem::take(&mut self.worker.timers);
        self.threads.inboxes[self.post.own].put(connection, timers);
    }

    /// Goes on as a turn has ended.
    fn turned(&mut self, id: ConnectionId, turned: Result<Interest, Close>, now: Nanos) {
        let interest = match turned {
            Ok(interest) => interest,
            Err(close) => return self.close(id, &close),
        };
        let Some(connection) = self.held.connections.get_mut(&id) else { return };
        let Connection { session, .. } = connection;
        connection.turns += 1;
        let lookup = connection.turns.is_multiple_of(TURNS_PER_LOOKUP) && interest == Interest::Receive;
        if interest == Interest::Elsewhere {
            connection.long_turn = connection.turns;
            session.hold_back(self.threads.cpu(self.post.own).is_some());
        }
        let is_held_back = session.is_held_back();
        match interest {
            Interest::Turn | Interest::Elsewhere => self.held.again.push_back(id),
            Interest::Memory => self.short_of_memory(id, now),
            _ => {}
        }
        self.watch_transfer(id, now);
        if self.watch(id, interest).is_err() {
            return self.close(id, &Close::Ended);
        }
        if is_held_back {
            self.hand_over_slow(id);
        } else if lookup {
            self.follow_packets(id);
        }
    }

    /// Gives a connection whose calls took long to a thread for such, unless operations of it wait in this one.
    fn hand_over_slow(&mut self, id: ConnectionId) {
        if let Some(connection) = self.held.connections.get(&id)
            && connection.session.is_movable()
        {
            let thread = self.threads.further(connection.session.address());
            self.hand_over(id, thread);
        }
    }

    /// Holds back the connections of an address with a call that waits: their calls may wait, too.
    fn move_away(&mut self, address: Address) {
        if self.threads.cpu(self.post.own).is_none() {
            return;
        }
        let of_address = self.held.connections.iter_mut().filter(|(_, found)| found.session.address() == address);
        let ids: Vec<_> = of_address.map(|(id, found)| (found.session.hold_back(true), *id).1).collect();
        self.threads.note_slow(address);
        for id in ids {
            self.hand_over_slow(id);
        }
    }

    /// Has epoll watch for the event that a connection waits for.
    fn watch(&mut self, id: ConnectionId, interest: Interest) -> io::Result<()> {
        let Some(connection) = self.held.connections.get_mut(&id) else { return Ok(()) };
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
        self.post.epoll.modify(&connection.socket, id, events)
    }

    /// Moves a connection to the core where its packets arrive, once they arrived there at two lookups in a row.
    fn follow_packets(&mut self, id: ConnectionId) {
        let Some(connection) = self.held.connections.get_mut(&id) else { return };
        if connection.long_turn > 0 && connection.turns - connection.long_turn < TURNS_TO_RETURN {
            return;
        }
        let thread = connection.socket.incoming_cpu().and_then(|cpu| self.threads.of_cpu(cpu));
        let thread = thread.filter(|thread| *thread != self.post.own && connection.session.is_movable());
        let seen_before = thread.is_some() && connection.elsewhere == thread;
        connection.elsewhere = thread;
        if let (true, Some(thread)) = (seen_before, thread) {
            self.hand_over(id, thread);
        }
    }

    /// Gives a connection to another thread, unless operations of it wait in this one.
    fn hand_over(&mut self, id: ConnectionId, thread: usize) {
        if self.held.connections.get(&id).is_some_and(|connection| connection.session.is_movable())
            && let Some(mut connection) = self.held.connections.remove(&id)
            && self.post.epoll.remove(&connection.socket).is_ok()
        {
            connection.elsewhere = None;
            self.threads.inboxes[thread].put(connection, Timers::default());
        }
    }

    fn short_of_memory(&mut self, id: ConnectionId, now: Nanos) {
        let Some(connection) = self.held.connections.get_mut(&id) else { return };
        if !std::mem::replace(&mut connection.is_short_of_memory, true) {
            let (at, connections) = &mut self.held.short_of_memory;
            if connections.is_empty() {
                *at = now + MEMORY_PAUSE_NS;
            }
            connections.push(id);
        }
    }

    fn close(&mut self, id: ConnectionId, close: &Close) {
        let Some(mut connection) = self.held.connections.remove(&id) else { return };
        if connection.session.forget(&mut self.worker, self.clock.now()) {
            self.threads.wake();
        }
        self.threads.closed(id);
        self.worker.counters.calls.connections_closed.add(1);
        self.count_close(close);
    }

    fn count_close(&self, close: &Close) {
        self.worker.counters.calls.protocol_errors.add(u64::from(close.is_protocol_error()));
        self.worker.counters.calls.connections_timed_out.add(u64::from(close.is_timeout()));
    }
}
