//! The versions of NFS: how an operation becomes a call, and what its reply means.
//!
//! The engine is compiled once for each version, so that this layer costs no call through a pointer.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use iocurve_meter::Nanos;
use iocurve_wire::client_fast::{CommitResult, ReadResult, Reply, Unparsed, WriteResult};

use super::socket::{Route, Socket};
use crate::error::EngineError;
use crate::plan::NfsMount;

/// Limits of one call, as the server reports them.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallLimits {
    /// Most bytes of one READ.
    pub read: u32,
    /// Most bytes of one WRITE.
    pub write: u32,
}

impl CallLimits {
    /// Calls that a table needs for `depth` operations of at most `bytes` each.
    pub(super) fn calls(self, depth: u32, bytes: usize) -> u64 {
        let parts = (bytes as u64).div_ceil(u64::from(self.read.min(self.write))).max(1);
        (u64::from(depth.max(1)) * parts).next_power_of_two()
    }
}

/// Kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallKind {
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// COMMIT of a whole file; without a slot if it is not an operation of the worker.
    Commit,
    /// Renewal of the lease; without a slot.
    Renewal,
}

/// A version of NFS, with the files of one load.
pub(super) trait Protocol: Debug + Sized + Send + 'static {
    /// Name in messages and results.
    const NAME: &'static str;
    /// Bytes before the payload of a usual READ reply, record mark included.
    const READ_REPLY_HEAD_BYTES: usize;

    /// What a call and each repetition of it carry to be executed once: slot and sequence id of a session.
    type Sequence: Copy + Default + Debug + Send;
    /// Names a file to the server.
    type Handle: Clone + Debug;
    /// A mounted export.
    type Session<'a>: Session<'a, Self>;

    /// Number of files.
    fn files(&self) -> usize;

    /// Slots of the server's session, and calls made on them; `None` without sessions.
    fn slots(&self) -> Option<SlotCounts>;

    /// Appends a call, record mark first; a WRITE ends where its payload begins.
    fn append(&self, kind: CallKind, call: Arguments<Self::Sequence>, out: &mut Vec<u8>);

    /// Takes what a new call needs to be sent; `None` if it must wait until an earlier call has returned its own.
    fn acquire(&mut self) -> Option<Self::Sequence>;

    /// Returns it; `executed` if the server has counted the call.
    fn release(&mut self, sequence: Self::Sequence, executed: bool);

    /// Finds the result of the operation itself in a reply that the RPC layer accepted.
    fn pass(reply: &Reply<'_>, result_at: usize) -> Result<Passed, Unparsed>;

    /// Parses the result of a READ.
    fn read(reply: &Reply<'_>, at: usize) -> Result<ReadResult, Unparsed>;

    /// Parses the result of a WRITE.
    fn write(reply: &Reply<'_>, at: usize) -> Result<WriteResult, Unparsed>;

    /// Parses the result of a COMMIT.
    fn commit(reply: &Reply<'_>, at: usize) -> Result<CommitResult, Unparsed>;

    /// Returns `true` if the server has counted a call that it refused with this status.
    fn counted(status: u32) -> bool;

    /// Decides what follows from a status other than success.
    fn judge(status: u32) -> Judgement;

    /// The `errno` that a kernel client would return.
    fn errno(status: u32) -> i32;

    /// An error about `path`, with advice.
    fn refused(action: &'static str, path: &str, status: u32) -> EngineError;

    /// Time without a call after which the server must be told that this client is alive.
    fn renewal_ns(&self) -> Nanos;

    /// Gives the session up, and returns what makes another: it waits for the server, so it runs on a thread of its own
    /// until `cancel` is set. Calls wait meanwhile.
    fn recovery(
        &mut self,
        mount: &NfsMount,
        route: Route,
        server: &str,
    ) -> impl FnOnce(&Arc<AtomicBool>) -> Result<Recovered<Self>, EngineError> + Send + 'static;

    /// Gives back at the end what the server keeps for this client, by a connection on which no call is in flight.
    fn leave(&mut self, socket: Socket, route: Route, server: &str);
}

/// A protocol that can go on, with new connections.
#[derive(Debug)]
pub(super) struct Recovered<P> {
    pub protocol: P,
    pub sockets: Vec<Socket>,
}

/// A mounted export: prepares files, one call at a time. An error names the path as it was given.
pub(super) trait Session<'a, P: Protocol>: Sized {
    /// Connects to the server and finds the root of the export.
    fn open(mount: &NfsMount, stop: &'a AtomicBool) -> Result<Self, EngineError>;

    /// `host:port` of the NFS program.
    fn server(&self) -> &str;

    /// Route to the NFS program.
    fn route(&self) -> Route;

    /// Limits of READ and WRITE.
    fn limits(&self) -> CallLimits;

    /// Looks a regular file up, with its size; `None` if it does not exist.
    fn find(&mut self, path: &str) -> Result<Option<(P::Handle, u64)>, EngineError>;

    /// Creates an empty file; fails if the name exists.
    fn create(&mut self, path: &str) -> Result<P::Handle, EngineError>;

    /// Sets a file's length.
    fn set_size(&mut self, object: &P::Handle, path: &str, size: u64) -> Result<(), EngineError>;

    /// Returns `true` if a path exists; a missing directory on the way means that it does not.
    fn exists(&mut self, path: &str) -> Result<bool, EngineError>;

    /// Removes a file or an empty directory. Ignores what is missing, and leaves a directory that is not empty.
    fn remove(&mut self, path: &str) -> Result<(), EngineError>;

    /// Takes up files for a load: its protocol, and `nconnect` connections on which no call is in flight.
    fn start(self, mount: &NfsMount, files: &[(String, P::Handle)]) -> Result<(P, Vec<Socket>), EngineError>;
}

/// Use of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotCounts {
    /// Most calls in flight.
    pub slots: u64,
    /// Calls since the session was made.
    pub calls: u64,
}

/// Arguments of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arguments<S> {
    pub xid: u32,
    pub sequence: S,
    pub file: u32,
    pub offset: u64,
    pub length: u32,
}

/// Fate of a call before its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    /// The result of the operation is at this offset of the record.
    At(usize),
    /// The call was taken up; it has no operation.
    Alone,
    /// The server did not take the call up, for this status.
    Refused(u32),
}

/// What follows from a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judgement {
    /// The operation has failed.
    Failed,
    /// The call is repeated after a pause, as long as the mount's timeout allows.
    Later,
    /// The call is repeated after a pause until the server's grace period has ended.
    AfterGrace,
    /// The call is repeated at once.
    Now,
    /// The call is repeated once the session, or the state of the file, is restored.
    Recover,
}

/// The directories of a path in an export, and its last part.
pub(super) fn directory_parts(path: &str) -> Result<(Vec<&str>, &str), EngineError> {
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let Some(name) = parts.pop() else {
        return Err(EngineError::Target(format!("{path:?} names no file in the export")));
    };
    if parts.contains(&"..") || name == ".." {
        return Err(EngineError::Target(format!(
            "{path}: .. is not allowed in paths of an export; name the file directly"
        )));
    }
    Ok((parts, name))
}

/// Error for a directory on the way to a file that does not exist.
pub(super) fn missing_directory(path: &str, part: &str) -> EngineError {
    EngineError::Target(format!("{path}: the directory {part} does not exist; create it first"))
}

/// Error for something else on the way to a file.
pub(super) fn not_a_directory(path: &str, part: &str) -> EngineError {
    EngineError::Target(format!("{path}: {part} is not a directory"))
}

/// Error for a file that must exist but does not.
pub(super) fn missing(path: &str) -> EngineError {
    EngineError::Target(format!("{path} does not exist on the export, and this job does not create it; check the path"))
}
