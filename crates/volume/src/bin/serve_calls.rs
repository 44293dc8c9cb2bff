//! Serves a number of calls of one kind in this process, without sockets and clocks, so that instructions can be counted
//! (`python -m bench.instructions volume-read`):
//!
//! ```text
//! cargo build --release -p iocurve-volume --features fuzzing --bin serve_calls
//! valgrind --tool=callgrind target/release/serve_calls read 20000
//! ```
//!
//! With `limited` READs and WRITEs pass limits that admit all of them at once. Two runs with different counts differ by what the additional calls cost.

use std::process::ExitCode;

use iocurve_volume::fuzzing::Fed;
use iocurve_volume::{Cap, Kind, Limits, Scope};
use iocurve_wire::nfs3::{
    CREATE3args, CREATE3res, GETATTR3args, NFS_PROGRAM, NFS_V3, READ3args, WRITE3args, createhow3, diropargs3, nfs_fh3,
    nfsproc3, sattr3, stable_how,
};
use iocurve_wire::rpc::{CallHeader, ReplyHeader, auth_flavor, authsys_parms, opaque_auth};
use iocurve_wire::xdr::{Decode, Encode, Reader, from_bytes, to_bytes};

const BLOCK_BYTES: usize = 4096;
const FILE_BLOCKS: u64 = 256;
/// Calls that arrive together.
const CALLS_PER_TURN: u64 = 32;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let (kind, count, is_limited) = match &arguments[..] {
        [_, kind, count] => (kind.as_str(), count.parse().unwrap_or(0), false),
        [_, kind, count, limited] if limited == "limited" => (kind.as_str(), count.parse().unwrap_or(0), true),
        _ => ("", 0_u64, false),
    };
    if count == 0 || !["read", "write", "getattr"].contains(&kind) {
        eprintln!("usage: serve_calls read|write|getattr COUNT [limited]");
        return ExitCode::FAILURE;
    }
    let mut volume = if is_limited { Fed::with_limits(limits()) } else { Fed::new() };
    let file = create(&mut volume);
    for block in 0..FILE_BLOCKS {
        reply_bytes(&mut volume, &call("write", block, file));
    }
    let turn: Vec<u8> = (0..CALLS_PER_TURN).flat_map(|number| call(kind, number * 7 % FILE_BLOCKS, file)).collect();
    let bytes: usize = (0..count.div_ceil(CALLS_PER_TURN)).map(|_| reply_bytes(&mut volume, &turn)).sum();
    println!("{bytes} bytes of replies to {} calls", count.next_multiple_of(CALLS_PER_TURN));
    ExitCode::SUCCESS
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

fn reply_bytes(volume: &mut Fed, calls: &[u8]) -> usize {
    volume.feed(calls, usize::MAX).expect("answers").len()
}

fn call(kind: &str, block: u64, file: nfs_fh3) -> Vec<u8> {
    let (offset, count) = (block * BLOCK_BYTES as u64, BLOCK_BYTES as u32);
    match kind {
        "read" => record(nfsproc3::NFSPROC3_READ, &READ3args { file, offset, count }),
        "write" => {
            let (stable, data) = (stable_how::UNSTABLE, &[block as u8; BLOCK_BYTES]);
            record(nfsproc3::NFSPROC3_WRITE, &WRITE3args { file, offset, count, stable, data })
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
