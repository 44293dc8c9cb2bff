//! `NFSv3` (RFC 1813) as a [`Protocol`]: calls stand alone, and servers keep no state for them.

mod calls;
mod names;

use iocurve_meter::Nanos;
use iocurve_wire::client_fast::{
    CallTemplate, CommitResult, FileCalls, READ_REPLY_HEAD_BYTES, ReadResult, Reply, Unparsed, WriteResult,
};
use iocurve_wire::nfs3::{nfs_fh3, nfsproc3, nfsstat3};
use iocurve_wire::rpc::Xid;

use super::names::{NamedCall, Procedure};
use super::protocol::{Arguments, Found, Judgement, Passed, Protocol, SlotCounts, stability};
use crate::plan::Durability;

/// Calls of `NFSv3` on the files of a load.
#[derive(Debug)]
pub struct Nfs3 {
    files: Vec<FileCalls>,
    others: CallTemplate,
    credential: Vec<u8>,
    durability: Durability,
}

impl Nfs3 {
    /// Makes the templates for each file.
    pub(super) fn new(credential: &[u8], files: &[nfs_fh3], durability: Durability) -> Self {
        Self {
            files: files
                .iter()
                .map(|handle| FileCalls::new(credential, handle.as_bytes(), stability(durability)))
                .collect(),
            others: CallTemplate::new(credential),
            credential: credential.to_vec(),
            durability,
        }
    }
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
        self.files[call.file as usize].append_read(out, call.xid, call.offset, call.length);
    }

    #[inline]
    fn append_write(&self, call: Arguments<()>, out: &mut Vec<u8>) {
        self.files[call.file as usize].append_write(out, call.xid, call.offset, call.length);
    }

    fn append_commit(&self, call: Arguments<()>, out: &mut Vec<u8>) {
        self.files[call.file as usize].append_commit(out, call.xid, call.offset, call.length);
    }

    fn append_renewal(&self, xid: Xid, (): (), out: &mut Vec<u8>) {
        self.others.append(out, xid, nfsproc3::NFSPROC3_NULL, &());
    }

    fn append_named(&self, call: &NamedCall<nfs_fh3>, data: &[u8], xid: Xid, (): (), out: &mut Vec<u8>) {
        names::with_arguments(call, data, |procedure, arguments| self.others.append(out, xid, procedure, arguments));
    }

    fn named(procedure: Procedure, results: &[u8]) -> Result<Result<Found<Self>, u32>, Unparsed> {
        names::parse(procedure, results)
    }

    fn set_file(&mut self, number: u32, _path: &str, handle: &nfs_fh3, (): ()) {
        let (handle, stable) = (handle.as_bytes(), stability(self.durability));
        match self.files.get_mut(number as usize) {
            Some(file) => file.set_file(&self.credential, handle, stable),
            None => self.files.push(FileCalls::new(&self.credential, handle, stable)),
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
    fn pass(&self, _reply: &Reply<'_>, result_at: usize, (): (), _is_named: bool) -> Result<Passed, Unparsed> {
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
}
