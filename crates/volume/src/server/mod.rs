//! Threads, sockets and the framing of a connection's bytes.

pub mod reactor;
pub mod session;
pub mod worker;
