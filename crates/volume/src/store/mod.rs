//! Where the files are. A store knows files, names and attributes; it knows nothing of RPC, connections or limits.

pub mod access;
pub mod arena;
pub mod directory;
pub mod exports;
pub mod memory;

use std::time::{SystemTime, UNIX_EPOCH};

use libc::iovec;

use iocurve_wire::nfs3::{
    cookieverf3, createhow3, fattr3, nfs_fh3, nfsstat3, nfstime3, sattr3, sattrguard3, specdata3, stable_how, wcc_attr,
    wcc_data,
};
use iocurve_wire::rpc::AUTH_SYS_GIDS_MAX;

use crate::reply::batch::Batch;
use arena::OwnedChunk;
use memory::Budget;

/// Most bytes of one READ or WRITE.
pub const TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// Largest file: 16 TiB, as cloud volumes have it.
pub const FILE_BYTES_MAX: u64 = 16 << 40;

/// Longest name in a directory.
pub const NAME_BYTES_MAX: usize = 255;

/// Longest target of a symbolic link.
pub const SYMLINK_BYTES_MAX: usize = 4095;

/// Who calls, as the caller states it (`AUTH_SYS`); new files belong to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Other groups; those behind the last one repeat `gid`.
    groups: [u32; AUTH_SYS_GIDS_MAX],
}

impl Caller {
    /// A caller with no other groups.
    pub const fn new(uid: u32, gid: u32) -> Self {
        Self { uid, gid, groups: [gid; AUTH_SYS_GIDS_MAX] }
    }

    /// The same with other groups, of which [`AUTH_SYS_GIDS_MAX`] count.
    #[must_use]
    pub fn with_groups(mut self, groups: &[u32]) -> Self {
        self.groups.iter_mut().zip(groups).for_each(|(own, group)| *own = *group);
        self
    }

    /// Whether nothing is forbidden to the caller.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Whether the caller is in a group; root is in every one.
    pub fn is_in(&self, gid: u32) -> bool {
        self.is_root() || self.gid == gid || self.groups.contains(&gid)
    }
}

/// A READ that was put into the batch.
#[derive(Debug, Clone, Copy)]
pub struct Read {
    /// The file.
    pub attributes: fattr3,
    /// Bytes of data.
    pub count: u32,
    /// Whether they reach the end of the file.
    pub eof: bool,
}

/// A WRITE or COMMIT that was carried out.
#[derive(Debug, Clone, Copy)]
pub struct Written {
    /// The file before.
    pub before: wcc_attr,
    /// The file after.
    pub after: fattr3,
}

/// What a new name stands for.
#[derive(Debug, Clone, Copy)]
pub enum Creation<'a> {
    /// A regular file.
    File(&'a createhow3),
    /// A directory.
    Directory(&'a sattr3),
    /// A symbolic link to a target.
    Symlink(&'a sattr3, &'a [u8]),
    /// A special file: its type and, for devices, the number.
    Special(&'a sattr3, iocurve_wire::nfs3::ftype3, specdata3),
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Number of the file.
    pub fileid: u64,
    /// Name.
    pub name: Vec<u8>,
    /// Where the next listing goes on after this name; never 0.
    pub cookie: u64,
    /// Handle, unless the file has just gone.
    pub handle: Option<nfs_fh3>,
}

/// A part of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Names in the order of their cookies.
    pub entries: Vec<Entry>,
    /// Whether nothing follows.
    pub end: bool,
}

/// How full a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Size, in bytes.
    pub bytes_total: u64,
    /// Of these, free.
    pub bytes_free: u64,
    /// Files there can be.
    pub files_total: u64,
    /// Files that can still be made.
    pub files_free: u64,
}

/// Keeps files. All methods may be called from several threads at once.
///
/// `wcc` arguments are filled in also when the method fails, as far as the directory is known. READs and WRITEs are checked against
/// the mode of their file here, where it is at hand; all other permissions are checked before a store is asked.
pub trait Store: Send + Sync + 'static {
    /// Handle of the topmost directory of an export, counted from 0.
    fn root(&self, export: usize) -> nfs_fh3;

    /// Which export a handle belongs to; any one if it belongs to none.
    fn export_of(&self, _file: &[u8]) -> usize {
        0
    }

    /// Attributes of a file.
    fn getattr(&self, file: &[u8]) -> Result<fattr3, nfsstat3>;

    /// Sets attributes, if `guard` is the file's ctime or `None`.
    fn setattr(&self, file: &[u8], new: &sattr3, guard: sattrguard3, wcc: &mut wcc_data) -> Result<(), nfsstat3>;

    /// Handle of a name; knows `.` and `..`.
    fn lookup(&self, directory: &[u8], name: &[u8]) -> Result<nfs_fh3, nfsstat3>;

    /// Target of a symbolic link.
    fn readlink(&self, link: &[u8]) -> Result<Vec<u8>, nfsstat3>;

    /// Appends data and their padding to `batch`; at most [`TRANSFER_BYTES_MAX`] bytes. An error appends nothing that stays.
    /// An epoch guard is held until the batch is cleared.
    fn read(&self, by: &Caller, file: &[u8], offset: u64, count: u32, batch: &mut Batch) -> Result<Read, nfsstat3>;

    /// Notes that data which a READ has lent are sent by reference: from now on, until their memory has been parted from its pages,
    /// a client may see them. The caller still holds the epoch guard.
    fn referred(&self, _data: *const u8, _length: usize) {}

    /// Writes data.
    fn write(
        &self,
        by: &Caller,
        file: &[u8],
        offset: u64,
        data: &[u8],
        stable: stable_how,
    ) -> Result<Written, nfsstat3>;

    /// Memory for the data of a large WRITE, so that they are received where they are kept.
    fn land(&self, by: &Caller, file: &[u8], offset: u64, length: u32) -> Result<Landing, nfsstat3>;

    /// Makes landed data the file's. Whether they may be was checked when they began to arrive.
    fn landed(&self, landing: Landing, stable: stable_how) -> Result<Written, nfsstat3>;

    /// Puts what was written before on stable storage.
    fn commit(&self, file: &[u8]) -> Result<Written, nfsstat3>;

    /// Makes a file, directory, link or special file.
    fn create(
        &self,
        directory: &[u8],
        name: &[u8],
        what: Creation<'_>,
        caller: Caller,
        wcc: &mut wcc_data,
    ) -> Result<nfs_fh3, nfsstat3>;

    /// Removes a name that is no directory.
    fn remove(&self, directory: &[u8], name: &[u8], wcc: &mut wcc_data) -> Result<(), nfsstat3>;

    /// Removes an empty directory.
    fn rmdir(&self, directory: &[u8], name: &[u8], wcc: &mut wcc_data) -> Result<(), nfsstat3>;

    /// Moves a name, over another one if it exists. `wcc` are those of the two directories.
    fn rename(
        &self,
        from: (&[u8], &[u8]),
        to: (&[u8], &[u8]),
        wcc: (&mut wcc_data, &mut wcc_data),
    ) -> Result<(), nfsstat3>;

    /// Gives a file one more name.
    fn link(&self, file: &[u8], directory: &[u8], name: &[u8], wcc: &mut wcc_data) -> Result<(), nfsstat3>;

    /// At most `limit` names after `cookie` (0: from the start).
    fn readdir(&self, directory: &[u8], cookie: u64, limit: usize) -> Result<Listing, nfsstat3>;

    /// Changes when cookies given out before mean nothing any more.
    fn cookieverf(&self, directory: &[u8]) -> cookieverf3;

    /// How full the file's export is.
    fn space(&self, file: &[u8]) -> Space;

    /// The bytes that an export may keep.
    fn budget(&self, export: usize) -> &Budget;

    /// Gives back memory of removed data that is on no way to a client any more, and says whether some is left to give back.
    fn reclaim(&self) -> bool {
        false
    }

    /// Whether there is something to mend as soon as nobody needs the thread.
    fn is_worn(&self) -> bool {
        false
    }

    /// Mends something that has become slow, within a millisecond, and says whether it should go on with that at once.
    fn mend(&self) -> bool {
        false
    }
}

/// Checks a name that is to be made or removed.
pub(crate) fn check_name(name: &[u8]) -> Result<(), nfsstat3> {
    match name {
        [] => Err(nfsstat3::NFS3ERR_ACCES),
        name if name.len() > NAME_BYTES_MAX => Err(nfsstat3::NFS3ERR_NAMETOOLONG),
        name if name.iter().any(|byte| matches!(byte, b'/' | 0)) => Err(nfsstat3::NFS3ERR_ACCES),
        _ => Ok(()),
    }
}

/// Checks the end of a transfer.
pub(crate) fn check_end(offset: u64, length: u64) -> Result<u64, nfsstat3> {
    offset.checked_add(length).filter(|end| *end <= FILE_BYTES_MAX).ok_or(nfsstat3::NFS3ERR_FBIG)
}

/// A device number as one number.
pub(crate) fn attribute_fsid(major: u32, minor: u32) -> u64 {
    u64::from(major) << 32 | u64::from(minor)
}

/// Nanoseconds since 1970.
pub(crate) fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Nanoseconds since 1970 as the protocol has them.
#[inline]
pub(crate) fn to_nfstime(ns: u64) -> nfstime3 {
    nfstime3 { seconds: (ns / 1_000_000_000) as u32, nseconds: (ns % 1_000_000_000) as u32 }
}

/// The protocol's time as nanoseconds since 1970.
pub(crate) fn from_nfstime(time: nfstime3) -> u64 {
    u64::from(time.seconds) * 1_000_000_000 + u64::from(time.nseconds)
}

/// Memory that the data of one WRITE arrive in.
#[derive(Debug)]
pub struct Landing {
    /// File handle.
    pub(crate) file: nfs_fh3,
    /// First byte.
    pub(crate) offset: u64,
    /// Pieces in the order of the data.
    pub(crate) pieces: Vec<Piece>,
    length: usize,
    arrived: usize,
}

/// Memory of a part of the data.
#[derive(Debug)]
pub(crate) enum Piece {
    /// A whole chunk of the memory store.
    Chunk(OwnedChunk),
    /// Bytes that the store will copy.
    Bytes(Vec<u8>),
}

impl Piece {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Chunk(_) => arena::CHUNK_BYTES,
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    fn start(&mut self) -> *mut u8 {
        match self {
            Self::Chunk(chunk) => chunk.data(),
            Self::Bytes(bytes) => bytes.as_mut_ptr(),
        }
    }
}

impl Landing {
    pub(crate) fn new(file: &[u8], offset: u64, pieces: Vec<Piece>) -> Result<Self, nfsstat3> {
        let file = nfs_fh3::new(file).ok_or(nfsstat3::NFS3ERR_BADHANDLE)?;
        let length = pieces.iter().map(Piece::len).sum();
        Ok(Self { file, offset, pieces, length, arrived: 0 })
    }

    /// Bytes of data.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Bytes that have not arrived.
    pub fn missing(&self) -> usize {
        self.length - self.arrived
    }

    /// Where the missing bytes go.
    pub fn room(&mut self, iovecs: &mut Vec<iovec>) {
        let mut skip = self.arrived;
        for piece in &mut self.pieces {
            let skipped = skip.min(piece.len());
            skip -= skipped;
            if skipped < piece.len() {
                let base = piece.start().wrapping_add(skipped);
                iovecs.push(iovec { iov_base: base.cast(), iov_len: piece.len() - skipped });
            }
        }
    }

    /// Notes that `count` bytes more are there.
    pub fn arrived(&mut self, count: usize) {
        self.arrived += count;
        debug_assert!(self.arrived <= self.length);
    }

    /// Copies the next bytes of data and returns how many it took.
    pub fn copy_from(&mut self, data: &[u8]) -> usize {
        let mut iovecs = Vec::new();
        self.room(&mut iovecs);
        let mut rest = data;
        for room in iovecs {
            let (now, later) = rest.split_at(rest.len().min(room.iov_len));
            // SAFETY: the room belongs to this landing and is at least as long.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), room.iov_base.cast(), now.len()) };
            rest = later;
        }
        let taken = data.len() - rest.len();
        self.arrived(taken);
        taken
    }
}

#[cfg(test)]
mod tests;
