//! Small files of an export, each read or written in one call, and what is known of others: for the manifests of runs.

use std::sync::atomic::AtomicBool;

use iocurve_wire::nfs3::NFS_PROGRAM;
use iocurve_wire::nfs3::NFS_V3;
use iocurve_wire::nfs3::{
    READ3args, READ3res, READDIR3args, READDIR3res, WRITE3args, WRITE3res, cookieverf3, ftype3, nfsproc3, stable_how,
};
use iocurve_wire::xdr::{Decode, Reader};

use super::super::protocol::{Session as _, missing};
use super::session::{Session, refused};
use crate::error::EngineError;
use crate::plan::NfsMount;

/// Bytes of one reply of READDIR.
const LIST_BYTES: u32 = 32 << 10;

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
}

/// An export, as a place for small files in its root.
pub struct SmallFiles<'a> {
    session: Session<'a>,
}

impl<'a> SmallFiles<'a> {
    /// Mounts an export.
    pub fn open(mount: &NfsMount, stop: &'a AtomicBool) -> Result<Self, EngineError> {
        if mount.version != 3 {
            return Err(EngineError::Plan("small files are read and written by NFSv3".to_owned()));
        }
        Ok(Self { session: Session::open(mount, stop)? })
    }

    /// Names in the root that end in `suffix`. Names that are not UTF-8 are left out.
    pub fn names(&mut self, suffix: &str) -> Result<Vec<String>, EngineError> {
        let mut names = Vec::new();
        let (mut cookie, mut cookieverf) = (0, cookieverf3::default());
        loop {
            let arguments = READDIR3args { dir: self.session.root, cookie, cookieverf, count: LIST_BYTES };
            let results =
                self.session.rpc.transact(NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_READDIR as u32, &arguments)?;
            let listed = READDIR3res::decode(&mut Reader::new(results)).map_err(|error| invalid("READDIR", &error))?;
            let listed = listed.map_err(|failed| refused("list", "the export", &failed))?;
            let last = listed.reply.entries.0.last().map(|entry| entry.cookie);
            let found = listed.reply.entries.0.iter().filter_map(|entry| std::str::from_utf8(entry.name).ok());
            names.extend(found.filter(|name| name.ends_with(suffix)).map(str::to_owned));
            match last {
                Some(last) if !listed.reply.eof => (cookie, cookieverf) = (last, listed.cookieverf),
                _ => return Ok(names),
            }
        }
    }

    /// Facts about a file in the root; `None` if there is none.
    pub fn facts(&mut self, name: &str) -> Result<Option<FileFacts>, EngineError> {
        let found = self.session.lookup(self.session.root, name, name)?;
        Ok(found.map(|(_, attributes)| FileFacts {
            is_plain: attributes.file_type == ftype3::NF3REG && attributes.nlink == 1,
            bytes: attributes.size,
            id: attributes.fileid,
            modified_ns: u64::from(attributes.mtime.seconds) * 1_000_000_000 + u64::from(attributes.mtime.nseconds),
        }))
    }

    /// Reads the first `bytes_max` bytes of a file.
    pub fn read(&mut self, name: &str, bytes_max: u32) -> Result<Vec<u8>, EngineError> {
        let (file, _) = self.session.find(name)?.ok_or_else(|| missing(name))?;
        let arguments = READ3args { file, offset: 0, count: bytes_max.min(self.session.limits().read) };
        let results = self.session.rpc.transact(NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_READ as u32, &arguments)?;
        let read = READ3res::decode(&mut Reader::new(results)).map_err(|error| invalid("READ", &error))?;
        Ok(read.map_err(|failed| refused("read", name, &failed))?.data.to_vec())
    }

    /// Writes the beginning of a file, to stable storage and in one call; `new` creates it and fails if it exists.
    pub fn write(&mut self, name: &str, data: &[u8], new: bool) -> Result<(), EngineError> {
        let file =
            if new { self.session.create(name)? } else { self.session.find(name)?.ok_or_else(|| missing(name))?.0 };
        let count = data.len() as u32;
        let arguments = WRITE3args { file, offset: 0, count, stable: stable_how::FILE_SYNC, data };
        let written: WRITE3res = self.session.rpc.nfs(nfsproc3::NFSPROC3_WRITE, &arguments)?;
        match written {
            Err(failed) => Err(refused("write", name, &failed)),
            Ok(written) if written.count != count => {
                Err(EngineError::Target(format!("{name}: the server wrote {} of {count} bytes", written.count)))
            }
            Ok(_) => Ok(()),
        }
    }

    /// Removes a file; ignores a missing one.
    pub fn remove(&mut self, name: &str) -> Result<(), EngineError> {
        self.session.remove(name)
    }
}

fn invalid(call: &str, error: &dyn std::fmt::Display) -> EngineError {
    EngineError::Connection(format!("invalid reply to {call} ({error}); is it an NFSv3 server?"))
}
