//! The versions of NFS: how an operation becomes a call, and what its reply means.
//!
//! The engine is compiled once for each version, so that this layer costs no call through a pointer.

use std::fmt::Debug;
use std::sync::atomic::AtomicBool;

use iocurve_wire::client_fast::{CommitResult, ReadResult, Reply, Unparsed, WriteResult};

use super::flight::{CallKind, CallLimits};
use super::socket::{Route, Socket};
use crate::error::EngineError;
use crate::plan::NfsMount;

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

    /// Decides what follows from a status other than success.
    fn judge(status: u32) -> Judgement;

    /// The `errno` that a kernel client would return.
    fn errno(status: u32) -> i32;

    /// An error about `path`, with advice.
    fn refused(action: &'static str, path: &str, status: u32) -> EngineError;
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

    /// Removes a file; ignores a missing one.
    fn remove(&mut self, path: &str) -> Result<(), EngineError>;

    /// Takes up files for a load: its protocol, and `nconnect` connections on which no call is in flight.
    fn start(self, mount: &NfsMount, files: &[(String, P::Handle)]) -> Result<(P, Vec<Socket>), EngineError>;
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
    /// The server did not take the call up, for this status.
    Refused(u32),
}

/// What follows from a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judgement {
    /// The operation has failed.
    Failed,
    /// The call is repeated after a pause.
    Later,
}

/// Error for a file that must exist but does not.
pub(super) fn missing(path: &str) -> EngineError {
    EngineError::Target(format!("{path} does not exist on the export, and this job does not create it; check the path"))
}
