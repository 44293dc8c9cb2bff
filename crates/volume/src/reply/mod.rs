//! Replies on their way out: gathered, sent by reference, and kept for clients that ask again.

pub mod batch;
pub mod cache;
pub mod splice;
