//! LOCK, LOCKT, LOCKU, and the operations on state ids.
#![allow(clippy::wildcard_imports)] // the whole protocol is spoken here

use iocurve_wire::nfs4::operations::*;
use iocurve_wire::nfs4::{nfs_lock_type4, nfs_opnum4, nfsstat4, owner_name4, state_owner4, stateid4};
use iocurve_wire::xdr::{Decode, Encode, Reader};

use super::compound::{Compound, Next};
use crate::nfs4_state::{LockError, LockRequest, Locker, Range};

fn is_write(locktype: nfs_lock_type4) -> bool {
    matches!(locktype, nfs_lock_type4::WRITE_LT | nfs_lock_type4::WRITEW_LT)
}

/// LOCK (§18.10). It is answered at once: a client that wants to wait asks again.
pub(super) fn lock(compound: &mut Compound<'_, '_>, reader: &mut Reader<'_>) -> Next {
    let arguments = LOCK4args::decode(reader).map_err(|_| nfsstat4::NFS4ERR_BADXDR.into());
    let locked = arguments.and_then(|arguments| locked(compound, &arguments));
    if let Ok(stateid) = locked {
        compound.stateid = Some(stateid);
    }
    put(compound, nfs_opnum4::OP_LOCK, &locked.map(|lock_stateid| LOCK4resok { lock_stateid }))
}

fn locked(compound: &Compound<'_, '_>, arguments: &LOCK4args<'_>) -> Result<stateid4, LockError> {
    let found = compound.found()?.regular()?;
    let locker = match arguments.locker {
        locker4::open_owner(new) => {
            Locker::New { open: compound.meant(new.open_stateid)?, owner: new.lock_owner.owner.0 }
        }
        locker4::lock_owner(known) => Locker::Known(compound.meant(known.lock_stateid)?),
    };
    let request = LockRequest {
        file: &found.handle,
        range: Range::new(arguments.offset, arguments.length)?,
        is_write: is_write(arguments.locktype),
        is_reclaim: arguments.reclaim,
        locker,
    };
    let session = compound.session().ok_or(nfsstat4::NFS4ERR_OP_NOT_IN_SESSION)?;
    compound.turn.served.nfs4.lock(&session.client, &request, compound.turn.now)
}

/// LOCKT (§18.11).
pub(super) fn lockt(compound: &mut Compound<'_, '_>, reader: &mut Reader<'_>) -> Next {
    let arguments = LOCKT4args::decode(reader).map_err(|_| nfsstat4::NFS4ERR_BADXDR.into());
    let tested = arguments.and_then(|arguments| tested(compound, &arguments));
    put(compound, nfs_opnum4::OP_LOCKT, &tested)
}

fn tested(compound: &Compound<'_, '_>, arguments: &LOCKT4args<'_>) -> Result<(), LockError> {
    let found = compound.found()?.regular()?;
    let what = (Range::new(arguments.offset, arguments.length)?, is_write(arguments.locktype));
    let session = compound.session().ok_or(nfsstat4::NFS4ERR_OP_NOT_IN_SESSION)?;
    let (owner, now) = (arguments.owner.owner.0, compound.turn.now);
    compound.turn.served.nfs4.test_lock(&session.client, &found.handle, what, owner, now)
}

/// Appends the result of LOCK or LOCKT.
fn put<R: Encode>(compound: &mut Compound<'_, '_>, operation: nfs_opnum4, result: &Result<R, LockError>) -> Next {
    let (refused, status) = match result {
        Ok(value) => {
            return compound.put(operation, &Ok(Value(value)));
        }
        Err(LockError::Denied(held)) => {
            let locktype = if held.is_write { nfs_lock_type4::WRITE_LT } else { nfs_lock_type4::READ_LT };
            let owner = state_owner4 { clientid: held.client, owner: owner_name4(&held.owner) };
            let denied = LOCK4denied { offset: held.range.first, length: held.range.length(), locktype, owner };
            (LockRefused::Denied(denied), nfsstat4::NFS4ERR_DENIED)
        }
        Err(LockError::Failed(status)) => (LockRefused::Failed(*status), *status),
    };
    compound.write(|writer| {
        operation.encode(writer);
        Err::<(), _>(refused).encode(writer);
    });
    Next::Done(status)
}

/// A borrowed value to encode.
struct Value<'v, R>(&'v R);

impl<R: Encode> Encode for Value<'_, R> {
    fn encode(&self, writer: &mut iocurve_wire::xdr::Writer<'_>) {
        self.0.encode(writer);
    }
}

/// LOCKU (§18.12).
pub(super) fn locku(compound: &mut Compound<'_, '_>, arguments: LOCKU4args) -> Result<stateid4, nfsstat4> {
    let (file, stateid) = (compound.place()?.handle(), compound.meant(arguments.lock_stateid)?);
    let range = Range::new(arguments.offset, arguments.length)?;
    let session = compound.session().ok_or(nfsstat4::NFS4ERR_OP_NOT_IN_SESSION)?;
    let changed = compound.turn.served.nfs4.unlock(&session.client, &stateid, &file, range)?;
    compound.stateid = Some(changed);
    Ok(changed)
}

/// `TEST_STATEID` (§18.48).
pub(super) fn test_stateid(
    compound: &mut Compound<'_, '_>,
    TEST_STATEID4args { ts_stateids }: TEST_STATEID4args,
) -> Result<TEST_STATEID4resok, nfsstat4> {
    let session = compound.session().ok_or(nfsstat4::NFS4ERR_OP_NOT_IN_SESSION)?;
    let test = |stateid: &stateid4| compound.turn.served.nfs4.test_stateid(&session.client, stateid);
    Ok(TEST_STATEID4resok { tsr_status_codes: ts_stateids.iter().map(test).collect() })
}

/// `FREE_STATEID` (§18.38).
pub(super) fn free_stateid(
    compound: &mut Compound<'_, '_>,
    FREE_STATEID4args { fsa_stateid }: FREE_STATEID4args,
) -> Result<(), nfsstat4> {
    let stateid = compound.meant(fsa_stateid)?;
    let session = compound.session().ok_or(nfsstat4::NFS4ERR_OP_NOT_IN_SESSION)?;
    compound.turn.served.nfs4.free_stateid(&session.client, &stateid)
}
