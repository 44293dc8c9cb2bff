//! READ, WRITE and COMMIT: the operations that carry the load. Their state ids are checked without a lock that others share.

use iocurve_wire::nfs3::{ftype3, nfs_fh3};
use iocurve_wire::nfs4::operations::share::{OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_ACCESS_WRITE};
use iocurve_wire::nfs4::operations::{COMMIT4args, COMMIT4resok, READ4args, WRITE4args, WRITE4resok};
use iocurve_wire::nfs4::{nfs_opnum4, nfsstat4, stable_how4, stateid4};
use iocurve_wire::xdr::{Decode, Reader, XdrError};

use super::compound::{Compound, Next};
use super::place::Place;
use super::status_of;
use crate::qos::Extent;
use crate::served::Export;
use crate::stats::IoStats;
use crate::store::access::Permissions;
use crate::store::{Store, TRANSFER_BYTES_MAX};

/// Operation, status, end of file, length of the data.
const READ_RESULT_BYTES: usize = 16;

/// READ (§18.22); under limits it is executed when it is due.
#[inline]
pub(super) fn read(compound: &mut Compound<'_, '_>, reader: &mut Reader<'_>) -> Next {
    let checked = READ4args::decode(reader).map_err(|_| nfsstat4::NFS4ERR_BADXDR).and_then(|arguments| {
        let (export, file) = transferable(compound, arguments.stateid, OPEN4_SHARE_ACCESS_READ)?;
        Ok((arguments, export, file))
    });
    let (arguments, export, file) = match checked {
        Ok(checked) => checked,
        Err(status) => return compound.put::<()>(nfs_opnum4::OP_READ, &Err(status)),
    };
    if export.throttle.is_limited()
        && !std::mem::take(&mut compound.is_due)
        && let Some(bytes) = read_bytes(compound, export, &file, &arguments)
    {
        if !compound.may_wait(reader.rest().len()) {
            return compound.put::<()>(nfs_opnum4::OP_READ, &Err(nfsstat4::NFS4ERR_DELAY));
        }
        return Next::Suspend(Extent::of(file.as_bytes(), arguments.offset, bytes));
    }
    read_now(compound, export, &file, &arguments)
}

/// Bytes that a READ will find; `None` if it will fail, which costs nothing.
fn read_bytes(compound: &Compound<'_, '_>, export: &Export, file: &nfs_fh3, arguments: &READ4args) -> Option<u64> {
    let attributes = export.files.getattr(file.as_bytes()).ok()?;
    Permissions::of(&attributes).check_read(&compound.caller).ok()?;
    let count = u64::from(arguments.count.min(TRANSFER_BYTES_MAX));
    Some(count.min(attributes.size.saturating_sub(arguments.offset)))
}

#[inline]
fn read_now(compound: &mut Compound<'_, '_>, export: &Export, file: &nfs_fh3, arguments: &READ4args) -> Next {
    let count = (arguments.count as usize).min(compound.room().saturating_sub(READ_RESULT_BYTES)) as u32;
    let count = count.min(compound.turn.read_bytes_max());
    let turn = &mut *compound.turn;
    let head = turn.batch.gap(READ_RESULT_BYTES);
    match export.files.read(&compound.caller, file.as_bytes(), arguments.offset, count, turn.batch) {
        Ok(read) => {
            let words = [nfs_opnum4::OP_READ as u32, 0, u32::from(read.eof), read.count];
            let mut result = [0; READ_RESULT_BYTES];
            result.chunks_exact_mut(4).zip(words).for_each(|(at, word)| at.copy_from_slice(&word.to_be_bytes()));
            turn.batch.patch(head, &result);
            turn.count(export.number, &IoStats { reads: 1, read_bytes: u64::from(read.count), ..IoStats::default() });
            compound.is_counted = true;
            Next::Done(nfsstat4::NFS4_OK)
        }
        Err(status) => {
            turn.batch.rewind(head);
            let status = data_status(export, file, status_of(status));
            compound.put::<()>(nfs_opnum4::OP_READ, &Err(status))
        }
    }
}

/// WRITE (§18.32); it is executed at once, and under limits the reply waits.
#[inline]
pub(super) fn write(compound: &mut Compound<'_, '_>, arguments: WRITE4args<'_>) -> Result<WRITE4resok, nfsstat4> {
    let WRITE4args { stateid, offset, stable, data } = arguments;
    let (export, file) = transferable(compound, stateid, OPEN4_SHARE_ACCESS_WRITE)?;
    let writeverf = compound.turn.served.write_verifier(export);
    let written = export.files.write(&compound.caller, file.as_bytes(), offset, data, stable);
    written.map_err(|status| data_status(export, &file, status_of(status)))?;
    wrote(compound, export, Extent::of(file.as_bytes(), offset, data.len() as u64));
    Ok(WRITE4resok { count: data.len() as u32, committed: stable, writeverf })
}

/// WRITE up to its data, which have been received where the store keeps them.
#[derive(Debug)]
pub(super) struct ReceivedWrite {
    stateid: stateid4,
    stable: stable_how4,
}

impl<'a> Decode<'a> for ReceivedWrite {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        let stateid = Decode::decode(reader)?;
        reader.u64()?; // the offset, and below the length: they are those of the buffer
        let stable = Decode::decode(reader)?;
        reader.u32()?;
        Ok(Self { stateid, stable })
    }
}

/// As [`write`], with data that are in a buffer.
pub(super) fn write_received(
    compound: &mut Compound<'_, '_>,
    ReceivedWrite { stateid, stable }: ReceivedWrite,
) -> Result<WRITE4resok, nfsstat4> {
    let buffer = compound.received.buffer.take().ok_or(nfsstat4::NFS4ERR_SERVERFAULT)?;
    let (export, file) = transferable(compound, stateid, OPEN4_SHARE_ACCESS_WRITE)?;
    let (count, writeverf) = (buffer.length() as u32, compound.turn.served.write_verifier(export));
    let extent = Extent::of(file.as_bytes(), buffer.offset, count.into());
    export.files.finish_write(buffer, stable).map_err(|status| data_status(export, &file, status_of(status)))?;
    wrote(compound, export, extent);
    Ok(WRITE4resok { count, committed: stable, writeverf })
}

/// Counts a WRITE, for statistics and for limits.
fn wrote(compound: &mut Compound<'_, '_>, export: &Export, extent: Extent) {
    compound.turn.count(export.number, &IoStats { writes: 1, write_bytes: extent.bytes, ..IoStats::default() });
    compound.is_counted = true;
    let written = compound.written.map_or(extent, |(_, before)| before.and(extent.bytes));
    compound.written = Some((export.number, written));
}

/// COMMIT (§18.3); the whole file is committed, whatever the range.
pub(super) fn commit(compound: &mut Compound<'_, '_>, _: COMMIT4args) -> Result<COMMIT4resok, nfsstat4> {
    let found = compound.found()?.regular()?;
    found.files().commit(found.file()).map_err(status_of)?;
    let writeverf = compound.turn.served.write_verifier(found.export);
    compound.turn.count_commit();
    compound.is_counted = true;
    Ok(COMMIT4resok { writeverf })
}

/// The export and the file of a READ or WRITE, once its state id has been checked.
#[inline]
fn transferable<'t>(
    compound: &mut Compound<'_, 't>,
    stateid: stateid4,
    access: u32,
) -> Result<(&'t Export, nfs_fh3), nfsstat4> {
    let Place::In(file) = compound.place()? else { return Err(nfsstat4::NFS4ERR_ISDIR) };
    let stateid = compound.meant(stateid)?;
    let (served, now) = (compound.turn.served, compound.turn.now);
    let slot = compound.slot.as_mut().ok_or(nfsstat4::NFS4ERR_OP_NOT_IN_SESSION)?;
    served.nfs4.check_access(slot, &stateid, &file, access, now)?;
    compound.stateid = Some(stateid);
    Ok((served.exports.of(file.as_bytes()), file))
}

/// The status for data of something that is no regular file: stores say `INVAL` for all but directories.
fn data_status(export: &Export, file: &nfs_fh3, status: nfsstat4) -> nfsstat4 {
    if status != nfsstat4::NFS4ERR_INVAL {
        return status;
    }
    match export.files.getattr(file.as_bytes()).map(|attributes| attributes.file_type) {
        Ok(ftype3::NF3LNK) => nfsstat4::NFS4ERR_SYMLINK,
        Ok(ftype3::NF3REG) | Err(_) => status,
        Ok(_) => nfsstat4::NFS4ERR_WRONG_TYPE,
    }
}
