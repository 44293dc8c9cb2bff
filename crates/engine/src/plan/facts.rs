//! Values derived from a plan, each computed in one place.

use super::{
    Blocks, EnginePlan, FilePlan, Layout, NfsMount, OperationKind, Position, TreeTask, Verify, VerifyMap, Worker,
};

impl Worker {
    /// Returns `true` if the mix has operations of this kind.
    pub(crate) fn does(&self, kind: OperationKind) -> bool {
        self.operations.iter().any(|operation| operation.kind == kind)
    }

    pub(crate) fn writes(&self) -> bool {
        self.does(OperationKind::Write) || self.does(OperationKind::WriteFile)
    }

    /// Returns `true` if files must be open for writing; a trim changes them, too.
    pub(crate) fn changes_files(&self) -> bool {
        self.writes() || self.does(OperationKind::Trim)
    }

    /// Bytes of the largest operation, which a buffer must hold.
    pub(crate) fn block_bytes_max(&self) -> u32 {
        self.operations.iter().map(|operation| operation.blocks.largest()).max().unwrap_or(0)
    }

    /// Bytes of the largest write; `None` if the worker does not write.
    pub(crate) fn write_bytes_max(&self) -> Option<u32> {
        let writes = |kind| matches!(kind, OperationKind::Write | OperationKind::WriteFile);
        let writes = self.operations.iter().filter(|operation| writes(operation.kind));
        writes.map(|operation| operation.blocks.largest()).max()
    }

    /// The kinds that records of this worker can have: the kinds of its mix, then each kind of flush after writes, then
    /// the flush at the end, then reads if only verification reads.
    pub(crate) fn recorded_kinds(&self) -> Vec<OperationKind> {
        let mix = self.operations.iter().map(|operation| operation.kind);
        let at_end = self.sync_at_end.then_some(OperationKind::FsyncAtEnd);
        let flushes = self.syncs.iter().map(|sync| sync.kind).chain(at_end);
        mix.chain(flushes).chain(self.verification_adds_reads().then_some(OperationKind::Read)).collect()
    }

    /// Returns `true` if only verification submits reads, so that they need a record.
    pub(crate) fn verification_adds_reads(&self) -> bool {
        let reads_around_writes = |map: &VerifyMap| map.before_write || map.after_write;
        let reads = |verify: &Verify| verify.read_back || verify.map.as_ref().is_some_and(reads_around_writes);
        !self.does(OperationKind::Read) && self.writes() && self.verify.as_ref().is_some_and(reads)
    }
}

impl TreeTask {
    /// The kinds of operation that a task needs in any case; transfers also need a read or a write.
    pub(crate) fn kinds(self) -> &'static [OperationKind] {
        use OperationKind as Kind;
        match self {
            Self::Remove => &[Kind::Delete, Kind::Rmdir],
            Self::MakeDirectories | Self::Mkdir => &[Kind::Mkdir],
            Self::Fill => &[Kind::Create, Kind::Open, Kind::Write, Kind::Close],
            Self::Transfer => &[Kind::Create, Kind::Open, Kind::Close],
            Self::Create => &[Kind::Create, Kind::Close],
            Self::Open => &[Kind::Open, Kind::Close],
            Self::Getattr => &[Kind::Getattr],
            Self::Setattr => &[Kind::Setattr],
            Self::Access => &[Kind::Access],
            Self::Delete => &[Kind::Delete],
            Self::Rmdir => &[Kind::Rmdir],
            Self::Lookup => &[Kind::Lookup],
            Self::Link => &[Kind::Link],
            Self::Symlink => &[Kind::Symlink],
            Self::Readlink => &[Kind::Readlink],
            Self::Readdir => &[Kind::Readdir],
            Self::Readdirplus => &[Kind::Readdirplus],
            Self::Rename => &[Kind::Rename],
            Self::Copy => &[Kind::Copy],
            Self::ReadFile => &[Kind::ReadFile],
            Self::WriteFile => &[Kind::WriteFile],
            Self::Mix => &[],
        }
    }
}

impl EnginePlan {
    /// The NFS mount that the files are on; `None` for local files.
    pub(crate) fn mount(&self) -> Option<&NfsMount> {
        match self {
            Self::Nfs { mount } | Self::NfsMetadata { mount, .. } => Some(mount),
            _ => None,
        }
    }

    /// Reads go through the page cache, and each pass over a file starts without its pages.
    pub(crate) fn drops_cached_pages(&self) -> bool {
        match self {
            Self::Sync { open } | Self::Aio { open } | Self::Uring { open } | Self::Mmap { open } => {
                open.invalidate && !open.direct
            }
            _ => false,
        }
    }
}

impl Blocks {
    pub(crate) fn smallest(&self) -> u32 {
        match self {
            Self::Fixed { bytes } => *bytes,
            Self::Range { low, .. } => *low,
            Self::Split { parts } => parts.iter().map(|part| part.bytes).min().unwrap_or(0),
        }
    }

    /// Mean size, rounded down.
    pub(crate) fn mean(&self) -> u32 {
        match self {
            Self::Fixed { bytes } => *bytes,
            Self::Range { low, high, .. } => low.midpoint(*high),
            Self::Split { parts } => {
                let (bytes, weights) = parts.iter().fold((0, 0), |(bytes, weights), part| {
                    let weight = u64::from(part.weight);
                    (bytes + weight * u64::from(part.bytes), weights + weight)
                });
                (bytes / weights.max(1)) as u32
            }
        }
    }

    pub(crate) fn largest(&self) -> u32 {
        match self {
            Self::Fixed { bytes } => *bytes,
            Self::Range { high, .. } => *high,
            Self::Split { parts } => parts.iter().map(|part| part.bytes).max().unwrap_or(0),
        }
    }
}

impl Position {
    /// Returns `true` if each kind of operation of a worker has its own position.
    pub(crate) fn is_of_kind(self) -> bool {
        matches!(self, Self::Kind | Self::Repeated)
    }
}

impl FilePlan {
    /// Length that the file must have before the run.
    pub(crate) fn needed_end(&self) -> u64 {
        if matches!(self.layout, Layout::Create | Layout::Directory | Layout::Nothing) {
            0
        } else {
            self.offset_bytes.saturating_add(self.bytes)
        }
    }
}

impl Layout {
    /// Returns `true` if the content of an existing file is lost.
    pub(crate) fn empties(self) -> bool {
        matches!(self, Self::Recreate | Self::RecreateReserve)
    }

    /// Returns `true` if bytes are written before the run.
    pub(crate) fn writes(self) -> bool {
        match self {
            Self::Fill | Self::New | Self::Recreate => true,
            Self::Existing | Self::Create | Self::Reserve | Self::RecreateReserve | Self::Directory | Self::Nothing => {
                false
            }
        }
    }

    /// Combines two uses of one file. The file is emptied if one use asks for that, and written if one use needs data;
    /// a use that requires a new file takes precedence.
    pub(crate) fn stronger(self, other: Self) -> Self {
        match (self, other) {
            (Self::RecreateReserve, Self::Fill) | (Self::Fill, Self::RecreateReserve) => Self::Recreate,
            _ if self.strength() >= other.strength() => self,
            _ => other,
        }
    }

    fn strength(self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Existing => 1,
            Self::Create => 2,
            Self::Reserve => 3,
            Self::RecreateReserve => 4,
            Self::Fill => 5,
            Self::Recreate => 6,
            Self::New => 7,
            Self::Directory => 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_that_says_less_does_not_undo_one_that_says_more() {
        assert_eq!(Layout::Nothing.stronger(Layout::Existing), Layout::Existing);
        assert_eq!(Layout::Existing.stronger(Layout::Reserve), Layout::Reserve);
        assert_eq!(Layout::Fill.stronger(Layout::Reserve), Layout::Fill);
        assert_eq!(Layout::Fill.stronger(Layout::New), Layout::New);
        assert_eq!(Layout::Create.stronger(Layout::Existing), Layout::Create);
        assert_eq!(Layout::Create.stronger(Layout::Recreate), Layout::Recreate);
        assert_eq!(Layout::Recreate.stronger(Layout::New), Layout::New);
        assert_eq!(Layout::Reserve.stronger(Layout::RecreateReserve), Layout::RecreateReserve);
        assert_eq!(Layout::Fill.stronger(Layout::RecreateReserve), Layout::Recreate);
        assert_eq!(Layout::RecreateReserve.stronger(Layout::Fill), Layout::Recreate);
    }
}
