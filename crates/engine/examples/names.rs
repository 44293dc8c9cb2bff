//! Creates, stats and removes files of one directory, by threads that make the system calls or by one `io_uring`: what the
//! metadata engine's choice rests on (`python -m bench.local_names`).
//!
//! `cargo run --release --example names -- threads|uring DEPTH DIRECTORY FILES` prints a line of JSON for each phase: name,
//! operations per second, and CPU time of the process per operation, threads of the kernel that work for its ring included.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use io_uring::{IoUring, opcode, squeue, types};

const PHASES: [&str; 3] = ["create", "getattr", "remove"];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [how, depth, directory, files] = arguments.as_slice() else { usage() };
    let (Ok(depth), Ok(files)) = (depth.parse::<usize>(), files.parse::<usize>()) else { usage() };
    let path = |number: usize| {
        let path = Path::new(directory).join(format!("file{number:08}"));
        CString::new(path.as_os_str().as_bytes()).expect("an argument has no zero byte")
    };
    let paths: Vec<CString> = (0..files).map(path).collect();
    for phase in PHASES {
        let (begun, cpu) = (Instant::now(), cpu_us());
        match how.as_str() {
            "threads" => by_threads(phase, depth, &paths),
            "uring" => by_ring(phase, depth, &paths),
            _ => usage(),
        }
        let (rate, cpu) = (files as f64 / begun.elapsed().as_secs_f64(), (cpu_us() - cpu) / files as f64);
        println!(r#"{{"phase": "{phase}", "rate": {rate:.0}, "cpu_us": {cpu:.2}}}"#);
    }
}

fn usage() -> ! {
    eprintln!("usage: names threads|uring DEPTH DIRECTORY FILES");
    std::process::exit(2);
}

fn by_threads(phase: &str, depth: usize, paths: &[CString]) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..depth {
            scope.spawn(|| {
                while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                    call(phase, path);
                }
            });
        }
    });
}

fn call(phase: &str, path: &CString) {
    // SAFETY: the path ends with a zero byte; the result has its place; the descriptor is ours.
    let code = unsafe {
        match phase {
            "create" => {
                let opened = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC, 0o644);
                if opened < 0 { opened } else { libc::close(opened) }
            }
            "getattr" => {
                let mut status: libc::stat = std::mem::zeroed();
                libc::stat(path.as_ptr(), &raw mut status)
            }
            _ => libc::unlink(path.as_ptr()),
        }
    };
    assert_eq!(code, 0, "{phase}: {}", std::io::Error::last_os_error());
}

/// A file that is created is closed by a second operation of the ring.
fn by_ring(phase: &str, depth: usize, paths: &[CString]) {
    const CLOSES: u64 = u64::MAX;
    let mut ring = IoUring::new(depth as u32).expect("a ring");
    // SAFETY: numbers alone, of which 0 is one.
    let nothing: libc::statx = unsafe { std::mem::zeroed() };
    let mut statuses = vec![nothing; paths.len()];
    let (mut next, mut left, mut to_close) = (0, paths.len(), Vec::new());
    let mut in_flight = 0;
    while left > 0 {
        while in_flight < depth {
            let entry = if let Some(file) = to_close.pop() {
                opcode::Close::new(types::Fd(file)).build().user_data(CLOSES)
            } else if let Some(path) = paths.get(next) {
                next += 1;
                entry(phase, path, &mut statuses[next - 1]).user_data(next as u64)
            } else {
                break;
            };
            // SAFETY: paths and results outlive the ring's use of them.
            unsafe { ring.submission().push(&entry).expect("room for the operations in flight") };
            in_flight += 1;
        }
        ring.submit_and_wait(1).expect("submitted");
        for completion in ring.completion() {
            in_flight -= 1;
            assert!(completion.result() >= 0, "{phase}: {}", completion.result());
            if phase == "create" && completion.user_data() != CLOSES {
                to_close.push(completion.result());
            } else {
                left -= 1;
            }
        }
    }
}

fn entry(phase: &str, path: &CString, status: &mut libc::statx) -> squeue::Entry {
    let here = types::Fd(libc::AT_FDCWD);
    match phase {
        "create" => {
            let flags = libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC;
            opcode::OpenAt::new(here, path.as_ptr()).flags(flags).mode(0o644).build()
        }
        "getattr" => opcode::Statx::new(here, path.as_ptr(), std::ptr::from_mut(status).cast())
            .mask(libc::STATX_BASIC_STATS)
            .build(),
        _ => opcode::UnlinkAt::new(here, path.as_ptr()).build(),
    }
}

/// CPU time of the process so far.
fn cpu_us() -> f64 {
    // SAFETY: the result has its place.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let micros = |time: libc::timeval| time.tv_sec as f64 * 1e6 + time.tv_usec as f64;
    micros(usage.ru_utime) + micros(usage.ru_stime)
}
