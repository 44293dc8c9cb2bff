use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use iocurve_volume::{
    ClientRule, ExportConfig, ExportRules, FaultRate, Faults, Limits, Squash, StoreConfig, TlsFiles, Volume as Served,
    VolumeConfig, VolumeError,
};
use pyo3::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::raise;

/// An embedded NFS volume in its own threads.
#[pyclass(frozen, module = "iocurve._native")]
pub struct Volume {
    port: u16,
    served: Mutex<Option<Served>>,
}

#[pymethods]
impl Volume {
    /// Starts serving (JSON of `VolumeConfig` in `iocurve.volume`). Raises TargetError.
    #[new]
    fn new(py: Python<'_>, config: &str) -> PyResult<Self> {
        let config: Config = parse(py, config)?;
        let config = VolumeConfig::try_from(config).map_err(|error| raise(py, "TargetError", error))?;
        let served = py.detach(|| Served::start(&config)).map_err(|error| refuse(py, &error))?;
        Ok(Self { port: served.port(), served: Mutex::new(Some(served)) })
    }

    /// TCP port of the NFS and MOUNT programs.
    #[getter]
    fn port(&self) -> u16 {
        self.port
    }

    /// The counters since the start, as JSON; None after the end.
    fn stats(&self) -> Option<String> {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        served.as_ref().map(|served| serde_json::to_string(&served.stats()).expect("plain numbers"))
    }

    /// Sets the limits of an export (by its path) to the JSON of `Limits`. Raises TargetError.
    fn set_limits(&self, py: Python<'_>, export: &str, limits: &str) -> PyResult<()> {
        let limits: Limits = parse(py, limits)?;
        self.set(py, |served| served.set_limits(export, limits))
    }

    /// Sets the quota of an export (by its path). Raises TargetError.
    fn set_quota(&self, py: Python<'_>, export: &str, quota_bytes: u64) -> PyResult<()> {
        self.set(py, |served| served.set_quota(export, quota_bytes))
    }

    /// Stops the volume cleanly; it closes all connections. Raises TargetError if a thread had failed.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = py.detach(|| served.map(Served::stop).transpose());
        ended.map(drop).map_err(|error| refuse(py, &error))
    }
}

impl Volume {
    fn set(&self, py: Python<'_>, set: impl FnOnce(&Served) -> Result<(), VolumeError>) -> PyResult<()> {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        match served.as_ref().map(set) {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(refuse(py, &error)),
            None => Err(raise(py, "TargetError", "the volume has ended".to_owned())),
        }
    }
}

fn parse<T: DeserializeOwned>(py: Python<'_>, json: &str) -> PyResult<T> {
    serde_json::from_str(json).map_err(|error| raise(py, "TargetError", error.to_string()))
}

fn refuse(py: Python<'_>, error: &VolumeError) -> PyErr {
    raise(py, "TargetError", error.to_string())
}

/// The configuration that Python passes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    address: IpAddr,
    port: u16,
    exports: Vec<Export>,
    connections_max: u32,
    connection_memory_bytes: u64,
    /// 32 hexadecimal digits.
    handle_key: String,
    #[serde(deserialize_with = "Option::deserialize")]
    faults: Option<FaultSettings>,
    #[serde(deserialize_with = "Option::deserialize")]
    tls: Option<Tls>,
}

/// PEM files, see `iocurve_volume::TlsFiles`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    #[serde(deserialize_with = "Option::deserialize")]
    clients: Option<PathBuf>,
}

/// The faults that stores inject, see `iocurve_volume::Faults`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultSettings {
    rates: Vec<FaultRate>,
    seed: u64,
    #[serde(deserialize_with = "Option::deserialize")]
    log: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Export {
    path: String,
    store: Store,
    quota_bytes: u64,
    limits: Limits,
    rules: Rules,
}

/// The rules of an export, see `iocurve_volume::ExportRules`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools)] // each is an option of its own
struct Rules {
    clients: Vec<Client>,
    read_only: bool,
    secure_ports: bool,
    squash: SquashedUsers,
    anonuid: u32,
    anongid: u32,
    suid: bool,
    dev: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Client {
    network: String,
    read_only: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum SquashedUsers {
    Root,
    All,
    None,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Store {
    Memory {
        limit_bytes: u64,
    },
    Directory {
        path: PathBuf,
        #[serde(default)]
        is_async: bool,
    },
}

impl TryFrom<Config> for VolumeConfig {
    type Error = String;

    fn try_from(config: Config) -> Result<Self, String> {
        let Config { address, port, exports, connections_max, connection_memory_bytes, handle_key, faults, tls } =
            config;
        let handle_key = u128::from_str_radix(&handle_key, 16).map_err(|error| format!("handle_key: {error}"))?;
        let handle_key = handle_key.to_be_bytes();
        let exports = exports.into_iter().map(ExportConfig::try_from).collect::<Result<_, _>>()?;
        let faults = faults.map(|FaultSettings { rates, seed, log }| Faults { rates, seed, log });
        Ok(Self {
            address,
            port,
            exports,
            threads: None,
            connections_max,
            connection_memory_bytes,
            handle_key,
            faults,
            tls: tls.map(|Tls { certificate, key, clients }| TlsFiles { certificate, key, clients }),
            version: crate::VERSION,
        })
    }
}

impl TryFrom<Export> for ExportConfig {
    type Error = String;

    fn try_from(Export { path, store, quota_bytes, limits, rules }: Export) -> Result<Self, String> {
        let store = match store {
            Store::Memory { limit_bytes } => StoreConfig::Memory { limit_bytes },
            Store::Directory { path, is_async } => StoreConfig::Directory { path, is_async },
        };
        Ok(Self { path, store, quota_bytes, limits, rules: rules.try_into()? })
    }
}

impl TryFrom<Rules> for ExportRules {
    type Error = String;

    fn try_from(rules: Rules) -> Result<Self, String> {
        let Rules { clients, read_only, secure_ports, squash, anonuid, anongid, suid, dev } = rules;
        let rule = |Client { network, read_only }| Ok(ClientRule { network: network.parse()?, read_only });
        let clients = clients.into_iter().map(rule).collect::<Result<_, String>>()?;
        let squash = match squash {
            SquashedUsers::Root => Squash::Root,
            SquashedUsers::All => Squash::All,
            SquashedUsers::None => Squash::None,
        };
        Ok(Self { clients, read_only, secure_ports, squash, anonuid, anongid, suid, dev })
    }
}
