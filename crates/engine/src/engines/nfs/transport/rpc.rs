//! Waits for the calls of a conversation, one at a time on one connection: for set-up and layout.

use std::io::{self, IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iocurve_meter::Nanos;
use iocurve_wire::mount3::MOUNT_PROGRAM;
use iocurve_wire::nfs3::NFS_PROGRAM;
use iocurve_wire::record::{Progress, RECORD_MARK_BYTES, Reassembler, RecordTooLong};
use iocurve_wire::rpc::{Accepted, CallHeader, Rejected, ReplyBody, ReplyHeader, auth_stat, opaque_auth};
use iocurve_wire::xdr::{Decode, Encode, Reader, to_bytes};

use super::super::conversation::{Conversation, Line, Question, Results, Turn, encode, set_xid};
use super::super::stream::{Stream, not_now};
use super::patience::{Patience, STOP_CHECK_NS, connect_one, is_lost};
use super::socket::{Route, Socket};
use crate::error::{ConnectionError, EngineError, InvalidReply};
use crate::stall::{answered, has_answered};

/// Longest reply accepted; a list of exports is the longest kind.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// One call at a time on one connection.
pub(in crate::engines::nfs) struct Rpc<'a> {
    pub(in crate::engines::nfs) socket: Socket,
    pub(in crate::engines::nfs) route: Route,
    pub(in crate::engines::nfs) server: String,
    pub(in crate::engines::nfs) timeout_ns: Nanos,
    stop: &'a AtomicBool,
    /// Name of the program, for messages.
    pub(in crate::engines::nfs) program: &'static str,
    pub(in crate::engines::nfs) credential: Vec<u8>,
    xid: u32,
    reply: Vec<u8>,
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
    ) -> Self {
        let credential = to_bytes(&opaque_auth::NONE);
        // Differs from the xids of an earlier process with this address, which the server may remember.
        let xid = std::process::id().wrapping_shl(16) ^ Instant::now().elapsed().subsec_nanos();
        Self {
            socket,
            route,
            server,
            timeout_ns,
            stop,
            program: "NFSv3",
            credential,
            xid,
            reply: Vec::new(),
            was_repeated: false,
            has_answered: false,
            is_broken: false,
        }
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
        let started = Instant::now();
        loop {
            let now = started.elapsed().as_nanos() as Nanos;
            match conversation.proceed(now, self.stop.load(Ordering::Relaxed)) {
                Turn::Asks(Question { record, .. }) => conversation.answer(Ok(self.answer(record)?)),
                Turn::Waits(until) => std::thread::sleep(Duration::from_nanos(until.saturating_sub(now))),
                Turn::Ends(result) => return result,
            }
        }
    }

    /// Makes one call of a program, version and procedure, and returns the results in its reply.
    pub(in crate::engines::nfs) fn call(
        &mut self,
        procedure: [u32; 3],
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
    fn answer(&mut self, mut call: Vec<u8>) -> Result<Results, EngineError> {
        if std::mem::replace(&mut self.is_broken, true) {
            return Err(ConnectionError::GivenUp { server: self.server.clone() }.into());
        }
        self.xid = self.xid.wrapping_add(1);
        set_xid(&mut call, self.xid);
        self.exchange(&call).map_err(|error| self.broken(error))?;
        if !self.has_answered {
            self.has_answered = true;
            answered(self.route.peer);
        }
        let mut reader = Reader::new(&self.reply);
        let header = ReplyHeader::decode(&mut reader).map_err(|error| self.invalid(error))?;
        if header.xid != self.xid {
            return Err(self.invalid(InvalidReply::AnotherCall));
        }
        self.is_broken = false;
        match header.body {
            ReplyBody::MSG_ACCEPTED(accepted) if accepted.stat == Accepted::SUCCESS(()) => {
                Ok(Results { bytes: reader.rest().to_vec(), was_repeated: self.was_repeated })
            }
            ReplyBody::MSG_ACCEPTED(accepted) => Err(self.not_served(&call, accepted.stat)),
            ReplyBody::MSG_DENIED(denied) => Err(self.denied(denied)),
        }
    }

    /// Sends a record and receives one. A server that has answered before may restart meanwhile, or forget the
    /// connection: the call is sent again over a new connection, with the same `xid`, as on a hard mount.
    fn exchange(&mut self, call: &[u8]) -> io::Result<()> {
        let patience = Patience::new(self.route.peer, self.timeout_ns, self.stop);
        self.was_repeated = false;
        loop {
            match self.exchange_once(call, &patience) {
                Err(error) if is_lost(&error) && has_answered(self.route.peer) => {
                    patience.pause(&error)?;
                    self.socket = connect_one(&self.route, &patience)?;
                    self.was_repeated = true;
                }
                result => return result,
            }
        }
    }

    fn exchange_once(&mut self, call: &[u8], patience: &Patience<'_>) -> io::Result<()> {
        let mut sent = 0;
        while sent < call.len() {
            sent += self.retry(true, patience, |socket| socket.send(&[IoSlice::new(&call[sent..])]))?;
        }
        self.receive_record(patience)
    }

    /// Receives no byte beyond the record.
    fn receive_record(&mut self, patience: &Patience<'_>) -> io::Result<()> {
        let mut records = Reassembler::new(REPLY_BYTES_MAX);
        let mut received = Vec::new();
        loop {
            let mut input = &received[..];
            let missing = match records.advance(&mut input).map_err(too_long)? {
                Progress::Record(record) => {
                    self.reply.clear();
                    self.reply.extend_from_slice(record);
                    return Ok(());
                }
                Progress::NeedBytes { missing } => missing,
                Progress::Partial { arrived, length } => length - arrived.len(),
                Progress::Body(_) => unreachable!("no record is taken over"),
            };
            let taken = received.len() - input.len();
            received.drain(..taken);
            let start = received.len();
            received.resize(start + missing, 0);
            self.receive(&mut received[start..], patience)?;
        }
    }

    fn receive(&self, into: &mut [u8], patience: &Patience<'_>) -> io::Result<()> {
        let mut received = 0;
        while received < into.len() {
            match self
                .retry(false, patience, |socket| socket.receive(&mut [IoSliceMut::new(&mut into[received..])], false))?
            {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => received += bytes,
            }
        }
        Ok(())
    }

    /// Repeats an attempt until it does not block.
    fn retry(
        &self,
        write: bool,
        patience: &Patience<'_>,
        mut attempt: impl FnMut(&Socket) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            match attempt(&self.socket) {
                Err(error) if not_now(&error) => {}
                result => return result,
            }
            if !self.socket.wait(write, STOP_CHECK_NS)? {
                patience.check_silence()?;
            }
        }
    }

    fn broken(&self, source: io::Error) -> EngineError {
        let Self { program, ref server, timeout_ns, .. } = *self;
        ConnectionError::Broken { program, server: server.clone(), timeout_ns, source }.into()
    }

    fn denied(&self, denied: Rejected) -> EngineError {
        let server = self.server.clone();
        match denied {
            Rejected::AUTH_ERROR(auth_stat::AUTH_TOOWEAK) if self.route.tls.is_none() => {
                ConnectionError::NotEncrypted { server }.into()
            }
            Rejected::AUTH_ERROR(_) => ConnectionError::CredentialRefused { server }.into(),
            Rejected::RPC_MISMATCH(_) => self.invalid(InvalidReply::Denied(denied)),
        }
    }

    fn not_served(&self, call: &[u8], stat: Accepted) -> EngineError {
        let header = CallHeader::decode(&mut Reader::new(&call[RECORD_MARK_BYTES..])).expect("a call made here");
        let (server, version) = (self.server.clone(), header.vers);
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

fn too_long(_: RecordTooLong) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "its reply is longer than any valid one")
}
