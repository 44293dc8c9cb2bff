//! Memory is bounded over all connections, whatever their peers leave half done. These tests are alone in their process, since they
//! measure its memory; they hold one lock, so that each measures its own.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use iocurve_volume::{Cap, ExportConfig, Limits, StoreConfig, Volume, VolumeConfig};
use iocurve_wire::mount3::{MOUNT_PROGRAM, MOUNT_V3, MOUNTPROC3_MNT, mountres3};
use iocurve_wire::nfs3::*;
use iocurve_wire::record::{RecordMark, write_record};
use iocurve_wire::rpc::{CallHeader, ReplyHeader, auth_flavor, authsys_parms, opaque_auth};
use iocurve_wire::xdr::{Decode, Encode, Reader, from_bytes, to_bytes};

/// Connections that attack at once.
const CONNECTIONS: usize = 5000;

/// As many connections as a listener queues at once; what it drops comes again after a second.
const CONNECT_AT_ONCE: usize = 100;

const MIB: u64 = 1 << 20;

/// Limit of the volume under test.
const LIMIT_BYTES: u64 = 64 * MIB;

/// Memory of a connection that holds nothing large: 44 KiB of pieces, and what the connection is itself.
const CONNECTION_BYTES: u64 = 50 << 10;

/// Beside connections: the data of the volume, and what the allocator and huge pages keep. A turn of each thread is in it.
const OTHER_BYTES: u64 = 64 * MIB;

static ALONE: Mutex<()> = Mutex::new(());

/// Two exports, one of them under a limit.
fn start() -> Volume {
    let export = |path: &str, limits| ExportConfig {
        path: path.to_owned(),
        store: StoreConfig::Memory { limit_bytes: 64 * MIB },
        limits,
        ..ExportConfig::default()
    };
    let exports = vec![export("/vol", Limits::default()), export("/slow", Limits::of([Cap::iops(10)]))];
    Volume::start(&VolumeConfig { exports, connection_memory_bytes: LIMIT_BYTES, ..VolumeConfig::default() }).unwrap()
}

/// Memory of this process that is not backed by a file.
fn memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn connect(volume: &Volume) -> TcpStream {
    connect_from(volume, Ipv4Addr::LOCALHOST)
}

/// Connects from an address of the loopback network.
fn connect_from(volume: &Volume, address: Ipv4Addr) -> TcpStream {
    let end = |address: Ipv4Addr, port: u16| libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(address).to_be() },
        sin_zero: [0; 8],
    };
    let (own, peer) = (end(address, 0), end(Ipv4Addr::LOCALHOST, volume.port()));
    let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: a system call without pointers; the descriptor is new.
    let socket =
        unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)) };
    // SAFETY: an address of ours, and its length.
    assert_eq!(unsafe { libc::bind(socket.as_raw_fd(), (&raw const own).cast(), length) }, 0);
    // SAFETY: an address of ours, and its length.
    assert_eq!(unsafe { libc::connect(socket.as_raw_fd(), (&raw const peer).cast(), length) }, 0);
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// A call with its record mark.
fn call((prog, vers, proc): (u32, u32, u32), arguments: &impl Encode) -> Vec<u8> {
    let body = to_bytes(&authsys_parms { stamp: 1, machinename: b"memory", uid: 7, gid: 7, gids: vec![] });
    let cred = opaque_auth { flavor: auth_flavor::AUTH_SYS, body: &body };
    let mut record = Vec::new();
    write_record(&mut record, |writer| {
        CallHeader { xid: 7, rpcvers: 2, prog, vers, proc, cred, verf: opaque_auth::NONE }.encode(writer);
        arguments.encode(writer);
    });
    record
}

fn nfs_call(procedure: nfsproc3, arguments: &impl Encode) -> Vec<u8> {
    call((NFS_PROGRAM, NFS_V3, procedure as u32), arguments)
}

fn write_call(file: nfs_fh3, data: &[u8]) -> Vec<u8> {
    let (count, stable) = (data.len() as u32, stable_how::UNSTABLE);
    nfs_call(nfsproc3::NFSPROC3_WRITE, &WRITE3args { file, offset: 0, count, stable, data })
}

fn read_call(file: nfs_fh3, count: u32) -> Vec<u8> {
    nfs_call(nfsproc3::NFSPROC3_READ, &READ3args { file, offset: 0, count })
}

fn results(stream: &mut TcpStream, call: &[u8]) -> Vec<u8> {
    stream.write_all(call).unwrap();
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).unwrap();
    let mut reply = vec![0; RecordMark::from_bytes(mark).length as usize];
    stream.read_exact(&mut reply).unwrap();
    let mut reader = Reader::new(&reply);
    assert_eq!(Decode::decode(&mut reader), Ok(ReplyHeader::success(7)));
    reader.rest().to_vec()
}

/// A client that behaves, and its file of 1 MiB.
fn good_client(volume: &Volume, path: &str) -> (TcpStream, nfs_fh3) {
    good_client_on(connect(volume), path)
}

fn good_client_on(mut stream: TcpStream, path: &str) -> (TcpStream, nfs_fh3) {
    let mount = call((MOUNT_PROGRAM, MOUNT_V3, MOUNTPROC3_MNT), &path.as_bytes());
    let dir = from_bytes::<mountres3>(&results(&mut stream, &mount)).unwrap().unwrap().fhandle;
    let arguments =
        CREATE3args { r#where: diropargs3 { dir, name: b"f" }, how: createhow3::UNCHECKED(sattr3::default()) };
    let created = results(&mut stream, &nfs_call(nfsproc3::NFSPROC3_CREATE, &arguments));
    let file = from_bytes::<CREATE3res>(&created).unwrap().unwrap().obj.unwrap();
    let written = results(&mut stream, &write_call(file, &vec![5; MIB as usize]));
    from_bytes::<WRITE3res>(&written).unwrap().unwrap();
    (stream, file)
}

/// Sends as much as the server takes now.
fn send_now(mut stream: &TcpStream, bytes: &[u8]) {
    stream.set_nonblocking(true).unwrap();
    let mut rest = bytes;
    while let Ok(count @ 1..) = stream.write(rest) {
        rest = &rest[count..];
    }
}

/// Small READs and WRITEs, as a client that behaves does them.
fn use_the_volume(good: &mut TcpStream, file: nfs_fh3) {
    from_bytes::<WRITE3res>(&results(good, &write_call(file, &[6; 4096]))).unwrap().unwrap();
    let found = results(good, &read_call(file, 4096));
    assert!(from_bytes::<READ3res<'_>>(&found).unwrap().unwrap().data == [6; 4096]);
}

/// Bytes that make a server hold memory, one kind for each number.
fn attack(number: usize, file: nfs_fh3, slow_file: nfs_fh3) -> Vec<u8> {
    let mut bytes = match number % 4 {
        // A large WRITE that never ends.
        0 => write_call(file, &vec![1; MIB as usize]),
        // A record in a thousand fragments that never ends.
        1 => [&RecordMark { length: 1000, last: false }.to_bytes()[..], &[0; 1000]].concat().repeat(1000),
        // Large READs whose replies nobody takes.
        2 => read_call(file, MIB as u32).repeat(3),
        // Many small READs that wait for a limit.
        _ => read_call(slow_file, 1).repeat(3000),
    };
    // The first ones go as far as they can; for the others there is no memory left, and the system need not hold their bytes either.
    bytes.truncate(if number < CONNECTIONS / 5 { MIB as usize - 1000 } else { 48 << 10 });
    bytes
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < patience, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// While connections of four kinds attack, a client goes on to read and to write, and the memory that all hold is bounded.
#[test]
fn five_thousand_connections_hold_a_bounded_amount() {
    let _alone = ALONE.lock();
    let volume = start();
    let ((mut good, file), (_slow, slow_file)) = (good_client(&volume, "/vol"), good_client(&volume, "/slow"));
    let (before, mut most, mut attackers) = (memory_bytes(), 0, Vec::new());
    while attackers.len() < CONNECTIONS {
        attackers.extend((0..CONNECT_AT_ONCE).map(|_| connect(&volume)));
        let all = attackers.len() as u64 + 2;
        wait_until("all are accepted", || volume.stats().calls.connections_accepted == all);
        for (number, stream) in attackers.iter().enumerate().skip(attackers.len() - CONNECT_AT_ONCE) {
            send_now(stream, &attack(number, file, slow_file));
        }
        use_the_volume(&mut good, file);
        most = most.max(memory_bytes());
    }
    let bound = LIMIT_BYTES + CONNECTIONS as u64 * CONNECTION_BYTES + OTHER_BYTES;
    let held = most - before;
    println!("{} MiB were held, {} MiB may be: {:?}", held / MIB, bound / MIB, volume.stats().calls);
    assert!(held <= bound, "{held} bytes were held, {bound} may be");
    // Large transfers of the good client get their memory, too: those who stall lose theirs.
    from_bytes::<WRITE3res>(&results(&mut good, &write_call(file, &vec![9; MIB as usize]))).unwrap().unwrap();
    let found = results(&mut good, &read_call(file, MIB as u32));
    assert!(from_bytes::<READ3res<'_>>(&found).unwrap().unwrap().data.iter().all(|byte| *byte == 9));
    assert!(volume.stats().calls.connections_timed_out > 0);
    drop(attackers);
    wait_until("all memory is given back", || volume.stats().connection_memory_bytes < MIB);
}

#[test]
fn connections_beyond_the_limit_are_closed_at_once() {
    let _alone = ALONE.lock();
    let volume = Volume::start(&VolumeConfig { connections_max: 3, ..VolumeConfig::default() }).unwrap();
    let mut open: Vec<_> = (0..3).map(|_| good_client(&volume, "/vol").0).collect();
    assert!(is_closed(&mut connect(&volume)));
    assert_eq!(volume.stats().calls.connections_refused, 1);
    drop(open.pop());
    wait_until("one has gone", || volume.stats().connections.len() == 2);
    good_client(&volume, "/vol");
}

/// Idle connections of one address leave room for those of others, and for those of the same one.
#[test]
fn idle_connections_give_way() {
    let _alone = ALONE.lock();
    let volume = Volume::start(&VolumeConfig { connections_max: 50, ..VolumeConfig::default() }).unwrap();
    let mut idle: Vec<_> = (0..50).map(|_| connect(&volume)).collect();
    wait_until("all are accepted", || volume.stats().connections.len() == 50);
    let other = Ipv4Addr::new(127, 0, 0, 2);
    let mut others: Vec<_> = (0..25).map(|_| good_client_on(connect_from(&volume, other), "/vol")).collect();
    assert!(is_closed(&mut connect_from(&volume, other)), "it has its share");
    for (stream, file) in &mut others {
        use_the_volume(stream, *file);
    }
    wait_until("the longest idle have gone", || volume.stats().connections.len() == 50);
    assert!(idle[..25].iter_mut().all(is_closed));
    std::thread::sleep(Duration::from_millis(1100));
    good_client(&volume, "/vol");
    assert!(is_closed(&mut idle[25]));
    assert_eq!(volume.stats().calls.connections_timed_out, 26);
}

/// True if the server has closed a connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_))
}
