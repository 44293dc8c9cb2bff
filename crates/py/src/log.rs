use std::fmt::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

const MILLISECOND_NS: i64 = 1_000_000;
/// More than most lines have.
const LINE_BYTES: usize = 48;

/// The columns of a `LogOutcome`.
#[derive(FromPyObject)]
pub(crate) struct LogColumns {
    kinds: Vec<String>,
    at_ns: String,
    kind: String,
    bytes: String,
    offset: String,
    service_ns: String,
    submission_ns: String,
}

/// Lines of fio's log `name` (bw, iops, lat, slat, clat), one for each operation whose kind is in `directions`; milliseconds
/// count from `start_ns`. Raises ValueError.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)] // Python's objects become Rust's
pub(crate) fn operation_lines(
    log: LogColumns,
    name: &str,
    directions: Vec<String>,
    start_ns: i64,
    epoch_ms: i64,
    with_offsets: bool,
) -> PyResult<String> {
    let lines = || -> Result<String, base64::DecodeError> {
        let direction_of = |kind: &String| directions.iter().position(|direction| direction == kind);
        let direction: Vec<Option<usize>> = log.kinds.iter().map(direction_of).collect();
        let (at_ns, kind, bytes) = (words(&log.at_ns)?, STANDARD.decode(&log.kind)?, words(&log.bytes)?);
        let (offset, latency_ns) = (words(&log.offset)?, log.latencies_ns(name)?);
        let mut text = String::with_capacity(latency_ns.len() * LINE_BYTES);
        let operations = at_ns.into_iter().zip(kind).zip(bytes).zip(offset).zip(latency_ns);
        for ((((at_ns, kind), bytes), offset), latency_ns) in operations {
            let Some(direction) = direction.get(usize::from(kind)).copied().flatten() else { continue };
            let moment_ms = epoch_ms + (at_ns as i64 - start_ns).div_euclid(MILLISECOND_NS);
            let value = match name {
                "bw" if latency_ns == 0.0 => 0,
                "bw" => (bytes as f64 * MILLISECOND_NS as f64 / latency_ns) as i64,
                "iops" => 1,
                _ => latency_ns as i64,
            };
            // Writing to a string does not fail.
            let _ = write!(text, "{moment_ms}, {value}, {direction}, {bytes}, ");
            if with_offsets {
                let _ = write!(text, "{offset}, ");
            }
            text.push_str("0\n");
        }
        Ok(text)
    };
    lines().map_err(|error| PyValueError::new_err(format!("a log is not base64: {error}")))
}

impl LogColumns {
    /// The latencies of a log: all of it (lat), or its parts slat and clat where these were measured. Other logs have clat.
    fn latencies_ns(&self, name: &str) -> Result<Vec<f64>, base64::DecodeError> {
        let numbers = |text| Ok(words(text)?.into_iter().map(f64::from_bits).collect::<Vec<_>>());
        let submission = numbers(&self.submission_ns)?;
        if name == "slat" {
            return Ok(submission);
        }
        let mut latencies = numbers(&self.service_ns)?;
        if name != "lat" {
            latencies.iter_mut().zip(submission).for_each(|(whole, part)| *whole -= part);
        }
        Ok(latencies)
    }
}

/// Unpacks a column of little-endian words.
fn words(column: &str) -> Result<Vec<u64>, base64::DecodeError> {
    let bytes = STANDARD.decode(column)?;
    Ok(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
}
