//! NFS version 4.1 (RFC 8881): COMPOUND and its operations, over the same exports, stores and limits as version 3.
//!
//! [`run`] executes one operation after the other and ends at the first that fails; each operation is a function in one of the other
//! files, and works on the [`compound::Compound`]. A READ under limits interrupts its COMPOUND, which goes on when the READ is due; the reply to one with WRITEs
//! waits. There are no delegations, no pNFS, no named attributes and no callbacks.
//!
//! A new operation touches `crates/wire/src/nfs4/operations.rs` (arguments, result, and its lines in `nfs_argop4` and
//! `nfs_resop4`), a function in `crates/volume/src/programs/nfs4` and its line in `run.rs`, the fuzz targets
//! `compounds` (any arguments) and `conversations` (clients that keep valid sessions and state). In that directory
//! `run` carries out one operation after the other, `compound` is the state between them, `sessions` has SEQUENCE
//! and what makes sessions, `data` READ, WRITE and COMMIT, `arriving` long calls of which bytes are missing, `open`,
//! `lock`, `names`, `attributes` and `readdir` what they say, `place` filehandles. State of clients is in
//! `crates/volume/src/nfs4_state`: `ledger` (the room for state by client and address, and who makes room for whom:
//! all state passes `Tables::make_room` first; a client that was silent for an hour goes when another comes),
//! `session` (slots, without a lock that others share), `clients`, `files` (opens and locks), `ranges` (locks of one
//! file, by owner and in an `interval_tree`), `recovery` and `directory_record` (who may reclaim after a restart);
//! `tables` keeps all of them in step, `registration` and `opens` are the operations on it. `model` compares all of
//! it with a simple model, in random sequences (`PROPTEST_CASES` says how many); `soak` lets weeks of clients come
//! and vanish by a held clock (`SOAK_DAYS`). The directories above the exports are in `served/pseudo_root.rs`. An
//! attribute is a line in `crates/wire/src/nfs4/attributes.rs` and one in `programs/nfs4/attributes.rs`.

pub(crate) mod arriving;
mod attributes;
mod compound;
mod data;
mod lock;
mod names;
mod open;
mod place;
mod readdir;
mod run;
mod sessions;

use iocurve_wire::nfs3::nfsstat3;
use iocurve_wire::nfs3::{nfstime3, wcc_data};
use iocurve_wire::nfs4::{NFSPROC4_COMPOUND, NFSPROC4_NULL, change_info4, nfsstat4};
use iocurve_wire::rpc::{Accepted, CallHeader, ReplyHeader};

use crate::programs::turn::Turn;
use crate::served::rules::Refusal;
use crate::store::{Changed, TRANSFER_BYTES_MAX};

pub(crate) use run::resume;

use compound::Received;

/// Bytes of a call's head without the bodies of credential and verifier.
const HEAD_BYTES: usize = 24 + 16;

/// Longest call and longest reply of a session: the data of a READ or WRITE, and the operations around it.
pub(crate) const MESSAGE_BYTES_MAX: u32 = TRANSFER_BYTES_MAX + 4096;

/// Answers a call of the program.
pub(super) fn answer(turn: &mut Turn<'_>, header: &CallHeader<'_>, arguments: &[u8]) {
    let call_bytes = HEAD_BYTES + header.cred.body.len() + header.verf.body.len() + arguments.len();
    answer_with(turn, header, arguments, Received { call_bytes, buffer: None });
}

/// Answers a call, of which the data of a WRITE may have been received elsewhere.
fn answer_with(turn: &mut Turn<'_>, header: &CallHeader<'_>, arguments: &[u8], received: Received) {
    if let Err(stat) = turn.credential.take(&header.cred) {
        return turn.refuse_credential(header.xid, stat);
    }
    match header.proc {
        NFSPROC4_NULL if arguments.is_empty() => turn.reply(header.xid, &()),
        NFSPROC4_NULL => turn.refuse_arguments(header.xid),
        NFSPROC4_COMPOUND => run::answer(turn, header, arguments, received),
        _ => turn.refuse(&ReplyHeader::accepted(header.xid, Accepted::PROC_UNAVAIL(()))),
    }
}

/// The status of a store in this version: most have the same number.
fn status_of(status: nfsstat3) -> nfsstat4 {
    match status {
        nfsstat3::NFS3ERR_NODEV => nfsstat4::NFS4ERR_NXIO,
        status => nfsstat4::from_u32(status as u32).unwrap_or(nfsstat4::NFS4ERR_IO),
    }
}

/// The status of this version for a call that the rules of an export refuse.
fn refused(refusal: Refusal) -> nfsstat4 {
    match refusal {
        Refusal::Client => nfsstat4::NFS4ERR_ACCESS,
        Refusal::ReadOnly => nfsstat4::NFS4ERR_ROFS,
    }
}

/// The `change` attribute of a file: its ctime, which stores advance with each change.
fn change(ctime: nfstime3) -> u64 {
    u64::from(ctime.seconds) * 1_000_000_000 + u64::from(ctime.nseconds)
}

/// The answer to a change of one directory, and what it did to that.
fn changed<T>(Changed { result, wcc }: Changed<T>) -> Result<(T, change_info4), nfsstat4> {
    Ok((result.map_err(status_of)?, change_info(&wcc)))
}

/// The change of a directory.
fn change_info(wcc: &wcc_data) -> change_info4 {
    match (wcc.before, wcc.after) {
        (Some(before), Some(after)) => {
            change_info4 { atomic: true, before: change(before.ctime), after: change(after.ctime) }
        }
        _ => change_info4::default(),
    }
}
