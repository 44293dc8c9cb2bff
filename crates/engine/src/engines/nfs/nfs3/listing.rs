//! Finds what exists of a tree on an export: READDIRPLUS from its root down.

use std::sync::atomic::AtomicBool;

use iocurve_wire::nfs3::{
    Failed, LOOKUP3args, LOOKUP3res, MKDIR3args, MKDIR3res, NFS_PROGRAM, NFS_V3, READDIRPLUS3args, READDIRPLUS3res,
    diropargs3, fattr3, ftype3, nfs_fh3, nfsproc3, nfsstat3, sattr3,
};
use iocurve_wire::xdr::{Decode, Reader};

use super::super::metadata::DIRECTORY_MODE;
use super::super::protocol::Session as _;
use super::session::{Session, refused};
use crate::error::EngineError;
use crate::plan::NfsMount;
use crate::tree::{Found, Kind, is_control_file, kind_of};

/// Most bytes of names, and of a whole reply.
const NAMES_BYTES: u32 = 32 << 10;
const REPLY_BYTES: u32 = 256 << 10;

/// An entry of a directory.
struct Entry {
    name: String,
    handle: nfs_fh3,
    attributes: fattr3,
}

/// Everything with the name of a tree below a root, which is created if it is missing.
pub(crate) fn find_tree(
    mount: &NfsMount,
    root: &str,
    creates_parents: bool,
    stop: &AtomicBool,
) -> Result<Vec<Found>, EngineError> {
    let mut session = Session::open(mount, stop)?;
    let handle = open_root(&mut session, root, creates_parents)?;
    let mut found = Vec::new();
    list(&mut session, handle, "", &mut found)?;
    Ok(found)
}

fn open_root(session: &mut Session<'_>, root: &str, creates_parents: bool) -> Result<nfs_fh3, EngineError> {
    let mut directory = session.root;
    let mut parts = root.split('/').filter(|part| !part.is_empty()).peekable();
    while let Some(part) = parts.next() {
        directory = match session.lookup(directory, part, root)? {
            Some((handle, attributes)) if attributes.file_type == ftype3::NF3DIR => handle,
            Some(_) => return Err(EngineError::Target(format!("{part} in {root} is not a directory"))),
            None if creates_parents || parts.peek().is_none() => make(session, directory, part, root)?,
            None => {
                return Err(EngineError::Target(format!(
                    "{root}: there is no directory {part} on the export; create it first"
                )));
            }
        };
    }
    Ok(directory)
}

fn make(session: &mut Session<'_>, dir: nfs_fh3, name: &str, root: &str) -> Result<nfs_fh3, EngineError> {
    let attributes = sattr3 { mode: Some(DIRECTORY_MODE), ..sattr3::default() };
    let arguments = MKDIR3args { r#where: diropargs3 { dir, name: name.as_bytes() }, attributes };
    let made: MKDIR3res = session.rpc.nfs(nfsproc3::NFSPROC3_MKDIR, &arguments)?;
    match made {
        Ok(made) => match made.obj {
            Some(handle) => Ok(handle),
            None => look_up(session, dir, name, root),
        },
        Err(failed) if failed.status == nfsstat3::NFS3ERR_EXIST => look_up(session, dir, name, root),
        Err(failed) => Err(refused("create", root, &failed)),
    }
}

fn look_up(session: &mut Session<'_>, dir: nfs_fh3, name: &str, root: &str) -> Result<nfs_fh3, EngineError> {
    let arguments = LOOKUP3args { what: diropargs3 { dir, name: name.as_bytes() } };
    let found: LOOKUP3res = session.rpc.nfs(nfsproc3::NFSPROC3_LOOKUP, &arguments)?;
    found.map(|found| found.object).map_err(|failed| refused("look up", root, &failed))
}

/// Lists a directory; returns `true` if it has entries that are not of a tree.
fn list(session: &mut Session<'_>, dir: nfs_fh3, below: &str, found: &mut Vec<Found>) -> Result<bool, EngineError> {
    let mut has_others = false;
    for Entry { name, handle, attributes } in entries(session, dir, below)? {
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let bytes = attributes.size;
        match (kind_of(&name), attributes.file_type) {
            (Some(Kind::Directory { .. }), ftype3::NF3DIR) => {
                let others_inside = list(session, handle, &path, found)?;
                has_others |= others_inside;
                found.push(Found { path, is_directory: true, bytes: 0, has_others: others_inside });
            }
            (Some(Kind::File { .. }), ftype3::NF3REG) => {
                found.push(Found { path, is_directory: false, bytes, has_others: false });
            }
            (None, ftype3::NF3REG) if below.is_empty() && is_control_file(&name) => {
                found.push(Found { path, is_directory: false, bytes, has_others: false });
            }
            _ => has_others = true,
        }
    }
    Ok(has_others)
}

/// All entries of a directory but itself and its parent.
fn entries(session: &mut Session<'_>, dir: nfs_fh3, below: &str) -> Result<Vec<Entry>, EngineError> {
    let (mut all, mut cookie, mut cookieverf) = (Vec::new(), 0, [0; 8]);
    loop {
        let arguments = READDIRPLUS3args { dir, cookie, cookieverf, dircount: NAMES_BYTES, maxcount: REPLY_BYTES };
        let page = page(session, &arguments, below)?;
        for (name, next, handle, attributes) in page.entries {
            cookie = next;
            if name == "." || name == ".." {
                continue;
            }
            let (handle, attributes) = match (handle, attributes) {
                (Some(handle), Some(attributes)) => (handle, attributes),
                _ => match session.lookup(dir, &name, below)? {
                    Some(found) => found,
                    None => continue,
                },
            };
            all.push(Entry { name, handle, attributes });
        }
        if page.is_last {
            return Ok(all);
        }
        cookieverf = page.cookieverf;
    }
}

/// One reply.
struct Page {
    entries: Vec<(String, u64, Option<nfs_fh3>, Option<fattr3>)>,
    cookieverf: [u8; 8],
    is_last: bool,
}

fn page(session: &mut Session<'_>, arguments: &READDIRPLUS3args, below: &str) -> Result<Page, EngineError> {
    let server = session.server().to_owned();
    let results = session.rpc.transact(NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_READDIRPLUS as u32, arguments)?;
    let invalid = |_| EngineError::Connection(format!("invalid reply to a READDIRPLUS from server {server}"));
    let read = READDIRPLUS3res::decode(&mut Reader::new(results)).map_err(invalid)?;
    let read = read.map_err(|failed: Failed<_>| refused("list", below, &failed))?;
    let entry = |entry: &iocurve_wire::nfs3::entryplus3<'_>| {
        let name = String::from_utf8_lossy(entry.name).into_owned();
        (name, entry.cookie, entry.name_handle, entry.name_attributes)
    };
    let entries: Vec<_> = read.reply.entries.0.iter().map(entry).collect();
    let is_last = read.reply.eof || entries.is_empty();
    Ok(Page { entries, cookieverf: read.cookieverf, is_last })
}
