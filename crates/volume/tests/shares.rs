//! At a limit, clients share by address, and a client's connections share what the client has.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use iocurve_volume::{Cap, ExportConfig, Limits, StoreConfig, Volume, VolumeConfig};
use iocurve_wire::mount3::{MOUNT_PROGRAM, MOUNT_V3, MOUNTPROC3_MNT, mountres3};
use iocurve_wire::nfs3::*;
use iocurve_wire::record::{RecordMark, write_record};
use iocurve_wire::rpc::{CallHeader, ReplyHeader, opaque_auth};
use iocurve_wire::xdr::{Decode, Encode, Reader, from_bytes};

const IOPS: u64 = 1000;

/// READs that each connection has in flight: no client runs dry while a busy machine lets it wait.
const IN_FLIGHT: usize = 256;

/// Calls that are sent at once by one who does not wait for replies.
const FLOOD_BYTES: usize = 128 << 10;

/// Connections of one who does not wait for replies.
const FLOODS: usize = 16;

/// Calls of one who waits for each reply, and most of the other client that are answered meanwhile.
const OWN_CALLS: u64 = 100;
const OTHERS_MAX: u64 = 8_000;

/// A connection from this address of the machine.
fn connect(volume: &Volume, source: Ipv4Addr) -> TcpStream {
    let address = |address: Ipv4Addr, port: u16| libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(address).to_be() },
        sin_zero: [0; 8],
    };
    let SocketAddr::V4(server) = volume.address() else { panic!("tests listen on 127.0.0.1") };
    let (own, server) = (address(source, 0), address(*server.ip(), server.port()));
    let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: addresses of ours with their length; the descriptor is new, and the stream's alone.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        assert_eq!(libc::bind(fd, (&raw const own).cast(), length), 0);
        assert_eq!(libc::connect(fd, (&raw const server).cast(), length), 0);
        TcpStream::from_raw_fd(fd)
    }
}

fn call((prog, vers, proc): (u32, u32, u32), arguments: &impl Encode) -> Vec<u8> {
    let mut record = Vec::new();
    write_record(&mut record, |writer| {
        let (cred, verf) = (opaque_auth::NONE, opaque_auth::NONE);
        CallHeader { xid: 7, rpcvers: 2, prog, vers, proc, cred, verf }.encode(writer);
        arguments.encode(writer);
    });
    record
}

fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).unwrap();
    let mut reply = vec![0; RecordMark::from_bytes(mark).length as usize];
    stream.read_exact(&mut reply).unwrap();
    let mut reader = Reader::new(&reply);
    assert_eq!(Decode::decode(&mut reader), Ok(ReplyHeader::success(7)));
    reader.rest().to_vec()
}

/// Keeps calls under way without waiting for their replies, until told to stop.
fn flood(stream: &TcpStream, call: &[u8], stop: &AtomicBool) {
    let calls = call.repeat(FLOOD_BYTES / call.len());
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, mut dropped) = (stream, vec![0; FLOOD_BYTES]);
            while stream.read(&mut dropped).is_ok_and(|count| count > 0) {}
        });
        let mut stream = stream;
        while !stop.load(Relaxed) && stream.write_all(&calls).is_ok() {}
        stream.shutdown(Shutdown::Both).unwrap();
    });
}

fn new_file(volume: &Volume) -> nfs_fh3 {
    let mut stream = connect(volume, Ipv4Addr::LOCALHOST);
    stream.write_all(&call((MOUNT_PROGRAM, MOUNT_V3, MOUNTPROC3_MNT), &b"/vol".as_slice())).unwrap();
    let dir = from_bytes::<mountres3>(&receive(&mut stream)).unwrap().unwrap().fhandle;
    let how = createhow3::UNCHECKED(sattr3 { size: Some(4096), ..sattr3::default() });
    let arguments = CREATE3args { r#where: diropargs3 { dir, name: b"f" }, how };
    stream.write_all(&call((NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_CREATE as u32), &arguments)).unwrap();
    from_bytes::<CREATE3res>(&receive(&mut stream)).unwrap().unwrap().obj.unwrap()
}

/// READs with many in flight until told to stop.
fn load(mut stream: TcpStream, file: nfs_fh3, stop: &AtomicBool) {
    let arguments = READ3args { file, offset: 0, count: 4096 };
    let read = call((NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_READ as u32), &arguments);
    stream.write_all(&read.repeat(IN_FLIGHT)).unwrap();
    while !stop.load(Relaxed) {
        receive(&mut stream);
        stream.write_all(&read).unwrap();
    }
}

/// READs of each client and of each connection so far.
fn reads(volume: &Volume) -> (Vec<u64>, Vec<u64>) {
    let stats = volume.stats();
    let of_clients = stats.clients.iter().map(|client| client.io.reads).collect();
    (of_clients, stats.connections.iter().map(|connection| connection.io.reads).collect())
}

fn increase(before: &[u64], after: &[u64]) -> Vec<u64> {
    after.iter().zip(before).map(|(after, before)| after - before).collect()
}

#[test]
fn a_client_with_eight_connections_has_no_more_than_one_with_one() {
    let limits = Limits::of([Cap::iops(IOPS)]);
    let export =
        ExportConfig { store: StoreConfig::Memory { limit_bytes: 64 << 20 }, limits, ..ExportConfig::default() };
    let volume = Volume::start(&VolumeConfig { exports: vec![export], ..VolumeConfig::default() }).unwrap();
    let (file, stop) = (new_file(&volume), AtomicBool::new(false));
    let sources = [[1; 8].as_slice(), &[2]].concat();
    thread::scope(|scope| {
        for source in &sources {
            let stream = connect(&volume, Ipv4Addr::new(127, 0, 0, *source));
            scope.spawn(|| load(stream, file, &stop));
        }
        let patience = Instant::now() + Duration::from_secs(30);
        while volume.stats().connections.iter().filter(|connection| connection.io.reads > 0).count() < sources.len() {
            assert!(Instant::now() < patience, "not all connections are served");
            thread::sleep(Duration::from_millis(10));
        }
        let before = reads(&volume);
        thread::sleep(Duration::from_secs(4));
        let after = reads(&volume);
        stop.store(true, Relaxed);
        let (clients, connections) = (increase(&before.0, &after.0), increase(&before.1, &after.1));
        println!("clients {clients:?}, connections {connections:?}");
        let total: u64 = clients.iter().sum();
        for share in &clients {
            let percent = 100.0 * *share as f64 / (total as f64 / 2.0);
            assert!((98.0..=102.0).contains(&percent), "{clients:?} READs: {percent:.1} % of a half");
        }
        for share in &connections[..8] {
            let percent = 100.0 * *share as f64 / (clients[0] as f64 / 8.0);
            // Beside other tests, threads of the load have too little time to be in flight at each turn.
            assert!((95.0..=105.0).contains(&percent), "{connections:?} READs: {percent:.1} % of an eighth");
        }
    });
}

#[test]
fn a_client_that_floods_has_a_part_of_each_round() {
    let volume = Volume::start(&VolumeConfig { threads: Some(1), ..VolumeConfig::default() }).unwrap();
    let (file, stop) = (new_file(&volume), AtomicBool::new(false));
    let getattr = call((NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_GETATTR as u32), &file);
    let streams: Vec<_> = (0..FLOODS).map(|_| connect(&volume, Ipv4Addr::new(127, 0, 0, 2))).collect();
    let mut own = connect(&volume, Ipv4Addr::new(127, 0, 0, 3));
    let answered = || volume.stats().nfs3_procedures.values().sum::<u64>();
    thread::scope(|scope| {
        for stream in &streams {
            scope.spawn(|| flood(stream, &getattr, &stop));
        }
        let patience = Instant::now() + Duration::from_secs(30);
        while answered() < 100_000 {
            assert!(Instant::now() < patience, "the flood has begun");
            thread::sleep(Duration::from_millis(2));
        }
        let before = answered();
        for _ in 0..OWN_CALLS {
            own.write_all(&getattr).unwrap();
            receive(&mut own);
        }
        let others = answered() - before;
        stop.store(true, Relaxed);
        // Without rounds each of its connections has its whole buffer answered first, which is 25,000 calls.
        assert!(others < OWN_CALLS * OTHERS_MAX, "{others} calls of another client in {OWN_CALLS} of its");
    });
    drop(volume);
}
