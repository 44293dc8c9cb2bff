//! READDIR and READDIRPLUS (RFC 1813 §3.3.16, §3.3.17): as many entries as fit into the size that the client asked for.
#![allow(clippy::wildcard_imports)] // the whole protocol is spoken here
#![allow(clippy::result_large_err)] // results are the protocol's, and are encoded at once

use iocurve_wire::nfs3::*;
use iocurve_wire::xdr::{Encode, List, Writer, padding};

use super::call::Admitted;
use crate::store::{Entry, Listing, Store};

pub(super) fn readdir(call: &Admitted<'_>, arguments: &READDIR3args, out: &mut Writer<'_>) {
    let dir_attributes = call.attributes(&arguments.dir);
    let count = arguments.count.min(call.listing_bytes_max) as usize;
    let listing = list(call, &arguments.dir, arguments.cookie, arguments.cookieverf, count / ENTRY_BYTES_MIN);
    let result: READDIR3res<'_> = match &listing {
        Err(status) => Err(Failed { status: *status, rest: dir_attributes }),
        Ok(listing) => {
            let (fitting, eof) =
                fit(listing, |entry| entry_bytes(entry) + 4, count.saturating_sub(LISTING_FRAME_BYTES));
            let entries = fitting.iter().map(|Entry { fileid, name, cookie, .. }| entry3 {
                fileid: *fileid,
                name,
                cookie: *cookie,
            });
            let reply = dirlist3 { entries: List(entries.collect()), eof };
            answer_listing(fitting.is_empty() && !eof, dir_attributes).map(|()| READDIR3resok {
                dir_attributes,
                cookieverf: call.files(&arguments.dir).cookieverf(arguments.dir.as_bytes()),
                reply,
            })
        }
    };
    result.encode(out);
}

pub(super) fn readdirplus(call: &Admitted<'_>, arguments: &READDIRPLUS3args, out: &mut Writer<'_>) {
    let dir_attributes = call.attributes(&arguments.dir);
    let count = arguments.maxcount.min(call.listing_bytes_max) as usize;
    let listing = list(call, &arguments.dir, arguments.cookie, arguments.cookieverf, count / PLUS_BYTES_MIN);
    let result: READDIRPLUS3res<'_> = match &listing {
        Err(status) => Err(Failed { status: *status, rest: dir_attributes }),
        Ok(listing) => {
            let (fitting, eof) = fit(listing, plus_bytes, count.saturating_sub(LISTING_FRAME_BYTES));
            let entries = fitting.iter().map(|entry| entryplus3 {
                fileid: entry.fileid,
                name: &entry.name,
                cookie: entry.cookie,
                name_attributes: entry.handle.as_ref().and_then(|handle| call.attributes(handle)),
                name_handle: entry.handle,
            });
            let reply = dirlistplus3 { entries: List(entries.collect()), eof };
            answer_listing(fitting.is_empty() && !eof, dir_attributes).map(|()| READDIRPLUS3resok {
                dir_attributes,
                cookieverf: call.files(&arguments.dir).cookieverf(arguments.dir.as_bytes()),
                reply,
            })
        }
    };
    result.encode(out);
}

/// Bytes of a listing beside its entries: attributes, verifier, end of list, end of directory.
const LISTING_FRAME_BYTES: usize = 4 + FATTR3_BYTES + 8 + 4 + 4;

/// Lists one name more than can fit, which tells whether the directory ends.
fn list(
    call: &Admitted<'_>,
    directory: &nfs_fh3,
    cookie: u64,
    cookieverf: cookieverf3,
    fitting_max: usize,
) -> Result<Listing, nfsstat3> {
    let files = call.files(directory);
    if cookie != 0 && cookieverf != files.cookieverf(directory.as_bytes()) {
        return Err(nfsstat3::NFS3ERR_BAD_COOKIE);
    }
    files.readdir(&call.caller, directory.as_bytes(), cookie, fitting_max + 1)
}

/// An entry of READDIR with a name of one byte.
const ENTRY_BYTES_MIN: usize = 4 + 8 + 4 + 4 + 8;

/// An entry of READDIRPLUS with a name of one byte, attributes and no handle.
const PLUS_BYTES_MIN: usize = ENTRY_BYTES_MIN + 4 + FATTR3_BYTES + 4;

fn entry_bytes(entry: &Entry) -> usize {
    8 + 4 + entry.name.len() + padding(entry.name.len()) + 8
}

fn plus_bytes(entry: &Entry) -> usize {
    let handle = entry.handle.map_or(0, |handle| 4 + handle.as_bytes().len() + padding(handle.as_bytes().len()));
    4 + entry_bytes(entry) + 4 + FATTR3_BYTES + 4 + handle
}

/// Takes the entries that fit into `room` bytes; `true` if the directory ends with them.
fn fit(listing: &Listing, bytes: impl Fn(&Entry) -> usize, room: usize) -> (&[Entry], bool) {
    let mut left = room;
    let fits = |entry: &&Entry| match left.checked_sub(bytes(entry)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let count = listing.entries.iter().take_while(fits).count();
    (&listing.entries[..count], listing.end && count == listing.entries.len())
}

/// Fails if not even one entry fits.
fn answer_listing(too_small: bool, dir_attributes: post_op_attr) -> Result<(), Failed<post_op_attr>> {
    if too_small {
        return Err(Failed { status: nfsstat3::NFS3ERR_TOOSMALL, rest: dir_attributes });
    }
    Ok(())
}
