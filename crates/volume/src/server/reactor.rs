//! Threads and sockets: one thread per core, each with the connections whose packets arrive on its core.
//!
//! Moving a connection's bytes from one core to another costs about as much as serving them. On a loopback connection packets
//! arrive on the client's core, so that a client and the thread that serves it take turns on one core with the data in its caches.

use std::collections::HashMap;
use std::io;
use std::mem::size_of;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use libc::{c_int, epoll_event, iovec};

use iocurve_meter::{Clock, Nanos};

use crate::pending::SessionId;
use crate::reply::splice::{SplicePipe, SplicePipes};
use crate::served::Served;
use crate::server::session::{Close, Interest, Session, Transport};
use crate::server::worker::Worker;
use crate::stats::{ConnectionCounters, Connections, Counters};
use crate::store::Store;

/// Events of one wait.
const EVENTS_MAX: usize = 256;

/// A connection's core is looked up once in so many turns.
const TURNS_PER_LOOK: u32 = 256;

/// How long no connection is accepted after one could not be (no file descriptors left).
const ACCEPT_PAUSE_NS: Nanos = 100_000_000;

/// Send buffer towards clients on this machine. What is sent there waits in the client's core's caches, or beyond them if it is
/// much: with the system's growing buffers READs of 1 MiB ran at two thirds of the speed.
const LOOPBACK_SEND_BYTES: c_int = 512 << 10;

/// Congestion control towards clients on this machine. Others (BBR) pace what they send by timers, which loopback does not need.
const LOOPBACK_CONGESTION: &[u8; 16] = b"reno\0\0\0\0\0\0\0\0\0\0\0\0";

/// With n operations waiting for their time, a thread wakes up to n times this later for the first one, and finds more of them due.
/// Where many wait their wait is long, and waking for each of them would cost more than serving them.
const LATE_NS: Nanos = 1_000;

/// The latest that a thread wakes up.
const LATE_NS_MAX: Nanos = 50_000;

/// How long to wait before memory is given back that a thread may still be sending from.
const RECLAIM_WAIT_NS: Nanos = 1_000_000;

/// How long a thread must have had nothing to do before it mends what has become slow. It goes on with that until it is needed.
const REST_NS: Nanos = 100_000_000;

const WAKE: SessionId = 0;
const LISTENER: SessionId = 1;
const FIRST_SESSION: SessionId = 2;

/// What the threads of a volume share.
#[derive(Debug)]
pub struct Threads {
    posts: Vec<Post>,
    /// Core of each thread.
    cpus: Vec<usize>,
    stopping: AtomicBool,
    next_session: AtomicU64,
    /// Who is connected.
    pub(crate) connections: Connections,
}

/// Where others hand connections to a thread.
#[derive(Debug)]
struct Post {
    connections: Mutex<Vec<Connection>>,
    wake: OwnedFd,
}

/// A connection with its socket.
#[derive(Debug)]
struct Connection {
    session: Session,
    socket: Socket,
    counters: Arc<ConnectionCounters>,
    /// What epoll was told.
    interest: Interest,
    turns: u32,
    /// A core other than this thread's, seen at the last look.
    elsewhere: Option<usize>,
}

#[derive(Debug)]
struct Socket {
    stream: TcpStream,
    /// What is sent by reference and has not gone.
    pipe: Option<SplicePipe>,
}

/// One thread.
#[derive(Debug)]
pub struct Reactor<S> {
    worker: Worker<S>,
    threads: Arc<Threads>,
    /// Number of this thread.
    own: usize,
    epoll: OwnedFd,
    listener: Option<TcpListener>,
    /// When to accept again after a failure.
    accept_again: Option<Nanos>,
    connections: HashMap<SessionId, Connection>,
    /// Connections that have more to do.
    again: Vec<SessionId>,
    clock: Clock,
}

impl Threads {
    /// Prepares `count` threads on these cores; several threads share a core if there are fewer cores.
    pub fn new(count: usize, cpus: &[usize]) -> io::Result<Arc<Self>> {
        let posts = (0..count).map(|_| Post::new()).collect::<io::Result<_>>()?;
        let cpus = cpus.iter().copied().cycle().take(count).collect();
        let next_session = FIRST_SESSION.into();
        Ok(Arc::new(Self {
            posts,
            cpus,
            stopping: AtomicBool::new(false),
            next_session,
            connections: Connections::default(),
        }))
    }

    /// Asks all threads to end.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
    }

    /// Has all threads look for what is due.
    pub fn wake(&self) {
        self.posts.iter().for_each(Post::wake);
    }

    /// The thread that serves connections of a core.
    fn of_cpu(&self, cpu: usize) -> Option<usize> {
        self.cpus.iter().position(|own| *own == cpu)
    }
}

impl Post {
    fn new() -> io::Result<Self> {
        // SAFETY: a system call without pointers.
        let wake = owned(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
        Ok(Self { connections: Mutex::default(), wake })
    }

    fn put(&self, connection: Connection) {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        self.wake();
    }

    fn take(&self) -> Vec<Connection> {
        let mut count = 0_u64;
        // SAFETY: eight bytes of our own. The count only needs to be taken away.
        unsafe { libc::read(self.wake.as_raw_fd(), (&raw mut count).cast(), 8) };
        std::mem::take(&mut *self.connections.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn wake(&self) {
        let one = 1_u64;
        // SAFETY: eight bytes of our own. It fails only if the thread has been woken 2⁶⁴ times already.
        unsafe { libc::write(self.wake.as_raw_fd(), (&raw const one).cast(), 8) };
    }
}

impl<S: Store> Reactor<S> {
    /// Thread number `own`. The first one gets the listener and hands out what it accepts.
    pub(crate) fn new(
        served: Arc<Served<S>>,
        counters: Arc<Counters>,
        threads: Arc<Threads>,
        own: usize,
        listener: Option<TcpListener>,
        clock: Clock,
    ) -> io::Result<Self> {
        // SAFETY: a system call without pointers.
        let epoll = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        watch(&epoll, libc::EPOLL_CTL_ADD, threads.posts[own].wake.as_raw_fd(), WAKE, libc::EPOLLIN)?;
        if let Some(listener) = &listener {
            listener.set_nonblocking(true)?;
            watch(&epoll, libc::EPOLL_CTL_ADD, listener.as_raw_fd(), LISTENER, libc::EPOLLIN)?;
        }
        let worker = Worker::new(served, own, counters);
        let (connections, again) = (HashMap::new(), Vec::new());
        Ok(Self { worker, threads, own, epoll, listener, accept_again: None, connections, again, clock })
    }

    /// Serves until the volume stops.
    pub fn run(mut self) -> io::Result<()> {
        pin(self.threads.cpus[self.own]);
        let mut events = [epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
        let mut due = Vec::new();
        let mut is_resting = false;
        while !self.threads.stopping.load(Ordering::Acquire) {
            let rest = self.worker.served.store.is_worn().then_some(if is_resting { 0 } else { REST_NS });
            let timeout = self.timeout().into_iter().chain(rest).min();
            let count = wait(&self.epoll, &mut events, timeout)?;
            let now = self.clock.now();
            is_resting = count == 0 && timeout == rest && rest.is_some() && self.worker.served.store.mend();
            for event in &events[..count] {
                self.event(event.u64, event.events as c_int, now)?;
            }
            self.due(&mut due, now);
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

    /// How long there is nothing to do unless something happens.
    fn timeout(&self) -> Option<Nanos> {
        if !self.again.is_empty() {
            return Some(0);
        }
        let reclaim = self.worker.served.store.reclaim().then_some(RECLAIM_WAIT_NS);
        let late = (LATE_NS * (self.worker.waiting() as Nanos).saturating_sub(1)).min(LATE_NS_MAX);
        let next = self.worker.next().map(|due| due.saturating_add(late)).into_iter().chain(self.accept_again).min();
        let timed = next.map(|next| next.saturating_sub(self.clock.now()));
        timed.into_iter().chain(reclaim).min()
    }

    fn event(&mut self, id: SessionId, events: c_int, now: Nanos) -> io::Result<()> {
        match id {
            WAKE => {
                for connection in self.threads.posts[self.own].take() {
                    self.adopt(connection);
                }
            }
            LISTENER => self.accept(now)?,
            // Nobody is there any more; a connection that waits for its time would be told so again and again.
            id if events & (libc::EPOLLERR | libc::EPOLLHUP) != 0 => self.close(id, &Close::Ended),
            id => self.turn(id, now),
        }
        Ok(())
    }

    /// Gives every connection its operations that are due.
    fn due(&mut self, touched: &mut Vec<SessionId>, now: Nanos) {
        self.worker.collect(now);
        while let Some(delayed) = self.worker.timers.pop(now) {
            let id = delayed.session;
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

    /// Accepts all who wait, each for the thread on whose core its packets arrive.
    fn accept(&mut self, now: Nanos) -> io::Result<()> {
        while let Some(listener) = &self.listener {
            match listener.accept() {
                Ok((stream, peer)) => {
                    self.worker.counters.calls.connections_accepted.add(1);
                    let id = self.threads.next_session.fetch_add(1, Ordering::Relaxed);
                    let connection = Connection::new(
                        Session::new(id, peer.ip().to_string()),
                        Socket { stream, pipe: None },
                        self.threads.connections.opened(id, peer),
                    );
                    connection.socket.prepare(peer.ip().is_loopback());
                    let thread = connection.socket.incoming_cpu().and_then(|cpu| self.threads.of_cpu(cpu));
                    self.place(connection, thread.unwrap_or(id as usize % self.threads.posts.len()));
                }
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

    fn watch_listener(&self, events: c_int) -> io::Result<()> {
        let Some(listener) = &self.listener else { return Ok(()) };
        watch(&self.epoll, libc::EPOLL_CTL_MOD, listener.as_raw_fd(), LISTENER, events)
    }

    /// Gives a connection to a thread, which may be this one.
    fn place(&mut self, connection: Connection, thread: usize) {
        if thread == self.own {
            self.adopt(connection);
        } else {
            self.threads.posts[thread].put(connection);
        }
    }

    /// Begins to serve a connection. What it had received elsewhere may be a complete call, so it has a turn.
    fn adopt(&mut self, mut connection: Connection) {
        connection.interest = Interest::Receive;
        let (fd, id) = (connection.socket.stream.as_raw_fd(), connection.session.id);
        if watch(&self.epoll, libc::EPOLL_CTL_ADD, fd, id, libc::EPOLLIN).is_ok() {
            self.connections.insert(id, connection);
            self.again.push(id);
        } else {
            self.threads.connections.closed(id);
            self.worker.counters.calls.connections_closed.add(1);
        }
    }

    /// One turn of a connection.
    fn turn(&mut self, id: SessionId, now: Nanos) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Connection { session, socket, counters, .. } = connection;
        let turned = session.turn(&mut self.worker, socket, now);
        counters.turned(&std::mem::take(&mut self.worker.turn), session.in_flight());
        match turned {
            Err(close) => self.close(id, &close),
            Ok(interest) => {
                connection.turns += 1;
                let look = connection.turns.is_multiple_of(TURNS_PER_LOOK) && interest == Interest::Receive;
                if interest == Interest::Turn {
                    self.again.push(id);
                }
                if self.tell(id, interest).is_err() {
                    return self.close(id, &Close::Ended);
                }
                if look {
                    self.look(id);
                }
            }
        }
    }

    /// Tells epoll what a connection waits for.
    fn tell(&mut self, id: SessionId, interest: Interest) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        if connection.interest == interest {
            return Ok(());
        }
        connection.interest = interest;
        let events = match interest {
            Interest::Receive => libc::EPOLLIN,
            Interest::Send => libc::EPOLLOUT,
            Interest::Turn | Interest::Due => 0,
        };
        watch(&self.epoll, libc::EPOLL_CTL_MOD, connection.socket.stream.as_raw_fd(), id, events)
    }

    /// Moves a connection to the core where its packets arrive, once they were seen there twice in a row.
    fn look(&mut self, id: SessionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let thread = connection.socket.incoming_cpu().and_then(|cpu| self.threads.of_cpu(cpu));
        let thread = thread.filter(|thread| *thread != self.own && connection.session.is_movable());
        let seen_before = thread.is_some() && connection.elsewhere == thread;
        connection.elsewhere = thread;
        if let (true, Some(thread)) = (seen_before, thread)
            && let Some(mut connection) = self.connections.remove(&id)
            && watch(&self.epoll, libc::EPOLL_CTL_DEL, connection.socket.stream.as_raw_fd(), id, 0).is_ok()
        {
            connection.elsewhere = None;
            self.threads.posts[thread].put(connection);
        }
    }

    fn close(&mut self, id: SessionId, close: &Close) {
        let Some(connection) = self.connections.remove(&id) else { return };
        if connection.session.forget(&mut self.worker, self.clock.now()) {
            self.threads.wake();
        }
        self.threads.connections.closed(id);
        self.worker.counters.calls.connections_closed.add(1);
        self.worker.counters.calls.protocol_errors.add(u64::from(close.is_protocol_error()));
    }
}

impl Connection {
    fn new(session: Session, socket: Socket, counters: Arc<ConnectionCounters>) -> Self {
        Self { session, socket, counters, interest: Interest::Receive, turns: 0, elsewhere: None }
    }
}

impl Socket {
    /// Sets options, which fail only on what is no socket.
    fn prepare(&self, is_loopback: bool) {
        let _ = (self.stream.set_nodelay(true), self.stream.set_nonblocking(true));
        if is_loopback {
            self.set(libc::SOL_SOCKET, libc::SO_SNDBUF, &LOOPBACK_SEND_BYTES);
            self.set(libc::IPPROTO_TCP, libc::TCP_CONGESTION, LOOPBACK_CONGESTION);
        }
    }

    /// Sets an option; without it things are slower, but right.
    fn set<V>(&self, level: c_int, option: c_int, value: &V) {
        let length = size_of::<V>() as libc::socklen_t;
        // SAFETY: a value of plain bytes and its length.
        unsafe { libc::setsockopt(self.stream.as_raw_fd(), level, option, (&raw const *value).cast(), length) };
    }

    /// The core on which the last packet arrived.
    fn incoming_cpu(&self) -> Option<usize> {
        let (mut cpu, mut length) = (0 as c_int, size_of::<c_int>() as libc::socklen_t);
        let fd = self.stream.as_raw_fd();
        // SAFETY: an integer of ours and its length.
        let status = unsafe {
            libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_INCOMING_CPU, (&raw mut cpu).cast(), &raw mut length)
        };
        (status == 0).then(|| usize::try_from(cpu).ok())?
    }
}

impl Transport for Socket {
    unsafe fn receive(&mut self, into: &[iovec]) -> io::Result<usize> {
        // SAFETY: the caller's promise.
        moved(unsafe { libc::readv(self.stream.as_raw_fd(), into.as_ptr(), into.len() as c_int) })
    }

    unsafe fn send(&mut self, from: &[iovec]) -> io::Result<usize> {
        // SAFETY: all zeros is an empty message.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = from.as_ptr().cast_mut();
        message.msg_iovlen = from.len();
        // SAFETY: the caller's promise; sending does not write through the pieces.
        moved(unsafe { libc::sendmsg(self.stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) })
    }

    fn prepare_to_refer(&mut self, pipes: &mut SplicePipes) -> bool {
        self.pipe = self.pipe.take().or_else(|| pipes.take());
        self.pipe.is_some()
    }

    unsafe fn refer(&mut self, pieces: impl Iterator<Item = (bool, iovec)>) -> io::Result<usize> {
        let socket = self.stream.as_raw_fd();
        // SAFETY: the caller's promise.
        self.pipe.as_mut().map_or(Ok(0), |pipe| unsafe { pipe.send(pieces, socket) })
    }

    fn flush(&mut self, pipes: &mut SplicePipes) -> io::Result<bool> {
        if let Some(pipe) = &mut self.pipe {
            if !pipe.drain(self.stream.as_raw_fd())? {
                return Ok(false);
            }
            self.pipe.take().into_iter().for_each(|pipe| pipes.give_back(pipe));
        }
        Ok(true)
    }
}

fn moved(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and known to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn watch(epoll: &OwnedFd, operation: c_int, fd: RawFd, id: SessionId, events: c_int) -> io::Result<()> {
    let mut event = epoll_event { events: events as u32, u64: id };
    // SAFETY: an event of ours.
    match unsafe { libc::epoll_ctl(epoll.as_raw_fd(), operation, fd, &raw mut event) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits for events, at most for `timeout` (to the nanosecond, which `epoll_wait` cannot).
fn wait(epoll: &OwnedFd, events: &mut [epoll_event], timeout: Option<Nanos>) -> io::Result<usize> {
    let timeout = timeout.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let (fd, none, length) = (epoll.as_raw_fd(), std::ptr::null::<libc::sigset_t>(), events.len());
    // SAFETY: `events` has room for `length` of them; there is no signal mask.
    let count =
        unsafe { libc::syscall(libc::SYS_epoll_pwait2, fd, events.as_mut_ptr(), length, timeout, none, 0_usize) };
    match usize::try_from(count) {
        Ok(count) => Ok(count),
        Err(_) => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            error => Err(error),
        },
    }
}

/// Cores that this process may use.
pub fn allowed_cpus() -> Vec<usize> {
    // SAFETY: a set is plain bits; all zeros is an empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: a set of ours and its size.
    unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    // SAFETY: the number is below the size of the set.
    let allowed = (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) });
    let cpus: Vec<_> = allowed.collect();
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// Binds this thread to a core and makes its timers exact. Without either it is slower, but right.
fn pin(cpu: usize) {
    // SAFETY: as in `allowed_cpus`.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
    }
}
