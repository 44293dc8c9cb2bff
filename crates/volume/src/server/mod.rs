//! Threads, sockets, and the framing of a connection's bytes. Nothing here knows a program or a procedure but by
//! `programs::dispatch`, and READs and WRITEs that take more than one turn.

mod admission;
mod close;
mod connection;
pub(crate) mod cores;
pub(crate) mod crew;
mod encrypted;
pub mod fuzzing;
pub(crate) mod incoming;
mod outgoing;
mod post;
mod punctuality;
mod reactor;
pub(crate) mod session;
pub(crate) mod socket;
pub(crate) mod threads;
pub(crate) mod transport;
mod wake_up;
pub(crate) mod worker;
