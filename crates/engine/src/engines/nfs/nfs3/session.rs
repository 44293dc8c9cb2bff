//! A mounted export of `NFSv3`: looks up, creates and removes files.

use std::sync::atomic::AtomicBool;

use iocurve_wire::nfs3::{
    CREATE3args, CREATE3res, FSINFO3args, FSINFO3res, Failed, GETATTR3args, GETATTR3res, LOOKUP3args, LOOKUP3res,
    REMOVE3args, REMOVE3res, RMDIR3args, RMDIR3res, SETATTR3args, SETATTR3res, createhow3, diropargs3, fattr3, ftype3,
    nfs_fh3, nfsproc3, nfsstat3, sattr3,
};

use super::super::mounter::{self, Mounter};
use super::super::protocol::{self, CallLimits, directory_parts};
use super::super::rpc::Rpc;
use super::super::socket::{Route, Socket};
use super::{Nfs3, status};
use crate::error::EngineError;
use crate::plan::NfsMount;

/// Most bytes of one call, whatever the server's limit.
const CALL_BYTES_MAX: u32 = 16 << 20;
/// Servers with a lower limit are refused.
const CALL_BYTES_MIN: u32 = 512;
/// Permissions of new files.
pub(super) const FILE_MODE: u32 = 0o644;

/// A mounted export.
pub(in super::super) struct Session<'a> {
    pub(super) rpc: Rpc<'a>,
    pub(super) root: nfs_fh3,
    limits: CallLimits,
    stop: &'a AtomicBool,
}

impl<'a> protocol::Session<'a, Nfs3> for Session<'a> {
    /// Queries ports that the mount does not name, mounts the export and connects to the NFS program.
    fn open(mount: &NfsMount, stop: &'a AtomicBool) -> Result<Self, EngineError> {
        let mounted = Mounter { mount, stop }.mount()?;
        let mut rpc = Mounter { mount, stop }.connect_nfs()?;
        let limits = limits(&mut rpc, &mounted, &mount.export)?;
        Ok(Self { rpc, root: mounted, limits, stop })
    }

    fn server(&self) -> &str {
        &self.rpc.server
    }

    fn route(&self) -> Route {
        self.rpc.route
    }

    fn limits(&self) -> CallLimits {
        self.limits
    }

    fn find(&mut self, path: &str) -> Result<Option<(nfs_fh3, u64)>, EngineError> {
        let (directory, name) = self.directory_of(path)?;
        let Some((handle, attributes)) = self.lookup(directory, name, path)? else { return Ok(None) };
        if attributes.file_type != ftype3::NF3REG {
            return Err(EngineError::Target(format!("{path} on {} is not a regular file", self.rpc.server)));
        }
        Ok(Some((handle, attributes.size)))
    }

    fn create(&mut self, path: &str) -> Result<nfs_fh3, EngineError> {
        let (dir, name) = self.directory_of(path)?;
        let how = createhow3::GUARDED(sattr3 { mode: Some(FILE_MODE), ..sattr3::default() });
        let arguments = CREATE3args { r#where: diropargs3 { dir, name: name.as_bytes() }, how };
        let created: CREATE3res = self.rpc.nfs(nfsproc3::NFSPROC3_CREATE, &arguments)?;
        if self.rpc.was_repeated
            && created.as_ref().is_err_and(|failed| failed.status == nfsstat3::NFS3ERR_EXIST)
            && let Some((handle, 0)) = self.find(path)?
        {
            // The server executed the call before it restarted, and lost the answer.
            return Ok(handle);
        }
        match created.map_err(|failed| refused("create", path, &failed))?.obj {
            Some(handle) => Ok(handle),
            None => self.find(path)?.map(|(handle, _)| handle).ok_or_else(|| protocol::missing(path)),
        }
    }

    fn set_size(&mut self, object: &nfs_fh3, path: &str, size: u64) -> Result<(), EngineError> {
        let new_attributes = sattr3 { size: Some(size), ..sattr3::default() };
        let arguments = SETATTR3args { object: *object, new_attributes, guard: None };
        let set: SETATTR3res = self.rpc.nfs(nfsproc3::NFSPROC3_SETATTR, &arguments)?;
        set.map(drop).map_err(|failed| refused("set the length of", path, &failed))
    }

    fn exists(&mut self, path: &str) -> Result<bool, EngineError> {
        let mut directory = self.root;
        for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
            match self.lookup(directory, part, path)? {
                Some((handle, _)) => directory = handle,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn remove(&mut self, path: &str) -> Result<(), EngineError> {
        if !self.exists(path)? {
            return Ok(());
        }
        let (dir, name) = self.directory_of(path)?;
        let arguments = REMOVE3args { object: diropargs3 { dir, name: name.as_bytes() } };
        let removed: REMOVE3res = self.rpc.nfs(nfsproc3::NFSPROC3_REMOVE, &arguments)?;
        match removed {
            Err(failed) if failed.status == nfsstat3::NFS3ERR_ISDIR => self.remove_directory(path),
            Err(failed) if failed.status != nfsstat3::NFS3ERR_NOENT => Err(refused("remove", path, &failed)),
            _ => Ok(()),
        }
    }

    fn start(self, mount: &NfsMount, files: &[(String, nfs_fh3)]) -> Result<(Nfs3, Vec<Socket>), EngineError> {
        let Rpc { socket, route, server, credential, .. } = self.rpc;
        let handles: Vec<nfs_fh3> = files.iter().map(|(_, handle)| *handle).collect();
        let mut sockets = vec![socket];
        for _ in 1..mount.nconnect {
            sockets.push(mounter::connect(&route, &server, mount.timeout_ns, self.stop)?);
        }
        Ok((Nfs3::new(&credential, &handles, mount.durability), sockets))
    }
}

impl Session<'_> {
    fn remove_directory(&mut self, path: &str) -> Result<(), EngineError> {
        let (dir, name) = self.directory_of(path)?;
        let arguments = RMDIR3args { object: diropargs3 { dir, name: name.as_bytes() } };
        let removed: RMDIR3res = self.rpc.nfs(nfsproc3::NFSPROC3_RMDIR, &arguments)?;
        match removed {
            Err(failed) if !matches!(failed.status, nfsstat3::NFS3ERR_NOENT | nfsstat3::NFS3ERR_NOTEMPTY) => {
                Err(refused("remove", path, &failed))
            }
            _ => Ok(()),
        }
    }

    /// Handle of the directory of a path, and the last part of the path.
    pub(super) fn directory_of<'p>(&mut self, path: &'p str) -> Result<(nfs_fh3, &'p str), EngineError> {
        let (parts, name) = directory_parts(path)?;
        let mut directory = self.root;
        for part in parts {
            let found = self.lookup(directory, part, path)?;
            let Some((handle, attributes)) = found else {
                return Err(protocol::missing_directory(path, part));
            };
            if attributes.file_type != ftype3::NF3DIR {
                return Err(protocol::not_a_directory(path, part));
            }
            directory = handle;
        }
        Ok((directory, name))
    }

    pub(super) fn lookup(
        &mut self,
        dir: nfs_fh3,
        name: &str,
        path: &str,
    ) -> Result<Option<(nfs_fh3, fattr3)>, EngineError> {
        let arguments = LOOKUP3args { what: diropargs3 { dir, name: name.as_bytes() } };
        let found: LOOKUP3res = self.rpc.nfs(nfsproc3::NFSPROC3_LOOKUP, &arguments)?;
        match found {
            Ok(found) => {
                let attributes = match found.obj_attributes {
                    Some(attributes) => attributes,
                    None => self.attributes(found.object, path)?,
                };
                Ok(Some((found.object, attributes)))
            }
            Err(failed) if failed.status == nfsstat3::NFS3ERR_NOENT => Ok(None),
            Err(failed) => Err(refused("look up", path, &failed)),
        }
    }

    fn attributes(&mut self, object: nfs_fh3, path: &str) -> Result<fattr3, EngineError> {
        let attributes: GETATTR3res = self.rpc.nfs(nfsproc3::NFSPROC3_GETATTR, &GETATTR3args { object })?;
        attributes.map(|found| found.obj_attributes).map_err(|failed| refused("get the attributes of", path, &failed))
    }
}

pub(super) fn refused<T>(action: &'static str, path: &str, failed: &Failed<T>) -> EngineError {
    status::refused(action, path, failed.status as u32)
}

fn limits(rpc: &mut Rpc<'_>, root: &nfs_fh3, export: &str) -> Result<CallLimits, EngineError> {
    let info: FSINFO3res = rpc.nfs(nfsproc3::NFSPROC3_FSINFO, &FSINFO3args { fsroot: *root })?;
    let info = info.map_err(|failed| refused("get the limits of", export, &failed))?;
    if info.rtmax.min(info.wtmax) < CALL_BYTES_MIN {
        return Err(EngineError::Connection(format!(
            "NFS server {} accepts only {} bytes in a READ and {} in a WRITE; at least {CALL_BYTES_MIN} are needed",
            rpc.server, info.rtmax, info.wtmax
        )));
    }
    Ok(CallLimits { read: info.rtmax.min(CALL_BYTES_MAX), write: info.wtmax.min(CALL_BYTES_MAX) })
}
