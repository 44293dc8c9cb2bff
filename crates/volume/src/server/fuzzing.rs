//! A volume behind pipes, without sockets and clocks, for the fuzz targets and for counting instructions.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use libc::iovec;

use iocurve_meter::{Nanos, SECOND};
use iocurve_wire::nfs3::{cookieverf3, nfs_fh3};

use super::incoming::INPUT_BYTES;
use super::session::{Interest, Session};
use super::transport::Transport;
use super::worker::Worker;
use crate::memory::ConnectionMemory;
use crate::nfs4_state::{ClientRecord, LEASE_SECONDS, State};
use crate::qos::Limits;
use crate::reply::cache::ReplyCache;
use crate::served::rules::{ExportRules, Squash};
use crate::served::{Export, Exports, Served};
use crate::stats::Counters;
use crate::store::Files;
use crate::store::Store;
use crate::store::directory::DirectoryStore;
use crate::store::handle::HandleKey;
use crate::store::memory::MemoryStore;

/// A small volume and connections to it.
#[derive(Debug)]
pub struct Fed {
    worker: Worker,
    connections: Vec<(Session, Pipe)>,
    record: KeptRecord,
    /// Starts of the server so far.
    starts: u64,
    now: Nanos,
}

/// The record of clients with state. It outlasts a restart of the server.
#[derive(Debug, Clone, Default)]
struct KeptRecord(Arc<Mutex<Vec<u64>>>);

impl ClientRecord for KeptRecord {
    fn read(&self) -> Vec<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn write(&self, clients: &[u64]) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = clients.to_vec();
    }
}

#[derive(Debug, Default)]
struct Pipe {
    to_server: Vec<u8>,
    /// Bytes of `to_server` that the server has received.
    received: usize,
    to_client: Vec<u8>,
    grain: usize,
}

impl Fed {
    /// Size of the volume.
    pub const QUOTA_BYTES: u64 = 16 << 20;

    const LARGE_BYTES: u64 = 8 << 30;

    /// Cookie verifier of listings.
    pub const COOKIEVERF: cookieverf3 = *b"fuzzing!";

    /// Time for which the state of a client without a sign of life is kept for certain.
    pub const LEASE_NS: Nanos = LEASE_SECONDS as Nanos * SECOND;

    /// An empty volume with the default rules.
    #[allow(clippy::new_without_default)] // it takes memory
    pub fn new() -> Self {
        Self::open(Self::memory(Self::QUOTA_BYTES), ExportRules::default(), Limits::default())
    }

    /// An empty volume with these rules.
    pub fn with_rules(rules: ExportRules) -> Self {
        Self::open(Self::memory(Self::QUOTA_BYTES), rules, Limits::default())
    }

    /// An empty volume with the default rules and these limits. No time passes in it: operations beyond a limit are never answered.
    pub fn with_limits(limits: Limits) -> Self {
        Self::open(Self::memory(Self::QUOTA_BYTES), ExportRules::default(), limits)
    }

    /// An empty volume for many files, in memory or in a directory, in which all users are themselves. With `is_async`, changes in a
    /// directory are answered before they are on stable storage.
    ///
    /// # Panics
    /// If the directory cannot be served.
    pub fn large(directory: Option<&Path>, is_async: bool) -> Self {
        let in_directory = |path| {
            let store = DirectoryStore::open(path, Self::LARGE_BYTES, HandleKey::random(), is_async);
            Files::Directory(store.expect("a directory"))
        };
        let rules = ExportRules { squash: Squash::None, ..ExportRules::default() };
        let files = directory.map_or_else(|| Self::memory(Self::LARGE_BYTES), in_directory);
        Self::open(files, rules, Limits::default())
    }

    fn memory(bytes: u64) -> Files {
        Files::Memory(MemoryStore::new(Self::COOKIEVERF, bytes, bytes).expect("memory"))
    }

    fn open(files: Files, rules: ExportRules, limits: Limits) -> Self {
        let export = Export::new("/vol".to_owned(), files, limits, 1, 0).with_rules(rules);
        let exports = Exports::new(vec![export]).expect("one export");
        let record = KeptRecord::default();
        let nfs4 = Self::started(&record, 0);
        let served = Served::new(exports, 2049, 1_u64.to_be_bytes(), ConnectionMemory::default(), nfs4);
        let worker = Worker::new(Arc::new(served), 0, Arc::new(Counters::new(1)), INPUT_BYTES);
        let mut volume = Self { worker, connections: Vec::new(), record, starts: 1, now: 0 };
        volume.connect(1);
        volume
    }

    /// The state of clients at a start.
    fn started(record: &KeptRecord, now: Nanos) -> State {
        let kept = record.clone();
        State::new("fuzzing".to_owned(), [0; 16], vec![Box::new(kept)], now)
    }

    /// The server is killed and starts again. Files and the record of clients stay; connections and all other state are gone.
    ///
    /// # Panics
    /// If something else still holds the state.
    pub fn restart(&mut self) {
        self.connections.clear();
        self.starts += 1;
        let served = Arc::get_mut(&mut self.worker.served).expect("one thread");
        served.nfs4 = Self::started(&self.record, self.now);
        served.writeverf = self.starts.to_be_bytes();
        served.replies = ReplyCache::default();
    }

    /// Connects from one of 256 addresses; returns the number of the connection.
    pub fn connect(&mut self, address: u8) -> usize {
        let (number, peer) = (self.connections.len(), ([127, 0, 0, address], 700).into());
        let session = Session::new(number as u64 + 1, peer, &self.worker.served.exports);
        self.connections.push((session, Pipe::default()));
        number
    }

    /// Lets time pass.
    pub fn pass(&mut self, passed: Nanos) {
        self.now += passed;
    }

    /// Checks that the state of clients sums up to what the tables hold, within the limits.
    pub fn check_state(&self) {
        self.worker.served.nfs4.check();
    }

    /// Handle of the topmost directory.
    pub fn root(&self) -> nfs_fh3 {
        self.files().root()
    }

    /// Bytes that the volume keeps.
    pub fn used_bytes(&self) -> u64 {
        self.files().budget().used()
    }

    fn files(&self) -> &Files {
        &self.worker.served.exports.numbered(0).files
    }

    /// Sends bytes, of which at most `grain` arrive at once, and returns the replies; `None` if the bytes closed the connection.
    pub fn feed(&mut self, bytes: &[u8], grain: usize) -> Option<Vec<u8>> {
        self.feed_on(0, bytes, grain)
    }

    /// As [`Self::feed`], by the connection with this number.
    pub fn feed_on(&mut self, connection: usize, bytes: &[u8], grain: usize) -> Option<Vec<u8>> {
        let (session, pipe) = &mut self.connections[connection];
        pipe.to_server.extend_from_slice(bytes);
        pipe.grain = grain;
        loop {
            let waiting = pipe.waiting();
            let interest = session.turn(&mut self.worker, pipe, self.now).ok()?;
            if interest != Interest::Turn && pipe.waiting() == waiting {
                return Some(std::mem::take(&mut pipe.to_client));
            }
        }
    }
}

impl Pipe {
    fn waiting(&self) -> usize {
        self.to_server.len() - self.received
    }
}

impl Transport for Pipe {
    unsafe fn receive(&mut self, into: &[iovec]) -> io::Result<usize> {
        let mut count = 0;
        for piece in into {
            let length = piece.iov_len.min(self.waiting()).min(self.grain - count);
            let from = self.to_server[self.received..].as_ptr();
            // SAFETY: both are at least as long.
            unsafe { std::ptr::copy_nonoverlapping(from, piece.iov_base.cast(), length) };
            self.received += length;
            count += length;
        }
        if self.waiting() == 0 {
            self.to_server.clear();
            self.received = 0;
        }
        if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }

    unsafe fn send(&mut self, from: &[iovec]) -> io::Result<usize> {
        let before = self.to_client.len();
        for piece in from {
            // SAFETY: the caller's memory is readable.
            let bytes = unsafe { std::slice::from_raw_parts(piece.iov_base.cast::<u8>(), piece.iov_len) };
            self.to_client.extend_from_slice(bytes);
        }
        Ok(self.to_client.len() - before)
    }
}
