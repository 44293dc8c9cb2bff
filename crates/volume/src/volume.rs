//! A volume as its users see it: configure, start, look, stop.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use thiserror::Error;

use iocurve_meter::Clock;
use iocurve_wire::mount3::MNTPATHLEN;

use crate::qos::{Limits, Qos};
use crate::reactor::{Reactor, Threads, allowed_cpus};
use crate::stats::{Counters, Stats};
use crate::store::directory::DirectoryStore;
use crate::store::memory::MemoryStore;
use crate::store::{Store, wall_ns};
use crate::worker::Served;

/// Where a volume keeps its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreConfig {
    /// In memory, at most `limit_bytes` of it; gone when the volume stops.
    Memory {
        /// Data and metadata together.
        limit_bytes: u64,
    },
    /// In a folder of this machine.
    Directory {
        /// The folder; it must exist.
        path: PathBuf,
    },
}

/// What a volume is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeConfig {
    /// Address to listen on.
    pub address: IpAddr,
    /// TCP port to listen on; 0 takes a free one.
    pub port: u16,
    /// Path that clients mount, beginning with `/`.
    pub export: String,
    /// Where the files are.
    pub store: StoreConfig,
    /// Size of the volume; what goes beyond it is answered with `NFS3ERR_DQUOT`.
    pub quota_bytes: u64,
    /// What READs and WRITEs are limited to.
    pub limits: Limits,
    /// Threads that serve; one for each core if `None`.
    pub threads: Option<usize>,
}

impl Default for VolumeConfig {
    /// On any free port of the loopback interface: 4 TiB without limits, of which memory holds 1 GiB.
    fn default() -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            export: "/vol".to_owned(),
            store: StoreConfig::Memory { limit_bytes: 1 << 30 },
            quota_bytes: 4 << 40,
            limits: Limits::default(),
            threads: None,
        }
    }
}

/// Why a volume cannot be served.
#[derive(Debug, Error)]
pub enum VolumeError {
    /// The configuration asks for what cannot be.
    #[error("{0}")]
    Config(String),
    /// The port cannot be listened on.
    #[error("cannot listen on {address}: {source}{}", listen_hint(source))]
    Listen {
        /// Address and port.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The store cannot be opened.
    #[error("cannot keep files in {place}: {source}")]
    Store {
        /// In words, or the path.
        place: String,
        /// Why.
        source: io::Error,
    },
    /// The system refused something else.
    #[error("the volume cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

fn listen_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => "; choose another port, or 0 for any free one",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need root, choose a higher one",
        io::ErrorKind::AddrNotAvailable => "; choose an address of this machine",
        _ => "",
    }
}

/// A volume that is being served. It stops when dropped.
#[derive(Debug)]
pub struct Volume {
    address: SocketAddr,
    counters: Vec<Arc<Counters>>,
    threads: Arc<Threads>,
    handles: Vec<JoinHandle<io::Result<()>>>,
}

impl Volume {
    /// Binds the port and starts to serve.
    pub fn start(config: &VolumeConfig) -> Result<Self, VolumeError> {
        check(config)?;
        let address = SocketAddr::new(config.address, config.port);
        let listener = TcpListener::bind(address).map_err(|source| VolumeError::Listen { address, source })?;
        match &config.store {
            StoreConfig::Memory { limit_bytes } => {
                let store = MemoryStore::new(wall_ns().to_be_bytes(), config.quota_bytes, *limit_bytes);
                let store = store.map_err(|source| VolumeError::Store { place: "memory".to_owned(), source })?;
                Self::serve(config, listener, store)
            }
            StoreConfig::Directory { path } => {
                let store = DirectoryStore::open(path, config.quota_bytes);
                let place = || path.display().to_string();
                Self::serve(config, listener, store.map_err(|source| VolumeError::Store { place: place(), source })?)
            }
        }
    }

    fn serve<S: Store>(config: &VolumeConfig, listener: TcpListener, store: S) -> Result<Self, VolumeError> {
        let system = |action| move |source| VolumeError::System { action, source };
        let address = listener.local_addr().map_err(system("find out its port"))?;
        let cpus = allowed_cpus();
        let count = config.threads.unwrap_or(cpus.len());
        let clock = Clock::new();
        let served = Arc::new(Served {
            store,
            export: config.export.clone(),
            port: address.port(),
            writeverf: wall_ns().to_be_bytes(),
            qos: config.limits.any().then(|| Mutex::new(Qos::new(config.limits, clock.now()))),
            mounts: Mutex::default(),
        });
        let threads = Threads::new(count, &cpus).map_err(system("prepare its threads"))?;
        let counters: Vec<_> = (0..count).map(|_| Arc::new(Counters::default())).collect();
        let mut volume = Self { address, counters, threads, handles: Vec::new() };
        let mut listener = Some(listener);
        for own in 0..count {
            let (counters, threads) = (Arc::clone(&volume.counters[own]), Arc::clone(&volume.threads));
            let (served, clock) = (Arc::clone(&served), clock.clone());
            let reactor = Reactor::new(served, counters, threads, own, listener.take(), clock);
            let reactor = reactor.map_err(system("prepare its threads"))?;
            let handle = thread::Builder::new().name(format!("volume-{own}")).spawn(move || reactor.run());
            volume.handles.push(handle.map_err(system("start its threads"))?);
        }
        Ok(volume)
    }

    /// TCP port that is listened on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Address and port that are listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What has been done so far.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.counters.iter().for_each(|counters| counters.add_to(&mut stats));
        stats
    }

    /// Closes all connections, ends the threads, and says what was done. Fails if a thread had failed before.
    pub fn stop(mut self) -> Result<Stats, VolumeError> {
        self.end()?;
        Ok(self.stats())
    }

    fn end(&mut self) -> Result<(), VolumeError> {
        self.threads.stop();
        let mut ended = Ok(());
        for handle in self.handles.drain(..) {
            let result = handle.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")));
            ended = ended.and(result.map_err(|source| VolumeError::System { action: "serve", source }));
        }
        ended
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Who wants to know how it ended calls `stop`.
        let _ = self.end();
    }
}

fn check(config: &VolumeConfig) -> Result<(), VolumeError> {
    let VolumeConfig { export, limits, .. } = config;
    let wrong = |text: &str| Err(VolumeError::Config(text.to_owned()));
    match () {
        () if !export.starts_with('/') => wrong("the export must be a path that begins with /"),
        () if export.len() > MNTPATHLEN => wrong("the export is longer than 1024 bytes"),
        () if config.quota_bytes == 0 => wrong("the quota must be at least one byte"),
        () if config.threads == Some(0) => wrong("the volume needs at least one thread"),
        () if limits.throughput_bytes_per_s == Some(0) => {
            wrong("the throughput limit must be at least one byte per second")
        }
        () if limits.iops == Some(0) => wrong("the IOPS limit must be at least one operation per second"),
        () => Ok(()),
    }
}
