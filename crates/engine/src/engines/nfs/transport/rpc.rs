//! Waits for the calls of a conversation, one at a time on one connection: for set-up and layout.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iocurve_epoll::Epoll;
use iocurve_meter::{Clock, Nanos};
use iocurve_wire::client_fast::Malformed;
use iocurve_wire::mount3::MOUNT_PROGRAM;
use iocurve_wire::nfs3::NFS_PROGRAM;
use iocurve_wire::record::RECORD_MARK_BYTES;
use iocurve_wire::rpc::{Accepted, CallHeader, Procedure, Rejected, ReplyBody, ReplyHeader, auth_stat, opaque_auth};
use iocurve_wire::xdr::{Decode, Encode, Reader, to_bytes};

use super::super::conversation::{Conversation, Line, Question, Results, Turn, encode};
use super::super::load::connection::Connection;
use super::super::load::flight::Flight;
use super::super::load::incoming::{Incoming, Lost};
use super::super::nfs3::Nfs3;
use super::patience::{Patience, STOP_CHECK_NS, is_lost, silence_ns_max};
use super::socket::{Route, Socket};
use crate::error::{ConnectionError, EngineError, InvalidReply};
use crate::stall::{answered, has_answered};

/// Longest reply accepted; a list of exports is the longest kind.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// One call at a time on one connection, which is that of a load: connected again, and its call sent again, in the same way.
pub(in crate::engines::nfs) struct Rpc<'a> {
    connection: Connection,
    flight: Flight<Nfs3>,
    epoll: Epoll,
    clock: Clock,
    pub(in crate::engines::nfs) route: Route,
    pub(in crate::engines::nfs) server: String,
    pub(in crate::engines::nfs) timeout_ns: Nanos,
    stop: &'a AtomicBool,
    /// Name of the program, for messages.
    pub(in crate::engines::nfs) program: &'static str,
    pub(in crate::engines::nfs) credential: Vec<u8>,
    /// The last call was sent more than once: the server may have executed it before it answered.
    pub(in crate::engines::nfs) was_repeated: bool,
    has_answered: bool,
    /// A call has got no reply, or one that is not its own: what comes next on the connection belongs to no call.
    is_broken: bool,
}

impl<'a> Rpc<'a> {
    pub(in crate::engines::nfs) fn new(
        socket: Socket,
        route: Route,
        server: String,
        timeout_ns: Nanos,
        stop: &'a AtomicBool,
    ) -> io::Result<Self> {
        let (epoll, clock) = (Epoll::new()?, Clock::new());
        Ok(Self {
            connection: Connection::new(0, socket, &epoll, Incoming::new(0, REPLY_BYTES_MAX), clock.now())?,
            flight: Flight::of_conversations(),
            epoll,
            clock,
            route,
            server,
            timeout_ns,
            stop,
            program: "NFSv3",
            credential: to_bytes(&opaque_auth::NONE),
            was_repeated: false,
            has_answered: false,
            is_broken: false,
        })
    }

    /// Gives the connection to a load.
    pub(in crate::engines::nfs) fn take_socket(&mut self) -> Result<Socket, EngineError> {
        self.is_broken = true;
        self.connection.take_socket().ok_or_else(|| ConnectionError::GivenUp { server: self.server.clone() }.into())
    }

    /// Fails once calls should end.
    pub(in crate::engines::nfs) fn check_stop(&self) -> Result<(), EngineError> {
        if self.stop.load(Ordering::Relaxed) { Err(self.broken(io::Error::other("stopped"))) } else { Ok(()) }
    }

    /// Error for a reply that makes no sense.
    pub(in crate::engines::nfs) fn invalid(&self, why: impl Into<InvalidReply>) -> EngineError {
        ConnectionError::invalid(&self.server, self.program, why).into()
    }

    /// Makes the calls of a conversation, one after another.
    pub(in crate::engines::nfs) fn wait_for<T>(
        &mut self,
        mut conversation: Conversation<'_, T>,
    ) -> Result<T, EngineError> {
        let started = self.clock.now();
        loop {
            let now = self.clock.now() - started;
            match conversation.proceed(now, self.stop.load(Ordering::Relaxed)) {
                Turn::Asks(Question { record, .. }) => conversation.answer(Ok(self.answer(record)?)),
                Turn::Waits(until) => std::thread::sleep(Duration::from_nanos(until.saturating_sub(now))),
                Turn::Ends(result) => return result,
            }
        }
    }

    /// Makes one call, and returns the results in its reply.
    pub(in crate::engines::nfs) fn call(
        &mut self,
        procedure: Procedure,
        arguments: &(impl Encode + ?Sized),
    ) -> Result<Vec<u8>, EngineError> {
        let (line, record) = (Line::default(), encode(&self.credential, procedure, arguments));
        self.wait_for(Conversation::new(line.clone(), async move { Ok(line.ask(0, record).await?.bytes) }))
    }

    /// Parses results; bytes behind them are passed over.
    pub(in crate::engines::nfs) fn parsed<'r, T: Decode<'r>>(&self, results: &'r [u8]) -> Result<T, EngineError> {
        T::decode(&mut Reader::new(results)).map_err(|error| self.invalid(error))
    }

    /// Sends a call and waits for its reply. Once this has failed for want of a reply, every further call does so at once.
    fn answer(&mut self, call: Vec<u8>) -> Result<Results, EngineError> {
        if std::mem::replace(&mut self.is_broken, true) {
            return Err(ConnectionError::GivenUp { server: self.server.clone() }.into());
        }
        let reply = self.reply(call)?;
        if !self.has_answered {
            self.has_answered = true;
            answered(self.route.peer);
        }
        self.is_broken = false;
        self.was_repeated = reply.was_repeated;
        let is_encrypted = self.route.tls.is_some();
        let asked = Asked { server: &self.server, program: self.program, is_encrypted };
        asked.results(self.flight.question(), reply)
    }

    /// The reply to a call, from its `xid` on. A server that has answered before may restart meanwhile, or forget the
    /// connection: the call is sent again over a new connection, with the same `xid`, as on a hard mount.
    fn reply(&mut self, call: Vec<u8>) -> Result<Results, EngineError> {
        let patience = Patience::new(self.route.peer, self.timeout_ns, self.stop);
        let call = self.flight.open_question(call);
        self.flight.calls.assign(call, 0);
        self.connection.queue(call, &self.flight);
        loop {
            match self.exchange() {
                Ok(()) => {}
                Err(Lost::Closed(error)) if is_lost(&error) && has_answered(self.route.peer) => {
                    patience.note(&error);
                    self.connection.lose(self.clock.now());
                }
                Err(Lost::Closed(error)) => return Err(self.broken(error)),
                Err(Lost::Garbage(Malformed::UnknownXid)) => return Err(self.invalid(InvalidReply::AnotherCall)),
                Err(Lost::Garbage(Malformed::LongRecord)) => return Err(self.broken(too_long())),
                Err(Lost::Garbage(why)) => return Err(self.invalid(why)),
            }
            if let Some(reply) = self.flight.question_reply.take() {
                return Ok(reply);
            }
            patience.check().map_err(|error| self.broken(error))?;
        }
    }

    /// Sends and receives what the connection lets through now, or after a short wait.
    fn exchange(&mut self) -> Result<(), Lost> {
        let now = self.clock.now();
        let Self { connection, flight, epoll, .. } = self;
        let silent_ns = connection.unanswered_ns(flight, now);
        if has_answered(self.route.peer) {
            connection.check_silence(silent_ns, silence_ns_max(self.timeout_ns), now).map_err(Lost::Closed)?;
        }
        let again = connection.revive(&self.route, epoll, now).map_err(Lost::Closed)?;
        connection.flush(flight, Some(epoll))?;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }];
        let wait_ns = again.saturating_sub(now).min(STOP_CHECK_NS);
        if epoll.wait(&mut events, Some(wait_ns)).map_err(Lost::Closed)? == 0 {
            return Ok(());
        }
        if connection.attempt_ended(flight, epoll, &self.clock).map_err(Lost::Closed)? {
            flight.note_repeated(0);
            return Ok(());
        }
        connection.receive(false, flight, &mut Vec::new())
    }

    fn broken(&self, source: io::Error) -> EngineError {
        let Self { program, ref server, timeout_ns, .. } = *self;
        ConnectionError::Broken { program, server: server.clone(), timeout_ns, source }.into()
    }
}

/// The server of a call, for messages.
pub(in crate::engines::nfs) struct Asked<'s> {
    pub server: &'s str,
    pub program: &'static str,
    pub is_encrypted: bool,
}

impl Asked<'_> {
    /// The results in a reply to a call, or the reason that the server's RPC layer gives for having none.
    pub(in crate::engines::nfs) fn results(&self, call: &[u8], mut reply: Results) -> Result<Results, EngineError> {
        let mut reader = Reader::new(&reply.bytes);
        let header = ReplyHeader::decode(&mut reader).map_err(|error| self.invalid(error))?;
        match header.body {
            ReplyBody::MSG_ACCEPTED(accepted) if accepted.stat == Accepted::SUCCESS(()) => {
                let results_at = reply.bytes.len() - reader.rest().len();
                reply.bytes.drain(..results_at);
                Ok(reply)
            }
            ReplyBody::MSG_ACCEPTED(accepted) => Err(self.not_served(call, accepted.stat)),
            ReplyBody::MSG_DENIED(denied) => Err(self.denied(denied)),
        }
    }

    fn invalid(&self, why: impl Into<InvalidReply>) -> EngineError {
        ConnectionError::invalid(self.server, self.program, why).into()
    }

    fn denied(&self, denied: Rejected) -> EngineError {
        let server = self.server.to_owned();
        match denied {
            Rejected::AUTH_ERROR(auth_stat::AUTH_TOOWEAK) if !self.is_encrypted => {
                ConnectionError::NotEncrypted { server }.into()
            }
            Rejected::AUTH_ERROR(_) => ConnectionError::CredentialRefused { server }.into(),
            Rejected::RPC_MISMATCH(_) => self.invalid(InvalidReply::Denied(denied)),
        }
    }

    fn not_served(&self, call: &[u8], stat: Accepted) -> EngineError {
        let header = CallHeader::decode(&mut Reader::new(&call[RECORD_MARK_BYTES..])).expect("a call made here");
        let (server, version) = (self.server.to_owned(), header.vers);
        let program = match header.prog {
            NFS_PROGRAM => "NFS",
            MOUNT_PROGRAM => "MOUNT",
            _ => "portmapper",
        };
        match stat {
            Accepted::PROG_UNAVAIL(()) | Accepted::PROG_MISMATCH(_) => {
                ConnectionError::NotServed { server, program, version }.into()
            }
            stat => ConnectionError::NotPerformed { server, program, stat }.into(),
        }
    }
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "its reply is longer than any valid one")
}
