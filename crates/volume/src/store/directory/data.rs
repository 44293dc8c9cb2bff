//! The data of regular files: READ, WRITE and COMMIT.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use iocurve_wire::nfs3::{nfsstat3, stable_how};

use super::open_files::{Access, OpenFile};
use super::sys::{self, Id, Stat, status_of};
#[cfg(test)]
use super::testing;
use super::{DirectoryStore, check_regular, lock, stat_open};
use crate::reply::batch::Batch;
use crate::store::access::{Caller, Permissions, without_privileges};
use crate::store::contract::{Read, TRANSFER_BYTES_MAX, Written, check_end};
use crate::store::write_buffer::{Piece, WriteBuffer};

impl DirectoryStore {
    pub(super) fn read_at(
        &self,
        caller: &Caller,
        id: Id,
        offset: u64,
        count: u32,
        batch: &mut Batch,
    ) -> Result<Read, nfsstat3> {
        let open = self.file(id, Access::Read)?;
        let attributes = stat_open(&open)?.attributes();
        Permissions::of(&attributes).check_read(caller)?;
        let left = attributes.size.saturating_sub(offset);
        let wanted = u64::from(count.min(TRANSFER_BYTES_MAX)).min(left) as usize;
        let read = batch.fill(wanted, |room| read_full(&open.file, room, offset));
        let count = read.map_err(|error| status_of(&error))?;
        batch.pad(count);
        Ok(Read { attributes, count: count as u32, eof: count as u64 == left || count < wanted })
    }

    /// Checks that the caller may write a regular file.
    pub(super) fn check_write(&self, caller: &Caller, id: Id) -> Result<(), nfsstat3> {
        let stat = self.stat(id)?;
        check_regular(stat.file_type)?;
        Permissions::of(&stat.attributes()).check_write(caller)
    }

    /// Writes data that may make the file longer.
    pub(super) fn write_at(&self, id: Id, offset: u64, data: &[u8], stable: stable_how) -> Result<Written, nfsstat3> {
        let end = check_end(offset, data.len() as u64)?;
        let open = self.file(id, Access::Write)?;
        let mut before = stat_open(&open)?;
        if end <= before.size {
            write_all(&open.file, data, offset).map_err(|error| status_of(&error))?;
        } else {
            before = self.write_longer(id, &open, offset, data)?;
        }
        self.take_privileges(&open, &before).map_err(|error| status_of(&error))?;
        self.stable.data(&open, stable).map_err(|error| status_of(&error))?;
        Ok(Written { before: before.attributes().wcc(), after: stat_open(&open)?.attributes() })
    }

    /// Writes data that make the file longer if no others have, and returns it as it was before.
    fn write_longer(&self, id: Id, open: &OpenFile, offset: u64, data: &[u8]) -> Result<Stat, nfsstat3> {
        let _size = self.file_lock(id);
        let before = stat_open(open)?;
        self.inodes.count(id, before.size.max(offset + data.len() as u64))?;
        let written = write_all(&open.file, data, offset);
        if written.is_err() {
            // Data written before the failure stay; the quota follows the size that the file has now.
            self.inodes.settle(id, stat_open(open).map_or(before.size, |stat| stat.size));
        }
        written.map_err(|error| status_of(&error)).map(|()| before)
    }

    /// Takes set-user-ID and set-group-ID from a file that was written, as the system does unless root writes.
    fn take_privileges(&self, open: &OpenFile, stat: &Stat) -> io::Result<()> {
        let kept = without_privileges(stat.attributes().mode);
        if kept == stat.attributes().mode {
            return Ok(());
        }
        let _modes = lock(&self.modes);
        sys::chmod(&open.file, kept)
    }

    /// Writes the data of a buffer.
    pub(super) fn write_buffer(&self, id: Id, buffer: &WriteBuffer, stable: stable_how) -> Result<Written, nfsstat3> {
        let (mut at, mut written) = (buffer.offset, Err(nfsstat3::NFS3ERR_INVAL));
        for piece in &buffer.pieces {
            if let Piece::Bytes(bytes) = piece {
                written = Ok(self.write_at(id, at, bytes, stable)?);
                at += bytes.len() as u64;
            }
        }
        written
    }

    pub(super) fn commit_data(&self, id: Id) -> Result<Written, nfsstat3> {
        let open = self.file(id, Access::Read)?;
        let before = stat_open(&open)?.attributes().wcc();
        self.stable.data(&open, stable_how::DATA_SYNC).map_err(|error| status_of(&error))?;
        Ok(Written { before, after: stat_open(&open)?.attributes() })
    }
}

/// Memory for the data of a WRITE.
pub(super) fn buffer(file: &[u8], offset: u64, length: u32) -> Result<WriteBuffer, nfsstat3> {
    check_end(offset, u64::from(length))?;
    WriteBuffer::new(file, offset, vec![Piece::Bytes(vec![0; length as usize])])
}

fn write_all(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(data, offset)?;
    #[cfg(test)]
    testing::note(|| testing::Event::Write { inode: testing::inode(file), offset, data: data.to_vec() });
    Ok(())
}

fn read_full(file: &File, room: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < room.len() {
        match file.read_at(&mut room[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
