//! NFS version 4.1 (RFC 8881, XDR of RFC 5662): COMPOUND, its operations, and attributes, under the RFC's names.
//!
//! [`operations`] has the arguments and results of each operation, [`attributes`] the bitmaps and values of `fattr4`. The types here
//! are those that several operations share. A receiver reads [`compound4_head`] and then one operation after the other: nothing of a
//! COMPOUND is collected first, and no memory is taken for READ, WRITE and what goes with them.
#![allow(non_camel_case_types)] // the RFC's names
#![allow(missing_docs)] // each type cites its section; its fields carry the RFC's names and meaning

pub mod attributes;
pub mod operations;

use crate::rpc::Procedure;
use crate::xdr::{Decode, Encode, Reader, Writer, XdrError, xdr_enum, xdr_struct, xdr_union};

pub use crate::nfs3::{NFS_PORT, NFS_PROGRAM};

/// Version.
pub const NFS_V4: u32 = 4;
/// Minor version of these types.
pub const MINOR_VERSION: u32 = 1;
/// The procedure without arguments.
pub const NFSPROC4_NULL: u32 = 0;
/// The procedure that carries operations.
pub const NFSPROC4_COMPOUND: u32 = 1;
/// The procedure that all calls of a session are.
pub const COMPOUND: Procedure = Procedure { program: NFS_PROGRAM, version: NFS_V4, number: NFSPROC4_COMPOUND };

/// Longest file handle.
pub const NFS4_FHSIZE: usize = 128;
/// Longest owner of state.
pub const NFS4_OPAQUE_LIMIT: usize = 1024;
/// A length that means "to the end of the file".
pub const NFS4_UINT64_MAX: u64 = u64::MAX;

xdr_enum! {
    /// Status of a result (RFC 8881 §15.1).
    nfsstat4 {
        NFS4_OK = 0,
        NFS4ERR_PERM = 1,
        NFS4ERR_NOENT = 2,
        NFS4ERR_IO = 5,
        NFS4ERR_NXIO = 6,
        NFS4ERR_ACCESS = 13,
        NFS4ERR_EXIST = 17,
        NFS4ERR_XDEV = 18,
        NFS4ERR_NOTDIR = 20,
        NFS4ERR_ISDIR = 21,
        NFS4ERR_INVAL = 22,
        NFS4ERR_FBIG = 27,
        NFS4ERR_NOSPC = 28,
        NFS4ERR_ROFS = 30,
        NFS4ERR_MLINK = 31,
        NFS4ERR_NAMETOOLONG = 63,
        NFS4ERR_NOTEMPTY = 66,
        NFS4ERR_DQUOT = 69,
        NFS4ERR_STALE = 70,
        NFS4ERR_BADHANDLE = 10001,
        NFS4ERR_BAD_COOKIE = 10003,
        NFS4ERR_NOTSUPP = 10004,
        NFS4ERR_TOOSMALL = 10005,
        NFS4ERR_SERVERFAULT = 10006,
        NFS4ERR_BADTYPE = 10007,
        NFS4ERR_DELAY = 10008,
        NFS4ERR_SAME = 10009,
        NFS4ERR_DENIED = 10010,
        NFS4ERR_EXPIRED = 10011,
        NFS4ERR_LOCKED = 10012,
        NFS4ERR_GRACE = 10013,
        NFS4ERR_FHEXPIRED = 10014,
        NFS4ERR_SHARE_DENIED = 10015,
        NFS4ERR_WRONGSEC = 10016,
        NFS4ERR_CLID_INUSE = 10017,
        NFS4ERR_RESOURCE = 10018,
        NFS4ERR_MOVED = 10019,
        NFS4ERR_NOFILEHANDLE = 10020,
        NFS4ERR_MINOR_VERS_MISMATCH = 10021,
        NFS4ERR_STALE_CLIENTID = 10022,
        NFS4ERR_STALE_STATEID = 10023,
        NFS4ERR_OLD_STATEID = 10024,
        NFS4ERR_BAD_STATEID = 10025,
        NFS4ERR_BAD_SEQID = 10026,
        NFS4ERR_NOT_SAME = 10027,
        NFS4ERR_LOCK_RANGE = 10028,
        NFS4ERR_SYMLINK = 10029,
        NFS4ERR_RESTOREFH = 10030,
        NFS4ERR_LEASE_MOVED = 10031,
        NFS4ERR_ATTRNOTSUPP = 10032,
        NFS4ERR_NO_GRACE = 10033,
        NFS4ERR_RECLAIM_BAD = 10034,
        NFS4ERR_RECLAIM_CONFLICT = 10035,
        NFS4ERR_BADXDR = 10036,
        NFS4ERR_LOCKS_HELD = 10037,
        NFS4ERR_OPENMODE = 10038,
        NFS4ERR_BADOWNER = 10039,
        NFS4ERR_BADCHAR = 10040,
        NFS4ERR_BADNAME = 10041,
        NFS4ERR_BAD_RANGE = 10042,
        NFS4ERR_LOCK_NOTSUPP = 10043,
        NFS4ERR_OP_ILLEGAL = 10044,
        NFS4ERR_DEADLOCK = 10045,
        NFS4ERR_FILE_OPEN = 10046,
        NFS4ERR_ADMIN_REVOKED = 10047,
        NFS4ERR_CB_PATH_DOWN = 10048,
        NFS4ERR_BADIOMODE = 10049,
        NFS4ERR_BADLAYOUT = 10050,
        NFS4ERR_BAD_SESSION_DIGEST = 10051,
        NFS4ERR_BADSESSION = 10052,
        NFS4ERR_BADSLOT = 10053,
        NFS4ERR_COMPLETE_ALREADY = 10054,
        NFS4ERR_CONN_NOT_BOUND_TO_SESSION = 10055,
        NFS4ERR_DELEG_ALREADY_WANTED = 10056,
        NFS4ERR_BACK_CHAN_BUSY = 10057,
        NFS4ERR_LAYOUTTRYLATER = 10058,
        NFS4ERR_LAYOUTUNAVAILABLE = 10059,
        NFS4ERR_NOMATCHING_LAYOUT = 10060,
        NFS4ERR_RECALLCONFLICT = 10061,
        NFS4ERR_UNKNOWN_LAYOUTTYPE = 10062,
        NFS4ERR_SEQ_MISORDERED = 10063,
        NFS4ERR_SEQUENCE_POS = 10064,
        NFS4ERR_REQ_TOO_BIG = 10065,
        NFS4ERR_REP_TOO_BIG = 10066,
        NFS4ERR_REP_TOO_BIG_TO_CACHE = 10067,
        NFS4ERR_RETRY_UNCACHED_REP = 10068,
        NFS4ERR_UNSAFE_COMPOUND = 10069,
        NFS4ERR_TOO_MANY_OPS = 10070,
        NFS4ERR_OP_NOT_IN_SESSION = 10071,
        NFS4ERR_HASH_ALG_UNSUPP = 10072,
        NFS4ERR_CLIENTID_BUSY = 10074,
        NFS4ERR_PNFS_IO_HOLE = 10075,
        NFS4ERR_SEQ_FALSE_RETRY = 10076,
        NFS4ERR_BAD_HIGH_SLOT = 10077,
        NFS4ERR_DEADSESSION = 10078,
        NFS4ERR_ENCR_ALG_UNSUPP = 10079,
        NFS4ERR_PNFS_NO_LAYOUT = 10080,
        NFS4ERR_NOT_ONLY_OP = 10081,
        NFS4ERR_WRONG_CRED = 10082,
        NFS4ERR_WRONG_TYPE = 10083,
        NFS4ERR_DIRDELEG_UNAVAIL = 10084,
        NFS4ERR_REJECT_DELEG = 10085,
        NFS4ERR_RETURNCONFLICT = 10086,
        NFS4ERR_DELEG_REVOKED = 10087,
    }

    /// Operations (RFC 8881 §16.1, §18).
    nfs_opnum4 {
        OP_ACCESS = 3,
        OP_CLOSE = 4,
        OP_COMMIT = 5,
        OP_CREATE = 6,
        OP_DELEGPURGE = 7,
        OP_DELEGRETURN = 8,
        OP_GETATTR = 9,
        OP_GETFH = 10,
        OP_LINK = 11,
        OP_LOCK = 12,
        OP_LOCKT = 13,
        OP_LOCKU = 14,
        OP_LOOKUP = 15,
        OP_LOOKUPP = 16,
        OP_NVERIFY = 17,
        OP_OPEN = 18,
        OP_OPENATTR = 19,
        OP_OPEN_CONFIRM = 20,
        OP_OPEN_DOWNGRADE = 21,
        OP_PUTFH = 22,
        OP_PUTPUBFH = 23,
        OP_PUTROOTFH = 24,
        OP_READ = 25,
        OP_READDIR = 26,
        OP_READLINK = 27,
        OP_REMOVE = 28,
        OP_RENAME = 29,
        OP_RENEW = 30,
        OP_RESTOREFH = 31,
        OP_SAVEFH = 32,
        OP_SECINFO = 33,
        OP_SETATTR = 34,
        OP_SETCLIENTID = 35,
        OP_SETCLIENTID_CONFIRM = 36,
        OP_VERIFY = 37,
        OP_WRITE = 38,
        OP_RELEASE_LOCKOWNER = 39,
        OP_BACKCHANNEL_CTL = 40,
        OP_BIND_CONN_TO_SESSION = 41,
        OP_EXCHANGE_ID = 42,
        OP_CREATE_SESSION = 43,
        OP_DESTROY_SESSION = 44,
        OP_FREE_STATEID = 45,
        OP_GET_DIR_DELEGATION = 46,
        OP_GETDEVICEINFO = 47,
        OP_GETDEVICELIST = 48,
        OP_LAYOUTCOMMIT = 49,
        OP_LAYOUTGET = 50,
        OP_LAYOUTRETURN = 51,
        OP_SECINFO_NO_NAME = 52,
        OP_SEQUENCE = 53,
        OP_SET_SSV = 54,
        OP_TEST_STATEID = 55,
        OP_WANT_DELEGATION = 56,
        OP_DESTROY_CLIENTID = 57,
        OP_RECLAIM_COMPLETE = 58,
        OP_ILLEGAL = 10044,
    }

    /// Type of a file (RFC 8881 §3.2).
    nfs_ftype4 {
        NF4REG = 1,
        NF4DIR = 2,
        NF4BLK = 3,
        NF4CHR = 4,
        NF4LNK = 5,
        NF4SOCK = 6,
        NF4FIFO = 7,
        NF4ATTRDIR = 8,
        NF4NAMEDATTR = 9,
    }

    /// Type of a byte-range lock (RFC 8881 §18.10); the `W` types tell that the client waits for the lock.
    nfs_lock_type4 {
        READ_LT = 1,
        WRITE_LT = 2,
        READW_LT = 3,
        WRITEW_LT = 4,
    }
}

pub use crate::nfs3::stable_how as stable_how4;

pub type clientid4 = u64;
pub type sequenceid4 = u32;
pub type slotid4 = u32;
pub type sessionid4 = [u8; 16];
pub type verifier4 = [u8; 8];
pub type component4<'a> = &'a [u8];
pub type utf8str_cs<'a> = &'a [u8];

/// File handle, lent out of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct nfs_fh4<'a>(pub &'a [u8]);

impl Encode for nfs_fh4<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.opaque(self.0);
    }
}

impl<'a> Decode<'a> for nfs_fh4<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        Ok(Self(reader.opaque(NFS4_FHSIZE)?))
    }
}

/// An opaque that names an owner of state or a server, at most [`NFS4_OPAQUE_LIMIT`] bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct owner_name4<'a>(pub &'a [u8]);

impl Encode for owner_name4<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.opaque(self.0);
    }
}

impl<'a> Decode<'a> for owner_name4<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        Ok(Self(reader.opaque(NFS4_OPAQUE_LIMIT)?))
    }
}

xdr_struct! {
    /// Opens the arguments of COMPOUND (RFC 8881 §16.2.1); `count` operations follow, each with its number before its arguments.
    #[derive(Copy)]
    compound4_head<'a> { tag: utf8str_cs<'a>, minorversion: u32, count: u32 }

    /// Opens the result of COMPOUND; `count` results follow, each with the number of its operation before it.
    #[derive(Copy)]
    compound4_result_head<'a> { status: nfsstat4, tag: utf8str_cs<'a>, count: u32 }

    /// Names a piece of state (RFC 8881 §8.2).
    #[derive(Copy, Hash)]
    stateid4 { seqid: u32, other: [u8; 12] }

    /// Seconds and nanoseconds since 1970.
    #[derive(Copy, Default, PartialOrd, Ord)]
    nfstime4 { seconds: i64, nseconds: u32 }

    /// Identifies a file system of a server.
    #[derive(Copy, Default)]
    fsid4 { major: u64, minor: u64 }

    /// Device numbers.
    #[derive(Copy, Default)]
    specdata4 { specdata1: u32, specdata2: u32 }

    /// The `change` attribute of a directory before and after an operation.
    #[derive(Copy, Default)]
    change_info4 { atomic: bool, before: u64, after: u64 }

    /// The client as it names itself, and one start of it.
    #[derive(Copy)]
    client_owner4<'a> { co_verifier: verifier4, co_ownerid: owner_name4<'a> }

    /// The server as it names itself.
    #[derive(Copy)]
    server_owner4<'a> { so_minor_id: u64, so_major_id: owner_name4<'a> }

    /// The owner of an open or a lock. The client id is that of the session, whatever is written here.
    #[derive(Copy)]
    state_owner4<'a> { clientid: clientid4, owner: owner_name4<'a> }

    /// An implementation, as it describes itself.
    #[derive(Copy)]
    nfs_impl_id4<'a> { nii_domain: &'a [u8], nii_name: &'a [u8], nii_date: nfstime4 }

    /// Limits of a channel of a session (RFC 8881 §18.36).
    #[derive(Copy)]
    channel_attrs4 {
        ca_headerpadsize: u32,
        ca_maxrequestsize: u32,
        ca_maxresponsesize: u32,
        ca_maxresponsesize_cached: u32,
        ca_maxoperations: u32,
        ca_maxrequests: u32,
        ca_rdma_ird: Option<u32>,
    }
}

xdr_union! {
    /// A change of a time.
    #[derive(Copy)]
    settime4 {
        0 => SET_TO_SERVER_TIME4(()),
        1 => SET_TO_CLIENT_TIME4(nfstime4),
    }
}

/// State ids with a meaning of their own (RFC 8881 §8.2.3).
impl Default for stateid4 {
    fn default() -> Self {
        Self::ANONYMOUS
    }
}

impl stateid4 {
    /// Stands for no state: READ, WRITE and SETATTR by a client that has not opened the file.
    pub const ANONYMOUS: Self = Self { seqid: 0, other: [0; 12] };
    /// As `ANONYMOUS`; a READ with it passes by share reservations.
    pub const READ_BYPASS: Self = Self { seqid: u32::MAX, other: [0xff; 12] };
    /// The state id that an operation before in the COMPOUND has made or used.
    pub const CURRENT: Self = Self { seqid: 1, other: [0; 12] };
    /// Never valid.
    pub const INVALID: Self = Self { seqid: u32::MAX, other: [0; 12] };
}

/// A result without failure data: what follows `NFS4_OK`, or any other status alone.
impl<T: Encode> Encode for Result<T, nfsstat4> {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Ok(value) => {
                nfsstat4::NFS4_OK.encode(writer);
                value.encode(writer);
            }
            Err(status) => status.encode(writer),
        }
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Result<T, nfsstat4> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        match nfsstat4::decode(reader)? {
            nfsstat4::NFS4_OK => Ok(Ok(T::decode(reader)?)),
            status => Ok(Err(status)),
        }
    }
}

#[cfg(test)]
mod tests;
