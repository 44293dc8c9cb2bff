//! MOUNT (RFC 1813 App. I): every export, and every directory in them.

use iocurve_wire::mount3::{
    MNTPATHLEN, MOUNTPROC3_DUMP, MOUNTPROC3_EXPORT, MOUNTPROC3_MNT, MOUNTPROC3_NULL, MOUNTPROC3_UMNT,
    MOUNTPROC3_UMNTALL, dirpath, exportnode, exports, mountbody, mountlist, mountres3, mountres3_ok, mountstat3,
};
use iocurve_wire::nfs3::{ftype3, nfs_fh3, nfsstat3};
use iocurve_wire::rpc::auth_flavor;
use iocurve_wire::xdr::{Encode, List, Writer, from_bytes};

use super::call::{Call, Refused};
use crate::served::{Export, Exports, Mounts};
use crate::store::Files;
use crate::store::Store;
use crate::store::access::Caller;

/// Answers a call of the MOUNT program.
pub(super) fn answer(call: &Call<'_>, out: &mut Writer<'_>) -> Result<(), Refused> {
    let (mounts, client) = (&call.served.mounts, call.peer.address.as_str());
    match call.procedure {
        MOUNTPROC3_NULL => from_bytes::<()>(call.arguments)?,
        MOUNTPROC3_MNT => mnt(call, from_bytes(call.arguments)?).encode(out),
        MOUNTPROC3_DUMP => dump(mounts, out),
        MOUNTPROC3_UMNT => mounts.remove(client, Some(from_bytes::<dirpath<'_>>(call.arguments)?)),
        MOUNTPROC3_UMNTALL => mounts.remove(client, None),
        MOUNTPROC3_EXPORT => export(&call.served.exports, out),
        _ => return Err(Refused::Procedure),
    }
    Ok(())
}

fn mnt(call: &Call<'_>, path: dirpath<'_>) -> mountres3 {
    if path.len() > MNTPATHLEN {
        return Err(mountstat3::MNT3ERR_NAMETOOLONG);
    }
    let exports = &call.served.exports;
    let paths = exports.iter().map(|export| export.path.as_str());
    let (export, inside) = find_export(paths, path).ok_or(mountstat3::MNT3ERR_NOENT)?;
    let export = exports.numbered(export);
    call.peer.access(export).check(false).map_err(|_| mountstat3::MNT3ERR_ACCES)?;
    let fhandle = walk(&export.files, inside).map_err(mount_status)?;
    call.served.mounts.insert(&call.peer.address, path);
    Ok(mountres3_ok { fhandle, auth_flavors: vec![auth_flavor::AUTH_SYS, auth_flavor::AUTH_NONE] })
}

/// Finds the export that `path` is in, the innermost of nested exports, and the part of the path below it.
fn find_export<'a, 'b>(exports: impl Iterator<Item = &'b str>, path: &'a [u8]) -> Option<(usize, &'a [u8])> {
    let found = exports.enumerate().filter_map(|(n, export)| Some((n, inside_export(export, path)?)));
    found.min_by_key(|(_, inside)| inside.len())
}

/// The part of `path` below the export; `None` if the path is not in the export.
fn inside_export<'a>(export: &str, path: &'a [u8]) -> Option<&'a [u8]> {
    let inside = path.strip_prefix(export.trim_end_matches('/').as_bytes())?;
    (inside.is_empty() || inside[0] == b'/').then_some(inside)
}

/// Mounting takes no permission.
const ROOT: Caller = Caller::new(0, 0);

/// Follows a path of directories.
fn walk(files: &Files, path: &[u8]) -> Result<nfs_fh3, nfsstat3> {
    let mut at = files.root();
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        // A path must not leave the export, and needs neither name.
        if matches!(name, b"." | b"..") {
            return Err(nfsstat3::NFS3ERR_INVAL);
        }
        let (found, _) = files.lookup(&ROOT, at.as_bytes(), name)?;
        if found.attributes.file_type != ftype3::NF3DIR {
            return Err(nfsstat3::NFS3ERR_NOTDIR);
        }
        at = found.handle;
    }
    Ok(at)
}

fn mount_status(status: nfsstat3) -> mountstat3 {
    mountstat3::from_u32(status as u32).unwrap_or(mountstat3::MNT3ERR_SERVERFAULT)
}

fn dump(mounts: &Mounts, out: &mut Writer<'_>) {
    let mounts = mounts.list();
    let bodies = mounts.iter().map(|(host, path)| mountbody { ml_hostname: host.as_bytes(), ml_directory: path });
    let list: mountlist<'_> = List(bodies.collect());
    list.encode(out);
}

/// Lists the exports, each with the networks of its clients.
fn export(served: &Exports, out: &mut Writer<'_>) {
    let networks = |export: &Export| export.rules.clients.iter().map(|rule| rule.network.to_string()).collect();
    let groups: Vec<Vec<String>> = served.iter().map(networks).collect();
    let nodes = served.iter().zip(&groups).map(|(export, groups)| exportnode {
        ex_dir: export.path.as_bytes(),
        ex_groups: List(groups.iter().map(String::as_bytes).collect()),
    });
    let list: exports<'_> = List(nodes.collect());
    list.encode(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_export_and_what_is_in_it_can_be_mounted() {
        assert_eq!(inside_export("/vol", b"/vol"), Some(&b""[..]));
        assert_eq!(inside_export("/vol", b"/vol/"), Some(&b"/"[..]));
        assert_eq!(inside_export("/vol", b"/vol/a/b"), Some(&b"/a/b"[..]));
        assert_eq!(inside_export("/", b"/a"), Some(&b"/a"[..]));
        assert_eq!(inside_export("/vol", b"/volume"), None);
        assert_eq!(inside_export("/vol", b"/"), None);
    }

    #[test]
    fn the_innermost_export_is_mounted() {
        let find = |path| find_export(["/", "/a", "/a/b"].into_iter(), path);
        assert_eq!(find(b"/c"), Some((0, &b"/c"[..])));
        assert_eq!(find(b"/a"), Some((1, &b""[..])));
        assert_eq!(find(b"/a/b/c"), Some((2, &b"/c"[..])));
        assert_eq!(find_export(["/a"].into_iter(), b"/b"), None);
    }
}
