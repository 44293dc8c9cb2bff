use proptest::collection::vec;
use proptest::prelude::*;

use super::attributes::*;
use super::operations::*;
use super::*;
use crate::sample::{Entropy, Sample};
use crate::xdr::{from_bytes, to_bytes};

impl<'a, T: Sample<'a>> Sample<'a> for Result<T, nfsstat4> {
    fn sample(entropy: &mut Entropy<'a>) -> Self {
        if bool::sample(entropy) {
            return Ok(T::sample(entropy));
        }
        Err(*entropy.one_of(&[nfsstat4::NFS4ERR_STALE, nfsstat4::NFS4ERR_BADSESSION]))
    }
}

impl<'a, T: Sample<'a>> Sample<'a> for Result<T, LockRefused<'a>> {
    fn sample(entropy: &mut Entropy<'a>) -> Self {
        match *entropy.one_of(&[0, 1, 2]) {
            0 => Ok(T::sample(entropy)),
            1 => Err(LockRefused::Denied(LOCK4denied::sample(entropy))),
            _ => Err(LockRefused::Failed(nfsstat4::NFS4ERR_GRACE)),
        }
    }
}

impl<'a> Sample<'a> for nfs_fh4<'a> {
    fn sample(entropy: &mut Entropy<'a>) -> Self {
        let bytes = <&[u8]>::sample(entropy);
        Self(&bytes[..bytes.len().min(NFS4_FHSIZE)])
    }
}

impl<'a> Sample<'a> for owner_name4<'a> {
    fn sample(entropy: &mut Entropy<'a>) -> Self {
        Self(<&[u8]>::sample(entropy))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_operation_comes_back_as_it_went(entropy in vec(any::<u8>(), 0..600)) {
        let operation = nfs_argop4::sample(&mut Entropy::new(&entropy));
        let bytes = to_bytes(&operation);
        prop_assert_eq!(bytes.len() % 4, 0);
        prop_assert_eq!(from_bytes::<nfs_argop4<'_>>(&bytes), Ok(operation));
        for length in 0..bytes.len() {
            prop_assert!(from_bytes::<nfs_argop4<'_>>(&bytes[..length]).is_err());
        }
        let _ = from_bytes::<nfs_argop4<'_>>(&entropy);
    }

    #[test]
    fn every_result_comes_back_as_it_went(entropy in vec(any::<u8>(), 0..600)) {
        let result = nfs_resop4::sample(&mut Entropy::new(&entropy));
        let bytes = to_bytes(&result);
        prop_assert_eq!(from_bytes::<nfs_resop4<'_>>(&bytes), Ok(result));
        for length in 0..bytes.len() {
            prop_assert!(from_bytes::<nfs_resop4<'_>>(&bytes[..length]).is_err());
        }
        let _ = from_bytes::<nfs_resop4<'_>>(&entropy);
    }

    #[test]
    fn attributes_come_back_as_they_went(entropy in vec(any::<u8>(), 0..800)) {
        let attributes = Attributes::sample(&mut Entropy::new(&entropy));
        let bytes = to_bytes(&attributes);
        let encoded: fattr4<'_> = from_bytes(&bytes).unwrap();
        prop_assert_eq!(encoded.attrmask, attributes.mask());
        prop_assert_eq!(encoded.values(), Ok(attributes));
        if !encoded.attr_vals.is_empty() {
            let cut = fattr4 { attr_vals: &encoded.attr_vals[..encoded.attr_vals.len() - 4], ..encoded };
            prop_assert!(cut.values().is_err());
        }
    }
}

#[test]
fn a_compound_byte_by_byte() {
    let mut bytes = to_bytes(&compound4_head { tag: b"t", minorversion: 1, count: 2 });
    let sequence = SEQUENCE4args {
        sa_sessionid: [9; 16],
        sa_sequenceid: 7,
        sa_slotid: 1,
        sa_highest_slotid: 3,
        sa_cachethis: true,
    };
    bytes.extend(to_bytes(&nfs_argop4::SEQUENCE(sequence)));
    bytes.extend(to_bytes(&nfs_argop4::PUTFH(PUTFH4args { object: nfs_fh4(&[1, 2, 3]) })));
    #[rustfmt::skip]
    assert_eq!(bytes, [
        0, 0, 0, 1, b't', 0, 0, 0, // tag
        0, 0, 0, 1, // minor version
        0, 0, 0, 2, // operations
        0, 0, 0, 53, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, // SEQUENCE, session id
        0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 1, // sequence id, slot, highest slot, cache this
        0, 0, 0, 22, 0, 0, 0, 3, 1, 2, 3, 0, // PUTFH, handle
    ]);
}

#[test]
fn attributes_byte_by_byte() {
    let attributes = Attributes { size: Some(5), mode: Some(0o644), owner: Some(b"10"), ..Attributes::default() };
    #[rustfmt::skip]
    assert_eq!(to_bytes(&attributes), [
        0, 0, 0, 2, 0, 0, 0, 0x10, 0, 0, 0, 0x12, // size; mode and owner
        0, 0, 0, 20,
        0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 1, 0xa4, 0, 0, 0, 2, b'1', b'0', 0, 0,
    ]);
}

#[test]
fn sets_are_equal_by_their_numbers() {
    let long: bitmap4 = from_bytes(&[0, 0, 0, 2, 0, 0, 0, 8, 0, 0, 0, 0]).unwrap();
    assert_eq!(long, bitmap4::of(&[FATTR4_CHANGE]));
    assert_eq!(to_bytes(&long).len(), 12, "encoded as it came");
    assert!(long.contains(3) && !long.contains(4) && !long.contains(1000));
    assert_eq!(bitmap4::of(&[1, 40]).intersection(&bitmap4::of(&[40, 75])), bitmap4::of(&[40]));
    assert_eq!(to_bytes(&bitmap4::of(&[1, 40]).difference(&bitmap4::of(&[40]))), [0, 0, 0, 1, 0, 0, 0, 2]);
}

#[test]
fn hostile_lengths_are_errors() {
    assert_eq!(from_bytes::<bitmap4>(&[0, 0, 0, 9]), Err(XdrError::TooLong { length: 9, limit: 8 }));
    assert_eq!(from_bytes::<nfs_fh4<'_>>(&[0, 0, 0, 129]), Err(XdrError::TooLong { length: 129, limit: NFS4_FHSIZE }));
    assert_eq!(from_bytes::<TEST_STATEID4args>(&[0xff; 4]), Err(XdrError::Truncated { missing: 4 }));
    assert_eq!(
        from_bytes::<Option<nfs_impl_id4<'_>>>(&[0, 0, 0, 2]),
        Err(XdrError::BadValue { what: "bool", value: 2 })
    );
}
