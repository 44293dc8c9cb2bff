//! MOUNT (RFC 1813 App. I): every export, and every directory in them.

use std::sync::PoisonError;

use iocurve_wire::mount3::{
    MNTPATHLEN, MOUNTPROC3_DUMP, MOUNTPROC3_EXPORT, MOUNTPROC3_MNT, MOUNTPROC3_NULL, MOUNTPROC3_UMNT,
    MOUNTPROC3_UMNTALL, dirpath, exportnode, exports, mountbody, mountlist, mountres3, mountres3_ok, mountstat3,
};
use iocurve_wire::nfs3::{ftype3, nfs_fh3, nfsstat3};
use iocurve_wire::rpc::auth_flavor;
use iocurve_wire::xdr::{Encode, List, Writer, from_bytes};

use crate::programs::call::{Call, Refused};
use crate::served::Served;
use crate::store::Store;

/// Answers a call of the MOUNT program.
pub fn answer<S: Store>(call: &Call<'_, S>, out: &mut Writer<'_>) -> Result<(), Refused> {
    let served = call.served;
    match call.procedure {
        MOUNTPROC3_NULL => from_bytes::<()>(call.arguments)?,
        MOUNTPROC3_MNT => mnt(call, from_bytes(call.arguments)?).encode(out),
        MOUNTPROC3_DUMP => dump(served, out),
        MOUNTPROC3_UMNT => served.unmounted(call.peer, Some(from_bytes::<dirpath<'_>>(call.arguments)?)),
        MOUNTPROC3_UMNTALL => served.unmounted(call.peer, None),
        MOUNTPROC3_EXPORT => export(served).encode(out),
        _ => return Err(Refused::Procedure),
    }
    Ok(())
}

fn mnt<S: Store>(call: &Call<'_, S>, path: dirpath<'_>) -> mountres3 {
    if path.len() > MNTPATHLEN {
        return Err(mountstat3::MNT3ERR_NAMETOOLONG);
    }
    let paths = call.served.exports.iter().map(|export| export.path.as_str());
    let (export, inside) = find_export(paths, path).ok_or(mountstat3::MNT3ERR_NOENT)?;
    let fhandle = walk(&call.served.store, export, inside).map_err(mount_status)?;
    call.served.mounted(call.peer, path);
    Ok(mountres3_ok { fhandle, auth_flavors: vec![auth_flavor::AUTH_SYS, auth_flavor::AUTH_NONE] })
}

/// The export that `path` is in, and the part of the path below it. Of exports within each other it is the innermost.
fn find_export<'a, 'b>(exports: impl Iterator<Item = &'b str>, path: &'a [u8]) -> Option<(usize, &'a [u8])> {
    let found = exports.enumerate().filter_map(|(n, export)| Some((n, inside_export(export, path)?)));
    found.min_by_key(|(_, inside)| inside.len())
}

/// The part of `path` below the export; `None` if it is not in it.
fn inside_export<'a>(export: &str, path: &'a [u8]) -> Option<&'a [u8]> {
    let inside = path.strip_prefix(export.trim_end_matches('/').as_bytes())?;
    (inside.is_empty() || inside[0] == b'/').then_some(inside)
}

/// Follows a path of directories.
fn walk<S: Store>(store: &S, export: usize, path: &[u8]) -> Result<nfs_fh3, nfsstat3> {
    let mut at = store.root(export);
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        // A path must not climb out of the export, and needs neither name.
        if matches!(name, b"." | b"..") {
            return Err(nfsstat3::NFS3ERR_INVAL);
        }
        at = store.lookup(at.as_bytes(), name)?;
        if store.getattr(at.as_bytes())?.file_type != ftype3::NF3DIR {
            return Err(nfsstat3::NFS3ERR_NOTDIR);
        }
    }
    Ok(at)
}

fn mount_status(status: nfsstat3) -> mountstat3 {
    mountstat3::from_u32(status as u32).unwrap_or(mountstat3::MNT3ERR_SERVERFAULT)
}

fn dump<S>(served: &Served<S>, out: &mut Writer<'_>) {
    let mounts = served.mounts.lock().unwrap_or_else(PoisonError::into_inner);
    let body = |(host, path): &'_ (String, Vec<u8>)| (host.clone(), path.clone());
    let mounts: Vec<_> = mounts.iter().map(body).collect();
    let bodies = mounts.iter().map(|(host, path)| mountbody { ml_hostname: host.as_bytes(), ml_directory: path });
    let list: mountlist<'_> = List(bodies.collect());
    list.encode(out);
}

fn export<S>(served: &Served<S>) -> exports<'_> {
    let nodes =
        served.exports.iter().map(|export| exportnode { ex_dir: export.path.as_bytes(), ex_groups: List(Vec::new()) });
    List(nodes.collect())
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
