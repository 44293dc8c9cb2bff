//! NFS version 3 (RFC 1813): arguments and results of all procedures, under the RFC's names.
//!
//! A result is `Ok` with what follows `NFS3_OK`, or [`Failed`] with the status and what follows any other.
#![allow(non_camel_case_types)] // the RFC's names
#![allow(missing_docs)] // each type cites its section; its fields carry the RFC's names and meaning

use std::fmt;

use crate::rpc::Procedure;
use crate::xdr::{Decode, Encode, List, Reader, Writer, XdrError, xdr_enum, xdr_struct, xdr_union};

/// Program number.
pub const NFS_PROGRAM: u32 = 100_003;
/// Version.
pub const NFS_V3: u32 = 3;
/// Port that servers listen on.
pub const NFS_PORT: u16 = 2049;

/// Longest file handle (RFC 1813 §2.4).
pub const NFS3_FHSIZE: usize = 64;

/// Bytes of an encoded [`fattr3`].
pub const FATTR3_BYTES: usize = 84;

xdr_enum! {
    /// Procedures (RFC 1813 §3.3).
    nfsproc3 {
        NFSPROC3_NULL = 0,
        NFSPROC3_GETATTR = 1,
        NFSPROC3_SETATTR = 2,
        NFSPROC3_LOOKUP = 3,
        NFSPROC3_ACCESS = 4,
        NFSPROC3_READLINK = 5,
        NFSPROC3_READ = 6,
        NFSPROC3_WRITE = 7,
        NFSPROC3_CREATE = 8,
        NFSPROC3_MKDIR = 9,
        NFSPROC3_SYMLINK = 10,
        NFSPROC3_MKNOD = 11,
        NFSPROC3_REMOVE = 12,
        NFSPROC3_RMDIR = 13,
        NFSPROC3_RENAME = 14,
        NFSPROC3_LINK = 15,
        NFSPROC3_READDIR = 16,
        NFSPROC3_READDIRPLUS = 17,
        NFSPROC3_FSSTAT = 18,
        NFSPROC3_FSINFO = 19,
        NFSPROC3_PATHCONF = 20,
        NFSPROC3_COMMIT = 21,
    }

    /// Status of a result (RFC 1813 §2.6). `NFS3ERR_DQUOT` is a user's or volume's quota, `NFS3ERR_NOSPC` a full file system.
    nfsstat3 {
        NFS3_OK = 0,
        NFS3ERR_PERM = 1,
        NFS3ERR_NOENT = 2,
        NFS3ERR_IO = 5,
        NFS3ERR_NXIO = 6,
        NFS3ERR_ACCES = 13,
        NFS3ERR_EXIST = 17,
        NFS3ERR_XDEV = 18,
        NFS3ERR_NODEV = 19,
        NFS3ERR_NOTDIR = 20,
        NFS3ERR_ISDIR = 21,
        NFS3ERR_INVAL = 22,
        NFS3ERR_FBIG = 27,
        NFS3ERR_NOSPC = 28,
        NFS3ERR_ROFS = 30,
        NFS3ERR_MLINK = 31,
        NFS3ERR_NAMETOOLONG = 63,
        NFS3ERR_NOTEMPTY = 66,
        NFS3ERR_DQUOT = 69,
        NFS3ERR_STALE = 70,
        NFS3ERR_REMOTE = 71,
        NFS3ERR_BADHANDLE = 10001,
        NFS3ERR_NOT_SYNC = 10002,
        NFS3ERR_BAD_COOKIE = 10003,
        NFS3ERR_NOTSUPP = 10004,
        NFS3ERR_TOOSMALL = 10005,
        NFS3ERR_SERVERFAULT = 10006,
        NFS3ERR_BADTYPE = 10007,
        NFS3ERR_JUKEBOX = 10008,
    }

    /// Type of a file (RFC 1813 §2.5).
    ftype3 {
        NF3REG = 1,
        NF3DIR = 2,
        NF3BLK = 3,
        NF3CHR = 4,
        NF3LNK = 5,
        NF3SOCK = 6,
        NF3FIFO = 7,
    }

    /// Stability of written data (RFC 1813 §3.3.7).
    stable_how {
        UNSTABLE = 0,
        DATA_SYNC = 1,
        FILE_SYNC = 2,
    }
}

/// Bits of ACCESS (RFC 1813 §3.3.4).
pub mod access {
    pub const ACCESS3_READ: u32 = 0x0001;
    pub const ACCESS3_LOOKUP: u32 = 0x0002;
    pub const ACCESS3_MODIFY: u32 = 0x0004;
    pub const ACCESS3_EXTEND: u32 = 0x0008;
    pub const ACCESS3_DELETE: u32 = 0x0010;
    pub const ACCESS3_EXECUTE: u32 = 0x0020;
}

/// Bits of `FSINFO3resok::properties` (RFC 1813 §3.3.19).
pub mod properties {
    pub const FSF3_LINK: u32 = 0x0001;
    pub const FSF3_SYMLINK: u32 = 0x0002;
    pub const FSF3_HOMOGENEOUS: u32 = 0x0008;
    pub const FSF3_CANSETTIME: u32 = 0x0010;
}

pub type filename3<'a> = &'a [u8];
pub type nfspath3<'a> = &'a [u8];
pub type cookieverf3 = [u8; 8];
pub type createverf3 = [u8; 8];
pub type writeverf3 = [u8; 8];
pub type post_op_attr = Option<fattr3>;
pub type pre_op_attr = Option<wcc_attr>;
pub type post_op_fh3 = Option<nfs_fh3>;
pub type sattrguard3 = Option<nfstime3>;

/// File handle (RFC 1813 §2.5), kept in place.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct nfs_fh3 {
    length: u8,
    bytes: [u8; NFS3_FHSIZE],
}

impl nfs_fh3 {
    /// A handle of these bytes; `None` above [`NFS3_FHSIZE`].
    #[inline]
    pub fn new(handle: &[u8]) -> Option<Self> {
        let mut bytes = [0; NFS3_FHSIZE];
        bytes.get_mut(..handle.len())?.copy_from_slice(handle);
        Some(Self { length: handle.len() as u8, bytes })
    }

    /// Its bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length as usize]
    }
}

/// A handle of no bytes, which names no file.
impl Default for nfs_fh3 {
    fn default() -> Self {
        Self { length: 0, bytes: [0; NFS3_FHSIZE] }
    }
}

impl fmt::Debug for nfs_fh3 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("nfs_fh3(")?;
        self.as_bytes().iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))?;
        formatter.write_str(")")
    }
}

impl Encode for nfs_fh3 {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.opaque(self.as_bytes());
    }
}

impl<'a> Decode<'a> for nfs_fh3 {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        Ok(Self::new(reader.opaque(NFS3_FHSIZE)?).expect("the length was limited"))
    }
}

/// A result that is not `NFS3_OK`: the status, and the attributes that the procedure sends on failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed<F> {
    /// Never `NFS3_OK`.
    pub status: nfsstat3,
    /// The attributes that follow the status.
    pub rest: F,
}

impl<T: Encode, F: Encode> Encode for Result<T, Failed<F>> {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Ok(value) => {
                nfsstat3::NFS3_OK.encode(writer);
                value.encode(writer);
            }
            Err(failed) => {
                failed.status.encode(writer);
                failed.rest.encode(writer);
            }
        }
    }
}

impl<'a, T: Decode<'a>, F: Decode<'a>> Decode<'a> for Result<T, Failed<F>> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        match nfsstat3::decode(reader)? {
            nfsstat3::NFS3_OK => Ok(Ok(T::decode(reader)?)),
            status => Ok(Err(Failed { status, rest: F::decode(reader)? })),
        }
    }
}

xdr_struct! {
    /// Device numbers (RFC 1813 §2.5).
    #[derive(Copy, Default)]
    specdata3 { specdata1: u32, specdata2: u32 }

    /// Seconds and nanoseconds since 1970 (RFC 1813 §2.5).
    #[derive(Copy, Default, PartialOrd, Ord)]
    nfstime3 { seconds: u32, nseconds: u32 }

    /// Attributes of a file (RFC 1813 §2.5).
    #[derive(Copy)]
    fattr3 {
        file_type: ftype3,
        mode: u32,
        nlink: u32,
        uid: u32,
        gid: u32,
        size: u64,
        used: u64,
        rdev: specdata3,
        fsid: u64,
        fileid: u64,
        atime: nfstime3,
        mtime: nfstime3,
        ctime: nfstime3,
    }

    /// Attributes before a change, for cache consistency (RFC 1813 §2.6).
    #[derive(Copy)]
    wcc_attr { size: u64, mtime: nfstime3, ctime: nfstime3 }

    /// Attributes before and after a change (RFC 1813 §2.6).
    #[derive(Copy, Default)]
    wcc_data { before: pre_op_attr, after: post_op_attr }

    /// Attributes to set (RFC 1813 §2.6).
    #[derive(Copy, Default)]
    sattr3 {
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: set_time,
        mtime: set_time,
    }

    /// A name in a directory (RFC 1813 §2.6).
    diropargs3<'a> { dir: nfs_fh3, name: filename3<'a> }

    /// RFC 1813 §3.3.1.
    GETATTR3args { object: nfs_fh3 }
    GETATTR3resok { obj_attributes: fattr3 }

    /// RFC 1813 §3.3.2.
    SETATTR3args { object: nfs_fh3, new_attributes: sattr3, guard: sattrguard3 }
    SETATTR3resok { obj_wcc: wcc_data }

    /// RFC 1813 §3.3.3.
    LOOKUP3args<'a> { what: diropargs3<'a> }
    LOOKUP3resok { object: nfs_fh3, obj_attributes: post_op_attr, dir_attributes: post_op_attr }

    /// RFC 1813 §3.3.4.
    ACCESS3args { object: nfs_fh3, access: u32 }
    ACCESS3resok { obj_attributes: post_op_attr, access: u32 }

    /// RFC 1813 §3.3.5.
    READLINK3args { symlink: nfs_fh3 }
    READLINK3resok<'a> { symlink_attributes: post_op_attr, data: nfspath3<'a> }

    /// RFC 1813 §3.3.6.
    READ3args { file: nfs_fh3, offset: u64, count: u32 }
    READ3resok<'a> { file_attributes: post_op_attr, count: u32, eof: bool, data: &'a [u8] }

    /// RFC 1813 §3.3.7.
    WRITE3args<'a> { file: nfs_fh3, offset: u64, count: u32, stable: stable_how, data: &'a [u8] }
    WRITE3resok { file_wcc: wcc_data, count: u32, committed: stable_how, verf: writeverf3 }

    /// RFC 1813 §3.3.8.
    CREATE3args<'a> { r#where: diropargs3<'a>, how: createhow3 }

    /// Result of CREATE, MKDIR, SYMLINK and MKNOD.
    CREATE3resok { obj: post_op_fh3, obj_attributes: post_op_attr, dir_wcc: wcc_data }

    /// RFC 1813 §3.3.9.
    MKDIR3args<'a> { r#where: diropargs3<'a>, attributes: sattr3 }

    /// RFC 1813 §3.3.10.
    SYMLINK3args<'a> { r#where: diropargs3<'a>, symlink: symlinkdata3<'a> }
    symlinkdata3<'a> { symlink_attributes: sattr3, symlink_data: nfspath3<'a> }

    /// RFC 1813 §3.3.11.
    MKNOD3args<'a> { r#where: diropargs3<'a>, what: mknoddata3 }
    devicedata3 { dev_attributes: sattr3, spec: specdata3 }

    /// RFC 1813 §3.3.12.
    REMOVE3args<'a> { object: diropargs3<'a> }
    REMOVE3resok { dir_wcc: wcc_data }

    /// RFC 1813 §3.3.13.
    RMDIR3args<'a> { object: diropargs3<'a> }
    RMDIR3resok { dir_wcc: wcc_data }

    /// RFC 1813 §3.3.14.
    RENAME3args<'a> { from: diropargs3<'a>, to: diropargs3<'a> }
    RENAME3resok { fromdir_wcc: wcc_data, todir_wcc: wcc_data }

    /// RFC 1813 §3.3.15.
    LINK3args<'a> { file: nfs_fh3, link: diropargs3<'a> }
    LINK3resok { file_attributes: post_op_attr, linkdir_wcc: wcc_data }

    /// RFC 1813 §3.3.16.
    READDIR3args { dir: nfs_fh3, cookie: u64, cookieverf: cookieverf3, count: u32 }
    READDIR3resok<'a> { dir_attributes: post_op_attr, cookieverf: cookieverf3, reply: dirlist3<'a> }
    dirlist3<'a> { entries: List<entry3<'a>>, eof: bool }
    entry3<'a> { fileid: u64, name: filename3<'a>, cookie: u64 }

    /// RFC 1813 §3.3.17.
    READDIRPLUS3args { dir: nfs_fh3, cookie: u64, cookieverf: cookieverf3, dircount: u32, maxcount: u32 }
    READDIRPLUS3resok<'a> { dir_attributes: post_op_attr, cookieverf: cookieverf3, reply: dirlistplus3<'a> }
    dirlistplus3<'a> { entries: List<entryplus3<'a>>, eof: bool }
    entryplus3<'a> { fileid: u64, name: filename3<'a>, cookie: u64, name_attributes: post_op_attr, name_handle: post_op_fh3 }

    /// RFC 1813 §3.3.18.
    FSSTAT3args { fsroot: nfs_fh3 }
    FSSTAT3resok {
        obj_attributes: post_op_attr,
        tbytes: u64,
        fbytes: u64,
        abytes: u64,
        tfiles: u64,
        ffiles: u64,
        afiles: u64,
        invarsec: u32,
    }

    /// RFC 1813 §3.3.19.
    FSINFO3args { fsroot: nfs_fh3 }
    FSINFO3resok {
        obj_attributes: post_op_attr,
        rtmax: u32,
        rtpref: u32,
        rtmult: u32,
        wtmax: u32,
        wtpref: u32,
        wtmult: u32,
        dtpref: u32,
        maxfilesize: u64,
        time_delta: nfstime3,
        properties: u32,
    }

    /// RFC 1813 §3.3.20.
    PATHCONF3args { object: nfs_fh3 }
    PATHCONF3resok {
        obj_attributes: post_op_attr,
        linkmax: u32,
        name_max: u32,
        no_trunc: bool,
        chown_restricted: bool,
        case_insensitive: bool,
        case_preserving: bool,
    }

    /// RFC 1813 §3.3.21.
    COMMIT3args { file: nfs_fh3, offset: u64, count: u32 }
    COMMIT3resok { file_wcc: wcc_data, verf: writeverf3 }
}

xdr_union! {
    /// A change of a time (RFC 1813 §2.6).
    #[derive(Copy)]
    set_time {
        0 => DONT_CHANGE(()),
        1 => SET_TO_SERVER_TIME(()),
        2 => SET_TO_CLIENT_TIME(nfstime3),
    }

    /// Mode of CREATE for a name that exists (RFC 1813 §3.3.8).
    createhow3 {
        0 => UNCHECKED(sattr3),
        1 => GUARDED(sattr3),
        2 => EXCLUSIVE(createverf3),
    }

    /// Kinds of files of MKNOD (RFC 1813 §3.3.11); those that it cannot create carry nothing.
    mknoddata3 {
        1 => NF3REG(()),
        2 => NF3DIR(()),
        3 => NF3BLK(devicedata3),
        4 => NF3CHR(devicedata3),
        5 => NF3LNK(()),
        6 => NF3SOCK(sattr3),
        7 => NF3FIFO(sattr3),
    }
}

impl Default for set_time {
    fn default() -> Self {
        Self::DONT_CHANGE(())
    }
}

impl From<nfsproc3> for Procedure {
    fn from(procedure: nfsproc3) -> Self {
        Self { program: NFS_PROGRAM, version: NFS_V3, number: procedure as u32 }
    }
}

impl fattr3 {
    /// The part of these attributes in `pre_op_attr`.
    pub fn wcc(&self) -> wcc_attr {
        wcc_attr { size: self.size, mtime: self.mtime, ctime: self.ctime }
    }
}

pub type GETATTR3res = Result<GETATTR3resok, Failed<()>>;
pub type SETATTR3res = Result<SETATTR3resok, Failed<wcc_data>>;
pub type LOOKUP3res = Result<LOOKUP3resok, Failed<post_op_attr>>;
pub type ACCESS3res = Result<ACCESS3resok, Failed<post_op_attr>>;
pub type READLINK3res<'a> = Result<READLINK3resok<'a>, Failed<post_op_attr>>;
pub type READ3res<'a> = Result<READ3resok<'a>, Failed<post_op_attr>>;
pub type WRITE3res = Result<WRITE3resok, Failed<wcc_data>>;
pub type CREATE3res = Result<CREATE3resok, Failed<wcc_data>>;
pub type MKDIR3res = CREATE3res;
pub type SYMLINK3res = CREATE3res;
pub type MKNOD3res = CREATE3res;
pub type REMOVE3res = Result<REMOVE3resok, Failed<wcc_data>>;
pub type RMDIR3res = Result<RMDIR3resok, Failed<wcc_data>>;
/// The attributes of both directories follow on failure, too.
pub type RENAME3res = Result<RENAME3resok, Failed<RENAME3resok>>;
/// The attributes of file and directory follow on failure, too.
pub type LINK3res = Result<LINK3resok, Failed<LINK3resok>>;
pub type READDIR3res<'a> = Result<READDIR3resok<'a>, Failed<post_op_attr>>;
pub type READDIRPLUS3res<'a> = Result<READDIRPLUS3resok<'a>, Failed<post_op_attr>>;
pub type FSSTAT3res = Result<FSSTAT3resok, Failed<post_op_attr>>;
pub type FSINFO3res = Result<FSINFO3resok, Failed<post_op_attr>>;
pub type PATHCONF3res = Result<PATHCONF3resok, Failed<post_op_attr>>;
pub type COMMIT3res = Result<COMMIT3resok, Failed<wcc_data>>;

#[cfg(test)]
impl crate::sample::Sample<'_> for nfs_fh3 {
    fn sample(entropy: &mut crate::sample::Entropy<'_>) -> Self {
        let bytes: [u8; NFS3_FHSIZE] = crate::sample::Sample::sample(entropy);
        Self::new(&bytes[..bytes[0] as usize % (NFS3_FHSIZE + 1)]).expect("at most the limit")
    }
}

#[cfg(test)]
mod tests;
