//! The calls of a version of NFS outside a load, one at a time. Mounting, layout, metadata operations, small files and
//! lists of trees are made of them.

use std::sync::atomic::AtomicBool;

use iocurve_wire::client_fast::Malformed;

use super::names::{Cursor, Details, Listed, ListedPage, NamedCall, Node, Procedure};
use super::protocol::{CallLimits, Found, Protocol};
use super::transport::rpc::Rpc;
use super::transport::socket::Socket;
use crate::error::EngineError;
use crate::plan::NfsMount;

/// The server's answer to a call, a value or a status of the version; or an error that ends the worker.
pub(super) type Answer<T> = Result<Result<T, u32>, EngineError>;

/// Continues with the value of a call that the server did not refuse.
macro_rules! granted {
    ($call:expr) => {
        match $call? {
            Ok(value) => value,
            Err(status) => return Ok(Err(status)),
        }
    };
}
pub(super) use granted;

/// A name in a directory.
pub(super) struct Entry<'n, H> {
    pub directory: &'n H,
    pub name: &'n str,
}

/// A version of NFS whose exports can be mounted.
pub(super) trait Mountable: Protocol {
    /// Makes the calls that stand outside a load.
    type Calls<'a>: Calls<'a, Self>;
}

/// The calls of a version to one export, each of which waits for its reply. They are those of a load ([`NamedCall`]).
pub(super) trait Calls<'a, P: Protocol>: Sized {
    /// Connects to the server, and finds the root of the export and the limits of calls.
    fn mount(mount: &NfsMount, stop: &'a AtomicBool) -> Result<Self, EngineError>;

    /// The connection to the NFS program.
    fn rpc(&self) -> &Rpc<'a>;

    /// Root of the export.
    fn root(&self) -> &P::Handle;

    /// Limits of READ and WRITE.
    fn limits(&self) -> CallLimits;

    /// The last call was sent more than once: the server may have executed it before a restart.
    fn was_repeated(&self) -> bool;

    /// Makes a call and waits for its reply. `data` is what it writes; what it reads is appended to `read`.
    fn make(&mut self, call: &NamedCall<P::Handle>, data: &[u8], read: &mut Vec<u8>) -> Answer<Found<P>>;

    /// Closes a file that a call has opened.
    fn close(&mut self, found: &Found<P>) -> Answer<()>;

    /// Takes up files for a load: its protocol, and `nconnect` connections on which no call is in flight.
    fn start(self, mount: &NfsMount, files: &[(String, P::Handle)]) -> Result<(P, Vec<Socket>), EngineError>;

    /// Makes a call that moves no data.
    fn ask(&mut self, call: &NamedCall<P::Handle>) -> Answer<Found<P>> {
        self.make(call, &[], &mut Vec::new())
    }

    /// Makes a call on a name.
    fn on_name(&mut self, procedure: Procedure, entry: &Entry<'_, P::Handle>) -> Answer<Found<P>> {
        let (directory, name) = (entry.directory.clone(), entry.name.as_bytes().to_vec());
        self.ask(&NamedCall { procedure, directory, name, ..NamedCall::default() })
    }

    fn look_up(&mut self, entry: &Entry<'_, P::Handle>) -> Answer<P::Handle> {
        let found = granted!(self.on_name(Procedure::LookUp, entry));
        found.handle.map(Ok).ok_or_else(|| self.rpc().invalid(Malformed::HandleMissing))
    }

    /// Looks a name up, with kind, length and facts.
    fn find(&mut self, entry: &Entry<'_, P::Handle>) -> Answer<Node<P::Handle>> {
        let Found::<P> { handle, details, .. } = granted!(self.on_name(Procedure::Find, entry));
        let handle = handle.ok_or_else(|| self.rpc().invalid(Malformed::HandleMissing))?;
        let details = match details {
            None => granted!(self.on_name(Procedure::Find, &Entry { directory: &handle, name: "" })).details,
            details => details,
        };
        match details.map(|details| *details) {
            Some(Details::Object { kind, bytes, facts }) => Ok(Ok(Node { handle, kind, bytes, facts })),
            _ => Err(self.rpc().invalid(Malformed::TypeMissing)),
        }
    }

    /// One reply with entries of a directory, itself and its parent among them: names, or with kind and length.
    fn page(
        &mut self,
        procedure: Procedure,
        directory: &P::Handle,
        cursor: Cursor,
    ) -> Answer<(ListedPage, Vec<Listed<P::Handle>>)> {
        let directory = directory.clone();
        let found = granted!(self.ask(&NamedCall { procedure, directory, cursor, ..NamedCall::default() }));
        match (found.listed, found.details.map(|details| *details)) {
            (Some(page), Some(Details::Entries(entries))) => Ok(Ok((page, entries))),
            _ => Err(self.rpc().invalid(Malformed::ListMissing)),
        }
    }

    /// Creates an empty file, which must not exist; returns its handle if the server tells it.
    fn create(&mut self, entry: &Entry<'_, P::Handle>) -> Answer<Option<P::Handle>> {
        let created = granted!(self.on_name(Procedure::CreateNew, entry));
        granted!(self.close(&created));
        Ok(Ok(created.handle))
    }

    fn set_size(&mut self, object: &P::Handle, size: u64) -> Answer<()> {
        let (procedure, directory) = (Procedure::SetSize, object.clone());
        granted!(self.ask(&NamedCall { procedure, directory, size, ..NamedCall::default() }));
        Ok(Ok(()))
    }

    /// Reads up to `length` bytes from the start of a file.
    fn read(&mut self, file: &P::Handle, length: u32) -> Answer<Vec<u8>> {
        let (procedure, directory, mut read) = (Procedure::ReadWhole, file.clone(), Vec::new());
        granted!(self.make(&NamedCall { procedure, directory, length, ..NamedCall::default() }, &[], &mut read));
        if read.len() > length as usize { Err(self.rpc().invalid(Malformed::MoreThanRequested)) } else { Ok(Ok(read)) }
    }

    /// Writes the start of a file, to stable storage; returns the bytes written.
    fn write(&mut self, file: &P::Handle, data: &[u8]) -> Answer<usize> {
        let (procedure, directory, length) = (Procedure::WriteWhole, file.clone(), data.len() as u32);
        let call = NamedCall { procedure, directory, length, ..NamedCall::default() };
        let written = granted!(self.make(&call, data, &mut Vec::new()));
        Ok(Ok(written.moved.len()))
    }
}
