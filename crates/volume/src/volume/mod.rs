//! A running volume: start, read counters, change, stop.

mod config;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use iocurve_meter::{Clock, Nanos};
use iocurve_tls::ServerTls;

use crate::memory::ConnectionMemory;
use crate::nfs4_state::{ClientRecord, DirectoryRecord, State};
use crate::qos::Limits;
use crate::served::{Export, Exports, Served};
use crate::server::cores::allowed_cpus;
use crate::server::crew::Crew;
use crate::server::socket::accept_unpaced;
use crate::server::threads::Threads;
use crate::stats::{ExportStats, IoStats, Stats};
use crate::store::Files;
use crate::store::Store;
use crate::store::directory::DirectoryStore;
use crate::store::faulty::{FaultLog, Faults, FaultyStore};
use crate::store::handle::HandleKey;
use crate::store::memory::MemoryStore;
use crate::store::times::wall_ns;
pub use config::{ExportConfig, StoreConfig, TlsFiles, VolumeConfig, VolumeError};
use config::{check, check_limits, check_quota};

/// Most exports in the name of the server, whose length the protocol limits.
const SCOPE_EXPORTS_MAX: usize = 32;

/// Threads next to those of the cores, where a store may wait for a disk.
const FURTHER_THREADS: usize = 16;

/// Files that this process has open beside the sockets of connections: those that are served, pipes, and what it has otherwise.
const OTHER_OPEN_FILES: u64 = 2048;

/// A volume that is being served. It stops when dropped.
#[derive(Debug)]
pub struct Volume {
    address: SocketAddr,
    started: Nanos,
    crew: Arc<Crew>,
}

impl Volume {
    /// Binds the port and starts to serve.
    pub fn start(config: &VolumeConfig) -> Result<Self, VolumeError> {
        check(config)?;
        let keys = |files: &TlsFiles| ServerTls::new(&files.certificate, &files.key, files.clients.as_deref());
        let tls = config.tls.as_ref().map(keys).transpose();
        let tls = tls.map_err(|error| VolumeError::Config(format!("TLS: {error}")))?;
        let address = SocketAddr::new(config.address, config.port);
        let listener = TcpListener::bind(address).map_err(|source| VolumeError::Listen { address, source })?;
        accept_unpaced(&listener);
        let (cpus, clock) = (allowed_cpus(), Clock::new());
        let count = config.threads.unwrap_or(cpus.len());
        let may_wait = config.exports.iter().any(|export| matches!(export.store, StoreConfig::Directory { .. }));
        let further = if may_wait { FURTHER_THREADS } else { 0 };
        let exports = open_exports(config, count + further, clock.now())?;
        let connections_max = raise_open_files_limit(config.connections_max.into()) as usize;
        let threads = Threads::new(count, further, &cpus, connections_max).map_err(system("prepare its threads"))?;
        let memory = ConnectionMemory::new(config.connection_memory_bytes as usize);
        let mut nfs4 = State::new(scope(&exports), config.handle_key, records(config), clock.now());
        nfs4.implementation = format!("iocurve {}", config.version);
        Self::serve((listener, tls), exports, memory, nfs4, threads, clock)
    }

    fn serve(
        (listener, tls): (TcpListener, Option<ServerTls>),
        exports: Exports,
        memory: ConnectionMemory,
        nfs4: State,
        threads: Arc<Threads>,
        clock: Clock,
    ) -> Result<Self, VolumeError> {
        let address = listener.local_addr().map_err(system("find out its port"))?;
        let served = Served::new(exports, address.port(), wall_ns().to_be_bytes(), memory, nfs4);
        let started = clock.now();
        let volume = Self { address, started, crew: Arc::new(Crew::new(Arc::new(served), threads, clock)) };
        volume.crew.start(listener, tls.as_ref()).map_err(system("start its threads"))?;
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

    /// Counters since the start, and the state of exports, clients and connections.
    pub fn stats(&self) -> Stats {
        let (clients, connections) = self.crew.threads.connections.read();
        let uptime_ns = self.crew.clock.now() - self.started;
        let exports = self.crew.served.exports.iter().map(|export| self.export_stats(export)).collect();
        let connection_memory_bytes = self.crew.served.memory.used() as u64;
        let mut stats = Stats { uptime_ns, connection_memory_bytes, exports, clients, connections, ..Stats::default() };
        let counters = self.crew.counters();
        let on_cores = counters.iter().take(self.crew.threads.on_cores());
        stats.threads_starved_ns = on_cores.map(|counters| counters.starved_ns.read()).collect();
        stats.nfs4 = self.crew.served.nfs4.stats();
        stats.exports.iter().for_each(|export| stats.io += export.io);
        for counters in counters.iter() {
            stats.calls += counters.calls.read();
            counters.add_calls_to(&mut stats);
        }
        stats
    }

    fn export_stats(&self, export: &Export) -> ExportStats {
        let (Export { number, path, throttle, .. }, budget) = (export, export.files.budget());
        let mut io = IoStats::default();
        self.crew.counters().iter().for_each(|counters| io += counters.exports[*number].read());
        let now = self.crew.clock.now();
        ExportStats {
            path: path.clone(),
            quota_bytes: budget.quota(),
            used_bytes: budget.used(),
            limits: throttle.limits(),
            burst_credits: throttle.credits(now),
            buckets: throttle.buckets(now),
            catch_up_ns: throttle.catch_up_ns(now),
            faults: export.files.fault_counts(),
            io,
        }
    }

    /// Changes the limits of an export, by its path, from now on. They apply to waiting operations, too, except those that the old
    /// limits have admitted and that wait for the latency, a server or the bandwidth of their connection or client. Connections stay.
    pub fn set_limits(&self, export: &str, limits: Limits) -> Result<(), VolumeError> {
        let export = self.export(export)?;
        check_limits(&limits)?;
        export.throttle.set_limits(self.crew.clock.now(), limits);
        self.crew.threads.wake();
        Ok(())
    }

    /// Changes the size of an export, by its path, from now on. A quota below current usage blocks writes until enough is removed.
    pub fn set_quota(&self, export: &str, quota_bytes: u64) -> Result<(), VolumeError> {
        let export = self.export(export)?;
        check_quota(quota_bytes)?;
        export.files.budget().set_quota(quota_bytes);
        Ok(())
    }

    fn export(&self, path: &str) -> Result<&Export, VolumeError> {
        let found = self.crew.served.exports.iter().find(|export| export.path == path);
        found.ok_or_else(|| VolumeError::Config(format!("there is no export {path}")))
    }

    /// Closes all connections, ends the threads, and returns the final counters. Fails if a thread had failed before.
    pub fn stop(mut self) -> Result<Stats, VolumeError> {
        self.end()?;
        Ok(self.stats())
    }

    fn end(&mut self) -> Result<(), VolumeError> {
        self.crew.end().map_err(system("serve"))
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Errors are for callers of `stop`.
        let _ = self.end();
    }
}

fn system(action: &'static str) -> impl FnOnce(io::Error) -> VolumeError {
    move |source| VolumeError::System { action, source }
}

/// Lets this process open as many files as connections need, as far as the system's hard limit goes; returns the number of connections for which
/// that is enough.
fn raise_open_files_limit(connections: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a structure of ours.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let wanted = (connections + OTHER_OPEN_FILES).min(limit.rlim_max);
    if limit.rlim_cur < wanted {
        limit.rlim_cur = wanted;
        // SAFETY: a structure of ours.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
    connections_of(limit.rlim_cur).min(connections)
}

/// The connections for which this process can open enough files; half of them where they are few.
fn connections_of(open_files: u64) -> u64 {
    open_files.saturating_sub(OTHER_OPEN_FILES).max(open_files / 2)
}

fn open_exports(config: &VolumeConfig, threads: usize, now: Nanos) -> Result<Exports, VolumeError> {
    let start = wall_ns();
    let log = config.faults.as_ref().map_or(Ok(None), open_fault_log)?;
    let open = |(number, export): (usize, &ExportConfig)| {
        let mut files = open_files(export, start + number as u64, HandleKey::new(config.handle_key))?;
        if let Some(faults) = &config.faults {
            let faulty = FaultyStore::new(files, export.path.clone(), faults.clone(), log.clone());
            files = Files::Faulty(faulty);
        }
        Ok(Export::new(export.path.clone(), files, export.limits.clone(), threads, now)
            .with_rules(export.rules.clone()))
    };
    let exports = config.exports.iter().enumerate().map(open).collect::<Result<_, VolumeError>>()?;
    Exports::new(exports).ok_or_else(|| VolumeError::Config("two exports are the same directory".to_owned()))
}

fn open_fault_log(faults: &Faults) -> Result<Option<FaultLog>, VolumeError> {
    let create = |path: &PathBuf| {
        FaultLog::create(path).map_err(|source| VolumeError::FaultLog { path: path.display().to_string(), source })
    };
    faults.log.as_ref().map(create).transpose()
}

/// Names the server to NFSv4.1 clients: by its exports, so that those in directories are known again after a restart.
fn scope(exports: &Exports) -> String {
    let digits = |export: &Export| {
        let root = export.files.root();
        let prefix = root.as_bytes().first_chunk().map_or(0, |prefix| u64::from_be_bytes(*prefix));
        format!("{prefix:016x}")
    };
    exports.iter().map(digits).take(SCOPE_EXPORTS_MAX).collect::<Vec<_>>().join("-")
}

/// Directories in which the clients are on record that may reclaim their state after a restart. Files in memory are gone by then.
fn records(config: &VolumeConfig) -> Vec<Box<dyn ClientRecord>> {
    let record = |export: &ExportConfig| match &export.store {
        StoreConfig::Memory { .. } => None,
        StoreConfig::Directory { path, .. } => {
            Some(Box::new(DirectoryRecord::new(path.clone())) as Box<dyn ClientRecord>)
        }
    };
    config.exports.iter().filter_map(record).collect()
}

/// Opens the store of an export. Memory of one start must not have the `id` of another.
fn open_files(config: &ExportConfig, id: u64, key: HandleKey) -> Result<Files, VolumeError> {
    let failed = |place| move |source| VolumeError::Store { place, source };
    match &config.store {
        StoreConfig::Memory { limit_bytes } => MemoryStore::new(id.to_be_bytes(), config.quota_bytes, *limit_bytes)
            .map(Files::Memory)
            .map_err(failed("memory".to_owned())),
        StoreConfig::Directory { path, is_async } => DirectoryStore::open(path, config.quota_bytes, key, *is_async)
            .map(Files::Directory)
            .map_err(failed(path.display().to_string())),
    }
}
