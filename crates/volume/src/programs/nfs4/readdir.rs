//! READDIR (RFC 8881 §18.23): as many entries as fit into the size that the client asked for, each with its attributes.

use iocurve_wire::nfs3::nfsstat3;
use iocurve_wire::nfs4::attributes::{Attributes, FATTR4_RDATTR_ERROR, bitmap4};
use iocurve_wire::nfs4::operations::READDIR4args;
use iocurve_wire::nfs4::{nfs_opnum4, nfsstat4, verifier4};
use iocurve_wire::xdr::{Decode, Encode, Reader};

use super::attributes::Described;
use super::compound::{Compound, Next};
use super::place::{Found, Place};
use super::status_of;
use crate::memory::TIGHT_BYTES;
use crate::programs::page::Page;
use crate::served::Served;
use crate::served::pseudo_root::PseudoDirectory;
use crate::store::{LISTING_BYTES_MAX, Named, Range, Store};

/// The verifier, the end of the list, and the end of the directory.
const FRAME_BYTES: usize = 8 + 4 + 4;

/// Cookies below this one are not given out (§18.23.3).
const FIRST_COOKIE: u64 = 3;

/// A name, and its file unless that has just been removed.
type Shown<'n, 's> = (u64, &'n [u8], Option<Described>, &'s Served);

pub(super) fn readdir(compound: &mut Compound<'_, '_>, reader: &mut Reader<'_>) -> Next {
    let arguments = READDIR4args::decode(reader).map_err(|_| nfsstat4::NFS4ERR_BADXDR);
    let listed = arguments.and_then(|arguments| {
        let most = if compound.turn.tight.transfers { TIGHT_BYTES } else { LISTING_BYTES_MAX as usize };
        let room = (arguments.maxcount as usize).min(most).min(compound.room());
        let mut page = Page::new(room, FRAME_BYTES);
        let (cookieverf, end) = list(compound, &arguments, &mut page)?;
        if page.is_too_small(end) { Err(nfsstat4::NFS4ERR_TOOSMALL) } else { Ok((cookieverf, page, end)) }
    });
    let (cookieverf, page, end) = match listed {
        Ok(listed) => listed,
        Err(status) => return compound.put::<()>(nfs_opnum4::OP_READDIR, &Err(status)),
    };
    compound.write(|writer| {
        nfs_opnum4::OP_READDIR.encode(writer);
        nfsstat4::NFS4_OK.encode(writer);
        writer.bytes(&cookieverf);
        page.finish(end, writer);
    });
    Next::Done(nfsstat4::NFS4_OK)
}

/// Lists names until the page is full. Returns the verifier of cookies, and `true` if no name follows.
fn list(compound: &Compound<'_, '_>, arguments: &READDIR4args, page: &mut Page) -> Result<(verifier4, bool), nfsstat4> {
    let (served, place) = (compound.turn.served, compound.place()?);
    if arguments.cookie > 0 && arguments.cookie < FIRST_COOKIE {
        return Err(nfsstat4::NFS4ERR_BAD_COOKIE);
    }
    match place {
        Place::Above(directory) => Ok((served.writeverf, list_above(compound, directory, arguments, page))),
        Place::In(_) => {
            let found = place.found(served)?.directory()?;
            list_in(compound, &found, arguments, page)
        }
    }
}

/// Lists a directory above the exports, in which cookies count the names. Exports that the client may not use are left out.
fn list_above(
    compound: &Compound<'_, '_>,
    directory: PseudoDirectory,
    arguments: &READDIR4args,
    page: &mut Page,
) -> bool {
    let served = compound.turn.served;
    let numbered = served.pseudo_root.children(directory).zip(FIRST_COOKIE..);
    let mut shown = numbered.filter(|((child, _), own)| *own > arguments.cookie && compound.may_use(*child));
    shown.all(|((child, name), cookie)| {
        let described = Described::of(served, &Place::above(served, child)).ok();
        add(page, &arguments.attr_request, (cookie, name, described, served))
    })
}

fn list_in(
    compound: &Compound<'_, '_>,
    found: &Found<'_>,
    arguments: &READDIR4args,
    page: &mut Page,
) -> Result<(verifier4, bool), nfsstat4> {
    let (files, served) = (found.files(), compound.turn.served);
    let cookieverf = files.cookieverf(found.file());
    if arguments.cookie != 0 && arguments.cookieverf != cookieverf {
        return Err(nfsstat4::NFS4ERR_NOT_SAME);
    }
    let range = Range { after: arguments.cookie, with_attributes: true };
    let listed = files.readdir(&compound.caller, found.file(), range, &mut |entry| {
        // This version does not list them.
        if matches!(entry.name, b"." | b"..") {
            return true;
        }
        let named = entry.handle.zip(entry.attributes).map(|(handle, attributes)| Named { handle, attributes });
        let described = named.map(|named| Described::found(served, &found.sibling(named)));
        add(page, &arguments.attr_request, (entry.cookie, entry.name, described, served))
    });
    let listed = listed.map_err(|status| match status {
        nfsstat3::NFS3ERR_BAD_COOKIE => nfsstat4::NFS4ERR_BAD_COOKIE,
        status => status_of(status),
    })?;
    Ok((cookieverf, listed.end))
}

/// Adds an entry with the requested attributes, if it has room.
fn add(page: &mut Page, asked: &bitmap4, (cookie, name, described, served): Shown<'_, '_>) -> bool {
    let described = described.map(|described| described.with_space(served, asked));
    let vanished = asked.contains(FATTR4_RDATTR_ERROR).then_some(nfsstat4::NFS4ERR_NOENT);
    let without = Attributes { rdattr_error: vanished, ..Attributes::default() };
    let values = described.as_ref().map_or(without, |described| described.values(asked));
    page.add(|out| {
        out.u64(cookie);
        out.opaque(name);
        values.encode(out);
    })
}
