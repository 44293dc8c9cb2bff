//! The simplest plan. Tests start from it and change what they need.

use super::{
    Access, AtEnd, Batch, Blocks, Content, Cover, Distribution, End, EndsOthers, EnginePlan, FilePlan, FileSelect,
    Layout, OperationKind, OperationPlan, Passes, Payload, Position, Renew, Worker,
};

pub(crate) fn file(path: &str, bytes: u64) -> FilePlan {
    FilePlan { path: path.into(), offset_bytes: 0, bytes, start_bytes: 0, layout: Layout::Existing, keep: true }
}

pub(crate) fn operation(kind: OperationKind, block_bytes: u32) -> OperationPlan {
    OperationPlan {
        kind,
        share: 1,
        blocks: Blocks::Fixed { bytes: block_bytes },
        align_bytes: 0,
        random_percent: 0,
        distribution: Distribution::Uniform {},
        rate: None,
    }
}

/// A worker that reads 1 MiB sequentially in blocks of 4 KiB on the null engine.
pub(crate) fn worker() -> Worker {
    Worker {
        job: "job".into(),
        jobnum: 0,
        report_group: 0,
        engine: EnginePlan::Null {},
        disk: None,
        files: vec![file("f", 1 << 20)],
        file_select: FileSelect::RoundRobin,
        file_run: 1,
        operations: vec![operation(OperationKind::Read, 4096)],
        access: Access {
            cover: Cover::Once,
            passes: Passes::Same,
            run_length: 1,
            gap_bytes: 0,
            gap_spread_bytes: 0,
            at_end: AtEnd::Wrap,
            position: Position::Kind,
            strided: None,
            short_last_block: false,
        },
        depth: 1,
        batch: Batch { submit: 0, complete_min: 1, complete_max: 0, low: 0 },
        rate: None,
        response_limit_ns: None,
        intervals_singly: None,
        think: None,
        syncs: Vec::new(),
        replay: None,
        tree: None,
        sync_at_end: false,
        flow: None,
        wait_for: Vec::new(),
        start_delay_ns: 0,
        ramp_ns: 0,
        tolerates: Vec::new(),
        whole_transfers: false,
        end: End { runtime_ns: None, bytes: None, operations: None, when_full: false },
        cooldown_ns: 0,
        ends_others: EndsOthers::Never,
        ends_run: false,
        ends_exit_group_only: false,
        exit_group: 0,
        client: 0,
        latency_target: None,
        steady_state: None,
        seed: 1,
        payload: Payload {
            content: Content::Zero {},
            renew: Renew::Keep,
            compress_percent: 0,
            compress_chunk_bytes: 0,
            dedupe_percent: 0,
            dedupe_set_blocks: 0,
        },
        verify: None,
        log: None,
        submission_latency: false,
        cpus: Vec::new(),
    }
}
