//! A volume on a real port, and a small client made of the codec.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use iocurve_volume::{
    Cap, ExportConfig, ExportRules, Latency, Limits, Squash, StoreConfig, Volume, VolumeConfig, VolumeError,
};
use iocurve_wire::mount3::{MOUNT_PROGRAM, MOUNT_V3, MOUNTPROC3_MNT, mountres3, mountstat3};
use iocurve_wire::nfs3::*;
use iocurve_wire::portmap::{IPPROTO_TCP, PMAP_PROG, PMAP_VERS, PMAPPROC_GETPORT, mapping};
use iocurve_wire::record::{RecordMark, write_record};
use iocurve_wire::rpc::{Accepted, CallHeader, ReplyHeader, auth_flavor, authsys_parms, opaque_auth};
use iocurve_wire::xdr::{Decode, Encode, Reader, from_bytes, to_bytes};

/// One connection, one call at a time.
struct Client {
    stream: TcpStream,
    xid: u32,
    /// Of the machine; unless a test says otherwise, each client is one of its own.
    name: String,
}

impl Client {
    fn connect(volume: &Volume) -> Self {
        let stream = TcpStream::connect(volume.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let name = stream.local_addr().unwrap().to_string();
        Self { stream, xid: 0, name }
    }

    fn call(&mut self, (prog, vers, proc): (u32, u32, u32), arguments: &impl Encode) -> Vec<u8> {
        self.send((prog, vers, proc), arguments);
        self.receive()
    }

    fn send(&mut self, (prog, vers, proc): (u32, u32, u32), arguments: &impl Encode) {
        self.xid += 1;
        let machinename = self.name.as_bytes();
        let body = to_bytes(&authsys_parms { stamp: 0, machinename, uid: 0, gid: 0, gids: Vec::new() });
        let (xid, verf) = (self.xid, opaque_auth::NONE);
        let cred = opaque_auth { flavor: auth_flavor::AUTH_SYS, body: &body };
        let mut record = Vec::new();
        write_record(&mut record, |writer| {
            CallHeader { xid, rpcvers: 2, prog, vers, proc, cred, verf }.encode(writer);
            arguments.encode(writer);
        });
        self.stream.write_all(&record).unwrap();
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark).unwrap();
        let mut record = vec![0; RecordMark::from_bytes(mark).length as usize];
        self.stream.read_exact(&mut record).unwrap();
        let mut reader = Reader::new(&record);
        let header = ReplyHeader::decode(&mut reader).unwrap();
        assert_eq!(header, ReplyHeader::success(header.xid));
        reader.rest().to_vec()
    }

    fn mount(&mut self, path: &str) -> mountres3 {
        from_bytes(&self.call((MOUNT_PROGRAM, MOUNT_V3, MOUNTPROC3_MNT), &path.as_bytes())).unwrap()
    }

    fn nfs(&mut self, procedure: nfsproc3, arguments: &impl Encode) -> Vec<u8> {
        self.call((NFS_PROGRAM, NFS_V3, procedure as u32), arguments)
    }

    fn create(&mut self, dir: nfs_fh3, name: &str) -> nfs_fh3 {
        let r#where = diropargs3 { dir, name: name.as_bytes() };
        let arguments = CREATE3args { r#where, how: createhow3::UNCHECKED(sattr3::default()) };
        let created: CREATE3res = from_bytes(&self.nfs(nfsproc3::NFSPROC3_CREATE, &arguments)).unwrap();
        created.unwrap().obj.unwrap()
    }

    #[allow(clippy::result_large_err)] // the protocol's own type
    fn write(&mut self, file: nfs_fh3, offset: u64, data: &[u8]) -> WRITE3res {
        let (count, stable) = (data.len() as u32, stable_how::UNSTABLE);
        from_bytes(&self.nfs(nfsproc3::NFSPROC3_WRITE, &WRITE3args { file, offset, count, stable, data })).unwrap()
    }

    fn read(&mut self, file: nfs_fh3, offset: u64, count: u32) -> Vec<u8> {
        let result = self.nfs(nfsproc3::NFSPROC3_READ, &READ3args { file, offset, count });
        let read: READ3res<'_> = from_bytes(&result).unwrap();
        read.unwrap().data.to_vec()
    }

    /// True if the server has closed the connection.
    fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 1]), Ok(0) | Err(_))
    }
}

fn memory() -> VolumeConfig {
    exporting(memory_export())
}

fn memory_export() -> ExportConfig {
    ExportConfig { store: StoreConfig::Memory { limit_bytes: 256 << 20 }, ..ExportConfig::default() }
}

fn exporting(export: ExportConfig) -> VolumeConfig {
    VolumeConfig { exports: vec![export], ..VolumeConfig::default() }
}

#[test]
fn several_connections_share_the_files() {
    let volume = Volume::start(&memory()).unwrap();
    let mut one = Client::connect(&volume);
    let root = one.mount("/vol").unwrap().fhandle;
    let file = one.create(root, "shared");
    let data: Vec<u8> = (0..1 << 20).map(|at| (at % 253) as u8).collect();
    assert_eq!(one.write(file, 4096, &data).unwrap().count, 1 << 20);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut other = Client::connect(&volume);
                assert_eq!(other.read(file, 4096, 1 << 20), data);
                assert_eq!(other.read(file, 4196, 50), data[100..150]);
            });
        }
    });
    let stats = volume.stop().unwrap();
    assert_eq!((stats.io.reads, stats.io.writes, stats.calls.connections_accepted), (16, 1, 9));
    assert_eq!((stats.io.read_bytes, stats.io.write_bytes), (8 * ((1 << 20) + 50), 1 << 20));
}

#[test]
fn what_is_not_exported_is_not_mounted() {
    let volume = Volume::start(&memory()).unwrap();
    let mut client = Client::connect(&volume);
    assert_eq!(client.mount("/other").unwrap_err(), mountstat3::MNT3ERR_NOENT);
    assert_eq!(client.mount("/vol/missing").unwrap_err(), mountstat3::MNT3ERR_NOENT);
}

#[test]
fn the_port_mapper_names_its_own_port() {
    let volume = Volume::start(&memory()).unwrap();
    let asked = mapping { prog: NFS_PROGRAM, vers: NFS_V3, prot: IPPROTO_TCP, port: 0 };
    let port = Client::connect(&volume).call((PMAP_PROG, PMAP_VERS, PMAPPROC_GETPORT), &asked);
    assert_eq!(from_bytes(&port), Ok(u32::from(volume.port())));
}

#[test]
fn a_hostile_peer_loses_its_own_connection_only() {
    let volume = Volume::start(&memory()).unwrap();
    let mut good = Client::connect(&volume);
    let root = good.mount("/vol").unwrap().fhandle;
    let file = good.create(root, "f");
    good.write(file, 0, b"data").unwrap();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4], &[0x80, 0, 0, 4, 0, 0, 0, 1]] {
        let mut bad = Client::connect(&volume);
        bad.stream.write_all(bytes).unwrap();
        assert!(bad.is_closed());
    }
    assert_eq!(good.read(file, 0, 4), b"data");
    let stats = volume.stop().unwrap();
    assert_eq!((stats.calls.protocol_errors, stats.calls.connections_closed), (3, 3));
    assert!(good.is_closed(), "stopping closes all connections");
}

#[test]
fn a_peer_that_does_not_read_stalls_nobody() {
    let volume = Volume::start(&VolumeConfig { threads: Some(1), ..memory() }).unwrap();
    let mut good = Client::connect(&volume);
    let root = good.mount("/vol").unwrap().fhandle;
    let file = good.create(root, "f");
    good.write(file, 0, &vec![7; 1 << 20]).unwrap();
    let mut lazy = Client::connect(&volume);
    for _ in 0..100 {
        lazy.send((NFS_PROGRAM, NFS_V3, 6), &READ3args { file, offset: 0, count: 1 << 20 });
    }
    assert_eq!(good.read(file, 0, 4), [7; 4]);
    for _ in 0..100 {
        assert_eq!(lazy.receive().len(), (1 << 20) + 104);
    }
}

/// The head of a READ of `count` bytes at `offset` is sent; its reply is left where it is.
fn begin_read(client: &mut Client, file: nfs_fh3, offset: u64, count: u32) {
    let read = READ3args { file, offset, count };
    client.send((NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_READ as u32), &read);
}

/// Makes a file look as if nobody had written it for long: data of others are copied.
fn rest(client: &mut Client, object: nfs_fh3) {
    let mtime = set_time::SET_TO_CLIENT_TIME(nfstime3 { seconds: 1, nseconds: 0 });
    let arguments = SETATTR3args { object, new_attributes: sattr3 { mtime, ..sattr3::default() }, guard: None };
    let set: SETATTR3res = from_bytes(&client.nfs(nfsproc3::NFSPROC3_SETATTR, &arguments)).unwrap();
    set.unwrap();
}

fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| ((at * 31 + at / 251) ^ seed) as u8).collect()
}

/// Large replies are sent by reference. A client that has not read one yet gets the data of its file, although the file is gone
/// and its memory has been used for others many times.
#[test]
fn unread_replies_never_show_the_data_of_other_files() {
    let volume = Volume::start(&memory()).unwrap();
    let (mut slow, mut other) = (Client::connect(&volume), Client::connect(&volume));
    let root = other.mount("/vol").unwrap().fhandle;
    let (old, new) = (pattern(2 << 20, 0), pattern(1 << 20, 0x55));
    let file = other.create(root, "old");
    for part in [0, 1 << 20] {
        other.write(file, part as u64, &old[part..][..1 << 20]).unwrap();
    }
    rest(&mut other, file);
    begin_read(&mut slow, file, 5, 1 << 20);
    assert!(slow.stream.peek(&mut [0; 4096]).unwrap() > 0, "a part of the reply has arrived and is not read");
    let mut name = "old".to_owned();
    for round in 0..40 {
        let arguments = REMOVE3args { object: diropargs3 { dir: root, name: name.as_bytes() } };
        let removed: REMOVE3res = from_bytes(&other.nfs(nfsproc3::NFSPROC3_REMOVE, &arguments)).unwrap();
        removed.unwrap();
        name = format!("new-{round}");
        let file = other.create(root, &name);
        for part in 0..8 {
            other.write(file, part << 20, &new).unwrap();
        }
        // Memory is given back once no thread may be sending from it.
        std::thread::sleep(Duration::from_millis(1));
    }
    let reply = slow.receive();
    let read: READ3res<'_> = from_bytes(&reply).unwrap();
    assert!(read.unwrap().data == &old[5..][..1 << 20]);
}

#[test]
fn large_replies_arrive_whole_however_late_they_are_read() {
    let volume = Volume::start(&memory()).unwrap();
    let mut client = Client::connect(&volume);
    let root = client.mount("/vol").unwrap().fhandle;
    let data = pattern(3 << 20, 0);
    let file = client.create(root, "f");
    for part in [0, 1 << 20, 2 << 20] {
        client.write(file, part as u64, &data[part..][..1 << 20]).unwrap();
    }
    rest(&mut client, file);
    let reads: Vec<(u64, u32)> = (0..24).map(|n| (n * 87_381, [1 << 20, 300_001, 4096][n as usize % 3])).collect();
    for (offset, count) in &reads {
        begin_read(&mut client, file, *offset, *count);
    }
    for (offset, count) in reads {
        let reply = client.receive();
        let read: READ3res<'_> = from_bytes(&reply).unwrap();
        let expected = &data[offset as usize..][..count as usize];
        assert!(read.unwrap().data == expected, "{count} at {offset}");
    }
}

#[test]
fn a_limited_volume_answers_everything() {
    let limits =
        Limits { latency: Latency::constant(100_000), ..Limits::of([Cap::bytes_per_s(64 << 20), Cap::iops(20_000)]) };
    let volume = Volume::start(&exporting(ExportConfig { limits, ..memory_export() })).unwrap();
    let mut client = Client::connect(&volume);
    let root = client.mount("/vol").unwrap().fhandle;
    let file = client.create(root, "f");
    for n in 0..20 {
        client.write(file, n * 65_536, &vec![n as u8; 65_536]).unwrap();
    }
    for n in 0..20 {
        assert_eq!(client.read(file, n * 65_536, 65_536), vec![n as u8; 65_536]);
    }
    let stats = volume.stop().unwrap();
    assert_eq!((stats.io.reads, stats.io.writes, stats.io.throttled_operations), (20, 20, 40));
    assert!(stats.io.throttled_ns >= 40 * 100_000);
}

#[test]
fn new_limits_reach_those_who_wait_and_other_exports_never_wait() {
    let other = ExportConfig { path: "/other".to_owned(), ..memory_export() };
    let volume = Volume::start(&VolumeConfig { exports: vec![memory_export(), other], ..VolumeConfig::default() });
    let volume = volume.unwrap();
    let (mut waiting, mut free) = (Client::connect(&volume), Client::connect(&volume));
    let root = waiting.mount("/vol").unwrap().fhandle;
    let file = waiting.create(root, "f");
    waiting.write(file, 0, &[7; 1000]).unwrap();
    // From now on a READ of this file takes a quarter of an hour.
    volume.set_limits("/vol", Limits::of([Cap::bytes_per_s(1)])).unwrap();
    for _ in 0..100 {
        waiting.send((NFS_PROGRAM, NFS_V3, 6), &READ3args { file, offset: 0, count: 1000 });
    }
    while volume.stats().connections[0].in_flight < 100 {
        std::thread::yield_now();
    }
    let root = free.mount("/other").unwrap().fhandle;
    let elsewhere = free.create(root, "f");
    free.write(elsewhere, 0, &[8; 1000]).unwrap();
    assert_eq!(free.read(elsewhere, 0, 1000), [8; 1000]);
    volume.set_limits("/vol", Limits::default()).unwrap();
    for _ in 0..100 {
        assert_eq!(waiting.receive().len(), 1000 + 104);
    }
    let refused = volume.set_limits("/nowhere", Limits::default()).unwrap_err();
    assert_eq!(refused.to_string(), "there is no export /nowhere");
    let refused = volume.set_limits("/vol", Limits::of([Cap::bytes_per_s(5).bursting(4, 5)])).unwrap_err();
    assert_eq!(refused.to_string(), "the burst of 4 bytes per second is below the throughput limit of 5");
}

#[test]
fn who_leaves_while_calls_wait_is_forgotten() {
    let limits = Limits::of([Cap::iops(1)]);
    let volume = Volume::start(&exporting(ExportConfig { limits, ..memory_export() })).unwrap();
    let mut client = Client::connect(&volume);
    let root = client.mount("/vol").unwrap().fhandle;
    let file = client.create(root, "f");
    for _ in 0..5000 {
        client.send((NFS_PROGRAM, NFS_V3, 6), &READ3args { file, offset: 0, count: 1 });
    }
    // The one operation of the burst has been answered; leaving with that unread resets the connection.
    client.stream.peek(&mut [0; 1]).unwrap();
    drop(client);
    let patience = std::time::Instant::now() + Duration::from_secs(20);
    while volume.stats().calls.connections_closed == 0 {
        assert!(std::time::Instant::now() < patience, "the connection is still open");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(volume.stop().unwrap().io.reads, 1);
}

/// A client that has sent its last call shuts its side down: replies that wait for a limit still come.
#[test]
fn a_connection_that_is_half_closed_is_answered() {
    let limits = Limits::of([Cap::iops(10)]);
    let volume = Volume::start(&exporting(ExportConfig { limits, ..memory_export() })).unwrap();
    let mut client = Client::connect(&volume);
    let root = client.mount("/vol").unwrap().fhandle;
    let file = client.create(root, "f");
    client.write(file, 0, b"data").unwrap();
    for _ in 0..4 {
        client.send((NFS_PROGRAM, NFS_V3, 6), &READ3args { file, offset: 0, count: 4 });
    }
    client.stream.shutdown(Shutdown::Write).unwrap();
    for _ in 0..4 {
        let results = client.receive();
        let read: READ3res<'_> = from_bytes(&results).unwrap();
        assert_eq!(read.unwrap().data, b"data");
    }
    assert!(client.is_closed());
}

/// A call that is sent again over a new connection is answered as before: nothing is executed twice.
#[test]
fn a_call_sent_again_after_a_reconnect_is_answered_as_before() {
    let volume = Volume::start(&memory()).unwrap();
    let connect = |xid| {
        let mut client = Client::connect(&volume);
        (client.xid, client.name) = (xid, "the same machine".to_owned());
        client
    };
    let mut before = connect(0);
    let root = before.mount("/vol").unwrap().fhandle;
    before.create(root, "f");
    let remove = |client: &mut Client| {
        let object = diropargs3 { dir: root, name: b"f" };
        client.nfs(nfsproc3::NFSPROC3_REMOVE, &REMOVE3args { object })
    };
    let removed = remove(&mut before);
    assert_eq!(removed[..4], [0; 4], "NFS3_OK");
    drop(before);
    let mut after = connect(2);
    assert_eq!(remove(&mut after), removed, "the first reply, to the byte");
    assert_eq!(remove(&mut after)[..4], (nfsstat3::NFS3ERR_NOENT as u32).to_be_bytes(), "another call");
}

/// NLM (program 100021) is not served, and says so at once, so that clients that want locks fail or fall back.
#[test]
fn the_lock_manager_is_refused() {
    let volume = Volume::start(&memory()).unwrap();
    let mut client = Client::connect(&volume);
    client.send((100_021, 4, 0), &());
    let mut reply = [0; 28];
    client.stream.read_exact(&mut reply).unwrap();
    let header: ReplyHeader<'_> = from_bytes(&reply[4..]).unwrap();
    assert_eq!(header, ReplyHeader::accepted(1, Accepted::PROG_UNAVAIL(())));
    let asked = mapping { prog: 100_021, vers: 4, prot: IPPROTO_TCP, port: 0 };
    let port = client.call((PMAP_PROG, PMAP_VERS, PMAPPROC_GETPORT), &asked);
    assert_eq!(from_bytes(&port), Ok(0_u32), "not registered");
}

#[test]
fn a_directory_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let store = StoreConfig::Directory { path: directory.path().into(), is_async: false };
    // Root's directory is root's to write.
    let rules = ExportRules { squash: Squash::None, ..ExportRules::default() };
    let config = exporting(ExportConfig { store, rules, ..ExportConfig::default() });
    let file = {
        let volume = Volume::start(&config).unwrap();
        let mut client = Client::connect(&volume);
        let root = client.mount("/vol").unwrap().fhandle;
        let file = client.create(root, "f");
        assert_eq!(client.write(file, 0, &vec![5; 100_000]).unwrap().count, 100_000);
        file
    };
    assert_eq!(std::fs::read(directory.path().join("f")).unwrap(), vec![5; 100_000]);
    let volume = Volume::start(&config).unwrap();
    assert_eq!(Client::connect(&volume).read(file, 99_999, 10), [5]);
}

#[test]
fn the_write_verifier_tells_a_restart() {
    let verifier = || {
        let volume = Volume::start(&memory()).unwrap();
        let mut client = Client::connect(&volume);
        let root = client.mount("/vol").unwrap().fhandle;
        let file = client.create(root, "f");
        let written = client.write(file, 0, b"x").unwrap();
        let args = COMMIT3args { file, offset: 0, count: 0 };
        let committed: COMMIT3res = from_bytes(&client.nfs(nfsproc3::NFSPROC3_COMMIT, &args)).unwrap();
        assert_eq!(committed.unwrap().verf, written.verf);
        written.verf
    };
    assert_ne!(verifier(), verifier());
}

#[test]
fn what_cannot_be_served_is_said() {
    let volume = Volume::start(&memory()).unwrap();
    let taken = Volume::start(&VolumeConfig { port: volume.port(), ..memory() }).unwrap_err();
    assert!(matches!(taken, VolumeError::Listen { .. }));
    assert!(taken.to_string().ends_with("; choose another port, or 0 for any free one"), "{taken}");
    let export = Volume::start(&exporting(ExportConfig { path: "vol".to_owned(), ..memory_export() })).unwrap_err();
    assert_eq!(export.to_string(), "the export must be a path that begins with /");
    let store = StoreConfig::Directory { path: "/no/such/directory".into(), is_async: false };
    let directory = Volume::start(&exporting(ExportConfig { store, ..memory_export() })).unwrap_err();
    assert_eq!(
        directory.to_string(),
        "cannot keep files in /no/such/directory: No such file or directory (os error 2)"
    );
    let limits = Limits::of([Cap::iops(0)]);
    assert!(matches!(
        Volume::start(&exporting(ExportConfig { limits, ..memory_export() })),
        Err(VolumeError::Config(_))
    ));
}
