//! State of a disk, kept from run to run in a file next to its data.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::throttle::Credits;
use crate::error::{EngineError, TargetError};

const VERSION: u32 = 1;

/// Content of that file. `iocurve disk restart` removes the cached files from it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    /// Version of this format.
    pub version: u32,
    /// Time when it was written, since 1970.
    pub saved_unix_ns: u64,
    /// Burst credits left, by limit.
    pub credits: BTreeMap<String, Credits>,
    /// Content of the host cache.
    pub files: Vec<CachedFile>,
}

/// Cached blocks of a file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CachedFile {
    pub path: String,
    /// Inode of the file: another file of that name is not cached.
    pub inode: Option<u64>,
    /// A bit for each block of 4 KiB, in words of 64 bits, little-endian and in base64.
    pub blocks: String,
}

impl Default for State {
    fn default() -> Self {
        Self { version: VERSION, saved_unix_ns: 0, credits: BTreeMap::new(), files: Vec::new() }
    }
}

impl State {
    /// Reads the state; a disk without a state file is new.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, EngineError> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed("read", path, source)),
        };
        let unknown = |why| TargetError::DiskState { path: path.display().to_string(), why };
        let state: Self = serde_json::from_slice(&text).map_err(|error| unknown(error.to_string()))?;
        if state.version != VERSION {
            return Err(unknown(format!("it has version {}", state.version)).into());
        }
        Ok(Some(state))
    }

    /// Writes the state atomically.
    pub(super) fn write(&self, path: &Path) -> Result<(), EngineError> {
        let text = serde_json::to_vec(self).expect("a state is plain data");
        let new = path.with_extension("new");
        let written = fs::File::create(&new).and_then(|mut file| file.write_all(&text));
        written.and_then(|()| fs::rename(&new, path)).map_err(|source| failed("write", path, source))
    }
}

impl CachedFile {
    /// Cached blocks of a file; `None` if there are none.
    pub(super) fn new(path: &str, inode: Option<u64>, words: &[u64]) -> Option<Self> {
        let used = words.iter().rposition(|&word| word != 0)? + 1;
        let bytes: Vec<u8> = words[..used].iter().flat_map(|word| word.to_le_bytes()).collect();
        Some(Self { path: path.into(), inode, blocks: STANDARD.encode(bytes) })
    }

    /// A bit for each block; none if the text is invalid.
    pub(super) fn words(&self) -> Vec<u64> {
        let bytes = STANDARD.decode(&self.blocks).unwrap_or_default();
        bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
    }
}

fn failed(action: &'static str, path: &Path, source: std::io::Error) -> EngineError {
    EngineError::Path { action, path: path.display().to_string(), source }
}
