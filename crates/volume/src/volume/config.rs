//! The configuration of a volume, and the errors of starting and changing one.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use thiserror::Error;

use iocurve_wire::mount3::MNTPATHLEN;

use crate::memory::LIMIT_BYTES;
use crate::qos::Limits;
use crate::served::rules::ExportRules;
use crate::store::faulty::Faults;
use crate::store::handle::HandleKey;

/// The store of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreConfig {
    /// In memory, at most `limit_bytes` of it; gone when the volume stops.
    Memory {
        /// Data and metadata together.
        limit_bytes: u64,
    },
    /// In a directory of this machine.
    Directory {
        /// The directory; it must exist.
        path: PathBuf,
        /// Changes of names and attributes are answered before they are on stable storage, as with `async` in exports(5).
        is_async: bool,
    },
}

/// One export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportConfig {
    /// Path that clients mount, beginning with `/`.
    pub path: String,
    /// The store of its files.
    pub store: StoreConfig,
    /// Size of the export; writes beyond it fail with `NFS3ERR_DQUOT`.
    pub quota_bytes: u64,
    /// Limits of READs and WRITEs.
    pub limits: Limits,
    /// The clients that may use it, and the users that they act as.
    pub rules: ExportRules,
}

impl Default for ExportConfig {
    /// 4 TiB at `/vol` without limits, of which memory holds 1 GiB.
    fn default() -> Self {
        let (store, limits) = (StoreConfig::Memory { limit_bytes: 1 << 30 }, Limits::default());
        Self { path: "/vol".to_owned(), store, quota_bytes: 4 << 40, limits, rules: ExportRules::default() }
    }
}

/// Configuration of a volume.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeConfig {
    /// Address to listen on.
    pub address: IpAddr,
    /// TCP port to listen on; 0 takes a free one.
    pub port: u16,
    /// At least one export, each with files and limits of its own.
    pub exports: Vec<ExportConfig>,
    /// Threads that serve; one for each core if `None`.
    pub threads: Option<usize>,
    /// Most open connections. When all are open, addresses have equal shares, and idle connections make room.
    pub connections_max: u32,
    /// Memory that connections may hold together for records in part, replies not taken and operations that wait. Beyond it they
    /// go on with small pieces, and those that stall are closed.
    pub connection_memory_bytes: u64,
    /// Proves handles of files in directories. With the same key they outlive a restart; nobody else should know it.
    pub handle_key: [u8; 16],
    /// Faults that all stores inject; none if `None`.
    pub faults: Option<Faults>,
    /// Keys of TLS, which every connection must use; without it nothing is encrypted.
    pub tls: Option<TlsFiles>,
    /// Version of the program, which `EXCHANGE_ID` tells clients.
    pub version: &'static str,
}

/// The PEM files of a server's TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Its certificate, and those of the authorities that signed it.
    pub certificate: PathBuf,
    /// The key of the certificate; it may be in the same file.
    pub key: PathBuf,
    /// Authorities, one of which must have signed the certificate of each client; without them clients need none.
    pub clients: Option<PathBuf>,
}

/// Default of `VolumeConfig::connections_max`.
pub(crate) const CONNECTIONS_MAX: u32 = 8192;

impl Default for VolumeConfig {
    /// The default export on any free port of the loopback interface, with a key that nobody knows.
    fn default() -> Self {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Self {
            address,
            port: 0,
            exports: vec![ExportConfig::default()],
            threads: None,
            connections_max: CONNECTIONS_MAX,
            connection_memory_bytes: LIMIT_BYTES as u64,
            handle_key: HandleKey::random().to_bytes(),
            faults: None,
            tls: None,
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// Why a volume cannot be served.
#[derive(Debug, Error)]
pub enum VolumeError {
    /// The configuration is invalid.
    #[error("{0}")]
    Config(String),
    /// The port cannot be listened on.
    #[error("cannot listen on {address}: {source}{}", listen_hint(source))]
    Listen {
        /// Address and port.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The store cannot be opened.
    #[error("cannot keep files in {place}: {source}")]
    Store {
        /// `memory`, or the path.
        place: String,
        /// The system's error.
        source: io::Error,
    },
    /// The log of faults cannot be created.
    #[error("cannot create the fault log {path}: {source}{}", if source.kind() == io::ErrorKind::AlreadyExists { "; name a new file" } else { "" })]
    FaultLog {
        /// Its path.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The system refused something else.
    #[error("the volume cannot {action}: {source}")]
    System {
        /// The action that was tried.
        action: &'static str,
        /// The system's error.
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

pub(crate) fn check(config: &VolumeConfig) -> Result<(), VolumeError> {
    if config.threads == Some(0) {
        return invalid("the volume needs at least one thread");
    }
    if config.connections_max == 0 {
        return invalid("the volume needs at least one connection");
    }
    if config.exports.is_empty() {
        return invalid("the volume needs at least one export");
    }
    config.faults.as_ref().map_or(Ok(()), check_faults)?;
    let mut paths = BTreeSet::new();
    for ExportConfig { path, limits, quota_bytes, .. } in &config.exports {
        match () {
            () if !path.starts_with('/') => invalid("the export must be a path that begins with /"),
            () if path.len() > MNTPATHLEN => invalid("the export is longer than 1024 bytes"),
            () if !paths.insert(path.trim_end_matches('/')) => invalid(&format!("there are two exports {path}")),
            () => check_quota(*quota_bytes).and_then(|()| check_limits(limits)),
        }?;
    }
    Ok(())
}

fn check_faults(faults: &Faults) -> Result<(), VolumeError> {
    let mut kinds = BTreeSet::new();
    for rate in &faults.rates {
        if !(rate.rate > 0.0 && rate.rate <= 1.0) {
            return invalid("the rate of a fault is above 0 and at most 1");
        }
        if !kinds.insert(rate.kind) {
            return invalid("a kind of fault has one rate");
        }
    }
    Ok(())
}

fn invalid(text: &str) -> Result<(), VolumeError> {
    Err(VolumeError::Config(text.to_owned()))
}

pub(crate) fn check_quota(quota_bytes: u64) -> Result<(), VolumeError> {
    if quota_bytes == 0 { invalid("the quota must be at least one byte") } else { Ok(()) }
}

pub(crate) fn check_limits(limits: &Limits) -> Result<(), VolumeError> {
    limits.check().map_err(VolumeError::Config)
}
