//! Shared by the tests of all versions: a server on its own thread that follows a test's script, and an engine on one of its
//! files.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use iocurve_meter::{Clock, SECOND};
use iocurve_wire::record::{RECORD_MARK_BYTES, RecordMark};
use iocurve_wire::rpc::ReplyHeader;
use iocurve_wire::xdr::to_bytes;

use super::super::*;
use crate::engines::buffers::Buffers;
use crate::engines::nfs::calls::Mountable;
use crate::engines::request::{Address, Engine, Request};
use crate::error::EngineError;
use crate::plan::{Durability, FilePlan, Layout, NfsMount, OperationKind};

pub(crate) const EXPORT: &str = "/vol";
pub(crate) const READ: OperationKind = OperationKind::Read;
pub(crate) const WRITE: OperationKind = OperationKind::Write;

/// The files of a server. Names with a slash are files in directories; the part before it is a directory.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Returns `true` if there are files in a directory of this name.
pub(crate) fn is_directory(files: &Files, name: &str) -> bool {
    files.keys().any(|file| file.starts_with(&format!("{name}/")))
}

/// At most `count` bytes of a file from `offset` on; `true` if they reach its end.
pub(crate) fn read(content: &[u8], offset: u64, count: u32) -> (&[u8], bool) {
    let start = content.len().min(offset as usize);
    let end = content.len().min(start + count as usize);
    (&content[start..end], end == content.len())
}

/// Writes to a file, which grows if it must.
pub(crate) fn write(content: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let (start, end) = (offset as usize, offset as usize + data.len());
    content.resize(content.len().max(end), 0);
    content[start..end].copy_from_slice(data);
}

/// A version of NFS on the server's side. A script decides on each call of a load.
pub(crate) trait Program: Sized + Send + 'static {
    const VERSION: u32;

    /// A received call, for scripts and for later checks.
    type Seen: Clone;
    /// The reaction of a script to a call; answers it by default.
    type Act: Default;

    fn new(script: Script<Self>) -> Self;

    fn files(&mut self) -> &mut Files;

    /// Calls of the load, in the order of arrival.
    fn seen(&self) -> &[Self::Seen];

    /// Names of the procedure, or of the operations, of a call.
    fn steps(record: &[u8]) -> Vec<&'static str>;

    /// The script's reaction to a record from a connection; connections are numbered in the order of acceptance.
    fn act(&mut self, connection: usize, record: &[u8]) -> Self::Act;

    /// Reacts to a record.
    fn react(&mut self, connection: usize, record: &[u8], act: Self::Act) -> Reaction;

    fn handle(&mut self, connection: usize, record: &[u8]) -> Reaction {
        let act = self.act(connection, record);
        self.react(connection, record, act)
    }
}

pub(crate) type Script<P> = Box<dyn FnMut(<P as Program>::Seen) -> <P as Program>::Act + Send>;

/// A script that performs each of these acts once, then answers.
pub(crate) fn first<S, A: Default>(
    acts: impl IntoIterator<Item = A, IntoIter: Send + 'static>,
) -> impl FnMut(S) -> A + Send {
    let mut acts = acts.into_iter();
    move |_| acts.next().unwrap_or_default()
}

pub(crate) enum Reaction {
    /// Sends these bytes.
    Send(Vec<u8>),
    Silence,
    /// Closes the connection.
    Close,
    /// Sends these bytes and closes the connection.
    SendAndClose(Vec<u8>),
    /// Sends these bytes and resets the connection.
    SendAndReset(Vec<u8>),
}

pub(crate) struct Server<P> {
    pub(crate) port: u16,
    peers: Arc<Mutex<Vec<IpAddr>>>,
    program: Arc<Mutex<P>>,
}

impl<P> Clone for Server<P> {
    fn clone(&self) -> Self {
        Self { port: self.port, peers: Arc::clone(&self.peers), program: Arc::clone(&self.program) }
    }
}

/// A mount of a server on a port of this machine.
pub(crate) fn mount(port: u16, version: u32) -> NfsMount {
    NfsMount {
        host: "127.0.0.1".into(),
        port: Some(port),
        mount_port: Some(port),
        export: EXPORT.into(),
        version,
        nconnect: 1,
        session_slots: 64,
        uid: 7,
        gid: 8,
        durability: Durability::None,
        timeout_ns: 20 * SECOND,
        keep_payload: true,
        source: None,
        rsize: None,
        wsize: None,
        tls: None,
    }
}

impl<P: Program> Server<P> {
    pub(crate) fn new(script: impl FnMut(P::Seen) -> P::Act + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Self { port, peers: Arc::default(), program: Arc::new(Mutex::new(P::new(Box::new(script)))) };
        let acceptor = server.clone();
        thread::spawn(move || {
            for connection in 0.. {
                // The socket itself cannot report the peer any more if it has disconnected.
                let (stream, peer) = listener.accept().unwrap();
                let server = acceptor.clone();
                server.peers.lock().unwrap().push(peer.ip());
                thread::spawn(move || server.serve(stream, connection));
            }
        });
        server
    }

    pub(crate) fn answering() -> Self {
        Self::new(|_| P::Act::default())
    }

    pub(crate) fn with_file(self, name: &str, content: &[u8]) -> Self {
        self.lock().files().insert(name.to_owned(), content.to_vec());
        self
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, P> {
        self.program.lock().unwrap()
    }

    pub(crate) fn content(&self, name: &str) -> Option<Vec<u8>> {
        self.lock().files().get(name).cloned()
    }

    pub(crate) fn seen(&self) -> Vec<P::Seen> {
        self.lock().seen().to_vec()
    }

    /// Client addresses of its connections, once there are `count`.
    pub(crate) fn peers(&self, count: usize) -> Vec<IpAddr> {
        loop {
            let peers = self.peers.lock().unwrap().clone();
            if peers.len() >= count {
                return peers;
            }
            thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    pub(crate) fn mount(&self) -> NfsMount {
        mount(self.port, P::VERSION)
    }

    fn serve(&self, mut stream: TcpStream, connection: usize) {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        while let Some(record) = receive(&mut stream) {
            let reaction = self.lock().handle(connection, &record);
            match reaction {
                // A client that has disconnected does not matter.
                Reaction::Send(bytes) => drop(stream.write_all(&bytes)),
                Reaction::Silence => {}
                Reaction::Close => return,
                Reaction::SendAndClose(bytes) => return drop(stream.write_all(&bytes)),
                Reaction::SendAndReset(bytes) => {
                    drop(stream.write_all(&bytes));
                    return reset_when_closed(&stream);
                }
            }
        }
    }
}

/// A record of one reply.
pub(crate) fn reply(xid: u32, results: &[u8]) -> Vec<u8> {
    [&to_bytes(&ReplyHeader::success(xid)), results].concat()
}

/// The record on the wire, in one fragment.
pub(crate) fn marked(record: &[u8]) -> Vec<u8> {
    fragment(record, true)
}

/// A part of a record on the wire.
pub(crate) fn fragment(bytes: &[u8], last: bool) -> Vec<u8> {
    [&RecordMark { length: bytes.len() as u32, last }.to_bytes(), bytes].concat()
}

fn reset_when_closed(stream: &TcpStream) {
    let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
    let bytes = size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: the option's value is a `linger` of this size.
    let code = unsafe {
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, (&raw const at_once).cast(), bytes)
    };
    assert_eq!(code, 0);
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

/// An engine on file `f` with its buffers; `change` adapts the mount.
pub(crate) struct Client<P: Mountable> {
    pub(crate) engine: NfsEngine<P>,
    pub(crate) buffers: Buffers,
    pub(crate) clock: Clock,
    pub(crate) stop: Arc<AtomicBool>,
}

impl<P: Mountable> Client<P> {
    pub(crate) fn new<S: Program>(
        server: &Server<S>,
        depth: u32,
        bytes: usize,
        change: impl FnOnce(&mut NfsMount),
    ) -> Self {
        let mut mount = server.mount();
        change(&mut mount);
        Self::on(&mount, depth, bytes, Clock::new()).expect("the server serves")
    }

    pub(crate) fn on(mount: &NfsMount, depth: u32, bytes: usize, clock: Clock) -> Result<Self, EngineError> {
        let buffers = Buffers::new(depth as usize, bytes);
        let stop = Arc::new(AtomicBool::new(false));
        // SAFETY: tests access a slot before they submit a request for it, or after its completion.
        let slots = unsafe { buffers.slot_map() };
        let files = [file("f", 0, Layout::Existing)];
        let engine = NfsEngine::connect(mount, &files, slots, depth, clock.clone(), Arc::clone(&stop))?;
        Ok(Self { engine, buffers, clock, stop })
    }

    pub(crate) fn submit(&mut self, slot: u32, kind: OperationKind, offset: u64, length: u32) {
        self.engine.submit(Request { slot, kind, address: Address { file: 0, offset, length } }).unwrap();
    }

    /// Waits for `count` completions, in the order of their slots.
    pub(crate) fn reap(&mut self, count: usize) -> Result<Vec<(u32, i64)>, EngineError> {
        let mut done = Vec::new();
        let end = self.clock.now() + 30 * SECOND;
        while done.len() < count {
            assert!(self.clock.now() < end, "{} of {count} operations completed", done.len());
            self.engine.reap(count - done.len(), self.clock.now() + SECOND / 10, &mut done)?;
        }
        let mut done: Vec<_> = done.into_iter().map(|completion| (completion.slot, completion.result)).collect();
        done.sort_unstable();
        Ok(done)
    }

    pub(crate) fn one(&mut self, kind: OperationKind, offset: u64, length: u32) -> i64 {
        self.submit(0, kind, offset, length);
        self.reap(1).unwrap()[0].1
    }

    pub(crate) fn buffer(&mut self, slot: u32, length: usize) -> &mut [u8] {
        self.buffers.slot_mut(slot, length)
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.engine.counters()[name]
    }
}

/// Checks that operations which a server refuses so end with this `errno`.
pub(crate) fn check_errno<P: Mountable, S: Program>(
    refuse: impl FnMut(S::Seen) -> S::Act + Send + 'static,
    errno: i32,
) {
    let server = Server::<S>::new(refuse).with_file("f", b"");
    let mut client = Client::<P>::new(&server, 1, 4096, |_| {});
    assert_eq!(client.one(WRITE, 0, 4096), -i64::from(errno));
    assert_eq!(client.one(READ, 0, 4096), -i64::from(errno));
}

/// Connects an engine to one file; the error, in words.
pub(crate) fn explained<P: Mountable>(mount: &NfsMount, path: &str) -> String {
    connect::<P>(mount, path).unwrap_err().to_string()
}

/// An engine that transfers nothing.
pub(crate) fn connect<P: Mountable>(mount: &NfsMount, path: &str) -> Result<NfsEngine<P>, EngineError> {
    // SAFETY: no slot is ever borrowed.
    let slots = unsafe { Buffers::new(1, 4096).slot_map() };
    NfsEngine::connect(mount, &[file(path, 0, Layout::Existing)], slots, 1, Clock::new(), Arc::default())
}

pub(crate) fn file(path: &str, bytes: u64, layout: Layout) -> FilePlan {
    FilePlan { path: path.into(), offset_bytes: 0, bytes, start_bytes: 0, layout, keep: true }
}

/// Bytes without repetition.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}
