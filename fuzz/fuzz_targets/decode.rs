//! Any bytes as any message: decoding neither panics nor takes memory that the bytes do not back, and what was decoded encodes to
//! what was read.

#![no_main]

use iocurve_wire::mount3::mountres3;
use iocurve_wire::nfs3::*;
use iocurve_wire::nfs4::attributes::fattr4;
use iocurve_wire::nfs4::operations::{nfs_argop4, nfs_resop4};
use iocurve_wire::nfs4::{compound4_head, compound4_result_head};
use iocurve_wire::portmap::mapping;
use iocurve_wire::rpc::{CallHeader, ReplyHeader, authsys_parms};
use iocurve_wire::server_fast::{RangeArgs, WriteArgs, parse_getattr};
use iocurve_wire::xdr::{Decode, Reader, from_bytes, to_bytes};
use libfuzzer_sys::fuzz_target;

/// Decodes the start of `bytes` as each of the types; what that took must be what encoding gives, but for the content of padding.
macro_rules! all {
    ($bytes:expr, $($message:ty),* $(,)?) => {
        $({
            let mut reader = Reader::new($bytes);
            if let Ok(value) = <$message>::decode(&mut reader) {
                let encoded = to_bytes(&value);
                assert_eq!(encoded.len(), $bytes.len() - reader.rest().len(), stringify!($message));
                let again = <$message>::decode(&mut Reader::new(&encoded)).map(|value| to_bytes(&value));
                assert_eq!(again.ok().as_ref(), Some(&encoded), stringify!($message));
            }
        })*
    };
}

fuzz_target!(|bytes: &[u8]| {
    all!(bytes, CallHeader<'_>, ReplyHeader<'_>, authsys_parms<'_>, mapping, mountres3);
    all!(bytes, SETATTR3args, LOOKUP3args<'_>, ACCESS3args, READLINK3args, READ3args, WRITE3args<'_>, CREATE3args<'_>);
    all!(bytes, MKDIR3args<'_>, SYMLINK3args<'_>, MKNOD3args<'_>, REMOVE3args<'_>, RMDIR3args<'_>, RENAME3args<'_>);
    all!(bytes, LINK3args<'_>, READDIR3args, READDIRPLUS3args, FSSTAT3args, FSINFO3args, PATHCONF3args, COMMIT3args);
    all!(
        bytes,
        GETATTR3res,
        SETATTR3res,
        LOOKUP3res,
        ACCESS3res,
        READLINK3res<'_>,
        READ3res<'_>,
        WRITE3res,
        CREATE3res
    );
    all!(bytes, REMOVE3res, RENAME3res, LINK3res, READDIR3res<'_>, READDIRPLUS3res<'_>, FSSTAT3res, FSINFO3res);
    all!(bytes, PATHCONF3res, COMMIT3res);
    all!(bytes, compound4_head<'_>, compound4_result_head<'_>, nfs_argop4<'_>, nfs_resop4<'_>, fattr4<'_>);
    if let Ok(attributes) = from_bytes::<fattr4<'_>>(bytes) {
        let _ = attributes.values();
    }
    // The data path's own parsers accept what the codec accepts, and nothing else.
    let write = from_bytes::<WRITE3args<'_>>(bytes).ok().filter(|write| write.count as usize == write.data.len());
    assert_eq!(WriteArgs::parse(bytes, bytes.len()).is_ok(), write.is_some());
    assert_eq!(RangeArgs::parse(bytes).is_ok(), from_bytes::<READ3args>(bytes).is_ok());
    assert_eq!(parse_getattr(bytes).is_ok(), from_bytes::<GETATTR3args>(bytes).is_ok());
});
