//! Calls of `NFSv3` on names, in a load.

use iocurve_wire::client_fast::{CallTemplate, Unparsed};
use iocurve_wire::nfs3::{
    ACCESS3args, ACCESS3res, CREATE3args, CREATE3res, Failed, GETATTR3args, GETATTR3res, LOOKUP3args, LOOKUP3res,
    MKDIR3args, MKDIR3res, REMOVE3args, REMOVE3res, RENAME3args, RENAME3res, RMDIR3args, RMDIR3res, SETATTR3args,
    SETATTR3res, access, createhow3, diropargs3, nfs_fh3, nfsproc3, sattr3, set_time,
};
use iocurve_wire::xdr::{Decode, Encode, from_bytes};

use super::super::calls::{DIRECTORY_MODE, FILE_MODE};
use super::super::names::{NamedCall, Procedure};
use super::super::protocol::Found;
use super::Nfs3;

/// Appends a call, record mark first. Opening a file is to find its handle.
pub(super) fn append(template: &CallTemplate, call: &NamedCall<nfs_fh3>, xid: u32, out: &mut Vec<u8>) {
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
            Ok(value(got, |_| Found::<Nfs3> { has_attributes: true, ..Found::<Nfs3>::default() }))
        }
        Procedure::LookUp | Procedure::Open | Procedure::OpenToRead | Procedure::Getattr | Procedure::Close => {
            let found: LOOKUP3res = parsed(results)?;
            Ok(value(found, |found| Found::<Nfs3> {
                handle: Some(found.object),
                has_attributes: found.obj_attributes.is_some(),
                ..Found::<Nfs3>::default()
            }))
        }
        Procedure::Create => Ok(value(parsed::<CREATE3res>(results)?, |created| handle(created.obj))),
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
