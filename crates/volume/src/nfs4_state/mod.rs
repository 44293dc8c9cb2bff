//! The state of NFSv4.1 clients: who they are, their sessions, the files they have open, and their locks (RFC 8881 §2.10, §8, §9).
//!
//! [`State`] is one for all threads. Everything that changes rarely is in `tables` behind one lock: `clients` with their sessions,
//! `files` with their opens and byte-range locks, the `ledger` of the room that all this takes, and the record of `recovery`.
//! `registration` has the operations on clients and sessions, `opens` those on opens and locks. READ and WRITE do not take that
//! lock: a connection remembers its session, each slot of a session has a separate lock ([`session`]), and a slot remembers the
//! last state id that it was shown until the client opens, closes or locks something.
//!
//! Nothing here knows stores or the encoding of calls; time is an argument.

mod clients;
mod directory_record;
mod files;
mod interval_tree;
mod ledger;
#[cfg(test)]
mod model;
mod opens;
mod ranges;
mod recovery;
mod registration;
pub(crate) mod session;
#[cfg(test)]
mod soak;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use directory_record::DirectoryRecord;
pub(crate) use interval_tree::Range;
pub(crate) use ledger::{Address, Origin};
pub(crate) use opens::{LockError, LockRequest, Locker, OpenRequest};
pub(crate) use recovery::ClientRecord;
pub(crate) use registration::{ClientOwner, Exchanged, SessionRequest};
pub(crate) use session::{LEASE_SECONDS, NfsClient, NfsSession, Principal, Request, SlotUse, Started};
pub(crate) use tables::State;
