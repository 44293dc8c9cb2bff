use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use iocurve_volume::{ExportConfig, Limits, StoreConfig, Volume as Served, VolumeConfig, VolumeError};
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
        let served = py.detach(|| Served::start(&config.into())).map_err(|error| refuse(py, &error))?;
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
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Export {
    path: String,
    store: Store,
    quota_bytes: u64,
    limits: Limits,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Store {
    Memory { limit_bytes: u64 },
    Directory { path: PathBuf },
}

impl From<Config> for VolumeConfig {
    fn from(Config { address, port, exports }: Config) -> Self {
        Self { address, port, exports: exports.into_iter().map(ExportConfig::from).collect(), threads: None }
    }
}

impl From<Export> for ExportConfig {
    fn from(Export { path, store, quota_bytes, limits }: Export) -> Self {
        let store = match store {
            Store::Memory { limit_bytes } => StoreConfig::Memory { limit_bytes },
            Store::Directory { path } => StoreConfig::Directory { path },
        };
        Self { path, store, quota_bytes, limits }
    }
}
