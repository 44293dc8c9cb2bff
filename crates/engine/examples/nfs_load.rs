//! Measures the NFS engine alone, without the worker loop: random reads or writes in a closed loop. `check` tests the
//! data instead: it writes every block of the files, each byte a function of its offset, reads all of them back and
//! compares.
//!
//! `cargo run --release --example nfs_load -- HOST PORT MOUNTPORT EXPORT read|write|check DEPTH NCONNECT THREADS BLOCK_BYTES SECONDS \
//! [keep] [files=MIB] [pin] [server=PID] [vers=4.1] [slots=N]` prints operations per second and the CPU time of one operation. Each thread
//! has its own file, which is created, filled and removed. A port of `-` asks the portmapper. `keep` copies payload to
//! the buffers, `pin` binds each thread to a processor, and `server` prints the CPU time of that process, too.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use iocurve_engine::engines::nfs::{self, Nfs3, Nfs4, NfsEngine, Version};
use iocurve_engine::plan::{Durability, FilePlan, Layout, NfsMount, OperationKind};
use iocurve_engine::{Address, Buffers, Engine, EngineError, Request};
use iocurve_meter::{Clock, Nanos, SECOND};

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Load(OperationKind),
    Check,
}

#[derive(Clone)]
struct Load {
    mount: NfsMount,
    work: Work,
    depth: u32,
    block: u32,
    file_bytes: u64,
    end: Nanos,
    pin: bool,
    server: Option<u32>,
}

fn run() -> Result<(), EngineError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, mount_port, export, kind, depth, nconnect, threads, block, seconds, rest @ ..] =
        arguments.as_slice()
    else {
        return Err(usage());
    };
    let number = |text: &str| text.parse::<u32>().map_err(|_| usage());
    let port_number = |text: &str| if text == "-" { Ok(None) } else { text.parse().map(Some).map_err(|_| usage()) };
    let mount = NfsMount {
        host: host.clone(),
        port: port_number(port)?,
        mount_port: port_number(mount_port)?,
        export: export.clone(),
        version: if rest.iter().any(|word| word == "vers=4.1") { 4 } else { 3 },
        nconnect: number(nconnect)?,
        session_slots: word(rest, "slots=").map_or(Ok(64), number)?,
        uid: 0,
        gid: 0,
        durability: Durability::None,
        timeout_ns: 10 * SECOND,
        keep_payload: kind == "check" || rest.iter().any(|word| word == "keep"),
        source: None,
        rsize: None,
        wsize: None,
        tls: None,
    };
    let mebibytes = word(rest, "files=").map_or(Ok(64), number)?;
    let load = Load {
        mount,
        work: match kind.as_str() {
            "read" => Work::Load(OperationKind::Read),
            "write" => Work::Load(OperationKind::Write),
            "check" => Work::Check,
            _ => return Err(usage()),
        },
        depth: number(depth)?,
        block: number(block)?,
        file_bytes: u64::from(mebibytes) << 20,
        end: Nanos::from(number(seconds)?) * SECOND,
        pin: rest.iter().any(|word| word == "pin"),
        server: word(rest, "server=").map(number).transpose()?,
    };
    let files: Vec<FilePlan> = (0..number(threads)?).map(|thread| file(thread, load.file_bytes)).collect();
    nfs::layout(&load.mount, &files, 1, &|_| {}, &AtomicBool::new(false))?;
    let measured = if load.work == Work::Check { check(&load, &files) } else { measure(&load, &files) };
    let paths: Vec<String> = files.into_iter().map(|file| file.path).collect();
    measured.and(nfs::remove(&load.mount, &paths, &AtomicBool::new(false)))
}

/// Value of the word with this prefix.
fn word<'a>(words: &'a [String], prefix: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(prefix))
}

fn file(thread: u32, bytes: u64) -> FilePlan {
    FilePlan {
        path: format!("nfs_load.{thread}"),
        offset_bytes: 0,
        bytes,
        start_bytes: 0,
        layout: Layout::Fill,
        keep: false,
    }
}

fn measure(load: &Load, files: &[FilePlan]) -> Result<(), EngineError> {
    let (before, server_before) = (usage_ns(), server_ns(load.server));
    let start = |(number, file)| {
        let load = load.clone();
        thread::spawn(move || work(&load, number, file))
    };
    let threads: Vec<_> = files.iter().cloned().enumerate().map(start).collect();
    let mut operations = 0;
    let mut labels = String::new();
    for thread in threads {
        let (done, words) = thread.join().expect("a worker does not panic")?;
        operations += done;
        labels = words;
    }
    let (after, server_after) = (usage_ns(), server_ns(load.server));
    let seconds = load.end as f64 / SECOND as f64;
    println!(
        "{:.0} op/s, {:.2} GiB/s, client {:.3} us/op user + {:.3} us/op system, server {:.3} us/op; {labels}",
        operations as f64 / seconds,
        operations as f64 * f64::from(load.block) / seconds / f64::from(1 << 30),
        (after.0 - before.0) as f64 / 1000.0 / operations as f64,
        (after.1 - before.1) as f64 / 1000.0 / operations as f64,
        (server_after - server_before) as f64 / 1000.0 / operations as f64,
    );
    Ok(())
}

fn work(load: &Load, number: usize, file: FilePlan) -> Result<(u64, String), EngineError> {
    let Work::Load(kind) = load.work else { unreachable!("a check is no load") };
    if load.pin {
        pin(number);
    }
    let clock = Clock::new();
    let buffers = Buffers::new(load.depth as usize, load.block as usize);
    let stop = Arc::new(AtomicBool::new(false));
    // SAFETY: no slot is ever borrowed.
    let slots = unsafe { buffers.slot_map() };
    let (mount, files) = (&load.mount, &[file]);
    match Version::of(mount)? {
        Version::V3 => repeat(
            NfsEngine::<Nfs3>::connect(mount, files, slots, load.depth, clock.clone(), stop)?,
            load,
            kind,
            number,
            &clock,
        ),
        Version::V4_1 => repeat(
            NfsEngine::<Nfs4>::connect(mount, files, slots, load.depth, clock.clone(), stop)?,
            load,
            kind,
            number,
            &clock,
        ),
    }
}

fn repeat(
    mut engine: impl Engine,
    load: &Load,
    kind: OperationKind,
    number: usize,
    clock: &Clock,
) -> Result<(u64, String), EngineError> {
    let blocks = load.file_bytes / u64::from(load.block);
    let mut chance = 0x9e37_79b9_7f4a_7c15_u64 + number as u64;
    let mut request = |slot| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let offset = (chance >> 33) % blocks * u64::from(load.block);
        Request { slot, kind, address: Address { file: 0, offset, length: load.block } }
    };
    for slot in 0..load.depth {
        engine.submit(request(slot))?;
    }
    let (mut operations, mut in_flight, mut rounds) = (0, load.depth, 0_u64);
    let mut done = Vec::with_capacity(load.depth as usize);
    let end = clock.now() + load.end;
    while in_flight > 0 {
        let now = clock.now();
        engine.reap(1, now + SECOND / 20, &mut done)?;
        rounds += 1;
        for completion in done.drain(..) {
            assert_eq!(completion.result, i64::from(load.block), "an operation failed or was short");
            operations += 1;
            if now < end {
                engine.submit(request(completion.slot))?;
            } else {
                in_flight -= 1;
            }
        }
    }
    engine.finish()?;
    let words = format!(
        "{}; {:?}; {:?}; {:.1} operations a round",
        engine.describe(),
        engine.labels(),
        engine.counters(),
        operations as f64 / rounds as f64
    );
    Ok((operations, words))
}

/// Writes all files, then reads them back and compares.
fn check(load: &Load, files: &[FilePlan]) -> Result<(), EngineError> {
    for kind in [OperationKind::Write, OperationKind::Read] {
        let start = |(number, file): (usize, FilePlan)| {
            let load = load.clone();
            thread::spawn(move || pass(&load, kind, number as u64, file))
        };
        let threads: Vec<_> = files.iter().cloned().enumerate().map(start).collect();
        for thread in threads {
            thread.join().expect("a worker does not panic")?;
        }
    }
    let bytes = load.file_bytes / u64::from(load.block) * u64::from(load.block) * files.len() as u64;
    println!("{bytes} bytes written in blocks of {}, read back and compared: all equal", load.block);
    Ok(())
}

/// Writes every block of a file once, or reads every block once and compares it.
fn pass(load: &Load, kind: OperationKind, number: u64, file: FilePlan) -> Result<(), EngineError> {
    let clock = Clock::new();
    let buffers = Buffers::new(load.depth as usize, load.block as usize);
    // SAFETY: a slot is filled before its write is submitted, and read after its completion.
    let slots = unsafe { buffers.slot_map() };
    let stop = Arc::new(AtomicBool::new(false));
    let (mount, files) = (&load.mount, &[file]);
    match Version::of(mount)? {
        Version::V3 => {
            let engine = NfsEngine::<Nfs3>::connect(mount, files, slots, load.depth, clock.clone(), stop)?;
            pass_on(engine, buffers, load, kind, number, &clock)
        }
        Version::V4_1 => {
            let engine = NfsEngine::<Nfs4>::connect(mount, files, slots, load.depth, clock.clone(), stop)?;
            pass_on(engine, buffers, load, kind, number, &clock)
        }
    }
}

fn pass_on(
    mut engine: impl Engine,
    mut buffers: Buffers,
    load: &Load,
    kind: OperationKind,
    number: u64,
    clock: &Clock,
) -> Result<(), EngineError> {
    let mut offsets = (0..load.file_bytes / u64::from(load.block)).map(|block| block * u64::from(load.block));
    let mut free: Vec<u32> = (0..load.depth).collect();
    let mut under_way = vec![0; load.depth as usize];
    let mut expected = vec![0; load.block as usize];
    let mut done = Vec::new();
    loop {
        while let Some(slot) = free.pop() {
            let Some(offset) = offsets.next() else { break };
            under_way[slot as usize] = offset + 1;
            if kind == OperationKind::Write {
                fill(buffers.slot_mut(slot, load.block as usize), number, offset);
            }
            engine.submit(Request { slot, kind, address: Address { file: 0, offset, length: load.block } })?;
        }
        if under_way.iter().all(|offset| *offset == 0) {
            return engine.finish();
        }
        engine.reap(1, clock.now() + SECOND, &mut done)?;
        for completion in done.drain(..) {
            let (slot, length) = (completion.slot, i64::from(load.block));
            let offset = std::mem::take(&mut under_way[slot as usize]) - 1;
            assert_eq!(completion.result, length, "an operation failed or was short");
            fill(&mut expected, number, offset);
            if kind == OperationKind::Read && buffers.slot(slot, load.block as usize) != expected {
                return Err(EngineError::Plan(format!(
                    "block at {offset} of file {number} differs from the data written"
                )));
            }
            free.push(slot);
        }
    }
}

/// Fills a block: every eight bytes are a hash of the file's number and their offset (`SplitMix64`).
fn fill(block: &mut [u8], number: u64, offset: u64) {
    for (word, bytes) in block.chunks_mut(8).enumerate() {
        let mut mixed = ((offset + 8 * word as u64 + 1) ^ (number << 48)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.copy_from_slice(&(mixed ^ mixed >> 31).to_le_bytes()[..bytes.len()]);
    }
}

fn pin(number: usize) {
    // SAFETY: the set is plain memory, and both calls get its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(number % thread::available_parallelism().map_or(1, usize::from), &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// User and system time of the process.
fn usage_ns() -> (u64, u64) {
    // SAFETY: the kernel fills the struct.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let nanos = |time: libc::timeval| time.tv_sec as u64 * SECOND + time.tv_usec as u64 * 1000;
    (nanos(usage.ru_utime), nanos(usage.ru_stime))
}

/// CPU time of all threads of a process so far; 0 without a process.
fn server_ns(process: Option<u32>) -> u64 {
    let Some(process) = process else { return 0 };
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let first_number = |text: String| text.split(' ').next().and_then(|word| word.parse::<u64>().ok());
    threads
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok().and_then(first_number))
        .sum()
}

fn usage() -> EngineError {
    EngineError::Plan(
        "usage: nfs_load HOST PORT MOUNTPORT EXPORT read|write|check DEPTH NCONNECT THREADS BLOCK_BYTES SECONDS [keep] \
         [files=MIB] [pin] [server=PID] [vers=4.1] [slots=N]"
            .to_owned(),
    )
}
