//! Bytes ↔ structures of the protocols an NFS volume speaks, without sockets.
//!
//! [`xdr`] is the encoding, [`record`] divides a byte stream into messages, [`rpc`] is their envelope, [`portmap`], [`mount3`],
//! [`nfs3`] and [`nfs4`] are the programs. One codec serves client and server. It is our own rather than the `nfs3_types` crate, whose decoder
//! allocates by lengths it has not checked and copies what it reads; here opaques are lent out of the message, and no memory is
//! taken for bytes that have not arrived.
//! READ, WRITE, COMMIT and GETATTR, which carry the load, have a path of their own that allocates nothing: [`server_fast`] for
//! servers, [`client_fast`] for clients.

pub mod client_fast;
pub mod mount3;
pub mod nfs3;
pub mod nfs4;
pub mod portmap;
pub mod record;
pub mod rpc;
#[cfg(test)]
mod sample;
pub mod server_fast;
pub mod xdr;
