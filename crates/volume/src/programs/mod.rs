//! The RPC programs that the volume serves: from the bytes of a call to those of its reply.

pub mod call;
pub mod credential;
pub mod dispatch;
pub mod mount3;
pub mod nfs3;
pub mod nfs3_data;
pub mod portmap;
