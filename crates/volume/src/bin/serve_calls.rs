//! Serves a number of calls of one kind in this process, without sockets and clocks, so that instructions can be counted
//! (`python -m bench.instructions volume-read`):
//!
//! ```text
//! cargo build --release -p iocurve-volume --features fuzzing --bin serve_calls
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
const KINDS: [&str; 6] = ["read", "write", "getattr", "create", "list", "list-plus"];

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
        renumber(&mut names, &mut xids);
        reply_bytes(&mut volume, &names);
    }
    let number = |number| if kind == "create" { number } else { number * 7 % FILE_BLOCKS };
    let turn: Vec<_> = (0..CALLS_PER_TURN).map(|at| call(kind, number(at), root, file)).collect();
    let mut turn = turn.concat();
    let answer = |_| {
        if kind == "create" {
            renumber(&mut turn, &mut xids);
        }
        reply_bytes(&mut volume, &turn)
    };
    let bytes: usize = (0..count.div_ceil(CALLS_PER_TURN)).map(answer).sum();
    println!("{bytes} bytes of replies to {} calls", count.next_multiple_of(CALLS_PER_TURN));
    ExitCode::SUCCESS
}

/// Gives calls numbers that no call has had: one with the number of another would be answered as that was.
fn renumber(calls: &mut [u8], xids: &mut impl Iterator<Item = u32>) {
    let mut at = 0;
    while at < calls.len() {
        let xid = xids.next().unwrap_or_default();
        calls[at + 4..at + 8].copy_from_slice(&xid.to_be_bytes());
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

fn record(procedure: nfsproc3, arguments: &impl Encode) -> Vec<u8> {
    let body = to_bytes(&authsys_parms { stamp: 0, machinename: b"client", uid: 0, gid: 0, gids: vec![] });
    let cred = opaque_auth { flavor: auth_flavor::AUTH_SYS, body: &body };
    let (prog, vers, proc) = (NFS_PROGRAM, NFS_V3, procedure as u32);
    let header = CallHeader { xid: 1, rpcvers: 2, prog, vers, proc, cred, verf: opaque_auth::NONE };
    let call = [to_bytes(&header), to_bytes(arguments)].concat();
    [&(1 << 31 | call.len() as u32).to_be_bytes(), call.as_slice()].concat()
}
