//! Differences found by verification, and their messages.

use std::fmt::{self, Display, Formatter};

use crate::plan::VerifyMethod;

/// Difference between an interval and what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The file ends inside the interval.
    Short {
        /// Bytes before the end of the file.
        bytes: usize,
    },
    /// The magic of a header is missing.
    Magic {
        /// Bytes found.
        got: [u8; 4],
        /// Bytes expected.
        wanted: [u8; 4],
    },
    /// The header is damaged.
    Header {
        /// Checksum of the header found.
        got: u32,
        /// Checksum that the header holds.
        wanted: u32,
    },
    /// The interval was written with another method.
    Method {
        /// Number of that method.
        got: u32,
        /// Number of the plan's method.
        wanted: u32,
    },
    /// The interval was written with another length.
    Length {
        /// Length in the header.
        got: u32,
        /// Length of the interval.
        wanted: u32,
    },
    /// The interval belongs to another file.
    File {
        /// Its offset in that file.
        offset: u64,
    },
    /// The interval belongs to another offset.
    Offset {
        /// Offset that it was written to.
        got: u64,
        /// Offset that it was read from.
        wanted: u64,
    },
    /// The interval belongs to another file, or elsewhere in the file.
    Place {
        /// Path of that file.
        path: String,
        /// Offset that it was written to.
        offset: u64,
    },
    /// The interval holds a write other than the newest.
    Sequence {
        /// Number of the write found.
        got: u64,
        /// Low bits of the number of the newest write.
        wanted: u32,
    },
    /// The checksum differs.
    Checksum {
        /// Method of the checksum.
        method: VerifyMethod,
        /// Checksum of the content found, in hexadecimal.
        got: String,
        /// Checksum in the header, in hexadecimal.
        wanted: String,
    },
    /// A byte differs from the pattern.
    Pattern {
        /// Offset in the interval.
        place: usize,
        /// Byte found.
        got: u8,
        /// Byte expected.
        wanted: u8,
    },
}

impl Display for Fault {
    fn fmt(&self, text: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { bytes } => write!(text, "the file ends after {bytes} bytes of it"),
            Self::Magic { got, wanted } => {
                let (got, wanted) = (hexadecimal(got), hexadecimal(wanted));
                write!(text, "it has no header: magic {got} instead of {wanted}; was it written with verification?")
            }
            Self::Header { got, wanted } => {
                write!(text, "its header is damaged: checksum {got:08x} instead of {wanted:08x}")
            }
            Self::Method { got, wanted } => {
                write!(text, "it was written with another verification method: number {got} instead of {wanted}")
            }
            Self::Length { got, wanted } => {
                write!(text, "it was written as {got} bytes instead of {wanted}; use the same block size or interval")
            }
            Self::File { offset } => write!(text, "it holds data of offset {offset} of another file"),
            Self::Place { path, offset } => write!(text, "it holds data of offset {offset} of {path}"),
            Self::Offset { got, wanted } => write!(text, "it holds data of offset {got} instead of {wanted}"),
            Self::Sequence { got, wanted } => {
                write!(text, "it holds write number {got} instead of the newest, {wanted}")
            }
            Self::Checksum { method, got, wanted } => {
                let method = format!("{method:?}").to_lowercase();
                write!(text, "{method} of its content is {got} instead of {wanted}")
            }
            Self::Pattern { place, got, wanted } => {
                write!(text, "byte {place} of it is {got:02x} instead of {wanted:02x}")
            }
        }
    }
}

/// Bytes in hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(b"0123456789abcdef"[digit as usize]))
        .collect()
}
