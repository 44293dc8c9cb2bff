//! Alignment of direct I/O: block sizes and offsets.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::device::logical_block_bytes;
use crate::error::{EngineError, TargetError};
use crate::plan::{FileOpen, FilePlan, OperationPlan};

/// Checks that direct I/O is possible with these block sizes and regions.
///
/// The files must exist, so this comes after the layout.
pub(crate) fn check_direct_blocks(
    open: &FileOpen,
    files: &[FilePlan],
    operations: &[OperationPlan],
) -> Result<(), EngineError> {
    if !open.direct {
        return Ok(());
    }
    for file in files {
        let multiple = direct_multiple(Path::new(&file.path))?;
        for operation in operations {
            let what = format!("the {} block size", operation.kind.name());
            check_multiple(&what, u64::from(operation.blocks.smallest()), multiple, &file.path)?;
        }
        check_multiple("the region's offset", file.offset_bytes, multiple, &file.path)?;
    }
    Ok(())
}

pub(super) fn no_direct(path: &str) -> EngineError {
    TargetError::NoDirect { path: path.to_owned() }.into()
}

/// Multiple that offsets and lengths of direct I/O on this file must have.
///
/// Linux reports it since 6.1; before, it is the device's logical block size. A file system with neither (a network
/// file system) sets none.
fn direct_multiple(path: &Path) -> Result<u64, EngineError> {
    let failed = |source| EngineError::Path { action: "look at", path: path.display().to_string(), source };
    match statx_offset_align(path).map_err(failed)? {
        Some(0) => Err(no_direct(&path.display().to_string())),
        Some(multiple) => Ok(u64::from(multiple)),
        None => {
            let metadata = fs::metadata(path).map_err(failed)?;
            let device = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
            Ok(logical_block_bytes(device).unwrap_or(1))
        }
    }
}

fn statx_offset_align(path: &Path) -> io::Result<Option<u32>> {
    let name = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: all zeros is a valid `statx`.
    let mut status: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: `name` ends with a zero byte and `status` is writable.
    let code = unsafe { libc::statx(libc::AT_FDCWD, name.as_ptr(), 0, libc::STATX_DIOALIGN, &raw mut status) };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((status.stx_mask & libc::STATX_DIOALIGN != 0).then_some(status.stx_dio_offset_align))
}

fn check_multiple(what: &str, value: u64, multiple: u64, path: &str) -> Result<(), EngineError> {
    if value.is_multiple_of(multiple) {
        return Ok(());
    }
    Err(TargetError::Unaligned { what: what.to_owned(), value, multiple, path: path.to_owned() }.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::testing::{Scratch, open};
    use crate::plan::OperationKind;
    use crate::plan::tests::{file, operation};

    #[test]
    fn a_block_size_that_direct_io_cannot_do_is_named_with_the_multiple() {
        let scratch = Scratch::with_file("multiple", 8192);
        let Ok(multiple) = direct_multiple(Path::new(scratch.path())) else { return };
        let path = scratch.path();
        let check = |direct, offset_bytes, block| {
            let region = FilePlan { offset_bytes, ..file(path, 4096) };
            check_direct_blocks(&open(direct), &[region], &[operation(OperationKind::Read, block)])
        };
        check(true, 0, 4096).unwrap();
        check(false, 1, 1001).unwrap();
        if multiple > 1 {
            assert_eq!(
                check(true, 0, 4097).unwrap_err().to_string(),
                format!(
                    "the read block size of 4097 bytes is not a multiple of {multiple} bytes, which direct I/O on {path} needs; use a multiple of {multiple} or switch direct I/O off"
                )
            );
            assert!(check(true, 1, 4096).unwrap_err().to_string().starts_with("the region's offset of 1 bytes"));
        }
    }
}
