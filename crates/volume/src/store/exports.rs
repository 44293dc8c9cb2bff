//! Several exports behind one port: each is a store of its own, and a handle's first eight bytes say which one it came from.

use iocurve_wire::nfs3::{cookieverf3, fattr3, nfs_fh3, nfsstat3, sattr3, sattrguard3, stable_how, wcc_data};

use crate::reply::batch::Batch;
use crate::store::directory::DirectoryStore;
use crate::store::memory::{Budget, MemoryStore};
use crate::store::{Caller, Creation, Landing, Listing, Read, Space, Store, Written};

/// The files of all exports.
#[derive(Debug)]
pub struct Exports {
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    /// First bytes of all handles.
    prefix: [u8; PREFIX_BYTES],
    files: Files,
}

/// Where an export's files are.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // there are as many as exports, and a box would be one more step to every file
pub enum Files {
    /// In memory.
    Memory(MemoryStore),
    /// In a folder.
    Directory(DirectoryStore),
}

const PREFIX_BYTES: usize = 8;

impl Exports {
    /// At least one export. `None` if two of them would give out the same handles: they are the same folder.
    pub fn new(files: Vec<Files>) -> Option<Self> {
        let mut parts: Vec<Part> = Vec::new();
        for files in files {
            let root = files.root();
            let prefix = *root.as_bytes().first_chunk().expect("handles are longer");
            if parts.iter().any(|part| part.prefix == prefix) {
                return None;
            }
            parts.push(Part { prefix, files });
        }
        Some(Self { parts })
    }

    /// The store of a handle; one that belongs to none is refused by any.
    #[inline]
    fn of(&self, file: &[u8]) -> &Files {
        &self.parts[self.export_of(file)].files
    }

    /// The store of two handles, if it is the same.
    fn of_both(&self, one: &[u8], other: &[u8]) -> Result<&Files, nfsstat3> {
        let export = self.export_of(one);
        if export == self.export_of(other) { Ok(&self.parts[export].files) } else { Err(nfsstat3::NFS3ERR_XDEV) }
    }
}

/// Calls a method of whichever store it is.
macro_rules! with {
    ($files:expr, $store:ident => $call:expr) => {
        match $files {
            Files::Memory($store) => $call,
            Files::Directory($store) => $call,
        }
    };
}

impl Files {
    fn root(&self) -> nfs_fh3 {
        with!(self, store => store.root(0))
    }
}

impl Store for Exports {
    fn root(&self, export: usize) -> nfs_fh3 {
        self.parts[export].files.root()
    }

    #[inline]
    fn export_of(&self, file: &[u8]) -> usize {
        let prefix = file.first_chunk::<PREFIX_BYTES>();
        if self.parts.len() == 1 {
            return 0;
        }
        self.parts.iter().position(|part| Some(&part.prefix) == prefix).unwrap_or(0)
    }

    #[inline]
    fn getattr(&self, file: &[u8]) -> Result<fattr3, nfsstat3> {
        with!(self.of(file), store => store.getattr(file))
    }

    fn setattr(&self, file: &[u8], new: &sattr3, guard: sattrguard3, wcc: &mut wcc_data) -> Result<(), nfsstat3> {
        with!(self.of(file), store => store.setattr(file, new, guard, wcc))
    }

    fn lookup(&self, directory: &[u8], name: &[u8]) -> Result<nfs_fh3, nfsstat3> {
        with!(self.of(directory), store => store.lookup(directory, name))
    }

    fn readlink(&self, link: &[u8]) -> Result<Vec<u8>, nfsstat3> {
        with!(self.of(link), store => store.readlink(link))
    }

    #[inline]
    fn read(&self, by: &Caller, file: &[u8], offset: u64, count: u32, batch: &mut Batch) -> Result<Read, nfsstat3> {
        with!(self.of(file), store => store.read(by, file, offset, count, batch))
    }

    fn referred(&self, data: *const u8, length: usize) {
        for part in &self.parts {
            with!(&part.files, store => store.referred(data, length));
        }
    }

    #[inline]
    fn write(
        &self,
        by: &Caller,
        file: &[u8],
        offset: u64,
        data: &[u8],
        stable: stable_how,
    ) -> Result<Written, nfsstat3> {
        with!(self.of(file), store => store.write(by, file, offset, data, stable))
    }

    fn land(&self, by: &Caller, file: &[u8], offset: u64, length: u32) -> Result<Landing, nfsstat3> {
        with!(self.of(file), store => store.land(by, file, offset, length))
    }

    fn landed(&self, landing: Landing, stable: stable_how) -> Result<Written, nfsstat3> {
        with!(self.of(landing.file.as_bytes()), store => store.landed(landing, stable))
    }

    fn commit(&self, file: &[u8]) -> Result<Written, nfsstat3> {
        with!(self.of(file), store => store.commit(file))
    }

    fn create(
        &self,
        directory: &[u8],
        name: &[u8],
        what: Creation<'_>,
        caller: Caller,
        wcc: &mut wcc_data,
    ) -> Result<nfs_fh3, nfsstat3> {
        with!(self.of(directory), store => store.create(directory, name, what, caller, wcc))
    }

    fn remove(&self, directory: &[u8], name: &[u8], wcc: &mut wcc_data) -> Result<(), nfsstat3> {
        with!(self.of(directory), store => store.remove(directory, name, wcc))
    }

    fn rmdir(&self, directory: &[u8], name: &[u8], wcc: &mut wcc_data) -> Result<(), nfsstat3> {
        with!(self.of(directory), store => store.rmdir(directory, name, wcc))
    }

    fn rename(
        &self,
        from: (&[u8], &[u8]),
        to: (&[u8], &[u8]),
        wcc: (&mut wcc_data, &mut wcc_data),
    ) -> Result<(), nfsstat3> {
        with!(self.of_both(from.0, to.0)?, store => store.rename(from, to, wcc))
    }

    fn link(&self, file: &[u8], directory: &[u8], name: &[u8], wcc: &mut wcc_data) -> Result<(), nfsstat3> {
        with!(self.of_both(file, directory)?, store => store.link(file, directory, name, wcc))
    }

    fn readdir(&self, directory: &[u8], cookie: u64, limit: usize) -> Result<Listing, nfsstat3> {
        with!(self.of(directory), store => store.readdir(directory, cookie, limit))
    }

    fn cookieverf(&self, directory: &[u8]) -> cookieverf3 {
        with!(self.of(directory), store => store.cookieverf(directory))
    }

    fn space(&self, file: &[u8]) -> Space {
        with!(self.of(file), store => store.space(file))
    }

    fn budget(&self, export: usize) -> &Budget {
        with!(&self.parts[export].files, store => store.budget(0))
    }

    fn reclaim(&self) -> bool {
        let mut left = false;
        for part in &self.parts {
            left |= with!(&part.files, store => store.reclaim());
        }
        left
    }

    fn is_worn(&self) -> bool {
        self.parts.iter().any(|part| with!(&part.files, store => store.is_worn()))
    }

    fn mend(&self) -> bool {
        let worn = self.parts.iter().find(|part| with!(&part.files, store => store.is_worn()));
        worn.is_some_and(|part| with!(&part.files, store => store.mend()))
    }
}

#[cfg(test)]
mod tests {
    use iocurve_wire::nfs3::createhow3;

    use super::*;

    fn two() -> Exports {
        let memory = |id| Files::Memory(MemoryStore::new(id, 1 << 30, 1 << 30).unwrap());
        Exports::new(vec![memory(*b"export-a"), memory(*b"export-b")]).unwrap()
    }

    fn file(exports: &Exports, export: usize) -> nfs_fh3 {
        let how = createhow3::UNCHECKED(sattr3::default());
        let root = exports.root(export);
        let what = Creation::File(&how);
        exports.create(root.as_bytes(), b"f", what, Caller::default(), &mut wcc_data::default()).unwrap()
    }

    #[test]
    fn the_same_name_is_another_file_in_another_export() {
        let exports = two();
        let (one, other) = (file(&exports, 0), file(&exports, 1));
        assert_ne!(one, other);
        assert_eq!((exports.export_of(one.as_bytes()), exports.export_of(other.as_bytes())), (0, 1));
        exports.write(&Caller::default(), one.as_bytes(), 0, b"data", stable_how::UNSTABLE).unwrap();
        assert_eq!(exports.getattr(one.as_bytes()).unwrap().size, 4);
        assert_eq!(exports.getattr(other.as_bytes()).unwrap().size, 0);
    }

    #[test]
    fn nothing_moves_from_one_export_to_another() {
        let exports = two();
        let one = file(&exports, 0);
        let (from, to) = (exports.root(0), exports.root(1));
        let mut wcc = (wcc_data::default(), wcc_data::default());
        let renamed = exports.rename((from.as_bytes(), b"f"), (to.as_bytes(), b"g"), (&mut wcc.0, &mut wcc.1));
        assert_eq!(renamed, Err(nfsstat3::NFS3ERR_XDEV));
        let linked = exports.link(one.as_bytes(), to.as_bytes(), b"g", &mut wcc_data::default());
        assert_eq!(linked, Err(nfsstat3::NFS3ERR_XDEV));
    }

    #[test]
    fn what_belongs_to_no_export_is_refused() {
        let exports = two();
        assert_eq!(exports.getattr(b"export-c00000000").unwrap_err(), nfsstat3::NFS3ERR_STALE);
        assert_eq!(exports.getattr(b"short").unwrap_err(), nfsstat3::NFS3ERR_BADHANDLE);
    }

    #[test]
    fn each_export_has_its_own_quota() {
        let exports = two();
        exports.budget(1).set_quota(1);
        let how = createhow3::UNCHECKED(sattr3::default());
        let root = exports.root(1);
        let made =
            exports.create(root.as_bytes(), b"f", Creation::File(&how), Caller::default(), &mut wcc_data::default());
        assert_eq!(made, Err(nfsstat3::NFS3ERR_DQUOT));
        file(&exports, 0);
        assert_eq!(exports.space(exports.root(0).as_bytes()).bytes_total, 1 << 30);
        assert_eq!(exports.space(root.as_bytes()).bytes_total, 1);
    }

    #[test]
    fn the_same_folder_is_not_exported_twice() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Files::Directory(DirectoryStore::open(folder.path(), 1 << 30).unwrap());
        assert!(Exports::new(vec![open(), open()]).is_none());
    }
}
