//! Replies on their way out: gathered, sent by reference, and kept for clients that ask again.

pub(crate) mod batch;
pub(crate) mod cache;
pub(crate) mod splice;
