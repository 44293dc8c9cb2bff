//! The calls of `NFSv4.1` outside a load: each is one COMPOUND.

use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

use iocurve_meter::{Nanos, SECOND};
use iocurve_wire::nfs4::attributes::{
    Attributes, FATTR4_CHANGE, FATTR4_FILEHANDLE, FATTR4_FILEID, FATTR4_LEASE_TIME, FATTR4_MAXREAD, FATTR4_MAXWRITE,
    FATTR4_MODE, FATTR4_NUMLINKS, FATTR4_OWNER, FATTR4_OWNER_GROUP, FATTR4_RDATTR_ERROR, FATTR4_SIZE,
    FATTR4_SPACE_USED, FATTR4_TIME_ACCESS, FATTR4_TIME_METADATA, FATTR4_TIME_MODIFY, FATTR4_TYPE, bitmap4, fattr4,
};
use iocurve_wire::nfs4::operations::{
    CREATE4args, GETATTR4args, LOOKUP4args, READ4args, READDIR4args, READDIR4resok, REMOVE4args, SETATTR4args,
    WRITE4args, createhow4, createtype4, entry4, nfs_argop4, nfs_resop4, open_claim4, openflag4, share,
};
use iocurve_wire::nfs4::{nfs_ftype4, stateid4};
use iocurve_wire::xdr::{from_bytes, to_bytes};

use super::super::calls::{
    Answer, CallLimits, Calls, DIRECTORY_MODE, Entry, FILE_MODE, FileFacts, LIST_BYTES, Listed, NAMES_BYTES, Node,
    Page, granted,
};
use super::super::names::Cursor;
use super::super::protocol::{Judgement, LESS_STABLE, stability};
use super::super::status::{NOTDIR, refused};
use super::super::transport::mounter::Mounter;
use super::super::transport::rpc::Rpc;
use super::super::transport::socket::Socket;
use super::client::{Client, OVERHEAD_BYTES, connect_further};
use super::opens::{Handle, Open, close, open, open_by_handle, put, take_handle};
use super::{LEAVE_NS, Nfs4, status};
use crate::error::EngineError;
use crate::plan::{Durability, NfsMount};
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
/// Attributes of a [`Node`].
const NODE: bitmap4 = bitmap4::of(&[FATTR4_TYPE, FATTR4_SIZE]);
/// Attributes of [`FileFacts`].
const FACTS: bitmap4 =
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
    type Open = Open;

    /// Connects to the NFS program, makes a session and walks to the export. Neither portmapper nor MOUNT is asked.
    fn mount(mount: &NfsMount, stop: &'a AtomicBool) -> Result<Self, EngineError> {
        let rpc = Mounter { mount, stop }.connect_nfs4()?;
        let client = Client::register(rpc, mount.session_slots, mount.timeout_ns)?;
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

    fn look_up(&mut self, entry: &Entry<'_, Handle>) -> Answer<Handle> {
        let mut handle = Handle::default();
        let calls = [put(entry.directory), look_up(entry), nfs_argop4::GETFH(())];
        granted!(self.carry_out(&calls, |result| take_handle(&result, &mut handle)));
        Ok(Ok(handle))
    }

    fn find(&mut self, entry: &Entry<'_, Handle>) -> Answer<Node<Handle>> {
        let (mut handle, mut found) = (Handle::default(), None);
        let calls = [put(entry.directory), look_up(entry), nfs_argop4::GETFH(()), get(NODE)];
        granted!(self.carry_out(&calls, |result| {
            take_handle(&result, &mut handle);
            found = found.or_else(|| kind_and_bytes(&attributes(&result)?));
        }));
        let (kind, bytes) = found.ok_or_else(|| self.rpc().invalid(&"it lacks type and size of a file"))?;
        Ok(Ok(Node { handle, kind, bytes }))
    }

    fn facts(&mut self, entry: &Entry<'_, Handle>) -> Answer<FileFacts> {
        let mut found = None;
        granted!(self.carry_out(&[put(entry.directory), look_up(entry), get(FACTS)], |result| {
            found = found.take().or_else(|| facts(&attributes(&result)?));
        }));
        Ok(Ok(found.ok_or_else(|| self.rpc().invalid(&"it lacks attributes of a file"))?))
    }

    fn list_names(&mut self, directory: &Handle, from: Cursor) -> Answer<Page<String>> {
        let name = |entry: &entry4<'_>| std::str::from_utf8(entry.name).ok().map(str::to_owned);
        self.page(directory, from, bitmap4::of(&[]), NAMES_BYTES, name)
    }

    fn list(&mut self, directory: &Handle, from: Cursor) -> Answer<Page<Listed<Handle>>> {
        self.page(directory, from, LISTED, LIST_BYTES, |entry| Some(listed(entry)))
    }

    fn create(&mut self, entry: &Entry<'_, Handle>) -> Answer<Option<Handle>> {
        let how = openflag4::OPEN4_CREATE(createhow4::GUARDED4(made_here(&CREATED)));
        let claim = open_claim4::CLAIM_NULL(entry.name.as_bytes());
        match open(self.client(), entry.directory, share::OPEN4_SHARE_ACCESS_BOTH, how, claim)? {
            Ok((stateid, handle)) => {
                let closed = close(self.client(), &handle, stateid)?;
                Ok(closed.map(|()| Some(handle)).map_err(|status| status as u32))
            }
            Err(status) => Ok(Err(status as u32)),
        }
    }

    fn stateless(handle: Handle) -> Open {
        Open { path: String::new(), handle, stateid: stateid4::ANONYMOUS, access: 0 }
    }

    fn set_size(&mut self, object: &Handle, bytes: u64) -> Answer<()> {
        let size = to_bytes(&Attributes { size: Some(bytes), ..Attributes::default() });
        self.carry_out(&[put(object), set(&size)], |_| {})
    }

    fn remove_file(&mut self, entry: &Entry<'_, Handle>) -> Answer<()> {
        let remove = REMOVE4args { target: entry.name.as_bytes() };
        self.carry_out(&[put(entry.directory), nfs_argop4::REMOVE(remove)], |_| {})
    }

    fn make_directory(&mut self, entry: &Entry<'_, Handle>) -> Answer<Option<Handle>> {
        let (objtype, objname) = (createtype4::NF4DIR(()), entry.name.as_bytes());
        let create = CREATE4args { objtype, objname, createattrs: made_here(&MADE_DIRECTORY) };
        let mut handle = Handle::default();
        let calls = [put(entry.directory), nfs_argop4::CREATE(create), nfs_argop4::GETFH(())];
        granted!(self.carry_out(&calls, |result| take_handle(&result, &mut handle)));
        Ok(Ok(Some(handle)))
    }

    /// REMOVE takes directories as well.
    fn remove_directory(&mut self, entry: &Entry<'_, Handle>) -> Answer<()> {
        self.remove_file(entry)
    }

    fn read(&mut self, open: &mut Open, offset: u64, into: &mut [u8]) -> Answer<(u32, bool)> {
        let (count, mut read) = (into.len() as u32, None);
        let call = |stateid| nfs_argop4::READ(READ4args { stateid, offset, count });
        granted!(self.on_open(open, call, |result| {
            if let nfs_resop4::READ(Ok(found)) = result
                && let Some(place) = into.get_mut(..found.data.len())
            {
                place.copy_from_slice(found.data);
                read = Some((found.data.len() as u32, found.eof));
            }
        }));
        Ok(Ok(read.ok_or_else(|| self.rpc().invalid(&"it has more data than requested"))?))
    }

    fn write(&mut self, open: &mut Open, offset: u64, data: &[u8], durability: Durability) -> Answer<u32> {
        let (stable, mut written) = (stability(durability), None);
        let call = |stateid| nfs_argop4::WRITE(WRITE4args { stateid, offset, stable, data });
        granted!(self.on_open(open, call, |result| {
            if let nfs_resop4::WRITE(Ok(result)) = result {
                written = Some(result);
            }
        }));
        let written = written.ok_or_else(|| self.rpc().invalid(&"it lacks the result of a WRITE"))?;
        if (written.committed as u32) < stable as u32 {
            return Err(self.rpc().invalid(&LESS_STABLE));
        }
        Ok(Ok(written.count))
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

    /// One reply with entries of a directory; `take` may leave entries out.
    fn page<T>(
        &mut self,
        directory: &Handle,
        from: Cursor,
        attr_request: bitmap4,
        bytes: u32,
        take: impl Fn(&entry4<'_>) -> Option<T>,
    ) -> Answer<Page<T>> {
        let Cursor { cookie, verifier } = from;
        let list = READDIR4args { cookie, cookieverf: verifier, dircount: NAMES_BYTES, maxcount: bytes, attr_request };
        let mut page = None;
        granted!(self.carry_out(&[put(directory), nfs_argop4::READDIR(list)], |result| {
            if let nfs_resop4::READDIR(Ok(READDIR4resok { cookieverf, reply })) = result {
                let last = reply.entries.0.last().map(|last| Cursor { cookie: last.cookie, verifier: cookieverf });
                let entries = reply.entries.0.iter().filter_map(&take).collect();
                page = Some(Page { entries, last, is_end: reply.eof });
            }
        }));
        Ok(Ok(page.ok_or_else(|| self.rpc().invalid(&"it lacks the result of a READDIR"))?))
    }

    /// Carries an operation out under the state of an open. A state that the server has lost is replaced once.
    fn on_open<'d>(
        &mut self,
        open: &mut Open,
        operation: impl Fn(stateid4) -> nfs_argop4<'d>,
        mut each: impl FnMut(nfs_resop4<'_>),
    ) -> Answer<()> {
        let carried_out = self.carry_out(&[put(&open.handle), operation(open.stateid)], &mut each)?;
        match carried_out {
            Err(status) if status::judge(status) == Judgement::Recover => {
                *open = open_by_handle(self.client(), &open.path, &open.handle)?;
                self.carry_out(&[put(&open.handle), operation(open.stateid)], each)
            }
            carried_out => Ok(carried_out),
        }
    }

    fn carry_out(&mut self, operations: &[nfs_argop4<'_>], each: impl FnMut(nfs_resop4<'_>)) -> Answer<()> {
        Ok(self.client().compound(operations, each)?.map_err(|failed| failed.status as u32))
    }
}

fn look_up<'n>(entry: &Entry<'n, Handle>) -> nfs_argop4<'n> {
    nfs_argop4::LOOKUP(LOOKUP4args { objname: entry.name.as_bytes() })
}

fn get(attr_request: bitmap4) -> nfs_argop4<'static> {
    nfs_argop4::GETATTR(GETATTR4args { attr_request })
}

fn set(attributes: &[u8]) -> nfs_argop4<'_> {
    nfs_argop4::SETATTR(SETATTR4args { stateid: stateid4::ANONYMOUS, obj_attributes: made_here(attributes) })
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

fn listed(entry: &entry4<'_>) -> Listed<Handle> {
    let node = |found: &Attributes<'_>| {
        let (kind, bytes) = kind_and_bytes(found)?;
        Some(Node { handle: found.filehandle?.into(), kind, bytes })
    };
    let node = entry.attrs.values().ok().and_then(|found| node(&found));
    Listed { name: String::from_utf8_lossy(entry.name).into_owned(), node }
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
