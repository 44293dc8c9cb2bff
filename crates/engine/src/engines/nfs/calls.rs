//! The calls of a version of NFS outside a load, one at a time. Mounting, layout, metadata operations, small files and
//! lists of trees are made of them.

use std::sync::atomic::AtomicBool;

use super::names::Cursor;
use super::protocol::Protocol;
use super::transport::rpc::Rpc;
use super::transport::socket::Socket;
use crate::error::EngineError;
use crate::plan::{Durability, NfsMount};
use crate::tree::EntryKind;

/// Permissions of new files.
pub(super) const FILE_MODE: u32 = 0o644;
/// Permissions of new directories.
pub(super) const DIRECTORY_MODE: u32 = 0o755;
/// Bytes of one list of names.
pub(super) const NAMES_BYTES: u32 = 32 << 10;
/// Bytes of one list with handles and attributes.
pub(super) const LIST_BYTES: u32 = 256 << 10;
/// Servers with a lower limit of READ or WRITE are refused.
const CALL_BYTES_MIN: u32 = 512;

/// The server's answer to a call, a value or a status of the version; or an error that ends the worker.
pub(super) type Answer<T> = Result<Result<T, u32>, EngineError>;

/// Continues with the value of a call that the server did not refuse.
macro_rules! granted {
    ($call:expr) => {
        match $call? {
            Ok(value) => value,
            Err(status) => return Ok(Err(status)),
        }
    };
}
pub(super) use granted;

/// Limits of one call, as the server reports them.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallLimits {
    /// Most bytes of one READ.
    pub read: u32,
    /// Most bytes of one WRITE.
    pub write: u32,
}

impl CallLimits {
    /// Refuses a server whose limits are too low.
    pub(super) fn check(self, server: &str) -> Result<Self, EngineError> {
        if self.read.min(self.write) < CALL_BYTES_MIN {
            return Err(EngineError::Connection(format!(
                "NFS server {server} accepts only {} bytes in a READ and {} in a WRITE; at least {CALL_BYTES_MIN} are needed",
                self.read, self.write
            )));
        }
        Ok(self)
    }

    /// The smaller ones of these limits and those of a mount (`rsize`, `wsize`).
    pub(super) fn within(self, mount: &NfsMount) -> Self {
        let smaller = |limit: u32, size: Option<u32>| size.map_or(limit, |size| size.min(limit));
        Self { read: smaller(self.read, mount.rsize), write: smaller(self.write, mount.wsize) }
    }

    /// Calls that a table needs for `depth` operations of at most `bytes` each, and one that renews the lease.
    pub(super) fn calls(self, depth: u32, bytes: usize) -> u64 {
        let parts = (bytes as u64).div_ceil(u64::from(self.read.min(self.write))).max(1);
        (u64::from(depth.max(1)) * parts + 1).next_power_of_two()
    }
}

/// A name in a directory.
pub(super) struct Entry<'n, H> {
    pub directory: &'n H,
    pub name: &'n str,
}

/// A file, a directory or something else that a name leads to.
pub(super) struct Node<H> {
    pub handle: H,
    pub kind: EntryKind,
    pub bytes: u64,
}

/// Facts about a file, by which it is known again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFacts {
    /// A regular file with one name.
    pub is_plain: bool,
    /// Length.
    pub bytes: u64,
    /// Number of the file in its file system.
    pub id: u64,
    /// Time of the last change of its data, since 1970.
    pub modified_ns: u64,
    /// User number, or the name that a server of `NFSv4.1` gives.
    pub owner: String,
}

/// One reply with entries of a directory, itself and its parent among them.
pub(super) struct Page<T> {
    pub entries: Vec<T>,
    /// Position behind the last entry of the reply; `None` if it has none.
    pub last: Option<Cursor>,
    /// The directory ends here.
    pub is_end: bool,
}

/// An entry of a directory.
pub(super) struct Listed<H> {
    pub name: String,
    /// `None` if the server left something out.
    pub node: Option<Node<H>>,
}

/// A version of NFS whose exports can be mounted.
pub(super) trait Mountable: Protocol {
    /// Makes the calls that stand outside a load.
    type Calls<'a>: Calls<'a, Self>;
}

/// The calls of a version to one export, each of which waits for its reply.
pub(super) trait Calls<'a, P: Protocol>: Sized {
    /// An open file.
    type Open;

    /// Connects to the server, and finds the root of the export and the limits of calls.
    fn mount(mount: &NfsMount, stop: &'a AtomicBool) -> Result<Self, EngineError>;

    /// The connection to the NFS program.
    fn rpc(&self) -> &Rpc<'a>;

    /// Root of the export.
    fn root(&self) -> &P::Handle;

    /// Limits of READ and WRITE.
    fn limits(&self) -> CallLimits;

    /// The last call was sent more than once: the server may have executed it before a restart.
    fn was_repeated(&self) -> bool;

    fn look_up(&mut self, entry: &Entry<'_, P::Handle>) -> Answer<P::Handle>;

    /// Looks a name up, with kind and length.
    fn find(&mut self, entry: &Entry<'_, P::Handle>) -> Answer<Node<P::Handle>>;

    /// Looks a name up, with the facts by which a file is known again.
    fn facts(&mut self, entry: &Entry<'_, P::Handle>) -> Answer<FileFacts>;

    /// Lists names of a directory. Names that are not UTF-8 are left out.
    fn list_names(&mut self, directory: &P::Handle, from: Cursor) -> Answer<Page<String>>;

    fn list(&mut self, directory: &P::Handle, from: Cursor) -> Answer<Page<Listed<P::Handle>>>;

    /// Creates an empty file, which must not exist; returns its handle if the server tells it.
    fn create(&mut self, entry: &Entry<'_, P::Handle>) -> Answer<Option<P::Handle>>;

    /// A file for single READs and WRITEs, of whose use the server keeps no state.
    fn stateless(handle: P::Handle) -> Self::Open;

    fn set_size(&mut self, object: &P::Handle, bytes: u64) -> Answer<()>;

    fn remove_file(&mut self, entry: &Entry<'_, P::Handle>) -> Answer<()>;

    /// Makes a directory; returns its handle if the server tells it.
    fn make_directory(&mut self, entry: &Entry<'_, P::Handle>) -> Answer<Option<P::Handle>>;

    fn remove_directory(&mut self, entry: &Entry<'_, P::Handle>) -> Answer<()>;

    /// Reads into a buffer; returns the bytes read, and whether they reach the end of the file.
    fn read(&mut self, open: &mut Self::Open, offset: u64, into: &mut [u8]) -> Answer<(u32, bool)>;

    /// Writes a buffer; returns the bytes written.
    fn write(&mut self, open: &mut Self::Open, offset: u64, data: &[u8], durability: Durability) -> Answer<u32>;

    /// Takes up files for a load: its protocol, and `nconnect` connections on which no call is in flight.
    fn start(self, mount: &NfsMount, files: &[(String, P::Handle)]) -> Result<(P, Vec<Socket>), EngineError>;
}
