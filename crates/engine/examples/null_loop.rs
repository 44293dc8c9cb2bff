//! Runs one of several loads for a fixed number of operations, so that a tool can count the instructions of the worker
//! loop.
//!
//! `cargo run --release --example null_loop -- ROW OPERATIONS [FILE]` runs the row and prints the operations it completed;
//! without arguments it lists the rows. The row `sync` reads FILE, which is created with 16 MiB if it is missing; all
//! other rows run on the null engine. `python -m bench.instructions` runs it under callgrind.
//!
//! No row waits: the loops are never idle, and an interval is longer than any run. So the number of instructions
//! depends on the number of operations alone.

use std::time::Duration;

use iocurve_engine::plan::Plan;
use iocurve_engine::{EngineError, Run};
use serde_json::{Value, json};

type Change = fn(&mut Value);

/// Name of each row, and its change to the plain random read of [`plain`].
const ROWS: [(&str, Change); 8] = [
    ("randread", |_| {}),
    ("randwrite", |worker| worker["operations"] = json!([operation("write", 1)])),
    ("mixed", |worker| worker["operations"] = json!([operation("read", 70), operation("write", 30)])),
    ("paced", |worker| worker["rate"] = json!({"unit": "operations", "count": 1, "per_ns": 1, "arrivals": "even"})),
    ("bssplit-zipf", |worker| {
        worker["operations"][0]["blocks"] =
            json!({"kind": "split", "parts": [{"bytes": 4096, "weight": 60}, {"bytes": 65536, "weight": 40}]});
        worker["operations"][0]["distribution"] = json!({"kind": "zipf", "theta": 1.1, "center": null});
    }),
    ("batched", |worker| {
        worker["batch"] = json!({"submit": 8, "complete_min": 8, "complete_max": 8, "low": 16});
    }),
    ("verify", |worker| {
        worker["operations"] = json!([operation("write", 1)]);
        worker["operations"][0]["blocks"] = json!({"kind": "fixed", "bytes": 512});
        worker["payload"]["content"] = json!({"kind": "zero"});
        worker["verify"] = json!({
            "method": "header", "interval_bytes": 0, "header_offset": 0, "pattern": "", "read_back": true,
            "pass_bytes": null, "backlog": 1024, "backlog_batch": 0, "only": false, "fatal": true, "dump": false,
            "map": null,
        });
    }),
    ("sync", |worker| {
        worker["engine"] = json!({
            "kind": "sync", "open": {"direct": false, "durability": "none", "invalidate": false},
        });
        worker["files"][0]["layout"] = json!("fill");
        worker["files"][0]["bytes"] = json!(16 << 20);
    }),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.as_slice() {
        [] => {
            for (name, _) in ROWS {
                println!("{name}");
            }
            Ok(())
        }
        [row, operations, file @ ..] => run(row, operations, file.first().map_or("null", String::as_str)),
        _ => Err(usage()),
    };
    if let Err(error) = result {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(row: &str, operations: &str, file: &str) -> Result<(), EngineError> {
    let operations: u64 = operations.parse().map_err(|_| usage())?;
    let (_, change) = ROWS.iter().find(|(name, _)| *name == row).ok_or_else(usage)?;
    let mut worker = plain(operations, file);
    change(&mut worker);
    let hour = 3_600_000_000_000_u64;
    let plan = json!({"version": 2, "name": row, "interval_ns": hour, "groups": [{"workers": [worker]}]});
    let plan: Plan = serde_json::from_value(plan).map_err(|error| EngineError::Plan(error.to_string()))?;
    let run = Run::start(plan)?;
    let outcome = loop {
        if let Some(outcome) = run.wait(Duration::from_secs(3600)) {
            break outcome?;
        }
    };
    let worker = &outcome.workers[0];
    if let Some(error) = &worker.error {
        return Err(EngineError::Plan(error.clone()));
    }
    println!("{}", worker.operations.values().map(|kind| kind.operations).sum::<u64>());
    Ok(())
}

/// A worker that reads 4 KiB blocks of 1 GiB at random with 32 in flight.
fn plain(operations: u64, file: &str) -> Value {
    json!({
        "job": "job", "jobnum": 0, "report_group": 0,
        "engine": {"kind": "null"}, "disk": null,
        "files": [{
            "path": file, "offset_bytes": 0, "bytes": 1_u64 << 30, "start_bytes": 0, "layout": "existing", "keep": true,
        }],
        "file_select": "round_robin", "file_run": 1,
        "operations": [operation("read", 1)],
        "access": {
            "cover": "once", "passes": "fresh", "run_length": 1, "gap_bytes": 0, "gap_spread_bytes": 0,
            "at_end": "wrap", "position": "kind", "strided": null, "short_last_block": false,
        },
        "depth": 32, "batch": {"submit": 0, "complete_min": 1, "complete_max": 0, "low": 0},
        "rate": null, "think": null, "intervals_singly": null, "syncs": [], "sync_at_end": false, "replay": null, "flow": null,
        "wait_for": [], "start_delay_ns": 0, "ramp_ns": 0,
        "end": {"runtime_ns": null, "bytes": null, "operations": operations, "when_full": false},
        "tolerates": [], "whole_transfers": false, "cooldown_ns": 0, "ends_others": "never", "ends_run": false, "ends_exit_group_only": false, "exit_group": 0, "client": 0,
        "latency_target": null, "steady_state": null, "seed": 1,
        "payload": {
            "content": {"kind": "random"}, "renew": "scramble",
            "compress_percent": 0, "compress_chunk_bytes": 0, "dedupe_percent": 0, "dedupe_set_blocks": 0,
        },
        "tree": null, "response_limit_ns": null, "verify": null, "log": null, "submission_latency": false, "cpus": [],
    })
}

fn operation(kind: &str, share: u32) -> Value {
    json!({
        "kind": kind, "share": share, "blocks": {"kind": "fixed", "bytes": 4096}, "align_bytes": 0,
        "random_percent": 100, "distribution": {"kind": "uniform"}, "rate": null,
    })
}

fn usage() -> EngineError {
    let names: Vec<&str> = ROWS.iter().map(|(name, _)| *name).collect();
    EngineError::Plan(format!("usage: null_loop ROW OPERATIONS [FILE]; rows: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_runs() {
        let file = std::env::temp_dir().join(format!("null-loop-{}", std::process::id()));
        for (row, _) in ROWS {
            run(row, "64", &file.to_string_lossy()).unwrap();
        }
        std::fs::remove_file(file).unwrap();
    }
}
