//! What is wrong with a block, in words.

use std::fmt::{self, Display, Formatter};

use crate::plan::VerifyMethod;

/// How an interval differs from what it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The file ended in it.
    Short {
        /// Bytes that there were.
        bytes: usize,
    },
    /// It does not begin as a header does.
    Magic {
        /// What is there instead.
        got: [u8; 4],
        /// What should be.
        wanted: [u8; 4],
    },
    /// Its header was damaged.
    Header {
        /// Checksum of the header as it is.
        got: u32,
        /// As it was written.
        wanted: u32,
    },
    /// Written with another method.
    Method {
        /// Which, as a number of our own.
        got: u32,
        /// What the plan says.
        wanted: u32,
    },
    /// Written with another length.
    Length {
        /// As its header says.
        got: u32,
        /// As the plan says.
        wanted: u32,
    },
    /// It belongs to another file.
    File {
        /// Where in that file.
        offset: u64,
    },
    /// It belongs elsewhere.
    Offset {
        /// Where it was written to.
        got: u64,
        /// Where it was found.
        wanted: u64,
    },
    /// A write before or after the newest one.
    Sequence {
        /// Number of the write that is there.
        got: u64,
        /// The low bits of the newest one's number.
        wanted: u32,
    },
    /// Its content is not what was written.
    Checksum {
        /// How it was proved.
        method: VerifyMethod,
        /// Of what is there, in hexadecimal.
        got: String,
        /// As its header says, in hexadecimal.
        wanted: String,
    },
    /// A byte is not the pattern's.
    Pattern {
        /// Where in the interval.
        place: usize,
        /// What is there.
        got: u8,
        /// What should be.
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
                write!(text, "it was written with another method: number {got} instead of {wanted}")
            }
            Self::Length { got, wanted } => {
                write!(text, "it was written as {got} bytes instead of {wanted}; use the same block size or interval")
            }
            Self::File { offset } => write!(text, "it holds what belongs to offset {offset} of another file"),
            Self::Offset { got, wanted } => write!(text, "it holds what belongs to offset {got} instead of {wanted}"),
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

/// Bytes as people write them.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(b"0123456789abcdef"[digit as usize]))
        .collect()
}
