//! Arguments and results of the operations (RFC 8881 §18), under the RFC's names.
//!
//! Operations that neither our server nor our client carries out have no types: pNFS, delegations, named attributes, SSV.

use super::attributes::{bitmap4, fattr4};
use super::{
    change_info4, channel_attrs4, client_owner4, clientid4, component4, nfs_fh4, nfs_impl_id4, nfs_lock_type4,
    nfsstat4, owner_name4, sequenceid4, server_owner4, sessionid4, slotid4, specdata4, stable_how4, state_owner4,
    stateid4, verifier4,
};
use crate::rpc::authsys_parms;
use crate::xdr::{Decode, Encode, List, Reader, Writer, XdrError, xdr_struct, xdr_union};

/// Bits of ACCESS (§18.1); they are those of version 3.
pub use crate::nfs3::access;

/// Bits of `share_access` and `share_deny` (§18.16).
pub mod share {
    pub const OPEN4_SHARE_ACCESS_READ: u32 = 1;
    pub const OPEN4_SHARE_ACCESS_WRITE: u32 = 2;
    pub const OPEN4_SHARE_ACCESS_BOTH: u32 = 3;
    pub const OPEN4_SHARE_DENY_NONE: u32 = 0;
    pub const OPEN4_SHARE_DENY_READ: u32 = 1;
    pub const OPEN4_SHARE_DENY_WRITE: u32 = 2;
    pub const OPEN4_SHARE_DENY_BOTH: u32 = 3;
    pub const OPEN4_SHARE_ACCESS_WANT_DELEG_MASK: u32 = 0xff00;
    pub const OPEN4_SHARE_ACCESS_WANT_NO_DELEG: u32 = 0x0400;
    pub const OPEN4_SHARE_ACCESS_WANT_CANCEL: u32 = 0x0500;
    /// All bits that §18.16 defines.
    pub const OPEN4_SHARE_ACCESS_KNOWN: u32 = 0x3_ff03;
    /// In `rflags`: locks follow POSIX.
    pub const OPEN4_RESULT_LOCKTYPE_POSIX: u32 = 4;
}

/// Flags of `EXCHANGE_ID` (§18.35).
pub mod exchgid {
    pub const EXCHGID4_FLAG_SUPP_MOVED_REFER: u32 = 0x0000_0001;
    pub const EXCHGID4_FLAG_SUPP_MOVED_MIGR: u32 = 0x0000_0002;
    pub const EXCHGID4_FLAG_BIND_PRINC_STATEID: u32 = 0x0000_0100;
    pub const EXCHGID4_FLAG_USE_NON_PNFS: u32 = 0x0001_0000;
    pub const EXCHGID4_FLAG_USE_PNFS_MDS: u32 = 0x0002_0000;
    pub const EXCHGID4_FLAG_USE_PNFS_DS: u32 = 0x0004_0000;
    pub const EXCHGID4_FLAG_UPD_CONFIRMED_REC_A: u32 = 0x4000_0000;
    pub const EXCHGID4_FLAG_CONFIRMED_R: u32 = 0x8000_0000;
}

/// Flags of `CREATE_SESSION` (§18.36).
pub mod create_session {
    pub const CREATE_SESSION4_FLAG_PERSIST: u32 = 1;
    pub const CREATE_SESSION4_FLAG_CONN_BACK_CHAN: u32 = 2;
    pub const CREATE_SESSION4_FLAG_CONN_RDMA: u32 = 4;
}

/// Bits of `sr_status_flags` (§18.46).
pub mod seq4_status {
    pub const SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED: u32 = 0x0000_0008;
    pub const SEQ4_STATUS_RESTART_RECLAIM_NEEDED: u32 = 0x0000_0100;
}

/// Directions of `BIND_CONN_TO_SESSION` (§18.34).
pub mod direction {
    pub const CDFC4_FORE: u32 = 1;
    pub const CDFC4_BACK: u32 = 2;
    pub const CDFC4_FORE_OR_BOTH: u32 = 3;
    pub const CDFC4_BACK_OR_BOTH: u32 = 7;
    pub const CDFS4_FORE: u32 = 1;
    pub const CDFS4_BACK: u32 = 2;
    pub const CDFS4_BOTH: u32 = 3;
}

/// Styles of `SECINFO_NO_NAME` (§18.45).
pub mod secinfo_style {
    pub const SECINFO_STYLE4_CURRENT_FH: u32 = 0;
    pub const SECINFO_STYLE4_PARENT: u32 = 1;
}

xdr_struct! {
    /// §18.1.
    #[derive(Copy)]
    ACCESS4args { access: u32 }
    #[derive(Copy)]
    ACCESS4resok { supported: u32, access: u32 }

    /// §18.2; the seqid is not used.
    #[derive(Copy)]
    CLOSE4args { seqid: u32, open_stateid: stateid4 }

    /// §18.3.
    #[derive(Copy)]
    COMMIT4args { offset: u64, count: u32 }
    #[derive(Copy)]
    COMMIT4resok { writeverf: verifier4 }

    /// §18.4.
    CREATE4args<'a> { objtype: createtype4<'a>, objname: component4<'a>, createattrs: fattr4<'a> }
    #[derive(Copy)]
    CREATE4resok { cinfo: change_info4, attrset: bitmap4 }

    /// §18.6.
    #[derive(Copy)]
    DELEGRETURN4args { deleg_stateid: stateid4 }

    /// §18.7.
    #[derive(Copy)]
    GETATTR4args { attr_request: bitmap4 }
    #[derive(Copy)]
    GETATTR4resok<'a> { obj_attributes: fattr4<'a> }

    /// §18.8.
    #[derive(Copy)]
    GETFH4resok<'a> { object: nfs_fh4<'a> }

    /// §18.9.
    #[derive(Copy)]
    LINK4args<'a> { newname: component4<'a> }
    #[derive(Copy)]
    LINK4resok { cinfo: change_info4 }

    /// §18.10.
    LOCK4args<'a> { locktype: nfs_lock_type4, reclaim: bool, offset: u64, length: u64, locker: locker4<'a> }
    #[derive(Copy)]
    open_to_lock_owner4<'a> { open_seqid: u32, open_stateid: stateid4, lock_seqid: u32, lock_owner: state_owner4<'a> }
    #[derive(Copy)]
    exist_lock_owner4 { lock_stateid: stateid4, lock_seqid: u32 }
    #[derive(Copy)]
    LOCK4resok { lock_stateid: stateid4 }
    /// The lock that is in the way.
    #[derive(Copy)]
    LOCK4denied<'a> { offset: u64, length: u64, locktype: nfs_lock_type4, owner: state_owner4<'a> }

    /// §18.11.
    #[derive(Copy)]
    LOCKT4args<'a> { locktype: nfs_lock_type4, offset: u64, length: u64, owner: state_owner4<'a> }

    /// §18.12.
    #[derive(Copy)]
    LOCKU4args { locktype: nfs_lock_type4, seqid: u32, lock_stateid: stateid4, offset: u64, length: u64 }

    /// §18.13.
    #[derive(Copy)]
    LOOKUP4args<'a> { objname: component4<'a> }

    /// §18.15 and §18.30.
    #[derive(Copy)]
    VERIFY4args<'a> { obj_attributes: fattr4<'a> }

    /// §18.16; the seqid is not used.
    OPEN4args<'a> {
        seqid: u32,
        share_access: u32,
        share_deny: u32,
        owner: state_owner4<'a>,
        openhow: openflag4<'a>,
        claim: open_claim4<'a>,
    }
    #[derive(Copy)]
    creatverfattr<'a> { cva_verf: verifier4, cva_attrs: fattr4<'a> }
    #[derive(Copy)]
    open_claim_delegate_cur4<'a> { delegate_stateid: stateid4, file: component4<'a> }
    OPEN4resok {
        stateid: stateid4,
        cinfo: change_info4,
        rflags: u32,
        attrset: bitmap4,
        delegation: open_delegation4,
    }

    /// §18.18; the seqid is not used.
    #[derive(Copy)]
    OPEN_DOWNGRADE4args { open_stateid: stateid4, seqid: u32, share_access: u32, share_deny: u32 }

    /// §18.19.
    #[derive(Copy)]
    PUTFH4args<'a> { object: nfs_fh4<'a> }

    /// §18.22.
    #[derive(Copy)]
    READ4args { stateid: stateid4, offset: u64, count: u32 }
    #[derive(Copy)]
    READ4resok<'a> { eof: bool, data: &'a [u8] }

    /// §18.23.
    #[derive(Copy)]
    READDIR4args { cookie: u64, cookieverf: verifier4, dircount: u32, maxcount: u32, attr_request: bitmap4 }
    READDIR4resok<'a> { cookieverf: verifier4, reply: dirlist4<'a> }
    dirlist4<'a> { entries: List<entry4<'a>>, eof: bool }
    #[derive(Copy)]
    entry4<'a> { cookie: u64, name: component4<'a>, attrs: fattr4<'a> }

    /// §18.24.
    #[derive(Copy)]
    READLINK4resok<'a> { link: &'a [u8] }

    /// §18.25.
    #[derive(Copy)]
    REMOVE4args<'a> { target: component4<'a> }
    #[derive(Copy)]
    REMOVE4resok { cinfo: change_info4 }

    /// §18.26.
    #[derive(Copy)]
    RENAME4args<'a> { oldname: component4<'a>, newname: component4<'a> }
    #[derive(Copy)]
    RENAME4resok { source_cinfo: change_info4, target_cinfo: change_info4 }

    /// §18.29.
    #[derive(Copy)]
    SECINFO4args<'a> { name: component4<'a> }
    #[derive(Copy)]
    rpcsec_gss_info<'a> { oid: &'a [u8], qop: u32, service: u32 }

    /// §18.30.
    #[derive(Copy)]
    SETATTR4args<'a> { stateid: stateid4, obj_attributes: fattr4<'a> }
    #[derive(Copy)]
    SETATTR4res { status: nfsstat4, attrsset: bitmap4 }

    /// §18.32.
    #[derive(Copy)]
    WRITE4args<'a> { stateid: stateid4, offset: u64, stable: stable_how4, data: &'a [u8] }
    #[derive(Copy)]
    WRITE4resok { count: u32, committed: stable_how4, writeverf: verifier4 }

    /// §18.33.
    BACKCHANNEL_CTL4args<'a> { bca_cb_program: u32, bca_sec_parms: Vec<callback_sec_parms4<'a>> }
    #[derive(Copy)]
    gss_cb_handles4<'a> { gcbp_service: u32, gcbp_handle_from_server: &'a [u8], gcbp_handle_from_client: &'a [u8] }

    /// §18.34.
    #[derive(Copy)]
    BIND_CONN_TO_SESSION4args { bctsa_sessid: sessionid4, bctsa_dir: u32, bctsa_use_conn_in_rdma_mode: bool }
    #[derive(Copy)]
    BIND_CONN_TO_SESSION4resok { bctsr_sessid: sessionid4, bctsr_dir: u32, bctsr_use_conn_in_rdma_mode: bool }

    /// §18.35.
    EXCHANGE_ID4args<'a> {
        eia_clientowner: client_owner4<'a>,
        eia_flags: u32,
        eia_state_protect: state_protect4_a<'a>,
        eia_client_impl_id: Option<nfs_impl_id4<'a>>,
    }
    #[derive(Copy)]
    state_protect_ops4 { spo_must_enforce: bitmap4, spo_must_allow: bitmap4 }
    ssv_sp_parms4<'a> {
        ssp_ops: state_protect_ops4,
        ssp_hash_algs: Vec<&'a [u8]>,
        ssp_encr_algs: Vec<&'a [u8]>,
        ssp_window: u32,
        ssp_num_gss_handles: u32,
    }
    ssv_prot_info4<'a> {
        spi_ops: state_protect_ops4,
        spi_hash_alg: u32,
        spi_encr_alg: u32,
        spi_ssv_len: u32,
        spi_window: u32,
        spi_handles: Vec<&'a [u8]>,
    }
    EXCHANGE_ID4resok<'a> {
        eir_clientid: clientid4,
        eir_sequenceid: sequenceid4,
        eir_flags: u32,
        eir_state_protect: state_protect4_r<'a>,
        eir_server_owner: server_owner4<'a>,
        eir_server_scope: owner_name4<'a>,
        eir_server_impl_id: Option<nfs_impl_id4<'a>>,
    }

    /// §18.36.
    CREATE_SESSION4args<'a> {
        csa_clientid: clientid4,
        csa_sequence: sequenceid4,
        csa_flags: u32,
        csa_fore_chan_attrs: channel_attrs4,
        csa_back_chan_attrs: channel_attrs4,
        csa_cb_program: u32,
        csa_sec_parms: Vec<callback_sec_parms4<'a>>,
    }
    #[derive(Copy)]
    CREATE_SESSION4resok {
        csr_sessionid: sessionid4,
        csr_sequence: sequenceid4,
        csr_flags: u32,
        csr_fore_chan_attrs: channel_attrs4,
        csr_back_chan_attrs: channel_attrs4,
    }

    /// §18.37.
    #[derive(Copy)]
    DESTROY_SESSION4args { dsa_sessionid: sessionid4 }

    /// §18.38.
    #[derive(Copy)]
    FREE_STATEID4args { fsa_stateid: stateid4 }

    /// §18.45.
    #[derive(Copy)]
    SECINFO_NO_NAME4args { style: u32 }

    /// §18.46.
    #[derive(Copy)]
    SEQUENCE4args {
        sa_sessionid: sessionid4,
        sa_sequenceid: sequenceid4,
        sa_slotid: slotid4,
        sa_highest_slotid: slotid4,
        sa_cachethis: bool,
    }
    #[derive(Copy)]
    SEQUENCE4resok {
        sr_sessionid: sessionid4,
        sr_sequenceid: sequenceid4,
        sr_slotid: slotid4,
        sr_highest_slotid: slotid4,
        sr_target_highest_slotid: slotid4,
        sr_status_flags: u32,
    }

    /// §18.48.
    TEST_STATEID4args { ts_stateids: Vec<stateid4> }
    TEST_STATEID4resok { tsr_status_codes: Vec<nfsstat4> }

    /// §18.50.
    #[derive(Copy)]
    DESTROY_CLIENTID4args { dca_clientid: clientid4 }

    /// §18.51.
    #[derive(Copy)]
    RECLAIM_COMPLETE4args { rca_one_fs: bool }
}

xdr_union! {
    /// Kinds of files of CREATE (§18.4); those that it cannot create carry nothing.
    #[derive(Copy)]
    createtype4<'a> {
        1 => NF4REG(()),
        2 => NF4DIR(()),
        3 => NF4BLK(specdata4),
        4 => NF4CHR(specdata4),
        5 => NF4LNK(&'a [u8]),
        6 => NF4SOCK(()),
        7 => NF4FIFO(()),
        8 => NF4ATTRDIR(()),
        9 => NF4NAMEDATTR(()),
    }

    /// The owner of a new lock (§18.10): one that locks the file for the first time, or one that has a state id.
    #[derive(Copy)]
    locker4<'a> {
        0 => lock_owner(exist_lock_owner4),
        1 => open_owner(open_to_lock_owner4<'a>),
    }

    /// Action of OPEN for a name that does not exist (§18.16).
    #[derive(Copy)]
    openflag4<'a> {
        0 => OPEN4_NOCREATE(()),
        1 => OPEN4_CREATE(createhow4<'a>),
    }

    /// Action of OPEN for a name that exists (§18.16).
    #[derive(Copy)]
    createhow4<'a> {
        0 => UNCHECKED4(fattr4<'a>),
        1 => GUARDED4(fattr4<'a>),
        2 => EXCLUSIVE4(verifier4),
        3 => EXCLUSIVE4_1(creatverfattr<'a>),
    }

    /// The file that OPEN opens (§18.16).
    #[derive(Copy)]
    open_claim4<'a> {
        0 => CLAIM_NULL(component4<'a>),
        1 => CLAIM_PREVIOUS(u32),
        2 => CLAIM_DELEGATE_CUR(open_claim_delegate_cur4<'a>),
        3 => CLAIM_DELEGATE_PREV(component4<'a>),
        4 => CLAIM_FH(()),
        5 => CLAIM_DELEG_CUR_FH(stateid4),
        6 => CLAIM_DELEG_PREV_FH(()),
    }

    /// The delegation that OPEN gives; those that are given have no types here.
    #[derive(Copy)]
    open_delegation4 {
        0 => OPEN_DELEGATE_NONE(()),
        3 => OPEN_DELEGATE_NONE_EXT(open_none_delegation4),
    }

    /// Why there is no delegation.
    #[derive(Copy)]
    open_none_delegation4 {
        0 => WND4_NOT_WANTED(()),
        1 => WND4_CONTENTION(bool),
        2 => WND4_RESOURCE(bool),
        3 => WND4_NOT_SUPP_FTYPE(()),
        4 => WND4_WRITE_DELEG_NOT_SUPP_FTYPE(()),
        5 => WND4_NOT_SUPP_UPGRADE(()),
        6 => WND4_NOT_SUPP_DOWNGRADE(()),
        7 => WND4_CANCELLED(()),
        8 => WND4_IS_DIR(()),
    }

    /// A security flavor that may be used (§18.29).
    #[derive(Copy)]
    secinfo4<'a> {
        0 => AUTH_NONE(()),
        1 => AUTH_SYS(()),
        6 => RPCSEC_GSS(rpcsec_gss_info<'a>),
    }

    /// Credentials that callbacks may use (§18.33).
    callback_sec_parms4<'a> {
        0 => AUTH_NONE(()),
        1 => AUTH_SYS(authsys_parms<'a>),
        6 => RPCSEC_GSS(gss_cb_handles4<'a>),
    }

    /// Protection of state that the client asks for (§18.35).
    state_protect4_a<'a> {
        0 => SP4_NONE(()),
        1 => SP4_MACH_CRED(state_protect_ops4),
        2 => SP4_SSV(ssv_sp_parms4<'a>),
    }

    /// Protection of state that the server gives (§18.35).
    state_protect4_r<'a> {
        0 => SP4_NONE(()),
        1 => SP4_MACH_CRED(state_protect_ops4),
        2 => SP4_SSV(ssv_prot_info4<'a>),
    }

    /// An operation with its arguments.
    nfs_argop4<'a> {
        3 => ACCESS(ACCESS4args),
        4 => CLOSE(CLOSE4args),
        5 => COMMIT(COMMIT4args),
        6 => CREATE(CREATE4args<'a>),
        8 => DELEGRETURN(DELEGRETURN4args),
        9 => GETATTR(GETATTR4args),
        10 => GETFH(()),
        11 => LINK(LINK4args<'a>),
        12 => LOCK(LOCK4args<'a>),
        13 => LOCKT(LOCKT4args<'a>),
        14 => LOCKU(LOCKU4args),
        15 => LOOKUP(LOOKUP4args<'a>),
        16 => LOOKUPP(()),
        17 => NVERIFY(VERIFY4args<'a>),
        18 => OPEN(OPEN4args<'a>),
        21 => OPEN_DOWNGRADE(OPEN_DOWNGRADE4args),
        22 => PUTFH(PUTFH4args<'a>),
        23 => PUTPUBFH(()),
        24 => PUTROOTFH(()),
        25 => READ(READ4args),
        26 => READDIR(READDIR4args),
        27 => READLINK(()),
        28 => REMOVE(REMOVE4args<'a>),
        29 => RENAME(RENAME4args<'a>),
        31 => RESTOREFH(()),
        32 => SAVEFH(()),
        33 => SECINFO(SECINFO4args<'a>),
        34 => SETATTR(SETATTR4args<'a>),
        37 => VERIFY(VERIFY4args<'a>),
        38 => WRITE(WRITE4args<'a>),
        40 => BACKCHANNEL_CTL(BACKCHANNEL_CTL4args<'a>),
        41 => BIND_CONN_TO_SESSION(BIND_CONN_TO_SESSION4args),
        42 => EXCHANGE_ID(EXCHANGE_ID4args<'a>),
        43 => CREATE_SESSION(CREATE_SESSION4args<'a>),
        44 => DESTROY_SESSION(DESTROY_SESSION4args),
        45 => FREE_STATEID(FREE_STATEID4args),
        52 => SECINFO_NO_NAME(SECINFO_NO_NAME4args),
        53 => SEQUENCE(SEQUENCE4args),
        55 => TEST_STATEID(TEST_STATEID4args),
        57 => DESTROY_CLIENTID(DESTROY_CLIENTID4args),
        58 => RECLAIM_COMPLETE(RECLAIM_COMPLETE4args),
    }

    /// An operation with its result.
    nfs_resop4<'a> {
        3 => ACCESS(Result<ACCESS4resok, nfsstat4>),
        4 => CLOSE(Result<stateid4, nfsstat4>),
        5 => COMMIT(Result<COMMIT4resok, nfsstat4>),
        6 => CREATE(Result<CREATE4resok, nfsstat4>),
        8 => DELEGRETURN(Result<(), nfsstat4>),
        9 => GETATTR(Result<GETATTR4resok<'a>, nfsstat4>),
        10 => GETFH(Result<GETFH4resok<'a>, nfsstat4>),
        11 => LINK(Result<LINK4resok, nfsstat4>),
        12 => LOCK(Result<LOCK4resok, LockRefused<'a>>),
        13 => LOCKT(Result<(), LockRefused<'a>>),
        14 => LOCKU(Result<stateid4, nfsstat4>),
        15 => LOOKUP(Result<(), nfsstat4>),
        16 => LOOKUPP(Result<(), nfsstat4>),
        17 => NVERIFY(Result<(), nfsstat4>),
        18 => OPEN(Result<OPEN4resok, nfsstat4>),
        21 => OPEN_DOWNGRADE(Result<stateid4, nfsstat4>),
        22 => PUTFH(Result<(), nfsstat4>),
        23 => PUTPUBFH(Result<(), nfsstat4>),
        24 => PUTROOTFH(Result<(), nfsstat4>),
        25 => READ(Result<READ4resok<'a>, nfsstat4>),
        26 => READDIR(Result<READDIR4resok<'a>, nfsstat4>),
        27 => READLINK(Result<READLINK4resok<'a>, nfsstat4>),
        28 => REMOVE(Result<REMOVE4resok, nfsstat4>),
        29 => RENAME(Result<RENAME4resok, nfsstat4>),
        31 => RESTOREFH(Result<(), nfsstat4>),
        32 => SAVEFH(Result<(), nfsstat4>),
        33 => SECINFO(Result<Vec<secinfo4<'a>>, nfsstat4>),
        34 => SETATTR(SETATTR4res),
        37 => VERIFY(Result<(), nfsstat4>),
        38 => WRITE(Result<WRITE4resok, nfsstat4>),
        40 => BACKCHANNEL_CTL(Result<(), nfsstat4>),
        41 => BIND_CONN_TO_SESSION(Result<BIND_CONN_TO_SESSION4resok, nfsstat4>),
        42 => EXCHANGE_ID(Result<EXCHANGE_ID4resok<'a>, nfsstat4>),
        43 => CREATE_SESSION(Result<CREATE_SESSION4resok, nfsstat4>),
        44 => DESTROY_SESSION(Result<(), nfsstat4>),
        45 => FREE_STATEID(Result<(), nfsstat4>),
        52 => SECINFO_NO_NAME(Result<Vec<secinfo4<'a>>, nfsstat4>),
        53 => SEQUENCE(Result<SEQUENCE4resok, nfsstat4>),
        55 => TEST_STATEID(Result<TEST_STATEID4resok, nfsstat4>),
        57 => DESTROY_CLIENTID(Result<(), nfsstat4>),
        58 => RECLAIM_COMPLETE(Result<(), nfsstat4>),
        10044 => ILLEGAL(Result<(), nfsstat4>),
    }
}

/// A failure of LOCK or LOCKT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockRefused<'a> {
    /// `NFS4ERR_DENIED`: another owner has this lock.
    Denied(LOCK4denied<'a>),
    /// Any other status.
    Failed(nfsstat4),
}

impl From<nfsstat4> for LockRefused<'_> {
    fn from(status: nfsstat4) -> Self {
        Self::Failed(status)
    }
}

impl<T: Encode> Encode for Result<T, LockRefused<'_>> {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Ok(value) => {
                nfsstat4::NFS4_OK.encode(writer);
                value.encode(writer);
            }
            Err(LockRefused::Denied(denied)) => {
                nfsstat4::NFS4ERR_DENIED.encode(writer);
                denied.encode(writer);
            }
            Err(LockRefused::Failed(status)) => status.encode(writer),
        }
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Result<T, LockRefused<'a>> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        Ok(match nfsstat4::decode(reader)? {
            nfsstat4::NFS4_OK => Ok(T::decode(reader)?),
            nfsstat4::NFS4ERR_DENIED => Err(LockRefused::Denied(LOCK4denied::decode(reader)?)),
            status => Err(LockRefused::Failed(status)),
        })
    }
}
