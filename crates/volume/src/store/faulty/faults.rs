//! Faults that a store injects on purpose, so that what should find them can be tried.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The faults that the stores of a volume inject.
#[derive(Debug, Clone, PartialEq)]
pub struct Faults {
    /// Kinds and rates; each kind at most once.
    pub rates: Vec<FaultRate>,
    /// Chooses the operations that are hit, with the name of the file and the order of the operations on it.
    pub seed: u64,
    /// A new file that gets a line of JSON for each injected fault ([`FaultRecord`]).
    pub log: Option<PathBuf>,
}

/// The rate of a kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRate {
    /// The kind.
    pub kind: FaultKind,
    /// Probability, above 0 and at most 1: of each operation, for [`FaultKind::FlipBit`] of each bit that is read.
    pub rate: f64,
}

/// A kind of fault. But for the two errors, operations are answered as if nothing had happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// A READ returns its data with one bit changed; what is stored is right.
    FlipBit,
    /// Only the first sectors of a WRITE of several sectors are stored.
    TornWrite,
    /// Nothing of a WRITE is stored. The file grows as if it were.
    LostWrite,
    /// A READ returns what was there before the newest WRITE; what is stored is right.
    StaleRead,
    /// A WRITE is stored at another offset of its file, and not at its own.
    MisdirectedWrite,
    /// A READ or WRITE fails with `NFS3ERR_IO`.
    Eio,
    /// A WRITE fails with `NFS3ERR_NOSPC`.
    Enospc,
    /// A new file is not under its name, but under that name with `.lost` behind it.
    LostCreate,
    /// A RENAME moves the file to another name of the directory: the new one with `.misdirected` behind it.
    MisdirectedRename,
    /// Attributes are those from before the newest WRITE that made the file longer.
    StaleAttributes,
}

/// Number of injected faults, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct FaultStats {
    /// READs with a changed bit count once for each bit.
    pub flip_bit: u64,
    /// WRITEs of which only the first sectors were stored.
    pub torn_write: u64,
    /// WRITEs of which nothing was stored.
    pub lost_write: u64,
    /// READs that returned older data.
    pub stale_read: u64,
    /// WRITEs stored at another offset.
    pub misdirected_write: u64,
    /// READs and WRITEs that failed with `NFS3ERR_IO`.
    pub eio: u64,
    /// WRITEs that failed with `NFS3ERR_NOSPC`.
    pub enospc: u64,
    /// New files that are not under their names.
    pub lost_create: u64,
    /// RENAMEs to another name.
    pub misdirected_rename: u64,
    /// Older attributes that were returned.
    pub stale_attributes: u64,
}

impl FaultStats {
    pub(crate) fn of(&mut self, kind: FaultKind) -> &mut u64 {
        match kind {
            FaultKind::FlipBit => &mut self.flip_bit,
            FaultKind::TornWrite => &mut self.torn_write,
            FaultKind::LostWrite => &mut self.lost_write,
            FaultKind::StaleRead => &mut self.stale_read,
            FaultKind::MisdirectedWrite => &mut self.misdirected_write,
            FaultKind::Eio => &mut self.eio,
            FaultKind::Enospc => &mut self.enospc,
            FaultKind::LostCreate => &mut self.lost_create,
            FaultKind::MisdirectedRename => &mut self.misdirected_rename,
            FaultKind::StaleAttributes => &mut self.stale_attributes,
        }
    }
}

/// An injected fault, as the log has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FaultRecord<'a> {
    /// The kind.
    pub fault: FaultKind,
    /// Path of the export.
    pub export: &'a str,
    /// Path of the file below the export, as clients have looked it up; its file number if none has.
    pub file: &'a str,
    /// `READ`, `WRITE`, `CREATE`, `RENAME` or `GETATTR`; offset and length are 0 for the last three.
    pub operation: &'a str,
    /// Offset of the bytes that are wrong (of a failed operation: of its range).
    pub offset: u64,
    /// Number of those bytes.
    pub length: u64,
    /// Number of the WRITE that belongs there, among all WRITEs of the file in their order; 0 if it was written before the volume
    /// was started, or never.
    pub write: u64,
    /// The same, counted among the WRITEs of this place.
    pub generation: u64,
    /// Number of the WRITE, among those of this place, that is read or stored in its stead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found_generation: Option<u64>,
    /// The bit that was changed: 0 is the lowest of its byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bit: Option<u8>,
    /// The offset at which the data were stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_at: Option<u64>,
}
