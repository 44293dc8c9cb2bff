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
use iocurve_wire::nfs4::attributes::{bitmap4, fattr4};
use iocurve_wire::nfs4::operations::share::{OPEN4_SHARE_ACCESS_BOTH, OPEN4_SHARE_DENY_BOTH};
use iocurve_wire::nfs4::operations::*;
use iocurve_wire::nfs4::{
    NFS_V4, NFSPROC4_COMPOUND, channel_attrs4, client_owner4, compound4_head, compound4_result_head, nfs_fh4, nfsstat4,
    owner_name4, sessionid4, state_owner4,
};
use iocurve_wire::record::{RecordMark, write_record};
use iocurve_wire::rpc::{CallHeader, ReplyHeader, auth_flavor, authsys_parms, opaque_auth};
use iocurve_wire::xdr::{Decode, Encode, Reader, Writer, from_bytes, to_bytes};

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

/// Memory of this process that is not backed by a file, without what earlier tests have given back.
fn memory_bytes() -> u64 {
    // SAFETY: it takes nothing that is in use.
    unsafe { libc::malloc_trim(0) };
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

/// A volume with that much memory, a connection and its root.
fn start_small(limit_bytes: u64) -> (Volume, TcpStream, nfs_fh3) {
    let export = ExportConfig { store: StoreConfig::Memory { limit_bytes }, ..ExportConfig::default() };
    let volume = Volume::start(&VolumeConfig { exports: vec![export], ..VolumeConfig::default() }).unwrap();
    let mut stream = connect(&volume);
    let mount = call((MOUNT_PROGRAM, MOUNT_V3, MOUNTPROC3_MNT), &b"/vol".as_slice());
    let root = from_bytes::<mountres3>(&results(&mut stream, &mount)).unwrap().unwrap().fhandle;
    (volume, stream, root)
}

/// Makes things of one kind, each by its number, until the volume has no space; returns their number, and the memory that they take.
fn fill(make: impl Fn(&mut TcpStream, nfs_fh3, u64) -> nfsstat3) -> (u64, u64) {
    let (_volume, mut stream, root) = start_small(SMALL_BYTES);
    let before = memory_bytes();
    let made = (0..SMALL_BYTES).find(|number| make(&mut stream, root, *number) != nfsstat3::NFS3_OK).unwrap();
    (made, memory_bytes() - before)
}

/// Memory of a small volume.
const SMALL_BYTES: u64 = 32 * MIB;

/// Memory that a full volume takes at most: a quarter more for what allocators and tables keep, and data on their way.
const SMALL_BYTES_MAX: u64 = SMALL_BYTES + SMALL_BYTES / 4 + 8 * MIB;

#[test]
fn what_clients_make_takes_no_more_memory_than_it_counts() {
    let _alone = ALONE.lock();
    let links = fill(|stream, dir, number| {
        let name = format!("{number}");
        let symlink = symlinkdata3 { symlink_attributes: sattr3::default(), symlink_data: &[b'x'; 4095] };
        let arguments = SYMLINK3args { r#where: diropargs3 { dir, name: name.as_bytes() }, symlink };
        let made: CREATE3res = from_bytes(&results(stream, &nfs_call(nfsproc3::NFSPROC3_SYMLINK, &arguments))).unwrap();
        made.map_or_else(|failed| failed.status, |_| nfsstat3::NFS3_OK)
    });
    let names = fill(|stream, dir, number| {
        let name = format!("{number:0>255}");
        let how = createhow3::UNCHECKED(sattr3::default());
        let arguments = CREATE3args { r#where: diropargs3 { dir, name: name.as_bytes() }, how };
        let made: CREATE3res = from_bytes(&results(stream, &nfs_call(nfsproc3::NFSPROC3_CREATE, &arguments))).unwrap();
        made.map_or_else(|failed| failed.status, |_| nfsstat3::NFS3_OK)
    });
    println!("links, names: {links:?}, {names:?}; {SMALL_BYTES_MAX} may be taken");
    assert!(links.1 <= SMALL_BYTES_MAX && names.1 <= SMALL_BYTES_MAX);
    assert!(links.0 > SMALL_BYTES / 6000 && names.0 > SMALL_BYTES / 1100);
}

/// An NFSv4.1 client with one session.
struct Client4 {
    stream: TcpStream,
    session: sessionid4,
    sequence: u32,
}

struct Compound<'a>(&'a [nfs_argop4<'a>]);

impl Encode for Compound<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        compound4_head { tag: b"", minorversion: 1, count: self.0.len() as u32 }.encode(writer);
        self.0.iter().for_each(|operation| operation.encode(writer));
    }
}

/// Sends a COMPOUND; its status, and the bytes of its results.
fn compound(stream: &mut TcpStream, operations: &[nfs_argop4<'_>]) -> (nfsstat4, Vec<u8>) {
    let found = results(stream, &call((NFS_PROGRAM, NFS_V4, NFSPROC4_COMPOUND), &Compound(operations)));
    let mut reader = Reader::new(&found);
    let head = compound4_result_head::decode(&mut reader).unwrap();
    (head.status, reader.rest().to_vec())
}

/// The result of the only operation of a COMPOUND.
fn one_result<'r, R: Decode<'r>>(results: &'r [u8]) -> R {
    let result: Result<R, nfsstat4> = from_bytes(&results[4..]).unwrap();
    result.unwrap()
}

impl Client4 {
    fn new(volume: &Volume) -> Self {
        let mut stream = connect(volume);
        let exchange = EXCHANGE_ID4args {
            eia_clientowner: client_owner4 { co_verifier: [1; 8], co_ownerid: owner_name4(b"client") },
            eia_flags: 0,
            eia_state_protect: state_protect4_a::SP4_NONE(()),
            eia_client_impl_id: None,
        };
        let exchanged = compound(&mut stream, &[nfs_argop4::EXCHANGE_ID(exchange)]).1;
        let channel = channel_attrs4 {
            ca_headerpadsize: 0,
            ca_maxrequestsize: 1 << 20,
            ca_maxresponsesize: 1 << 20,
            ca_maxresponsesize_cached: 1024,
            ca_maxoperations: 128,
            ca_maxrequests: 1,
            ca_rdma_ird: None,
        };
        let create = CREATE_SESSION4args {
            csa_clientid: one_result::<EXCHANGE_ID4resok<'_>>(&exchanged).eir_clientid,
            csa_sequence: 1,
            csa_flags: 0,
            csa_fore_chan_attrs: channel,
            csa_back_chan_attrs: channel,
            csa_cb_program: 0,
            csa_sec_parms: vec![callback_sec_parms4::AUTH_NONE(())],
        };
        let created = compound(&mut stream, &[nfs_argop4::CREATE_SESSION(create)]).1;
        let session = one_result::<CREATE_SESSION4resok>(&created).csr_sessionid;
        let mut client = Self { stream, session, sequence: 0 };
        let complete = nfs_argop4::RECLAIM_COMPLETE(RECLAIM_COMPLETE4args { rca_one_fs: false });
        assert_eq!(client.call(&[complete]), nfsstat4::NFS4_OK);
        client
    }

    fn call(&mut self, operations: &[nfs_argop4<'_>]) -> nfsstat4 {
        self.sequence += 1;
        let sequence = nfs_argop4::SEQUENCE(SEQUENCE4args {
            sa_sessionid: self.session,
            sa_sequenceid: self.sequence,
            sa_slotid: 0,
            sa_highest_slotid: 0,
            sa_cachethis: false,
        });
        compound(&mut self.stream, &[&[sequence], operations].concat()).0
    }
}

/// Opens the file that the last eight bytes of the owner name, with every access and against every other.
fn open(owner: &[u8]) -> nfs_argop4<'_> {
    let attributes = fattr4 { attrmask: bitmap4::default(), attr_vals: &[] };
    nfs_argop4::OPEN(OPEN4args {
        seqid: 0,
        share_access: OPEN4_SHARE_ACCESS_BOTH,
        share_deny: OPEN4_SHARE_DENY_BOTH,
        owner: state_owner4 { clientid: 0, owner: owner_name4(owner) },
        openhow: openflag4::OPEN4_CREATE(createhow4::UNCHECKED4(attributes)),
        claim: open_claim4::CLAIM_NULL(&owner[owner.len() - 8..]),
    })
}

/// Opens files until there is no room for more state; the memory that this takes beyond that of the files. Each has another owner of so
/// many bytes.
fn open_all(owner_bytes: usize) -> (usize, u64) {
    let (volume, _stream, root) = start_small(256 * MIB);
    let (mut client, before, mut opened) = (Client4::new(&volume), memory_bytes(), 0);
    let putfh = || nfs_argop4::PUTFH(PUTFH4args { object: nfs_fh4(root.as_bytes()) });
    loop {
        let names: Vec<_> = (opened..opened + 50).map(|number| format!("{number:0>owner_bytes$}")).collect();
        let operations: Vec<_> = names.iter().flat_map(|name| [putfh(), open(name.as_bytes())]).collect();
        if client.call(&operations) == nfsstat4::NFS4ERR_DELAY {
            let files = volume.stats().exports[0].used_bytes;
            return (opened, memory_bytes().saturating_sub(before + files));
        }
        opened += 50;
    }
}

/// Memory of the states that one client may have.
const STATE_BYTES_MAX: u64 = 65_536 << 10;

#[test]
fn state_takes_a_bounded_amount_whatever_its_owners_are_called() {
    let _alone = ALONE.lock();
    let (short, long) = (open_all(16), open_all(1024));
    println!("opens and bytes: {short:?} with short owners, {long:?} with long ones");
    assert!(short.0 > 65_000 && short.1 <= STATE_BYTES_MAX);
    assert!(long.0 > 65_000 / 10 && long.1 <= STATE_BYTES_MAX);
}
