//! A call as its program gets it.

use iocurve_wire::xdr::XdrError;

use crate::served::Served;
use crate::store::Caller;

/// Why a call that was understood has no results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The program has no such procedure.
    Procedure,
    /// The arguments cannot be decoded.
    Arguments,
}

impl From<XdrError> for Refused {
    fn from(_: XdrError) -> Self {
        Self::Arguments
    }
}

/// A call to a procedure off the data path.
#[derive(Debug)]
pub struct Call<'a, S> {
    /// What is served.
    pub served: &'a Served<S>,
    /// The procedure.
    pub procedure: u32,
    /// Its arguments.
    pub arguments: &'a [u8],
    /// Who calls.
    pub caller: Caller,
    /// Where from, in words.
    pub peer: &'a str,
}
