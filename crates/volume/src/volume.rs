//! A volume as its users see it: configure, start, look, stop.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use thiserror::Error;

use iocurve_meter::{Clock, Nanos};
use iocurve_wire::mount3::MNTPATHLEN;

use crate::qos::Limits;
use crate::reply::cache::ReplyCache;
use crate::served::{Export, Served};
use crate::server::reactor::{Reactor, Threads, allowed_cpus};
use crate::stats::{Counters, ExportStats, IoStats, Stats};
use crate::store::directory::DirectoryStore;
use crate::store::exports::{Exports, Files};
use crate::store::memory::MemoryStore;
use crate::store::{Store, wall_ns};

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

/// What clients are to mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportConfig {
    /// Path that clients mount, beginning with `/`.
    pub path: String,
    /// Where the files are.
    pub store: StoreConfig,
    /// Size of the export; what goes beyond it is answered with `NFS3ERR_DQUOT`.
    pub quota_bytes: u64,
    /// What READs and WRITEs are limited to.
    pub limits: Limits,
}

impl Default for ExportConfig {
    /// 4 TiB at `/vol` without limits, of which memory holds 1 GiB.
    fn default() -> Self {
        let store = StoreConfig::Memory { limit_bytes: 1 << 30 };
        Self { path: "/vol".to_owned(), store, quota_bytes: 4 << 40, limits: Limits::default() }
    }
}

/// What a volume is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeConfig {
    /// Address to listen on.
    pub address: IpAddr,
    /// TCP port to listen on; 0 takes a free one.
    pub port: u16,
    /// What clients mount: at least one export, each with files and limits of its own.
    pub exports: Vec<ExportConfig>,
    /// Threads that serve; one for each core if `None`.
    pub threads: Option<usize>,
}

impl Default for VolumeConfig {
    /// The default export on any free port of the loopback interface.
    fn default() -> Self {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Self { address, port: 0, exports: vec![ExportConfig::default()], threads: None }
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
    served: Arc<Served<Exports>>,
    counters: Vec<Arc<Counters>>,
    clock: Clock,
    started: Nanos,
    threads: Arc<Threads>,
    handles: Vec<JoinHandle<io::Result<()>>>,
}

impl Volume {
    /// Binds the port and starts to serve.
    pub fn start(config: &VolumeConfig) -> Result<Self, VolumeError> {
        check(config)?;
        let address = SocketAddr::new(config.address, config.port);
        let listener = TcpListener::bind(address).map_err(|source| VolumeError::Listen { address, source })?;
        let start = wall_ns();
        let files = config.exports.iter().enumerate().map(|(n, export)| files(export, start + n as u64));
        let store = Exports::new(files.collect::<Result<_, _>>()?)
            .ok_or_else(|| VolumeError::Config("two exports are the same folder".to_owned()))?;
        Self::serve(config, listener, store)
    }

    fn serve(config: &VolumeConfig, listener: TcpListener, store: Exports) -> Result<Self, VolumeError> {
        let system = |action| move |source| VolumeError::System { action, source };
        let address = listener.local_addr().map_err(system("find out its port"))?;
        let cpus = allowed_cpus();
        let count = config.threads.unwrap_or(cpus.len());
        let clock = Clock::new();
        let started = clock.now();
        let export = |export: &ExportConfig| Export::new(export.path.clone(), export.limits, count, started);
        let served = Arc::new(Served {
            store,
            exports: config.exports.iter().map(export).collect(),
            port: address.port(),
            writeverf: wall_ns().to_be_bytes(),
            mounts: Mutex::default(),
            replies: ReplyCache::default(),
        });
        let threads = Threads::new(count, &cpus).map_err(system("prepare its threads"))?;
        let counters: Vec<_> = (0..count).map(|_| Arc::new(Counters::new(config.exports.len()))).collect();
        let mut volume = Self { address, served, counters, clock, started, threads, handles: Vec::new() };
        let mut listener = Some(listener);
        for own in 0..count {
            let (counters, threads) = (Arc::clone(&volume.counters[own]), Arc::clone(&volume.threads));
            let (served, clock) = (Arc::clone(&volume.served), volume.clock.clone());
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
        let (clients, connections) = self.threads.connections.read();
        let uptime_ns = self.clock.now() - self.started;
        let exports = (0..self.served.exports.len()).map(|export| self.export_stats(export)).collect();
        let mut stats = Stats { uptime_ns, exports, clients, connections, ..Stats::default() };
        stats.exports.iter().for_each(|export| stats.io += export.io);
        self.counters.iter().for_each(|counters| stats.calls += counters.calls.read());
        stats
    }

    fn export_stats(&self, export: usize) -> ExportStats {
        let (Export { path, throttle }, budget) = (&self.served.exports[export], self.served.store.budget(export));
        let mut io = IoStats::default();
        self.counters.iter().for_each(|counters| io += counters.exports[export].read());
        let now = self.clock.now();
        ExportStats {
            path: path.clone(),
            quota_bytes: budget.quota(),
            used_bytes: budget.used(),
            limits: throttle.limits(),
            burst_credits: throttle.credits(now),
            buckets: throttle.buckets(now),
            io,
        }
    }

    /// Limits an export, by its path, from now on, for what waits, too: only what its limits have let through already, and waits
    /// for the latency, a server or the bandwidth of its connection or client, is answered when it was to be. Connections stay.
    pub fn set_limits(&self, export: &str, limits: Limits) -> Result<(), VolumeError> {
        let export = self.export(export)?;
        check_limits(&limits)?;
        self.served.exports[export].throttle.set_limits(self.clock.now(), limits);
        self.threads.wake();
        Ok(())
    }

    /// Sets the size of an export, by its path, from now on. Below what is used, writes find no room until enough is removed.
    pub fn set_quota(&self, export: &str, quota_bytes: u64) -> Result<(), VolumeError> {
        let export = self.export(export)?;
        check_quota(quota_bytes)?;
        self.served.store.budget(export).set_quota(quota_bytes);
        Ok(())
    }

    fn export(&self, path: &str) -> Result<usize, VolumeError> {
        let found = self.served.exports.iter().position(|export| export.path == path);
        found.ok_or_else(|| VolumeError::Config(format!("there is no export {path}")))
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

/// Opens the store of an export. Memory of one start must not have the `id` of another.
fn files(config: &ExportConfig, id: u64) -> Result<Files, VolumeError> {
    match &config.store {
        StoreConfig::Memory { limit_bytes } => MemoryStore::new(id.to_be_bytes(), config.quota_bytes, *limit_bytes)
            .map(Files::Memory)
            .map_err(|source| VolumeError::Store { place: "memory".to_owned(), source }),
        StoreConfig::Directory { path } => DirectoryStore::open(path, config.quota_bytes)
            .map(Files::Directory)
            .map_err(|source| VolumeError::Store { place: path.display().to_string(), source }),
    }
}

fn check(config: &VolumeConfig) -> Result<(), VolumeError> {
    if config.threads == Some(0) {
        return wrong("the volume needs at least one thread");
    }
    if config.exports.is_empty() {
        return wrong("the volume needs at least one export");
    }
    let mut paths = BTreeSet::new();
    for ExportConfig { path, limits, quota_bytes, .. } in &config.exports {
        match () {
            () if !path.starts_with('/') => wrong("the export must be a path that begins with /"),
            () if path.len() > MNTPATHLEN => wrong("the export is longer than 1024 bytes"),
            () if !paths.insert(path.trim_end_matches('/')) => wrong(&format!("there are two exports {path}")),
            () => check_quota(*quota_bytes).and_then(|()| check_limits(limits)),
        }?;
    }
    Ok(())
}

fn wrong(text: &str) -> Result<(), VolumeError> {
    Err(VolumeError::Config(text.to_owned()))
}

fn check_quota(quota_bytes: u64) -> Result<(), VolumeError> {
    if quota_bytes == 0 { wrong("the quota must be at least one byte") } else { Ok(()) }
}

fn check_limits(limits: &Limits) -> Result<(), VolumeError> {
    limits.check().map_err(VolumeError::Config)
}
