//! TLS for RPC (RFC 9289): keys, and the channel that seals and opens the bytes of a connection.
//!
//! TLS itself is rustls. This crate knows no sockets, no NFS and no threads: a connection is a `Read + Write` that does not wait.
//! A client asks with a NULL call of flavor `AUTH_TLS`, the server answers `STARTTLS`, and TLS 1.3 follows on the same connection.
//! A server also takes a TLS handshake as the first bytes of a connection, which is how stunnel connects.

mod channel;
mod keys;
mod opening;
#[cfg(test)]
mod tests;

pub use channel::{Channel, Wait};
pub use keys::{ClientKeys, ClientTls, ServerTls, TlsError};
