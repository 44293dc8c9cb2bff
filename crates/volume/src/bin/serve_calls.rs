//! Serves a number of calls of one kind in this process, without sockets and clocks, so that instructions can be counted
//! (`python -m bench.instructions volume-read`):
//!
//! ```text
//! cargo build --release -p iocurve-volume --bin serve_calls
//! valgrind --tool=callgrind target/release/serve_calls read 20000
//! ```
//!
//! With `limited` READs and WRITEs pass limits that admit all of them at once. Two runs with different counts differ by what the additional calls cost.

use std::path::Path;
use std::process::ExitCode;

use iocurve_volume::fuzzing::Fed;
use iocurve_volume::{Cap, Kind, Limits, Scope};
use iocurve_wire::nfs3::{
    CREATE3args, CREATE3res, GETATTR3args, NFS_PROGRAM, NFS_V3, READ3args, READDIR3args, READDIRPLUS3args, REMOVE3args,
    WRITE3args, createhow3, diropargs3, nfs_fh3, nfsproc3, sattr3, stable_how,
};
use iocurve_wire::nfs4::attributes::Attributes;
use iocurve_wire::nfs4::operations::{
    CLOSE4args, CREATE_SESSION4args, EXCHANGE_ID4args, OPEN4args, PUTFH4args, READ4args, RECLAIM_COMPLETE4args,
    REMOVE4args, SEQUENCE4args, callback_sec_parms4, createhow4, nfs_argop4, nfs_resop4, open_claim4, openflag4, share,
    state_protect4_a,
};
use iocurve_wire::nfs4::{
    MINOR_VERSION, NFS_V4, NFSPROC4_COMPOUND, channel_attrs4, client_owner4, compound4_head, compound4_result_head,
    nfs_fh4, owner_name4, sessionid4, state_owner4, stateid4,
};
use iocurve_wire::rpc::{CallHeader, ReplyHeader, auth_flavor, authsys_parms, opaque_auth};
use iocurve_wire::xdr::{Decode, Encode, Reader, from_bytes, to_bytes};

const BLOCK_BYTES: usize = 4096;
const FILE_BLOCKS: u64 = 256;
/// Calls that arrive together.
const CALLS_PER_TURN: u64 = 32;
/// Names in the directory that is listed.
const LISTED_NAMES: u64 = 1000;
/// Bytes of a listing.
const LISTING_BYTES: u32 = 4096;
const KINDS: [&str; 8] = ["read", "write", "getattr", "create", "list", "list-plus", "read4", "create4"];
/// Offset of the `xid` in a call.
const XID_AT: usize = 4;
/// Sequence id of a call that has not been numbered.
const UNNUMBERED: u32 = 0xfedc_ba98;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (kind, count, further) = match &arguments[..] {
        [kind, count, further @ ..] if KINDS.contains(kind) => (*kind, count.parse().unwrap_or(0_u64), further),
        _ => ("", 0, &[][..]),
    };
    let mut volume = match further {
        [] => Fed::new(),
        ["limited"] => Fed::with_limits(limits()),
        [directory] => Fed::large(Some(Path::new(directory)), false),
        [directory, ..] => Fed::large(Some(Path::new(directory)), true),
    };
    if count == 0 {
        eprintln!("usage: serve_calls {} COUNT [limited | DIRECTORY [async]]", KINDS.join("|"));
        return ExitCode::FAILURE;
    }
    let root = volume.root();
    let file = create(&mut volume);
    for block in 0..FILE_BLOCKS {
        reply_bytes(&mut volume, &call("write", block, root, file));
    }
    let mut xids = 2..;
    if kind.starts_with("list") {
        let names: Vec<_> = (0..LISTED_NAMES).map(|number| call("create", 2 * number, root, file)).collect();
        let mut names = names.concat();
        renumber(&mut names, XID_AT, &mut xids);
        reply_bytes(&mut volume, &names);
    }
    let number = |number| if kind.starts_with("create") { number } else { number * 7 % FILE_BLOCKS };
    let session = kind.ends_with('4').then(|| make_session(&mut volume));
    let turn = (0..CALLS_PER_TURN).map(|at| match session {
        Some(session) => call4(kind, number(at), root, file, session),
        None => call(kind, number(at), root, file),
    });
    let mut turn = turn.collect::<Vec<_>>().concat();
    let number_at = turn.windows(4).position(|word| word == UNNUMBERED.to_be_bytes()).unwrap_or(XID_AT);
    let answer = |_| {
        if session.is_some() || kind == "create" {
            renumber(&mut turn, number_at, &mut xids);
        }
        reply_bytes(&mut volume, &turn)
    };
    let bytes: usize = (0..count.div_ceil(CALLS_PER_TURN)).map(answer).sum();
    println!("{bytes} bytes of replies to {} calls", count.next_multiple_of(CALLS_PER_TURN));
    ExitCode::SUCCESS
}

/// Gives calls numbers that no call has had: one with the number of another would be answered as that was.
fn renumber(calls: &mut [u8], number_at: usize, numbers: &mut impl Iterator<Item = u32>) {
    let mut at = 0;
    while at < calls.len() {
        let number = numbers.next().unwrap_or_default();
        calls[at + number_at..at + number_at + 4].copy_from_slice(&number.to_be_bytes());
        at += 4 + (u32::from_be_bytes([calls[at], calls[at + 1], calls[at + 2], calls[at + 3]]) & !(1 << 31)) as usize;
    }
}

/// The limits that the Flexible service level of Azure `NetApp` Files has, far above what is served.
fn limits() -> Limits {
    const RATE: u64 = 1 << 52;
    let of_both = |cap: Cap| [cap.of(Kind::Read), cap.of(Kind::Write)];
    let each = |cap: Cap| cap.each(Scope::Connection);
    let volume = [&[Cap::bytes_per_s(RATE), Cap::bytes_per_s(RATE).of(Kind::Write)][..], &of_both(Cap::iops(RATE))];
    let connection = [of_both(each(Cap::bytes_per_s(RATE))), of_both(each(Cap::iops(RATE)))];
    Limits { caps: [volume.concat(), connection.concat(), vec![Cap::requests(128)]].concat(), ..Limits::default() }
}

fn create(volume: &mut Fed) -> nfs_fh3 {
    let how = createhow3::UNCHECKED(sattr3::default());
    let arguments = CREATE3args { r#where: diropargs3 { dir: volume.root(), name: b"file" }, how };
    let reply = volume.feed(&record(nfsproc3::NFSPROC3_CREATE, &arguments), usize::MAX).expect("an answer");
    let mut reader = Reader::new(&reply[4..]);
    ReplyHeader::decode(&mut reader).expect("a reply");
    let created: CREATE3res = from_bytes(reader.rest()).expect("a result of CREATE");
    created.ok().and_then(|created| created.obj).expect("a new file")
}

// One place that serves calls: a second one changes what the compiler inlines into it.
#[inline(never)]
fn reply_bytes(volume: &mut Fed, calls: &[u8]) -> usize {
    volume.feed(calls, usize::MAX).expect("answers").len()
}

/// A call of a kind; every other `create` is a REMOVE of the name that was created before it.
fn call(kind: &str, number: u64, root: nfs_fh3, file: nfs_fh3) -> Vec<u8> {
    let (offset, count) = (number * BLOCK_BYTES as u64, BLOCK_BYTES as u32);
    let name = format!("name{}", number / 2);
    let object = diropargs3 { dir: root, name: name.as_bytes() };
    let (cookie, cookieverf) = (0, [0; 8]);
    match kind {
        "read" => record(nfsproc3::NFSPROC3_READ, &READ3args { file, offset, count }),
        "write" => {
            let (stable, data) = (stable_how::UNSTABLE, &[number as u8; BLOCK_BYTES]);
            record(nfsproc3::NFSPROC3_WRITE, &WRITE3args { file, offset, count, stable, data })
        }
        "create" if number.is_multiple_of(2) => {
            let how = createhow3::GUARDED(sattr3 { mode: Some(0o644), ..sattr3::default() });
            record(nfsproc3::NFSPROC3_CREATE, &CREATE3args { r#where: object, how })
        }
        "create" => record(nfsproc3::NFSPROC3_REMOVE, &REMOVE3args { object }),
        "list" => {
            let arguments = READDIR3args { dir: root, cookie, cookieverf, count: LISTING_BYTES };
            record(nfsproc3::NFSPROC3_READDIR, &arguments)
        }
        "list-plus" => {
            let (dircount, maxcount) = (LISTING_BYTES, LISTING_BYTES);
            let arguments = READDIRPLUS3args { dir: root, cookie, cookieverf, dircount, maxcount };
            record(nfsproc3::NFSPROC3_READDIRPLUS, &arguments)
        }
        _ => record(nfsproc3::NFSPROC3_GETATTR, &GETATTR3args { object: file }),
    }
}

/// Makes a session of `NFSv4.1`, in which one call was made.
fn make_session(volume: &mut Fed) -> (u64, sessionid4) {
    let exchange = nfs_argop4::EXCHANGE_ID(EXCHANGE_ID4args {
        eia_clientowner: client_owner4 { co_verifier: [1; 8], co_ownerid: owner_name4(b"client") },
        eia_flags: 0,
        eia_state_protect: state_protect4_a::SP4_NONE(()),
        eia_client_impl_id: None,
    });
    let reply = volume.feed(&compound(&[exchange]), usize::MAX).expect("an answer");
    let nfs_resop4::EXCHANGE_ID(Ok(exchanged)) = first_result(&reply) else { panic!("no client id") };
    let clientid = exchanged.eir_clientid;
    let channel = channel_attrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: 1 << 16,
        ca_maxresponsesize: 1 << 16,
        ca_maxresponsesize_cached: 1 << 12,
        ca_maxoperations: 8,
        ca_maxrequests: 1,
        ca_rdma_ird: None,
    };
    let create = nfs_argop4::CREATE_SESSION(CREATE_SESSION4args {
        csa_clientid: clientid,
        csa_sequence: exchanged.eir_sequenceid,
        csa_flags: 0,
        csa_fore_chan_attrs: channel,
        csa_back_chan_attrs: channel,
        csa_cb_program: 0,
        csa_sec_parms: vec![callback_sec_parms4::AUTH_NONE(())],
    });
    let reply = volume.feed(&compound(&[create]), usize::MAX).expect("an answer");
    let nfs_resop4::CREATE_SESSION(Ok(created)) = first_result(&reply) else { panic!("no session") };
    let session = created.csr_sessionid;
    let complete = nfs_argop4::RECLAIM_COMPLETE(RECLAIM_COMPLETE4args { rca_one_fs: false });
    volume.feed(&compound(&[sequence(session, 1), complete]), usize::MAX).expect("an answer");
    (clientid, session)
}

fn first_result(reply: &[u8]) -> nfs_resop4<'_> {
    let mut reader = Reader::new(&reply[4..]);
    ReplyHeader::decode(&mut reader).expect("a reply");
    compound4_result_head::decode(&mut reader).expect("a result of COMPOUND");
    nfs_resop4::decode(&mut reader).expect("a result of an operation")
}

fn sequence(session: sessionid4, number: u32) -> nfs_argop4<'static> {
    nfs_argop4::SEQUENCE(SEQUENCE4args {
        sa_sessionid: session,
        sa_sequenceid: number,
        sa_slotid: 0,
        sa_highest_slotid: 0,
        sa_cachethis: false,
    })
}

/// As [`call`], in a session: files are created by OPEN and CLOSE in one COMPOUND.
fn call4(kind: &str, number: u64, root: nfs_fh3, file: nfs_fh3, (clientid, session): (u64, sessionid4)) -> Vec<u8> {
    let put = |handle| nfs_argop4::PUTFH(PUTFH4args { object: nfs_fh4(handle) });
    let name = format!("name{}", number / 2);
    let sequence = sequence(session, UNNUMBERED);
    if kind == "read4" {
        let (stateid, offset) = (stateid4::ANONYMOUS, number * BLOCK_BYTES as u64);
        let read = nfs_argop4::READ(READ4args { stateid, offset, count: BLOCK_BYTES as u32 });
        return compound(&[sequence, put(file.as_bytes()), read]);
    }
    let directory = put(root.as_bytes());
    if !number.is_multiple_of(2) {
        let remove = nfs_argop4::REMOVE(REMOVE4args { target: name.as_bytes() });
        return compound(&[sequence, directory, remove]);
    }
    let attributes = to_bytes(&Attributes { mode: Some(0o644), ..Attributes::default() });
    let how = createhow4::GUARDED4(from_bytes(&attributes).expect("attributes"));
    let open = nfs_argop4::OPEN(OPEN4args {
        seqid: 0,
        share_access: share::OPEN4_SHARE_ACCESS_BOTH | share::OPEN4_SHARE_ACCESS_WANT_NO_DELEG,
        share_deny: share::OPEN4_SHARE_DENY_NONE,
        owner: state_owner4 { clientid, owner: owner_name4(b"client") },
        openhow: openflag4::OPEN4_CREATE(how),
        claim: open_claim4::CLAIM_NULL(name.as_bytes()),
    });
    let close = nfs_argop4::CLOSE(CLOSE4args { seqid: 0, open_stateid: stateid4::CURRENT });
    compound(&[sequence, directory, open, close])
}

fn compound(operations: &[nfs_argop4<'_>]) -> Vec<u8> {
    let head = compound4_head { tag: &[], minorversion: MINOR_VERSION, count: operations.len() as u32 };
    let arguments = [to_bytes(&head), operations.iter().flat_map(to_bytes).collect()].concat();
    record_of(NFS_V4, NFSPROC4_COMPOUND, &arguments)
}

fn record(procedure: nfsproc3, arguments: &impl Encode) -> Vec<u8> {
    record_of(NFS_V3, procedure as u32, &to_bytes(arguments))
}

fn record_of(vers: u32, proc: u32, arguments: &[u8]) -> Vec<u8> {
    let body = to_bytes(&authsys_parms { stamp: 0, machinename: b"client", uid: 0, gid: 0, gids: vec![] });
    let cred = opaque_auth { flavor: auth_flavor::AUTH_SYS, body: &body };
    let header = CallHeader { xid: 1, rpcvers: 2, prog: NFS_PROGRAM, vers, proc, cred, verf: opaque_auth::NONE };
    let call = [&to_bytes(&header), arguments].concat();
    [&(1 << 31 | call.len() as u32).to_be_bytes(), call.as_slice()].concat()
}
