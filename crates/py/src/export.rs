use iocurve_engine::EngineError;
use iocurve_engine::engines::nfs::{FileFacts, SmallFiles, small_files};
use iocurve_engine::plan::NfsMount;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::raise;
use crate::run::with_signals;

/// A file: true for a regular one with one name; its bytes, its id, its time of modification in nanoseconds, its owner.
type Facts = (bool, u64, u64, u64, String);

/// The root of an NFS export, as a place for small files. Each call mounts the export.
#[pyclass(frozen, module = "iocurve._native")]
pub struct Export {
    mount: NfsMount,
}

#[pymethods]
impl Export {
    /// An export by its mount (JSON of `NfsMount`). Raises RunError.
    #[new]
    fn new(py: Python<'_>, mount: &str) -> PyResult<Self> {
        let mount = serde_json::from_str(mount)
            .map_err(|error| raise(py, "RunError", format!("not a mount that this build reads: {error}")))?;
        Ok(Self { mount })
    }

    /// Names that end in `suffix`. Raises TargetError.
    fn names(&self, py: Python<'_>, suffix: &str) -> PyResult<Vec<String>> {
        let names = self.mounted(py, |export| export.names())?;
        Ok(names.into_iter().filter(|name| name.ends_with(suffix)).collect())
    }

    /// For each name (is it a regular file with one name, bytes, file id, time of modification in ns, owner); None for a name
    /// that does not exist. Raises TargetError.
    #[allow(clippy::needless_pass_by_value)] // Python's list becomes a vector
    fn facts(&self, py: Python<'_>, names: Vec<String>) -> PyResult<Vec<Option<Facts>>> {
        let plain = |facts: FileFacts| (facts.is_plain, facts.bytes, facts.id, facts.modified_ns, facts.owner);
        self.mounted(py, |export| names.iter().map(|name| Ok(export.facts(name)?.map(plain))).collect())
    }

    /// The first `bytes_max` bytes of a file. Raises TargetError.
    fn read<'py>(&self, py: Python<'py>, name: &str, bytes_max: u32) -> PyResult<Bound<'py, PyBytes>> {
        let data = self.mounted(py, |export| export.read(name, bytes_max))?;
        Ok(PyBytes::new(py, &data))
    }

    /// Writes the beginning of a file in one step; `new` creates it. Raises TargetError, and where it exists.
    fn write(&self, py: Python<'_>, name: &str, data: &[u8], new: bool) -> PyResult<()> {
        self.mounted(py, |export| export.write(name, data, new))
    }

    /// Removes files; ignores missing ones. Raises TargetError.
    #[allow(clippy::needless_pass_by_value)] // Python's list becomes a vector
    fn remove(&self, py: Python<'_>, names: Vec<String>) -> PyResult<()> {
        self.mounted(py, |export| names.iter().try_for_each(|name| export.remove(name)))
    }
}

impl Export {
    fn mounted<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut dyn SmallFiles) -> Result<T, EngineError> + Send,
    ) -> PyResult<T> {
        with_signals(py, |stop| work(&mut *small_files(&self.mount, stop)?))
    }
}
