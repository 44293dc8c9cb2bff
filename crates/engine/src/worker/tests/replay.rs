//! Replay of recorded operations.

use super::*;
use crate::plan::ReplayPlan;

/// Due time in ms, offset, bytes, file, number of the kind.
type Row = (u64, u64, u32, u32, u32);

const ROWS: [Row; 4] =
    [(0, 8192, 4096, 0, 0), (20, 0, 512, 1, 1), (20, 4096, 512, 0, 1), (45, 0, 0, 1, OperationKind::Fsync as u32)];

fn replaying(name: &str, rows: &[Row], records: u64, paced: bool) -> Worker {
    let path = std::env::temp_dir().join(format!("iocurve-replay-{name}-{}", std::process::id()));
    let record = |&(due, offset, bytes, file, kind): &Row| {
        let numbers = [bytes, file, kind, 0].map(u32::to_le_bytes).concat();
        [(due * MS).to_le_bytes().to_vec(), offset.to_le_bytes().to_vec(), numbers].concat()
    };
    std::fs::write(&path, rows.iter().flat_map(record).collect::<Vec<u8>>()).unwrap();
    let kinds = [OperationKind::Read, OperationKind::Write, OperationKind::Fsync];
    Worker {
        files: vec![file("a", 1 << 20), file("b", 1 << 20)],
        operations: kinds.map(|kind| operation(kind, 4096)).to_vec(),
        replay: Some(ReplayPlan { path: path.display().to_string(), records, paced }),
        end: End { runtime_ns: None, bytes: None, operations: None, when_full: false },
        ..worker()
    }
}

/// Each operation takes 1 ms.
fn simulate_replay(name: &str, rows: &[Row], records: u64, paced: bool) -> Simulation {
    let plan = replaying(name, rows, records, paced);
    let ran = simulate(&plan, MS);
    std::fs::remove_file(plan.replay.unwrap().path).unwrap();
    ran
}

fn asked(ran: &Simulation) -> Vec<(OperationKind, u32, u64, u32)> {
    ran.requests
        .iter()
        .map(|request| (request.kind, request.address.file, request.address.offset, request.address.length))
        .collect()
}

#[test]
fn recorded_operations_run_when_they_are_due() {
    let ran = simulate_replay("due", &ROWS, 4, true);
    let expected = [
        (OperationKind::Read, 0, 8192, 4096),
        (OperationKind::Write, 1, 0, 512),
        (OperationKind::Write, 0, 4096, 512),
        (OperationKind::Fsync, 1, 0, 0),
    ];
    assert_eq!(asked(&ran), expected);
    assert_eq!((ran.ended.state, ran.times_ms()), (State::Finished, vec![0., 20., 21., 45.]));
    assert_eq!((ran.kinds["write"].operations, ran.kinds["fsync"].operations, ran.kinds["fsync"].short), (2, 1, 0));
    assert!(ran.kinds["read"].response.is_some());
}

#[test]
fn without_pauses_it_goes_as_fast_as_it_can_and_as_far_as_it_is_told() {
    let ran = simulate_replay("fast", &ROWS, 2, false);
    assert_eq!((ran.requests.len(), ran.times_ms()[0]), (2, 0.));
    assert!(ran.times_ms()[1] < 20. && ran.kinds["read"].response.is_none());
}

#[test]
fn records_that_end_early_or_do_not_fit_end_the_worker() {
    let failure = |name: &str, rows: &[Row], records| {
        let ran = simulate_replay(name, rows, records, true);
        (ran.requests.len(), ran.ended.state, ran.ended.error.unwrap().to_string())
    };
    let (done, state, text) = failure("short", &ROWS[..1], 2);
    assert_eq!((done, state), (1, State::Failed));
    assert!(text.contains("failed to fill whole buffer"), "{text}");
    for (name, row) in [("kind", (0, 0, 1, 0, 2)), ("large", (0, 0, 4097, 0, 0)), ("file", (0, 0, 1, 2, 0))] {
        let (done, state, text) = failure(name, &[ROWS[0], row], 2);
        assert_eq!((done, state), (1, State::Failed));
        assert!(text.ends_with("record 1 is not an operation of this worker"), "{text}");
    }
}
