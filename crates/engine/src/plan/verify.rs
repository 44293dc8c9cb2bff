//! Verification of the data.

use serde::{Deserialize, Serialize};

/// Comparison of data that are read with what was written. Blocks carry a header with magic, length, offset, seed and
/// checksum, or hold a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "independent settings")]
pub struct Verify {
    /// Method of verification.
    pub method: VerifyMethod,
    /// Bytes with one header each, a divisor of all block sizes; 0 is the largest divisor.
    #[cfg_attr(test, schemars(default))]
    pub interval_bytes: u32,
    /// Offset of the header in an interval.
    #[cfg_attr(test, schemars(default))]
    pub header_offset: u32,
    /// For methods with a pattern; in hexadecimal, as in `PatternContent`.
    #[cfg_attr(test, schemars(regex(pattern = "^([0-9a-f]{2}|o{16})*$"), default))]
    pub pattern: String,
    /// Written data are read back and compared (fio's `do_verify`).
    #[cfg_attr(test, schemars(extend("default" = true)))]
    pub read_back: bool,
    /// Bytes issued, all kinds together, after which written data are read back before the next pass begins (a loop of
    /// fio's); `null` reads back once, at the end.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub pass_bytes: Option<u64>,
    /// Number of writes after which they are read back at once, without waiting for the end of the pass.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub backlog: Option<u32>,
    /// Writes of a backlog that are read back in one batch; 0 is all of them.
    #[cfg_attr(test, schemars(default))]
    pub backlog_batch: u32,
    /// Writes nothing: reads and compares what an earlier run with this plan wrote (fio's `verify_only`).
    #[cfg_attr(test, schemars(default))]
    pub only: bool,
    /// The first difference ends the worker at once; otherwise the worker fails at its end.
    #[cfg_attr(test, schemars(default))]
    pub fatal: bool,
    /// Blocks that differ, and the blocks expected, are dumped into the current directory under fio's names
    /// (`NAME.OFFSET.received`, `NAME.OFFSET.expected`).
    #[cfg_attr(test, schemars(default))]
    pub dump: bool,
    /// Files that remember what was written, for other workers and later runs; every read is compared (vdbench's
    /// data validation). `null` compares only what this worker knows.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub map: Option<VerifyMap>,
}

/// Files that remember what was written. Operations lock their range; others wait until it is unlocked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct VerifyMap {
    /// One map for each of the worker's files, created if missing. Blocks are marked with the map's name.
    pub paths: Vec<String>,
    /// A range is read and compared before it is written again.
    pub before_write: bool,
    /// A range is read and compared as soon as it was written.
    pub after_write: bool,
    /// The run that wrote the files may have been cut off: if a write was in flight, the block before it is accepted,
    /// too.
    pub take_over: bool,
    /// File that remembers which directories and files of a tree exist, created if missing; with `take_over` the tree is compared
    /// with it. `null` keeps that in memory.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub tree: Option<String>,
}

/// Method of verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum VerifyMethod {
    /// The header alone.
    Header,
    /// Nothing: blocks are read back and not compared.
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
