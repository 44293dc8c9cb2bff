//! Files on an export outside a load: laid out and removed, listed, and small ones read and written in one call.

mod layout;
mod listing;
mod small_files;

pub(crate) use layout::absent;
pub use layout::{layout, remove};
pub(crate) use listing::find_tree;
pub use small_files::{SmallFiles, small_files};
