//! Measures an engine for local files alone, without the worker loop: random reads in a closed loop.
//!
//! `cargo run --release --example file_load -- PATH ENGINE DEPTH BLOCK_BYTES SECONDS [buffered]`
//! prints operations per second and the processor time of one operation. The file is created with 1 GiB if missing.

use std::sync::atomic::AtomicBool;

use iocurve_engine::engines::{AioEngine, Setup, SyncEngine, UringEngine};
use iocurve_engine::layout::lay_out;
use iocurve_engine::plan::{Durability, FileOpen, FilePlan, Layout, OperationKind};
use iocurve_engine::{Address, Buffers, Completion, Engine, EngineError, Request};
use iocurve_meter::{Clock, Nanos, SECOND};

const FILE_BYTES: u64 = 1 << 30;

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), EngineError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, engine, depth, block, seconds, rest @ ..] = arguments.as_slice() else { return Err(usage()) };
    let number = |text: &str| text.parse::<u32>().map_err(|_| usage());
    let (depth, block, seconds) = (number(depth)?, number(block)?, number(seconds)?);
    let direct = !rest.iter().any(|word| word == "buffered");
    let open = FileOpen { direct, durability: Durability::None, invalidate: direct };
    let file = FilePlan {
        path: path.clone(),
        offset_bytes: 0,
        bytes: FILE_BYTES,
        start_bytes: 0,
        layout: Layout::Fill,
        keep: true,
    };
    lay_out(&[&file], 1, &|_| {}, &AtomicBool::new(false))?;
    let depth = if engine == "sync" { 1 } else { depth };
    let buffers = Buffers::new(depth as usize, block as usize);
    let clock = Clock::new();
    let end = Nanos::from(seconds) * SECOND;
    let files = [file];
    // SAFETY: no slot is ever borrowed.
    let slots = unsafe { buffers.slot_map() };
    let setup = Setup { open: &open, files: &files, writes: false, slots, depth, clock: clock.clone() };
    match engine.as_str() {
        "sync" => load(SyncEngine::open(setup)?, depth, block, end, &clock),
        "aio" => load(AioEngine::open(setup)?, depth, block, end, &clock),
        "uring" => load(UringEngine::open(setup)?, depth, block, end, &clock),
        _ => Err(usage()),
    }
}

fn usage() -> EngineError {
    EngineError::Plan("usage: file_load PATH sync|aio|uring DEPTH BLOCK_BYTES SECONDS [buffered]".to_owned())
}

fn load<E: Engine>(mut engine: E, depth: u32, block: u32, end: Nanos, clock: &Clock) -> Result<(), EngineError> {
    let mut random = 1_u64;
    let mut next = |slot| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let offset = (random >> 33) % (FILE_BYTES / u64::from(block)) * u64::from(block);
        Request { slot, kind: OperationKind::Read, address: Address { file: 0, offset, length: block } }
    };
    let (before, start) = (processor_ns(), clock.now());
    let (mut operations, mut reaps) = (0_u64, 0_u64);
    let mut done: Vec<Completion> = Vec::with_capacity(depth as usize);
    for slot in 0..depth {
        engine.submit(next(slot))?;
    }
    while clock.now() < start + end {
        engine.reap(1, Nanos::MAX, &mut done)?;
        reaps += 1;
        operations += done.len() as u64;
        for completion in done.drain(..) {
            assert_eq!(completion.result, i64::from(block), "a read failed or was short");
            engine.submit(next(completion.slot))?;
        }
    }
    let (after, seconds) = (processor_ns(), (clock.now() - start) as f64 / SECOND as f64);
    let each = |nanos: u64| nanos as f64 / operations as f64 / 1000.0;
    println!(
        "{}: {:.0} IOPS, user {:.3} + system {:.3} = {:.3} µs per operation, {:.1} operations per reap",
        engine.describe(),
        operations as f64 / seconds,
        each(after.0 - before.0),
        each(after.1 - before.1),
        each(after.0 - before.0 + after.1 - before.1),
        operations as f64 / reaps as f64,
    );
    Ok(())
}

/// CPU time of this process: in user mode, in the kernel.
fn processor_ns() -> (Nanos, Nanos) {
    // SAFETY: all zeros is a valid `rusage`, and the call writes one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let nanos = |time: libc::timeval| time.tv_sec as u64 * SECOND + time.tv_usec as u64 * 1000;
    (nanos(usage.ru_utime), nanos(usage.ru_stime))
}
