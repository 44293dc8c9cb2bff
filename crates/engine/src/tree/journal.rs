//! The journal of a tree: its directories and files, as they exist, in memory or in a file that survives the process.
//!
//! A journal has a word for each directory and each file, as the state has them. A later run reads from it which entries existed
//! when the process ended, and on which of them an operation was.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::Shape;
use crate::error::EngineError;
use crate::mapped::{HEADER_BYTES, MappedFile};

const MAGIC: [u8; 8] = *b"ioCtree\n";
/// Bytes before the words: the first says that all of them were written once.
const STATE_BYTES: usize = 8;

/// The words of directories and files.
#[derive(Debug)]
pub(super) enum Entries {
    InMemory { directories: Vec<AtomicU32>, files: Vec<AtomicU64> },
    Journal(Journal),
}

#[derive(Debug)]
pub(super) struct Journal {
    file: MappedFile,
    directories: usize,
    files: usize,
}

impl Entries {
    pub(super) fn new(shape: &Shape) -> Self {
        Self::InMemory {
            directories: (0..shape.directories()).map(|_| AtomicU32::new(0)).collect(),
            files: (0..shape.files()).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub(super) fn directories(&self) -> &[AtomicU32] {
        match self {
            Self::InMemory { directories, .. } => directories,
            Self::Journal(journal) => journal.file.words32(STATE_BYTES, journal.directories),
        }
    }

    pub(super) fn files(&self) -> &[AtomicU64] {
        match self {
            Self::InMemory { files, .. } => files,
            Self::Journal(journal) => {
                journal.file.words64(STATE_BYTES + files_offset(journal.directories), journal.files)
            }
        }
    }

    /// Returns `true` if a run has written what exists.
    pub(super) fn is_complete(&self) -> bool {
        match self {
            Self::InMemory { .. } => true,
            Self::Journal(journal) => journal.file.words32(0, 1)[0].load(Ordering::Acquire) != 0,
        }
    }

    /// Takes over what exists. Whenever the process ends, each word is that of one of the two.
    pub(super) fn take_over(&self, exists: &Self) {
        for (word, new) in self.directories().iter().zip(exists.directories()) {
            word.store(new.load(Ordering::Acquire), Ordering::Release);
        }
        for (word, new) in self.files().iter().zip(exists.files()) {
            word.store(new.load(Ordering::Acquire), Ordering::Release);
        }
        if let Self::Journal(journal) = self {
            journal.file.words32(0, 1)[0].store(1, Ordering::Release);
        }
    }
}

impl Journal {
    /// Opens the journal of a tree, and creates it if it is missing.
    pub(super) fn open(path: &str, shape: &Shape) -> Result<Self, EngineError> {
        let (directories, files) = (shape.directories() as usize, shape.files() as usize);
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&shape.checksum().to_le_bytes());
        let words = STATE_BYTES + files_offset(directories) + 8 * files;
        let other = "a tree of other directories, files or sizes";
        let file = MappedFile::open(path, &header, words as u64, "journal of a tree", other)?;
        Ok(Self { file, directories, files })
    }
}

/// Bytes of the words of directories: those of files start at a multiple of eight.
fn files_offset(directories: usize) -> usize {
    (4 * directories).next_multiple_of(8)
}
