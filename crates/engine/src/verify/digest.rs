//! Checksums, each from a separate crate.

use std::hash::Hasher;

use crc::{CRC_7_MMC, CRC_16_ARC, CRC_64_XZ, Crc, Table};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};
use twox_hash::XxHash32;

use crate::plan::VerifyMethod;

/// Longest checksum.
pub(super) const DIGEST_BYTES_MAX: usize = 64;

static CRC7: Crc<u8, Table<16>> = Crc::<u8, Table<16>>::new(&CRC_7_MMC);
static CRC16: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_ARC);
static CRC64: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_XZ);

/// Bytes of a method's checksum; 0 if it has none.
pub(super) fn digest_bytes(method: VerifyMethod) -> usize {
    match method {
        VerifyMethod::Header | VerifyMethod::Null | VerifyMethod::Pattern | VerifyMethod::PatternHeader => 0,
        VerifyMethod::Crc7 => 1,
        VerifyMethod::Crc16 => 2,
        VerifyMethod::Crc32 | VerifyMethod::Crc32c | VerifyMethod::Xxhash => 4,
        VerifyMethod::Crc64 => 8,
        VerifyMethod::Md5 => 16,
        VerifyMethod::Sha1 => 20,
        VerifyMethod::Sha3224 => 28,
        VerifyMethod::Sha256 | VerifyMethod::Sha3256 => 32,
        VerifyMethod::Sha3384 => 48,
        VerifyMethod::Sha512 | VerifyMethod::Sha3512 => 64,
    }
}

/// The checksum of two parts, one after the other; unused bytes are 0. Numbers are big-endian, as usually written.
pub(super) fn digest(method: VerifyMethod, parts: [&[u8]; 2]) -> [u8; DIGEST_BYTES_MAX] {
    let mut result = [0; DIGEST_BYTES_MAX];
    let mut put = |bytes: &[u8]| result[..bytes.len()].copy_from_slice(bytes);
    match method {
        VerifyMethod::Header | VerifyMethod::Null | VerifyMethod::Pattern | VerifyMethod::PatternHeader => {}
        VerifyMethod::Crc7 => {
            let mut sum = CRC7.digest();
            for part in parts {
                sum.update(part);
            }
            put(&[sum.finalize()]);
        }
        VerifyMethod::Crc16 => {
            let mut sum = CRC16.digest();
            for part in parts {
                sum.update(part);
            }
            put(&sum.finalize().to_be_bytes());
        }
        VerifyMethod::Crc32 => {
            let mut sum = crc32fast::Hasher::new();
            for part in parts {
                sum.update(part);
            }
            put(&sum.finalize().to_be_bytes());
        }
        VerifyMethod::Crc32c => {
            let sum = parts.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part));
            put(&sum.to_be_bytes());
        }
        VerifyMethod::Crc64 => {
            let mut sum = CRC64.digest();
            for part in parts {
                sum.update(part);
            }
            put(&sum.finalize().to_be_bytes());
        }
        VerifyMethod::Xxhash => {
            let mut sum = XxHash32::with_seed(0);
            for part in parts {
                sum.write(part);
            }
            put(&sum.finish_32().to_be_bytes());
        }
        VerifyMethod::Md5 => put(&hash::<Md5>(parts)),
        VerifyMethod::Sha1 => put(&hash::<Sha1>(parts)),
        VerifyMethod::Sha256 => put(&hash::<Sha256>(parts)),
        VerifyMethod::Sha512 => put(&hash::<Sha512>(parts)),
        VerifyMethod::Sha3224 => put(&hash::<Sha3_224>(parts)),
        VerifyMethod::Sha3256 => put(&hash::<Sha3_256>(parts)),
        VerifyMethod::Sha3384 => put(&hash::<Sha3_384>(parts)),
        VerifyMethod::Sha3512 => put(&hash::<Sha3_512>(parts)),
    }
    result
}

fn hash<D: Digest>(parts: [&[u8]; 2]) -> sha2::digest::Output<D> {
    let mut hash = D::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize()
}

#[cfg(test)]
mod tests {
    use super::super::tests::METHODS;
    use super::*;

    fn hexadecimal(method: VerifyMethod, parts: [&[u8]; 2]) -> String {
        crate::error::hexadecimal(&digest(method, parts)[..digest_bytes(method)])
    }

    #[test]
    fn checksums_are_those_of_their_standards() {
        // The check values of the CRC catalogue, and the output of coreutils and openssl for the same bytes.
        for (method, expected) in [
            (VerifyMethod::Crc7, "75"),
            (VerifyMethod::Crc16, "bb3d"),
            (VerifyMethod::Crc32, "cbf43926"),
            (VerifyMethod::Crc32c, "e3069283"),
            (VerifyMethod::Crc64, "995dc9bbdf1939fa"),
            (VerifyMethod::Xxhash, "937bad67"),
            (VerifyMethod::Md5, "25f9e794323b453885f5181f1b624d0b"),
            (VerifyMethod::Sha1, "f7c3bc1d808e04732adf679965ccc34ca7ae3441"),
            (VerifyMethod::Sha256, "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"),
        ] {
            assert_eq!(hexadecimal(method, [b"1234", b"56789"]), expected, "{method:?}");
        }
    }

    #[test]
    fn a_checksum_fills_its_bytes_and_does_not_depend_on_the_cut() {
        let content: Vec<u8> = (0..=255).collect();
        for method in METHODS {
            let whole = digest(method, [&content, b""]);
            assert!(whole[digest_bytes(method)..].iter().all(|&byte| byte == 0), "{method:?}");
            assert_eq!(digest(method, [&content[..77], &content[77..]]), whole, "{method:?}");
            let has_one = whole.iter().any(|&byte| byte != 0);
            assert_eq!(has_one, digest_bytes(method) > 0, "{method:?}");
        }
    }
}
