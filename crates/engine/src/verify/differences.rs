//! The differences that were found: what each looks like, and whether a second read is the same.

use crate::engines::request::Address;
use crate::error::Fault;
use crate::outcome::{DifferenceKind, DifferenceOutcome};

/// Most differences that are described one by one; all are counted.
const DIFFERENCES_MAX: usize = 1000;
/// Unit in which storage writes: a torn write ends between two of them.
const SECTOR_BYTES: usize = 512;
/// Most bits that differ in data whose bits were flipped one by one.
const FLIPPED_BITS_MAX: u32 = 8;

/// The differences of one worker, in the order in which they were found.
#[derive(Debug, Default)]
pub(super) struct Differences {
    list: Vec<Difference>,
    count: u64,
}

/// An interval that does not hold what was written.
#[derive(Debug)]
pub(super) struct Difference {
    pub place: Address,
    pub fault: Fault,
    pub nature: Nature,
    /// Number of the write found there.
    pub found_write: Option<u64>,
    /// Number of the write that belongs there.
    pub expected_write: Option<u64>,
    /// A second read finds a difference, too; `None` if there was none.
    pub persists: Option<bool>,
}

/// The form of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nature {
    /// Single bits differ, the first of them in this byte.
    FlippedBits { count: u32, byte: usize, bit: u8 },
    /// The data are right up to this byte, where a sector begins, and no later sector is.
    Torn { byte: usize },
    /// An older write, or data without a header: what was there before.
    Older { is_zero: bool },
    /// Data of another place.
    Misplaced,
    /// Anything else.
    Other,
}

impl Differences {
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn is_full(&self) -> bool {
        self.list.len() == DIFFERENCES_MAX
    }

    pub(super) fn first(&self) -> Option<&Difference> {
        self.list.first()
    }

    pub(super) fn add(&mut self, difference: Difference) {
        self.count += 1;
        if !self.is_full() {
            self.list.push(difference);
        }
    }

    /// Records that a second read of a place was the same or right. Returns `false` if the first read was right.
    pub(super) fn settle(&mut self, place: Address, persists: bool) -> bool {
        let at = |found: &&mut Difference| found.persists.is_none() && found.place == place;
        match self.list.iter_mut().find(at) {
            Some(found) => {
                found.persists = Some(persists);
                true
            }
            None => false,
        }
    }

    /// `file_at` gives the path of a place, and the offset in the file.
    pub(super) fn outcomes(&self, file_at: impl Fn(Address) -> (String, u64)) -> Vec<DifferenceOutcome> {
        self.list.iter().map(|difference| difference.outcome(file_at(difference.place))).collect()
    }
}

impl Difference {
    /// The message, without the place.
    pub(super) fn text(&self) -> String {
        let looks = match self.nature {
            Nature::FlippedBits { count: 1, byte, bit } => format!("; only bit {bit} of byte {byte} differs"),
            Nature::FlippedBits { count, byte, bit } => {
                format!("; only {count} bits differ, the first is bit {bit} of byte {byte}")
            }
            Nature::Torn { byte } => format!("; its first {byte} bytes are right: the write was torn"),
            Nature::Older { is_zero: true } => "; it is all zeros".to_owned(),
            _ => String::new(),
        };
        let is_said = matches!(self.fault, Fault::Sequence { .. });
        let expected = self.expected_write.filter(|_| !is_said);
        let expected = expected.map_or_else(String::new, |write| format!("; it should hold write number {write}"));
        format!("{}{looks}{expected}{}", self.fault, self.second_read())
    }

    fn second_read(&self) -> &'static str {
        match (self.persists, self.nature) {
            (None, _) => "",
            (Some(true), Nature::Older { .. }) if self.expected_write.is_some() => {
                "; a second read is the same: the write was lost"
            }
            (Some(false), Nature::Older { .. }) => "; a second read is right: the first was stale",
            (Some(true), _) => "; a second read is the same",
            (Some(false), _) => "; a second read is right",
        }
    }

    fn kind(&self) -> DifferenceKind {
        match (self.nature, self.persists) {
            (Nature::FlippedBits { .. }, _) => DifferenceKind::FlippedBits,
            (Nature::Torn { .. }, _) => DifferenceKind::TornWrite,
            (Nature::Older { .. }, Some(true)) if self.expected_write.is_some() => DifferenceKind::LostWrite,
            (Nature::Older { .. }, Some(false)) => DifferenceKind::StaleRead,
            (Nature::Older { .. }, _) => DifferenceKind::OlderData,
            (Nature::Misplaced, _) => DifferenceKind::MisdirectedWrite,
            (Nature::Other, _) => DifferenceKind::Damaged,
        }
    }

    fn outcome(&self, (path, offset): (String, u64)) -> DifferenceOutcome {
        let length = self.place.length;
        let byte = match self.nature {
            Nature::FlippedBits { byte, .. } | Nature::Torn { byte } => byte,
            _ => 0,
        };
        DifferenceOutcome {
            path,
            offset,
            length,
            first_offset: offset + byte as u64,
            kind: self.kind(),
            found_write: self.found_write,
            expected_write: self.expected_write,
            persists: self.persists,
            text: self.text(),
        }
    }
}

impl Nature {
    /// From the fault, and from the content that was expected, if it is known.
    pub(super) fn of(fault: &Fault, interval: &[u8], expected: Option<&[u8]>) -> Self {
        match fault {
            Fault::Offset { .. } | Fault::File { .. } | Fault::Place { .. } => Self::Misplaced,
            Fault::Sequence { .. } => Self::Older { is_zero: false },
            _ if interval.iter().all(|byte| *byte == 0) && !interval.is_empty() => Self::Older { is_zero: true },
            Fault::Magic { .. } => Self::Older { is_zero: false },
            _ => expected.map_or(Self::Other, |expected| Self::between(interval, expected)),
        }
    }

    fn between(interval: &[u8], expected: &[u8]) -> Self {
        let bits = interval.iter().zip(expected).map(|(is, right)| (is ^ right).count_ones()).sum();
        let Some(byte) = interval.iter().zip(expected).position(|(is, right)| is != right) else { return Self::Other };
        if bits <= FLIPPED_BITS_MAX {
            let bit = (interval[byte] ^ expected[byte]).trailing_zeros() as u8;
            return Self::FlippedBits { count: bits, byte, bit };
        }
        let seam = byte - byte % SECTOR_BYTES;
        let mut later = interval[seam..].chunks(SECTOR_BYTES).zip(expected[seam..].chunks(SECTOR_BYTES));
        if seam > 0 && later.all(|(is, right)| is != right) { Self::Torn { byte: seam } } else { Self::Other }
    }
}
