//! [`NfsEngine`] carries the load. On the hot path a call is a template with a few words patched in
//! (`iocurve_wire::client_fast`), all calls of a round leave in one send per connection (`outgoing`), all replies of a
//! receive are parsed in place (`incoming`), and a reply finds its call by its `xid` (`table`). `flight` has the operations of these calls, with what must be committed
//! (`commits`) or sent again (`recovery`). A connection that broke,
//! or on which no reply comes, is re-established and its calls are sent again, as in a hard mount (`connection`).

mod commits;
pub(super) mod connection;
pub(super) mod flight;
pub(super) mod incoming;
pub(super) mod outgoing;
mod recovery;
mod table;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use iocurve_epoll::Epoll;
use iocurve_meter::{Clock, Nanos};
use iocurve_wire::client_fast::Malformed;

use crate::engines::buffers::SlotMap;
use crate::engines::request::{Completion, Engine, Request};
use crate::error::{ConnectionError, EngineError, TargetError};
use crate::outcome::ConnectionOutcome;
use crate::plan::{FilePlan, NfsMount};
use crate::stall::Waiting;

use self::connection::Connection;
use self::flight::{CALLS_MAX, Flight};
use self::incoming::{Incoming, Lost, NAMED_REPLY_BYTES_MAX};
use super::calls::Mountable;
use super::conversation::{Conversation, JUKEBOX_DELAY_NS, Question, Turn};
use super::export::Export;
use super::protocol::{CallLimits, Protocol, SlotCounts};
use super::status::refused;
use super::transport::patience::{LEAVE_NS, silence_ns_max};
use super::transport::rpc::{Asked, Rpc};
use super::transport::socket::{RECEIVE_WAIT_NS, Route};
use super::version::Version;

/// Most connections of one mount, as in the Linux client.
const CONNECTIONS_MAX: u32 = 16;
/// Longest time between two checks of connections, postponed calls and the stop flag.
const MAINTENANCE_NS: Nanos = 100_000_000;
/// A blocking receive can end one kernel tick late; it is used only when the deadline is further away.
const RECEIVE_WAIT_ROOM_NS: Nanos = RECEIVE_WAIT_NS + 10_000_000;
/// A load without an answer for this time is a stall; a server that limits its rate answers something sooner.
const SILENCE_NS: Nanos = 2_000_000_000;
/// A load without an answer and without a connection for this time is a stall.
const ABSENCE_NS: Nanos = 500_000_000;
/// Longest time between two steps towards a new session.
const RECOVERY_CHECK_NS: Nanos = 5_000_000;
/// Most invalid replies in one run.
const GARBAGE_MAX: u32 = 5;

/// Performs reads and writes on files of one export, by one version of NFS.
#[derive(Debug)]
#[expect(private_bounds, reason = "the versions are this module's")]
pub struct NfsEngine<P: Protocol> {
    /// `host:port`, for messages.
    server: String,
    route: Route,
    mount: NfsMount,
    timeout_ns: Nanos,
    paths: Vec<String>,
    connections: Vec<Connection>,
    pub(in crate::engines::nfs) flight: Flight<P>,
    epoll: Epoll,
    clock: Clock,
    stop: Arc<AtomicBool>,
    /// Connection for the next call, if no other has a smaller load.
    next: usize,
    /// Time of the next maintenance.
    alarm: Nanos,
    /// Calls that the server asked to repeat later, and their times.
    postponed: VecDeque<(Nanos, u32)>,
    reconnects: u64,
    garbage: u32,
    /// Makes a new session, if the former one was lost.
    recovering: Option<Conversation<'static, P>>,
    recoveries: u64,
    /// Time since which no call was in flight.
    quiet_since: Nanos,
    /// Error of the last connection that broke or could not be established.
    last_error: Option<String>,
    /// The server is waited for.
    stall: Option<Waiting>,
}

#[expect(private_bounds, reason = "the versions are this module's")]
impl<P: Mountable> NfsEngine<P> {
    /// Mounts the export on `nconnect` connections and looks up the files, which must exist ([`layout`]).
    ///
    /// Deadlines in `reap` are in `clock`'s time. Once `stop` is set, `reap` waits for at most 100 ms.
    pub fn connect(
        mount: &NfsMount,
        files: &[FilePlan],
        slots: SlotMap,
        depth: u32,
        clock: Clock,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, EngineError> {
        Version::of(mount)?;
        let watched = Arc::clone(&stop);
        let mut export = Export::<P>::mount(mount, &watched)?;
        let mut handles = Vec::with_capacity(files.len());
        for file in files {
            handles.push((file.path.clone(), export.existing(&file.path)?));
        }
        Self::with_handles(export, mount, handles, slots, depth, clock, stop)
    }

    pub(in crate::engines::nfs) fn with_handles(
        export: Export<'_, P>,
        mount: &NfsMount,
        files: Vec<(String, P::Handle)>,
        slots: SlotMap,
        depth: u32,
        clock: Clock,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, EngineError> {
        let limits = export.limits();
        check_limits(mount, limits, depth, &slots)?;
        let (server, route) = (export.server().to_owned(), export.route());
        let (protocol, sockets) = export.start(mount, &files)?;
        let epoll = Epoll::new().map_err(|source| EngineError::System { action: "make an epoll set", source })?;
        let read_bytes_max = limits.read.min(u32::try_from(slots.stride()).unwrap_or(u32::MAX));
        let mut connections = Vec::new();
        for (number, socket) in sockets.into_iter().enumerate() {
            let incoming = Incoming::new(read_bytes_max, NAMED_REPLY_BYTES_MAX);
            let connection = Connection::new(number, socket, &epoll, incoming, clock.now());
            connections.push(connection.map_err(|source| EngineError::System { action: "watch a socket", source })?);
        }
        let flight = Flight::new(protocol, slots, depth, connections.len(), limits, mount);
        Ok(Self {
            server,
            route,
            mount: mount.clone(),
            timeout_ns: mount.timeout_ns,
            paths: files.into_iter().map(|(path, _)| path).collect(),
            connections,
            flight,
            epoll,
            clock,
            stop,
            next: 0,
            alarm: 0,
            postponed: VecDeque::new(),
            reconnects: 0,
            garbage: 0,
            recovering: None,
            recoveries: 0,
            quiet_since: 0,
            last_error: None,
            stall: None,
        })
    }
}

#[expect(private_bounds, reason = "the versions are this module's")]
impl<P: Protocol> NfsEngine<P> {
    /// Sends a call, or lets it wait for a slot of the session.
    pub(in crate::engines::nfs) fn dispatch(&mut self, call: u32) {
        if self.flight.acquire(call) {
            self.place(call);
        } else {
            self.flight.wait(call, self.clock.now());
        }
    }

    /// Puts a call on the connection with the smallest load; in turn if loads are equal.
    fn place(&mut self, call: u32) {
        let connection = self.least_loaded();
        self.next = if connection + 1 == self.connections.len() { 0 } else { connection + 1 };
        self.flight.calls.assign(call, connection);
        self.connections[connection].queue(call, &self.flight);
    }

    #[inline]
    fn least_loaded(&self) -> usize {
        if self.connections.len() == 1 {
            return 0;
        }
        let mut best = (u32::MAX, self.next);
        for step in 0..self.connections.len() {
            let number = (self.next + step) % self.connections.len();
            let calls = self.flight.calls.load(number).calls;
            if calls < best.0 && self.connections[number].is_up() {
                best = (calls, number);
            }
        }
        best.1
    }

    pub(in crate::engines::nfs) fn flush(&mut self) -> Result<(), EngineError> {
        let count = self.connections.len();
        for number in 0..count {
            let epoll = (count > 1).then_some(&self.epoll);
            if let Err(lost) = self.connections[number].flush(&self.flight, epoll) {
                self.lost(number, lost)?;
            }
        }
        Ok(())
    }

    /// Waits for replies or events, at most 100 ms or until `deadline`, and handles them.
    pub(in crate::engines::nfs) fn round(
        &mut self,
        now: Nanos,
        deadline: Nanos,
        done: &mut Vec<Completion>,
    ) -> Result<(), EngineError> {
        if now >= self.alarm {
            self.maintain(now)?;
            self.flush()?;
        }
        self.receive(now, deadline.min(now + MAINTENANCE_NS), done)?;
        if let Some(file) = self.flight.commits.less_stable {
            let (server, path) = (self.server.clone(), self.paths[file as usize].clone());
            return Err(TargetError::InvalidReply { path, server, why: Malformed::LessStable }.into());
        }
        if self.flight.recovery.state_lost.is_some() {
            self.recover(now)?;
        }
        self.reissue(now);
        self.flush()
    }

    /// Waits for replies, at most until `deadline`, and handles all that have arrived.
    fn receive(&mut self, now: Nanos, deadline: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        let until = if self.postponed.is_empty() { deadline } else { deadline.min(self.alarm) };
        let wait_ns = until.saturating_sub(now);
        if let [connection] = self.connections.as_slice()
            && let Some((socket, sends)) = connection.socket()
        {
            // Waits in the socket itself: one system call less than with epoll.
            let blocks = wait_ns >= RECEIVE_WAIT_ROOM_NS && !sends;
            if !blocks && wait_ns > 0 {
                let events = if sends { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
                let ready = socket.wait_for(events, wait_ns).unwrap_or(events);
                if ready & !libc::POLLOUT == 0 {
                    return Ok(());
                }
            }
            return self.receive_on(0, blocks, done);
        }
        self.receive_on_all(wait_ns.min(self.alarm.saturating_sub(now)), done)
    }

    fn receive_on_all(&mut self, wait_ns: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; CONNECTIONS_MAX as usize];
        let count = self
            .epoll
            .wait(&mut events, Some(wait_ns))
            .map_err(|source| EngineError::System { action: "wait for replies", source })?;
        for event in &events[..count] {
            let number = event.u64 as usize;
            match self.connections[number].attempt_ended(&self.flight, &self.epoll, &self.clock) {
                Ok(false) => self.receive_on(number, false, done)?,
                Ok(true) => {
                    self.reconnects += 1;
                    self.flight.note_repeated(number);
                }
                Err(error) => self.lost(number, Lost::Closed(error))?,
            }
        }
        Ok(())
    }

    fn receive_on(&mut self, number: usize, waits: bool, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        match self.connections[number].receive(waits, &mut self.flight, done) {
            Ok(()) => Ok(()),
            Err(lost) => self.lost(number, lost),
        }
    }

    /// Repeats calls that moved only some of their bytes, and postpones those that the server asked to repeat later.
    fn reissue(&mut self, now: Nanos) {
        while let Some(call) = self.flight.recovery.retry_now.pop() {
            self.dispatch(call);
        }
        while let Some(call) = self.flight.recovery.retry_later.pop() {
            let due = now + JUKEBOX_DELAY_NS;
            self.postponed.push_back((due, call));
            self.alarm = self.alarm.min(due);
        }
        if self.flight.recovery.has_waiting() {
            let now = self.clock.now();
            while let Some(call) = self.flight.acquire_next(now) {
                self.place(call);
            }
        }
    }

    /// Periodic work: timeouts, new connections and sessions, postponed calls.
    #[cold]
    fn maintain(&mut self, now: Nanos) -> Result<(), EngineError> {
        self.alarm = now + MAINTENANCE_NS;
        self.renew(now);
        while let Some(&(due, call)) = self.postponed.front() {
            if due > now {
                self.alarm = self.alarm.min(due);
                break;
            }
            self.postponed.pop_front();
            self.dispatch(call);
        }
        let mut silent_ns = 0;
        for number in 0..self.connections.len() {
            let connection = &mut self.connections[number];
            let unanswered_ns = connection.unanswered_ns(&self.flight, now);
            silent_ns = silent_ns.max(unanswered_ns);
            if unanswered_ns > self.timeout_ns {
                return Err(self.given_up(unanswered_ns));
            }
            let checked = connection.check_silence(unanswered_ns, silence_ns_max(self.timeout_ns), now);
            match checked.and_then(|()| connection.revive(&self.route, &self.epoll, now)) {
                Ok(again) => self.alarm = self.alarm.min(again),
                Err(error) => self.lost(number, Lost::Closed(error))?,
            }
        }
        self.note_stall(silent_ns);
        Ok(())
    }

    /// Tells a stall, or that it is over. `silent_ns` is the longest time for which a call is unanswered.
    fn note_stall(&mut self, silent_ns: Nanos) {
        let is_up = self.connections.iter().all(Connection::is_up);
        if self.stall.is_some() && is_up && silent_ns < MAINTENANCE_NS {
            self.stall = None;
        } else if self.stall.is_none() && silent_ns >= if is_up { SILENCE_NS } else { ABSENCE_NS } {
            let reason = self.last_error.clone().unwrap_or_else(|| "it does not answer".to_owned());
            self.stall = Waiting::begin(&self.route.peer.to_string(), reason, silent_ns);
        }
    }

    /// Renews the lease of a client that makes no calls.
    fn renew(&mut self, now: Nanos) {
        if !self.flight.calls.is_empty() {
            self.quiet_since = now;
        } else if now.saturating_sub(self.quiet_since) > self.flight.protocol.renewal_ns()
            && let Some(call) = self.flight.open_renewal()
        {
            self.quiet_since = now;
            self.dispatch(call);
        }
    }

    /// Goes on to make a new session, by calls between those of the load, which wait meanwhile.
    #[cold]
    fn recover(&mut self, now: Nanos) -> Result<(), EngineError> {
        if self.recovering.is_none() {
            self.flight.suspend();
            self.recovering = self.flight.protocol.recovery(&self.mount, &self.server);
            // Replies to calls of the former session may still come on these.
            self.connections.iter_mut().for_each(|connection| connection.lose(now));
            self.alarm = now;
        }
        let Some(recovering) = &mut self.recovering else {
            self.flight.recovery.state_lost = None;
            return Ok(());
        };
        if let Some(reply) = self.flight.question_reply.take() {
            let asked = Asked { server: &self.server, program: P::NAME, is_encrypted: self.route.tls.is_some() };
            recovering.answer(asked.results(self.flight.question(), reply));
        }
        match recovering.proceed(now, false) {
            Turn::Asks(Question { record, connection }) => {
                let call = self.flight.open_question(record);
                self.flight.calls.assign(call, connection);
                self.connections[connection].queue(call, &self.flight);
            }
            Turn::Waits(_) => self.alarm = self.alarm.min(now + RECOVERY_CHECK_NS),
            Turn::Ends(recovered) => {
                self.recovering = None;
                self.recoveries += 1;
                self.flight.resume(recovered?);
            }
        }
        Ok(())
    }

    #[cold]
    fn lost(&mut self, number: usize, lost: Lost) -> Result<(), EngineError> {
        let now = self.clock.now();
        self.last_error = Some(match lost {
            Lost::Closed(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                "the server closed the connection".to_owned()
            }
            Lost::Closed(error) => error.to_string(),
            Lost::Garbage(why) => {
                self.garbage += 1;
                if self.garbage >= GARBAGE_MAX {
                    return Err(self.invalid_reply(why));
                }
                why.to_string()
            }
        });
        self.connections[number].lose(now);
        self.alarm = now;
        Ok(())
    }

    fn invalid_reply(&self, why: Malformed) -> EngineError {
        let server = self.server.clone();
        ConnectionError::InvalidReplies { server, program: P::NAME, count: GARBAGE_MAX, last: why }.into()
    }

    fn given_up(&self, unanswered_ns: Nanos) -> EngineError {
        let (server, last_error, timeout_ns) = (self.server.clone(), self.last_error.clone(), self.timeout_ns);
        ConnectionError::Silent { server, silent_ns: unanswered_ns, timeout_ns, last_error }.into()
    }

    fn commit_failed(&self) -> Result<(), EngineError> {
        match self.flight.commits.failure {
            Some((file, status)) => {
                let path = self.paths.get(file as usize).map_or("a file that is still open", String::as_str);
                Err(refused::<P>("commit", path, status))
            }
            None => Ok(()),
        }
    }

    pub(in crate::engines::nfs) fn now(&self) -> Nanos {
        self.clock.now()
    }

    pub(in crate::engines::nfs) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Gives back what the server keeps for this client.
impl<P: Protocol> Drop for NfsEngine<P> {
    fn drop(&mut self) {
        if self.flight.calls.is_empty()
            && let Some(socket) = self.connections.iter_mut().find_map(Connection::take_socket)
            && let Some(leaving) = self.flight.protocol.leave(&self.server)
        {
            let (server, never) = (self.server.clone(), AtomicBool::new(false));
            let _ = Rpc::new(socket, self.route.clone(), server, LEAVE_NS, &never)
                .map(|mut connected| connected.wait_for(leaving));
        }
    }
}

impl<P: Protocol> Engine for NfsEngine<P> {
    fn submit(&mut self, request: Request) -> Result<(), EngineError> {
        if let Some(why) = self.flight.refusal(&request) {
            return Err(EngineError::Plan(why));
        }
        let bytes_max = self.flight.call_bytes_max(request.kind);
        let calls = if request.kind.is_flush() { 1 } else { request.address.length.div_ceil(bytes_max).max(1) };
        self.flight.open_operation(request.slot, calls);
        let mut at = 0;
        for _ in 0..calls {
            let length = (request.address.length - at).min(bytes_max);
            let call = self.flight.open_call(&request, at, length);
            self.dispatch(call);
            at += length;
        }
        Ok(())
    }

    fn inspect(&mut self, slot: u32) {
        self.flight.inspect(slot);
    }

    fn send(&mut self) -> Result<(), EngineError> {
        self.flush()
    }

    fn reap(&mut self, min: usize, deadline: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        let wanted = done.len() + min;
        self.flush()?;
        loop {
            let now = self.clock.now();
            self.round(now, if done.len() >= wanted { now } else { deadline }, done)?;
            if done.len() >= wanted || now >= deadline || self.stopped() {
                return Ok(());
            }
        }
    }

    fn settle(&mut self) -> Result<(), EngineError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), EngineError> {
        let mut done = Vec::new();
        while !self.stopped() {
            while let Some(call) = self.flight.open_commit() {
                self.dispatch(call);
            }
            if self.flight.calls.is_empty() {
                break;
            }
            self.flush()?;
            let now = self.clock.now();
            self.round(now, now + MAINTENANCE_NS, &mut done)?;
            done.clear();
        }
        self.commit_failed()
    }

    fn idle(&mut self) -> Result<(), EngineError> {
        let now = self.clock.now();
        // Replies to what was due at the last alarm have come.
        if now >= self.alarm { self.round(now, now, &mut Vec::new()) } else { Ok(()) }
    }

    fn describe(&self) -> String {
        let count = self.connections.len();
        let plural = if count == 1 { "" } else { "s" };
        let congestion = self.connections.iter().find_map(Connection::congestion_control);
        let congestion = congestion.map(|name| format!(" ({name})")).unwrap_or_default();
        format!("user-space {} over {count} TCP connection{plural}{congestion} to {}", P::NAME, self.server)
    }

    fn labels(&self) -> Vec<String> {
        let labels = [
            (self.flight.payload_discarded, "payload_discarded"),
            (self.flight.commits.verifier_changes > 0, "write_verifier_changed"),
        ];
        labels.iter().filter(|(holds, _)| *holds).map(|(_, label)| (*label).to_owned()).collect()
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        let changes = self.flight.commits.verifier_changes;
        let verifier_changes = (changes > 0).then(|| ("verifier_changes".to_owned(), changes)).into_iter();
        let Some(SlotCounts { slots, calls }) = self.flight.protocol.slots() else { return verifier_changes.collect() };
        let waits = self.flight.recovery.slot_waits;
        let counters = [
            ("session_slots", slots),
            ("session_calls", waits.calls_before + calls),
            ("slot_waits", waits.calls),
            ("slot_wait_ns", waits.wait_ns),
            ("session_recoveries", self.recoveries),
        ];
        counters.into_iter().map(|(name, count)| (name.to_owned(), count)).chain(verifier_changes).collect()
    }

    fn connections(&self) -> Vec<ConnectionOutcome> {
        self.connections.iter().filter_map(Connection::tcp_info).collect()
    }

    fn reconnects(&self) -> u64 {
        self.reconnects
    }
}

fn check_limits(mount: &NfsMount, limits: CallLimits, depth: u32, slots: &SlotMap) -> Result<(), EngineError> {
    if !(1..=CONNECTIONS_MAX).contains(&mount.nconnect) {
        return Err(EngineError::Plan(format!("nconnect is {}; it must be 1 to {CONNECTIONS_MAX}", mount.nconnect)));
    }
    if limits.calls(depth, slots.stride()) > CALLS_MAX {
        return Err(EngineError::Plan(format!(
            "{depth} operations of {} bytes at a time are too many: the server takes {} bytes in one call; use a smaller \
             depth or block",
            slots.stride(),
            limits.read.min(limits.write)
        )));
    }
    Ok(())
}
