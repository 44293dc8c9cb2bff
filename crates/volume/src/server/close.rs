//! Reasons to close a connection.

use std::io;

use thiserror::Error;

use iocurve_wire::record::RecordTooLong;
use iocurve_wire::xdr::XdrError;

/// Why a connection is closed.
#[derive(Debug, Error)]
pub(crate) enum Close {
    #[error("the peer has ended the connection")]
    Ended,
    #[error("{0}")]
    Transport(#[from] io::Error),
    #[error("a record of {} bytes is longer than any call", .0.length)]
    RecordTooLong(#[from] RecordTooLong),
    #[error("a record is no call: {0}")]
    NoCall(#[from] XdrError),
    #[error("a record did not arrive in time")]
    RecordTimeout,
    #[error("a record in fragments is large, and memory is tight")]
    NoMemory,
}

impl Close {
    /// True if the peer broke the protocol.
    pub(super) fn is_protocol_error(&self) -> bool {
        matches!(self, Self::RecordTooLong(_) | Self::NoCall(_))
    }

    /// True if the connection held memory for too long.
    pub(super) fn is_timeout(&self) -> bool {
        matches!(self, Self::RecordTimeout | Self::NoMemory)
    }
}
