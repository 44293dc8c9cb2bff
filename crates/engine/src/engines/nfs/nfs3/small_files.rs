//! Small files of an export, by `NFSv3`.

use iocurve_wire::nfs3::NFS_PROGRAM;
use iocurve_wire::nfs3::NFS_V3;
use iocurve_wire::nfs3::{
    READ3args, READ3res, READDIR3args, READDIR3res, WRITE3args, WRITE3res, cookieverf3, ftype3, nfsproc3, stable_how,
};
use iocurve_wire::xdr::{Decode, Reader};

use super::super::protocol::{self, Session as _, missing};
use super::super::small_files::{FileFacts, SmallFiles, check_written};
use super::session::{Session, refused};
use crate::error::EngineError;

/// Bytes of one reply of READDIR.
const LIST_BYTES: u32 = 32 << 10;

impl SmallFiles for Session<'_> {
    fn names(&mut self) -> Result<Vec<String>, EngineError> {
        let mut names = Vec::new();
        let (mut cookie, mut cookieverf) = (0, cookieverf3::default());
        loop {
            let arguments = READDIR3args { dir: self.root, cookie, cookieverf, count: LIST_BYTES };
            let results = self.rpc.transact(NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_READDIR as u32, &arguments)?;
            let listed = READDIR3res::decode(&mut Reader::new(results)).map_err(|error| invalid("READDIR", &error))?;
            let listed = listed.map_err(|failed| refused("list", "the export", &failed))?;
            let last = listed.reply.entries.0.last().map(|entry| entry.cookie);
            let found = listed.reply.entries.0.iter().filter_map(|entry| std::str::from_utf8(entry.name).ok());
            names.extend(found.map(str::to_owned));
            match last {
                Some(last) if !listed.reply.eof => (cookie, cookieverf) = (last, listed.cookieverf),
                _ => return Ok(names),
            }
        }
    }

    fn facts(&mut self, name: &str) -> Result<Option<FileFacts>, EngineError> {
        if !self.exists(name)? {
            return Ok(None);
        }
        let (directory, leaf) = self.directory_of(name)?;
        let found = self.lookup(directory, leaf, name)?;
        Ok(found.map(|(_, attributes)| FileFacts {
            is_plain: attributes.file_type == ftype3::NF3REG && attributes.nlink == 1,
            bytes: attributes.size,
            id: attributes.fileid,
            modified_ns: u64::from(attributes.mtime.seconds) * 1_000_000_000 + u64::from(attributes.mtime.nseconds),
            owner: attributes.uid.to_string(),
        }))
    }

    fn read(&mut self, name: &str, bytes_max: u32) -> Result<Vec<u8>, EngineError> {
        let (file, _) = self.find(name)?.ok_or_else(|| missing(name))?;
        let arguments = READ3args { file, offset: 0, count: bytes_max.min(self.limits().read) };
        let results = self.rpc.transact(NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_READ as u32, &arguments)?;
        let read = READ3res::decode(&mut Reader::new(results)).map_err(|error| invalid("READ", &error))?;
        Ok(read.map_err(|failed| refused("read", name, &failed))?.data.to_vec())
    }

    fn write(&mut self, name: &str, data: &[u8], new: bool) -> Result<(), EngineError> {
        let file = if new { self.create(name)? } else { self.find(name)?.ok_or_else(|| missing(name))?.0 };
        let count = data.len() as u32;
        let arguments = WRITE3args { file, offset: 0, count, stable: stable_how::FILE_SYNC, data };
        let written: WRITE3res = self.rpc.nfs(nfsproc3::NFSPROC3_WRITE, &arguments)?;
        check_written(name, written.map_err(|failed| refused("write", name, &failed))?.count, count)
    }

    fn remove(&mut self, name: &str) -> Result<(), EngineError> {
        protocol::Session::remove(self, name)
    }
}

fn invalid(call: &str, error: &dyn std::fmt::Display) -> EngineError {
    EngineError::Connection(format!("invalid reply to {call} ({error}); is it an NFSv3 server?"))
}
