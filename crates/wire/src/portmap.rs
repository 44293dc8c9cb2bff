//! Port mapper, version 2 (RFC 1833 §3): which port serves a program.
#![allow(non_camel_case_types)] // the RFC's names

use crate::xdr::{List, xdr_struct};

/// Program number.
pub const PMAP_PROG: u32 = 100_000;
/// Version.
pub const PMAP_VERS: u32 = 2;
/// Port that port mappers listen on.
pub const PMAP_PORT: u16 = 111;

/// Does nothing.
pub const PMAPPROC_NULL: u32 = 0;
/// [`mapping`] (its port is ignored) → `u32` port, 0 if the program is not registered.
pub const PMAPPROC_GETPORT: u32 = 3;
/// Nothing → [`pmaplist`].
pub const PMAPPROC_DUMP: u32 = 4;

/// `prot` of TCP.
pub const IPPROTO_TCP: u32 = 6;

xdr_struct! {
    /// A program and its port.
    mapping {
        /// Program.
        prog: u32,
        /// Version.
        vers: u32,
        /// IP protocol.
        prot: u32,
        /// Port, 0 for none.
        port: u32,
    }
}

/// Result of DUMP: all registered programs.
pub type pmaplist = List<mapping>;
