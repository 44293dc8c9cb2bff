//! READDIR (RFC 8881 §18.23): as many entries as fit into the size that the client asked for, each with its attributes.

use iocurve_wire::nfs3::nfsstat3;
use iocurve_wire::nfs4::attributes::{Attributes, FATTR4_RDATTR_ERROR, bitmap4};
use iocurve_wire::nfs4::operations::READDIR4args;
use iocurve_wire::nfs4::{nfs_opnum4, nfsstat4, verifier4};
use iocurve_wire::xdr::{Decode, Encode, Reader, Writer};

use super::attributes::Described;
use super::compound::{Compound, Next};
use super::place::{Found, Place};
use super::status_of;
use crate::memory::TIGHT_BYTES;
use crate::served::Served;
use crate::served::pseudo_root::PseudoDirectory;
use crate::store::{LISTING_BYTES_MAX, Store};

/// The verifier, the end of the list, and the end of the directory.
const FRAME_BYTES: usize = 8 + 4 + 4;

/// Cookies below this one are not given out (§18.23.3).
const FIRST_COOKIE: u64 = 3;

/// A part of a directory.
struct Listed {
    cookieverf: verifier4,
    entries: Vec<ListedEntry>,
    /// Nothing follows.
    end: bool,
}

struct ListedEntry {
    cookie: u64,
    name: Vec<u8>,
    /// `None` if the file has just been removed.
    place: Option<Place>,
}

pub(super) fn readdir(compound: &mut Compound<'_, '_>, reader: &mut Reader<'_>) -> Next {
    let arguments = READDIR4args::decode(reader).map_err(|_| nfsstat4::NFS4ERR_BADXDR);
    let listed = arguments.and_then(|arguments| Ok((list(compound, &arguments)?, arguments)));
    let (listed, arguments) = match listed {
        Ok(listed) => listed,
        Err(status) => return compound.put::<()>(nfs_opnum4::OP_READDIR, &Err(status)),
    };
    let most = if compound.turn.tight.transfers { TIGHT_BYTES } else { LISTING_BYTES_MAX as usize };
    let room = (arguments.maxcount as usize).min(most).min(compound.room());
    let (served, start) = (compound.turn.served, compound.turn.batch.gap(0));
    let mut fits = false;
    compound.write(|writer| {
        nfs_opnum4::OP_READDIR.encode(writer);
        nfsstat4::NFS4_OK.encode(writer);
        fits = encode(served, &listed, &arguments.attr_request, room, writer);
    });
    if fits {
        return Next::Done(nfsstat4::NFS4_OK);
    }
    compound.turn.batch.rewind(start);
    compound.put::<()>(nfs_opnum4::OP_READDIR, &Err(nfsstat4::NFS4ERR_TOOSMALL))
}

/// Lists one name more than can fit, which tells whether the directory ends.
fn list(compound: &Compound<'_, '_>, arguments: &READDIR4args) -> Result<Listed, nfsstat4> {
    let (served, place) = (compound.turn.served, compound.place()?);
    if arguments.cookie > 0 && arguments.cookie < FIRST_COOKIE {
        return Err(nfsstat4::NFS4ERR_BAD_COOKIE);
    }
    match place {
        Place::Above(directory) => Ok(list_above(compound, directory, arguments.cookie)),
        Place::In(_) => {
            let found = place.found(served)?.directory()?;
            list_in(compound, &found, arguments)
        }
    }
}

/// Lists a directory above the exports, in which cookies count the names. Exports that the client may not use are left out.
fn list_above(compound: &Compound<'_, '_>, directory: PseudoDirectory, cookie: u64) -> Listed {
    let served = compound.turn.served;
    let numbered = served.pseudo_root.children(directory).zip(FIRST_COOKIE..).filter(|(_, own)| *own > cookie);
    let numbered = numbered.filter(|((child, _), _)| compound.may_use(*child));
    let entries = numbered.map(|((child, name), cookie)| ListedEntry {
        cookie,
        name: name.to_vec(),
        place: Some(Place::above(served, child)),
    });
    Listed { cookieverf: served.writeverf, entries: entries.collect(), end: true }
}

fn list_in(compound: &Compound<'_, '_>, found: &Found<'_>, arguments: &READDIR4args) -> Result<Listed, nfsstat4> {
    let (files, served) = (found.files(), compound.turn.served);
    let cookieverf = files.cookieverf(found.file());
    if arguments.cookie != 0 && arguments.cookieverf != cookieverf {
        return Err(nfsstat4::NFS4ERR_NOT_SAME);
    }
    // The names `.` and `..`, which this version does not list, count, too.
    let count = (arguments.maxcount as usize).min(LISTING_BYTES_MAX as usize);
    let limit = count / entry_bytes_min(served, found, &arguments.attr_request) + 3;
    let listing =
        files.readdir(&compound.caller, found.file(), arguments.cookie, limit).map_err(|status| match status {
            nfsstat3::NFS3ERR_BAD_COOKIE => nfsstat4::NFS4ERR_BAD_COOKIE,
            status => status_of(status),
        })?;
    let names = listing.entries.into_iter().filter(|entry| !matches!(entry.name.as_slice(), b"." | b".."));
    let entries =
        names.map(|entry| ListedEntry { cookie: entry.cookie, name: entry.name, place: entry.handle.map(Place::In) });
    Ok(Listed { cookieverf, entries: entries.collect(), end: listing.end })
}

/// Appends the entries that fit into `room` bytes. Returns `false` if there are some, and none fits.
fn encode(served: &Served, listed: &Listed, asked: &bitmap4, room: usize, writer: &mut Writer<'_>) -> bool {
    writer.bytes(&listed.cookieverf);
    let (mut count, mut left, mut entry_bytes) = (0, room.saturating_sub(FRAME_BYTES), Vec::new());
    for entry in &listed.entries {
        entry_bytes.clear();
        encode_entry(served, entry, asked, &mut Writer::new(&mut entry_bytes));
        let Some(rest) = left.checked_sub(entry_bytes.len()) else { break };
        writer.bytes(&entry_bytes);
        (left, count) = (rest, count + 1);
    }
    let is_end = listed.end && count == listed.entries.len();
    false.encode(writer);
    is_end.encode(writer);
    count > 0 || is_end
}

/// Bytes of an entry with a name of one byte, and with as many bytes of attributes as the directory has.
fn entry_bytes_min(served: &Served, directory: &Found<'_>, asked: &bitmap4) -> usize {
    let mut bytes = Vec::new();
    let described = Described::found(served, directory);
    encode_values(0, b"-", &described.values(asked), &mut Writer::new(&mut bytes));
    bytes.len()
}

fn encode_entry(served: &Served, entry: &ListedEntry, asked: &bitmap4, writer: &mut Writer<'_>) {
    let described = entry.place.as_ref().and_then(|place| Described::of(served, place).ok());
    let described = described.map(|described| described.with_space(served, asked));
    let vanished = asked.contains(FATTR4_RDATTR_ERROR).then_some(nfsstat4::NFS4ERR_NOENT);
    let without = Attributes { rdattr_error: vanished, ..Attributes::default() };
    let values = described.as_ref().map_or(without, |described| described.values(asked));
    encode_values(entry.cookie, &entry.name, &values, writer);
}

fn encode_values(cookie: u64, name: &[u8], values: &Attributes<'_>, writer: &mut Writer<'_>) {
    true.encode(writer);
    writer.u64(cookie);
    writer.opaque(name);
    values.encode(writer);
}
