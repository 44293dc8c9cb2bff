//! How bytes get to a server and back: sockets, waits for a server, one call at a time, and the ports of an export.

pub(super) mod mounter;
pub(super) mod patience;
pub(super) mod rpc;
pub(super) mod socket;
