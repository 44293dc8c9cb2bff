//! GETATTR, SETATTR, VERIFY and ACCESS: attributes of files, as this version writes them.
#![allow(clippy::wildcard_imports)] // the whole protocol is spoken here

use iocurve_wire::nfs3::{fattr3, ftype3, nfs_fh3, nfsstat3, nfstime3, sattr3, set_time};
use iocurve_wire::nfs4::attributes::*;
use iocurve_wire::nfs4::operations::access::{
    ACCESS3_DELETE, ACCESS3_EXECUTE, ACCESS3_EXTEND, ACCESS3_LOOKUP, ACCESS3_MODIFY, ACCESS3_READ,
};
use iocurve_wire::nfs4::operations::share::OPEN4_SHARE_ACCESS_WRITE;
use iocurve_wire::nfs4::operations::{ACCESS4args, ACCESS4resok, GETATTR4args, SETATTR4args, SETATTR4res, VERIFY4args};
use iocurve_wire::nfs4::{fsid4, nfs_ftype4, nfs_opnum4, nfsstat4, nfstime4, settime4, specdata4};
use iocurve_wire::xdr::{Decode, Encode, Reader};

use super::compound::{Compound, Next};
use super::place::{Found, Place};
use super::{change, status_of};
use crate::nfs4_state::LEASE_SECONDS;
use crate::served::Served;
use crate::served::pseudo_root::{PseudoDirectory, PseudoRoot};
use crate::store::names::NAME_BYTES_MAX;
use crate::store::{FILE_BYTES_MAX, LINKS_MAX, Space, Store, TRANSFER_BYTES_MAX, access};

/// Attributes that can only be set.
const WRITE_ONLY: bitmap4 = bitmap4::of(&[FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET]);

/// Attributes that can be set.
const WRITABLE: bitmap4 = bitmap4::of(&[
    FATTR4_SIZE,
    FATTR4_MODE,
    FATTR4_OWNER,
    FATTR4_OWNER_GROUP,
    FATTR4_TIME_ACCESS_SET,
    FATTR4_TIME_MODIFY_SET,
]);

/// Attributes that can be set while a file is created exclusively: not the times, in which a directory keeps the verifier.
const WRITABLE_EXCLUSIVELY: bitmap4 = bitmap4::of(&[FATTR4_SIZE, FATTR4_MODE, FATTR4_OWNER, FATTR4_OWNER_GROUP]);

/// Attributes of space, which take a look at the whole store.
const OF_SPACE: bitmap4 = bitmap4::of(&[
    FATTR4_FILES_AVAIL,
    FATTR4_FILES_FREE,
    FATTR4_FILES_TOTAL,
    FATTR4_SPACE_AVAIL,
    FATTR4_SPACE_FREE,
    FATTR4_SPACE_TOTAL,
]);

/// GETATTR (§18.7).
#[inline]
pub(super) fn getattr(compound: &mut Compound<'_, '_>, reader: &mut Reader<'_>) -> Next {
    let served = compound.turn.served;
    let found = GETATTR4args::decode(reader).map_err(|_| nfsstat4::NFS4ERR_BADXDR).and_then(|arguments| {
        let asked = arguments.attr_request;
        if !asked.intersection(&WRITE_ONLY).is_empty() {
            return Err(nfsstat4::NFS4ERR_INVAL);
        }
        Ok((Described::of(served, &compound.place()?)?, asked))
    });
    match found {
        Ok((found, asked)) => {
            compound.put(nfs_opnum4::OP_GETATTR, &Ok(found.with_space(served, &asked).values(&asked)))
        }
        Err(status) => compound.put::<()>(nfs_opnum4::OP_GETATTR, &Err(status)),
    }
}

/// A file with everything that attributes are made of.
#[derive(Debug)]
pub(super) struct Described {
    handle: nfs_fh3,
    attributes: fattr3,
    fsid: fsid4,
    mounted_on_fileid: u64,
    space: Space,
    owner: Decimal,
    owner_group: Decimal,
}

impl Described {
    pub(super) fn of(served: &Served, place: &Place) -> Result<Self, nfsstat4> {
        match place {
            Place::Above(directory) => Ok(Self::above(served, *directory)),
            Place::In(_) => place.found(served).map(|found| Self::found(served, &found)),
        }
    }

    pub(super) fn found(served: &Served, found: &Found<'_>) -> Self {
        let Found { export, handle, attributes } = found;
        let is_root = export.is_root(handle);
        let mounted_on_fileid =
            if is_root { above_fileid(served.pseudo_root.of_export(export.number)) } else { attributes.fileid };
        Self {
            handle: *handle,
            attributes: *attributes,
            fsid: fsid4 { major: attributes.fsid, minor: export.number as u64 + 1 },
            mounted_on_fileid,
            space: Space::default(),
            owner: Decimal::new(attributes.uid),
            owner_group: Decimal::new(attributes.gid),
        }
    }

    /// A directory above the exports: it belongs to root, and changes with each start.
    fn above(served: &Served, directory: PseudoDirectory) -> Self {
        let started = u64::from_be_bytes(served.writeverf);
        let time = nfstime3 { seconds: (started / 1_000_000_000) as u32, nseconds: (started % 1_000_000_000) as u32 };
        let attributes = fattr3 {
            file_type: ftype3::NF3DIR,
            mode: 0o555,
            nlink: 2,
            uid: 0,
            gid: 0,
            size: 4096,
            used: 4096,
            rdev: iocurve_wire::nfs3::specdata3::default(),
            fsid: 0,
            fileid: above_fileid(directory),
            atime: time,
            mtime: time,
            ctime: time,
        };
        Self {
            handle: PseudoRoot::handle(directory),
            attributes,
            fsid: fsid4::default(),
            mounted_on_fileid: attributes.fileid,
            space: Space::default(),
            owner: Decimal::new(0),
            owner_group: Decimal::new(0),
        }
    }

    /// The attributes that are asked for, as far as they are supported.
    pub(super) fn values(&self, asked: &bitmap4) -> Attributes<'_> {
        let Self { attributes: file, space, .. } = self;
        let mut values = Attributes::default();
        macro_rules! give {
            ($($number:ident $name:ident = $value:expr;)*) => {
                $(if asked.contains($number) { values.$name = Some($value); })*
            };
        }
        give! {
            FATTR4_SUPPORTED_ATTRS supported_attrs = Attributes::KNOWN;
            FATTR4_TYPE file_type = type_of(file.file_type);
            FATTR4_FH_EXPIRE_TYPE fh_expire_type = 0;
            FATTR4_CHANGE change = change(file.ctime);
            FATTR4_SIZE size = file.size;
            FATTR4_LINK_SUPPORT link_support = true;
            FATTR4_SYMLINK_SUPPORT symlink_support = true;
            FATTR4_NAMED_ATTR named_attr = false;
            FATTR4_FSID fsid = self.fsid;
            FATTR4_UNIQUE_HANDLES unique_handles = true;
            FATTR4_LEASE_TIME lease_time = LEASE_SECONDS;
            FATTR4_RDATTR_ERROR rdattr_error = nfsstat4::NFS4_OK;
            FATTR4_CANSETTIME cansettime = true;
            FATTR4_CASE_INSENSITIVE case_insensitive = false;
            FATTR4_CASE_PRESERVING case_preserving = true;
            FATTR4_CHOWN_RESTRICTED chown_restricted = true;
            FATTR4_FILEHANDLE filehandle = self.handle.as_bytes();
            FATTR4_FILEID fileid = file.fileid;
            FATTR4_FILES_AVAIL files_avail = space.files_free;
            FATTR4_FILES_FREE files_free = space.files_free;
            FATTR4_FILES_TOTAL files_total = space.files_total;
            FATTR4_HOMOGENEOUS homogeneous = true;
            FATTR4_MAXFILESIZE maxfilesize = FILE_BYTES_MAX;
            FATTR4_MAXLINK maxlink = LINKS_MAX;
            FATTR4_MAXNAME maxname = NAME_BYTES_MAX as u32;
            FATTR4_MAXREAD maxread = u64::from(TRANSFER_BYTES_MAX);
            FATTR4_MAXWRITE maxwrite = u64::from(TRANSFER_BYTES_MAX);
            FATTR4_MODE mode = file.mode;
            FATTR4_NO_TRUNC no_trunc = true;
            FATTR4_NUMLINKS numlinks = file.nlink;
            FATTR4_OWNER owner = self.owner.as_bytes();
            FATTR4_OWNER_GROUP owner_group = self.owner_group.as_bytes();
            FATTR4_RAWDEV rawdev = specdata4 { specdata1: file.rdev.specdata1, specdata2: file.rdev.specdata2 };
            FATTR4_SPACE_AVAIL space_avail = space.bytes_free;
            FATTR4_SPACE_FREE space_free = space.bytes_free;
            FATTR4_SPACE_TOTAL space_total = space.bytes_total;
            FATTR4_SPACE_USED space_used = file.used;
            FATTR4_TIME_ACCESS time_access = time_of(file.atime);
            FATTR4_TIME_DELTA time_delta = nfstime4 { seconds: 0, nseconds: 1 };
            FATTR4_TIME_METADATA time_metadata = time_of(file.ctime);
            FATTR4_TIME_MODIFY time_modify = time_of(file.mtime);
            FATTR4_MOUNTED_ON_FILEID mounted_on_fileid = self.mounted_on_fileid;
            FATTR4_SUPPATTR_EXCLCREAT suppattr_exclcreat = WRITABLE_EXCLUSIVELY;
        }
        values
    }

    /// Looks up the space of the store if it is asked for.
    pub(super) fn with_space(mut self, served: &Served, asked: &bitmap4) -> Self {
        if !asked.intersection(&OF_SPACE).is_empty() {
            self.space = served.exports.of(self.handle.as_bytes()).files.space();
        }
        self
    }
}

/// Number of a directory above the exports.
fn above_fileid(directory: PseudoDirectory) -> u64 {
    u64::from(directory) + 1
}

fn type_of(file_type: ftype3) -> nfs_ftype4 {
    nfs_ftype4::from_u32(file_type as u32).unwrap_or(nfs_ftype4::NF4REG)
}

fn time_of(time: nfstime3) -> nfstime4 {
    nfstime4 { seconds: i64::from(time.seconds), nseconds: time.nseconds }
}

/// A number as text: owners are numbers, as clients without a name service send and expect them (RFC 8881 §5.9).
#[derive(Debug, Clone, Copy)]
struct Decimal {
    digits: [u8; 10],
    start: u8,
}

impl Decimal {
    fn new(number: u32) -> Self {
        let (mut digits, mut start, mut rest) = ([b'0'; 10], 10, number);
        while rest > 0 || start == 10 {
            start -= 1;
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        Self { digits, start: start as u8 }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start as usize..]
    }
}

/// The number of an owner.
fn number(owner: &[u8]) -> Result<u32, nfsstat4> {
    let number = std::str::from_utf8(owner).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    number.and_then(|text| text.parse().ok()).ok_or(nfsstat4::NFS4ERR_BADOWNER)
}

/// The attributes to set, as stores take them, and their names.
pub(super) fn to_set(new: &fattr4<'_>) -> Result<(sattr3, bitmap4), nfsstat4> {
    let mask = new.attrmask;
    if !mask.difference(&Attributes::KNOWN).is_empty() {
        return Err(nfsstat4::NFS4ERR_ATTRNOTSUPP);
    }
    if !mask.difference(&WRITABLE).is_empty() {
        return Err(nfsstat4::NFS4ERR_INVAL);
    }
    let values = new.values().map_err(|_| nfsstat4::NFS4ERR_BADXDR)?;
    let set = sattr3 {
        mode: values
            .mode
            .map(|mode| if mode & !0o7777 == 0 { Ok(mode) } else { Err(nfsstat4::NFS4ERR_INVAL) })
            .transpose()?,
        uid: values.owner.map(number).transpose()?,
        gid: values.owner_group.map(number).transpose()?,
        size: values.size,
        atime: to_set_time(values.time_access_set)?,
        mtime: to_set_time(values.time_modify_set)?,
    };
    Ok((set, mask))
}

/// Stores keep times from 1970 to 2106; others become the nearest of these, as in Linux's file systems.
fn to_set_time(new: Option<settime4>) -> Result<set_time, nfsstat4> {
    match new {
        None => Ok(set_time::DONT_CHANGE(())),
        Some(settime4::SET_TO_SERVER_TIME4(())) => Ok(set_time::SET_TO_SERVER_TIME(())),
        Some(settime4::SET_TO_CLIENT_TIME4(time)) if time.nseconds < 1_000_000_000 => {
            let seconds = time.seconds.clamp(0, i64::from(u32::MAX)) as u32;
            Ok(set_time::SET_TO_CLIENT_TIME(nfstime3 { seconds, nseconds: time.nseconds }))
        }
        Some(_) => Err(nfsstat4::NFS4ERR_INVAL),
    }
}

/// SETATTR (§18.30).
pub(super) fn setattr(compound: &mut Compound<'_, '_>, reader: &mut Reader<'_>) -> Next {
    let arguments = SETATTR4args::decode(reader).map_err(|_| nfsstat4::NFS4ERR_BADXDR);
    let (status, attrsset) = match arguments.and_then(|arguments| set(compound, &arguments)) {
        Ok(attrsset) => (nfsstat4::NFS4_OK, attrsset),
        Err(status) => (status, bitmap4::default()),
    };
    compound.write(|writer| {
        nfs_opnum4::OP_SETATTR.encode(writer);
        SETATTR4res { status, attrsset }.encode(writer);
    });
    Next::Done(status)
}

fn set(compound: &mut Compound<'_, '_>, arguments: &SETATTR4args<'_>) -> Result<bitmap4, nfsstat4> {
    let (new, mask) = to_set(&arguments.obj_attributes)?;
    let served = compound.turn.served;
    let found = compound.place()?.found(served)?;
    if new.size.is_some() {
        let stateid = compound.meant(arguments.stateid)?;
        let found = found.regular()?;
        let now = compound.turn.now;
        let slot = compound.slot.as_mut().ok_or(nfsstat4::NFS4ERR_OP_NOT_IN_SESSION)?;
        served.nfs4.check_access(slot, &stateid, &found.handle, OPEN4_SHARE_ACCESS_WRITE, now)?;
    }
    found.files().setattr(&compound.caller, found.file(), &new, None).result.map_err(|status| match status {
        nfsstat3::NFS3ERR_NOT_SYNC => nfsstat4::NFS4ERR_SERVERFAULT,
        status => status_of(status),
    })?;
    Ok(mask)
}

/// VERIFY (§18.31): fails unless the attributes are these.
pub(super) fn verify(compound: &mut Compound<'_, '_>, arguments: VERIFY4args<'_>) -> Result<(), nfsstat4> {
    if is_same(compound, &arguments.obj_attributes)? { Ok(()) } else { Err(nfsstat4::NFS4ERR_NOT_SAME) }
}

/// NVERIFY (§18.15): fails if the attributes are these.
pub(super) fn nverify(compound: &mut Compound<'_, '_>, arguments: VERIFY4args<'_>) -> Result<(), nfsstat4> {
    if is_same(compound, &arguments.obj_attributes)? { Err(nfsstat4::NFS4ERR_SAME) } else { Ok(()) }
}

fn is_same(compound: &Compound<'_, '_>, expected: &fattr4<'_>) -> Result<bool, nfsstat4> {
    let place = compound.place()?;
    let mask = expected.attrmask;
    let not_comparable = bitmap4::of(&[FATTR4_RDATTR_ERROR, FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET]);
    if !mask.intersection(&not_comparable).is_empty() {
        return Err(nfsstat4::NFS4ERR_INVAL);
    }
    if !mask.difference(&Attributes::KNOWN).is_empty() {
        return Err(nfsstat4::NFS4ERR_ATTRNOTSUPP);
    }
    let served = compound.turn.served;
    let found = Described::of(served, &place)?.with_space(served, &mask);
    let expected = expected.values().map_err(|_| nfsstat4::NFS4ERR_BADXDR)?;
    Ok(found.values(&mask) == expected)
}

/// ACCESS (§18.1).
pub(super) fn access(
    compound: &mut Compound<'_, '_>,
    ACCESS4args { access: asked }: ACCESS4args,
) -> Result<ACCESS4resok, nfsstat4> {
    const OF_ALL: u32 = ACCESS3_READ | ACCESS3_MODIFY | ACCESS3_EXTEND;
    let attributes = Described::of(compound.turn.served, &compound.place()?)?.attributes;
    let is_directory = attributes.file_type == ftype3::NF3DIR;
    let known = OF_ALL | if is_directory { ACCESS3_LOOKUP | ACCESS3_DELETE } else { ACCESS3_EXECUTE };
    let supported = asked & known;
    Ok(ACCESS4resok { supported, access: access::granted(&compound.caller, &attributes, supported) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_numbers() {
        for (text, value) in [("0", 0), ("1000", 1000), ("4294967295", u32::MAX)] {
            assert_eq!(Decimal::new(value).as_bytes(), text.as_bytes());
            assert_eq!(number(text.as_bytes()), Ok(value));
        }
        for text in ["", "root@example.org", "-1", "+1", "4294967296"] {
            assert_eq!(number(text.as_bytes()), Err(nfsstat4::NFS4ERR_BADOWNER), "{text}");
        }
    }

    fn set(attributes: &Attributes<'_>) -> Result<sattr3, nfsstat4> {
        let bytes = iocurve_wire::xdr::to_bytes(attributes);
        to_set(&iocurve_wire::xdr::from_bytes(&bytes).unwrap()).map(|(set, _)| set)
    }

    #[test]
    fn times_that_stores_cannot_keep_become_the_nearest() {
        let modified = |seconds, nseconds| {
            let time = settime4::SET_TO_CLIENT_TIME4(nfstime4 { seconds, nseconds });
            set(&Attributes { time_modify_set: Some(time), ..Attributes::default() }).map(|set| set.mtime)
        };
        for (seconds, kept) in [(-1, 0), (0, 0), (1 << 31, 1 << 31), (u32::MAX.into(), u32::MAX), (1 << 32, u32::MAX)] {
            let time = nfstime3 { seconds: kept, nseconds: 5 };
            assert_eq!(modified(seconds, 5), Ok(set_time::SET_TO_CLIENT_TIME(time)), "{seconds}");
        }
        assert_eq!(modified(1, 1_000_000_000), Err(nfsstat4::NFS4ERR_INVAL));
    }

    #[test]
    fn only_some_attributes_can_be_set() {
        let mode = Attributes { mode: Some(0o640), size: Some(7), owner: Some(b"12"), ..Attributes::default() };
        assert_eq!(set(&mode), Ok(sattr3 { mode: Some(0o640), size: Some(7), uid: Some(12), ..sattr3::default() }));
        assert_eq!(set(&Attributes { fileid: Some(1), ..mode }), Err(nfsstat4::NFS4ERR_INVAL));
        assert_eq!(set(&Attributes { mode: Some(0o10000), ..mode }), Err(nfsstat4::NFS4ERR_INVAL));
        let unknown = fattr4 { attrmask: bitmap4::of(&[12]), attr_vals: &[] };
        assert_eq!(to_set(&unknown), Err(nfsstat4::NFS4ERR_ATTRNOTSUPP));
    }
}
