//! A volume in memory behind a pipe, without sockets and clocks, for the fuzz targets.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use libc::iovec;

use iocurve_wire::nfs3::{cookieverf3, nfs_fh3};

use crate::qos::Limits;
use crate::reply::cache::ReplyCache;
use crate::served::{Export, Served};
use crate::server::session::{Interest, Session, Transport};
use crate::server::worker::Worker;
use crate::stats::Counters;
use crate::store::Store;
use crate::store::memory::MemoryStore;

/// A connection to a small volume.
#[derive(Debug)]
pub struct Fed {
    worker: Worker<MemoryStore>,
    session: Session,
    pipe: Pipe,
}

#[derive(Debug, Default)]
struct Pipe {
    to_server: VecDeque<u8>,
    to_client: Vec<u8>,
    grain: usize,
}

impl Fed {
    /// Size of the volume.
    pub const QUOTA_BYTES: u64 = 16 << 20;

    /// What listings go on with.
    pub const COOKIEVERF: cookieverf3 = *b"fuzzing!";

    /// An empty volume.
    #[allow(clippy::new_without_default)] // it takes memory
    pub fn new() -> Self {
        let served = Served {
            store: MemoryStore::new(Self::COOKIEVERF, Self::QUOTA_BYTES, Self::QUOTA_BYTES).expect("memory"),
            exports: vec![Export::new("/vol".to_owned(), Limits::default(), 1, 0)],
            port: 2049,
            writeverf: *b"verifier",
            mounts: Mutex::default(),
            replies: ReplyCache::default(),
        };
        let worker = Worker::new(Arc::new(served), 0, Arc::new(Counters::new(1)));
        Self { worker, session: Session::new(1, "127.0.0.1".to_owned()), pipe: Pipe::default() }
    }

    /// Handle of the topmost directory.
    pub fn root(&self) -> nfs_fh3 {
        self.worker.served.store.root(0)
    }

    /// Bytes that the volume keeps.
    pub fn used_bytes(&self) -> u64 {
        self.worker.served.store.budget(0).used()
    }

    /// Sends bytes, of which at most `grain` arrive at once, and returns what is answered; `None` if that closed the connection.
    pub fn feed(&mut self, bytes: &[u8], grain: usize) -> Option<Vec<u8>> {
        self.pipe.to_server.extend(bytes);
        self.pipe.grain = grain;
        loop {
            let waiting = self.pipe.to_server.len();
            let interest = self.session.turn(&mut self.worker, &mut self.pipe, 0).ok()?;
            if interest != Interest::Turn && self.pipe.to_server.len() == waiting {
                return Some(std::mem::take(&mut self.pipe.to_client));
            }
        }
    }
}

impl Transport for Pipe {
    unsafe fn receive(&mut self, into: &[iovec]) -> io::Result<usize> {
        let mut count = 0;
        for piece in into {
            let length = piece.iov_len.min(self.to_server.len()).min(self.grain - count);
            let bytes: Vec<u8> = self.to_server.drain(..length).collect();
            // SAFETY: the caller's memory is at least as long.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), piece.iov_base.cast(), length) };
            count += length;
        }
        if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }

    unsafe fn send(&mut self, from: &[iovec]) -> io::Result<usize> {
        let before = self.to_client.len();
        for piece in from {
            // SAFETY: the caller's memory is readable.
            self.to_client.extend(unsafe { std::slice::from_raw_parts(piece.iov_base.cast::<u8>(), piece.iov_len) });
        }
        Ok(self.to_client.len() - before)
    }
}
