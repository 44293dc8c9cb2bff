//! The state that all threads of a volume share: its exports, and what it remembers about clients.

pub(crate) mod credential;
pub(crate) mod pseudo_root;
pub(crate) mod rules;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use iocurve_meter::Nanos;
use iocurve_wire::nfs3::{nfs_fh3, nfsstat3, writeverf3};

use crate::memory::ConnectionMemory;
use crate::nfs4_state::State;
use crate::qos::Limits;
use crate::qos::throttle::Throttle;
use crate::reply::cache::ReplyCache;
use crate::store::Files;
use crate::store::Store;
use crate::store::Upkeep;
use crate::store::access::Caller;
use pseudo_root::PseudoRoot;
use rules::{ClientAccess, ExportRules, Refusal};

/// Most mounts that are remembered for DUMP.
const MOUNTS_MAX: usize = 1024;

/// One for all threads.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) exports: Exports,
    /// TCP port of all programs.
    pub(crate) port: u16,
    /// Differs from that of any earlier start, so that clients send unstable data again.
    pub(crate) writeverf: writeverf3,
    pub(crate) mounts: Mounts,
    /// Replies to calls that must not be executed twice.
    pub(crate) replies: ReplyCache,
    pub(crate) memory: ConnectionMemory,
    /// The directories above the exports, for NFSv4.1.
    pub(crate) pseudo_root: PseudoRoot,
    /// Clients, sessions, opens and locks of NFSv4.1.
    pub(crate) nfs4: State,
}

impl Served {
    /// The state that all threads share, at the start of a volume; `started` differs at each start.
    pub(crate) fn new(exports: Exports, port: u16, started: writeverf3, memory: ConnectionMemory, nfs4: State) -> Self {
        let pseudo_root = PseudoRoot::new(exports.iter().map(|export| export.path.as_str()));
        let (mounts, replies) = (Mounts::default(), ReplyCache::default());
        Self { exports, port, writeverf: started, mounts, replies, memory, pseudo_root, nfs4 }
    }

    /// The write verifier of an export: another one after each failure to put data on stable storage. Take it before data are written,
    /// and after they were committed: a failure in between changes it for either.
    #[inline]
    pub(crate) fn write_verifier(&self, export: &Export) -> writeverf3 {
        u64::from_be_bytes(self.writeverf).wrapping_add(export.files.sync_failures()).to_be_bytes()
    }
}

/// A directory tree that clients mount.
#[derive(Debug)]
pub(crate) struct Export {
    /// Position among the exports.
    pub(crate) number: usize,
    /// Path that clients mount.
    pub(crate) path: String,
    /// Begins the handles of all its files, and of no other export's.
    prefix: [u8; PREFIX_BYTES],
    root: nfs_fh3,
    /// The clients that may use it, and the users that they act as.
    pub(crate) rules: ExportRules,
    pub(crate) files: Files,
    /// Its limits, and the operations that wait for them.
    pub(crate) throttle: Throttle,
}

const PREFIX_BYTES: usize = 8;

/// All exports of a volume; at least one.
#[derive(Debug)]
pub(crate) struct Exports(Vec<Export>);

impl Export {
    /// An export under limits, served by `threads` threads, with the default rules.
    pub(crate) fn new(path: String, files: Files, limits: Limits, threads: usize, now: Nanos) -> Self {
        let root = files.root();
        let prefix = *root.as_bytes().first_chunk().expect("handles are longer");
        let (rules, throttle) = (ExportRules::default(), Throttle::new(limits, threads, now));
        Self { number: 0, path, prefix, root, rules, files, throttle }
    }

    /// Returns `true` for the handle of its root.
    pub(crate) fn is_root(&self, file: &nfs_fh3) -> bool {
        self.root.as_bytes() == file.as_bytes()
    }

    #[must_use]
    pub(crate) fn with_rules(self, rules: ExportRules) -> Self {
        Self { rules, ..self }
    }

    /// The caller that a client's statement stands for, if the client may use the export in this way.
    pub(crate) fn admit(
        &self,
        stated: Option<&Caller>,
        access: ClientAccess,
        is_change: bool,
    ) -> Result<Caller, Refusal> {
        access.check(is_change)?;
        Ok(self.rules.caller(stated, access))
    }
}

impl Exports {
    /// Numbers the exports, of which there must be one. `None` if two of them would give out the same handles: they are the same
    /// directory.
    pub(crate) fn new(mut exports: Vec<Export>) -> Option<Self> {
        exports.iter_mut().enumerate().for_each(|(number, export)| export.number = number);
        let prefixes: BTreeSet<_> = exports.iter().map(|export| export.prefix).collect();
        (prefixes.len() == exports.len()).then_some(Self(exports))
    }

    /// The export of a handle. A handle that belongs to none gets any export, and is refused by its store.
    #[inline]
    pub(crate) fn of(&self, file: &[u8]) -> &Export {
        if self.0.len() == 1 {
            return &self.0[0];
        }
        let prefix = file.first_chunk::<PREFIX_BYTES>();
        self.0.iter().find(|export| Some(&export.prefix) == prefix).unwrap_or(&self.0[0])
    }

    /// True if a handle begins as those of some export do.
    #[inline]
    pub(crate) fn has(&self, file: &[u8]) -> bool {
        let prefix = file.first_chunk::<PREFIX_BYTES>();
        self.0.iter().any(|export| Some(&export.prefix) == prefix)
    }

    /// The export of two handles, if it is the same.
    pub(crate) fn of_both(&self, one: &[u8], other: &[u8]) -> Result<&Export, nfsstat3> {
        let (export, same) = (self.of(one), self.of(other));
        if export.number == same.number { Ok(export) } else { Err(nfsstat3::NFS3ERR_XDEV) }
    }

    pub(crate) fn numbered(&self, number: usize) -> &Export {
        &self.0[number]
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Export> {
        self.0.iter()
    }

    /// Gives all exports these rules.
    #[cfg(test)]
    pub(crate) fn set_rules(&mut self, rules: &ExportRules) {
        self.0.iter_mut().for_each(|export| export.rules = rules.clone());
    }

    /// True if clients of this address may use any export.
    pub(crate) fn admit_address(&self, address: IpAddr) -> bool {
        self.iter().any(|export| export.rules.admits_address(address))
    }

    /// The use that a client may make of each export, by number.
    pub(crate) fn access(&self, peer: SocketAddr) -> Box<[ClientAccess]> {
        self.iter().map(|export| export.rules.access(peer.ip(), peer.port())).collect()
    }
}

impl Upkeep for Exports {
    fn sent_by_reference(&self, data: *const u8, length: usize) {
        self.iter().for_each(|export| export.files.sent_by_reference(data, length));
    }

    fn reclaim(&self) -> bool {
        self.iter().fold(false, |left, export| export.files.reclaim() | left)
    }

    fn close_idle(&self, now: Nanos) -> Option<Nanos> {
        self.iter().filter_map(|export| export.files.close_idle(now)).min()
    }

    fn needs_repair(&self) -> bool {
        self.iter().any(|export| export.files.needs_repair())
    }

    fn repair_huge_page(&self) -> bool {
        self.iter().find(|export| export.files.needs_repair()).is_some_and(|export| export.files.repair_huge_page())
    }
}

/// The mounts that clients have told of: client and directory. NFS works without them; they are for DUMP alone.
#[derive(Debug, Default)]
pub(crate) struct Mounts(Mutex<BTreeSet<(String, Vec<u8>)>>);

impl Mounts {
    pub(crate) fn insert(&self, client: &str, directory: &[u8]) {
        let mut mounts = self.lock();
        if mounts.len() < MOUNTS_MAX {
            mounts.insert((client.to_owned(), directory.to_vec()));
        }
    }

    /// Forgets a client's mount of a directory, or all its mounts.
    pub(crate) fn remove(&self, client: &str, directory: Option<&[u8]>) {
        self.lock().retain(|(host, path)| host != client || directory.is_some_and(|directory| path != directory));
    }

    pub(crate) fn list(&self) -> Vec<(String, Vec<u8>)> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<(String, Vec<u8>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use iocurve_wire::nfs3::{createhow3, nfs_fh3, sattr3, stable_how};

    use super::*;
    use crate::store::Creation;
    use crate::store::directory::DirectoryStore;
    use crate::store::handle::HandleKey;
    use crate::store::memory::MemoryStore;

    fn export(files: Files) -> Export {
        Export::new("/vol".to_owned(), files, Limits::default(), 1, 0)
    }

    fn two() -> Exports {
        let memory = |id| export(Files::Memory(MemoryStore::new(id, 1 << 30, 1 << 30).unwrap()));
        Exports::new(vec![memory(*b"export-a"), memory(*b"export-b")]).unwrap()
    }

    fn create(exports: &Exports, number: usize) -> Result<nfs_fh3, nfsstat3> {
        let how = createhow3::UNCHECKED(sattr3::default());
        let files = &exports.numbered(number).files;
        let root = files.root();
        let made = files.create(&Caller::default(), root.as_bytes(), b"f", Creation::File(how)).result;
        made.map(|made| made.handle)
    }

    #[test]
    fn the_same_name_is_another_file_in_another_export() {
        let exports = two();
        let (one, other) = (create(&exports, 0).unwrap(), create(&exports, 1).unwrap());
        assert_ne!(one, other);
        assert_eq!((exports.of(one.as_bytes()).number, exports.of(other.as_bytes()).number), (0, 1));
        let files = |file: &nfs_fh3| &exports.of(file.as_bytes()).files;
        files(&one).write(&Caller::default(), one.as_bytes(), 0, b"data", stable_how::UNSTABLE).unwrap();
        assert_eq!(files(&one).getattr(one.as_bytes()).unwrap().size, 4);
        assert_eq!(files(&other).getattr(other.as_bytes()).unwrap().size, 0);
    }

    #[test]
    fn nothing_moves_from_one_export_to_another() {
        let exports = two();
        let one = create(&exports, 0).unwrap();
        let (from, to) = (exports.numbered(0).files.root(), exports.numbered(1).files.root());
        let of_both =
            |a: &nfs_fh3, b: &nfs_fh3| exports.of_both(a.as_bytes(), b.as_bytes()).map(|export| export.number);
        assert_eq!(of_both(&from, &to), Err(nfsstat3::NFS3ERR_XDEV));
        assert_eq!(of_both(&one, &to), Err(nfsstat3::NFS3ERR_XDEV));
        assert_eq!(of_both(&one, &from), Ok(0));
    }

    #[test]
    fn what_belongs_to_no_export_is_refused() {
        let exports = two();
        let getattr = |file: &[u8]| exports.of(file).files.getattr(file);
        assert_eq!(getattr(b"export-c000000000000").unwrap_err(), nfsstat3::NFS3ERR_STALE);
        assert_eq!(getattr(b"short").unwrap_err(), nfsstat3::NFS3ERR_BADHANDLE);
    }

    #[test]
    fn each_export_has_its_own_quota() {
        let exports = two();
        exports.numbered(1).files.budget().set_quota(1);
        assert_eq!(create(&exports, 1), Err(nfsstat3::NFS3ERR_DQUOT));
        create(&exports, 0).unwrap();
        assert_eq!(exports.numbered(0).files.space().bytes_total, 1 << 30);
        assert_eq!(exports.numbered(1).files.space().bytes_total, 1);
    }

    #[test]
    fn the_same_directory_is_not_exported_twice() {
        let directory = tempfile::tempdir().unwrap();
        let open = || {
            export(Files::Directory(
                DirectoryStore::open(directory.path(), 1 << 30, HandleKey::random(), true).unwrap(),
            ))
        };
        assert!(Exports::new(vec![open(), open()]).is_none());
    }
}
