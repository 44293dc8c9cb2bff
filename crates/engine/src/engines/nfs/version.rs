//! The version of NFS that a mount names.

use super::transport::socket::check_source;
use crate::error::{ConnectionError, EngineError};
use crate::plan::NfsMount;

/// A version of NFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// RFC 1813.
    V3,
    /// RFC 8881.
    V4_1,
}

impl Version {
    /// The version of a mount, whose settings this machine can use.
    pub fn of(mount: &NfsMount) -> Result<Self, EngineError> {
        if let Some(source) = mount.source {
            check_source(source).map_err(|error| ConnectionError::LocalAddress { address: source, source: error })?;
        }
        match mount.version {
            3 => Ok(Self::V3),
            4 => Ok(Self::V4_1),
            version => Err(EngineError::Plan(format!("NFS version {version} is not supported; use 3, or 4 for 4.1"))),
        }
    }
}

/// Makes a call with the protocol of a mount's version.
macro_rules! with_version {
    ($mount:expr, $protocol:ident => $call:expr) => {
        match $crate::engines::nfs::Version::of($mount)? {
            $crate::engines::nfs::Version::V3 => {
                type $protocol = $crate::engines::nfs::Nfs3;
                $call
            }
            $crate::engines::nfs::Version::V4_1 => {
                type $protocol = $crate::engines::nfs::Nfs4;
                $call
            }
        }
    };
}
pub(crate) use with_version;
