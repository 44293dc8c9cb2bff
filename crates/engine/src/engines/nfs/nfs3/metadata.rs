//! The calls of the metadata engine in `NFSv3`. A file is open once its handle is known.

use iocurve_wire::nfs3::{
    ACCESS3args, ACCESS3res, COMMIT3args, COMMIT3res, CREATE3args, CREATE3res, Failed, GETATTR3args, GETATTR3res,
    LOOKUP3args, LOOKUP3res, MKDIR3args, MKDIR3res, NFS_PROGRAM, NFS_V3, READ3args, READ3res, REMOVE3args, REMOVE3res,
    RENAME3args, RENAME3res, RMDIR3args, RMDIR3res, SETATTR3args, SETATTR3res, WRITE3args, WRITE3res, access,
    createhow3, diropargs3, nfs_fh3, nfsproc3, sattr3, set_time, stable_how,
};
use iocurve_wire::xdr::{Decode, Reader};

use super::super::metadata::{Answer, DIRECTORY_MODE, Entry, MetadataCalls, Object, Written, granted};
use super::session::{FILE_MODE, Session};
use super::{Nfs3, stability};
use crate::error::EngineError;
use crate::plan::Durability;

impl<'a> MetadataCalls<'a, Nfs3> for Session<'a> {
    type Open = nfs_fh3;

    fn root(&self) -> nfs_fh3 {
        self.root
    }

    fn look_up(&mut self, entry: &Entry<'_, nfs_fh3>) -> Answer<nfs_fh3> {
        let found: LOOKUP3res = self.rpc.nfs(nfsproc3::NFSPROC3_LOOKUP, &LOOKUP3args { what: place(entry) })?;
        value(found.map(|found| found.object))
    }

    fn create_open(&mut self, entry: &Entry<'_, nfs_fh3>) -> Answer<nfs_fh3> {
        let how = createhow3::UNCHECKED(sattr3 { mode: Some(FILE_MODE), ..sattr3::default() });
        let arguments = CREATE3args { r#where: place(entry), how };
        let created: CREATE3res = self.rpc.nfs(nfsproc3::NFSPROC3_CREATE, &arguments)?;
        match granted!(value(created)).obj {
            Some(handle) => Ok(Ok(handle)),
            None => self.look_up(entry),
        }
    }

    fn open_file(&mut self, entry: &Entry<'_, nfs_fh3>) -> Answer<nfs_fh3> {
        self.look_up(entry)
    }

    fn close_file(&mut self, _open: nfs_fh3) -> Answer<()> {
        Ok(Ok(()))
    }

    fn get_attributes(&mut self, object: &Object<'_, nfs_fh3, nfs_fh3>) -> Answer<()> {
        let object = granted!(self.handle(object));
        let got: GETATTR3res = self.rpc.nfs(nfsproc3::NFSPROC3_GETATTR, &GETATTR3args { object })?;
        value(got.map(drop))
    }

    fn set_times(&mut self, object: &Object<'_, nfs_fh3, nfs_fh3>) -> Answer<()> {
        let object = granted!(self.handle(object));
        let now = set_time::SET_TO_SERVER_TIME(());
        let new_attributes = sattr3 { atime: now, mtime: now, ..sattr3::default() };
        let arguments = SETATTR3args { object, new_attributes, guard: None };
        let set: SETATTR3res = self.rpc.nfs(nfsproc3::NFSPROC3_SETATTR, &arguments)?;
        value(set.map(drop))
    }

    fn may_read(&mut self, object: &Object<'_, nfs_fh3, nfs_fh3>) -> Answer<bool> {
        let object = granted!(self.handle(object));
        let arguments = ACCESS3args { object, access: access::ACCESS3_READ };
        let checked: ACCESS3res = self.rpc.nfs(nfsproc3::NFSPROC3_ACCESS, &arguments)?;
        value(checked.map(|checked| checked.access & access::ACCESS3_READ != 0))
    }

    fn rename(&mut self, from: &Entry<'_, nfs_fh3>, to: &Entry<'_, nfs_fh3>) -> Answer<()> {
        let arguments = RENAME3args { from: place(from), to: place(to) };
        let renamed: RENAME3res = self.rpc.nfs(nfsproc3::NFSPROC3_RENAME, &arguments)?;
        value(renamed.map(drop))
    }

    fn remove_file(&mut self, entry: &Entry<'_, nfs_fh3>) -> Answer<()> {
        let removed: REMOVE3res = self.rpc.nfs(nfsproc3::NFSPROC3_REMOVE, &REMOVE3args { object: place(entry) })?;
        value(removed.map(drop))
    }

    fn make_directory(&mut self, entry: &Entry<'_, nfs_fh3>) -> Answer<Option<nfs_fh3>> {
        let attributes = sattr3 { mode: Some(DIRECTORY_MODE), ..sattr3::default() };
        let arguments = MKDIR3args { r#where: place(entry), attributes };
        let made: MKDIR3res = self.rpc.nfs(nfsproc3::NFSPROC3_MKDIR, &arguments)?;
        value(made.map(|made| made.obj))
    }

    fn remove_directory(&mut self, entry: &Entry<'_, nfs_fh3>) -> Answer<()> {
        let removed: RMDIR3res = self.rpc.nfs(nfsproc3::NFSPROC3_RMDIR, &RMDIR3args { object: place(entry) })?;
        value(removed.map(drop))
    }

    fn read(&mut self, open: &mut nfs_fh3, offset: u64, into: &mut [u8]) -> Answer<(u32, bool)> {
        let arguments = READ3args { file: *open, offset, count: into.len() as u32 };
        let server = self.rpc.server.clone();
        let results = self.rpc.transact(NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_READ as u32, &arguments)?;
        let invalid = || EngineError::Connection(format!("invalid reply to a READ from server {server}"));
        let read = granted!(value(READ3res::decode(&mut Reader::new(results)).map_err(|_| invalid())?));
        into.get_mut(..read.data.len()).ok_or_else(invalid)?.copy_from_slice(read.data);
        Ok(Ok((read.data.len() as u32, read.eof)))
    }

    fn write(&mut self, open: &mut nfs_fh3, offset: u64, data: &[u8], durability: Durability) -> Answer<Written> {
        let stable = stability(durability);
        let arguments = WRITE3args { file: *open, offset, count: data.len() as u32, stable, data };
        let written: WRITE3res = self.rpc.nfs(nfsproc3::NFSPROC3_WRITE, &arguments)?;
        value(written.map(|written| Written {
            bytes: written.count,
            is_unstable: written.committed == stable_how::UNSTABLE,
            verifier: written.verf,
        }))
    }

    fn commit(&mut self, open: &nfs_fh3) -> Answer<[u8; 8]> {
        let arguments = COMMIT3args { file: *open, offset: 0, count: 0 };
        let committed: COMMIT3res = self.rpc.nfs(nfsproc3::NFSPROC3_COMMIT, &arguments)?;
        value(committed.map(|committed| committed.verf))
    }
}

impl Session<'_> {
    fn handle(&mut self, object: &Object<'_, nfs_fh3, nfs_fh3>) -> Answer<nfs_fh3> {
        match object {
            Object::Open(handle) => Ok(Ok(**handle)),
            Object::Entry(entry) => self.look_up(entry),
        }
    }
}

fn place<'n>(entry: &Entry<'n, nfs_fh3>) -> diropargs3<'n> {
    diropargs3 { dir: *entry.directory, name: entry.name.as_bytes() }
}

/// The value of a result, or its status.
#[expect(clippy::unnecessary_wraps, reason = "the calls return it as their answer")]
fn value<T, F>(result: Result<T, Failed<F>>) -> Answer<T> {
    Ok(result.map_err(|failed| failed.status as u32))
}
