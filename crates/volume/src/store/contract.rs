//! The traits of every store ([`Store`], [`Upkeep`]), and the values that pass between stores and procedures.

use enum_dispatch::enum_dispatch;

use iocurve_meter::Nanos;
use iocurve_wire::nfs3::{
    cookieverf3, createhow3, fattr3, ftype3, nfs_fh3, nfsstat3, sattr3, sattrguard3, specdata3, stable_how, wcc_attr,
    wcc_data,
};

use super::access::Caller;
use super::budget::Budget;
use super::write_buffer::WriteBuffer;
use crate::reply::batch::Batch;

/// Most bytes of one READ or WRITE.
pub(crate) const TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// Most bytes of a listing.
pub(crate) const LISTING_BYTES_MAX: u32 = 64 << 10;

/// Largest file: 16 TiB, as cloud volumes have it.
pub(crate) const FILE_BYTES_MAX: u64 = 16 << 40;

/// Bytes that a name and its file count against a quota, beside the data.
pub(super) const NAME_BYTES: u64 = 1024;

/// Most directories of a path. RENAME looks at all directories above the new one while other names wait, and a directory is reached by its
/// path.
pub(super) const DEPTH_MAX: usize = 1024;

/// Most names of one file.
pub(crate) const LINKS_MAX: u32 = 32_000;

/// Keeps the files of one export. All methods may be called from several threads at once.
///
/// Permissions of the caller are evaluated here, under the lock under which the method does its work.
#[enum_dispatch]
pub(crate) trait Store {
    /// Handle of the topmost directory.
    fn root(&self) -> nfs_fh3;

    /// Attributes of a file.
    fn getattr(&self, file: &[u8]) -> Result<fattr3, nfsstat3>;

    /// Sets attributes, if `guard` is the file's ctime or `None`.
    fn setattr(&self, caller: &Caller, file: &[u8], new: &sattr3, guard: sattrguard3) -> Changed;

    /// The file of a name, and the attributes of the directory; knows `.` and `..`.
    fn lookup(&self, caller: &Caller, directory: &[u8], name: &[u8]) -> Result<(Named, fattr3), nfsstat3>;

    /// Target of a symbolic link.
    fn readlink(&self, link: &[u8]) -> Result<Vec<u8>, nfsstat3>;

    /// Appends data and their padding to `batch`; at most [`TRANSFER_BYTES_MAX`] bytes. An error appends nothing that stays.
    /// The caller holds an epoch guard until the batch is cleared.
    fn read(&self, caller: &Caller, file: &[u8], offset: u64, count: u32, batch: &mut Batch) -> Result<Read, nfsstat3>;

    /// Writes data that have been received elsewhere.
    fn write(
        &self,
        caller: &Caller,
        file: &[u8],
        offset: u64,
        data: &[u8],
        stable: stable_how,
    ) -> Result<Written, nfsstat3>;

    /// Checks that a large WRITE is allowed, and returns memory in which its data are to be received.
    fn begin_write(&self, caller: &Caller, file: &[u8], offset: u64, length: u32) -> Result<WriteBuffer, nfsstat3>;

    /// Makes the received data the file's.
    fn finish_write(&self, buffer: WriteBuffer, stable: stable_how) -> Result<Written, nfsstat3>;

    /// Puts data written before on stable storage.
    fn commit(&self, file: &[u8]) -> Result<Written, nfsstat3>;

    /// Counts the times that data could not be put on stable storage. Data that were written before, and not committed, may be lost each
    /// time: the write verifier must change with it.
    fn sync_failures(&self) -> u64;

    /// Creates a file, directory, link or special file with the owner and the attributes that the caller may give it.
    fn create(&self, caller: &Caller, directory: &[u8], name: &[u8], what: Creation<'_>) -> Changed<Named>;

    /// Removes a name.
    fn remove(&self, caller: &Caller, directory: &[u8], name: &[u8], what: Removal) -> Changed;

    /// Moves a name, over another one if it exists.
    fn rename(&self, caller: &Caller, from: (&[u8], &[u8]), to: (&[u8], &[u8])) -> Changed<(), (wcc_data, wcc_data)>;

    /// Gives a file one more name.
    fn link(&self, caller: &Caller, file: &[u8], directory: &[u8], name: &[u8]) -> Changed;

    /// Lists the names of a range: calls `visit` with each until it returns `false`, since it has no room for that name. The directory may be
    /// locked meanwhile: `visit` must not use the store.
    fn readdir(
        &self,
        caller: &Caller,
        directory: &[u8],
        range: Range,
        visit: &mut dyn FnMut(&Entry<'_>) -> bool,
    ) -> Result<Listed, nfsstat3>;

    /// Verifies cookies: it changes when cookies given out before have become meaningless.
    fn cookieverf(&self, directory: &[u8]) -> cookieverf3;

    /// Free and total space.
    fn space(&self) -> Space;

    /// The bytes that the store may keep.
    fn budget(&self) -> &Budget;
}

/// Work that a store leaves to the threads, to be done between calls. A store with nothing to tidy keeps these defaults.
#[enum_dispatch]
pub(crate) trait Upkeep {
    /// Notes that data which a READ has lent are being sent by reference: from now on a client may see this memory until it has been
    /// parted from its pages. The caller still holds the epoch guard under which the data were lent.
    fn sent_by_reference(&self, _data: *const u8, _length: usize) {}

    /// Frees memory of removed data that is no longer on its way to a client, and returns whether some is left to free.
    fn reclaim(&self) -> bool {
        false
    }

    /// Closes files that are open and not in use, and returns when to call it again.
    fn close_idle(&self, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// True if [`repair_huge_page`](Self::repair_huge_page) may have something to do.
    fn needs_repair(&self) -> bool {
        false
    }

    /// Rebuilds one split huge page (takes at most 1 ms), and returns whether the caller should go on with the next one at once.
    fn repair_huge_page(&self) -> bool {
        false
    }
}

/// Result of a READ whose data are in the batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Read {
    /// Attributes of the file.
    pub(crate) attributes: fattr3,
    /// Bytes of data.
    pub(crate) count: u32,
    /// The data reach the end of the file.
    pub(crate) eof: bool,
}

/// Result of a WRITE or COMMIT: the file before and after.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    pub(crate) before: wcc_attr,
    pub(crate) after: fattr3,
}

/// A file that was found or made under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) handle: nfs_fh3,
    pub(crate) attributes: fattr3,
}

/// Kind of file that a name to be removed must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// Any but a directory.
    File,
    /// A directory, which must be empty.
    Directory,
    /// Either.
    Any,
}

impl Removal {
    /// True if a file of this type is to be removed as a directory.
    pub(crate) fn is_directory(self, file_type: ftype3) -> bool {
        self == Self::Directory || self == Self::Any && file_type == ftype3::NF3DIR
    }
}

/// Kind and attributes of a new name.
#[derive(Debug, Clone)]
pub(crate) enum Creation<'a> {
    /// A regular file.
    File(createhow3),
    /// A directory.
    Directory(sattr3),
    /// A symbolic link to a target.
    Symlink(sattr3, &'a [u8]),
    /// A special file: its type and, for devices, the number.
    Special(sattr3, ftype3, specdata3),
}

impl Creation<'_> {
    /// With other attributes, which `change` makes of those that were asked for and the type.
    pub(crate) fn with_attributes(self, change: impl Fn(ftype3, &sattr3) -> sattr3) -> Self {
        match self {
            Self::File(createhow3::UNCHECKED(new)) => Self::File(createhow3::UNCHECKED(change(ftype3::NF3REG, &new))),
            Self::File(createhow3::GUARDED(new)) => Self::File(createhow3::GUARDED(change(ftype3::NF3REG, &new))),
            Self::File(createhow3::EXCLUSIVE(_)) => self,
            Self::Directory(new) => Self::Directory(change(ftype3::NF3DIR, &new)),
            Self::Symlink(new, target) => Self::Symlink(change(ftype3::NF3LNK, &new), target),
            Self::Special(new, file_type, spec) => Self::Special(change(file_type, &new), file_type, spec),
        }
    }
}

/// Answer of a method that changes names or attributes.
#[derive(Debug)]
pub(crate) struct Changed<T = (), W = wcc_data> {
    pub(crate) result: Result<T, nfsstat3>,
    /// The directory before and after (of `setattr` the file, of `rename` both directories); also when the method has failed, as far as
    /// they are known.
    pub(crate) wcc: W,
}

impl<T, W: Default> Changed<T, W> {
    /// The answer if nothing is known of the directory.
    pub(super) fn refused(status: nfsstat3) -> Self {
        Self { result: Err(status), wcc: W::default() }
    }
}

/// The part of a directory that is listed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    /// The names behind the entry with this cookie; 0: all.
    pub(crate) after: u64,
    /// With the attributes of the files.
    pub(crate) with_attributes: bool,
}

/// A name in a directory, as it is listed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'n> {
    pub(crate) fileid: u64,
    pub(crate) name: &'n [u8],
    /// Names the place behind this entry, where the next listing continues; never 0.
    pub(crate) cookie: u64,
    /// Handle, unless the file has just been removed.
    pub(crate) handle: Option<nfs_fh3>,
    /// If the range says so, and the file has not just been removed.
    pub(crate) attributes: Option<fattr3>,
}

/// End of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Attributes of the directory.
    pub(crate) directory: fattr3,
    /// No name follows those that were visited.
    pub(crate) end: bool,
}

/// Total and free space of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Space {
    pub(crate) bytes_total: u64,
    pub(crate) bytes_free: u64,
    pub(crate) files_total: u64,
    pub(crate) files_free: u64,
}

/// Returns the end of a transfer, unless that is beyond [`FILE_BYTES_MAX`]. One of no bytes ends at 0: it reaches nothing
/// and makes no file longer.
pub(super) fn check_end(offset: u64, length: u64) -> Result<u64, nfsstat3> {
    let end = offset.checked_add(length).filter(|end| *end <= FILE_BYTES_MAX).ok_or(nfsstat3::NFS3ERR_FBIG)?;
    Ok(if length == 0 { 0 } else { end })
}
