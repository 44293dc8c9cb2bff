//! Small files of an export, each read or written in one call, and facts about others: for the manifests of runs.

use std::sync::atomic::AtomicBool;

use iocurve_wire::client_fast::Malformed;

use super::super::calls::{Calls, Mountable};
use super::super::export::Export;
use super::super::names::{FileFacts, Procedure};
use super::super::status::refused;
use super::super::version::with_version;
use crate::error::{EngineError, TargetError};
use crate::plan::NfsMount;

/// An export, as a place for small files in its root.
pub trait SmallFiles {
    /// Names in the root. Names that are not UTF-8 are left out.
    fn names(&mut self) -> Result<Vec<String>, EngineError>;

    /// Facts about a file; `None` if there is none.
    fn facts(&mut self, name: &str) -> Result<Option<FileFacts>, EngineError>;

    /// Reads the first `bytes_max` bytes of a file.
    fn read(&mut self, name: &str, bytes_max: u32) -> Result<Vec<u8>, EngineError>;

    /// Writes the beginning of a file, to stable storage and in one call; `new` creates it and fails if it exists.
    fn write(&mut self, name: &str, data: &[u8], new: bool) -> Result<(), EngineError>;

    /// Removes a file; ignores a missing one.
    fn remove(&mut self, name: &str) -> Result<(), EngineError>;
}

/// Mounts an export.
pub fn small_files<'a>(mount: &NfsMount, stop: &'a AtomicBool) -> Result<Box<dyn SmallFiles + 'a>, EngineError> {
    with_version!(mount, P => Ok(Box::new(Export::<P>::mount(mount, stop)?)))
}

impl<P: Mountable> SmallFiles for Export<'_, P> {
    fn names(&mut self) -> Result<Vec<String>, EngineError> {
        let root = self.calls.root().clone();
        let entries = self.list_all("the export", &root, Procedure::ListNames)?;
        Ok(entries.into_iter().filter_map(|entry| String::from_utf8(entry.name).ok()).collect())
    }

    fn facts(&mut self, name: &str) -> Result<Option<FileFacts>, EngineError> {
        if !self.exists(name)? {
            return Ok(None);
        }
        let (directory, leaf) = self.directory_of(name)?;
        match self.look_up(&directory, leaf, name)?.map(|node| node.facts) {
            Some(None) => Err(self.calls.rpc().invalid(Malformed::AttributesMissing)),
            facts => Ok(facts.flatten()),
        }
    }

    fn read(&mut self, name: &str, bytes_max: u32) -> Result<Vec<u8>, EngineError> {
        let file = self.existing(name)?;
        let read = self.calls.read(&file, bytes_max.min(self.limits().read))?;
        read.map_err(|status| refused::<P>("read", name, status))
    }

    fn write(&mut self, name: &str, data: &[u8], new: bool) -> Result<(), EngineError> {
        let file = if new { self.create(name)? } else { self.existing(name)? };
        let bytes = self.calls.write(&file, data)?.map_err(|status| refused::<P>("write", name, status))?;
        if bytes != data.len() {
            let (path, bytes, written) = (name.to_owned(), data.len(), bytes);
            return Err(TargetError::PartlyWritten { path, written, bytes }.into());
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<(), EngineError> {
        Export::remove(self, name)
    }
}
