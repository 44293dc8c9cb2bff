//! Servers of `NFSv3` that misbehave.

use iocurve_wire::nfs3::nfsstat3::{NFS3ERR_IO, NFS3ERR_JUKEBOX};

use super::super::nfs3::Nfs3;
use super::misbehaving::Ending::{Ends, Fails, GoesOn, TimesOut};
use super::misbehaving::Misdeed::{
    self, Call, Empty, Garbage, Half, HalfAndReset, Longer, ReplyBefore, Shorter, Silence, SystemError, TooLong, Twice,
    UnknownXid, Words,
};
use super::misbehaving::Part::{Layout, List, Load, Metadata};
use super::misbehaving::{Row, check_rows};
use super::server::{Act, Shared};

const ALWAYS: u32 = u32::MAX;
/// The server's timeout in the table allows 200 repetitions.
const A_WHILE: u32 = 150;

const fn fail(status: iocurve_wire::nfs3::nfsstat3) -> Misdeed<Act> {
    Misdeed::Act(Act::Fail(status))
}

const ANOTHER_CALL: &str = "it answers another call";
const INVALID: &str = "invalid reply from server";
const FIVE: &str = "5 replies were invalid";

#[rustfmt::skip] // one line for each row
const ROWS: &[Row<Act>] = &[
    // While files are prepared, a connection that breaks is made again, and a reply that makes no sense ends the run.
    (Layout, "MNT", Half, 1, Ends("closed the connection without an answer")),
    (Layout, "FSINFO", Half, 1, GoesOn),
    (Layout, "FSINFO", Garbage, 1, Ends(INVALID)),
    (Layout, "LOOKUP", HalfAndReset, 1, GoesOn),
    (Layout, "CREATE", Misdeed::Act(Act::Close), 1, GoesOn),
    (Layout, "CREATE", Half, 1, GoesOn),
    (Layout, "LOOKUP", UnknownXid, 1, Ends(ANOTHER_CALL)),
    (Layout, "LOOKUP", ReplyBefore, 1, Ends(ANOTHER_CALL)),
    (Layout, "LOOKUP", Twice, 1, Ends(ANOTHER_CALL)),
    (Layout, "LOOKUP", Longer, 1, GoesOn),
    (Layout, "LOOKUP", Shorter, 1, Ends(INVALID)),
    (Layout, "LOOKUP", TooLong, 1, Ends("its reply is longer than any valid one")),
    (Layout, "LOOKUP", Empty, 1, Ends(INVALID)),
    (Layout, "LOOKUP", Garbage, 1, Ends(INVALID)),
    (Layout, "LOOKUP", Call, 1, Ends(INVALID)),
    (Layout, "LOOKUP", SystemError, 1, Ends("could not perform a call to NFS")),
    (Layout, "LOOKUP", fail(NFS3ERR_JUKEBOX), 1, GoesOn),
    (Layout, "LOOKUP", fail(NFS3ERR_JUKEBOX), ALWAYS, TimesOut("NFS3ERR_JUKEBOX")),
    (Layout, "LOOKUP", Silence, ALWAYS, TimesOut("did not answer within 0.2 s")),
    (Layout, "WRITE", Half, 1, GoesOn),
    (Layout, "WRITE", fail(NFS3ERR_IO), 1, Ends("layout write of 12288 bytes at offset 0 of new")),
    (Layout, "COMMIT", HalfAndReset, 1, GoesOn),
    // Under load, either costs the connection.
    (Load, "READ", UnknownXid, 1, GoesOn),
    (Load, "READ", ReplyBefore, 1, GoesOn),
    (Load, "READ", Twice, 1, GoesOn),
    (Load, "READ", Half, 3, GoesOn),
    (Load, "READ", HalfAndReset, 3, GoesOn),
    (Load, "READ", Longer, 1, GoesOn),
    (Load, "READ", Shorter, 1, GoesOn),
    (Load, "READ", TooLong, 1, GoesOn),
    (Load, "READ", Empty, 1, GoesOn),
    (Load, "READ", Garbage, 4, Fails(4, libc::EIO)),
    (Load, "READ", Call, 1, GoesOn),
    (Load, "READ", Words(&[(23, 1)]), 1, GoesOn),
    (Load, "READ", Words(&[(23, 8192), (25, 8192)]), 1, GoesOn),
    (Load, "READ", Words(&[(0, 4711)]), 1, GoesOn),
    (Load, "READ", Call, ALWAYS, Ends(FIVE)),
    (Load, "READ", Twice, ALWAYS, Ends(FIVE)),
    (Load, "READ", Half, ALWAYS, TimesOut("the server closed the connection")),
    (Load, "READ", Silence, ALWAYS, TimesOut("has not answered for")),
    (Load, "READ", SystemError, 2, Fails(2, libc::EIO)),
    (Load, "READ", fail(NFS3ERR_JUKEBOX), A_WHILE, GoesOn),
    (Load, "READ", fail(NFS3ERR_JUKEBOX), ALWAYS, Fails(6, libc::ETIMEDOUT)),
    (Load, "WRITE", fail(NFS3ERR_JUKEBOX), A_WHILE, GoesOn),
    (Load, "WRITE", UnknownXid, 1, GoesOn),
    (Load, "WRITE", ReplyBefore, 1, GoesOn),
    (Load, "WRITE", Twice, 1, GoesOn),
    (Load, "WRITE", Half, 3, GoesOn),
    (Load, "WRITE", HalfAndReset, 3, GoesOn),
    (Load, "WRITE", Longer, 1, GoesOn),
    (Load, "WRITE", Shorter, 1, GoesOn),
    (Load, "WRITE", Words(&[(24, 4097)]), 1, GoesOn),
    (Load, "WRITE", Words(&[(0, 4711)]), 1, Fails(1, libc::EIO)),
    (Load, "WRITE", fail(NFS3ERR_IO), 1, Fails(1, libc::EIO)),
    (Load, "COMMIT", Garbage, 1, Ends("a status that NFSv3 does not have")),
    (Load, "COMMIT", HalfAndReset, 1, GoesOn),
    (Load, "COMMIT", fail(NFS3ERR_IO), 1, Ends("commit f: the server answered NFS3ERR_IO")),
    (List, "READDIR", Half, 1, GoesOn),
    (List, "READDIR", Garbage, 1, Ends(INVALID)),
    (List, "READDIR", Words(&[(5, 0)]), ALWAYS, Ends("a list of a directory has neither an entry nor an end")),
    (List, "READDIR", Misdeed::Act(Act::ListAgain), ALWAYS, Ends("a list of a directory comes back to where it was")),
    (List, "READDIR", Misdeed::Act(Act::ListOn), ALWAYS, Ends("the server lists more than 4096 entries of one directory")),
    (Metadata, "CREATE", UnknownXid, 1, GoesOn),
    (Metadata, "CREATE", ReplyBefore, 1, GoesOn),
    (Metadata, "CREATE", Half, 1, GoesOn),
    (Metadata, "CREATE", fail(NFS3ERR_JUKEBOX), 2, GoesOn),
    (Metadata, "CREATE", fail(NFS3ERR_IO), 1, Fails(1, libc::EIO)),
    (Metadata, "REMOVE", HalfAndReset, 1, GoesOn),
    (Metadata, "REMOVE", fail(NFS3ERR_IO), 1, Fails(1, libc::EIO)),
];

#[test]
fn a_server_that_misbehaves_ends_the_run_in_order_or_not_at_all() {
    check_rows::<Nfs3, Shared>(ROWS, |_, _| {});
}
