//! Errors, with messages for the user.

mod connection;
mod fault;
mod target;

use std::io;

use thiserror::Error;

pub use self::connection::{ConnectionError, InvalidReply};
pub(crate) use self::fault::Fault;
pub(crate) use self::fault::hexadecimal;
pub use self::target::TargetError;

/// An error that ends a worker or prevents its start. Its message says what is wrong, where, and what to do.
#[derive(Debug, Error)]
pub enum EngineError {
    /// A system call on a path failed.
    #[error("{action} {path}: {source}{}", hint(source))]
    Path {
        /// The action that failed, as a verb (`open`, `write`).
        action: &'static str,
        /// Path that the action concerned.
        path: String,
        /// Error returned by the system.
        source: io::Error,
    },
    /// The plan cannot run.
    #[error("{0}")]
    Plan(String),
    /// The target does not meet the plan's needs.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The run was stopped before it measured anything.
    #[error("stopped while files were laid out; the files created so far are removed")]
    StoppedInLayout,
    /// The run was stopped after the layout, before it measured anything.
    #[error("stopped before the load began")]
    StoppedBeforeLoad,
    /// The NFS server refused a call.
    #[error("{action} {path}: the server answered {status}{hint}")]
    Nfs {
        /// The action that failed, as a verb.
        action: &'static str,
        /// Path that the action concerned.
        path: String,
        /// Name of the status (`NFS3ERR_ACCES`).
        status: &'static str,
        /// Advice, with a leading `; `, or empty.
        hint: String,
    },
    /// The server could not be reached, or did not answer within the timeout.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// An operation failed while the load ran.
    #[error("{kind} of {length} bytes at offset {offset} of {path}: {source}{}", hint(source))]
    Operation {
        /// Kind of operation.
        kind: &'static str,
        /// Bytes requested.
        length: u32,
        /// Offset in the file.
        offset: u64,
        /// Path of the file.
        path: String,
        /// Error returned by the system.
        source: io::Error,
    },
    /// Verification found a difference.
    #[error("verification of {length} bytes at offset {offset} of {path} failed: {text}")]
    Verification {
        /// Path of the file.
        path: String,
        /// Offset in the file.
        offset: u64,
        /// Bytes of the interval.
        length: u32,
        /// The difference, the number of further ones, and the names of dumped files.
        text: String,
    },
    /// Verification found a name or a size that is not as it was left.
    #[error("verification of {path} failed: {text}")]
    Name {
        /// Path of the file or directory.
        path: String,
        /// The difference, and the number of further ones.
        text: String,
    },
    /// Another system call failed.
    #[error("{action}: {source}{}", hint(source))]
    System {
        /// The action that failed, as a verb.
        action: &'static str,
        /// Error returned by the system.
        source: io::Error,
    },
}

impl EngineError {
    /// The `errno` that tools report for this error; EIO if there is none. A difference found by verification is
    /// EILSEQ, as in fio.
    pub fn errno(&self) -> i32 {
        match self {
            Self::Path { source, .. } | Self::Operation { source, .. } | Self::System { source, .. } => {
                source.raw_os_error().unwrap_or(libc::EIO)
            }
            Self::Verification { .. } | Self::Name { .. } => libc::EILSEQ,
            _ => libc::EIO,
        }
    }
}

/// Advice for an `errno`, with a leading `; `, or empty.
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
        let text = Fault::Short { bytes: 1 }.to_string();
        let differs = EngineError::Verification { path: "f".into(), offset: 0, length: 2, text };
        assert_eq!(differs.errno(), libc::EILSEQ);
        assert_eq!(EngineError::from(ConnectionError::GivenUp { server: "s".into() }).errno(), libc::EIO);
    }
}
