//! A mounted export: finds, creates and removes files by their paths. An error gives the path as the plan has it.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;

use iocurve_wire::client_fast::Malformed;

use super::calls::{Calls, Entry, Mountable};
use super::names::{Cursor, Listed, Node, Procedure};
use super::protocol::CallLimits;
use super::status::{EXIST, ISDIR, NOENT, NOTEMPTY, refused};
use super::transport::socket::{Route, Socket};
use crate::error::{EngineError, TargetError};
use crate::plan::NfsMount;
use crate::tree::EntryKind;

/// Most entries of a directory that are listed: a server whose list has no end ends the run before memory does.
const DIRECTORY_ENTRIES_MAX: usize = if cfg!(test) { 1 << 12 } else { 1 << 24 };

/// A mounted export.
pub(super) struct Export<'a, P: Mountable> {
    pub(super) calls: P::Calls<'a>,
    limits: CallLimits,
}

impl<'a, P: Mountable> Export<'a, P> {
    /// Connects to the server and finds the root of the export.
    pub(super) fn mount(mount: &NfsMount, stop: &'a AtomicBool) -> Result<Self, EngineError> {
        let calls = P::Calls::mount(mount, stop)?;
        let limits = calls.limits().within(mount);
        Ok(Self { calls, limits })
    }

    /// `host:port` of the NFS program.
    pub(super) fn server(&self) -> &str {
        &self.calls.rpc().server
    }

    /// Route to the NFS program.
    pub(super) fn route(&self) -> Route {
        self.calls.rpc().route.clone()
    }

    /// Limits of one call: those of the server, within those of the mount.
    pub(super) fn limits(&self) -> CallLimits {
        self.limits
    }

    /// Looks a regular file up, with its size; `None` if it does not exist.
    pub(super) fn find(&mut self, path: &str) -> Result<Option<(P::Handle, u64)>, EngineError> {
        let (directory, name) = self.directory_of(path)?;
        let Some(Node { handle, kind, bytes, .. }) = self.look_up(&directory, name, path)? else { return Ok(None) };
        if kind != EntryKind::File {
            let (path, server) = (path.to_owned(), self.server().to_owned());
            return Err(TargetError::NotAFileOnServer { path, server }.into());
        }
        Ok(Some((handle, bytes)))
    }

    /// As [`Self::find`], for a file that must exist.
    pub(super) fn existing(&mut self, path: &str) -> Result<P::Handle, EngineError> {
        self.find(path)?.map(|(handle, _)| handle).ok_or_else(|| missing(path))
    }

    /// Creates an empty file; fails if the name exists.
    pub(super) fn create(&mut self, path: &str) -> Result<P::Handle, EngineError> {
        let (directory, name) = self.directory_of(path)?;
        let created = self.calls.create(&Entry { directory: &directory, name })?;
        if self.calls.was_repeated()
            && matches!(created, Err(EXIST))
            && let Some((handle, 0)) = self.find(path)?
        {
            // The server executed the call before it restarted, and lost the answer.
            return Ok(handle);
        }
        match created.map_err(|status| refused::<P>("create", path, status))? {
            Some(handle) => Ok(handle),
            None => self.existing(path),
        }
    }

    /// Creates a directory if there is none; returns true if it did.
    pub(super) fn make_directory(&mut self, path: &str) -> Result<bool, EngineError> {
        let (directory, name) = self.directory_of(path)?;
        match self.look_up(&directory, name, path)? {
            Some(Node { kind: EntryKind::Directory, .. }) => return Ok(false),
            Some(_) => {
                let (path, server) = (path.to_owned(), self.server().to_owned());
                return Err(TargetError::NotADirectoryOnServer { path, server }.into());
            }
            None => {}
        }
        match self.calls.on_name(Procedure::Mkdir, &Entry { directory: &directory, name })? {
            // The server executed the call before it restarted, and lost the answer.
            Err(EXIST) if self.calls.was_repeated() => Ok(true),
            made => made.map(|_| true).map_err(|status| refused::<P>("create", path, status)),
        }
    }

    /// Sets a file's length.
    pub(super) fn set_size(&mut self, object: &P::Handle, path: &str, bytes: u64) -> Result<(), EngineError> {
        let set = self.calls.set_size(object, bytes)?;
        set.map_err(|status| refused::<P>("set the length of", path, status))
    }

    /// Returns `true` if a path exists; a missing directory on the way means that it does not.
    pub(super) fn exists(&mut self, path: &str) -> Result<bool, EngineError> {
        let mut directory = self.calls.root().clone();
        for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
            match self.look_up(&directory, part, path)? {
                Some(node) => directory = node.handle,
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
        let (directory, name) = self.directory_of(path)?;
        let entry = Entry { directory: &directory, name };
        let removed = match self.calls.on_name(Procedure::Remove, &entry)? {
            Err(ISDIR) => self.calls.on_name(Procedure::Rmdir, &entry)?,
            removed => removed,
        };
        match removed {
            Ok(_) | Err(NOENT | NOTEMPTY) => Ok(()),
            Err(status) => Err(refused::<P>("remove", path, status)),
        }
    }

    /// Takes up files for a load: its protocol, and `nconnect` connections on which no call is in flight.
    pub(super) fn start(
        self,
        mount: &NfsMount,
        files: &[(String, P::Handle)],
    ) -> Result<(P, Vec<Socket>), EngineError> {
        self.calls.start(mount, files)
    }

    /// Handle of the directory of a path, and the last part of the path.
    pub(super) fn directory_of<'p>(&mut self, path: &'p str) -> Result<(P::Handle, &'p str), EngineError> {
        let (parts, name) = directory_parts(path)?;
        let mut directory = self.calls.root().clone();
        for part in parts {
            directory = match self.look_up(&directory, part, path)? {
                Some(Node { handle, kind: EntryKind::Directory, .. }) => handle,
                Some(_) => {
                    return Err(TargetError::NotADirectoryIn { path: path.into(), name: part.into() }.into());
                }
                None => {
                    return Err(TargetError::MissingDirectory { path: path.into(), directory: part.into() }.into());
                }
            };
        }
        Ok((directory, name))
    }

    /// All entries of a directory, which messages call `path`; `procedure` lists one page.
    pub(super) fn list_all(
        &mut self,
        path: &str,
        directory: &P::Handle,
        procedure: Procedure,
    ) -> Result<Vec<Listed<P::Handle>>, EngineError> {
        let (mut all, mut from, mut seen) = (Vec::new(), Cursor::default(), HashSet::new());
        loop {
            let page = self.calls.page(procedure, directory, from)?;
            let (page, entries) = page.map_err(|status| refused::<P>("list", path, status))?;
            all.extend(entries);
            if all.len() > DIRECTORY_ENTRIES_MAX {
                return Err(TargetError::TooManyEntries { path: path.into(), most: DIRECTORY_ENTRIES_MAX }.into());
            }
            if page.is_end {
                return Ok(all);
            }
            let Some(next) = page.last else {
                return Err(self.calls.rpc().invalid(Malformed::ListWithoutEnd));
            };
            if !seen.insert(next.cookie) {
                return Err(self.calls.rpc().invalid(Malformed::ListAgain));
            }
            self.calls.rpc().check_stop()?;
            from = next;
        }
    }

    /// Looks a name on the way to `path` up; `None` if it does not exist.
    pub(super) fn look_up(
        &mut self,
        directory: &P::Handle,
        name: &str,
        path: &str,
    ) -> Result<Option<Node<P::Handle>>, EngineError> {
        match self.calls.find(&Entry { directory, name })? {
            Ok(node) => Ok(Some(node)),
            Err(NOENT) => Ok(None),
            Err(status) => Err(refused::<P>("look up", path, status)),
        }
    }
}

/// The directories of a path in an export, and its last part.
pub(super) fn directory_parts(path: &str) -> Result<(Vec<&str>, &str), EngineError> {
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let Some(name) = parts.pop() else {
        return Err(TargetError::NoName { path: path.to_owned() }.into());
    };
    if parts.contains(&"..") || name == ".." {
        return Err(TargetError::Parent { path: path.to_owned() }.into());
    }
    Ok((parts, name))
}

/// Error for a file that must exist but does not.
pub(super) fn missing(path: &str) -> EngineError {
    TargetError::MissingOnExport { path: path.to_owned() }.into()
}
