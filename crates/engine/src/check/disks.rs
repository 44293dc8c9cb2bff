//! Checks of emulated disks.

use std::collections::BTreeMap;

use crate::engines::capabilities;
use crate::error::EngineError;
use crate::plan::{DiskPlan, HostCache, IoLimits, Plan, VmPlan, Worker};

/// Checks the disks of a plan, one by one and against each other.
pub(super) fn check(plan: &Plan) -> Result<(), EngineError> {
    let mut disks: BTreeMap<&str, &DiskPlan> = BTreeMap::new();
    let mut vms: BTreeMap<&str, &VmPlan> = BTreeMap::new();
    for worker in plan.groups.iter().flat_map(|group| &group.workers) {
        let Some(disk) = &worker.disk else { continue };
        if let Some(what) = wrong(worker, disk) {
            return Err(EngineError::Plan(format!("{}: {}: {what}", worker.job, disk.name)));
        }
        if *disks.entry(&disk.state_path).or_insert(disk) != disk {
            return Err(differ("disks are", &disk.state_path));
        }
        if let Some(vm) = &disk.vm
            && *vms.entry(&vm.name).or_insert(vm) != vm
        {
            return Err(differ("virtual machines are", &vm.name));
        }
    }
    Ok(())
}

fn differ(what: &str, name: &str) -> EngineError {
    EngineError::Plan(format!("two {what} named {name} but differ; give them the same settings or different names"))
}

fn wrong(worker: &Worker, disk: &DiskPlan) -> Option<&'static str> {
    if !capabilities(&worker.engine).local {
        return Some("an emulated disk is for local files, not for NFS");
    }
    if disk.io_bytes == 0 {
        return Some("io_bytes, the largest operation that counts as one I/O, must be above 0");
    }
    let vm = disk.vm.as_ref();
    let limits = [Some(disk.limits), vm.and_then(|vm| vm.uncached), vm.and_then(|vm| vm.cached)];
    if limits.into_iter().flatten().any(|limits| limits.iops == 0 || limits.bytes_per_s == 0) {
        return Some("limits must be above 0");
    }
    if limits.into_iter().flatten().any(bursts_below) {
        return Some("burst limits must not be below the base limits");
    }
    let has_cache = vm.is_some_and(|vm| vm.cached.is_some() && vm.cache_bytes > 0);
    (disk.cache != HostCache::None && !has_cache)
        .then_some("a host cache needs a virtual machine with a cache and cached limits")
}

fn bursts_below(limits: IoLimits) -> bool {
    limits.burst.is_some_and(|burst| burst.iops < limits.iops || burst.bytes_per_s < limits.bytes_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{disk, worker};
    use crate::plan::{Group, IoBurst};

    fn refusal(disks: Vec<DiskPlan>) -> String {
        let workers = disks.into_iter().map(|disk| Worker { disk: Some(disk), ..worker() }).collect();
        let groups = vec![Group { workers }];
        let plan = Plan { version: 2, name: "t".into(), interval_ns: 1_000_000_000, groups };
        check(&plan).err().map(|error| error.to_string()).unwrap_or_default()
    }

    fn limits(iops: u64, burst: Option<u64>) -> IoLimits {
        let burst = burst.map(|iops| IoBurst { iops, bytes_per_s: 1, duration_ns: 1 });
        IoLimits { iops, bytes_per_s: 1, burst }
    }

    fn vm(cached: Option<IoLimits>, cache_bytes: u64) -> VmPlan {
        VmPlan { name: "vm".into(), uncached: None, cached, cache_bytes }
    }

    #[test]
    fn a_disk_that_cannot_be_is_refused() {
        assert_eq!(refusal(vec![disk()]), "");
        assert_eq!(refusal(vec![DiskPlan { limits: limits(0, None), ..disk() }]), "job: disk: limits must be above 0");
        assert_eq!(refusal(vec![DiskPlan { limits: limits(2, Some(2)), ..disk() }]), "");
        assert_eq!(
            refusal(vec![DiskPlan { limits: limits(2, Some(1)), ..disk() }]),
            "job: disk: burst limits must not be below the base limits"
        );
        assert_eq!(
            refusal(vec![DiskPlan { vm: Some(vm(Some(limits(0, None)), 1)), ..disk() }]),
            "job: disk: limits must be above 0"
        );
        assert_eq!(
            refusal(vec![DiskPlan { io_bytes: 0, ..disk() }]),
            "job: disk: io_bytes, the largest operation that counts as one I/O, must be above 0"
        );
    }

    #[test]
    fn a_cache_is_a_virtual_machines() {
        let cached = |vm| refusal(vec![DiskPlan { cache: HostCache::ReadOnly, vm, ..disk() }]);
        let text = "job: disk: a host cache needs a virtual machine with a cache and cached limits";
        assert_eq!(cached(None), text);
        assert_eq!(cached(Some(vm(None, 1))), text);
        assert_eq!(cached(Some(vm(Some(limits(1, None)), 0))), text);
        assert_eq!(cached(Some(vm(Some(limits(1, None)), 1))), "");
    }

    #[test]
    fn one_disk_and_one_machine_are_described_in_one_way() {
        let other = DiskPlan { limits: limits(7, None), ..disk() };
        assert_eq!(
            refusal(vec![disk(), other.clone()]),
            "two disks are named state but differ; give them the same settings or different names"
        );
        assert_eq!(refusal(vec![disk(), DiskPlan { state_path: "b".into(), ..other.clone() }]), "");
        let attached = |state: &str, bytes| DiskPlan { state_path: state.into(), vm: Some(vm(None, bytes)), ..disk() };
        assert_eq!(refusal(vec![attached("a", 1), attached("b", 1)]), "");
        assert_eq!(
            refusal(vec![attached("a", 1), attached("b", 2)]),
            "two virtual machines are named vm but differ; give them the same settings or different names"
        );
    }
}
