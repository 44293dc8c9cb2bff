use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::mount3::{dirpath, exports, mountlist, mountres3, mountres3_ok, mountstat3};
use crate::portmap::{mapping, pmaplist};
use crate::record::{RecordMark, write_record};
use crate::rpc::{Accepted, CallHeader, Rejected, ReplyHeader, auth_flavor, authsys_parms, mismatch_info, opaque_auth};
use crate::sample::{Entropy, Sample};
use crate::xdr::{from_bytes, to_bytes};

impl<'a, T: Sample<'a>, F: Sample<'a>> Sample<'a> for Result<T, Failed<F>> {
    fn sample(entropy: &mut Entropy<'a>) -> Self {
        if bool::sample(entropy) {
            return Ok(T::sample(entropy));
        }
        Err(Failed {
            status: *entropy.one_of(&[nfsstat3::NFS3ERR_STALE, nfsstat3::NFS3ERR_IO]),
            rest: F::sample(entropy),
        })
    }
}

impl<'a> Sample<'a> for mountres3 {
    fn sample(entropy: &mut Entropy<'a>) -> Self {
        if bool::sample(entropy) { Ok(mountres3_ok::sample(entropy)) } else { Err(mountstat3::MNT3ERR_ACCES) }
    }
}

/// For each type: value → bytes → value; every shorter message is an error; no message at all is a panic.
macro_rules! round_trips {
    ($($test:ident: $($type:ty),+ $(,)?;)*) => {
        proptest! { $(
            #[test]
            fn $test(entropy in vec(any::<u8>(), 0..600)) { $(
                let value = <$type>::sample(&mut Entropy::new(&entropy));
                let bytes = to_bytes(&value);
                prop_assert_eq!(bytes.len() % 4, 0);
                prop_assert_eq!(from_bytes::<$type>(&bytes), Ok(value));
                for length in 0..bytes.len() {
                    prop_assert!(from_bytes::<$type>(&bytes[..length]).is_err());
                }
                let _ = from_bytes::<$type>(&entropy);
            )+ }
        )* }
    };
}

round_trips! {
    getattr: GETATTR3args, GETATTR3res;
    setattr: SETATTR3args, SETATTR3res;
    lookup: LOOKUP3args<'_>, LOOKUP3res;
    access_: ACCESS3args, ACCESS3res;
    readlink: READLINK3args, READLINK3res<'_>;
    read: READ3args, READ3res<'_>;
    write: WRITE3args<'_>, WRITE3res;
    create: CREATE3args<'_>, CREATE3res;
    mkdir: MKDIR3args<'_>, MKDIR3res;
    symlink: SYMLINK3args<'_>, SYMLINK3res;
    mknod: MKNOD3args<'_>, MKNOD3res;
    remove: REMOVE3args<'_>, REMOVE3res;
    rmdir: RMDIR3args<'_>, RMDIR3res;
    rename: RENAME3args<'_>, RENAME3res;
    link: LINK3args<'_>, LINK3res;
    readdir: READDIR3args, READDIR3res<'_>;
    readdirplus: READDIRPLUS3args, READDIRPLUS3res<'_>;
    fsstat: FSSTAT3args, FSSTAT3res;
    fsinfo: FSINFO3args, FSINFO3res;
    pathconf: PATHCONF3args, PATHCONF3res;
    commit: COMMIT3args, COMMIT3res;
    mount: dirpath<'_>, mountres3, mountlist<'_>, exports<'_>;
    portmap: mapping, pmaplist;
    rpc: authsys_parms<'_>, Accepted, Rejected;
}

#[test]
fn a_read_call_byte_by_byte() {
    let mut record = Vec::new();
    write_record(&mut record, |writer| {
        let cred = opaque_auth { flavor: auth_flavor::AUTH_SYS, body: &[0xaa; 4] };
        let (prog, vers, proc) = (NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_READ as u32);
        CallHeader { xid: 0x0102_0304, rpcvers: 2, prog, vers, proc, cred, verf: opaque_auth::NONE }.encode(writer);
        READ3args { file: nfs_fh3::new(&[1, 2, 3]).unwrap(), offset: 0x1_0000_0000, count: 4096 }.encode(writer);
    });
    #[rustfmt::skip]
    assert_eq!(record, [
        0x80, 0, 0, 64, // last fragment, 64 bytes
        1, 2, 3, 4, // xid
        0, 0, 0, 0, // CALL
        0, 0, 0, 2, // RPC version
        0, 1, 0x86, 0xa3, // NFS
        0, 0, 0, 3, // version 3
        0, 0, 0, 6, // READ
        0, 0, 0, 1, 0, 0, 0, 4, 0xaa, 0xaa, 0xaa, 0xaa, // AUTH_SYS
        0, 0, 0, 0, 0, 0, 0, 0, // AUTH_NONE
        0, 0, 0, 3, 1, 2, 3, 0, // handle, padded
        0, 0, 0, 1, 0, 0, 0, 0, // offset
        0, 0, 16, 0, // count
    ]);
}

#[test]
fn a_failed_lookup_byte_by_byte() {
    let result: LOOKUP3res = Err(Failed { status: nfsstat3::NFS3ERR_NOENT, rest: None });
    assert_eq!(to_bytes(&result), [0, 0, 0, 2, 0, 0, 0, 0]);
    assert_eq!(nfsstat3::NFS3ERR_NOENT.name(), "NFS3ERR_NOENT");
}

#[test]
fn a_sattr_byte_by_byte() {
    let time = nfstime3 { seconds: 7, nseconds: 8 };
    let attributes = sattr3 { mode: Some(0o644), mtime: set_time::SET_TO_CLIENT_TIME(time), ..sattr3::default() };
    #[rustfmt::skip]
    assert_eq!(to_bytes(&attributes), [
        0, 0, 0, 1, 0, 0, 1, 0xa4, // mode
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // uid, gid, size
        0, 0, 0, 0, // atime
        0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 8, // mtime
    ]);
}

#[test]
fn replies_that_are_no_success_byte_by_byte() {
    let mismatch = Accepted::PROG_MISMATCH(mismatch_info { low: 3, high: 3 });
    #[rustfmt::skip]
    assert_eq!(to_bytes(&ReplyHeader::accepted(5, mismatch)), [
        0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 3,
    ]);
    let denied = Rejected::RPC_MISMATCH(mismatch_info { low: 2, high: 2 });
    #[rustfmt::skip]
    assert_eq!(to_bytes(&ReplyHeader::denied(5, denied)), [
        0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2,
    ]);
}

#[test]
fn a_record_mark_holds_length_and_end() {
    let mark = RecordMark { length: 0x0102_0304, last: true };
    assert_eq!(mark.to_bytes(), [0x81, 2, 3, 4]);
    assert_eq!(RecordMark::from_bytes([1, 2, 3, 4]), RecordMark { last: false, ..mark });
}

#[test]
fn attributes_have_their_fixed_length() {
    let attributes = fattr3::sample(&mut Entropy::new(&[]));
    assert_eq!(to_bytes(&attributes).len(), FATTR3_BYTES);
}

#[test]
fn hostile_lengths_are_errors() {
    let mut handle = vec![0, 0, 0, 65];
    handle.extend_from_slice(&[0; 68]);
    assert_eq!(from_bytes::<nfs_fh3>(&handle), Err(XdrError::TooLong { length: 65, limit: NFS3_FHSIZE }));

    let mut gids = to_bytes(&authsys_parms { stamp: 0, machinename: b"", uid: 0, gid: 0, gids: vec![] });
    gids.truncate(16);
    gids.extend_from_slice(&[0xff; 4]);
    assert_eq!(from_bytes::<authsys_parms<'_>>(&gids), Err(XdrError::Truncated { missing: 4 }));

    let credential = [0, 0, 0, 1, 0, 0, 1, 0x91];
    assert_eq!(from_bytes::<opaque_auth<'_>>(&credential), Err(XdrError::TooLong { length: 401, limit: 400 }));

    assert_eq!(from_bytes::<LOOKUP3res>(&[0, 0, 0, 3]), Err(XdrError::BadValue { what: "nfsstat3", value: 3 }));
}
