//! Whole minutes under limits are simulated: clients with so many operations in flight, under a clock that the test holds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use iocurve_meter::SECOND;

use super::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Someone who always has the same number of operations in flight, on one connection.
#[derive(Debug, Clone)]
struct Load {
    client: Key,
    connection: Key,
    in_flight: usize,
    /// The blocks that are read and written in turn.
    blocks: Vec<(bool, u64)>,
}

/// Measurements of a load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Outcome {
    operations: u64,
    bytes: u64,
    latency_ns_max: Nanos,
    latency_ns_sum: u128,
}

fn load(client: Key, in_flight: usize, bytes: u64) -> Load {
    Load { client, connection: client * 100, in_flight, blocks: vec![(false, bytes)] }
}

/// Loads that meet limits.
struct Simulation {
    qos: Qos<(usize, Nanos)>,
    loads: Vec<Load>,
    outcomes: Vec<Outcome>,
    next_block: Vec<usize>,
    /// Operations that are due: when, whose, when they were asked for, which block.
    due: BinaryHeap<Reverse<(Nanos, usize, Nanos)>>,
    in_flight: Vec<std::collections::VecDeque<u64>>,
    now: Nanos,
}

impl Simulation {
    fn new(limits: Limits, loads: &[Load]) -> Self {
        assert_eq!(limits.check(), Ok(()));
        let count = loads.len();
        let mut simulation = Self {
            qos: Qos::new(limits, 0),
            loads: loads.to_vec(),
            outcomes: vec![Outcome::default(); count],
            next_block: vec![0; count],
            due: BinaryHeap::new(),
            in_flight: vec![std::collections::VecDeque::new(); count],
            now: 0,
        };
        for load in 0..count {
            (0..simulation.loads[load].in_flight).for_each(|_| simulation.ask(load));
        }
        simulation
    }

    fn ask(&mut self, number: usize) {
        let load = &self.loads[number];
        let (is_write, bytes) = load.blocks[self.next_block[number] % load.blocks.len()];
        self.next_block[number] += 1;
        self.in_flight[number].push_back(bytes);
        let path = [load.client, load.connection];
        let request = Request { path, is_write, bytes, is_hit: false, item: (number, self.now) };
        admit(&mut self.qos, self.now, request, |due, (number, asked)| self.due.push(Reverse((due, number, asked))));
    }

    /// Goes on until `end`; every operation that is answered is followed by another one.
    fn run(&mut self, end: Nanos) {
        loop {
            let due = self.due.peek().map(|due| due.0.0);
            let Some(next) = due.into_iter().chain(self.qos.next()).min().filter(|next| *next <= end) else { break };
            self.now = next;
            self.qos.advance(next, |due, (number, asked)| self.due.push(Reverse((due, number, asked))));
            while let Some(Reverse((_, number, asked))) = self.due.pop_if_due(self.now) {
                self.answered(number, asked);
                self.ask(number);
            }
        }
        self.now = end;
    }

    fn answered(&mut self, number: usize, asked: Nanos) {
        let outcome = &mut self.outcomes[number];
        outcome.operations += 1;
        outcome.bytes += self.in_flight[number].pop_front().unwrap();
        outcome.latency_ns_max = outcome.latency_ns_max.max(self.now - asked);
        outcome.latency_ns_sum += u128::from(self.now - asked);
    }

    fn total(&self) -> Outcome {
        self.outcomes.iter().fold(Outcome::default(), |sum, outcome| Outcome {
            operations: sum.operations + outcome.operations,
            bytes: sum.bytes + outcome.bytes,
            ..Outcome::default()
        })
    }
}

/// Admits an operation, and releases it if it need not wait.
fn admit<T>(qos: &mut Qos<T>, now: Nanos, request: Request<T>, mut release: impl FnMut(Nanos, T)) {
    let Request { path, is_write, bytes, is_hit, item } = request;
    let mut item = Some(item);
    let due =
        qos.admit(now, &Request { path, is_write, bytes, is_hit, item: () }, || item.take().unwrap(), &mut release);
    if let Some(due) = due {
        release(due, item.unwrap());
    }
}

trait PopIfDue {
    fn pop_if_due(&mut self, now: Nanos) -> Option<Reverse<(Nanos, usize, Nanos)>>;
}

impl PopIfDue for BinaryHeap<Reverse<(Nanos, usize, Nanos)>> {
    fn pop_if_due(&mut self, now: Nanos) -> Option<Reverse<(Nanos, usize, Nanos)>> {
        self.peek().filter(|due| due.0.0 <= now)?;
        self.pop()
    }
}

fn run(limits: Limits, loads: &[Load], seconds: u64) -> Vec<Outcome> {
    let mut simulation = Simulation::new(limits, loads);
    simulation.run(seconds * SECOND);
    simulation.outcomes
}

/// Answer times of these READs and WRITEs, all of which arrive at 0 on one connection.
fn answered(limits: Limits, operations: &[(bool, u64)]) -> Vec<Nanos> {
    let mut qos = Qos::new(limits, 0);
    let mut answered = vec![Nanos::MAX; operations.len()];
    for (number, &(is_write, bytes)) in operations.iter().enumerate() {
        admit(&mut qos, 0, Request { path: [1, 1], is_write, bytes, is_hit: false, item: number }, |due, number| {
            answered[number] = due;
        });
    }
    qos.advance(1000 * SECOND, |due, number| answered[number] = due);
    answered
}

fn assert_within(percent: f64, actual: u64, expected: u64) {
    let ratio = actual as f64 / expected as f64;
    assert!((ratio - 1.0).abs() <= percent / 100.0, "{actual} instead of {expected}: {ratio}");
}

#[test]
fn throughput_is_exact_to_the_nanosecond() {
    let limits = Limits::of([Cap::bytes_per_s(64 * MIB)]);
    // An idle export may catch up on 1 MiB; each further MiB is due 1/64 s after the one before.
    let expected: Vec<_> = (0..65).map(|n| n * SECOND / 64).collect();
    assert_eq!(answered(limits, &[(false, MIB); 65]), expected);
}

#[test]
fn the_tightest_limit_decides_and_latency_comes_on_top() {
    let latency = Latency::constant(7);
    let limits = Limits { latency, ..Limits::of([Cap::bytes_per_s(6400), Cap::iops(64)]) };
    let waits = [0, SECOND / 64, SECOND * 6 / 64];
    assert_eq!(answered(limits, &[(false, 100), (true, 10), (false, 590)]), waits.map(|wait| wait + 7));
}

#[test]
fn reads_and_writes_have_limits_of_their_own_and_do_not_wait_for_each_other() {
    let each = [Cap::iops(10).of(Kind::Read), Cap::iops(100).of(Kind::Write)];
    let mixed = [(false, 1), (false, 1), (true, 1), (true, 1), (false, 1), (true, 1)];
    let ms = 1_000_000;
    assert_eq!(answered(Limits::of(each), &mixed), [0, 100 * ms, 0, 10 * ms, 200 * ms, 20 * ms]);
    // Together they have yet another one.
    let limits = Limits::of([Cap::iops(50), each[0], each[1]]);
    assert_eq!(answered(limits, &mixed), [0, 100 * ms, 20 * ms, 40 * ms, 200 * ms, 60 * ms]);
}

#[test]
fn each_kind_has_a_throughput_of_its_own() {
    let limits = Limits::of([Cap::bytes_per_s(6400).of(Kind::Read), Cap::bytes_per_s(64).of(Kind::Write)]);
    assert_eq!(answered(limits, &[(false, 6500), (true, 65)]), [SECOND, SECOND]);
}

#[test]
fn a_server_works_on_so_many_at_once() {
    let parallelism = Some(Parallelism::new(2, 100));
    let limits = Limits { parallelism, latency: Latency::constant(1000), ..Limits::default() };
    assert_eq!(answered(limits, &[(false, 1); 5]), [1100, 1100, 1200, 1200, 1300]);
}

#[test]
fn a_connection_has_its_own_bandwidth_and_leaves_the_rest_to_others() {
    let limits = Limits::of([Cap::bytes_per_s(10 * MIB), Cap::bytes_per_s(MIB).each(Scope::Connection)]);
    let loads = [load(1, 16, 64 * KIB), load(2, 16, 64 * KIB)];
    for outcome in run(limits, &loads, 60) {
        assert_within(1.0, outcome.bytes, 60 * MIB);
    }
}

#[test]
fn a_burst_lasts_as_long_as_its_credits() {
    // 1,000 IOPS, and 3,000 while 20,000 credits last: 10 s.
    let limits = Limits::of([Cap::iops(1000).bursting(3000, 20_000)]);
    let mut simulation = Simulation::new(limits, &[load(1, 64, 4096)]);
    let mut last = 0;
    let mut rates = Vec::new();
    for second in 1..=12 {
        simulation.run(second * SECOND);
        let operations = simulation.total().operations;
        rates.push(operations - last);
        last = operations;
    }
    for (second, rate) in rates.iter().enumerate() {
        assert_within(2.0, *rate, if second < 10 { 3000 } else { 1000 });
    }
    assert_eq!(simulation.qos.credits(12 * SECOND), Some(0));
    // Resting for 5 s earns 1,000 credits a second, less what is in flight.
    assert_within(2.0, simulation.qos.credits(17 * SECOND).unwrap(), 5000);
}

#[test]
fn a_burst_of_bytes_lasts_as_long_as_its_credits() {
    // 100 MiB/s, and 300 MiB/s while 2,000 MiB of credits last: 10 s. Operations have no credits.
    let limits = Limits::of([Cap::bytes_per_s(100 * MIB).bursting(300 * MIB, 2000 * MIB)]);
    let mut simulation = Simulation::new(limits, &[load(1, 8, MIB)]);
    let mut last = 0;
    for second in 1..=12 {
        simulation.run(second * SECOND);
        let bytes = simulation.total().bytes;
        assert_within(3.0, bytes - last, if second <= 10 { 300 * MIB } else { 100 * MIB });
        last = bytes;
    }
    assert!(simulation.qos.credits(12 * SECOND).unwrap() < MIB);
}

#[test]
fn reads_may_weigh_less_than_writes() {
    let limits = Limits::of([Cap::bytes_per_s(30 * MIB).weighing_reads(3)]);
    let of = |blocks| Load { blocks, ..load(1, 8, 0) };
    let rate = |blocks| run(limits.clone(), &[of(blocks)], 20)[0].bytes / 20;
    assert_within(1.0, rate(vec![(true, MIB)]), 30 * MIB);
    assert_within(1.0, rate(vec![(false, MIB)]), 90 * MIB);
    // A read and a write take 4/3 of a write's bytes together, and move 2.
    assert_within(1.0, rate(vec![(false, MIB), (true, MIB)]), 45 * MIB);
}

/// Over a minute the delivered rate is the configured one, for any block size and mix.
#[test]
fn over_a_minute_the_rate_is_within_one_percent() {
    for block in [512, 4 * KIB, 8 * KIB, 64 * KIB, 256 * KIB, MIB] {
        let limits = Limits::of([Cap::bytes_per_s(2 * MIB)]);
        for in_flight in [1, 32] {
            let outcome = &run(limits.clone(), &[load(1, in_flight, block)], 60)[0];
            assert_within(1.0, outcome.bytes, 60 * 2 * MIB);
        }
        let limits = Limits::of([Cap::iops(700)]);
        assert_within(1.0, run(limits, &[load(1, 32, block)], 60)[0].operations, 60 * 700);
    }
}

#[test]
fn over_a_minute_mixed_loads_are_within_one_percent() {
    let blocks = vec![(false, 512), (true, MIB), (false, 8 * KIB), (true, 64 * KIB), (false, 4 * KIB)];
    let loads: Vec<_> = (1..4).map(|client| Load { blocks: blocks.clone(), ..load(client, 8, 0) }).collect();
    let throughput = Cap::bytes_per_s(128 * MIB);
    let limits = Limits { latency: Latency::constant(500_000), ..Limits::of([throughput]) };
    let bytes: u64 = run(limits.clone(), &loads, 60).iter().map(|outcome| outcome.bytes).sum();
    assert_within(1.0, bytes, 60 * 128 * MIB);
    let limits = Limits { caps: vec![throughput, Cap::iops(700)], ..limits };
    let operations: u64 = run(limits, &loads, 60).iter().map(|outcome| outcome.operations).sum();
    // Five operations move 1,100.5 KiB: the throughput allows 595 a second.
    assert_within(1.0, operations, 60 * 5 * 128 * 1024 * 2 / 2201);
}

#[test]
fn waking_late_costs_no_throughput() {
    let mut qos = Qos::new(Limits::of([Cap::iops(1000)]), 0);
    let mut through = 0;
    let request = || Request { path: [1, 1], is_write: false, bytes: 1, is_hit: false, item: () };
    (0..200).for_each(|_| admit(&mut qos, 0, request(), |_, ()| through += 1));
    // Looked at every 3.7 ms only; each answer is followed by a call.
    for now in (0..60 * SECOND).step_by(3_700_000) {
        let mut answered = 0;
        qos.advance(now, |due, ()| answered += u64::from(due <= now));
        (0..answered).for_each(|_| admit(&mut qos, now, request(), |_, ()| through += 1));
        through += answered;
    }
    assert_within(1.0, through, 60_000);
}

/// READs that a client with four of 64 KiB in flight gets in 10 s at 20 MiB/s, which are 3,200, from a thread that runs each
/// millisecond, but not for the last `stall_ms` of each half second.
fn reads_of_starved_thread(stall_ms: u64, is_noted: bool) -> u64 {
    const MS: Nanos = 1_000_000;
    let mut qos = Qos::new(Limits::of([Cap::bytes_per_s(20 * MIB)]), 0);
    let (mut due, mut answered) = (vec![0; 4], 0);
    for now_ms in 0..10_000 {
        let in_period = now_ms % 500;
        if in_period >= 500 - stall_ms {
            continue;
        }
        let now = now_ms * MS;
        if is_noted && in_period == 0 && now > 0 {
            qos.came_late(now, 1, stall_ms * MS);
        }
        qos.advance(now, |at, ()| due.push(at));
        let done = due.extract_if(.., |at| *at <= now).count();
        answered += done as u64;
        for _ in 0..done {
            let request = Request { path: [1, 1], is_write: false, bytes: 64 * KIB, is_hit: false, item: () };
            admit(&mut qos, now, request, |at, ()| due.push(at));
        }
    }
    answered
}

#[test]
fn what_a_late_thread_missed_is_made_up_for() {
    let reads = |stall_ms| [false, true].map(|is_noted| reads_of_starved_thread(stall_ms, is_noted));
    assert_eq!(reads(0), [3208; 2], "a punctual thread, with what an idle export may catch up on");
    // The last stall ends with the ten seconds.
    assert_eq!(reads(130), [2540, 3167]);
    // A thread that is late for more than a quarter of a second makes up for that quarter.
    assert_eq!(reads(350), [1120, 2640]);
}

#[test]
fn tokens_that_were_missed_are_kept_for_a_second() {
    const MS: Nanos = 1_000_000;
    let passes_at_once = |late_ns, after_ns| {
        let mut qos = Qos::new(Limits::of([Cap::iops(1000), Cap::iops(6400).each(Scope::Connection)]), 0);
        let request = || Request { path: [1, 1], is_write: false, bytes: 1, is_hit: false, item: () };
        (0..15).for_each(|_| admit(&mut qos, 0, request(), |_, ()| {}));
        qos.came_late(SECOND, 0, late_ns);
        qos.came_late(SECOND, 1, 20 * MS);
        let (now, mut passed) = (SECOND + after_ns, 0);
        (0..600).for_each(|_| admit(&mut qos, now, request(), |due, ()| passed += u32::from(due == now)));
        (passed, qos.catch_up_ns(now))
    };
    // 1/64 s are 15 operations.
    assert_eq!(passes_at_once(100 * MS, 0), (115, 100 * MS));
    assert_eq!(passes_at_once(100 * MS, SECOND - 1), (115, 100 * MS));
    assert_eq!(passes_at_once(100 * MS, SECOND), (15, 0));
    assert_eq!(passes_at_once(900 * MS, 0), (265, 250 * MS), "at most a quarter of a second");
}

#[test]
fn a_deep_queue_does_not_starve_a_shallow_one() {
    let latency = Latency::constant(5_000_000);
    let limits = Limits { latency, ..Limits::of([Cap::iops(1000)]) };
    let [shallow, deep] = &run(limits, &[load(1, 1, 4096), load(2, 256, 4096)], 60)[..] else { panic!() };
    // Alone, the shallow one would have 200 IOPS of 5 ms. It waits for at most the one that is next and its own token.
    assert!(shallow.latency_ns_max <= 5_000_000 + 2_000_000, "{shallow:?}");
    assert_within(1.0, shallow.operations, 60 * SECOND / 7_000_000);
    assert_within(1.0, shallow.operations + deep.operations, 60_000);
}

#[test]
fn a_client_that_wants_its_share_gets_half_whatever_the_depth_of_the_other() {
    let limits = Limits::of([Cap::bytes_per_s(16 * MIB)]);
    let outcomes = run(limits, &[load(1, 2, 64 * KIB), load(2, 256, 64 * KIB)], 60);
    for outcome in &outcomes {
        assert_within(1.0, outcome.bytes, 60 * 8 * MIB);
    }
}

#[test]
fn shares_are_of_what_is_scarce_not_of_operations() {
    let limits = Limits::of([Cap::bytes_per_s(8 * MIB)]);
    let outcomes = run(limits, &[load(1, 32, 4 * KIB), load(2, 32, MIB)], 60);
    for outcome in &outcomes {
        assert_within(1.5, outcome.bytes, 60 * 4 * MIB);
    }
}

#[test]
fn eight_equal_clients_have_equal_shares() {
    let limits = Limits::of([Cap::iops(800), Cap::bytes_per_s(10 * MIB)]);
    let loads: Vec<_> = (1..=8).map(|client| load(client, 16, 8 * KIB)).collect();
    for outcome in &run(limits, &loads, 60) {
        assert_within(1.0, outcome.operations, 60 * 100);
    }
}

#[test]
fn connections_of_a_client_share_what_the_client_has() {
    let limits = Limits::of([Cap::iops(800)]);
    let of_one = |connection, in_flight| Load { connection, ..load(1, in_flight, 4096) };
    let outcomes = run(limits, &[of_one(1, 4), of_one(2, 128), load(2, 4, 4096)], 60);
    let operations: Vec<_> = outcomes.iter().map(|outcome| outcome.operations).collect();
    for (operations, expected) in operations.into_iter().zip([200, 200, 400]) {
        assert_within(1.0, operations, 60 * expected);
    }
}

#[test]
fn servers_are_shared_fairly_too() {
    let parallelism = Some(Parallelism::new(4, 4_000_000));
    let limits = Limits { parallelism, ..Limits::default() };
    let outcomes = run(limits, &[load(1, 8, 4096), load(2, 256, 4096)], 60);
    for outcome in &outcomes {
        assert_within(1.0, outcome.operations, 60 * 500);
    }
}

#[test]
fn what_one_does_not_want_others_have() {
    let limits = Limits { latency: Latency::constant(10_000_000), ..Limits::of([Cap::iops(1000)]) };
    let [shallow, deep] = &run(limits, &[load(1, 1, 4096), load(2, 64, 4096)], 60)[..] else { panic!() };
    assert!(shallow.operations < 60 * 100 && shallow.operations > 60 * 80, "{shallow:?}");
    assert_within(1.0, deep.operations + shallow.operations, 60_000);
}

#[test]
fn who_leaves_takes_the_debt_along() {
    let limits = Limits::of([Cap::bytes_per_s(MIB)]);
    let mut qos = Qos::new(limits, 0);
    let request = |client, item| Request { path: [client, client], is_write: true, bytes: MIB, is_hit: false, item };
    let mut due = Vec::new();
    for item in 0..100 {
        admit(&mut qos, 0, request(1, item), |at, item| due.push((at, item)));
    }
    // Of 100 s of writes one is next, and due after 1 s less what was there. All of it goes.
    assert_eq!(qos.next(), Some(SECOND * 63 / 64));
    assert_eq!(qos.remove(SECOND / 2, [1, 1], |at, item| due.push((at, item))), 100);
    assert_eq!(qos.next(), None);
    admit(&mut qos, SECOND / 2, request(2, 200), |at, item| due.push((at, item)));
    qos.advance(10 * SECOND, |at, item| due.push((at, item)));
    assert_eq!(due, [(SECOND / 2 + SECOND * 63 / 64, 200)]);
}

#[test]
fn new_limits_count_at_once_for_all_that_wait() {
    let mut qos = Qos::new(Limits::of([Cap::iops(1)]), 0);
    let mut due = Vec::new();
    for item in 0..5 {
        let request = Request { path: [1, 1], is_write: false, bytes: 1, is_hit: false, item };
        admit(&mut qos, 0, request, |at, item| due.push((at, item)));
    }
    assert_eq!((&due[..], qos.next()), (&[(0, 0)][..], Some(SECOND)));
    // At half a second half a token is there; at 10 IOPS the other half takes 50 ms, each further one 100 ms.
    let half = SECOND / 2;
    qos.set_limits(half, Limits::of([Cap::iops(10)]), |at, item| due.push((at, item)));
    assert_eq!(qos.next(), Some(half + SECOND / 20));
    qos.advance(half + SECOND / 20, |at, item| due.push((at, item)));
    // Slower again: from the moment of the last one a whole token is missing.
    qos.set_limits(half + SECOND / 20, Limits::of([Cap::iops(1)]), |_, _| unreachable!());
    assert_eq!(qos.next(), Some(half + SECOND / 20 + SECOND));
    // Without limits everything goes through, once.
    qos.set_limits(SECOND, Limits::default(), |_, _| unreachable!());
    qos.advance(SECOND, |at, item| due.push((at, item)));
    assert_eq!(due, [(0, 0), (half + SECOND / 20, 1), (SECOND, 2), (SECOND, 3), (SECOND, 4)]);
    assert_eq!(qos.next(), None);
}

#[test]
fn changed_limits_lose_and_repeat_nothing() {
    let mut simulation = Simulation::new(Limits::of([Cap::iops(100)]), &[load(1, 64, 4096)]);
    let levels = [
        Limits::of([Cap::bytes_per_s(MIB)]),
        Limits { latency: Latency::constant(SECOND / 10), ..Limits::of([Cap::iops(50).of(Kind::Read)]) },
        Limits { parallelism: Some(Parallelism::new(3, SECOND / 100)), ..Limits::default() },
        Limits::of([Cap::iops(1000).bursting(2000, 100)]),
        Limits::of([Cap::iops(10_000).of(Kind::Read), Cap::iops(500)]),
    ];
    for (number, limits) in levels.iter().cycle().take(50).enumerate() {
        simulation.run((number as u64 + 1) * SECOND / 3);
        let Simulation { qos, due, now, .. } = &mut simulation;
        qos.set_limits(*now, limits.clone(), |at, (load, asked)| due.push(Reverse((at, load, asked))));
    }
    simulation.run(20 * SECOND);
    // All 64 are still in flight: as many were answered as were asked for after the first ones.
    assert_eq!(simulation.next_block[0] as u64, simulation.outcomes[0].operations + 64);
    let Simulation { qos, due, .. } = &mut simulation;
    qos.set_limits(20 * SECOND, Limits::default(), |at, (load, asked)| due.push(Reverse((at, load, asked))));
    qos.advance(20 * SECOND, |at, (load, asked)| due.push(Reverse((at, load, asked))));
    assert_eq!(due.len(), 64);
}

#[test]
fn limits_are_read_from_json_and_unknown_words_refused() {
    let text = r#"{"caps": [{"scope": "volume", "quantity": "iops", "value": 4024, "burst": {"iops": 10000, "credits": 21513600}},
        {"scope": "connection", "quantity": "requests", "value": 128},
        {"scope": "client", "quantity": "bytes_per_s", "kind": "write", "value": 5}],
        "latency": {"base_ns": 500000, "distribution": {"kind": "lognormal", "median_ns": 100000, "p99_ns": 900000}}}"#;
    let limits: Limits = serde_json::from_str(text).unwrap();
    let expected = Limits {
        caps: vec![
            Cap::iops(4024).bursting(10_000, 21_513_600),
            Cap::requests(128),
            Cap::bytes_per_s(5).of(Kind::Write).each(Scope::Client),
        ],
        latency: Latency {
            base_ns: 500_000,
            distribution: Distribution::Lognormal { median_ns: 100_000, p99_ns: 900_000 },
            ..Latency::default()
        },
        ..Limits::default()
    };
    assert_eq!(limits, expected);
    assert!(serde_json::from_str::<Limits>(r#"{"iop": 5}"#).is_err());
    assert!(
        serde_json::from_str::<Limits>(r#"{"caps": [{"scope": "volume", "quantity": "iop", "value": 5}]}"#).is_err()
    );
    assert!(serde_json::from_str::<Limits>(r#"{"latency": {"base": 5}}"#).is_err());
}

#[test]
fn every_bucket_tells_what_it_holds() {
    let limits = Limits::of([
        Cap::bytes_per_s(64 * MIB),
        Cap::bytes_per_s(640).of(Kind::Write),
        Cap::iops(6400).bursting(12_800, 1000),
        Cap::iops(128).of(Kind::Read),
        Cap::bytes_per_s(64 * KIB).each(Scope::Connection),
    ]);
    let mut qos = Qos::new(limits, 0);
    let request = |is_write, bytes| Request { path: [1, 7], is_write, bytes, is_hit: false, item: () };
    admit(&mut qos, 0, request(false, 4096), |_, ()| {});
    admit(&mut qos, 0, request(true, 15), |_, ()| {});
    let bucket = |limit: &str, connection, level, capacity, rate_per_s| Bucket {
        limit: limit.to_owned(),
        client: None,
        connection,
        level: Level { level, capacity, rate_per_s },
    };
    // Capacities are what comes in 1/64 s, and of the IOPS the credits beside it.
    let expected = [
        bucket("throughput_bytes_per_s", None, (MIB - 4096) as i64, MIB, 64 * MIB),
        bucket("iops", None, 1099, 1100, 6400),
        bucket("burst_iops", None, 199, 200, 12_800),
        bucket("iops_read", None, 1, 2, 128),
        // The WRITE is next: it has taken its tokens, five more than there are.
        bucket("throughput_write_bytes_per_s", None, -5, 10, 640),
        bucket("connection.bandwidth_bytes_per_s", Some(7), 1024 - 4096, 1024, 64 * KIB),
    ];
    assert_eq!(qos.buckets(0), expected);
    assert_eq!(qos.buckets(SECOND)[4], bucket("throughput_write_bytes_per_s", None, 10, 10, 640));
    assert!(Qos::<()>::new(Limits::default(), 0).buckets(0).is_empty());
    let text = r#"{"limit":"iops","client":null,"connection":null,"level":1099,"capacity":1100,"rate_per_s":6400}"#;
    assert_eq!(serde_json::to_string(&qos.buckets(0)[1]).unwrap(), text);
}

#[test]
fn a_window_lets_its_operations_through_at_its_start() {
    let limits = Limits { window_ns: SECOND / 10, ..Limits::of([Cap::iops(100)]) };
    let mut qos = Qos::new(limits, 0);
    let mut due = Vec::new();
    for _ in 0..25 {
        admit(
            &mut qos,
            0,
            Request { path: [1, 1], is_write: false, bytes: 4096, is_hit: false, item: () },
            |at, ()| due.push(at),
        );
    }
    qos.advance(SECOND, |at, ()| due.push(at));
    let counts = [0, 1, 2].map(|window| due.iter().filter(|at| **at == window * SECOND / 10).count());
    assert_eq!(counts, [10, 10, 5]);
    // A window that was not used leaves nothing to the next one.
    due.clear();
    let late = 2 * SECOND + SECOND / 20;
    for _ in 0..12 {
        admit(
            &mut qos,
            late,
            Request { path: [1, 1], is_write: false, bytes: 4096, is_hit: false, item: () },
            |at, ()| due.push(at),
        );
    }
    qos.advance(3 * SECOND, |at, ()| due.push(at));
    assert_eq!(due, [vec![late; 10], vec![2 * SECOND + SECOND / 10; 2]].concat());
    let mut simulation = Simulation::new(
        Limits { window_ns: SECOND / 10, ..Limits::of([Cap::bytes_per_s(10 * MIB)]) },
        &[load(1, 4, 64 * KIB)],
    );
    simulation.run(60 * SECOND - 1);
    assert_eq!(simulation.total().bytes, 600 * MIB);
}

/// Costs in the order READ, WRITE: of operations, then of bytes.
const CACHE: ServerCache =
    ServerCache { bytes: 64 * KIB, read_iops: 800, read_bytes: 500, write_iops: 900, write_bytes: 1000 };

#[test]
fn data_that_the_server_s_cache_holds_count_for_less() {
    let answered = |caps: Vec<Cap>, is_write, is_hit| {
        let mut qos = Qos::new(Limits { caps, server_cache: Some(CACHE), ..Limits::default() }, 0);
        let mut due = Vec::new();
        for _ in 0..5 {
            let request = Request { path: [1, 1], is_write, bytes: 1000, is_hit, item: () };
            admit(&mut qos, 0, request, |at, ()| due.push(at));
        }
        qos.advance(20 * SECOND, |at, ()| due.push(at));
        due.into_iter().map(|at| at / 1_000_000).collect::<Vec<_>>()
    };
    // An idle export may catch up on one operation, or on 15 bytes.
    assert_eq!(answered(vec![Cap::iops(1)], false, false), [0, 1000, 2000, 3000, 4000]);
    assert_eq!(answered(vec![Cap::iops(1)], false, true), [0, 600, 1400, 2200, 3000]);
    assert_eq!(answered(vec![Cap::iops(1).of(Kind::Write)], true, true), [0, 800, 1700, 2600, 3500]);
    assert_eq!(answered(vec![Cap::bytes_per_s(1000)], false, true), [485, 985, 1485, 1985, 2485]);
    assert_eq!(answered(vec![Cap::bytes_per_s(1000).weighing_reads(10)], false, true), [35, 85, 135, 185, 235]);
    assert_eq!(answered(vec![Cap::bytes_per_s(1000).of(Kind::Write)], true, true), [985, 1985, 2985, 3985, 4985]);
    // Networks carry the data all the same.
    let network = vec![Cap::bytes_per_s(1000).each(Scope::Client)];
    assert_eq!(answered(network, false, true), [985, 1985, 2985, 3985, 4985]);
}

#[test]
fn a_load_that_fits_into_the_server_s_cache_is_faster_once_it_was_read() {
    let mut qos: Qos<()> =
        Qos::new(Limits { server_cache: Some(CACHE), ..Limits::of([Cap::iops(10).of(Kind::Read)]) }, 0);
    let pass = |qos: &mut Qos<()>, now, blocks: u64| {
        let mut last = 0;
        for block in 0..blocks {
            let is_hit = qos.is_hit(&Extent::of(&[7; 8], block * 4 * KIB, 4 * KIB));
            let request = Request { path: [1, 1], is_write: false, bytes: 4 * KIB, is_hit, item: () };
            admit(qos, now, request, |at, ()| last = at);
        }
        qos.advance(now + 100 * SECOND, |at, ()| last = at);
        (last - now) / 1_000_000
    };
    let passes = [16, 16, 17, 17].iter().zip(0..).map(|(many, at)| pass(&mut qos, at * 1000 * SECOND, *many));
    // Of 16 blocks the first is admitted at once; a seventeenth drives out each before it is read again.
    assert_eq!(passes.collect::<Vec<_>>(), [1500, 1180, 1280, 1600]);
}

#[test]
fn a_server_cache_is_forgotten_when_its_size_changes() {
    let extent = Extent::of(&[7; 8], 0, 4096);
    let limits = Limits { server_cache: Some(CACHE), ..Limits::of([Cap::iops(10)]) };
    let mut qos: Qos<()> = Qos::new(limits.clone(), 0);
    let dear = Limits { server_cache: Some(ServerCache { read_iops: 1, ..CACHE }), ..limits.clone() };
    let larger = Limits { server_cache: Some(ServerCache { bytes: MIB, ..CACHE }), ..limits };
    assert!(!qos.is_hit(&extent));
    for (limits, is_hit) in [(dear, true), (larger.clone(), false), (larger, true), (Limits::default(), false)] {
        qos.set_limits(0, limits, |_, ()| {});
        assert_eq!(qos.is_hit(&extent), is_hit);
    }
}
