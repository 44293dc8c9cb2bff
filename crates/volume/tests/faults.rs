//! Broken and hostile peers lose their own connection, and harm nobody else's.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use iocurve_volume::{ExportConfig, StoreConfig, Volume, VolumeConfig};
use iocurve_wire::mount3::{MOUNT_PROGRAM, MOUNT_V3, MOUNTPROC3_MNT, mountres3};
use iocurve_wire::nfs3::*;
use iocurve_wire::record::{RecordMark, write_record};
use iocurve_wire::rpc::{
    Accepted, CallHeader, Rejected, ReplyHeader, auth_flavor, auth_stat, authsys_parms, mismatch_info, opaque_auth,
};
use iocurve_wire::xdr::{Encode, Reader, from_bytes, to_bytes};

/// Two exports behind one thread, so that everybody meets.
fn start() -> Volume {
    let export = |path: &str| ExportConfig {
        path: path.to_owned(),
        store: StoreConfig::Memory { limit_bytes: 64 << 20 },
        quota_bytes: 64 << 20,
        ..ExportConfig::default()
    };
    let exports = vec![export("/one"), export("/two")];
    Volume::start(&VolumeConfig { exports, threads: Some(1), ..VolumeConfig::default() }).unwrap()
}

fn connect(volume: &Volume) -> TcpStream {
    let stream = TcpStream::connect(volume.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// A call as root, without its record mark.
fn call((prog, vers, proc): (u32, u32, u32), cred: opaque_auth<'_>, arguments: &impl Encode) -> Vec<u8> {
    let mut record = Vec::new();
    write_record(&mut record, |writer| {
        CallHeader { xid: 7, rpcvers: 2, prog, vers, proc, cred, verf: opaque_auth::NONE }.encode(writer);
        arguments.encode(writer);
    });
    record.split_off(4)
}

fn root_cred(gids: usize) -> Vec<u8> {
    to_bytes(&authsys_parms { stamp: 1, machinename: b"faults", uid: 0, gid: 0, gids: vec![0; gids] })
}

fn nfs_call(procedure: nfsproc3, arguments: &impl Encode) -> Vec<u8> {
    let body = root_cred(0);
    let cred = opaque_auth { flavor: auth_flavor::AUTH_SYS, body: &body };
    call((NFS_PROGRAM, NFS_V3, procedure as u32), cred, arguments)
}

fn fragment(stream: &mut TcpStream, bytes: &[u8], last: bool) {
    let mark = RecordMark { length: bytes.len() as u32, last }.to_bytes();
    stream.write_all(&[&mark, bytes].concat()).unwrap();
}

/// The next reply without its record mark.
fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).unwrap();
    let mut reply = vec![0; RecordMark::from_bytes(mark).length as usize];
    stream.read_exact(&mut reply).unwrap();
    reply
}

/// Results of a call that is executed.
fn results(stream: &mut TcpStream, call: &[u8]) -> Vec<u8> {
    fragment(stream, call, true);
    let reply = receive(stream);
    let mut reader = Reader::new(&reply);
    assert_eq!(iocurve_wire::xdr::Decode::decode(&mut reader), Ok(ReplyHeader::success(7)));
    reader.rest().to_vec()
}

fn mount(stream: &mut TcpStream, path: &str) -> nfs_fh3 {
    let mnt = call((MOUNT_PROGRAM, MOUNT_V3, MOUNTPROC3_MNT), opaque_auth::NONE, &path.as_bytes());
    from_bytes::<mountres3>(&results(stream, &mnt)).unwrap().unwrap().fhandle
}

fn make_file(stream: &mut TcpStream, dir: nfs_fh3, name: &str) -> nfs_fh3 {
    let how = createhow3::UNCHECKED(sattr3::default());
    let arguments = CREATE3args { r#where: diropargs3 { dir, name: name.as_bytes() }, how };
    let created = results(stream, &nfs_call(nfsproc3::NFSPROC3_CREATE, &arguments));
    from_bytes::<CREATE3res>(&created).unwrap().unwrap().obj.unwrap()
}

fn write_call(file: nfs_fh3, data: &[u8]) -> Vec<u8> {
    let (count, stable) = (data.len() as u32, stable_how::UNSTABLE);
    nfs_call(nfsproc3::NFSPROC3_WRITE, &WRITE3args { file, offset: 0, count, stable, data })
}

/// Status of GETATTR, and the size if it is there.
fn getattr(stream: &mut TcpStream, object: nfs_fh3) -> Result<u64, nfsstat3> {
    let found = results(stream, &nfs_call(nfsproc3::NFSPROC3_GETATTR, &GETATTR3args { object }));
    let found: GETATTR3res = from_bytes(&found).unwrap();
    found.map(|found| found.obj_attributes.size).map_err(|failed| failed.status)
}

fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_))
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < patience, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_connection_killed_inside_a_record_changes_nothing() {
    let volume = start();
    let mut good = connect(&volume);
    let root = mount(&mut good, "/one");
    let file = make_file(&mut good, root, "f");
    // A small record, a large one whose data have begun to arrive in place, and one in fragments.
    for (length, cut) in [(1000, 600), (1 << 20, 600_000), (1 << 20, 100)] {
        let record = write_call(file, &vec![1; length]);
        let mut bad = connect(&volume);
        bad.write_all(&RecordMark { length: record.len() as u32, last: true }.to_bytes()).unwrap();
        bad.write_all(&record[..cut]).unwrap();
    }
    let mut bad = connect(&volume);
    fragment(&mut bad, &write_call(file, &[1; 1000])[..500], false);
    drop(bad);
    wait_until("the connections are closed", || volume.stats().calls.connections_closed == 4);
    assert_eq!(getattr(&mut good, file), Ok(0));
    let free = |stream: &mut TcpStream| {
        let space = results(stream, &nfs_call(nfsproc3::NFSPROC3_FSSTAT, &FSSTAT3args { fsroot: root }));
        from_bytes::<FSSTAT3res>(&space).unwrap().unwrap().fbytes
    };
    assert!(free(&mut good) > 63 << 20, "what had arrived was given back");
}

#[test]
fn half_a_record_and_silence_holds_up_nobody() {
    let volume = start();
    let mut good = connect(&volume);
    let root = mount(&mut good, "/one");
    let file = make_file(&mut good, root, "f");
    let record = write_call(file, &vec![9; 100_000]);
    let mut silent: Vec<_> = [2, 4, 40, 50_000]
        .map(|cut| {
            let mut stream = connect(&volume);
            let mark = RecordMark { length: record.len() as u32, last: true }.to_bytes();
            stream.write_all(&[&mark, &record[..]].concat()[..cut]).unwrap();
            (stream, cut)
        })
        .into();
    for _ in 0..100 {
        assert_eq!(getattr(&mut good, file), Ok(0));
    }
    // A client that goes on after all is answered.
    for (stream, cut) in &mut silent {
        let mark = RecordMark { length: record.len() as u32, last: true }.to_bytes();
        stream.write_all(&[&mark, &record[..]].concat()[*cut..]).unwrap();
        let reply = receive(stream);
        assert_eq!(reply[24..28], [0; 4], "NFS3_OK");
    }
    assert_eq!(getattr(&mut good, file), Ok(100_000));
    assert_eq!(volume.stop().unwrap().calls.protocol_errors, 0);
}

#[test]
fn fragments_may_be_empty_but_not_endless() {
    let volume = start();
    let mut stream = connect(&volume);
    let null = nfs_call(nfsproc3::NFSPROC3_NULL, &());
    for _ in 0..1000 {
        fragment(&mut stream, &[], false);
    }
    fragment(&mut stream, &null[..10], false);
    fragment(&mut stream, &[], false);
    fragment(&mut stream, &null[10..], false);
    fragment(&mut stream, &[], true);
    assert_eq!(from_bytes(&receive(&mut stream)), Ok(ReplyHeader::success(7)));

    let mut empty = connect(&volume);
    fragment(&mut empty, &[], true);
    assert!(is_closed(&mut empty), "a record of nothing is no call");
    for mark in [RecordMark { length: (1 << 31) - 1, last: false }, RecordMark { length: 2 << 20, last: true }] {
        let mut oversized = connect(&volume);
        oversized.write_all(&mark.to_bytes()).unwrap();
        assert!(is_closed(&mut oversized), "{mark:?}");
    }
    assert_eq!(volume.stop().unwrap().calls.protocol_errors, 3);
}

#[test]
fn what_is_not_known_is_answered_and_the_connection_goes_on() {
    let volume = start();
    let mut stream = connect(&volume);
    let body = root_cred(0);
    let many = root_cred(17);
    let sys = |body| opaque_auth { flavor: auth_flavor::AUTH_SYS, body };
    let versions = mismatch_info { low: 3, high: 4 };
    let denied = |stat| ReplyHeader::denied(7, Rejected::AUTH_ERROR(stat));
    let null = (NFS_PROGRAM, NFS_V3, 0);
    let cases = [
        (call((100_021, 4, 0), sys(&body), &()), ReplyHeader::accepted(7, Accepted::PROG_UNAVAIL(()))),
        (call((NFS_PROGRAM, 2, 0), sys(&body), &()), ReplyHeader::accepted(7, Accepted::PROG_MISMATCH(versions))),
        (call((NFS_PROGRAM, 3, 22), sys(&body), &()), ReplyHeader::accepted(7, Accepted::PROC_UNAVAIL(()))),
        (call((NFS_PROGRAM, 3, 3), sys(&body), &0_u32), ReplyHeader::accepted(7, Accepted::GARBAGE_ARGS(()))),
        (call(null, sys(&body[..body.len() - 4]), &()), denied(auth_stat::AUTH_BADCRED)),
        (call(null, sys(&many), &()), denied(auth_stat::AUTH_BADCRED)),
        (call(null, opaque_auth { flavor: 6, body: &[] }, &()), denied(auth_stat::AUTH_BADCRED)),
    ];
    for (call, expected) in cases {
        fragment(&mut stream, &call, true);
        let reply = receive(&mut stream);
        assert_eq!(from_bytes(&reply), Ok(expected));
    }
    // A credential longer than any leaves no way to tell where the call goes on.
    let too_long = [0; 404];
    fragment(&mut stream, &call(null, sys(&too_long), &()), true);
    assert!(is_closed(&mut stream));
}

#[test]
fn forged_and_stale_handles_reach_nothing() {
    let volume = start();
    let mut stream = connect(&volume);
    let (one, two) = (mount(&mut stream, "/one"), mount(&mut stream, "/two"));
    let file = make_file(&mut stream, one, "f");
    // Every single bit that is turned makes it a handle of nothing.
    for bit in 0..file.as_bytes().len() * 8 {
        let mut bytes = file.as_bytes().to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let forged = nfs_fh3::new(&bytes).unwrap();
        assert_eq!(getattr(&mut stream, forged), Err(nfsstat3::NFS3ERR_STALE), "{forged:?}");
    }
    let mut random = 1_u64;
    for length in (0..=64).cycle().take(1000) {
        let byte = |_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 56) as u8
        };
        let bytes: Vec<u8> = (0..length).map(byte).collect();
        let status = getattr(&mut stream, nfs_fh3::new(&bytes).unwrap()).unwrap_err();
        assert!(matches!(status, nfsstat3::NFS3ERR_BADHANDLE | nfsstat3::NFS3ERR_STALE), "{status:?}");
    }
    let other = LINK3args { file, link: diropargs3 { dir: two, name: b"f" } };
    let linked = results(&mut stream, &nfs_call(nfsproc3::NFSPROC3_LINK, &other));
    let status = from_bytes::<LINK3res>(&linked).unwrap().unwrap_err().status;
    assert!(matches!(status, nfsstat3::NFS3ERR_XDEV | nfsstat3::NFS3ERR_STALE), "{status:?}");
    let remove = REMOVE3args { object: diropargs3 { dir: one, name: b"f" } };
    assert_eq!(results(&mut stream, &nfs_call(nfsproc3::NFSPROC3_REMOVE, &remove))[..4], [0; 4]);
    assert_eq!(getattr(&mut stream, file), Err(nfsstat3::NFS3ERR_STALE));
    make_file(&mut stream, one, "g");
    assert_eq!(getattr(&mut stream, file), Err(nfsstat3::NFS3ERR_STALE), "its place may have been taken");
}
