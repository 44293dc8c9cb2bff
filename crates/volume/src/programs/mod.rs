//! The RPC programs that the volume serves: from the bytes of a call to those of its reply.
//!
//! [`turn`] is what a procedure gets: exports, batch, credential, the connection's pending operations, the time.
//! [`dispatch`] finds a call's program. NFS version 3 is in three files: [`nfs3_data`] has READ, WRITE, COMMIT and GETATTR, which
//! carry the load, [`nfs3`] all other procedures, of which `nfs3_readdir` makes the listings. Version 4.1 is in [`nfs4`]. Another program is a variant of
//! [`call::Program`], a file, and a line in `dispatch::answer_call`.

mod call;
pub(crate) mod dispatch;
mod mount3;
mod nfs3;
pub(crate) mod nfs3_data;
mod nfs3_readdir;
pub(crate) mod nfs4;
mod page;
mod portmap;
pub(crate) mod turn;
