//! A mounted export: looks up, creates and removes files.

use std::sync::atomic::AtomicBool;

use iocurve_wire::nfs3::{
    CREATE3args, CREATE3res, FSINFO3args, FSINFO3res, Failed, GETATTR3args, GETATTR3res, LOOKUP3args, LOOKUP3res,
    REMOVE3args, REMOVE3res, RMDIR3args, RMDIR3res, SETATTR3args, SETATTR3res, createhow3, diropargs3, fattr3, ftype3,
    nfs_fh3, nfsproc3, nfsstat3, sattr3,
};

use super::flight::CallLimits;
use super::mounter::Mounter;
use super::rpc::Rpc;
use super::socket::{Route, Socket, check_source};
use super::status;
use crate::error::EngineError;
use crate::plan::NfsMount;

/// Most bytes of one call, whatever the server's limit.
const CALL_BYTES_MAX: u32 = 16 << 20;
/// Servers with a lower limit are refused.
const CALL_BYTES_MIN: u32 = 512;
/// Permissions of new files.
pub(super) const FILE_MODE: u32 = 0o644;

/// A mounted export.
pub(super) struct Session<'a> {
    pub(super) rpc: Rpc<'a>,
    pub(super) root: nfs_fh3,
    /// Limits of READ and WRITE.
    pub limits: CallLimits,
    /// The encoded credential of all calls.
    pub credential: Vec<u8>,
}

impl<'a> Session<'a> {
    /// Queries ports that the mount does not name, mounts the export and connects to the NFS program.
    pub(super) fn open(mount: &NfsMount, stop: &'a AtomicBool) -> Result<Self, EngineError> {
        if mount.version != 3 {
            return Err(EngineError::Plan(format!("NFS version {} is not supported; use version 3", mount.version)));
        }
        if let Some(source) = mount.source {
            check_source(source).map_err(|error| {
                EngineError::Connection(format!(
                    "cannot use the local address {source}: {error}; name an address of this machine, as `ip address` lists them"
                ))
            })?;
        }
        let mounted = Mounter { mount, stop }.mount()?;
        let mut rpc = Mounter { mount, stop }.connect_nfs()?;
        let limits = limits(&mut rpc, &mounted, &mount.export)?;
        let credential = rpc.credential.clone();
        Ok(Self { rpc, root: mounted, limits, credential })
    }

    /// `host:port` of the NFS program.
    pub(super) fn server(&self) -> String {
        self.rpc.server.clone()
    }

    /// Route to the NFS program.
    pub(super) fn route(&self) -> Route {
        self.rpc.route
    }

    /// The connection; no call is in flight on it.
    pub(super) fn into_socket(self) -> Socket {
        self.rpc.socket
    }

    /// Looks a regular file up; `None` if it does not exist.
    pub(super) fn find(&mut self, path: &str) -> Result<Option<(nfs_fh3, fattr3)>, EngineError> {
        let (directory, name) = self.directory_of(path)?;
        let Some((handle, attributes)) = self.lookup(directory, name, path)? else { return Ok(None) };
        if attributes.file_type != ftype3::NF3REG {
            return Err(EngineError::Target(format!("{path} on {} is not a regular file", self.rpc.server)));
        }
        Ok(Some((handle, attributes)))
    }

    /// Creates an empty file; fails if the name exists.
    pub(super) fn create(&mut self, path: &str) -> Result<nfs_fh3, EngineError> {
        let (dir, name) = self.directory_of(path)?;
        let how = createhow3::GUARDED(sattr3 { mode: Some(FILE_MODE), ..sattr3::default() });
        let arguments = CREATE3args { r#where: diropargs3 { dir, name: name.as_bytes() }, how };
        let created: CREATE3res = self.rpc.nfs(nfsproc3::NFSPROC3_CREATE, &arguments)?;
        if self.rpc.was_repeated
            && created.as_ref().is_err_and(|failed| failed.status == nfsstat3::NFS3ERR_EXIST)
            && let Some((handle, attributes)) = self.find(path)?
            && attributes.size == 0
        {
            // The server executed the call before it restarted, and lost the answer.
            return Ok(handle);
        }
        match created.map_err(|failed| refused("create", path, &failed))?.obj {
            Some(handle) => Ok(handle),
            None => self.find(path)?.map(|(handle, _)| handle).ok_or_else(|| missing(path)),
        }
    }

    /// Sets a file's length.
    pub(super) fn set_size(&mut self, object: nfs_fh3, path: &str, size: u64) -> Result<(), EngineError> {
        let new_attributes = sattr3 { size: Some(size), ..sattr3::default() };
        let arguments = SETATTR3args { object, new_attributes, guard: None };
        let set: SETATTR3res = self.rpc.nfs(nfsproc3::NFSPROC3_SETATTR, &arguments)?;
        set.map(drop).map_err(|failed| refused("set the length of", path, &failed))
    }

    /// Returns `true` if a path exists; a missing directory on the way means that it does not.
    pub(super) fn exists(&mut self, path: &str) -> Result<bool, EngineError> {
        let mut directory = self.root;
        for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
            match self.lookup(directory, part, path)? {
                Some((handle, _)) => directory = handle,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Removes a file or an empty directory. Ignores what is missing, and leaves a directory that is not empty.
    pub(super) fn remove(&mut self, path: &str) -> Result<(), EngineError> {
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
        let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        let Some(name) = parts.pop() else {
            return Err(EngineError::Target(format!("{path:?} names no file in the export")));
        };
        if parts.contains(&"..") || name == ".." {
            return Err(EngineError::Target(format!(
                "{path}: .. is not allowed in paths of an export; name the file directly"
            )));
        }
        let mut directory = self.root;
        for part in parts {
            let found = self.lookup(directory, part, path)?;
            let Some((handle, attributes)) = found else {
                return Err(EngineError::Target(format!(
                    "{path}: the directory {part} does not exist; create it first"
                )));
            };
            if attributes.file_type != ftype3::NF3DIR {
                return Err(EngineError::Target(format!("{path}: {part} is not a directory")));
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

/// Error for a file that must exist but does not.
pub(super) fn missing(path: &str) -> EngineError {
    EngineError::Target(format!("{path} does not exist on the export, and this job does not create it; check the path"))
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
