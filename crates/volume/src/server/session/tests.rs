//! Client and server meet in one process, over a pipe and under a clock that the test holds.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use libc::iovec;

use proptest::prelude::*;

use iocurve_meter::{Clock, SECOND};
use iocurve_wire::mount3::{MOUNT_PROGRAM, MOUNT_V3, MOUNTPROC3_MNT, mountres3, mountstat3};
use iocurve_wire::nfs3::*;
use iocurve_wire::record::{RECORD_MARK_BYTES, RecordMark, write_record};
use iocurve_wire::rpc::{
    Accepted, AcceptedReply, CallHeader, Rejected, ReplyBody, ReplyHeader, auth_flavor, auth_stat, authsys_parms,
    mismatch_info, opaque_auth,
};
use iocurve_wire::xdr::{Decode, Encode, Reader, from_bytes, to_bytes};

use super::super::incoming::{BATCH_BYTES, INPUT_BYTES};
use super::*;
use crate::memory::ConnectionMemory;
use crate::nfs4_state::State;
use crate::pending::PENDING_MAX;
use crate::programs::turn::TurnLength;
use crate::qos::{Cap, Kind, Latency, Limits, Parallelism};
use crate::reply::cache::Repeated;
use crate::served::rules::{ClientRule, ExportRules, Squash};
use crate::served::{Export, Exports, Served};
use crate::stats::{Counters, IoStats};
use crate::store::Files;
use crate::store::access::Caller;
use crate::store::memory::MemoryStore;
use crate::store::{Creation, Store};

/// The client's end: an unprivileged port of this machine.
const PEER: ([u8; 4], u16) = ([127, 0, 0, 1], 40_000);

/// Changes files for a test.
const ROOT: Caller = Caller::new(0, 0);

mod nfs4;

/// Both ends of a connection. What the server may send is limited by `room`.
struct Pipe {
    to_server: VecDeque<u8>,
    to_client: Vec<u8>,
    room: usize,
    /// Most bytes that the server receives at once.
    grain: usize,
    ended: bool,
}

impl Transport for Pipe {
    unsafe fn receive(&mut self, into: &[iovec]) -> io::Result<usize> {
        let mut count = 0;
        for piece in into {
            let length = piece.iov_len.min(self.to_server.len()).min(self.grain - count);
            let bytes: Vec<u8> = self.to_server.drain(..length).collect();
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), piece.iov_base.cast(), length) };
            count += length;
        }
        if count == 0 && !self.ended { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }

    unsafe fn send(&mut self, from: &[iovec]) -> io::Result<usize> {
        let mut count = 0;
        for piece in from {
            let length = piece.iov_len.min(self.room);
            // SAFETY: the caller's promise.
            self.to_client.extend_from_slice(unsafe { std::slice::from_raw_parts(piece.iov_base.cast(), length) });
            self.room -= length;
            count += length;
        }
        if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }
}

/// A server with one connection.
struct Server {
    worker: Worker,
    session: Session,
    pipe: Pipe,
    now: Nanos,
    xid: u32,
}

impl Server {
    fn new(limits: Limits) -> Self {
        let exports = Exports::new(vec![export(*b"sessions", limits)]).unwrap();
        let nfs4 = State::new("sessions".to_owned(), [0; 16], Vec::new(), 0);
        let served = Served::new(exports, 2049, *b"verifier", ConnectionMemory::default(), nfs4);
        let pipe = Pipe {
            to_server: VecDeque::new(),
            to_client: Vec::new(),
            room: usize::MAX,
            grain: usize::MAX,
            ended: false,
        };
        let session = Session::new(7, PEER.into(), &served.exports);
        let worker = Worker::new(Arc::new(served), 0, Arc::new(Counters::new(1)), INPUT_BYTES);
        Self { worker, session, pipe, now: 0, xid: 0 }
    }

    /// Serves other exports over a new connection.
    fn set_exports(&mut self, exports: Vec<Export>) {
        let exports = Exports::new(exports).unwrap();
        self.worker.counters = Arc::new(Counters::new(exports.iter().len()));
        self.session = Session::new(7, PEER.into(), &exports);
        Arc::get_mut(&mut self.worker.served).unwrap().exports = exports;
    }

    /// Serves under other rules over a new connection.
    fn set_rules(&mut self, rules: ExportRules) {
        self.set_exports(vec![export(*b"sessions", Limits::default()).with_rules(rules)]);
    }

    fn turn(&mut self) -> Result<Interest, Close> {
        self.session.turn(&mut self.worker, &mut self.pipe, self.now)
    }

    /// Turns until nothing is left to do now.
    fn run(&mut self) -> Result<(), Close> {
        loop {
            self.worker.collect(self.now);
            while let Some(delayed) = self.worker.timers.pop(self.now) {
                assert_eq!(delayed.connection, 7);
                self.session.due(delayed);
            }
            let input = self.pipe.to_server.len();
            let interest = self.turn()?;
            if interest != Interest::Turn && self.pipe.to_server.len() == input {
                return Ok(());
            }
        }
    }

    fn send(&mut self, call: &[u8]) {
        self.pipe.to_server.extend(call);
    }

    fn nfs(&mut self, procedure: nfsproc3, arguments: &impl Encode) -> u32 {
        self.xid += 1;
        let record = call(self.xid, (NFS_PROGRAM, NFS_V3, procedure as u32), arguments);
        self.send(&record);
        self.xid
    }

    /// Results of all replies that have arrived, by xid.
    fn replies(&mut self) -> Vec<(u32, Vec<u8>)> {
        let mut replies = Vec::new();
        let arrived = std::mem::take(&mut self.pipe.to_client);
        let mut rest = arrived.as_slice();
        while let Some((mark, behind)) = rest.split_first_chunk() {
            let mark = RecordMark::from_bytes(*mark);
            let Some(record) = behind.get(..mark.length as usize) else { break };
            assert!(mark.last);
            let mut reader = Reader::new(record);
            let header = ReplyHeader::decode(&mut reader).unwrap();
            assert_eq!(header, ReplyHeader::success(header.xid));
            replies.push((header.xid, reader.rest().to_vec()));
            rest = &behind[record.len()..];
        }
        self.pipe.to_client = rest.to_vec();
        replies
    }

    fn result(&mut self) -> Vec<u8> {
        self.run().unwrap();
        let mut replies = self.replies();
        assert_eq!(replies.len(), 1);
        replies.remove(0).1
    }

    /// A new file with these bytes.
    fn file(&mut self, data: &[u8]) -> nfs_fh3 {
        let root = self.files().root();
        let how = createhow3::UNCHECKED(sattr3::default());
        self.nfs(nfsproc3::NFSPROC3_CREATE, &CREATE3args { r#where: diropargs3 { dir: root, name: b"f" }, how });
        let created: CREATE3res = from_bytes(&self.result()).unwrap();
        let file = created.unwrap().obj.unwrap();
        self.files().write(&Caller::default(), file.as_bytes(), 0, data, stable_how::UNSTABLE).unwrap();
        file
    }

    /// Changes the rules for a new connection, and keeps the files.
    fn change_rules(&mut self, rules: &ExportRules) {
        let served = Arc::get_mut(&mut self.worker.served).unwrap();
        served.exports.set_rules(rules);
        self.session = Session::new(7, PEER.into(), &served.exports);
    }

    #[allow(clippy::result_large_err)] // the protocol's own type
    fn create_as(&mut self, cred: &[u8], name: &[u8], new: sattr3) -> Result<nfs_fh3, nfsstat3> {
        let (dir, how) = (self.files().root(), createhow3::UNCHECKED(new));
        let program = (NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_CREATE as u32);
        self.xid += 1;
        self.send(&call_with(cred, self.xid, program, &CREATE3args { r#where: diropargs3 { dir, name }, how }));
        let created: CREATE3res = from_bytes(&self.result()).unwrap();
        created.map(|created| created.obj.unwrap()).map_err(|failed| failed.status)
    }

    fn owner(&self, file: nfs_fh3) -> (u32, u32) {
        let found = self.files().getattr(file.as_bytes()).unwrap();
        (found.uid, found.gid)
    }

    fn read(&mut self, file: nfs_fh3, offset: u64, count: u32) -> u32 {
        self.nfs(nfsproc3::NFSPROC3_READ, &READ3args { file, offset, count })
    }

    fn write(&mut self, file: nfs_fh3, offset: u64, data: &[u8]) -> u32 {
        let (count, stable) = (data.len() as u32, stable_how::DATA_SYNC);
        self.nfs(nfsproc3::NFSPROC3_WRITE, &WRITE3args { file, offset, count, stable, data })
    }

    /// Sends a READ, a short WRITE and a long one, with xids from 101 on.
    fn send_transfers(&mut self, cred: &[u8], file: nfs_fh3) {
        let (data, stable) = (pattern(100_001), stable_how::UNSTABLE);
        let write = |count: u32| WRITE3args { file, offset: 0, count, stable, data: &data[..count as usize] };
        let program = |procedure: nfsproc3| (NFS_PROGRAM, NFS_V3, procedure as u32);
        let read = READ3args { file, offset: 0, count: 4 };
        self.send(&call_with(cred, 101, program(nfsproc3::NFSPROC3_READ), &read));
        self.send(&call_with(cred, 102, program(nfsproc3::NFSPROC3_WRITE), &write(3)));
        self.send(&call_with(cred, 103, program(nfsproc3::NFSPROC3_WRITE), &write(100_001)));
    }

    /// Results of a READ, a short WRITE and a long one.
    fn transfers(&mut self, cred: &[u8], file: nfs_fh3) -> Vec<Vec<u8>> {
        self.send_transfers(cred, file);
        self.run().unwrap();
        self.replies().into_iter().map(|(_, result)| result).collect()
    }

    fn files(&self) -> &Files {
        &self.worker.served.exports.numbered(0).files
    }

    fn stats(&self) -> IoStats {
        self.worker.counters.exports[0].read()
    }
}

fn export(id: [u8; 8], limits: Limits) -> Export {
    let files = Files::Memory(MemoryStore::new(id, 1 << 30, 1 << 30).unwrap());
    Export::new("/vol".to_owned(), files, limits, 1, 0)
}

fn call(xid: u32, program: (u32, u32, u32), arguments: &impl Encode) -> Vec<u8> {
    call_with(&credential(1000, 100), xid, program, arguments)
}

fn credential(uid: u32, gid: u32) -> Vec<u8> {
    to_bytes(&authsys_parms { stamp: 0, machinename: b"test", uid, gid, gids: vec![] })
}

/// A call with this `AUTH_SYS` credential.
fn call_with(body: &[u8], xid: u32, (prog, vers, proc): (u32, u32, u32), arguments: &impl Encode) -> Vec<u8> {
    let cred = opaque_auth { flavor: auth_flavor::AUTH_SYS, body };
    let mut record = Vec::new();
    write_record(&mut record, |writer| {
        CallHeader { xid, rpcvers: 2, prog, vers, proc, cred, verf: opaque_auth::NONE }.encode(writer);
        arguments.encode(writer);
    });
    record
}

/// A call whose arguments are encoded already.
fn raw_call(xid: u32, procedure: nfsproc3, arguments: &[u8]) -> Vec<u8> {
    let mut record = call(xid, (NFS_PROGRAM, NFS_V3, procedure as u32), &());
    record.extend_from_slice(arguments);
    let length = (record.len() - RECORD_MARK_BYTES) as u32;
    record[..RECORD_MARK_BYTES].copy_from_slice(&RecordMark { length, last: true }.to_bytes());
    record
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

fn data_of(result: &[u8]) -> Vec<u8> {
    let read: READ3res<'_> = from_bytes(result).unwrap();
    read.unwrap().data.to_vec()
}

#[test]
fn files_belong_to_their_caller() {
    let mut server = Server::new(Limits::default());
    let object = server.file(b"data");
    server.nfs(nfsproc3::NFSPROC3_GETATTR, &GETATTR3args { object });
    let result: GETATTR3res = from_bytes(&server.result()).unwrap();
    let attributes = result.unwrap().obj_attributes;
    assert_eq!((attributes.uid, attributes.gid, attributes.size), (1000, 100, 4));
}

/// Each row: mode of a file of user 1000 and group 100, who calls, and what becomes of a READ, a short WRITE and a long one.
#[test]
#[allow(clippy::result_large_err)] // the protocol's own type
fn data_are_only_for_whom_the_mode_allows() {
    let (ok, refused) = (nfsstat3::NFS3_OK, nfsstat3::NFS3ERR_ACCES);
    let cases = [
        (0o600, (1000, 100), [ok, ok, ok]),
        (0o000, (1000, 5), [ok, ok, ok]), // the owner goes on with a file opened before
        (0o000, (0, 0), [ok, ok, ok]),
        (0o606, (7, 100), [refused, refused, refused]),
        (0o640, (7, 100), [ok, refused, refused]),
        (0o642, (7, 5), [refused, ok, ok]),
        (0o611, (7, 5), [ok, refused, refused]), // to execute it, it must be loaded
    ];
    for (mode, (uid, gid), expected) in cases {
        for grain in [1000, usize::MAX] {
            let mut server = Server::new(Limits::default());
            server.set_rules(ExportRules { squash: Squash::None, ..ExportRules::default() });
            let file = server.file(b"data");
            let new = sattr3 { mode: Some(mode), ..sattr3::default() };
            server.files().setattr(&ROOT, file.as_bytes(), &new, None).result.unwrap();
            server.pipe.grain = grain;
            let before = server.files().getattr(file.as_bytes()).unwrap();
            let found = server.transfers(&credential(uid, gid), file);
            let [read, short, long] = &found[..] else { panic!("{} replies", found.len()) };
            let read: READ3res<'_> = from_bytes(read).unwrap();
            let writes = [short, long].map(|result| from_bytes::<WRITE3res>(result).unwrap());
            let status = |result: &WRITE3res| result.as_ref().map_or_else(|failed| failed.status, |_| ok);
            let statuses = [read.map_or_else(|failed| failed.status, |_| ok), status(&writes[0]), status(&writes[1])];
            assert_eq!(statuses, expected, "{mode:o} by {uid}/{gid}");
            if expected[1] == refused {
                // Nothing has changed, and the reply says so.
                let rest = wcc_data { before: None, after: Some(before) };
                assert_eq!(writes, [Err(Failed { status: refused, rest }), Err(Failed { status: refused, rest })]);
                assert_eq!(server.files().getattr(file.as_bytes()), Ok(before));
            }
        }
    }
}

#[test]
fn a_refused_read_carries_attributes_and_no_data() {
    for limits in [Limits::default(), Limits::of([Cap::iops(1)])] {
        let mut server = Server::new(limits);
        let file = server.file(b"data");
        let new = sattr3 { mode: Some(0o600), ..sattr3::default() };
        server.files().setattr(&ROOT, file.as_bytes(), &new, None).result.unwrap();
        let read = READ3args { file, offset: 0, count: 4 };
        let stranger = credential(7, 7);
        for xid in [8, 9] {
            server.send(&call_with(&stranger, xid, (NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_READ as u32), &read));
        }
        server.run().unwrap();
        // Both at once, also under limits: what is refused costs nothing.
        let attributes = server.files().getattr(file.as_bytes()).unwrap();
        let refused: READ3res<'_> = Err(Failed { status: nfsstat3::NFS3ERR_ACCES, rest: Some(attributes) });
        assert_eq!(server.replies(), [(8, to_bytes(&refused)), (9, to_bytes(&refused))]);
        assert_eq!(server.stats().reads, 0);
    }
}

#[test]
fn callers_of_one_connection_are_told_apart() {
    let mut server = Server::new(Limits::default());
    let file = server.file(b"data");
    let new = sattr3 { mode: Some(0o600), ..sattr3::default() };
    server.files().setattr(&ROOT, file.as_bytes(), &new, None).result.unwrap();
    let read = READ3args { file, offset: 0, count: 4 };
    for (xid, uid) in [(1, 1000), (2, 7), (3, 7), (4, 1000)] {
        let cred = credential(uid, 7);
        server.send(&call_with(&cred, xid, (NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_READ as u32), &read));
    }
    server.run().unwrap();
    let is_ok = |(xid, result): (u32, Vec<u8>)| (xid, from_bytes::<READ3res<'_>>(&result).unwrap().is_ok());
    let answered: Vec<_> = server.replies().into_iter().map(is_ok).collect();
    assert_eq!(answered, [(1, true), (2, false), (3, false), (4, true)]);
}

/// A credential that is none is refused for data, too, and the data of a long WRITE are stepped over.
#[test]
fn data_are_not_for_callers_that_cannot_be_read() {
    for grain in [1000, usize::MAX] {
        let mut server = Server::new(Limits::default());
        let file = server.file(b"data");
        server.pipe.grain = grain;
        server.send_transfers(b"none", file);
        server.read(file, 0, 4);
        server.run().unwrap();
        let mut denied = Vec::new();
        for xid in [101, 102, 103] {
            let reply = ReplyHeader::denied(xid, Rejected::AUTH_ERROR(auth_stat::AUTH_BADCRED));
            write_record(&mut denied, |writer| reply.encode(writer));
        }
        let replies = std::mem::take(&mut server.pipe.to_client);
        assert_eq!(replies[..denied.len()], denied);
        server.pipe.to_client = replies[denied.len()..].to_vec();
        assert_eq!(data_of(&server.replies()[0].1), b"data");
    }
}

/// READs and WRITEs of root are the anonymous user's, unless the export trusts its clients.
#[test]
#[allow(clippy::result_large_err)] // the protocol's own type
fn root_is_squashed_for_data_and_for_names() {
    let trusting = ExportRules { squash: Squash::None, ..ExportRules::default() };
    for (rules, is_root) in [(ExportRules::default(), false), (trusting, true)] {
        let mut server = Server::new(Limits::default());
        server.set_rules(rules);
        let file = server.file(b"data");
        let new = sattr3 { mode: Some(0o600), ..sattr3::default() };
        server.files().setattr(&ROOT, file.as_bytes(), &new, None).result.unwrap();
        let found = server.transfers(&credential(0, 0), file);
        let is_written = |result: &Vec<u8>| from_bytes::<WRITE3res>(result).unwrap().is_ok();
        let is_read = from_bytes::<READ3res<'_>>(&found[0]).unwrap().is_ok();
        assert_eq!([is_read, is_written(&found[1]), is_written(&found[2])], [is_root; 3]);
        let owner = if is_root { (0, 0) } else { (65534, 65534) };
        let made = server.create_as(&credential(0, 0), b"new", sattr3::default()).unwrap();
        assert_eq!(server.owner(made), owner);
        let given_away = server.create_as(&credential(0, 0), b"gift", sattr3 { uid: Some(7), ..sattr3::default() });
        assert_eq!(server.owner(given_away.unwrap()).0, if is_root { 7 } else { 65534 });
    }
}

#[test]
fn callers_without_a_credential_are_the_anonymous_user() {
    let mut server = Server::new(Limits::default());
    let rules = ExportRules { anonuid: 12, anongid: 34, squash: Squash::None, ..ExportRules::default() };
    server.set_rules(rules);
    let (dir, how) = (server.files().root(), createhow3::UNCHECKED(sattr3::default()));
    let arguments = CREATE3args { r#where: diropargs3 { dir, name: b"f" }, how };
    let (prog, vers, proc) = (NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_CREATE as u32);
    let mut record = Vec::new();
    write_record(&mut record, |writer| {
        let (cred, verf) = (opaque_auth::NONE, opaque_auth::NONE);
        CallHeader { xid: 1, rpcvers: 2, prog, vers, proc, cred, verf }.encode(writer);
        arguments.encode(writer);
    });
    server.send(&record);
    let created: CREATE3res = from_bytes(&server.result()).unwrap();
    assert_eq!(server.owner(created.unwrap().obj.unwrap()), (12, 34));
}

/// A caller of two exports on one connection has another user in each.
#[test]
fn each_export_squashes_by_its_own_rules() {
    let mut server = Server::new(Limits::default());
    let squash = |squash| ExportRules { squash, ..ExportRules::default() };
    let exports = [(*b"export-a", Squash::All), (*b"export-b", Squash::None), (*b"export-c", Squash::Root)];
    server.set_exports(exports.map(|(id, kind)| export(id, Limits::default()).with_rules(squash(kind))).into());
    let write = |server: &mut Server, number: usize, uid: u32| {
        let files = &server.worker.served.exports.numbered(number).files;
        let how = createhow3::UNCHECKED(sattr3 { mode: Some(0o600), ..sattr3::default() });
        let (root, owner) = (files.root(), Caller::new(1000, 100));
        let file = files.create(&owner, root.as_bytes(), b"f", Creation::File(how)).result.unwrap().handle;
        let arguments = WRITE3args { file, offset: 0, count: 1, stable: stable_how::UNSTABLE, data: b"x" };
        let program = (NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_WRITE as u32);
        server.send(&call_with(&credential(uid, 100), 1, program, &arguments));
        from_bytes::<WRITE3res>(&server.result()).unwrap().is_ok()
    };
    let written = |server: &mut Server, uid| [0, 1, 2, 0].map(|number| write(server, number, uid));
    assert_eq!(written(&mut server, 1000), [false, true, true, false]);
    assert_eq!(written(&mut server, 0), [false, true, false, false]);
    assert_eq!(written(&mut server, 1000), [false, true, true, false]);
}

/// Each procedure, with arguments that would be executed for a client that may.
fn one_of_each(dir: nfs_fh3, file: nfs_fh3) -> Vec<(nfsproc3, Vec<u8>)> {
    let at = |name: &'static [u8]| diropargs3 { dir, name };
    let (none, new) = (sattr3::default(), sattr3 { mode: Some(0o600), ..sattr3::default() });
    let how = createhow3::UNCHECKED(none);
    let link = symlinkdata3 { symlink_attributes: none, symlink_data: b"target" };
    let (cookie, cookieverf) = (0, *b"sessions");
    vec![
        (nfsproc3::NFSPROC3_GETATTR, to_bytes(&file)),
        (nfsproc3::NFSPROC3_LOOKUP, to_bytes(&at(b"f"))),
        (nfsproc3::NFSPROC3_ACCESS, to_bytes(&ACCESS3args { object: file, access: 0x3f })),
        (nfsproc3::NFSPROC3_READLINK, to_bytes(&file)),
        (nfsproc3::NFSPROC3_READ, to_bytes(&READ3args { file, offset: 0, count: 4 })),
        (nfsproc3::NFSPROC3_READDIR, to_bytes(&READDIR3args { dir, cookie, cookieverf, count: 4096 })),
        (
            nfsproc3::NFSPROC3_READDIRPLUS,
            to_bytes(&READDIRPLUS3args { dir, cookie, cookieverf, dircount: 4096, maxcount: 4096 }),
        ),
        (nfsproc3::NFSPROC3_FSSTAT, to_bytes(&file)),
        (nfsproc3::NFSPROC3_FSINFO, to_bytes(&file)),
        (nfsproc3::NFSPROC3_PATHCONF, to_bytes(&file)),
        (nfsproc3::NFSPROC3_COMMIT, to_bytes(&COMMIT3args { file, offset: 0, count: 0 })),
        // The changes.
        (nfsproc3::NFSPROC3_SETATTR, to_bytes(&SETATTR3args { object: file, new_attributes: new, guard: None })),
        (
            nfsproc3::NFSPROC3_WRITE,
            to_bytes(&WRITE3args { file, offset: 0, count: 4, stable: stable_how::UNSTABLE, data: b"more" }),
        ),
        (nfsproc3::NFSPROC3_CREATE, to_bytes(&CREATE3args { r#where: at(b"g"), how })),
        (nfsproc3::NFSPROC3_MKDIR, to_bytes(&MKDIR3args { r#where: at(b"d"), attributes: none })),
        (nfsproc3::NFSPROC3_SYMLINK, to_bytes(&SYMLINK3args { r#where: at(b"s"), symlink: link })),
        (nfsproc3::NFSPROC3_MKNOD, to_bytes(&MKNOD3args { r#where: at(b"p"), what: mknoddata3::NF3FIFO(none) })),
        (nfsproc3::NFSPROC3_RENAME, to_bytes(&RENAME3args { from: at(b"f"), to: at(b"r") })),
        (nfsproc3::NFSPROC3_LINK, to_bytes(&LINK3args { file, link: at(b"l") })),
        (nfsproc3::NFSPROC3_REMOVE, to_bytes(&REMOVE3args { object: at(b"f") })),
        (nfsproc3::NFSPROC3_RMDIR, to_bytes(&RMDIR3args { object: at(b"f") })),
    ]
}

/// Status of a result and the bytes that follow.
fn status(result: &[u8]) -> (u32, &[u8]) {
    let (status, rest) = result.split_first_chunk().unwrap();
    (u32::from_be_bytes(*status), rest)
}

fn assert_is_a_failure(procedure: nfsproc3, result: &[u8]) {
    let is_decoded = match procedure {
        nfsproc3::NFSPROC3_GETATTR => from_bytes::<GETATTR3res>(result).is_ok(),
        nfsproc3::NFSPROC3_SETATTR => from_bytes::<SETATTR3res>(result).is_ok(),
        nfsproc3::NFSPROC3_LOOKUP => from_bytes::<LOOKUP3res>(result).is_ok(),
        nfsproc3::NFSPROC3_ACCESS => from_bytes::<ACCESS3res>(result).is_ok(),
        nfsproc3::NFSPROC3_READLINK => from_bytes::<READLINK3res<'_>>(result).is_ok(),
        nfsproc3::NFSPROC3_READ => from_bytes::<READ3res<'_>>(result).is_ok(),
        nfsproc3::NFSPROC3_WRITE => from_bytes::<WRITE3res>(result).is_ok(),
        nfsproc3::NFSPROC3_READDIR => from_bytes::<READDIR3res<'_>>(result).is_ok(),
        nfsproc3::NFSPROC3_READDIRPLUS => from_bytes::<READDIRPLUS3res<'_>>(result).is_ok(),
        nfsproc3::NFSPROC3_FSSTAT => from_bytes::<FSSTAT3res>(result).is_ok(),
        nfsproc3::NFSPROC3_FSINFO => from_bytes::<FSINFO3res>(result).is_ok(),
        nfsproc3::NFSPROC3_PATHCONF => from_bytes::<PATHCONF3res>(result).is_ok(),
        nfsproc3::NFSPROC3_COMMIT => from_bytes::<COMMIT3res>(result).is_ok(),
        nfsproc3::NFSPROC3_RENAME => from_bytes::<RENAME3res>(result).is_ok(),
        nfsproc3::NFSPROC3_LINK => from_bytes::<LINK3res>(result).is_ok(),
        nfsproc3::NFSPROC3_REMOVE | nfsproc3::NFSPROC3_RMDIR => from_bytes::<REMOVE3res>(result).is_ok(),
        _ => from_bytes::<CREATE3res>(result).is_ok(),
    };
    assert!(is_decoded, "{procedure:?}: {result:?}");
}

#[test]
fn a_client_that_may_not_use_an_export_learns_nothing_of_it() {
    let elsewhere = ClientRule { network: "10.0.0.0/8".parse().unwrap(), read_only: false };
    let cases = [
        ExportRules { clients: vec![elsewhere], ..ExportRules::default() },
        ExportRules { secure_ports: true, ..ExportRules::default() },
    ];
    for rules in cases {
        let mut server = Server::new(Limits::default());
        let (file, root) = (server.file(b"data"), server.files().root());
        let before = server.files().getattr(file.as_bytes()).unwrap();
        server.change_rules(&rules);
        for (number, (procedure, arguments)) in one_of_each(root, file).into_iter().enumerate() {
            server.send(&raw_call(number as u32, procedure, &arguments));
            let result = server.result();
            let (status, rest) = status(&result);
            assert_eq!(status, nfsstat3::NFS3ERR_ACCES as u32, "{procedure:?}");
            assert!(rest.iter().all(|byte| *byte == 0), "{procedure:?} tells of the file");
            assert_is_a_failure(procedure, &result);
        }
        assert_eq!(server.files().getattr(file.as_bytes()), Ok(before));
        server.send(&call(1, (MOUNT_PROGRAM, MOUNT_V3, MOUNTPROC3_MNT), &b"/vol".as_slice()));
        let mounted: mountres3 = from_bytes(&server.result()).unwrap();
        assert_eq!(mounted.unwrap_err(), mountstat3::MNT3ERR_ACCES);
        // A long WRITE is refused before its data have come, and they are skipped.
        server.pipe.grain = 1000;
        server.write(file, 0, &pattern(100_000));
        assert_eq!(status(&server.result()).0, nfsstat3::NFS3ERR_ACCES as u32);
        assert_eq!(server.files().getattr(file.as_bytes()), Ok(before));
    }
}

#[test]
fn a_read_only_client_changes_nothing() {
    let here = ClientRule { network: "127.0.0.0/8".parse().unwrap(), read_only: true };
    let cases = [
        ExportRules { clients: vec![here], ..ExportRules::default() },
        ExportRules { read_only: true, ..ExportRules::default() },
    ];
    for rules in cases {
        let mut server = Server::new(Limits::default());
        let (file, root) = (server.file(b"data"), server.files().root());
        let before = server.files().getattr(file.as_bytes()).unwrap();
        server.change_rules(&rules);
        let mut refused = 0;
        for (number, (procedure, arguments)) in one_of_each(root, file).into_iter().enumerate() {
            server.send(&raw_call(number as u32, procedure, &arguments));
            let result = server.result();
            let is_refused = status(&result).0 == nfsstat3::NFS3ERR_ROFS as u32;
            assert_eq!(is_refused, number >= 11, "{procedure:?}");
            if is_refused {
                assert_is_a_failure(procedure, &result);
                refused += 1;
            }
        }
        assert_eq!((refused, server.files().getattr(file.as_bytes())), (10, Ok(before)));
        server.nfs(nfsproc3::NFSPROC3_ACCESS, &ACCESS3args { object: root, access: 0x3f });
        let granted: ACCESS3res = from_bytes(&server.result()).unwrap();
        assert_eq!(granted.unwrap().access, access::ACCESS3_READ | access::ACCESS3_LOOKUP);
    }
}

#[test]
fn devices_and_privileged_files_are_made_only_where_they_are_asked_for() {
    let trusting = ExportRules { squash: Squash::None, ..ExportRules::default() };
    for (suid, dev) in [(false, false), (true, true)] {
        let mut server = Server::new(Limits::default());
        server.set_rules(ExportRules { suid, dev, ..trusting.clone() });
        let privileged = sattr3 { mode: Some(0o6755), ..sattr3::default() };
        let kept = if suid { 0o6755 } else { 0o755 };
        let made = server.create_as(&credential(0, 0), b"suid", privileged).unwrap();
        assert_eq!(server.files().getattr(made.as_bytes()).unwrap().mode, kept);
        let plain = server.create_as(&credential(0, 0), b"plain", sattr3::default()).unwrap();
        let arguments = SETATTR3args { object: plain, new_attributes: privileged, guard: None };
        server.send(&call_with(
            &credential(0, 0),
            1,
            (NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_SETATTR as u32),
            &arguments,
        ));
        from_bytes::<SETATTR3res>(&server.result()).unwrap().unwrap();
        assert_eq!(server.files().getattr(plain.as_bytes()).unwrap().mode, kept);
        let device = devicedata3 { dev_attributes: sattr3::default(), spec: specdata3 { specdata1: 1, specdata2: 3 } };
        let at = diropargs3 { dir: server.files().root(), name: b"null" };
        let arguments = MKNOD3args { r#where: at, what: mknoddata3::NF3CHR(device) };
        server.send(&call_with(
            &credential(0, 0),
            2,
            (NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_MKNOD as u32),
            &arguments,
        ));
        let made: MKNOD3res = from_bytes(&server.result()).unwrap();
        let made = made.map(drop).map_err(|failed| failed.status);
        assert_eq!(made, if dev { Ok(()) } else { Err(nfsstat3::NFS3ERR_PERM) });
    }
}

#[test]
fn the_export_is_mounted() {
    let mut server = Server::new(Limits::default());
    server.send(&call(1, (MOUNT_PROGRAM, MOUNT_V3, MOUNTPROC3_MNT), &b"/vol".as_slice()));
    let mounted: mountres3 = from_bytes(&server.result()).unwrap();
    assert_eq!(mounted.unwrap().fhandle, server.files().root());
    assert_eq!(server.worker.served.mounts.list().len(), 1);
}

#[test]
fn names_do_not_move_between_exports() {
    let mut server = Server::new(Limits::default());
    server.set_exports([*b"export-a", *b"export-b"].map(|id| export(id, Limits::default())).into());
    let file = server.file(b"data");
    let (root, other) = (server.files().root(), server.worker.served.exports.numbered(1).files.root());
    let (from, to) = (diropargs3 { dir: root, name: b"f" }, diropargs3 { dir: other, name: b"g" });
    server.nfs(nfsproc3::NFSPROC3_RENAME, &RENAME3args { from, to: to.clone() });
    let renamed: RENAME3res = from_bytes(&server.result()).unwrap();
    assert_eq!(renamed.unwrap_err().status, nfsstat3::NFS3ERR_XDEV);
    server.nfs(nfsproc3::NFSPROC3_LINK, &LINK3args { file, link: to });
    let linked: LINK3res = from_bytes(&server.result()).unwrap();
    assert_eq!(linked.unwrap_err().status, nfsstat3::NFS3ERR_XDEV);
}

#[test]
fn all_calls_of_a_receive_are_answered_in_order() {
    let mut server = Server::new(Limits::default());
    let data = pattern(100_000);
    let file = server.file(&data);
    for offset in [0, 16_000, 99_000] {
        server.read(file, offset, 2000);
    }
    server.turn().unwrap();
    let replies: Vec<_> = server.replies().into_iter().map(|(xid, result)| (xid, data_of(&result))).collect();
    assert_eq!(replies, [(2, data[..2000].to_vec()), (3, data[16_000..18_000].to_vec()), (4, data[99_000..].to_vec())]);
}

/// However the bytes come, the answers are the same, and the data are there.
#[test]
fn segmentation_changes_nothing() {
    let data = pattern(70_001);
    for grain in [1, 3, 100, 1000, 16_384, 65_000, usize::MAX] {
        let mut server = Server::new(Limits::default());
        let file = server.file(&[]);
        server.pipe.grain = grain;
        server.write(file, 5000, &data);
        server.write(file, 75_001, &data[..40_000]);
        server.write(file, 0, &data[..5000]);
        server.read(file, 5000, 70_001);
        server.run().unwrap();
        let replies = server.replies();
        assert_eq!(replies.iter().map(|reply| reply.0).collect::<Vec<_>>(), [2, 3, 4, 5], "grain {grain}");
        for (_, result) in &replies[..3] {
            let written: WRITE3res = from_bytes(result).unwrap();
            let written = written.unwrap();
            assert_eq!((written.verf, written.committed), (*b"verifier", stable_how::DATA_SYNC));
        }
        assert_eq!(data_of(&replies[3].1), data, "grain {grain}");
        assert_eq!(server.stats().write_bytes, 115_001);
    }
}

#[test]
fn fragments_are_joined() {
    let mut server = Server::new(Limits::default());
    let file = server.file(&[]);
    let data = pattern(20_000);
    let (count, stable) = (20_000, stable_how::UNSTABLE);
    let write = WRITE3args { file, offset: 0, count, stable, data: &data };
    let record = call(9, (NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_WRITE as u32), &write);
    let body = &record[RECORD_MARK_BYTES..];
    for (number, part) in body.chunks(3000).enumerate() {
        let last = (number + 1) * 3000 >= body.len();
        let empty = RecordMark { length: 0, last: false };
        server.send(&empty.to_bytes());
        server.send(&RecordMark { length: part.len() as u32, last }.to_bytes());
        server.send(part);
    }
    server.read(file, 0, 20_000);
    server.run().unwrap();
    let replies = server.replies();
    assert_eq!((replies[0].0, data_of(&replies[1].1)), (9, data));
}

#[test]
fn a_large_write_to_a_stale_handle_is_stepped_over() {
    for grain in [1000, usize::MAX] {
        let mut server = Server::new(Limits::default());
        let file = server.file(b"data");
        server.pipe.grain = grain;
        let mut stale = file.as_bytes().to_vec();
        *stale.last_mut().unwrap() ^= 0x63;
        let stale = nfs_fh3::new(&stale).unwrap();
        server.write(stale, 0, &vec![1; 100_001]);
        server.read(file, 0, 10);
        server.run().unwrap();
        let replies = server.replies();
        let refused: WRITE3res = from_bytes(&replies[0].1).unwrap();
        assert_eq!(refused.unwrap_err().status, nfsstat3::NFS3ERR_STALE);
        assert_eq!(data_of(&replies[1].1), b"data");
    }
}

#[test]
fn a_slow_reader_holds_a_bounded_amount_and_gets_everything() {
    let mut server = Server::new(Limits::default());
    let data = pattern(1 << 20);
    let file = server.file(&data);
    server.pipe.room = 1000;
    for _ in 0..50 {
        server.read(file, 0, 1 << 20);
    }
    assert_eq!(server.turn().unwrap(), Interest::Send);
    assert_eq!(server.turn().unwrap(), Interest::Send);
    assert!(server.session.outgoing.unsent.len() <= BATCH_BYTES + (1 << 20) + 1000);
    assert_eq!(server.stats().reads, 1, "no further call is looked at");
    let mut answered = 0;
    while answered < 50 {
        server.pipe.room = 777_777;
        server.turn().unwrap();
        for (_, result) in server.replies() {
            assert_eq!(data_of(&result), data);
            answered += 1;
        }
    }
    assert_eq!((server.stats().reads, server.session.outgoing.unsent.capacity()), (50, 0));
}

#[test]
fn one_connection_does_not_take_all_the_time() {
    let mut server = Server::new(Limits::default());
    let file = server.file(&pattern(1 << 20));
    for _ in 0..50 {
        server.read(file, 0, 1 << 20);
    }
    assert_eq!(server.turn().unwrap(), Interest::Turn);
    assert_eq!(server.stats().reads, TURN_BYTES as u64 >> 20);
}

#[test]
fn a_turn_of_many_small_calls_ends_in_time() {
    let mut server = Server::new(Limits::default());
    server.worker = server.worker.with_clock(Clock::new(), false);
    let file = server.file(b"data");
    let calls = 3000;
    for _ in 0..calls {
        server.nfs(nfsproc3::NFSPROC3_GETATTR, &file);
    }
    // These calls take longer than a turn on the fastest machine.
    assert_eq!(server.turn().unwrap(), Interest::Turn);
    let first = server.replies().len();
    assert!(first >= 16 && first < calls && first.is_multiple_of(16), "{first}");
    server.run().unwrap();
    assert_eq!(first + server.replies().len(), calls);
}

#[test]
fn the_clock_is_read_once_in_many_operations() {
    let clock = Clock::manual();
    let new = |may_wait, stride, end| TurnLength { clock: &clock, may_wait, operations: 0, stride, limit_ns: 100, end };
    let (mut served, end) = (new(false, 16, None), Some(clock.now() + 100));
    let ends_after = |length: &mut TurnLength<'_>, operations| {
        length.operations += operations;
        length.operations >= length.stride && length.is_over()
    };
    assert!(!ends_after(&mut served, 15), "the clock is not read");
    assert!(!ends_after(&mut served, 1), "the time counts from here");
    clock.advance(100);
    assert!(!ends_after(&mut served, 15));
    assert!(ends_after(&mut served, 200), "a COMPOUND of many operations");
    let mut waiting = new(true, 1, end);
    assert!(ends_after(&mut waiting, 1));
}

#[test]
fn reads_are_answered_when_due_to_the_nanosecond() {
    // 64 KiB/s with a burst of 1 KiB: 4096 bytes are due 62.5 ms after the burst is spent, and 1 µs is added.
    let limits = Limits { latency: Latency::constant(1000), ..Limits::of([Cap::bytes_per_s(65_536)]) };
    let mut server = Server::new(limits);
    let file = server.file(&pattern(8192));
    let (first, second) = (server.read(file, 0, 1024), server.read(file, 1024, 4096));
    server.now = 5;
    server.run().unwrap();
    assert_eq!((server.replies(), server.worker.next()), (vec![], Some(1005)));
    server.now = 1004;
    server.run().unwrap();
    assert_eq!(server.replies(), []);
    server.now = 1005;
    server.run().unwrap();
    assert_eq!(server.replies()[0].0, first);
    let through = 5 + SECOND / 16;
    assert_eq!(server.worker.next(), Some(through));
    server.now = through;
    server.run().unwrap();
    assert_eq!((server.replies(), server.worker.next()), (vec![], Some(through + 1000)));
    server.now = through + 1000;
    server.run().unwrap();
    assert_eq!(server.replies()[0].0, second);
    let stats = server.stats();
    assert_eq!((stats.throttled_operations, stats.throttled_ns), (2, 1000 + SECOND / 16 + 1000));
}

#[test]
fn writes_are_carried_out_at_once_and_answered_when_due() {
    let limits = Limits::of([Cap::iops(10)]);
    let mut server = Server::new(limits);
    let file = server.file(&[]);
    for data in [pattern(1), pattern(100), pattern(40_000)] {
        server.write(file, 0, &data);
    }
    server.run().unwrap();
    assert_eq!(server.files().getattr(file.as_bytes()).unwrap().size, 40_000);
    assert_eq!(server.replies().len(), 1, "the burst is one operation");
    for (due, replies) in [(SECOND / 10 - 1, 0), (SECOND / 10, 1), (2 * SECOND / 10, 1)] {
        server.now = due;
        server.run().unwrap();
        assert_eq!(server.replies().len(), replies, "at {due} ns");
    }
}

#[test]
fn at_the_end_of_a_file_little_is_read_and_little_is_paid() {
    let limits = Limits::of([Cap::bytes_per_s(64)]);
    let mut server = Server::new(limits);
    let file = server.file(&pattern(1));
    server.read(file, 0, 1 << 20);
    server.read(file, 100, 1 << 20);
    server.run().unwrap();
    assert_eq!(server.replies().len(), 2);
}

#[test]
fn over_a_long_time_the_limit_is_met_exactly() {
    let rate = 8 << 20;
    let mut server = Server::new(Limits::of([Cap::bytes_per_s(rate)]));
    let file = server.file(&pattern(4096));
    for _ in 0..32 {
        server.read(file, 0, 4096);
    }
    let mut delivered = 0;
    while server.now < 10 * SECOND {
        server.run().unwrap();
        for (_, result) in server.replies() {
            delivered += data_of(&result).len() as u64;
            server.read(file, 0, 4096);
        }
        server.run().unwrap();
        server.now = server.worker.next().unwrap();
    }
    // The burst, 10 s of the rate, and nothing else; what is due at the very end has not been counted.
    let burst = rate / 64;
    assert_eq!(delivered, burst + 10 * rate - 4096);
}

#[test]
fn what_waits_for_its_time_is_bounded() {
    let mut server = Server::new(Limits::of([Cap::iops(1)]));
    let file = server.file(&pattern(10));
    for _ in 0..PENDING_MAX + 100 {
        server.read(file, 0, 10);
    }
    let mut interest = server.turn().unwrap();
    while interest == Interest::Receive {
        interest = server.turn().unwrap();
    }
    assert_eq!((interest, server.session.in_flight()), (Interest::Due, PENDING_MAX));
    server.now = 2 * SECOND * (PENDING_MAX as u64 + 100);
    server.run().unwrap();
    server.now *= 2;
    server.run().unwrap();
    assert_eq!(server.replies().len(), PENDING_MAX + 100);
}

#[test]
fn a_connection_has_so_many_requests_in_flight() {
    let mut server = Server::new(Limits::of([Cap::iops(10), Cap::requests(4)]));
    let file = server.file(&pattern(10));
    for _ in 0..20 {
        server.read(file, 0, 10);
    }
    server.run().unwrap();
    // One was answered at once, four wait, and the session examines no others.
    assert_eq!((server.replies().len(), server.session.in_flight()), (1, 4));
    assert_eq!(server.turn().unwrap(), Interest::Due);
    for answered in 1..20 {
        server.now = answered * SECOND / 10;
        server.run().unwrap();
        let in_flight = (19 - answered).min(4) as usize;
        assert_eq!((server.replies().len(), server.session.in_flight()), (1, in_flight), "after {answered}");
    }
    assert_eq!(server.worker.next(), None);
}

#[test]
fn new_limits_lose_and_repeat_no_reply() {
    let mut server = Server::new(Limits::of([Cap::bytes_per_s(64_000)]));
    let file = server.file(&pattern(10_000));
    let levels = [
        Limits { latency: Latency::constant(SECOND), ..Limits::of([Cap::bytes_per_s(640)]) },
        Limits::of([Cap::iops(1).of(Kind::Write), Cap::iops(30)]),
        Limits { parallelism: Some(Parallelism::new(1, SECOND / 4)), ..Limits::default() },
        Limits::default(),
        Limits::of([Cap::iops(2).of(Kind::Read)]),
    ];
    let (mut asked, mut answered, mut waiting_max) = (Vec::new(), Vec::new(), 0);
    for (step, limits) in levels.iter().cycle().take(40).enumerate() {
        for _ in 0..3 {
            asked.push(server.read(file, 0, 1000));
            asked.push(server.write(file, 0, &pattern(500)));
        }
        server.run().unwrap();
        waiting_max = waiting_max.max(server.worker.waiting());
        server.now = step as u64 * SECOND / 3;
        server.worker.served.exports.numbered(0).throttle.set_limits(server.now, limits.clone());
        server.run().unwrap();
        answered.extend(server.replies().into_iter().map(|reply| reply.0));
    }
    assert!(waiting_max > 10, "limits change while many wait: {waiting_max}");
    while let Some(next) = server.worker.next() {
        server.now = server.now.max(next);
        server.run().unwrap();
        answered.extend(server.replies().into_iter().map(|reply| reply.0));
    }
    answered.sort_unstable();
    assert_eq!(answered, asked);
}

#[test]
fn who_leaves_takes_back_what_waits() {
    let mut server = Server::new(Limits::of([Cap::bytes_per_s(1)]));
    let file = server.file(&pattern(1000));
    for _ in 0..100 {
        server.read(file, 0, 1000);
    }
    server.run().unwrap();
    assert_eq!((server.session.in_flight(), server.worker.waiting()), (100, 100));
    assert!(server.session.forget(&mut server.worker, server.now));
    assert_eq!((server.worker.waiting(), server.worker.next()), (0, None));
    // The next connection waits for its own bytes only, of which one is there.
    server.session = Session::new(7, PEER.into(), &server.worker.served.exports);
    server.read(file, 0, 11);
    server.run().unwrap();
    assert_eq!(server.worker.next(), Some(10 * SECOND));
}

#[test]
fn a_peer_that_has_sent_its_last_call_gets_its_replies() {
    let mut server = Server::new(Limits::of([Cap::iops(1)]));
    let file = server.file(&pattern(1000));
    for _ in 0..3 {
        server.read(file, 0, 1000);
    }
    server.pipe.ended = true;
    server.run().unwrap();
    assert_eq!((server.replies().len(), server.session.in_flight()), (1, 2), "two wait");
    server.now += SECOND;
    (server.pipe.room, server.pipe.grain) = (100, usize::MAX);
    server.run().unwrap();
    assert_eq!(server.replies().len(), 0, "a part of it has gone");
    server.pipe.room = usize::MAX;
    server.run().unwrap();
    assert_eq!((server.replies().len(), server.session.in_flight()), (1, 1));
    server.now += SECOND;
    assert!(!server.session.is_late(false, server.now) && server.session.is_late(false, 10 * SECOND));
    assert!(matches!(server.run(), Err(Close::Ended)));
    assert_eq!(server.replies().len(), 1);
}

/// The first of two equal calls is in progress on another connection.
#[test]
fn a_call_that_is_being_carried_out_is_not_carried_out_again() {
    let mut server = Server::new(Limits::default());
    let root = server.files().root();
    let arguments =
        to_bytes(&MKDIR3args { r#where: diropargs3 { dir: root, name: b"d" }, attributes: sattr3::default() });
    let record = raw_call(9, nfsproc3::NFSPROC3_MKDIR, &arguments);
    let (served, mut reader) = (Arc::clone(&server.worker.served), Reader::new(&record[RECORD_MARK_BYTES..]));
    let header = CallHeader::decode(&mut reader).unwrap();
    let key = served.replies.key("127.0.0.1", &header, reader.rest());
    let Repeated::No(first) = served.replies.begin(key, 0) else { panic!("there was none before") };
    for _ in 0..2 {
        server.send(&record);
        server.run().unwrap();
    }
    assert_eq!(server.replies(), [], "the client sends it again once more");
    assert!(server.files().lookup(&ROOT, root.as_bytes(), b"d").is_err());
    drop(first);
    server.send(&record);
    let made: MKDIR3res = from_bytes(&server.result()).unwrap();
    server.send(&record);
    assert_eq!(from_bytes::<MKDIR3res>(&server.result()).unwrap(), made);
    assert!(made.is_ok());
}

#[test]
fn what_is_not_served_is_answered_as_rfc_5531_says() {
    let mut server = Server::new(Limits::default());
    let versions = mismatch_info { low: 3, high: 3 };
    let versions_of_nfs = mismatch_info { low: 3, high: 4 };
    let cases = [
        ((99, 1, 0), Accepted::PROG_UNAVAIL(())),
        ((NFS_PROGRAM, 2, 0), Accepted::PROG_MISMATCH(versions_of_nfs.clone())),
        ((NFS_PROGRAM, 5, 0), Accepted::PROG_MISMATCH(versions_of_nfs)),
        ((MOUNT_PROGRAM, 1, 0), Accepted::PROG_MISMATCH(versions)),
        ((NFS_PROGRAM, 4, 0), Accepted::GARBAGE_ARGS(())),
        ((NFS_PROGRAM, 4, 2), Accepted::PROC_UNAVAIL(())),
        ((NFS_PROGRAM, NFS_V3, 22), Accepted::PROC_UNAVAIL(())),
        ((MOUNT_PROGRAM, MOUNT_V3, 6), Accepted::PROC_UNAVAIL(())),
        ((NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_READ as u32), Accepted::GARBAGE_ARGS(())),
        ((NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_LOOKUP as u32), Accepted::GARBAGE_ARGS(())),
        ((NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_NULL as u32), Accepted::GARBAGE_ARGS(())),
    ];
    for (procedure, expected) in cases {
        server.send(&call(5, procedure, &0xdead_beef_u32));
        server.run().unwrap();
        let reply = std::mem::take(&mut server.pipe.to_client);
        let header: ReplyHeader<'_> = from_bytes(&reply[RECORD_MARK_BYTES..]).unwrap();
        let verf = opaque_auth::NONE;
        assert_eq!(header.body, ReplyBody::MSG_ACCEPTED(AcceptedReply { verf, stat: expected }), "{procedure:?}");
    }
}

#[test]
fn wrong_versions_and_credentials_are_denied() {
    let mut server = Server::new(Limits::default());
    let mut wrong_version = call(5, (NFS_PROGRAM, NFS_V3, 0), &());
    wrong_version[15] = 3;
    let mut wrong_flavor = call(5, (NFS_PROGRAM, NFS_V3, 1), &());
    wrong_flavor[31] = 6;
    let versions = mismatch_info { low: 2, high: 2 };
    let cases = [
        (wrong_version, Rejected::RPC_MISMATCH(versions)),
        (wrong_flavor, Rejected::AUTH_ERROR(auth_stat::AUTH_BADCRED)),
    ];
    for (record, expected) in cases {
        server.send(&record);
        server.run().unwrap();
        let reply = std::mem::take(&mut server.pipe.to_client);
        let header: ReplyHeader<'_> = from_bytes(&reply[RECORD_MARK_BYTES..]).unwrap();
        assert_eq!(header.body, ReplyBody::MSG_DENIED(expected));
    }
}

#[test]
fn hostile_records_cost_the_connection_and_no_memory() {
    let too_long = |error: Close| matches!(error, Close::RecordTooLong(_));
    let no_call = |error: Close| matches!(error, Close::NoCall(_));
    let check = |bytes: &[u8], expected: &dyn Fn(Close) -> bool| {
        let mut server = Server::new(Limits::default());
        server.send(bytes);
        assert!(expected(server.run().unwrap_err()));
        assert!(server.session.incoming.records.buffer_bytes() + server.session.outgoing.unsent.capacity() < 4 << 20);
    };
    check(&[0xff; 4], &too_long);
    check(&[0x7f, 0xff, 0xff, 0xff], &too_long);
    check(&[0x80, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 1], &no_call);
    // Two megabytes in fragments of half a megabyte.
    let mut fragments = Vec::new();
    for _ in 0..4 {
        fragments.extend(RecordMark { length: 1 << 19, last: false }.to_bytes());
        fragments.resize(fragments.len() + (1 << 19), 0);
    }
    check(&fragments, &too_long);
    // A long record that is no WRITE.
    let mut long = call(1, (NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_LOOKUP as u32), &[0_u8; 1 << 12]);
    long[..4].copy_from_slice(&RecordMark { length: 1 << 19, last: true }.to_bytes());
    check(&long, &no_call);
}

#[test]
fn an_ended_connection_is_closed() {
    let mut server = Server::new(Limits::default());
    server.pipe.ended = true;
    assert!(matches!(server.turn(), Err(Close::Ended)));
}

#[test]
fn a_listing_is_read_in_parts_of_the_size_that_was_asked() {
    let mut server = Server::new(Limits::default());
    server.file(&[]);
    let dir = server.files().root();
    let (mut cookie, mut cookieverf, mut names) = (0, [0; 8], Vec::new());
    loop {
        let (dircount, maxcount) = (1000, 300);
        server.nfs(nfsproc3::NFSPROC3_READDIRPLUS, &READDIRPLUS3args { dir, cookie, cookieverf, dircount, maxcount });
        let result = server.result();
        assert!(result.len() <= 304);
        let listed: READDIRPLUS3res<'_> = from_bytes(&result).unwrap();
        let listed = listed.unwrap();
        names.extend(listed.reply.entries.0.iter().map(|entry| entry.name.to_vec()));
        if listed.reply.eof {
            break;
        }
        cookie = listed.reply.entries.0.last().unwrap().cookie;
        cookieverf = listed.cookieverf;
    }
    assert_eq!(names, [&b"."[..], b"..", b"f"]);

    server.nfs(nfsproc3::NFSPROC3_READDIR, &READDIR3args { dir, cookie: 1, cookieverf: [1; 8], count: 4096 });
    let result = server.result();
    let refused: READDIR3res<'_> = from_bytes(&result).unwrap();
    assert_eq!(refused.unwrap_err().status, nfsstat3::NFS3ERR_BAD_COOKIE);
    server.nfs(nfsproc3::NFSPROC3_READDIR, &READDIR3args { dir, cookie: 0, cookieverf: [0; 8], count: 100 });
    let result = server.result();
    let refused: READDIR3res<'_> = from_bytes(&result).unwrap();
    assert_eq!(refused.unwrap_err().status, nfsstat3::NFS3ERR_TOOSMALL);
}

proptest! {
    /// No bytes make the server panic or loop; at worst the connection is closed.
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..2000), mark in any::<bool>()) {
        let mut server = Server::new(Limits::default());
        if mark {
            server.send(&RecordMark { length: bytes.len() as u32, last: true }.to_bytes());
        }
        server.send(&bytes);
        let _ = server.run();
    }

    /// Arguments cut off or changed anywhere are survived, too.
    #[test]
    fn any_arguments_are_survived(
        procedure in 0_u32..23,
        arguments in proptest::collection::vec(any::<u8>(), 0..200),
        with_handle in any::<bool>(),
    ) {
        let mut server = Server::new(Limits { latency: Latency::constant(1), ..Limits::default() });
        let file = server.file(b"data");
        let mut record = call(1, (NFS_PROGRAM, NFS_V3, procedure), &());
        if with_handle {
            record.extend(to_bytes(&file));
        }
        record.extend(&arguments);
        let length = (record.len() - RECORD_MARK_BYTES) as u32;
        record[..4].copy_from_slice(&RecordMark { length, last: true }.to_bytes());
        server.send(&record);
        prop_assert!(server.run().is_ok());
        server.now = 10;
        prop_assert!(server.run().is_ok());
        prop_assert!(!server.pipe.to_client.is_empty());
    }
}
