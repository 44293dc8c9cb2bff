//! Verification of the data.

use serde::{Deserialize, Serialize};

/// How what is read is compared with what was written: blocks carry a header with magic, length, offset, seed and
/// checksum, or hold a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct Verify {
    /// What proves a block.
    pub method: VerifyMethod,
    /// Bytes with one header each, a divisor of all operations; 0 is the largest that there is.
    pub interval_bytes: u32,
    /// Where in an interval the header is.
    pub header_offset: u32,
    /// The pattern, for the methods with one; in hexadecimal.
    pub pattern: String,
    /// Whether what was written is read back and compared (fio's `do_verify`).
    pub read_back: bool,
    /// Bytes issued, all kinds together, after which what was written is read back, before the next pass begins (a loop
    /// of fio's); `null` is once, when all is written.
    #[serde(deserialize_with = "Option::deserialize")]
    pub pass_bytes: Option<u64>,
    /// Written operations after which they are read back at once, without waiting for the pass to end.
    #[serde(deserialize_with = "Option::deserialize")]
    pub backlog: Option<u32>,
    /// Operations read back in one go with a backlog; 0 is all of them.
    pub backlog_batch: u32,
    /// Nothing is written: what an earlier run with this plan wrote is read and compared (fio's `verify_only`).
    pub only: bool,
    /// Whether the first difference ends the worker (otherwise it ends it at the end, as failed).
    pub fatal: bool,
    /// Whether blocks that differ, and what they should be, are written into the current directory, as fio names them
    /// (`NAME.OFFSET.received`, `NAME.OFFSET.expected`).
    pub dump: bool,
    /// What was written is remembered in files that other workers and later runs go on with, and every read is compared
    /// with it (vdbench's data validation); `null` compares by what this worker alone knows.
    #[serde(deserialize_with = "Option::deserialize")]
    pub map: Option<VerifyMap>,
}

/// What was written is remembered in files. One operation at a time is at a place; others wait for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyMap {
    /// One for each of the worker's files; made where it is missing. Blocks bear the mark of its name.
    pub paths: Vec<String>,
    /// Whether a place is read and compared before it is written again.
    pub before_write: bool,
    /// Whether a place is read and compared as soon as it was written.
    pub after_write: bool,
    /// Whether the run that wrote the files may have ended in the middle: of a write that was under way, the one before
    /// is right, too.
    pub take_over: bool,
}

/// What proves a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifyMethod {
    /// The header alone.
    Header,
    /// Nothing: blocks are read back and not looked at.
    Null,
    /// The pattern alone, without a header.
    Pattern,
    /// The pattern after a header.
    PatternHeader,
    /// CRC-7.
    Crc7,
    /// CRC-16.
    Crc16,
    /// CRC-32 (IEEE).
    Crc32,
    /// CRC-32C (Castagnoli).
    Crc32c,
    /// CRC-64.
    Crc64,
    /// xxHash (32 bits).
    Xxhash,
    /// MD5.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
    /// SHA3-224.
    Sha3224,
    /// SHA3-256.
    Sha3256,
    /// SHA3-384.
    Sha3384,
    /// SHA3-512.
    Sha3512,
}
