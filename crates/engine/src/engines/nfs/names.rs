//! Calls on names as part of a load: each is one call of its version, in flight with the others.

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
}

impl Procedure {
    /// The server executes it once, and keeps the reply for a repetition.
    pub(super) fn changes_names(self) -> bool {
        !matches!(self, Self::LookUp | Self::Getattr | Self::Access)
    }
}

/// Result of a call that the server did not refuse.
#[derive(Debug, Clone, Default)]
pub(super) struct Named<H, S> {
    /// Handle of the object that the name has, if the server tells it.
    pub handle: Option<H>,
    /// State of an open.
    pub state: S,
    /// The reply has the object's attributes.
    pub has_attributes: bool,
    /// The caller may read.
    pub may_read: bool,
}
