use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use iocurve_volume::{Limits, StoreConfig, Volume as Served, VolumeConfig};
use pyo3::prelude::*;
use serde::Deserialize;

use crate::raise;

/// An embedded NFS volume that serves in threads of its own.
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
        let refuse = |text: String| raise(py, "TargetError", text);
        let config: Config = serde_json::from_str(config).map_err(|error| refuse(error.to_string()))?;
        let served = py.detach(|| Served::start(&config.into())).map_err(|error| refuse(error.to_string()))?;
        Ok(Self { port: served.port(), served: Mutex::new(Some(served)) })
    }

    /// TCP port of the NFS and MOUNT programs.
    #[getter]
    fn port(&self) -> u16 {
        self.port
    }

    /// What was served so far, as JSON; None after the end.
    fn stats(&self) -> Option<String> {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        served.as_ref().map(|served| serde_json::to_string(&served.stats()).expect("plain numbers"))
    }

    /// Ends in order; clients see their connections closed. Raises TargetError if a thread had failed.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = py.detach(|| served.map(Served::stop).transpose());
        ended.map(drop).map_err(|error| raise(py, "TargetError", error.to_string()))
    }
}

/// The configuration as Python writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    address: IpAddr,
    port: u16,
    export: String,
    store: Store,
    quota_bytes: u64,
    throughput_bytes_per_s: Option<u64>,
    iops: Option<u64>,
    latency_ns: u64,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Store {
    Memory { limit_bytes: u64 },
    Directory { path: PathBuf },
}

impl From<Config> for VolumeConfig {
    fn from(config: Config) -> Self {
        let Config { address, port, export, store, quota_bytes, throughput_bytes_per_s, iops, latency_ns } = config;
        let store = match store {
            Store::Memory { limit_bytes } => StoreConfig::Memory { limit_bytes },
            Store::Directory { path } => StoreConfig::Directory { path },
        };
        let limits = Limits { throughput_bytes_per_s, iops, latency_ns };
        Self { address, port, export, store, quota_bytes, limits, threads: None }
    }
}
