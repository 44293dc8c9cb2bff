//! Capabilities of engines. No other part of the crate checks the kind of an engine.

use crate::plan::EnginePlan;

/// Capabilities of an engine that follow from the plan alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent capabilities")]
pub(crate) struct Capabilities {
    /// Its files, if it has any, are on this machine.
    pub(crate) local: bool,
    /// An operation has completed when `submit` returns.
    pub(crate) immediate: bool,
    pub(crate) can_trim: bool,
    /// Creates, opens, renames and removes files and directories.
    pub(crate) does_metadata: bool,
    /// A write behind the end of a file extends the file.
    pub(crate) can_grow: bool,
    /// Operations move data from and to files.
    pub(crate) moves_data: bool,
    /// Data that are read are copied to the worker's buffers.
    pub(crate) keeps_payload: bool,
}

impl Capabilities {
    /// Reads, or those that the loop inspects, fill the worker's buffers.
    pub(crate) fn fills_reads(self) -> bool {
        self.moves_data && !self.does_metadata && (self.keeps_payload || !self.local)
    }
}

/// The capabilities of the engine that a plan names.
pub(crate) fn capabilities(engine: &EnginePlan) -> Capabilities {
    let kernel = Capabilities {
        local: true,
        immediate: false,
        can_trim: true,
        does_metadata: false,
        can_grow: true,
        moves_data: true,
        keeps_payload: true,
    };
    match engine {
        EnginePlan::Null {} => Capabilities { immediate: true, moves_data: false, ..kernel },
        EnginePlan::Sync { .. } => Capabilities { immediate: true, ..kernel },
        EnginePlan::Aio { .. } | EnginePlan::Uring { .. } => kernel,
        EnginePlan::Mmap { .. } => Capabilities { immediate: true, can_grow: false, ..kernel },
        EnginePlan::Space { .. } => Capabilities { immediate: true, keeps_payload: false, ..kernel },
        EnginePlan::Metadata { .. } => Capabilities { can_trim: false, does_metadata: true, ..kernel },
        EnginePlan::NfsMetadata { mount, .. } => {
            let keeps_payload = mount.keep_payload;
            Capabilities { local: false, can_trim: false, does_metadata: true, keeps_payload, ..kernel }
        }
        // NFSv3 has no trim.
        EnginePlan::Nfs { mount } => {
            Capabilities { local: false, can_trim: false, keeps_payload: mount.keep_payload, ..kernel }
        }
    }
}
