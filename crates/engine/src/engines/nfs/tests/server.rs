//! A small NFS server on its own thread that follows a test's script.
// Results have the shape of the protocol, whatever their cost in a test.
#![allow(clippy::unnecessary_wraps, clippy::result_large_err)]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use iocurve_meter::SECOND;
use iocurve_wire::mount3::{
    MOUNT_PROGRAM, MOUNTPROC3_EXPORT, MOUNTPROC3_MNT, dirpath, exportnode, exports, mountres3, mountres3_ok, mountstat3,
};
use iocurve_wire::nfs3::{
    COMMIT3args, COMMIT3res, COMMIT3resok, CREATE3args, CREATE3res, CREATE3resok, FSINFO3res, FSINFO3resok, Failed,
    LOOKUP3args, LOOKUP3res, LOOKUP3resok, READ3args, READ3res, READ3resok, REMOVE3args, REMOVE3res, REMOVE3resok,
    SETATTR3args, SETATTR3res, SETATTR3resok, WRITE3args, WRITE3res, WRITE3resok, diropargs3, fattr3, ftype3, nfs_fh3,
    nfsproc3, nfsstat3, nfstime3, specdata3, stable_how, wcc_data,
};
use iocurve_wire::record::{RECORD_MARK_BYTES, RecordMark};
use iocurve_wire::rpc::{CallHeader, ReplyHeader};
use iocurve_wire::xdr::{Decode, List, Reader, from_bytes, to_bytes};

use crate::plan::{Durability, NfsMount};

pub(super) const EXPORT: &str = "/vol";
const ROOT: &[u8] = b"/";

/// A received call, for scripts and for later checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// Number of the connection, in the order of acceptance. Mounting uses number 0.
    pub connection: usize,
    pub xid: u32,
    pub procedure: nfsproc3,
}

/// The reaction of a script to a call of the NFS program.
pub(super) enum Act {
    Answer,
    /// Answers in fragments of this many bytes.
    Fragments(usize),
    /// A WRITE accepts at most this many bytes, a READ returns at most as many without reaching the end.
    AtMost(u32),
    Fail(nfsstat3),
    /// Sends these bytes instead of a reply.
    Raw(Vec<u8>),
    Silence,
    /// Closes the connection without an answer.
    Close,
}

pub(super) type Script = Box<dyn FnMut(Seen) -> Act + Send>;

#[derive(Clone)]
pub(super) struct Server {
    pub port: u16,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    files: BTreeMap<String, Vec<u8>>,
    seen: Vec<Seen>,
    peers: Vec<IpAddr>,
    script: Script,
    call_bytes_max: u32,
    verifier: u8,
    ignored: Option<usize>,
}

impl Server {
    pub(super) fn new(script: impl FnMut(Seen) -> Act + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Shared {
            files: BTreeMap::new(),
            seen: Vec::new(),
            peers: Vec::new(),
            script: Box::new(script),
            call_bytes_max: 1 << 20,
            verifier: 0,
            ignored: None,
        };
        let server = Self { port, shared: Arc::new(Mutex::new(shared)) };
        let acceptor = server.clone();
        thread::spawn(move || {
            for connection in 0.. {
                // The socket itself cannot report the peer any more if it has disconnected.
                let (stream, peer) = listener.accept().unwrap();
                let server = acceptor.clone();
                server.shared.lock().unwrap().peers.push(peer.ip());
                thread::spawn(move || server.serve(stream, connection));
            }
        });
        server
    }

    pub(super) fn answering() -> Self {
        Self::new(|_| Act::Answer)
    }

    pub(super) fn with_file(self, name: &str, content: &[u8]) -> Self {
        self.shared.lock().unwrap().files.insert(name.to_owned(), content.to_vec());
        self
    }

    pub(super) fn with_call_bytes_max(self, bytes: u32) -> Self {
        self.shared.lock().unwrap().call_bytes_max = bytes;
        self
    }

    /// As after a restart: uncommitted data may be lost.
    pub(super) fn change_verifier(&self) {
        self.shared.lock().unwrap().verifier += 1;
    }

    /// Answers nothing on the connection with this number.
    pub(super) fn ignore(&self, connection: usize) {
        self.shared.lock().unwrap().ignored = Some(connection);
    }

    pub(super) fn content(&self, name: &str) -> Option<Vec<u8>> {
        self.shared.lock().unwrap().files.get(name).cloned()
    }

    /// Calls of READ, WRITE and COMMIT, in the order of arrival.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.shared.lock().unwrap().seen.clone()
    }

    /// Client addresses of its connections, once there are `count`.
    pub(super) fn peers(&self, count: usize) -> Vec<IpAddr> {
        loop {
            let peers = self.shared.lock().unwrap().peers.clone();
            if peers.len() >= count {
                return peers;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub(super) fn mount(&self) -> NfsMount {
        NfsMount {
            host: "127.0.0.1".into(),
            port: Some(self.port),
            mount_port: Some(self.port),
            export: EXPORT.into(),
            version: 3,
            nconnect: 1,
            session_slots: 64,
            uid: 7,
            gid: 8,
            durability: Durability::None,
            timeout_ns: 20 * SECOND,
            keep_payload: true,
            source: None,
        }
    }

    fn serve(&self, mut stream: TcpStream, connection: usize) {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        while let Some(record) = receive(&mut stream) {
            if self.shared.lock().unwrap().ignored == Some(connection) {
                continue;
            }
            let mut reader = Reader::new(&record);
            let header = CallHeader::decode(&mut reader).unwrap();
            if header.prog == MOUNT_PROGRAM {
                let results = mount_results(header.proc, reader.rest());
                send(&mut stream, &reply(header.xid, &results), usize::MAX);
                continue;
            }
            let mut shared = self.shared.lock().unwrap();
            let procedure = [0, 1, 2, 3, 6, 7, 8, 12, 19, 21]
                .into_iter()
                .find(|procedure| *procedure == header.proc)
                .and_then(nfsproc3::from_u32)
                .expect("a procedure that the client uses");
            let seen = Seen { connection, xid: header.xid, procedure };
            let is_load =
                matches!(procedure, nfsproc3::NFSPROC3_READ | nfsproc3::NFSPROC3_WRITE | nfsproc3::NFSPROC3_COMMIT);
            if is_load {
                shared.seen.push(seen);
            }
            let act = if is_load { (shared.script)(seen) } else { Act::Answer };
            let mut answer = |shared: &mut Shared, at_most, fragment_bytes| {
                let results = shared.results(procedure, reader.rest(), at_most);
                send(&mut stream, &reply(seen.xid, &results), fragment_bytes);
            };
            match act {
                Act::Answer => answer(&mut shared, None, usize::MAX),
                Act::Fragments(bytes) => answer(&mut shared, None, bytes),
                Act::AtMost(bytes) => answer(&mut shared, Some(bytes), usize::MAX),
                Act::Fail(status) => {
                    // The longest body that follows a failure, used for all of them, because the client does not read
                    // it.
                    let failed = Failed { status, rest: wcc_data::default() };
                    send(&mut stream, &reply(seen.xid, &to_bytes(&Err::<(), _>(failed))), usize::MAX);
                }
                Act::Raw(bytes) => drop(stream.write_all(&bytes)),
                Act::Silence => {}
                Act::Close => return,
            }
        }
    }
}

impl Shared {
    fn results(&mut self, procedure: nfsproc3, arguments: &[u8], at_most: Option<u32>) -> Vec<u8> {
        match procedure {
            nfsproc3::NFSPROC3_FSINFO => to_bytes(&self.fsinfo()),
            nfsproc3::NFSPROC3_LOOKUP => to_bytes(&self.lookup(&from_bytes(arguments).unwrap())),
            nfsproc3::NFSPROC3_CREATE => to_bytes(&self.create(&from_bytes(arguments).unwrap())),
            nfsproc3::NFSPROC3_REMOVE => to_bytes(&self.remove(&from_bytes(arguments).unwrap())),
            nfsproc3::NFSPROC3_SETATTR => to_bytes(&self.setattr(&from_bytes(arguments).unwrap())),
            nfsproc3::NFSPROC3_READ => self.read(&from_bytes(arguments).unwrap(), at_most),
            nfsproc3::NFSPROC3_WRITE => to_bytes(&self.write(&from_bytes(arguments).unwrap(), at_most)),
            nfsproc3::NFSPROC3_COMMIT => {
                let _: COMMIT3args = from_bytes(arguments).unwrap();
                let committed: COMMIT3res =
                    Ok(COMMIT3resok { file_wcc: wcc_data::default(), verf: [self.verifier; 8] });
                to_bytes(&committed)
            }
            other => panic!("{} is not for tests", other.name()),
        }
    }

    fn fsinfo(&self) -> FSINFO3res {
        let bytes = self.call_bytes_max;
        Ok(FSINFO3resok {
            obj_attributes: None,
            rtmax: bytes,
            rtpref: bytes,
            rtmult: 1,
            wtmax: bytes,
            wtpref: bytes,
            wtmult: 1,
            dtpref: bytes,
            maxfilesize: u64::MAX,
            time_delta: nfstime3::default(),
            properties: 0,
        })
    }

    /// Names with a slash are files in directories; the part before it is a directory.
    fn lookup(&self, arguments: &LOOKUP3args<'_>) -> LOOKUP3res {
        let name = full_name(&arguments.what);
        let is_directory = self.files.keys().any(|file| file.starts_with(&format!("{name}/")));
        let (file_type, size) = match self.files.get(&name) {
            Some(content) => (ftype3::NF3REG, content.len()),
            None if is_directory => (ftype3::NF3DIR, 0),
            None => return Err(Failed { status: nfsstat3::NFS3ERR_NOENT, rest: None }),
        };
        let obj_attributes = Some(attributes(file_type, size as u64));
        Ok(LOOKUP3resok { object: handle(&name), obj_attributes, dir_attributes: None })
    }

    fn create(&mut self, arguments: &CREATE3args<'_>) -> CREATE3res {
        let name = full_name(&arguments.r#where);
        if self.files.contains_key(&name) {
            return Err(Failed { status: nfsstat3::NFS3ERR_EXIST, rest: wcc_data::default() });
        }
        self.files.insert(name.clone(), Vec::new());
        Ok(CREATE3resok { obj: Some(handle(&name)), obj_attributes: None, dir_wcc: wcc_data::default() })
    }

    fn remove(&mut self, arguments: &REMOVE3args<'_>) -> REMOVE3res {
        match self.files.remove(&full_name(&arguments.object)) {
            Some(_) => Ok(REMOVE3resok { dir_wcc: wcc_data::default() }),
            None => Err(Failed { status: nfsstat3::NFS3ERR_NOENT, rest: wcc_data::default() }),
        }
    }

    fn setattr(&mut self, arguments: &SETATTR3args) -> SETATTR3res {
        let size = arguments.new_attributes.size.expect("only sizes are set");
        self.file(&arguments.object).resize(size as usize, 0);
        Ok(SETATTR3resok { obj_wcc: wcc_data::default() })
    }

    fn read(&mut self, arguments: &READ3args, at_most: Option<u32>) -> Vec<u8> {
        let content = self.file(&arguments.file);
        let size = content.len() as u64;
        let start = arguments.offset.min(size) as usize;
        let end = (arguments.offset + u64::from(arguments.count.min(at_most.unwrap_or(u32::MAX)))).min(size) as usize;
        let data = &content[start..end];
        let file_attributes = Some(attributes(ftype3::NF3REG, size));
        let read: READ3res<'_> =
            Ok(READ3resok { file_attributes, count: data.len() as u32, eof: end as u64 == size, data });
        to_bytes(&read)
    }

    fn write(&mut self, arguments: &WRITE3args<'_>, at_most: Option<u32>) -> WRITE3res {
        let verf = [self.verifier; 8];
        let Some(content) = self.files.get_mut(&name_of(&arguments.file)) else {
            return Err(Failed { status: nfsstat3::NFS3ERR_STALE, rest: wcc_data::default() });
        };
        let count = arguments.count.min(at_most.unwrap_or(u32::MAX));
        let (start, end) = (arguments.offset as usize, arguments.offset as usize + count as usize);
        content.resize(content.len().max(end), 0);
        content[start..end].copy_from_slice(&arguments.data[..count as usize]);
        let file_wcc = wcc_data { before: None, after: Some(attributes(ftype3::NF3REG, content.len() as u64)) };
        let committed = arguments.stable;
        assert!(matches!(committed, stable_how::UNSTABLE | stable_how::DATA_SYNC | stable_how::FILE_SYNC));
        Ok(WRITE3resok { file_wcc, count, committed, verf })
    }

    fn file(&mut self, handle: &nfs_fh3) -> &mut Vec<u8> {
        self.files.get_mut(&name_of(handle)).expect("a file that is there")
    }
}

/// A record of one reply.
pub(super) fn reply(xid: u32, results: &[u8]) -> Vec<u8> {
    let mut record = to_bytes(&ReplyHeader::success(xid));
    record.extend(results);
    record
}

/// The record on the wire, in one fragment.
pub(super) fn marked(record: &[u8]) -> Vec<u8> {
    let mark = RecordMark { length: record.len() as u32, last: true };
    [&mark.to_bytes(), record].concat()
}

pub(super) fn attributes(file_type: ftype3, size: u64) -> fattr3 {
    fattr3 {
        file_type,
        mode: 0o644,
        nlink: 1,
        uid: 0,
        gid: 0,
        size,
        used: size,
        rdev: specdata3::default(),
        fsid: 1,
        fileid: 2,
        atime: nfstime3::default(),
        mtime: nfstime3::default(),
        ctime: nfstime3::default(),
    }
}

fn mount_results(procedure: u32, arguments: &[u8]) -> Vec<u8> {
    match procedure {
        MOUNTPROC3_MNT => {
            let path: dirpath<'_> = from_bytes(arguments).unwrap();
            let mounted: mountres3 = if path == EXPORT.as_bytes() {
                Ok(mountres3_ok { fhandle: nfs_fh3::new(ROOT).unwrap(), auth_flavors: vec![1] })
            } else {
                Err(mountstat3::MNT3ERR_NOENT)
            };
            to_bytes(&mounted)
        }
        MOUNTPROC3_EXPORT => {
            let list: exports<'_> = List(vec![exportnode { ex_dir: EXPORT.as_bytes(), ex_groups: List(Vec::new()) }]);
            to_bytes(&list)
        }
        other => panic!("procedure {other} of MOUNT is not for tests"),
    }
}

fn full_name(what: &diropargs3<'_>) -> String {
    let name = String::from_utf8(what.name.to_vec()).unwrap();
    match what.dir.as_bytes() {
        ROOT => name,
        directory => format!("{}/{name}", String::from_utf8_lossy(directory)),
    }
}

fn name_of(handle: &nfs_fh3) -> String {
    String::from_utf8(handle.as_bytes().to_vec()).unwrap()
}

fn handle(name: &str) -> nfs_fh3 {
    nfs_fh3::new(name.as_bytes()).unwrap()
}

fn receive(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut mark = [0; RECORD_MARK_BYTES];
    stream.read_exact(&mut mark).ok()?;
    let RecordMark { length, last } = RecordMark::from_bytes(mark);
    assert!(last, "the client sends whole records");
    let mut record = vec![0; length as usize];
    stream.read_exact(&mut record).ok()?;
    Some(record)
}

/// Ignores a client that has disconnected.
fn send(stream: &mut TcpStream, record: &[u8], fragment_bytes: usize) {
    let mut bytes = Vec::new();
    let mut fragments = record.chunks(fragment_bytes.min(record.len())).peekable();
    while let Some(fragment) = fragments.next() {
        let mark = RecordMark { length: fragment.len() as u32, last: fragments.peek().is_none() };
        bytes.extend(mark.to_bytes());
        bytes.extend(fragment);
    }
    let _ = stream.write_all(&bytes);
}
