//! The versions of NFS: how an operation becomes a call, and what its reply means.
//!
//! The engine is compiled once for each version, so that this layer costs no call through a pointer.

use std::fmt::Debug;

use iocurve_meter::Nanos;
use iocurve_wire::client_fast::{CommitResult, ReadResult, Reply, Unparsed, WriteResult};
use iocurve_wire::nfs3::stable_how;
use iocurve_wire::rpc::Xid;

use super::conversation::{Conversation, GRACE_NS_MAX};
use super::names::{Named, NamedCall, Procedure};
use crate::error::{ConnectionError, EngineError};
use crate::plan::{Durability, NfsMount};

/// Servers with a lower limit of READ or WRITE are refused.
const CALL_BYTES_MIN: u32 = 512;

/// Limits of one call, as the server reports them.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallLimits {
    /// Most bytes of one READ.
    pub read: u32,
    /// Most bytes of one WRITE.
    pub write: u32,
}

impl CallLimits {
    /// Refuses a server whose limits are too low.
    pub(super) fn check(self, server: &str) -> Result<Self, EngineError> {
        if self.read.min(self.write) < CALL_BYTES_MIN {
            let Self { read, write } = self;
            let server = server.to_owned();
            return Err(ConnectionError::LowLimits { server, read, write, least: CALL_BYTES_MIN }.into());
        }
        Ok(self)
    }

    /// The smaller ones of these limits and those of a mount (`rsize`, `wsize`).
    pub(super) fn within(self, mount: &NfsMount) -> Self {
        let smaller = |limit: u32, size: Option<u32>| size.map_or(limit, |size| size.min(limit));
        Self { read: smaller(self.read, mount.rsize), write: smaller(self.write, mount.wsize) }
    }

    /// Calls that a table needs for `depth` operations of at most `bytes` each, one that renews the lease, and one that makes a
    /// new session.
    pub(super) fn calls(self, depth: u32, bytes: usize) -> u64 {
        let parts = (bytes as u64).div_ceil(u64::from(self.read.min(self.write))).max(1);
        (u64::from(depth.max(1)) * parts + 2).next_power_of_two()
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
    /// A call on a name.
    Named,
    /// A call of a conversation; without a slot.
    Conversation,
}

/// A version of NFS, with the files of one load.
pub(super) trait Protocol: Debug + Sized + Send + 'static {
    /// Name in messages and results.
    const NAME: &'static str;
    /// Bytes before the payload of a usual READ reply, record mark included.
    const READ_REPLY_HEAD_BYTES: usize;

    /// Makes a call and its repetitions execute once: slot and sequence id of a session.
    type Sequence: Copy + Default + Debug + Send;
    /// Names a file to the server.
    type Handle: Clone + Debug + Default + Send;
    /// State of an open file.
    type State: Copy + Debug + Default + Send;
    /// A call on a name finds the object, too; else the object is looked up before.
    const FINDS_BY_NAME: bool;
    /// Closing a file takes a call to the server.
    const CLOSES: bool;

    /// Number of files.
    fn files(&self) -> usize;

    /// Slots of the server's session, and calls made on them; `None` without sessions.
    fn slots(&self) -> Option<SlotCounts>;

    /// Appends a READ, record mark first.
    fn append_read(&self, call: Arguments<Self::Sequence>, out: &mut Vec<u8>);

    /// Appends a WRITE, record mark first, up to its payload.
    fn append_write(&self, call: Arguments<Self::Sequence>, out: &mut Vec<u8>);

    /// Appends a COMMIT of a whole file, record mark first.
    fn append_commit(&self, call: Arguments<Self::Sequence>, out: &mut Vec<u8>);

    /// Appends a call that only shows that this client is alive, record mark first.
    fn append_renewal(&self, xid: Xid, sequence: Self::Sequence, out: &mut Vec<u8>);

    /// Appends a call on a name, record mark first; `data` is what it writes.
    fn append_named(
        &self,
        call: &NamedCall<Self::Handle>,
        data: &[u8],
        xid: Xid,
        sequence: Self::Sequence,
        out: &mut Vec<u8>,
    );

    /// Parses the results of a call on a name: a value or a status.
    fn named(procedure: Procedure, results: &[u8]) -> Result<Result<Found<Self>, u32>, Unparsed>;

    /// Makes an open file the file of this number, the next one at most.
    fn set_file(&mut self, number: u32, path: &str, handle: &Self::Handle, state: Self::State);

    /// A file of that number is open no longer.
    fn close_file(&mut self, number: u32);

    /// Takes what a new call needs to be sent; `None` if it must wait until an earlier call has returned its own.
    fn acquire(&mut self) -> Option<Self::Sequence>;

    /// Returns it; `executed` if the server has counted the call.
    fn release(&mut self, sequence: Self::Sequence, executed: bool);

    /// Finds the result of the operation itself in a reply that the RPC layer accepted, to the call with this sequence; to a call
    /// on a name, the results of all its operations.
    fn pass(
        &self,
        reply: &Reply<'_>,
        result_at: usize,
        sequence: Self::Sequence,
        is_named: bool,
    ) -> Result<Passed, Unparsed>;

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

    /// The RFC's name of a status.
    fn status_name(status: u32) -> &'static str;

    /// Time without a call after which the server must be told that this client is alive.
    fn renewal_ns(&self) -> Nanos;

    /// Gives the session up, and returns the calls that make another. Calls of the load wait meanwhile. `None` without
    /// sessions.
    fn recovery(&mut self, _mount: &NfsMount, _server: &str) -> Option<Conversation<'static, Self>> {
        None
    }

    /// The calls that give back at the end what the server keeps for this client. `None` if it keeps nothing, or if a call is
    /// in flight.
    fn leave(&mut self, _server: &str) -> Option<Conversation<'_, ()>> {
        None
    }
}

/// Result of a call on a name.
pub(super) type Found<P> = Named<<P as Protocol>::Handle, <P as Protocol>::State>;

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
    pub xid: Xid,
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

/// The next step after a status.
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

impl Judgement {
    /// Time for which a call is repeated after pauses.
    pub(super) fn patience_ns(self, timeout_ns: Nanos) -> Option<Nanos> {
        match self {
            Self::Later => Some(timeout_ns),
            Self::AfterGrace => Some(timeout_ns.max(GRACE_NS_MAX)),
            _ => None,
        }
    }
}

/// The stability that WRITEs ask for, in any version.
pub(super) fn stability(durability: Durability) -> stable_how {
    match durability {
        Durability::None => stable_how::UNSTABLE,
        Durability::DataSync => stable_how::DATA_SYNC,
        Durability::FileSync => stable_how::FILE_SYNC,
    }
}
