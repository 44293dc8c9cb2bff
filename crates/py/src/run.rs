use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iocurve_engine::outcome::Outcome;
use iocurve_engine::plan::Plan;
use iocurve_engine::{EngineError, Run as EngineRun};
use pyo3::prelude::*;

use crate::raise;

/// Time between two checks for signals while a server is waited for.
const SIGNAL_CHECK: Duration = Duration::from_millis(2);

/// A run in its own threads.
#[pyclass(frozen, module = "iocurve._native")]
pub struct Run {
    run: EngineRun,
    /// Outcome of the run. It is kept because Ctrl-C may come after `wait` has returned and before Python has the
    /// value.
    ended: OnceLock<Result<Outcome, EngineError>>,
}

#[pymethods]
impl Run {
    /// Starts a plan (JSON). Raises RunError.
    #[new]
    fn new(py: Python<'_>, plan: &str) -> PyResult<Self> {
        let plan = parse(py, plan)?;
        let run = py.detach(|| EngineRun::start(plan)).map_err(|error| run_error(py, &error))?;
        Ok(Self { run, ended: OnceLock::new() })
    }

    /// Starts a plan (JSON) whose groups wait, prepared, for `release`. Raises RunError.
    #[staticmethod]
    fn held(py: Python<'_>, plan: &str) -> PyResult<Self> {
        let plan = parse(py, plan)?;
        let run = py.detach(|| EngineRun::start_held(plan)).map_err(|error| run_error(py, &error))?;
        Ok(Self { run, ended: OnceLock::new() })
    }

    /// Starts the group that waits at `unix_ns` (ns since 1970), or as soon as possible where that has passed. Returns
    /// its start.
    fn release(&self, unix_ns: u64) -> u64 {
        self.run.release(unix_ns)
    }

    /// The intervals that a held run has closed since the last call, as JSON (a list of `IntervalRecord`).
    fn take_records(&self, py: Python<'_>) -> String {
        py.detach(|| json(&self.run.take_records()))
    }

    /// A held run stops by itself after `seconds`, unless this is called again before.
    fn renew_lease(&self, seconds: f64) {
        self.run.renew_lease(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO));
    }

    /// The progress so far, as JSON (`Live`).
    fn live(&self) -> String {
        json(&self.run.live())
    }

    /// Requests a clean stop; the outcome keeps everything measured so far.
    fn stop(&self) {
        self.run.stop();
    }

    /// Ends the load now, as if its time were over: operations in flight are waited for, and the run counts as finished.
    fn finish(&self) {
        self.run.finish();
    }

    /// Waits up to `seconds`. Returns the outcome as JSON, or None while the run goes on. After the end every call
    /// returns the same outcome. Raises TargetError or RunError if nothing could be measured.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<String>> {
        let timeout = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
        if self.ended.get().is_none()
            && let Some(end) = py.detach(|| self.run.wait(timeout))
        {
            self.ended.get_or_init(|| end);
        }
        match self.ended.get() {
            None => Ok(None),
            Some(Ok(outcome)) => Ok(Some(json(outcome))),
            Some(Err(error)) => Err(run_error(py, error)),
        }
    }
}

/// Measures the operations per second of one worker's loop without I/O.
#[pyfunction]
pub(crate) fn null_ceiling(py: Python<'_>, seconds: f64) -> PyResult<f64> {
    let duration = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_millis(50));
    py.detach(|| iocurve_engine::null_ceiling(duration)).map_err(|error| run_error(py, &error))
}

/// Raises an error if the engine would refuse the plan, before it touches a file.
#[pyfunction]
pub(crate) fn check_plan(py: Python<'_>, plan: &str) -> PyResult<()> {
    iocurve_engine::check_plan(&parse(py, plan)?).map_err(|error| run_error(py, &error))
}

/// Parses a plan as the engine does and encodes it again, to compare both sides of the contract.
#[pyfunction]
pub(crate) fn plan_as_read(py: Python<'_>, plan: &str) -> PyResult<String> {
    Ok(json(&parse(py, plan)?))
}

/// Does work that may wait for a server, on a separate thread; the exception of a signal stops it.
pub(crate) fn with_signals<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&AtomicBool) -> Result<T, EngineError> + Send,
) -> PyResult<T> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| work(&stop));
        let mut signal = Ok(());
        while !thread.is_finished() {
            py.detach(|| std::thread::sleep(SIGNAL_CHECK));
            if signal.is_ok() {
                signal = py.check_signals().inspect_err(|_| stop.store(true, Ordering::Relaxed));
            }
        }
        let done = thread.join().expect("it does not panic");
        signal?;
        done.map_err(|error| run_error(py, &error))
    })
}

fn parse(py: Python<'_>, plan: &str) -> PyResult<Plan> {
    serde_json::from_str(plan)
        .map_err(|error| raise(py, "RunError", format!("not a plan that this build reads: {error}")))
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("plain data always has a JSON form")
}

fn run_error(py: Python<'_>, error: &EngineError) -> PyErr {
    let name = match error {
        EngineError::Plan(_) | EngineError::System { .. } => "RunError",
        EngineError::StoppedInLayout | EngineError::StoppedBeforeLoad => "Interrupted",
        EngineError::Target(_)
        | EngineError::Path { .. }
        | EngineError::Nfs { .. }
        | EngineError::Connection(_)
        | EngineError::Operation { .. }
        | EngineError::Verification { .. }
        | EngineError::Name { .. } => "TargetError",
    };
    raise(py, name, error.to_string())
}
