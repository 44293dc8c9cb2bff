//! The Python module `iocurve._native`: converts and delegates, and holds no logic.
//!
//! Plans and outcomes are passed as JSON, once each per run. Long work is a handle that Python polls, so that Ctrl-C
//! takes effect between polls.

// These comments become Python's docstrings, which need no backticks.
#![allow(clippy::doc_markdown)]

mod export;
mod histogram;
mod log;
mod run;
mod volume;

use pyo3::prelude::*;

/// The engine, the histograms and the embedded volume.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::export::Export;
    #[pymodule_export]
    use crate::histogram::Histogram;
    #[pymodule_export]
    use crate::log::operation_lines;
    #[pymodule_export]
    use crate::run::{Run, check_plan, null_ceiling, plan_as_read};
    #[pymodule_export]
    use crate::volume::Volume;

    /// Version of this package, with the commit it was built from where the build knows it: 0.1.0+61e94f731c2a.
    #[pymodule_export]
    const VERSION: &str = super::VERSION;
}

/// See `build.rs`.
const VERSION: &str = env!("IOCURVE_VERSION");

/// Creates an exception that `iocurve` offers, by name.
fn raise(py: Python<'_>, name: &str, text: String) -> PyErr {
    match py.import("iocurve").and_then(|module| module.getattr(name)) {
        Ok(class) => match class.call1((text,)) {
            Ok(error) => PyErr::from_value(error),
            Err(error) => error,
        },
        Err(error) => error,
    }
}
