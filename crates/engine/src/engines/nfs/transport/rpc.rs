//! One call at a time on one connection, for set-up and layout.

use std::fmt::Display;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iocurve_meter::{Nanos, SECOND};
use iocurve_wire::mount3::MOUNT_PROGRAM;
use iocurve_wire::nfs3::NFS_PROGRAM;
use iocurve_wire::record::{Progress, RECORD_MARK_BYTES, Reassembler, RecordTooLong, write_record};
use iocurve_wire::rpc::{Accepted, CallHeader, RPC_VERSION, Rejected, ReplyBody, ReplyHeader, auth_stat, opaque_auth};
use iocurve_wire::xdr::{Decode, Encode, Reader, to_bytes};

use super::super::conversation::{Conversation, Question, Results, Turn};
use super::patience::{Patience, STOP_CHECK_NS, connect_one, is_lost};
use super::socket::{DONTWAIT, Route, Socket, not_now};
use crate::error::EngineError;
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
        if self.stop.load(Ordering::Relaxed) { Err(self.broken(&io::Error::other("stopped"))) } else { Ok(()) }
    }

    /// Error for a reply that makes no sense.
    pub(in crate::engines::nfs) fn invalid(&self, why: &dyn Display) -> EngineError {
        invalid_reply(&self.server, self.program, why)
    }

    /// Makes the calls of a conversation with a version of the NFS program, one after another.
    pub(in crate::engines::nfs) fn wait_for<T>(
        &mut self,
        mut conversation: Conversation<'_, T>,
        version: u32,
    ) -> Result<T, EngineError> {
        let started = Instant::now();
        loop {
            let now = started.elapsed().as_nanos() as Nanos;
            match conversation.proceed(now, self.stop.load(Ordering::Relaxed)) {
                Turn::Asks(Question { record, .. }) => {
                    let bytes = self.send(record, NFS_PROGRAM, version)?.to_vec();
                    conversation.answer(Ok(Results { bytes, was_repeated: self.was_repeated }));
                }
                Turn::Waits(until) => std::thread::sleep(Duration::from_nanos(until.saturating_sub(now))),
                Turn::Ends(result) => return result,
            }
        }
    }

    /// Calls a procedure; the results do not borrow from the reply.
    pub(in crate::engines::nfs) fn call<R: for<'r> Decode<'r>>(
        &mut self,
        program: u32,
        version: u32,
        procedure: u32,
        arguments: &(impl Encode + ?Sized),
    ) -> Result<R, EngineError> {
        let (server, program_name) = (self.server.clone(), self.program);
        let results = self.transact(program, version, procedure, arguments)?;
        R::decode(&mut Reader::new(results)).map_err(|error| invalid_reply(&server, program_name, &error))
    }

    /// Sends a call and returns the results in its reply, as [`Self::send`].
    pub(in crate::engines::nfs) fn transact(
        &mut self,
        program: u32,
        version: u32,
        procedure: u32,
        arguments: &(impl Encode + ?Sized),
    ) -> Result<&[u8], EngineError> {
        let call = encode(&self.credential, (program, version, procedure), arguments);
        self.send(call, program, version)
    }

    /// Sends a call that is encoded and returns the results in its reply. Once this has failed for want of a reply, every
    /// further call does so at once.
    pub(in crate::engines::nfs) fn send(
        &mut self,
        mut call: Vec<u8>,
        program: u32,
        version: u32,
    ) -> Result<&[u8], EngineError> {
        if std::mem::replace(&mut self.is_broken, true) {
            return Err(EngineError::Connection(format!("the connection to server {} is given up", self.server)));
        }
        self.xid = self.xid.wrapping_add(1);
        set_xid(&mut call, self.xid);
        self.exchange(&call).map_err(|error| self.broken(&error))?;
        if !self.has_answered {
            self.has_answered = true;
            answered(self.route.peer);
        }
        let mut reader = Reader::new(&self.reply);
        let header =
            ReplyHeader::decode(&mut reader).map_err(|error| invalid_reply(&self.server, self.program, &error))?;
        if header.xid != self.xid {
            return Err(invalid_reply(&self.server, self.program, &"it answers another call"));
        }
        self.is_broken = false;
        match header.body {
            ReplyBody::MSG_ACCEPTED(accepted) if accepted.stat == Accepted::SUCCESS(()) => Ok(reader.rest()),
            ReplyBody::MSG_ACCEPTED(accepted) => Err(self.not_served(program, version, &accepted.stat)),
            ReplyBody::MSG_DENIED(Rejected::AUTH_ERROR(auth_stat::AUTH_TOOWEAK)) if self.route.tls.is_none() => {
                Err(EngineError::Connection(format!(
                    "server {} refuses calls that are not encrypted: add tls to the URL (nfs://…?tls)",
                    self.server
                )))
            }
            ReplyBody::MSG_DENIED(Rejected::AUTH_ERROR(_)) => Err(EngineError::Connection(format!(
                "server {} refuses AUTH_SYS credentials from this client: check its exports, and whether it wants a \
                 privileged port (option insecure)",
                self.server
            ))),
            ReplyBody::MSG_DENIED(denied) => {
                Err(invalid_reply(&self.server, self.program, &format!("it denies the call: {denied:?}")))
            }
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
            sent += self.retry(true, patience, |socket| socket.send(&call[sent..]))?;
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
            match self.retry(false, patience, |socket| socket.receive(&mut into[received..], DONTWAIT))? {
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

    fn broken(&self, error: &io::Error) -> EngineError {
        let server = &self.server;
        EngineError::Connection(match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                format!(
                    "server {server} closed the connection without an answer: is this the port of an {} server?",
                    self.program
                )
            }
            io::ErrorKind::TimedOut => {
                format!("server {server} did not answer within {:.1} s", seconds(self.timeout_ns))
            }
            _ => format!("server {server}: {error}"),
        })
    }

    fn not_served(&self, program: u32, version: u32, stat: &Accepted) -> EngineError {
        let name = match program {
            NFS_PROGRAM => "NFS",
            MOUNT_PROGRAM => "MOUNT",
            _ => "portmapper",
        };
        EngineError::Connection(match stat {
            Accepted::PROG_UNAVAIL(()) | Accepted::PROG_MISMATCH(_) => {
                format!("server {} does not serve {name} version {version} on this port; check the port", self.server)
            }
            _ => format!("server {} could not perform a call to {name}: {stat:?}", self.server),
        })
    }
}

/// Encodes a call of a program, version and procedure, record mark first, without its `xid`.
pub(in crate::engines::nfs) fn encode(
    credential: &[u8],
    (prog, vers, proc): (u32, u32, u32),
    arguments: &(impl Encode + ?Sized),
) -> Vec<u8> {
    let mut call = Vec::new();
    let cred = opaque_auth::decode(&mut Reader::new(credential)).expect("a credential made here");
    let header = CallHeader { xid: 0, rpcvers: RPC_VERSION, prog, vers, proc, cred, verf: opaque_auth::NONE };
    write_record(&mut call, |writer| {
        header.encode(writer);
        arguments.encode(writer);
    });
    call
}

/// Sets the `xid` of an encoded call.
pub(in crate::engines::nfs) fn set_xid(call: &mut [u8], xid: u32) {
    call[RECORD_MARK_BYTES..RECORD_MARK_BYTES + 4].copy_from_slice(&xid.to_be_bytes());
}

fn too_long(_: RecordTooLong) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "its reply is longer than any valid one")
}

/// Error for a reply that makes no sense.
pub(in crate::engines::nfs) fn invalid_reply(server: &str, program: &str, why: &dyn Display) -> EngineError {
    EngineError::Connection(format!("invalid reply from server {server} ({why}); is it an {program} server?"))
}

/// Nanoseconds in seconds, for messages.
pub(in crate::engines::nfs) fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / SECOND as f64
}
