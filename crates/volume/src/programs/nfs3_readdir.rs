//! READDIR and READDIRPLUS (RFC 1813 §3.3.16, §3.3.17): as many entries as fit into the size of the reply that the client allows.
#![allow(clippy::wildcard_imports)] // the whole protocol is spoken here

use iocurve_wire::nfs3::*;
use iocurve_wire::xdr::{Encode, Writer};

use super::call::Admitted;
use super::page::Page;
use crate::store::{Entry, Listed, Range, Store};

/// Bytes of a listing without its entries: attributes, verifier, end of list, end of directory.
const LISTING_FRAME_BYTES: usize = 4 + FATTR3_BYTES + 8 + 4 + 4;

pub(super) fn readdir(call: &Admitted<'_>, arguments: &READDIR3args, out: &mut Writer<'_>) {
    let &READDIR3args { dir, cookie, cookieverf, count } = arguments;
    list(call, &dir, (cookie, cookieverf), (count, false), out, |&Entry { fileid, name, cookie, .. }, out| {
        entry3 { fileid, name, cookie }.encode(out);
    });
}

pub(super) fn readdirplus(call: &Admitted<'_>, arguments: &READDIRPLUS3args, out: &mut Writer<'_>) {
    let &READDIRPLUS3args { dir, cookie, cookieverf, maxcount, .. } = arguments;
    list(call, &dir, (cookie, cookieverf), (maxcount, true), out, |entry, out| {
        let &Entry { fileid, name, cookie, handle: name_handle, attributes: name_attributes } = entry;
        entryplus3 { fileid, name, cookie, name_attributes, name_handle }.encode(out);
    });
}

/// Appends the reply with the names after a cookie, in at most `count` bytes.
fn list(
    call: &Admitted<'_>,
    directory: &nfs_fh3,
    (cookie, cookieverf): (u64, cookieverf3),
    (count, with_attributes): (u32, bool),
    out: &mut Writer<'_>,
    encode: impl Fn(&Entry<'_>, &mut Writer<'_>),
) {
    let files = call.files(directory);
    let verifier = files.cookieverf(directory.as_bytes());
    let mut page = Page::new(count.min(call.listing_bytes_max) as usize, LISTING_FRAME_BYTES);
    let range = Range { after: cookie, with_attributes };
    let mut add = |entry: &Entry<'_>| page.add(|out| encode(entry, out));
    let listed = if cookie != 0 && cookieverf != verifier {
        Err(nfsstat3::NFS3ERR_BAD_COOKIE)
    } else {
        files.readdir(&call.caller, directory.as_bytes(), range, &mut add)
    };
    let (status, attributes) = match listed {
        Ok(Listed { directory, end }) if page.is_too_small(end) => (nfsstat3::NFS3ERR_TOOSMALL, Some(directory)),
        Ok(Listed { directory, .. }) => (nfsstat3::NFS3_OK, Some(directory)),
        Err(status) => (status, call.attributes(directory)),
    };
    status.encode(out);
    attributes.encode(out);
    if let (nfsstat3::NFS3_OK, Ok(Listed { end, .. })) = (status, listed) {
        out.bytes(&verifier);
        page.finish(end, out);
    }
}
