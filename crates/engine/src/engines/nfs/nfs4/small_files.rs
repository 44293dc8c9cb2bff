//! Small files of an export, by `NFSv4.1`.

use iocurve_wire::nfs4::attributes::{
    Attributes, FATTR4_FILEID, FATTR4_NUMLINKS, FATTR4_OWNER, FATTR4_SIZE, FATTR4_TIME_MODIFY, FATTR4_TYPE, bitmap4,
};
use iocurve_wire::nfs4::operations::{LOOKUP4args, READ4args, READDIR4args, WRITE4args, nfs_argop4, nfs_resop4};
use iocurve_wire::nfs4::{nfs_ftype4, nfsstat4, stable_how4, stateid4, verifier4};

use super::super::protocol::{self, Session as _, missing};
use super::super::small_files::{FileFacts, SmallFiles, check_written};
use super::client::Failed;
use super::session::{Session, attributes, get, put};
use super::status;
use crate::error::EngineError;

/// Bytes of one reply of READDIR.
const LIST_BYTES: u32 = 32 << 10;

/// A part of a directory.
#[derive(Default)]
struct Listed {
    names: Vec<String>,
    cookie: Option<u64>,
    verifier: verifier4,
    eof: bool,
}

impl SmallFiles for Session<'_> {
    fn names(&mut self) -> Result<Vec<String>, EngineError> {
        let (mut names, mut cookie, mut verifier) = (Vec::new(), 0, verifier4::default());
        loop {
            let part = self.list(cookie, verifier)?;
            names.extend(part.names);
            match part.cookie {
                Some(last) if !part.eof => (cookie, verifier) = (last, part.verifier),
                _ => return Ok(names),
            }
        }
    }

    fn facts(&mut self, name: &str) -> Result<Option<FileFacts>, EngineError> {
        if !self.exists(name)? {
            return Ok(None);
        }
        let wanted = [FATTR4_TYPE, FATTR4_SIZE, FATTR4_FILEID, FATTR4_NUMLINKS, FATTR4_OWNER, FATTR4_TIME_MODIFY];
        let ((directory, leaf), mut found) = (self.directory_of(name)?, None);
        let lookup = nfs_argop4::LOOKUP(LOOKUP4args { objname: leaf.as_bytes() });
        let looked_up = self.client().compound(&[put(&directory), lookup, get(bitmap4::of(&wanted))], |result| {
            found = found.take().or_else(|| facts(&attributes(&result)?));
        })?;
        match (looked_up, found) {
            (Ok(()), Some(found)) => Ok(Some(found)),
            (Ok(()), None) => Err(self.client().rpc.invalid(&"it lacks attributes of a file")),
            (Err(Failed { status: nfsstat4::NFS4ERR_NOENT, .. }), _) => Ok(None),
            (Err(failed), _) => Err(status::refused("look up", name, failed.status as u32)),
        }
    }

    fn read(&mut self, name: &str, bytes_max: u32) -> Result<Vec<u8>, EngineError> {
        let (file, _) = self.find(name)?.ok_or_else(|| missing(name))?;
        let count = bytes_max.min(self.limits().read);
        let read = nfs_argop4::READ(READ4args { stateid: stateid4::ANONYMOUS, offset: 0, count });
        let mut data = Vec::new();
        let done = self.client().compound(&[put(&file), read], |result| {
            if let nfs_resop4::READ(Ok(read)) = result {
                read.data.clone_into(&mut data);
            }
        })?;
        done.map_err(|failed| status::refused("read", name, failed.status as u32))?;
        Ok(data)
    }

    fn write(&mut self, name: &str, data: &[u8], new: bool) -> Result<(), EngineError> {
        let file = if new { self.create(name)? } else { self.find(name)?.ok_or_else(|| missing(name))?.0 };
        let stable = stable_how4::FILE_SYNC;
        let write = nfs_argop4::WRITE(WRITE4args { stateid: stateid4::ANONYMOUS, offset: 0, stable, data });
        let mut count = 0;
        let done = self.client().compound(&[put(&file), write], |result| {
            if let nfs_resop4::WRITE(Ok(written)) = result {
                count = written.count;
            }
        })?;
        done.map_err(|failed| status::refused("write", name, failed.status as u32))?;
        check_written(name, count, data.len() as u32)
    }

    fn remove(&mut self, name: &str) -> Result<(), EngineError> {
        protocol::Session::remove(self, name)
    }
}

impl Session<'_> {
    fn list(&mut self, cookie: u64, cookieverf: verifier4) -> Result<Listed, EngineError> {
        let (root, mut listed) = (self.root.clone(), Listed::default());
        let list = READDIR4args {
            cookie,
            cookieverf,
            dircount: LIST_BYTES,
            maxcount: LIST_BYTES,
            attr_request: bitmap4::of(&[]),
        };
        let done = self.client().compound(&[put(&root), nfs_argop4::READDIR(list)], |result| {
            if let nfs_resop4::READDIR(Ok(found)) = result {
                let entries = &found.reply.entries.0;
                let names = entries.iter().filter_map(|entry| std::str::from_utf8(entry.name).ok());
                listed = Listed {
                    names: names.map(str::to_owned).collect(),
                    cookie: entries.last().map(|entry| entry.cookie),
                    verifier: found.cookieverf,
                    eof: found.reply.eof,
                };
            }
        })?;
        done.map_err(|failed| status::refused("list", "the export", failed.status as u32))?;
        Ok(listed)
    }
}

fn facts(found: &Attributes<'_>) -> Option<FileFacts> {
    let modified = found.time_modify?;
    Some(FileFacts {
        is_plain: found.file_type? == nfs_ftype4::NF4REG && found.numlinks.unwrap_or(1) == 1,
        bytes: found.size?,
        id: found.fileid?,
        modified_ns: u64::try_from(modified.seconds).ok()? * 1_000_000_000 + u64::from(modified.nseconds),
        owner: String::from_utf8_lossy(found.owner?).into_owned(),
    })
}
