//! What the threads of a volume serve together.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use iocurve_meter::Nanos;
use iocurve_wire::nfs3::writeverf3;

use crate::qos::{Limits, Throttle};
use crate::reply::cache::ReplyCache;

/// Most mounts that are remembered for DUMP.
const MOUNTS_MAX: usize = 1024;

/// What is served: one for all threads.
#[derive(Debug)]
pub struct Served<S> {
    /// The files.
    pub store: S,
    /// What clients mount, in the order of the store's exports.
    pub exports: Vec<Export>,
    /// Port that clients are told.
    pub port: u16,
    /// Differs from that of any earlier start, so that clients send unstable data again.
    pub writeverf: writeverf3,
    /// Who has mounted what: client and directory.
    pub mounts: Mutex<BTreeSet<(String, Vec<u8>)>>,
    /// Replies to calls that must not be carried out twice.
    pub replies: ReplyCache,
}

/// What is mounted, and its limits, which may change while it is served.
#[derive(Debug)]
pub struct Export {
    /// Path that clients mount.
    pub path: String,
    /// What it is limited to, and what waits for that.
    pub throttle: Throttle,
}

impl Export {
    /// An export under limits, served by so many threads.
    pub fn new(path: String, limits: Limits, threads: usize, now: Nanos) -> Self {
        Self { path, throttle: Throttle::new(limits, threads, now) }
    }
}

impl<S> Served<S> {
    /// Remembers a mount.
    pub fn mounted(&self, client: &str, directory: &[u8]) {
        let mut mounts = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        if mounts.len() < MOUNTS_MAX {
            mounts.insert((client.to_owned(), directory.to_vec()));
        }
    }

    /// Forgets a client's mount of a directory, or all its mounts.
    pub fn unmounted(&self, client: &str, directory: Option<&[u8]>) {
        let mut mounts = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        mounts.retain(|(host, path)| host != client || directory.is_some_and(|directory| path != directory));
    }
}
