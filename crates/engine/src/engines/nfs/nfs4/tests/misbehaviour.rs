//! Servers of `NFSv4.1` that misbehave.

use iocurve_wire::nfs4::nfs_opnum4::{self, OP_CREATE_SESSION, OP_LOOKUP, OP_OPEN, OP_READDIR};
use iocurve_wire::nfs4::nfsstat4::{
    self, NFS4ERR_BADSESSION, NFS4ERR_DEADSESSION, NFS4ERR_DELAY, NFS4ERR_GRACE, NFS4ERR_IO, NFS4ERR_STALE_CLIENTID,
};

use super::super::super::tests::misbehaving::Ending::{Ends, Fails, GoesOn, LeavesState, TimesOut};
use super::super::super::tests::misbehaving::Misdeed::{
    self, Call, Empty, Garbage, Half, HalfAndReset, Longer, ReplyBefore, Shorter, Silence, SystemError, TooLong, Twice,
    UnknownXid, Words,
};
use super::super::super::tests::misbehaving::Part::{Layout, List, Load, Metadata};
use super::super::super::tests::misbehaving::{Row, check_rows};
use super::super::Nfs4;
use super::server::{Act, Shared};

const ALWAYS: u32 = u32::MAX;
/// The server's timeout in the table allows 200 repetitions.
const A_WHILE: u32 = 150;
/// A grace period of three minutes; five are waited for.
const THREE_MINUTES: u32 = 1800;

const fn session_lost(status: nfsstat4) -> Misdeed<Act> {
    Misdeed::Act(Act::FailSequence(status))
}

const fn fail(status: nfsstat4) -> Misdeed<Act> {
    Misdeed::Act(Act::Fail(status))
}

const fn fail_at(operation: nfs_opnum4, status: nfsstat4) -> Misdeed<Act> {
    Misdeed::Act(Act::FailAt(operation, status))
}

const RESTART: Misdeed<Act> = Misdeed::Act(Act::Restart);
const RESTART_AFTER: Misdeed<Act> = Misdeed::Act(Act::RestartAfter);
const LOSE_REPLY: Misdeed<Act> = Misdeed::Act(Act::LoseReply);

/// Words of a reply: the status, the number of results, and from SEQUENCE on each result's operation and status.
const WRONG_SESSION: Misdeed<Act> = Words(&[(5, 0xdead)]);
const WRONG_SEQUENCE: Misdeed<Act> = Words(&[(9, 0xdead)]);
const WRONG_SLOT: Misdeed<Act> = Words(&[(10, 7)]);
const WRONG_STATUS: Misdeed<Act> = Words(&[(0, NFS4ERR_IO as u32)]);
const WRONG_OPERATION: Misdeed<Act> = Words(&[(16, 10)]);
const TOO_FEW_RESULTS: Misdeed<Act> = Words(&[(2, 2)]);
const TOO_MANY_RESULTS: Misdeed<Act> = Words(&[(2, 9)]);

const ANOTHER_CALL: &str = "it answers another call";
const ANOTHER_SLOT: &str = "its session, slot or sequence id is not that of the call";
const INVALID: &str = "invalid reply from server";
const FIVE: &str = "5 replies were invalid";

#[rustfmt::skip] // one line for each row
const ROWS: &[Row<Act>] = &[
    // While files are prepared, a session that is lost is replaced at every step.
    (Layout, "EXCHANGE_ID", fail(NFS4ERR_DELAY), 2, GoesOn),
    (Layout, "EXCHANGE_ID", Half, 1, Ends("closed the connection without an answer")),
    (Layout, "EXCHANGE_ID", Garbage, 1, Ends(INVALID)),
    (Layout, "EXCHANGE_ID", Words(&[(3, 43)]), 1, Ends(INVALID)),
    (Layout, "CREATE_SESSION", fail(NFS4ERR_DELAY), 1, GoesOn),
    (Layout, "CREATE_SESSION", fail(NFS4ERR_STALE_CLIENTID), 2, GoesOn),
    (Layout, "CREATE_SESSION", RESTART, 1, GoesOn),
    (Layout, "CREATE_SESSION", RESTART_AFTER, 1, GoesOn),
    (Layout, "CREATE_SESSION", Half, 1, GoesOn),
    (Layout, "CREATE_SESSION", fail_at(OP_CREATE_SESSION, NFS4ERR_DELAY), ALWAYS, TimesOut("NFS4ERR_DELAY")),
    (Layout, "CREATE_SESSION", Words(&[(9, 0xdead)]), 1, Ends("it has the session of another call")),
    (Layout, "RECLAIM_COMPLETE", session_lost(NFS4ERR_BADSESSION), 1, GoesOn),
    (Layout, "RECLAIM_COMPLETE", RESTART, 1, GoesOn),
    (Layout, "RECLAIM_COMPLETE", RESTART_AFTER, 1, GoesOn),
    (Layout, "RECLAIM_COMPLETE", Half, 1, GoesOn),
    (Layout, "RECLAIM_COMPLETE", fail(NFS4ERR_IO), 1, Ends("RECLAIM_COMPLETE server")),
    (Layout, "PUTROOTFH", session_lost(NFS4ERR_DEADSESSION), 1, GoesOn),
    (Layout, "LOOKUP", session_lost(NFS4ERR_BADSESSION), 3, GoesOn),
    (Layout, "LOOKUP", session_lost(NFS4ERR_BADSESSION), ALWAYS, TimesOut("has ended the session while files were prepared")),
    (Layout, "LOOKUP", RESTART, 1, GoesOn),
    (Layout, "LOOKUP", fail_at(OP_LOOKUP, NFS4ERR_DELAY), 2, GoesOn),
    (Layout, "LOOKUP", fail_at(OP_LOOKUP, NFS4ERR_DELAY), ALWAYS, TimesOut("NFS4ERR_DELAY")),
    (Layout, "LOOKUP", Silence, ALWAYS, TimesOut("did not answer within 0.2 s")),
    (Layout, "LOOKUP", WRONG_SESSION, 1, Ends(ANOTHER_SLOT)),
    (Layout, "LOOKUP", WRONG_SEQUENCE, 1, Ends(ANOTHER_SLOT)),
    (Layout, "LOOKUP", WRONG_SLOT, 1, Ends(ANOTHER_SLOT)),
    (Layout, "LOOKUP", WRONG_STATUS, 1, Ends("its status is not that of its last operation")),
    (Layout, "LOOKUP", WRONG_OPERATION, 1, Ends("it has the result of another operation")),
    (Layout, "LOOKUP", TOO_FEW_RESULTS, 1, Ends("it lacks results")),
    (Layout, "LOOKUP", TOO_MANY_RESULTS, 1, Ends("it lacks results")),
    (Layout, "LOOKUP", UnknownXid, 1, Ends(ANOTHER_CALL)),
    (Layout, "LOOKUP", ReplyBefore, 1, Ends(ANOTHER_CALL)),
    (Layout, "LOOKUP", Twice, 1, Ends(ANOTHER_CALL)),
    (Layout, "LOOKUP", Longer, 1, GoesOn),
    (Layout, "LOOKUP", Shorter, 1, Ends(INVALID)),
    (Layout, "LOOKUP", TooLong, 1, Ends("its reply is longer than any valid one")),
    (Layout, "LOOKUP", Empty, 1, Ends(INVALID)),
    (Layout, "LOOKUP", Call, 1, Ends(INVALID)),
    (Layout, "LOOKUP", SystemError, 1, Ends("could not perform a call to NFS")),
    (Layout, "GETATTR", session_lost(NFS4ERR_BADSESSION), 1, GoesOn),
    (Layout, "OPEN", session_lost(NFS4ERR_BADSESSION), 1, GoesOn),
    (Layout, "OPEN", RESTART, 1, GoesOn),
    (Layout, "OPEN", RESTART_AFTER, 1, GoesOn),
    (Layout, "OPEN", fail_at(OP_OPEN, NFS4ERR_GRACE), 2, GoesOn),
    (Layout, "OPEN", Half, 1, GoesOn),
    (Layout, "CLOSE", session_lost(NFS4ERR_BADSESSION), 1, GoesOn),
    (Layout, "CLOSE", RESTART, 1, GoesOn),
    (Layout, "CLOSE", Half, 1, GoesOn),
    (Layout, "COMMIT", session_lost(NFS4ERR_BADSESSION), 1, GoesOn),
    (Layout, "DESTROY_SESSION", HalfAndReset, 1, GoesOn),
    (Layout, "DESTROY_SESSION", UnknownXid, 1, LeavesState),
    (Layout, "DESTROY_CLIENTID", fail(NFS4ERR_DELAY), 1, GoesOn),
    // Under load, a reply that is not that of the call costs the connection.
    (Load, "READ", session_lost(NFS4ERR_BADSESSION), 3, GoesOn),
    (Load, "READ", session_lost(NFS4ERR_DEADSESSION), ALWAYS, Fails(6, libc::EIO)),
    (Load, "READ", RESTART, 3, GoesOn),
    (Load, "READ", RESTART_AFTER, 3, GoesOn),
    (Load, "READ", LOSE_REPLY, 3, GoesOn),
    (Load, "READ", WRONG_SESSION, 1, GoesOn),
    (Load, "READ", WRONG_SEQUENCE, 1, GoesOn),
    (Load, "READ", WRONG_SLOT, 1, GoesOn),
    (Load, "READ", WRONG_SLOT, ALWAYS, Ends(ANOTHER_SLOT)),
    (Load, "READ", WRONG_STATUS, 1, GoesOn),
    (Load, "READ", WRONG_OPERATION, 1, GoesOn),
    (Load, "READ", TOO_FEW_RESULTS, 1, GoesOn),
    (Load, "READ", TOO_MANY_RESULTS, 1, GoesOn),
    (Load, "READ", UnknownXid, 1, GoesOn),
    (Load, "READ", ReplyBefore, 1, GoesOn),
    (Load, "READ", Twice, 1, GoesOn),
    (Load, "READ", Half, 3, GoesOn),
    (Load, "READ", HalfAndReset, 3, GoesOn),
    (Load, "READ", Longer, 1, GoesOn),
    (Load, "READ", Shorter, 1, GoesOn),
    (Load, "READ", TooLong, 1, GoesOn),
    (Load, "READ", Empty, 1, GoesOn),
    (Load, "READ", Garbage, 1, GoesOn),
    (Load, "READ", Call, ALWAYS, Ends(FIVE)),
    (Load, "READ", Half, ALWAYS, TimesOut("the server closed the connection")),
    (Load, "READ", Silence, ALWAYS, TimesOut("has not answered for")),
    (Load, "READ", SystemError, 2, Fails(2, libc::EIO)),
    (Load, "READ", fail(NFS4ERR_DELAY), A_WHILE, GoesOn),
    (Load, "READ", session_lost(NFS4ERR_DELAY), A_WHILE, GoesOn),
    (Load, "READ", fail(NFS4ERR_DELAY), ALWAYS, Fails(6, libc::ETIMEDOUT)),
    (Load, "READ", fail(NFS4ERR_GRACE), THREE_MINUTES, GoesOn),
    (Load, "WRITE", session_lost(NFS4ERR_BADSESSION), 3, GoesOn),
    (Load, "WRITE", RESTART, 3, GoesOn),
    (Load, "WRITE", RESTART_AFTER, 3, GoesOn),
    (Load, "WRITE", LOSE_REPLY, 3, GoesOn),
    (Load, "WRITE", WRONG_SESSION, 1, GoesOn),
    (Load, "WRITE", WRONG_SEQUENCE, 1, GoesOn),
    (Load, "WRITE", WRONG_SLOT, 1, GoesOn),
    (Load, "WRITE", WRONG_STATUS, 1, GoesOn),
    (Load, "WRITE", WRONG_OPERATION, 1, GoesOn),
    (Load, "WRITE", Words(&[(18, 4097)]), 1, GoesOn),
    (Load, "WRITE", Twice, 1, GoesOn),
    (Load, "WRITE", HalfAndReset, 3, GoesOn),
    (Load, "WRITE", Longer, 1, GoesOn),
    (Load, "WRITE", fail(NFS4ERR_DELAY), A_WHILE, GoesOn),
    (Load, "WRITE", fail(NFS4ERR_GRACE), THREE_MINUTES, GoesOn),
    (Load, "WRITE", ReplyBefore, 1, GoesOn),
    (Load, "WRITE", UnknownXid, 1, GoesOn),
    (Load, "WRITE", fail(NFS4ERR_IO), 1, Fails(1, libc::EIO)),
    (Load, "COMMIT", session_lost(NFS4ERR_BADSESSION), 1, GoesOn),
    (Load, "COMMIT", WRONG_SLOT, 1, GoesOn),
    (Load, "COMMIT", fail(NFS4ERR_IO), 1, Ends("commit f: the server answered NFS4ERR_IO")),
    (Load, "CLOSE", session_lost(NFS4ERR_BADSESSION), 1, GoesOn),
    (Load, "CLOSE", RESTART, 1, GoesOn),
    (Load, "CLOSE", Garbage, 1, LeavesState),
    (Load, "OPEN", session_lost(NFS4ERR_BADSESSION), 1, GoesOn),
    (List, "READDIR", session_lost(NFS4ERR_BADSESSION), 1, GoesOn),
    (List, "READDIR", RESTART, 2, GoesOn),
    (List, "READDIR", Half, 1, GoesOn),
    (List, "READDIR", fail_at(OP_READDIR, NFS4ERR_DELAY), 1, GoesOn),
    (List, "READDIR", Words(&[(21, 0)]), ALWAYS, Ends("a list of a directory has neither an entry nor an end")),
    (List, "READDIR", Misdeed::Act(Act::ListAgain), 1, Ends("a list of a directory comes back to where it was")),
    (Metadata, "OPEN", session_lost(NFS4ERR_BADSESSION), 1, GoesOn),
    (Metadata, "OPEN", WRONG_SLOT, 1, GoesOn),
    (Metadata, "OPEN", ReplyBefore, 1, GoesOn),
    (Metadata, "OPEN", Half, 1, GoesOn),
    (Metadata, "OPEN", fail_at(OP_OPEN, NFS4ERR_DELAY), 2, GoesOn),
    (Metadata, "OPEN", fail_at(OP_OPEN, NFS4ERR_GRACE), 2, GoesOn),
    (Metadata, "OPEN", fail_at(OP_OPEN, NFS4ERR_IO), 1, Fails(1, libc::EIO)),
    (Metadata, "CLOSE", session_lost(NFS4ERR_BADSESSION), 1, GoesOn),
    (Metadata, "CLOSE", RESTART, 1, GoesOn),
    (Metadata, "CLOSE", fail(NFS4ERR_IO), 1, Fails(1, libc::EIO)),
    (Metadata, "REMOVE", session_lost(NFS4ERR_BADSESSION), 1, GoesOn),
    (Metadata, "REMOVE", UnknownXid, 1, GoesOn),
    (Metadata, "REMOVE", RESTART_AFTER, 1, GoesOn),
    (Metadata, "REMOVE", HalfAndReset, 1, GoesOn),
];

#[test]
fn a_server_that_misbehaves_ends_the_run_in_order_or_not_at_all() {
    check_rows::<Nfs4, Shared>(ROWS, |server, row| assert_eq!(server.kept(), [0, 0, 0], "{row}: what is left behind"));
}
