//! The data that are written.

use serde::{Deserialize, Serialize};

/// Data that are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Payload {
    /// Content of the buffers.
    pub content: Content,
    /// Change of a buffer before each write.
    pub renew: Renew,
    /// Per cent by which the content can be compressed; that share is zeros (or the pattern).
    #[cfg_attr(test, schemars(range(max = 100), default))]
    pub compress_percent: u32,
    /// Bytes in which the compressible share is kept; 0 is the whole block.
    #[cfg_attr(test, schemars(default))]
    pub compress_chunk_bytes: u32,
    /// Per cent of the blocks that repeat an earlier block.
    #[cfg_attr(test, schemars(range(max = 100), default))]
    pub dedupe_percent: u32,
    /// Blocks that the repeated ones are drawn from (fio's `dedupe_mode=working_set`); 0 repeats the last block that is
    /// not a duplicate.
    #[cfg_attr(test, schemars(default))]
    pub dedupe_set_blocks: u64,
}

/// Content of the buffers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(extend("class" = "{}Content")))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Content {
    /// Random bytes from the worker's seed.
    Random {},
    /// Zeros.
    Zero {},
    /// A pattern, repeated from the start of each buffer.
    Pattern {
        /// Hexadecimal digits, at least one byte; `oooooooooooooooo` is the offset of the block (8 bytes, little-endian;
        /// fio's `%o`).
        #[cfg_attr(test, schemars(regex(pattern = "^([0-9a-f]{2}|o{16})+$")))]
        bytes: String,
    },
    /// Bytes from a random offset of a pool that is filled once (DiskSpd's `-Z1M`), from a file or at random.
    Pool {
        /// Size of the pool.
        bytes: u64,
        /// File that fills the pool; `null` fills it with random bytes.
        #[serde(deserialize_with = "Option::deserialize")]
        path: Option<String>,
    },
}

/// Change of a buffer before each write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Renew {
    /// The same bytes are written again.
    Keep,
    /// A few bytes of each 512 change, so that no two blocks are equal (fio's `scramble_buffers`).
    Scramble,
    /// All bytes are new (fio's `refill_buffers`).
    Refill,
}
