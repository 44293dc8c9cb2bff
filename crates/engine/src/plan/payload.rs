//! The data that are written.

use serde::{Deserialize, Serialize};

/// What is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Payload {
    /// What buffers hold.
    pub content: Content,
    /// What happens to a buffer before each write.
    pub renew: Renew,
    /// Per cent by which the content can be compressed; zeros (or the pattern) make up for it.
    pub compress_percent: u32,
    /// Bytes in which that share is kept; 0 is the whole block.
    pub compress_chunk_bytes: u32,
    /// Per cent of the blocks that have been written before.
    pub dedupe_percent: u32,
}

/// What buffers hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Content {
    /// Random bytes from the worker's seed.
    Random {},
    /// Zeros.
    Zero {},
    /// A pattern over and over, from the start of each buffer.
    Pattern {
        /// In hexadecimal, at least one byte; `%o` of fio (the offset, 8 bytes, little-endian) is written as `oooooooooooooooo`.
        bytes: String,
    },
    /// Bytes from a random place of a pool that is made once (DiskSpd's `-Z1M`): from a file, or random.
    Pool {
        /// Size of the pool.
        bytes: u64,
        /// File that fills the pool; `null` fills it by chance.
        #[serde(deserialize_with = "Option::deserialize")]
        path: Option<String>,
    },
}

/// What happens to a buffer before each write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Renew {
    /// Nothing: the same bytes again.
    Keep,
    /// A few bytes of each 512 change, so that no two blocks are the same (fio's `scramble_buffers`).
    Scramble,
    /// All bytes are new (fio's `refill_buffers`).
    Refill,
}
