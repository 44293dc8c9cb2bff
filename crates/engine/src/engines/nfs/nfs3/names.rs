//! Calls of `NFSv3` on names, in a load.

use iocurve_wire::client_fast::{Malformed, Unparsed};
use iocurve_wire::nfs3::{
    ACCESS3args, ACCESS3res, CREATE3args, CREATE3res, Failed, GETATTR3args, GETATTR3res, LINK3args, LINK3res,
    LOOKUP3args, LOOKUP3res, MKDIR3args, MKDIR3res, READ3args, READ3res, READDIR3args, READDIR3res, READDIRPLUS3args,
    READDIRPLUS3res, READLINK3args, READLINK3res, REMOVE3args, REMOVE3res, RENAME3args, RENAME3res, RMDIR3args,
    RMDIR3res, SETATTR3args, SETATTR3res, SYMLINK3args, SYMLINK3res, WRITE3args, WRITE3res, access, createhow3,
    diropargs3, entry3, entryplus3, fattr3, ftype3, nfs_fh3, nfsproc3, sattr3, set_time, stable_how, symlinkdata3,
};
use iocurve_wire::xdr::{Decode, Encode, Reader};

use super::super::names::{
    Cursor, DIRECTORY_MODE, Details, ENTRIES_BYTES, FILE_MODE, FileFacts, LIST_BYTES, Listed, ListedPage, Named,
    NamedCall, Node, Procedure,
};
use crate::tree::EntryKind;

type Found = Named<nfs_fh3, ()>;

/// Attributes of a new file.
const CREATED: sattr3 = sattr3 {
    mode: Some(FILE_MODE),
    uid: None,
    gid: None,
    size: None,
    atime: set_time::DONT_CHANGE(()),
    mtime: set_time::DONT_CHANGE(()),
};

/// Gives the procedure of a call and its arguments to `make`. Opening a file is to find its handle.
pub(super) fn with_arguments<R>(
    call: &NamedCall<nfs_fh3>,
    data: &[u8],
    make: impl FnOnce(nfsproc3, &dyn Encode) -> R,
) -> R {
    let entry = diropargs3 { dir: call.directory, name: &call.name };
    let object = call.directory;
    let create = |how| CREATE3args { r#where: diropargs3 { dir: call.directory, name: &call.name }, how };
    let set = |new_attributes| SETATTR3args { object, new_attributes, guard: None };
    match call.procedure {
        Procedure::Getattr | Procedure::Find if call.name.is_empty() => {
            make(nfsproc3::NFSPROC3_GETATTR, &GETATTR3args { object })
        }
        Procedure::LookUp
        | Procedure::Find
        | Procedure::Open
        | Procedure::OpenToRead
        | Procedure::Getattr
        | Procedure::Close => make(nfsproc3::NFSPROC3_LOOKUP, &LOOKUP3args { what: entry }),
        Procedure::Create => make(nfsproc3::NFSPROC3_CREATE, &create(createhow3::UNCHECKED(CREATED))),
        Procedure::CreateNew => make(nfsproc3::NFSPROC3_CREATE, &create(createhow3::GUARDED(CREATED))),
        Procedure::CreateEmpty => {
            let how = createhow3::UNCHECKED(sattr3 { size: Some(0), ..CREATED });
            make(nfsproc3::NFSPROC3_CREATE, &create(how))
        }
        Procedure::ReadWhole => {
            make(nfsproc3::NFSPROC3_READ, &READ3args { file: object, offset: 0, count: call.length })
        }
        Procedure::WriteWhole => {
            let (count, stable) = (call.length, stable_how::FILE_SYNC);
            make(nfsproc3::NFSPROC3_WRITE, &WRITE3args { file: object, offset: 0, count, stable, data })
        }
        Procedure::Link => {
            let link = diropargs3 { dir: call.new_directory, name: &call.new_name };
            make(nfsproc3::NFSPROC3_LINK, &LINK3args { file: object, link })
        }
        Procedure::Symlink => {
            let symlink = symlinkdata3 { symlink_attributes: sattr3::default(), symlink_data: &call.new_name };
            make(nfsproc3::NFSPROC3_SYMLINK, &SYMLINK3args { r#where: entry, symlink })
        }
        Procedure::Readlink => make(nfsproc3::NFSPROC3_READLINK, &READLINK3args { symlink: object }),
        Procedure::Readdir | Procedure::ListNames => {
            let Cursor { cookie, verifier: cookieverf } = call.cursor;
            let list = READDIR3args { dir: object, cookie, cookieverf, count: ENTRIES_BYTES };
            make(nfsproc3::NFSPROC3_READDIR, &list)
        }
        Procedure::Readdirplus | Procedure::List => {
            let Cursor { cookie, verifier: cookieverf } = call.cursor;
            let maxcount = if call.procedure == Procedure::List { LIST_BYTES } else { ENTRIES_BYTES };
            let dircount = ENTRIES_BYTES;
            let list = READDIRPLUS3args { dir: object, cookie, cookieverf, dircount, maxcount };
            make(nfsproc3::NFSPROC3_READDIRPLUS, &list)
        }
        Procedure::Setattr => {
            let now = set_time::SET_TO_SERVER_TIME(());
            make(nfsproc3::NFSPROC3_SETATTR, &set(sattr3 { atime: now, mtime: now, ..sattr3::default() }))
        }
        Procedure::SetSize => {
            make(nfsproc3::NFSPROC3_SETATTR, &set(sattr3 { size: Some(call.size), ..sattr3::default() }))
        }
        Procedure::Access => make(nfsproc3::NFSPROC3_ACCESS, &ACCESS3args { object, access: access::ACCESS3_READ }),
        Procedure::Remove => make(nfsproc3::NFSPROC3_REMOVE, &REMOVE3args { object: entry }),
        Procedure::Rmdir => make(nfsproc3::NFSPROC3_RMDIR, &RMDIR3args { object: entry }),
        Procedure::Mkdir => {
            let attributes = sattr3 { mode: Some(DIRECTORY_MODE), ..sattr3::default() };
            make(nfsproc3::NFSPROC3_MKDIR, &MKDIR3args { r#where: entry, attributes })
        }
        Procedure::Rename => {
            let to = diropargs3 { dir: call.new_directory, name: &call.new_name };
            make(nfsproc3::NFSPROC3_RENAME, &RENAME3args { from: entry, to })
        }
    }
}

/// Parses the results of a call.
pub(super) fn parse(procedure: Procedure, results: &[u8]) -> Result<Result<Found, u32>, Unparsed> {
    let handle = |handle| Found { handle, ..Found::default() };
    match procedure {
        // GETATTR and LOOKUP differ in their lengths: attributes without a handle before them, or a status alone.
        Procedure::Getattr | Procedure::Find if matches!(results.len(), GETATTR_BYTES | STATUS_BYTES) => {
            let got: GETATTR3res = parsed(results)?;
            Ok(value(got, |got| Found {
                size: Some(got.obj_attributes.size),
                details: (procedure == Procedure::Find).then(|| Box::new(object(&got.obj_attributes))),
                ..Found::default()
            }))
        }
        Procedure::Find => Ok(value(parsed::<LOOKUP3res>(results)?, |found| Found {
            handle: Some(found.object),
            details: found.obj_attributes.as_ref().map(object).map(Box::new),
            ..Found::default()
        })),
        Procedure::LookUp | Procedure::Open | Procedure::OpenToRead | Procedure::Getattr | Procedure::Close => {
            let found: LOOKUP3res = parsed(results)?;
            Ok(value(found, |found| Found {
                handle: Some(found.object),
                size: found.obj_attributes.map(|attributes| attributes.size),
                ..Found::default()
            }))
        }
        Procedure::Create | Procedure::CreateEmpty | Procedure::CreateNew => {
            Ok(value(parsed::<CREATE3res>(results)?, |created| handle(created.obj)))
        }
        Procedure::ReadWhole => Ok(value(parsed::<READ3res<'_>>(results)?, |read| {
            let at = read.data.as_ptr().addr() - results.as_ptr().addr();
            Found { moved: at..at + read.data.len(), ..Found::default() }
        })),
        Procedure::WriteWhole => {
            let written = parsed::<WRITE3res>(results)?;
            if written.as_ref().is_ok_and(|written| written.committed != stable_how::FILE_SYNC) {
                return Err(Unparsed::Malformed(Malformed::LessStable));
            }
            Ok(value(written, |written| Found { moved: 0..written.count as usize, ..Found::default() }))
        }
        Procedure::Link => Ok(value(parsed::<LINK3res>(results)?, |_| handle(None))),
        Procedure::Symlink => Ok(value(parsed::<SYMLINK3res>(results)?, |_| handle(None))),
        Procedure::Readlink => Ok(value(parsed::<READLINK3res<'_>>(results)?, |_| handle(None))),
        Procedure::Readdir | Procedure::ListNames => Ok(value(parsed::<READDIR3res<'_>>(results)?, |list| {
            let entries = &list.reply.entries.0;
            let page =
                ListedPage::of(entries.iter().map(|entry| (entry.name, entry.cookie)), list.cookieverf, list.reply.eof);
            let named = |entry: &entry3<'_>| Listed { name: entry.name.to_vec(), node: None };
            listing(page, (procedure == Procedure::ListNames).then(|| entries.iter().map(named).collect()))
        })),
        Procedure::Readdirplus | Procedure::List => Ok(value(parsed::<READDIRPLUS3res<'_>>(results)?, |list| {
            let entries = &list.reply.entries.0;
            let page =
                ListedPage::of(entries.iter().map(|entry| (entry.name, entry.cookie)), list.cookieverf, list.reply.eof);
            listing(page, (procedure == Procedure::List).then(|| entries.iter().map(listed).collect()))
        })),
        Procedure::Setattr | Procedure::SetSize => Ok(value(parsed::<SETATTR3res>(results)?, |_| handle(None))),
        Procedure::Access => Ok(value(parsed::<ACCESS3res>(results)?, |checked| Found {
            may_read: checked.access & access::ACCESS3_READ != 0,
            ..Found::default()
        })),
        Procedure::Remove => Ok(value(parsed::<REMOVE3res>(results)?, |_| handle(None))),
        Procedure::Rmdir => Ok(value(parsed::<RMDIR3res>(results)?, |_| handle(None))),
        Procedure::Mkdir => Ok(value(parsed::<MKDIR3res>(results)?, |made| handle(made.obj))),
        Procedure::Rename => Ok(value(parsed::<RENAME3res>(results)?, |_| handle(None))),
    }
}

const STATUS_BYTES: usize = 4;
/// Status and attributes.
const GETATTR_BYTES: usize = STATUS_BYTES + iocurve_wire::nfs3::FATTR3_BYTES;

fn listing(page: ListedPage, entries: Option<Vec<Listed<nfs_fh3>>>) -> Found {
    let details = entries.map(|entries| Box::new(Details::Entries(entries)));
    Found { listed: Some(page), details, ..Found::default() }
}

fn listed(entry: &entryplus3<'_>) -> Listed<nfs_fh3> {
    let node = entry.name_handle.zip(entry.name_attributes).map(|(handle, attributes)| Node {
        handle,
        kind: kind(&attributes),
        bytes: attributes.size,
        facts: None,
    });
    Listed { name: entry.name.to_vec(), node }
}

fn object(attributes: &fattr3) -> Details<nfs_fh3> {
    let facts = FileFacts {
        is_plain: attributes.file_type == ftype3::NF3REG && attributes.nlink == 1,
        bytes: attributes.size,
        id: attributes.fileid,
        modified_ns: u64::from(attributes.mtime.seconds) * 1_000_000_000 + u64::from(attributes.mtime.nseconds),
        owner: attributes.uid.to_string(),
    };
    Details::Object { kind: kind(attributes), bytes: attributes.size, facts: Some(facts) }
}

fn kind(attributes: &fattr3) -> EntryKind {
    match attributes.file_type {
        ftype3::NF3REG => EntryKind::File,
        ftype3::NF3DIR => EntryKind::Directory,
        ftype3::NF3LNK => EntryKind::Symlink,
        _ => EntryKind::Other,
    }
}

/// Bytes behind the results are passed over.
pub(super) fn parsed<'a, T: Decode<'a>>(results: &'a [u8]) -> Result<T, Unparsed> {
    T::decode(&mut Reader::new(results)).map_err(|_| Unparsed::Malformed(Malformed::NotOfProcedure))
}

fn value<T, F>(result: Result<T, Failed<F>>, found: impl FnOnce(T) -> Found) -> Result<Found, u32> {
    result.map(found).map_err(|failed| failed.status as u32)
}

#[cfg(test)]
mod tests {
    use iocurve_wire::nfs3::nfsstat3;

    use super::*;

    #[test]
    fn a_refused_getattr_is_a_status_alone() {
        let stale = nfsstat3::NFS3ERR_STALE as u32;
        let parsed = parse(Procedure::Getattr, &stale.to_be_bytes());
        assert!(matches!(parsed, Ok(Err(status)) if status == stale), "{parsed:?}");
    }
}
