//! Stability of what was written: which files must be committed, and whether the server may have lost data.

use iocurve_wire::client_fast::WriteResult;
use iocurve_wire::nfs3::stable_how;

/// Written data that the server may hold in memory only.
#[derive(Debug)]
pub(in crate::engines::nfs) struct Commits {
    /// By file: `true` if the server may hold some of its data in memory only.
    unstable: Vec<bool>,
    unstable_files: Vec<u32>,
    /// The stability that WRITEs ask for.
    requested: stable_how,
    verifier: Option<[u8; 8]>,
    /// Changes of the server's write verifier: at each it may have lost data that it had accepted.
    pub verifier_changes: u64,
    /// A COMMIT that failed: file and status.
    pub failure: Option<(u32, u32)>,
    /// The file of a WRITE that the server made less stable than requested.
    pub less_stable: Option<u32>,
}

impl Commits {
    pub(super) fn new(files: usize, requested: stable_how) -> Self {
        Self {
            unstable: vec![false; files],
            unstable_files: Vec::new(),
            requested,
            verifier: None,
            verifier_changes: 0,
            failure: None,
            less_stable: None,
        }
    }

    /// Number of files.
    pub(super) fn files(&self) -> usize {
        self.unstable.len()
    }

    /// Takes up further files.
    pub(super) fn grow(&mut self, files: usize) {
        if self.unstable.len() < files {
            self.unstable.resize(files, false);
        }
    }

    /// Returns `true` if a file has data that the server may hold in memory only, and counts them as committed.
    pub(in crate::engines::nfs) fn take(&mut self, file: u32) -> bool {
        if !std::mem::take(&mut self.unstable[file as usize]) {
            return false;
        }
        self.unstable_files.retain(|&other| other != file);
        true
    }

    /// The next file that must be committed; it counts as committed.
    pub(super) fn next(&mut self) -> Option<u32> {
        let file = self.unstable_files.pop()?;
        self.unstable[file as usize] = false;
        Some(file)
    }

    /// Takes note of a WRITE that succeeded.
    pub(super) fn written(&mut self, file: u32, result: &WriteResult) {
        if result.committed < self.requested as u32 {
            self.less_stable = Some(file);
        }
        if result.committed != stable_how::UNSTABLE as u32 {
            return;
        }
        if !self.unstable[file as usize] {
            self.unstable[file as usize] = true;
            self.unstable_files.push(file);
        }
        self.note_verifier(result.verifier);
    }

    /// Takes note of the verifier in a reply.
    pub(super) fn note_verifier(&mut self, verifier: [u8; 8]) {
        if self.verifier.is_some_and(|known| known != verifier) {
            self.verifier_changes += 1;
        }
        self.verifier = Some(verifier);
    }
}
