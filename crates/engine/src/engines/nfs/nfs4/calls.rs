//! The calls of `NFSv4.1` outside a load: each is one COMPOUND.

use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

use iocurve_meter::{Nanos, SECOND};
use iocurve_wire::nfs4::attributes::{
    Attributes, FATTR4_CHANGE, FATTR4_FILEHANDLE, FATTR4_FILEID, FATTR4_LEASE_TIME, FATTR4_MAXREAD, FATTR4_MAXWRITE,
    FATTR4_MODE, FATTR4_NUMLINKS, FATTR4_OWNER, FATTR4_OWNER_GROUP, FATTR4_RDATTR_ERROR, FATTR4_SIZE,
    FATTR4_SPACE_USED, FATTR4_TIME_ACCESS, FATTR4_TIME_METADATA, FATTR4_TIME_MODIFY, FATTR4_TYPE, bitmap4, fattr4,
};
use iocurve_wire::nfs4::nfs_ftype4;
use iocurve_wire::nfs4::operations::{GETATTR4args, entry4, nfs_argop4, nfs_resop4};
use iocurve_wire::xdr::{from_bytes, to_bytes};

use super::super::calls::{Answer, CallLimits, Calls, DIRECTORY_MODE, Entry, FILE_MODE, granted};
use super::super::names::{Details, FileFacts, Listed, NamedCall, Node};
use super::super::protocol::Found;
use super::super::status::{NOTDIR, refused};
use super::super::transport::mounter::Mounter;
use super::super::transport::rpc::Rpc;
use super::super::transport::socket::Socket;
use super::client::{Client, OVERHEAD_BYTES, connect_further};
use super::names::{self, Gathered};
use super::opens::{Handle, close, open_by_handle, put, take_handle};
use super::{LEAVE_NS, Nfs4};
use crate::error::EngineError;
use crate::plan::NfsMount;
use crate::tree::EntryKind;

/// Attributes that stat(2) asks for.
pub(super) const STAT: bitmap4 = bitmap4::of(&[
    FATTR4_TYPE,
    FATTR4_CHANGE,
    FATTR4_SIZE,
    FATTR4_FILEID,
    FATTR4_MODE,
    FATTR4_NUMLINKS,
    FATTR4_OWNER,
    FATTR4_OWNER_GROUP,
    FATTR4_SPACE_USED,
    FATTR4_TIME_ACCESS,
    FATTR4_TIME_METADATA,
    FATTR4_TIME_MODIFY,
]);
/// Attributes of an object that is found outside a load.
pub(super) const FACTS: bitmap4 =
    bitmap4::of(&[FATTR4_TYPE, FATTR4_SIZE, FATTR4_FILEID, FATTR4_NUMLINKS, FATTR4_OWNER, FATTR4_TIME_MODIFY]);
/// Attributes of a [`Listed`] entry; one that the server cannot read has an error instead.
pub(super) const LISTED: bitmap4 = bitmap4::of(&[FATTR4_TYPE, FATTR4_SIZE, FATTR4_RDATTR_ERROR, FATTR4_FILEHANDLE]);

/// Attributes as calls have them, encoded once.
pub(super) type Encoded = LazyLock<Vec<u8>>;

/// Attributes of a new file.
pub(super) static CREATED: Encoded =
    LazyLock::new(|| to_bytes(&Attributes { mode: Some(FILE_MODE), ..Attributes::default() }));
/// Attributes of a new directory.
pub(super) static MADE_DIRECTORY: Encoded =
    LazyLock::new(|| to_bytes(&Attributes { mode: Some(DIRECTORY_MODE), ..Attributes::default() }));

/// A mounted export.
pub(in super::super) struct Nfs4Calls<'a> {
    /// Absent only when a load has taken it over.
    client: Option<Client<'a>>,
    root: Handle,
    limits: CallLimits,
    lease_ns: Nanos,
    stop: &'a AtomicBool,
}

impl<'a> Calls<'a, Nfs4> for Nfs4Calls<'a> {
    /// Connects to the NFS program, makes a session and walks to the export. Neither portmapper nor MOUNT is asked.
    fn mount(mount: &NfsMount, stop: &'a AtomicBool) -> Result<Self, EngineError> {
        let rpc = Mounter { mount, stop }.connect_nfs4()?;
        let client = Client::register(rpc, mount.session_slots)?;
        let limits = CallLimits { read: 0, write: 0 };
        let mut calls = Self { client: Some(client), root: Handle::default(), limits, lease_ns: 0, stop };
        let of = format!("{} of {}", mount.export, calls.rpc().server);
        calls.root = calls.walk_to(&mount.export)?.map_err(|status| refused::<Nfs4>("mount", &of, status))?;
        calls.read_limits()?.map_err(|status| refused::<Nfs4>("get the limits of", &mount.export, status))?;
        calls.limits.check(&calls.rpc().server)?;
        Ok(calls)
    }

    fn rpc(&self) -> &Rpc<'a> {
        &self.client.as_ref().expect("a load has not begun").rpc
    }

    fn root(&self) -> &Handle {
        &self.root
    }

    fn limits(&self) -> CallLimits {
        self.limits
    }

    fn was_repeated(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.was_repeated)
    }

    fn make(&mut self, call: &NamedCall<Handle>, data: &[u8], read: &mut Vec<u8>) -> Answer<Found<Nfs4>> {
        let client = self.client();
        let registration = client.registration.clone();
        names::with_operations(&registration, None, call, data, |operations| {
            let mut gathered = Gathered::new(call.procedure);
            let made = client.compound(operations, |result| {
                if let nfs_resop4::READ(Ok(found)) = &result {
                    read.extend_from_slice(found.data);
                }
                gathered.take(&result);
            })?;
            match made {
                Ok(()) => gathered.end().map(Ok).map_err(|error| client.rpc.invalid(&error)),
                Err(failed) => Ok(gathered.refused(failed.status as u32)),
            }
        })
    }

    fn close(&mut self, found: &Found<Nfs4>) -> Answer<()> {
        let (Some(handle), (stateid, _)) = (&found.handle, found.state) else { return Ok(Ok(())) };
        Ok(close(self.client(), handle, stateid)?.map_err(|status| status as u32))
    }

    fn start(mut self, mount: &NfsMount, files: &[(String, Handle)]) -> Result<(Nfs4, Vec<Socket>), EngineError> {
        let mut opens = Vec::with_capacity(files.len());
        for (path, handle) in files {
            opens.push(Some(open_by_handle(self.client(), path, handle)?));
        }
        let client = self.client.take().expect("a load has not begun");
        let Client { rpc, registration, next_sequence, .. } = client;
        let sockets = connect_further(rpc, registration.session, mount, self.stop)?;
        Ok((Nfs4::new(sockets.0, registration, next_sequence, opens, self.lease_ns, mount), sockets.1))
    }
}

/// A session that no load has taken over ends; if the server is gone, its lease ends it.
impl Drop for Nfs4Calls<'_> {
    fn drop(&mut self) {
        if let Some(client) = &mut self.client {
            client.rpc.timeout_ns = client.rpc.timeout_ns.min(LEAVE_NS);
            let _ = client.unregister();
        }
    }
}

impl<'a> Nfs4Calls<'a> {
    fn client(&mut self) -> &mut Client<'a> {
        self.client.as_mut().expect("a load has not begun")
    }

    /// Handle of the export's root.
    fn walk_to(&mut self, export: &str) -> Answer<Handle> {
        let mut handle = Handle::default();
        let root = [nfs_argop4::PUTROOTFH(()), nfs_argop4::GETFH(())];
        granted!(self.carry_out(&root, |result| take_handle(&result, &mut handle)));
        for name in export.split('/').filter(|name| !name.is_empty()) {
            let node = granted!(self.find(&Entry { directory: &handle, name }));
            if node.kind != EntryKind::Directory {
                return Ok(Err(NOTDIR));
            }
            handle = node.handle;
        }
        Ok(Ok(handle))
    }

    /// Takes the smaller of the session's and the file system's limits.
    fn read_limits(&mut self) -> Answer<()> {
        let wanted = bitmap4::of(&[FATTR4_LEASE_TIME, FATTR4_MAXREAD, FATTR4_MAXWRITE]);
        let root = self.root.clone();
        let (mut read, mut write, mut lease_s) = (None, None, None);
        granted!(self.carry_out(&[put(&root), get(wanted)], |result| {
            if let Some(found) = attributes(&result) {
                (read, write, lease_s) = (found.maxread, found.maxwrite, found.lease_time);
            }
        }));
        let channel = self.client().registration.channel;
        let limit = |attribute: Option<u64>, channel_bytes: u32| {
            u64::from(channel_bytes.saturating_sub(OVERHEAD_BYTES)).min(attribute.unwrap_or(u64::MAX)) as u32
        };
        self.limits = CallLimits {
            read: limit(read, channel.ca_maxresponsesize),
            write: limit(write, channel.ca_maxrequestsize),
        };
        self.lease_ns = Nanos::from(lease_s.unwrap_or(90).max(1)) * SECOND;
        Ok(Ok(()))
    }

    fn carry_out(&mut self, operations: &[nfs_argop4<'_>], each: impl FnMut(nfs_resop4<'_>)) -> Answer<()> {
        Ok(self.client().compound(operations, each)?.map_err(|failed| failed.status as u32))
    }
}

pub(super) fn get(attr_request: bitmap4) -> nfs_argop4<'static> {
    nfs_argop4::GETATTR(GETATTR4args { attr_request })
}

pub(super) fn made_here(attributes: &[u8]) -> fattr4<'_> {
    from_bytes(attributes).expect("attributes that were made here")
}

pub(super) fn attributes<'a>(result: &nfs_resop4<'a>) -> Option<Attributes<'a>> {
    match result {
        nfs_resop4::GETATTR(Ok(found)) => found.obj_attributes.values().ok(),
        _ => None,
    }
}

fn kind_and_bytes(found: &Attributes<'_>) -> Option<(EntryKind, u64)> {
    let kind = match found.file_type? {
        nfs_ftype4::NF4REG => EntryKind::File,
        nfs_ftype4::NF4DIR => EntryKind::Directory,
        nfs_ftype4::NF4LNK => EntryKind::Symlink,
        _ => EntryKind::Other,
    };
    Some((kind, found.size?))
}

pub(super) fn listed(entry: &entry4<'_>) -> Listed<Handle> {
    let node = |found: &Attributes<'_>| {
        let (kind, bytes) = kind_and_bytes(found)?;
        Some(Node { handle: found.filehandle?.into(), kind, bytes, facts: None })
    };
    Listed { name: entry.name.to_vec(), node: entry.attrs.values().ok().and_then(|found| node(&found)) }
}

/// The object that has these attributes.
pub(super) fn object(found: &Attributes<'_>) -> Option<Box<Details<Handle>>> {
    let (kind, bytes) = kind_and_bytes(found)?;
    Some(Box::new(Details::Object { kind, bytes, facts: facts(found) }))
}

fn facts(found: &Attributes<'_>) -> Option<FileFacts> {
    let modified = found.time_modify?;
    Some(FileFacts {
        is_plain: found.file_type? == nfs_ftype4::NF4REG && found.numlinks.unwrap_or(1) == 1,
        bytes: found.size?,
        id: found.fileid?,
        modified_ns: u64::try_from(modified.seconds).ok()? * 1_000_000_000 + u64::from(modified.nseconds),
        owner: String::from_utf8_lossy(found.owner?).into_owned(),
    })
}
