//! Calls of `NFSv3` on names, in a load.

use iocurve_wire::client_fast::{CallTemplate, Unparsed};
use iocurve_wire::nfs3::{
    ACCESS3args, ACCESS3res, CREATE3args, CREATE3res, Failed, GETATTR3args, GETATTR3res, LINK3args, LINK3res,
    LOOKUP3args, LOOKUP3res, MKDIR3args, MKDIR3res, READ3args, READ3res, READDIR3args, READDIR3res, READDIRPLUS3args,
    READDIRPLUS3res, READLINK3args, READLINK3res, REMOVE3args, REMOVE3res, RENAME3args, RENAME3res, RMDIR3args,
    RMDIR3res, SETATTR3args, SETATTR3res, SYMLINK3args, SYMLINK3res, WRITE3args, WRITE3res, access, createhow3,
    diropargs3, nfs_fh3, nfsproc3, sattr3, set_time, stable_how, symlinkdata3,
};
use iocurve_wire::xdr::{Decode, Encode, from_bytes};

use super::super::calls::{DIRECTORY_MODE, FILE_MODE};
use super::super::names::{Cursor, ENTRIES_BYTES, ListedPage, NamedCall, Procedure};
use super::super::protocol::{Found, LESS_STABLE};
use super::Nfs3;

/// Appends a call, record mark first. Opening a file is to find its handle.
pub(super) fn append(template: &CallTemplate, call: &NamedCall<nfs_fh3>, data: &[u8], xid: u32, out: &mut Vec<u8>) {
    let mut append = |procedure, arguments: &dyn Arguments| arguments.append(template, out, xid, procedure);
    let entry = diropargs3 { dir: call.directory, name: &call.name };
    let object = call.directory;
    match call.procedure {
        Procedure::Getattr if call.name.is_empty() => {
            append(nfsproc3::NFSPROC3_GETATTR, &GETATTR3args { object });
        }
        Procedure::LookUp | Procedure::Open | Procedure::OpenToRead | Procedure::Getattr | Procedure::Close => {
            append(nfsproc3::NFSPROC3_LOOKUP, &LOOKUP3args { what: entry });
        }
        Procedure::Create => {
            let how = createhow3::UNCHECKED(sattr3 { mode: Some(FILE_MODE), ..sattr3::default() });
            append(nfsproc3::NFSPROC3_CREATE, &CREATE3args { r#where: entry, how });
        }
        Procedure::CreateEmpty => {
            let how = createhow3::UNCHECKED(sattr3 { mode: Some(FILE_MODE), size: Some(0), ..sattr3::default() });
            append(nfsproc3::NFSPROC3_CREATE, &CREATE3args { r#where: entry, how });
        }
        Procedure::ReadWhole => {
            append(nfsproc3::NFSPROC3_READ, &READ3args { file: object, offset: 0, count: call.length });
        }
        Procedure::WriteWhole => {
            let (count, stable) = (call.length, stable_how::FILE_SYNC);
            append(nfsproc3::NFSPROC3_WRITE, &WRITE3args { file: object, offset: 0, count, stable, data });
        }
        Procedure::Link => {
            let link = diropargs3 { dir: call.new_directory, name: &call.new_name };
            append(nfsproc3::NFSPROC3_LINK, &LINK3args { file: object, link });
        }
        Procedure::Symlink => {
            let symlink = symlinkdata3 { symlink_attributes: sattr3::default(), symlink_data: &call.new_name };
            append(nfsproc3::NFSPROC3_SYMLINK, &SYMLINK3args { r#where: entry, symlink });
        }
        Procedure::Readlink => append(nfsproc3::NFSPROC3_READLINK, &READLINK3args { symlink: object }),
        Procedure::Readdir => {
            let Cursor { cookie, verifier: cookieverf } = call.cursor;
            let list = READDIR3args { dir: object, cookie, cookieverf, count: ENTRIES_BYTES };
            append(nfsproc3::NFSPROC3_READDIR, &list);
        }
        Procedure::Readdirplus => {
            let Cursor { cookie, verifier: cookieverf } = call.cursor;
            let (dircount, maxcount) = (ENTRIES_BYTES, ENTRIES_BYTES);
            let list = READDIRPLUS3args { dir: object, cookie, cookieverf, dircount, maxcount };
            append(nfsproc3::NFSPROC3_READDIRPLUS, &list);
        }
        Procedure::Setattr => {
            let now = set_time::SET_TO_SERVER_TIME(());
            let new_attributes = sattr3 { atime: now, mtime: now, ..sattr3::default() };
            append(nfsproc3::NFSPROC3_SETATTR, &SETATTR3args { object, new_attributes, guard: None });
        }
        Procedure::Access => {
            append(nfsproc3::NFSPROC3_ACCESS, &ACCESS3args { object, access: access::ACCESS3_READ });
        }
        Procedure::Remove => append(nfsproc3::NFSPROC3_REMOVE, &REMOVE3args { object: entry }),
        Procedure::Rmdir => append(nfsproc3::NFSPROC3_RMDIR, &RMDIR3args { object: entry }),
        Procedure::Mkdir => {
            let attributes = sattr3 { mode: Some(DIRECTORY_MODE), ..sattr3::default() };
            append(nfsproc3::NFSPROC3_MKDIR, &MKDIR3args { r#where: entry, attributes });
        }
        Procedure::Rename => {
            let to = diropargs3 { dir: call.new_directory, name: &call.new_name };
            append(nfsproc3::NFSPROC3_RENAME, &RENAME3args { from: entry, to });
        }
    }
}

/// Arguments of any procedure.
trait Arguments {
    fn append(&self, template: &CallTemplate, out: &mut Vec<u8>, xid: u32, procedure: nfsproc3);
}

impl<T: Encode> Arguments for T {
    fn append(&self, template: &CallTemplate, out: &mut Vec<u8>, xid: u32, procedure: nfsproc3) {
        template.append(out, xid, procedure, self);
    }
}

/// Parses the results of a call.
pub(super) fn parse(procedure: Procedure, results: &[u8]) -> Result<Result<Found<Nfs3>, u32>, Unparsed> {
    let handle = |handle| Found::<Nfs3> { handle, ..Found::<Nfs3>::default() };
    match procedure {
        // GETATTR and LOOKUP differ in their lengths: attributes without a handle before them.
        Procedure::Getattr if results.len() == GETATTR_BYTES => {
            let got: GETATTR3res = parsed(results)?;
            Ok(value(got, |got| Found::<Nfs3> { size: Some(got.obj_attributes.size), ..Found::<Nfs3>::default() }))
        }
        Procedure::LookUp | Procedure::Open | Procedure::OpenToRead | Procedure::Getattr | Procedure::Close => {
            let found: LOOKUP3res = parsed(results)?;
            Ok(value(found, |found| Found::<Nfs3> {
                handle: Some(found.object),
                size: found.obj_attributes.map(|attributes| attributes.size),
                ..Found::<Nfs3>::default()
            }))
        }
        Procedure::Create | Procedure::CreateEmpty => {
            Ok(value(parsed::<CREATE3res>(results)?, |created| handle(created.obj)))
        }
        Procedure::ReadWhole => Ok(value(parsed::<READ3res<'_>>(results)?, |read| {
            let at = read.data.as_ptr().addr() - results.as_ptr().addr();
            Found::<Nfs3> { moved: at..at + read.data.len(), ..Found::<Nfs3>::default() }
        })),
        Procedure::WriteWhole => {
            let written = parsed::<WRITE3res>(results)?;
            if written.as_ref().is_ok_and(|written| written.committed != stable_how::FILE_SYNC) {
                return Err(Unparsed::Malformed(LESS_STABLE));
            }
            Ok(value(written, |written| Found::<Nfs3> { moved: 0..written.count as usize, ..Found::<Nfs3>::default() }))
        }
        Procedure::Link => Ok(value(parsed::<LINK3res>(results)?, |_| handle(None))),
        Procedure::Symlink => Ok(value(parsed::<SYMLINK3res>(results)?, |_| handle(None))),
        Procedure::Readlink => Ok(value(parsed::<READLINK3res<'_>>(results)?, |_| handle(None))),
        Procedure::Readdir => Ok(value(parsed::<READDIR3res<'_>>(results)?, |list| {
            let entries = list.reply.entries.0.iter().map(|entry| (entry.name, entry.cookie));
            let listed = Some(ListedPage::of(entries, list.cookieverf, list.reply.eof));
            Found::<Nfs3> { listed, ..Found::<Nfs3>::default() }
        })),
        Procedure::Readdirplus => Ok(value(parsed::<READDIRPLUS3res<'_>>(results)?, |list| {
            let entries = list.reply.entries.0.iter().map(|entry| (entry.name, entry.cookie));
            let listed = Some(ListedPage::of(entries, list.cookieverf, list.reply.eof));
            Found::<Nfs3> { listed, ..Found::<Nfs3>::default() }
        })),
        Procedure::Setattr => Ok(value(parsed::<SETATTR3res>(results)?, |_| handle(None))),
        Procedure::Access => Ok(value(parsed::<ACCESS3res>(results)?, |checked| Found::<Nfs3> {
            may_read: checked.access & access::ACCESS3_READ != 0,
            ..Found::<Nfs3>::default()
        })),
        Procedure::Remove => Ok(value(parsed::<REMOVE3res>(results)?, |_| handle(None))),
        Procedure::Rmdir => Ok(value(parsed::<RMDIR3res>(results)?, |_| handle(None))),
        Procedure::Mkdir => Ok(value(parsed::<MKDIR3res>(results)?, |made| handle(made.obj))),
        Procedure::Rename => Ok(value(parsed::<RENAME3res>(results)?, |_| handle(None))),
    }
}

/// Status and attributes.
const GETATTR_BYTES: usize = 4 + iocurve_wire::nfs3::FATTR3_BYTES;

fn parsed<'a, T: Decode<'a>>(results: &'a [u8]) -> Result<T, Unparsed> {
    from_bytes(results).map_err(|_| Unparsed::Malformed("it has not the results of its procedure"))
}

fn value<T, F>(result: Result<T, Failed<F>>, found: impl FnOnce(T) -> Found<Nfs3>) -> Result<Found<Nfs3>, u32> {
    result.map(found).map_err(|failed| failed.status as u32)
}
