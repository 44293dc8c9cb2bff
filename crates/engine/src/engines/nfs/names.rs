//! Calls on names: each is one call of its version, in flight with the others of a load, or waited for (`calls`).

use std::ops::Range;

use crate::tree::EntryKind;

/// Permissions of new files.
pub(super) const FILE_MODE: u32 = 0o644;
/// Permissions of new directories.
pub(super) const DIRECTORY_MODE: u32 = 0o755;
/// Files up to this size are read or written whole by one call.
pub(super) const WHOLE_BYTES_MAX: u32 = 32 << 10;
/// Bytes of one list of entries.
pub(super) const ENTRIES_BYTES: u32 = 32 << 10;
/// Bytes of one list with handles and attributes, outside a load.
pub(super) const LIST_BYTES: u32 = 256 << 10;

/// Position in the list of a directory; the default is its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cursor {
    pub cookie: u64,
    pub verifier: [u8; 8],
}

/// A call on a name, or on the object that a handle names.
#[derive(Debug, Clone, Default)]
pub(super) struct NamedCall<H> {
    pub procedure: Procedure,
    /// Directory of the name; the object itself if the name is empty.
    pub directory: H,
    pub name: Vec<u8>,
    /// Directory and name that a file is moved to.
    pub new_directory: H,
    pub new_name: Vec<u8>,
    /// Open file that is closed.
    pub file: u32,
    /// Bytes that are read or written, from the start of the file.
    pub length: u32,
    /// The file's new length.
    pub size: u64,
    /// The position at which a list of entries starts.
    pub cursor: Cursor,
}

/// The procedures of `NFSv3`, and what they are made of in other versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Procedure {
    /// Finds the handle of a name.
    #[default]
    LookUp,
    /// Creates a file or opens the one that exists.
    Create,
    /// Opens a file for reading and writing.
    Open,
    /// Opens a file that may not be written.
    OpenToRead,
    /// Closes an open file.
    Close,
    Getattr,
    /// Sets the times of access and modification to the server's time.
    Setattr,
    /// Checks whether the caller may read.
    Access,
    Remove,
    Rmdir,
    Mkdir,
    Rename,
    Link,
    /// Creates a symbolic link to the new name.
    Symlink,
    Readlink,
    /// Lists names.
    Readdir,
    /// Lists names with attributes.
    Readdirplus,
    /// Creates a file or empties the one that exists, without state of an open.
    CreateEmpty,
    /// Reads a whole file: `NFSv4.1` opens and closes it in the same call, if the call has a name.
    ReadWhole,
    /// Writes a whole file to stable storage: `NFSv4.1` creates or empties, opens and closes it in the same call, if the call
    /// has a name.
    WriteWhole,
    /// Finds the handle of a name, and [`Details`] of the object; without a name, those alone.
    Find,
    /// Creates a file that must not exist.
    CreateNew,
    SetSize,
    /// Lists names, each with [`Details`].
    ListNames,
    /// Lists entries with handles and attributes, as [`Details`].
    List,
}

impl Procedure {
    /// The server executes it once, and keeps the reply for a repetition. A reply with data is too long to be kept.
    pub(super) fn changes_names(self) -> bool {
        !matches!(
            self,
            Self::LookUp
                | Self::Getattr
                | Self::Access
                | Self::Readlink
                | Self::Readdir
                | Self::Readdirplus
                | Self::ReadWhole
                | Self::Find
                | Self::ListNames
                | Self::List
        )
    }
}

/// Result of a call that the server did not refuse.
#[derive(Debug, Clone, Default)]
pub(super) struct Named<H, S> {
    /// Handle of the object that the name has, if the server tells it.
    pub handle: Option<H>,
    /// State of an open.
    pub state: S,
    /// The object's size, if the reply has its attributes.
    pub size: Option<u64>,
    /// The caller may read.
    pub may_read: bool,
    /// Bytes that were read, as a part of the results, or written.
    pub moved: Range<usize>,
    /// A page of entries.
    pub listed: Option<ListedPage>,
    /// The status of a read or write in a call that has opened the file, which is still open.
    pub failed: Option<u32>,
    /// Requests of calls outside a load.
    pub details: Option<Box<Details<H>>>,
}

/// The part of a reply that only calls outside a load read.
#[derive(Debug, Clone)]
pub(super) enum Details<H> {
    Object { kind: EntryKind, bytes: u64, facts: Option<FileFacts> },
    Entries(Vec<Listed<H>>),
}

/// A file, a directory or something else that a name leads to.
#[derive(Debug, Clone)]
pub(super) struct Node<H> {
    pub handle: H,
    pub kind: EntryKind,
    pub bytes: u64,
    pub facts: Option<FileFacts>,
}

/// Facts about a file, by which it is known again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFacts {
    /// A regular file with one name.
    pub is_plain: bool,
    /// Length.
    pub bytes: u64,
    /// Number of the file in its file system.
    pub id: u64,
    /// Time of the last change of its data, since 1970.
    pub modified_ns: u64,
    /// User number, or the name that a server of `NFSv4.1` gives.
    pub owner: String,
}

/// An entry of a directory.
#[derive(Debug, Clone)]
pub(super) struct Listed<H> {
    pub name: Vec<u8>,
    /// `None` if the server left something out.
    pub node: Option<Node<H>>,
}

/// A page of a directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListedPage {
    /// Number of entries, without the directory itself and its parent.
    pub entries: u32,
    /// Position behind the last entry; `None` if there is none.
    pub last: Option<Cursor>,
    /// The directory ends here.
    pub is_end: bool,
}

impl ListedPage {
    /// A page of names and cookies.
    pub(super) fn of<'n>(
        entries: impl ExactSizeIterator<Item = (&'n [u8], u64)>,
        verifier: [u8; 8],
        is_end: bool,
    ) -> Self {
        let (mut page, mut last) = (Self { entries: 0, last: None, is_end }, None);
        for (name, cookie) in entries {
            page.entries += u32::from(name != b"." && name != b"..");
            last = Some(Cursor { cookie, verifier });
        }
        Self { last, ..page }
    }
}
