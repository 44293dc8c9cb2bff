use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use iocurve_meter::Latencies;
use pyo3::prelude::*;

use crate::raise;

/// A latency histogram in nanoseconds, three significant digits.
#[pyclass(module = "iocurve._native")]
pub struct Histogram {
    latencies: Latencies,
}

#[pymethods]
impl Histogram {
    /// Creates an empty histogram.
    #[new]
    fn new() -> Self {
        Self { latencies: Latencies::new() }
    }

    /// Decodes the `histogram` of an outcome: HdrHistogram V2 with DEFLATE, base64. Raises ResultError.
    #[staticmethod]
    fn decode(py: Python<'_>, text: &str) -> PyResult<Self> {
        let refuse = |reason: String| raise(py, "ResultError", reason);
        let bytes = STANDARD.decode(text).map_err(|error| refuse(format!("a histogram is not base64: {error}")))?;
        let latencies = Latencies::decode(&bytes).map_err(|error| refuse(error.to_string()))?;
        Ok(Self { latencies })
    }

    /// The inverse of `decode`.
    fn encode(&self) -> String {
        STANDARD.encode(self.latencies.encode())
    }

    /// Records one value.
    fn record(&mut self, value_ns: u64) {
        self.latencies.record(value_ns);
    }

    /// Adds all values of another histogram.
    fn add(&mut self, other: &Self) {
        self.latencies.add(&other.latencies);
    }

    /// Smallest value that `percent` of all values do not exceed; 0 when empty.
    fn percentile(&self, percent: f64) -> u64 {
        self.latencies.percentile(percent)
    }

    /// Number of values in `low_ns..=high_ns`, to bucket precision (three significant digits).
    fn count_between(&self, low_ns: u64, high_ns: u64) -> u64 {
        self.latencies.count_between(low_ns, high_ns)
    }

    /// Non-empty buckets: lowest value and count.
    fn buckets(&self) -> Vec<(u64, u64)> {
        self.latencies.buckets()
    }

    /// Number of recorded values.
    #[getter]
    fn count(&self) -> u64 {
        self.latencies.count()
    }

    /// Smallest value.
    #[getter]
    fn min(&self) -> u64 {
        self.latencies.min()
    }

    /// Largest value.
    #[getter]
    fn max(&self) -> u64 {
        self.latencies.max()
    }

    /// Mean.
    #[getter]
    fn mean(&self) -> f64 {
        self.latencies.mean()
    }

    /// Standard deviation of the population.
    #[getter]
    fn stddev(&self) -> f64 {
        self.latencies.stddev()
    }
}
