//! What can go wrong, in words for people.

mod fault;

use std::io;

use thiserror::Error;

pub use self::fault::Fault;
pub(crate) use self::fault::hexadecimal;

/// Ends a worker or keeps it from starting. The text says what, where, and what to do.
#[derive(Debug, Error)]
pub enum EngineError {
    /// A system call on a path failed.
    #[error("{action} {path}: {source}{}", hint(source))]
    Path {
        /// What was tried, as a verb (`open`, `write`).
        action: &'static str,
        /// On what.
        path: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The plan asks for what cannot be.
    #[error("{0}")]
    Plan(String),
    /// What is to be measured is not as the plan needs it.
    #[error("{0}")]
    Target(String),
    /// The run was stopped before it measured anything.
    #[error("stopped while files were laid out; what was written for it is removed again")]
    StoppedInLayout,
    /// The NFS server refused, with its status name (`NFS3ERR_ACCES`) and what it concerned.
    #[error("{action} {path}: the server answered {status}{hint}")]
    Nfs {
        /// Procedure or step.
        action: &'static str,
        /// On what.
        path: String,
        /// Name of the status.
        status: &'static str,
        /// What to do, with a leading `; `, or empty.
        hint: String,
    },
    /// The server could not be reached or went away for longer than the timeout.
    #[error("{0}")]
    Connection(String),
    /// An operation failed while the load ran.
    #[error("{kind} of {length} bytes at offset {offset} of {path}: {source}{}", hint(source))]
    Operation {
        /// Kind of operation.
        kind: &'static str,
        /// Bytes asked for.
        length: u32,
        /// Where.
        offset: u64,
        /// In which file.
        path: String,
        /// Why it failed.
        source: io::Error,
    },
    /// What was read is not what was written.
    #[error("verification of {length} bytes at offset {offset} of {path} failed: {fault}{more}")]
    Verification {
        /// In which file.
        path: String,
        /// Where.
        offset: u64,
        /// How long the interval is.
        length: u32,
        /// What is wrong with it.
        fault: Box<Fault>,
        /// How many others differ and what was dumped, with a leading `; `, or empty.
        more: String,
    },
    /// Anything else the system refused.
    #[error("{action}: {source}{}", hint(source))]
    System {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl EngineError {
    /// Number of the error, for the tools that tell one; EIO where there is none. A difference found by verification is
    /// EILSEQ, as in fio.
    pub fn errno(&self) -> i32 {
        match self {
            Self::Path { source, .. } | Self::Operation { source, .. } | Self::System { source, .. } => {
                source.raw_os_error().unwrap_or(libc::EIO)
            }
            Self::Verification { .. } => libc::EILSEQ,
            _ => libc::EIO,
        }
    }
}

/// What a person can do about an `errno`, with a leading `; `, or empty.
fn hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::ENOSPC) => "; free space or use a smaller size",
        Some(libc::EDQUOT) => "; raise the quota or use a smaller size",
        Some(libc::EACCES | libc::EPERM) => "; check the permissions or run as another user",
        Some(libc::EINVAL) => {
            "; with direct I/O, block size and offset must be multiples of the device's logical block"
        }
        Some(libc::EROFS) => "; the file system is mounted read-only",
        Some(libc::ENOENT) => "; check the path",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_number_that_other_tools_tell() {
        let source = io::Error::from_raw_os_error(libc::ENOSPC);
        assert_eq!(EngineError::System { action: "write", source }.errno(), libc::ENOSPC);
        let fault = Box::new(Fault::Short { bytes: 1 });
        let differs = EngineError::Verification { path: "f".into(), offset: 0, length: 2, fault, more: String::new() };
        assert_eq!(differs.errno(), libc::EILSEQ);
        assert_eq!(EngineError::Connection("gone".into()).errno(), libc::EIO);
    }
}
