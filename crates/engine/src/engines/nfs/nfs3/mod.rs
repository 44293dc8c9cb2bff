//! `NFSv3` (RFC 1813) as a [`Protocol`]: calls stand alone, and servers keep no state for them.

mod calls;
mod names;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use iocurve_meter::Nanos;
use iocurve_wire::client_fast::{
    CallTemplate, CommitResult, CommitTemplate, READ_REPLY_HEAD_BYTES, ReadResult, ReadTemplate, Reply, Unparsed,
    WriteResult, WriteTemplate,
};
use iocurve_wire::nfs3::{nfs_fh3, nfsproc3, nfsstat3};

use super::calls::Mountable;
use super::names::{NamedCall, Procedure};
use super::protocol::{Arguments, Found, Judgement, Passed, Protocol, Recovered, SlotCounts, stability};
use super::transport::socket::{Route, Socket};
use crate::error::EngineError;
use crate::plan::{Durability, NfsMount};

use self::calls::Nfs3Calls;

/// Calls of `NFSv3` on the files of a load.
#[derive(Debug)]
pub struct Nfs3 {
    files: Vec<FileCalls>,
    others: CallTemplate,
    credential: Vec<u8>,
    durability: Durability,
}

/// Templates of the calls on a file.
#[derive(Debug)]
struct FileCalls {
    read: ReadTemplate,
    write: WriteTemplate,
    commit: CommitTemplate,
}

impl Nfs3 {
    /// Makes the templates for each file.
    pub(super) fn new(credential: &[u8], files: &[nfs_fh3], durability: Durability) -> Self {
        Self {
            files: files.iter().map(|handle| FileCalls::new(credential, handle, durability)).collect(),
            others: CallTemplate::new(credential),
            credential: credential.to_vec(),
            durability,
        }
    }
}

impl FileCalls {
    fn new(credential: &[u8], handle: &nfs_fh3, durability: Durability) -> Self {
        let file = handle.as_bytes();
        Self {
            read: ReadTemplate::new(credential, file),
            write: WriteTemplate::new(credential, file, stability(durability)),
            commit: CommitTemplate::new(credential, file),
        }
    }

    fn set(&mut self, credential: &[u8], handle: &nfs_fh3, durability: Durability) {
        let file = handle.as_bytes();
        self.read.set_file(credential, file);
        self.write.set_file(credential, file, stability(durability));
        self.commit.set_file(credential, file);
    }
}

impl Mountable for Nfs3 {
    type Calls<'a> = Nfs3Calls<'a>;
}

impl Protocol for Nfs3 {
    const NAME: &'static str = "NFSv3";
    const READ_REPLY_HEAD_BYTES: usize = READ_REPLY_HEAD_BYTES;

    type Sequence = ();
    type Handle = nfs_fh3;
    type State = ();
    const FINDS_BY_NAME: bool = false;
    const CLOSES: bool = false;

    fn files(&self) -> usize {
        self.files.len()
    }

    fn slots(&self) -> Option<SlotCounts> {
        None
    }

    #[inline]
    fn append_read(&self, call: Arguments<()>, out: &mut Vec<u8>) {
        self.files[call.file as usize].read.append(out, call.xid, call.offset, call.length);
    }

    #[inline]
    fn append_write(&self, call: Arguments<()>, out: &mut Vec<u8>) {
        self.files[call.file as usize].write.append(out, call.xid, call.offset, call.length);
    }

    fn append_commit(&self, call: Arguments<()>, out: &mut Vec<u8>) {
        self.files[call.file as usize].commit.append(out, call.xid, call.offset, call.length);
    }

    fn append_renewal(&self, xid: u32, (): (), out: &mut Vec<u8>) {
        self.others.append(out, xid, nfsproc3::NFSPROC3_NULL, &());
    }

    fn append_named(&self, call: &NamedCall<nfs_fh3>, data: &[u8], xid: u32, (): (), out: &mut Vec<u8>) {
        names::with_arguments(call, data, |procedure, arguments| self.others.append(out, xid, procedure, arguments));
    }

    fn pass_named(&self, _reply: &Reply<'_>, result_at: usize, (): ()) -> Result<Passed, Unparsed> {
        Ok(Passed::At(result_at))
    }

    fn named(procedure: Procedure, results: &[u8]) -> Result<Result<Found<Self>, u32>, Unparsed> {
        names::parse(procedure, results)
    }

    fn set_file(&mut self, number: u32, _path: &str, handle: &nfs_fh3, (): ()) {
        match self.files.get_mut(number as usize) {
            Some(file) => file.set(&self.credential, handle, self.durability),
            None => self.files.push(FileCalls::new(&self.credential, handle, self.durability)),
        }
    }

    fn close_file(&mut self, _number: u32) {}

    #[inline]
    fn acquire(&mut self) -> Option<()> {
        Some(())
    }

    #[inline]
    fn release(&mut self, (): (), _executed: bool) {}

    #[inline]
    fn pass(&self, _reply: &Reply<'_>, result_at: usize, _sequence: ()) -> Result<Passed, Unparsed> {
        Ok(Passed::At(result_at))
    }

    #[inline]
    fn read(reply: &Reply<'_>, at: usize) -> Result<ReadResult, Unparsed> {
        reply.read(at)
    }

    #[inline]
    fn write(reply: &Reply<'_>, at: usize) -> Result<WriteResult, Unparsed> {
        reply.write(at)
    }

    #[inline]
    fn commit(reply: &Reply<'_>, at: usize) -> Result<CommitResult, Unparsed> {
        reply.commit(at)
    }

    fn counted(_status: u32) -> bool {
        false
    }

    fn judge(status: u32) -> Judgement {
        if status == nfsstat3::NFS3ERR_JUKEBOX as u32 { Judgement::Later } else { Judgement::Failed }
    }

    fn status_name(status: u32) -> &'static str {
        nfsstat3::from_u32(status).map_or("a status that NFSv3 does not have", nfsstat3::name)
    }

    fn renewal_ns(&self) -> Nanos {
        Nanos::MAX
    }

    fn recovery(
        &mut self,
        _mount: &NfsMount,
        _route: Route,
        _server: &str,
    ) -> Option<impl FnOnce(&Arc<AtomicBool>) -> Result<Recovered<Self>, EngineError> + Send + 'static> {
        None::<fn(&Arc<AtomicBool>) -> Result<Recovered<Self>, EngineError>>
    }

    fn leave(&mut self, _socket: Socket, _route: Route, _server: &str) {}
}
