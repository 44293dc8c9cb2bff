//! The calls of `NFSv3` outside a load. A file is open once its handle is known.

use std::sync::atomic::AtomicBool;

use iocurve_wire::nfs3::{
    CREATE3args, CREATE3res, FSINFO3args, FSINFO3res, Failed, GETATTR3args, GETATTR3res, LOOKUP3args, LOOKUP3res,
    MKDIR3args, MKDIR3res, NFS_PROGRAM, NFS_V3, READ3args, READ3res, READDIR3args, READDIR3res, READDIRPLUS3args,
    READDIRPLUS3res, REMOVE3args, REMOVE3res, RMDIR3args, RMDIR3res, SETATTR3args, SETATTR3res, WRITE3args, WRITE3res,
    createhow3, diropargs3, entryplus3, fattr3, ftype3, nfs_fh3, nfsproc3, sattr3,
};
use iocurve_wire::xdr::{Decode, Encode, Reader};

use super::super::calls::{
    Answer, CallLimits, Calls, DIRECTORY_MODE, Entry, FILE_MODE, FileFacts, LIST_BYTES, Listed, NAMES_BYTES, Node,
    Page, granted,
};
use super::super::names::Cursor;
use super::super::protocol::{LESS_STABLE, Protocol, stability};
use super::super::status::refused;
use super::super::transport::mounter::{self, Mounter};
use super::super::transport::rpc::{Rpc, invalid_reply};
use super::super::transport::socket::Socket;
use super::Nfs3;
use crate::error::EngineError;
use crate::plan::{Durability, NfsMount};
use crate::tree::EntryKind;

/// Most bytes of one call, whatever the server's limit.
const CALL_BYTES_MAX: u32 = 16 << 20;

/// A mounted export.
pub(in super::super) struct Nfs3Calls<'a> {
    rpc: Rpc<'a>,
    root: nfs_fh3,
    limits: CallLimits,
    stop: &'a AtomicBool,
}

impl<'a> Calls<'a, Nfs3> for Nfs3Calls<'a> {
    type Open = nfs_fh3;

    /// Queries ports that the mount does not name, mounts the export and connects to the NFS program.
    fn mount(mount: &NfsMount, stop: &'a AtomicBool) -> Result<Self, EngineError> {
        let root = Mounter { mount, stop }.mount()?;
        let mut rpc = Mounter { mount, stop }.connect_nfs()?;
        let limits = limits(&mut rpc, root, &mount.export)?;
        Ok(Self { rpc, root, limits, stop })
    }

    fn rpc(&self) -> &Rpc<'a> {
        &self.rpc
    }

    fn root(&self) -> &nfs_fh3 {
        &self.root
    }

    fn limits(&self) -> CallLimits {
        self.limits
    }

    fn was_repeated(&self) -> bool {
        self.rpc.was_repeated
    }

    fn look_up(&mut self, entry: &Entry<'_, nfs_fh3>) -> Answer<nfs_fh3> {
        let found: LOOKUP3res = self.rpc.nfs(nfsproc3::NFSPROC3_LOOKUP, &LOOKUP3args { what: place(entry) })?;
        value(found.map(|found| found.object))
    }

    fn find(&mut self, entry: &Entry<'_, nfs_fh3>) -> Answer<Node<nfs_fh3>> {
        let (handle, attributes) = granted!(self.look_up_with_attributes(entry));
        Ok(Ok(node(handle, &attributes)))
    }

    fn facts(&mut self, entry: &Entry<'_, nfs_fh3>) -> Answer<FileFacts> {
        let (_, attributes) = granted!(self.look_up_with_attributes(entry));
        Ok(Ok(FileFacts {
            is_plain: attributes.file_type == ftype3::NF3REG && attributes.nlink == 1,
            bytes: attributes.size,
            id: attributes.fileid,
            modified_ns: u64::from(attributes.mtime.seconds) * 1_000_000_000 + u64::from(attributes.mtime.nseconds),
            owner: attributes.uid.to_string(),
        }))
    }

    fn list_names(&mut self, directory: &nfs_fh3, from: Cursor) -> Answer<Page<String>> {
        let Cursor { cookie, verifier } = from;
        let arguments = READDIR3args { dir: *directory, cookie, cookieverf: verifier, count: NAMES_BYTES };
        let listed: READDIR3res<'_> = borrowed(&mut self.rpc, nfsproc3::NFSPROC3_READDIR, &arguments)?;
        let listed = granted!(value(listed));
        let entries = listed.reply.entries.0;
        let names = entries.iter().filter_map(|entry| std::str::from_utf8(entry.name).ok());
        let last = entries.last().map(|last| Cursor { cookie: last.cookie, verifier: listed.cookieverf });
        Ok(Ok(Page { entries: names.map(str::to_owned).collect(), last, is_end: listed.reply.eof }))
    }

    fn list(&mut self, directory: &nfs_fh3, from: Cursor) -> Answer<Page<Listed<nfs_fh3>>> {
        let Cursor { cookie, verifier: cookieverf } = from;
        let arguments =
            READDIRPLUS3args { dir: *directory, cookie, cookieverf, dircount: NAMES_BYTES, maxcount: LIST_BYTES };
        let listed: READDIRPLUS3res<'_> = borrowed(&mut self.rpc, nfsproc3::NFSPROC3_READDIRPLUS, &arguments)?;
        let listed = granted!(value(listed));
        let entries = listed.reply.entries.0;
        let last = entries.last().map(|last| Cursor { cookie: last.cookie, verifier: listed.cookieverf });
        Ok(Ok(Page { entries: entries.iter().map(self::listed).collect(), last, is_end: listed.reply.eof }))
    }

    fn create(&mut self, entry: &Entry<'_, nfs_fh3>) -> Answer<Option<nfs_fh3>> {
        self.create_as(entry, createhow3::GUARDED(sattr3 { mode: Some(FILE_MODE), ..sattr3::default() }))
    }

    fn stateless(handle: nfs_fh3) -> nfs_fh3 {
        handle
    }

    fn set_size(&mut self, object: &nfs_fh3, bytes: u64) -> Answer<()> {
        self.set_attributes(*object, sattr3 { size: Some(bytes), ..sattr3::default() })
    }

    fn remove_file(&mut self, entry: &Entry<'_, nfs_fh3>) -> Answer<()> {
        let removed: REMOVE3res = self.rpc.nfs(nfsproc3::NFSPROC3_REMOVE, &REMOVE3args { object: place(entry) })?;
        value(removed.map(drop))
    }

    fn make_directory(&mut self, entry: &Entry<'_, nfs_fh3>) -> Answer<Option<nfs_fh3>> {
        let attributes = sattr3 { mode: Some(DIRECTORY_MODE), ..sattr3::default() };
        let arguments = MKDIR3args { r#where: place(entry), attributes };
        let made: MKDIR3res = self.rpc.nfs(nfsproc3::NFSPROC3_MKDIR, &arguments)?;
        value(made.map(|made| made.obj))
    }

    fn remove_directory(&mut self, entry: &Entry<'_, nfs_fh3>) -> Answer<()> {
        let removed: RMDIR3res = self.rpc.nfs(nfsproc3::NFSPROC3_RMDIR, &RMDIR3args { object: place(entry) })?;
        value(removed.map(drop))
    }

    fn read(&mut self, open: &mut nfs_fh3, offset: u64, into: &mut [u8]) -> Answer<(u32, bool)> {
        let arguments = READ3args { file: *open, offset, count: into.len() as u32 };
        let read: READ3res<'_> = borrowed(&mut self.rpc, nfsproc3::NFSPROC3_READ, &arguments)?;
        let read = granted!(value(read));
        let (bytes, eof) = (read.data.len(), read.eof);
        match into.get_mut(..bytes) {
            Some(into) => into.copy_from_slice(read.data),
            None => return Err(self.rpc.invalid(&"it has more data than requested")),
        }
        Ok(Ok((bytes as u32, eof)))
    }

    fn write(&mut self, open: &mut nfs_fh3, offset: u64, data: &[u8], durability: Durability) -> Answer<u32> {
        let stable = stability(durability);
        let arguments = WRITE3args { file: *open, offset, count: data.len() as u32, stable, data };
        let written: WRITE3res = self.rpc.nfs(nfsproc3::NFSPROC3_WRITE, &arguments)?;
        if written.as_ref().is_ok_and(|written| (written.committed as u32) < stable as u32) {
            return Err(self.rpc.invalid(&LESS_STABLE));
        }
        value(written.map(|written| written.count))
    }

    fn start(self, mount: &NfsMount, files: &[(String, nfs_fh3)]) -> Result<(Nfs3, Vec<Socket>), EngineError> {
        let Rpc { socket, route, server, credential, .. } = self.rpc;
        let mut sockets = vec![socket];
        for _ in 1..mount.nconnect {
            sockets.push(mounter::connect(&route, &server, mount.timeout_ns, self.stop)?);
        }
        let handles: Vec<nfs_fh3> = files.iter().map(|(_, handle)| *handle).collect();
        Ok((Nfs3::new(&credential, &handles, mount.durability), sockets))
    }
}

impl Nfs3Calls<'_> {
    fn look_up_with_attributes(&mut self, entry: &Entry<'_, nfs_fh3>) -> Answer<(nfs_fh3, fattr3)> {
        let found: LOOKUP3res = self.rpc.nfs(nfsproc3::NFSPROC3_LOOKUP, &LOOKUP3args { what: place(entry) })?;
        let found = granted!(value(found));
        let attributes = match found.obj_attributes {
            Some(attributes) => attributes,
            None => granted!(self.attributes(found.object)),
        };
        Ok(Ok((found.object, attributes)))
    }

    fn attributes(&mut self, object: nfs_fh3) -> Answer<fattr3> {
        let got: GETATTR3res = self.rpc.nfs(nfsproc3::NFSPROC3_GETATTR, &GETATTR3args { object })?;
        value(got.map(|got| got.obj_attributes))
    }

    fn set_attributes(&mut self, object: nfs_fh3, new_attributes: sattr3) -> Answer<()> {
        let arguments = SETATTR3args { object, new_attributes, guard: None };
        let set: SETATTR3res = self.rpc.nfs(nfsproc3::NFSPROC3_SETATTR, &arguments)?;
        value(set.map(drop))
    }

    fn create_as(&mut self, entry: &Entry<'_, nfs_fh3>, how: createhow3) -> Answer<Option<nfs_fh3>> {
        let arguments = CREATE3args { r#where: place(entry), how };
        let created: CREATE3res = self.rpc.nfs(nfsproc3::NFSPROC3_CREATE, &arguments)?;
        value(created.map(|created| created.obj))
    }
}

/// Calls a procedure whose results borrow from the reply.
fn borrowed<'r, R: Decode<'r>>(
    rpc: &'r mut Rpc<'_>,
    procedure: nfsproc3,
    arguments: &impl Encode,
) -> Result<R, EngineError> {
    let server = rpc.server.clone();
    let results = rpc.transact(NFS_PROGRAM, NFS_V3, procedure as u32, arguments)?;
    R::decode(&mut Reader::new(results)).map_err(|error| invalid_reply(&server, Nfs3::NAME, &error))
}

fn limits(rpc: &mut Rpc<'_>, fsroot: nfs_fh3, export: &str) -> Result<CallLimits, EngineError> {
    let info: FSINFO3res = rpc.nfs(nfsproc3::NFSPROC3_FSINFO, &FSINFO3args { fsroot })?;
    let info = info.map_err(|failed| refused::<Nfs3>("get the limits of", export, failed.status as u32))?;
    let limits = CallLimits { read: info.rtmax.min(CALL_BYTES_MAX), write: info.wtmax.min(CALL_BYTES_MAX) };
    limits.check(&rpc.server)
}

fn place<'n>(entry: &Entry<'n, nfs_fh3>) -> diropargs3<'n> {
    diropargs3 { dir: *entry.directory, name: entry.name.as_bytes() }
}

fn listed(entry: &entryplus3<'_>) -> Listed<nfs_fh3> {
    let node = entry.name_handle.zip(entry.name_attributes).map(|(handle, attributes)| node(handle, &attributes));
    Listed { name: String::from_utf8_lossy(entry.name).into_owned(), node }
}

fn node(handle: nfs_fh3, attributes: &fattr3) -> Node<nfs_fh3> {
    let kind = match attributes.file_type {
        ftype3::NF3REG => EntryKind::File,
        ftype3::NF3DIR => EntryKind::Directory,
        ftype3::NF3LNK => EntryKind::Symlink,
        _ => EntryKind::Other,
    };
    Node { handle, kind, bytes: attributes.size }
}

/// The value of a result, or its status.
#[expect(clippy::unnecessary_wraps, reason = "the calls return it as their answer")]
fn value<T, F>(result: Result<T, Failed<F>>) -> Answer<T> {
    Ok(result.map_err(|failed| failed.status as u32))
}
