//! Block devices: their logical blocks, and their users.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

use crate::error::{EngineError, TargetError};

/// Refuses a block device that is mounted, or that another device is built on.
pub(super) fn refuse_device_in_use(path: &str) -> Result<(), EngineError> {
    let Ok(metadata) = fs::metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_block_device() {
        return Ok(());
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let devices = with_partitions(metadata.rdev());
    let user = devices.iter().find_map(|device| mount_of(&mounts, device).or_else(|| holder_of(device)));
    match user {
        Some(user) => Err(TargetError::InUse { path: path.to_owned(), user }.into()),
        None => Ok(()),
    }
}

/// A device and its partitions, as `major:minor`.
fn with_partitions(device: u64) -> Vec<String> {
    let entries = fs::read_dir(device_directory(device)).into_iter().flatten().flatten();
    let partitions = entries.filter(|entry| entry.path().join("partition").exists());
    let numbers = partitions.filter_map(|entry| fs::read_to_string(entry.path().join("dev")).ok());
    std::iter::once(device_number(device)).chain(numbers.map(|number| number.trim().to_owned())).collect()
}

/// The mount of a device, from the text of `/proc/self/mountinfo` (proc(5): the third field is `major:minor`).
fn mount_of(mounts: &str, device: &str) -> Option<String> {
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    fields.into_iter().find(|fields| fields.get(2) == Some(&device)).map(|fields| format!("the mount at {}", fields[4]))
}

/// The device built on top of this one (a volume group, a RAID array).
fn holder_of(device: &str) -> Option<String> {
    let mut holders = fs::read_dir(format!("/sys/dev/block/{device}/holders")).ok()?.flatten();
    holders.next().map(|holder| format!("the device {}", holder.file_name().display()))
}

fn device_directory(device: u64) -> PathBuf {
    // The link is resolved so that `..` from a partition leads to its disk.
    let link = PathBuf::from(format!("/sys/dev/block/{}", device_number(device)));
    fs::canonicalize(&link).unwrap_or(link)
}

fn device_number(device: u64) -> String {
    format!("{}:{}", libc::major(device), libc::minor(device))
}

pub(super) fn logical_block_bytes(device: u64) -> Option<u64> {
    let directory = device_directory(device);
    // A partition has no separate queue.
    let queue = [directory.join("queue"), directory.join("../queue")].into_iter().find(|path| path.exists())?;
    fs::read_to_string(queue.join("logical_block_size")).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_device_number() {
        let mounts = "21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n22 21 0:20 / /proc rw - proc proc rw\n";
        assert_eq!(mount_of(mounts, "254:0"), Some("the mount at /".to_owned()));
        assert_eq!(mount_of(mounts, "254:1"), None);
        assert_eq!(mount_of(mounts, "0:2"), None);
    }
}
