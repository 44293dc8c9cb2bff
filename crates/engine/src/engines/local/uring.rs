//! `io_uring` with registered files and buffers. Sending and waiting share a kernel entry.

use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::types::{Fd, Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{Builder, EnterFlags, IoUring, opcode, squeue};
use iocurve_meter::{Clock, Nanos};

use crate::engines::buffers::SlotMap;
use crate::engines::files::{self, LocalFiles};
use crate::engines::local::{self, PUNCH, Setup, WHOLE_SYNC};
use crate::engines::request::{Completion, Engine, Request};
use crate::error::EngineError;
use crate::plan::OperationKind;

/// Sends a few requests at a time; see [`files::SEND_BATCH`].
///
/// Must be used on the thread that opened it: the ring is set up for a single issuer.
pub struct UringEngine {
    ring: IoUring,
    files: LocalFiles,
    slots: SlotMap,
    clock: Clock,
    registered: Registered,
    /// The kernel's own threads do the I/O, because the files' file system may block.
    threaded: bool,
    /// A trim of a device was done inside `submit`.
    waited: bool,
    /// In the submission queue, not sent yet.
    queued: usize,
    /// Sent and not completed.
    in_flight: usize,
    /// Completed while `submit` sent, for the next reap.
    early: Vec<Completion>,
}

/// Files and buffers that the kernel looked up once instead of for every operation.
#[derive(Debug, Clone, Copy)]
struct Registered {
    files: bool,
    /// Consecutive slots in one registered buffer; `None` if buffers are not registered.
    slots_per_buffer: Option<u32>,
}

impl UringEngine {
    /// Opens the files and a ring for `depth` operations in flight, on the thread that will use it.
    pub fn open(setup: Setup<'_>) -> Result<Self, EngineError> {
        Self::over(new_ring(setup.depth)?, setup)
    }

    fn over(ring: IoUring, setup: Setup<'_>) -> Result<Self, EngineError> {
        let files = LocalFiles::open(setup.open, setup.files, setup.writes)?;
        let Setup { slots, depth, clock, .. } = setup;
        let threaded = !files.start_without_blocking();
        if threaded {
            // As many threads as operations, or fewer operations would be in flight than the depth (the default is 4
            // per processor). If that is refused (before Linux 5.15), the default stays.
            let _ = ring.submitter().register_iowq_max_workers(&mut [depth, 0]);
        }
        let registered = Registered {
            // Registration is an optimisation: if a limit or an old kernel refuses it, plain I/O works, too.
            files: ring.submitter().register_files(&files.descriptors()).is_ok(),
            slots_per_buffer: register_buffers(&ring, &slots),
        };
        Ok(Self {
            ring,
            files,
            slots,
            clock,
            registered,
            threaded,
            waited: false,
            queued: 0,
            in_flight: 0,
            early: Vec::new(),
        })
    }

    /// Enters the kernel once: sends queued requests and waits for `min` completions.
    fn enter(&mut self, min: usize, deadline: Nanos) -> Result<(), EngineError> {
        let remaining = (min > 0 && deadline != Nanos::MAX).then(|| deadline.saturating_sub(self.clock.now()));
        let min = if remaining == Some(0) { 0 } else { min };
        match self.enter_kernel(min as u32, remaining) {
            Ok(count) => {
                self.queued -= count;
                self.in_flight += count;
                Ok(())
            }
            Err(source) => match source.raw_os_error() {
                // The time is over, a signal came, or the kernel's queue is full until completions are taken.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY) => Ok(()),
                Some(libc::EAGAIN) if self.in_flight > 0 => Ok(()),
                _ => Err(EngineError::System { action: "enter io_uring", source }),
            },
        }
    }

    fn enter_kernel(&self, min: u32, remaining: Option<Nanos>) -> io::Result<usize> {
        let submitter = self.ring.submitter();
        // Without GETEVENTS a ring with deferred task work would not see its completions.
        let flags = EnterFlags::GETEVENTS.bits();
        // SAFETY: queued entries point to buffers and files that this engine keeps until they have completed.
        unsafe {
            match remaining.filter(|_| min > 0).map(Duration::from_nanos) {
                None => submitter.enter::<libc::sigset_t>(self.queued as u32, min, flags, None),
                Some(remaining) if self.ring.params().is_feature_ext_arg() => {
                    let timeout = Timespec::from(remaining);
                    let arguments = SubmitArgs::new().timespec(&timeout);
                    let flags = flags | EnterFlags::EXT_ARG.bits();
                    submitter.enter(self.queued as u32, min, flags, Some(&arguments))
                }
                // Before Linux 5.11 entering has no timeout, but polling the ring has.
                Some(remaining) => {
                    let sent = submitter.enter::<libc::sigset_t>(self.queued as u32, 0, flags, None);
                    poll_ring(&self.ring, remaining);
                    sent
                }
            }
        }
    }

    /// Sends before the reap. Also takes completions: the kernel may accept nothing while they fill its queue.
    fn send_early(&mut self) -> Result<(), EngineError> {
        let mut early = std::mem::take(&mut self.early);
        self.enter(0, Nanos::MAX)?;
        self.take_completions(&mut early);
        self.early = early;
        Ok(())
    }

    fn take_completions(&mut self, done: &mut Vec<Completion>) {
        let before = done.len();
        let completions = self.ring.completion();
        done.extend(completions.map(|entry| {
            let result = i64::from(entry.result());
            let given_back = if result < 0 { 0 } else { entry.user_data() >> 32 };
            Completion { slot: entry.user_data() as u32, result: result + given_back as i64 }
        }));
        self.in_flight -= done.len() - before;
    }

    fn entry(&self, request: &Request) -> Result<squeue::Entry, EngineError> {
        let (descriptor, memory) = self.files.target(request, &self.slots)?;
        let buffer = self.registered.slots_per_buffer.map(|slots| (request.slot / slots) as u16);
        let (length, offset) = (request.address.length, request.address.offset);
        let data_only =
            if request.kind == OperationKind::Fdatasync { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
        // The kernel's result of a trim is 0; the trimmed bytes are carried in the user data, with the slot.
        let given_back = if request.kind == OperationKind::Trim { u64::from(length) << 32 } else { 0 };
        // The four combinations of registered and unregistered differ in type, hence a macro instead of a function.
        macro_rules! entry {
            ($file:expr) => {
                match (request.kind, buffer) {
                    (OperationKind::Read, Some(index)) => {
                        opcode::ReadFixed::new($file, memory, length, index).offset(offset).build()
                    }
                    (OperationKind::Write, Some(index)) => {
                        opcode::WriteFixed::new($file, memory, length, index).offset(offset).build()
                    }
                    (OperationKind::Read, None) => opcode::Read::new($file, memory, length).offset(offset).build(),
                    (OperationKind::Write, None) => opcode::Write::new($file, memory, length).offset(offset).build(),
                    (OperationKind::Trim, _) => {
                        opcode::Fallocate::new($file, u64::from(length)).offset(offset).mode(PUNCH).build()
                    }
                    (OperationKind::SyncFileRange, _) => {
                        opcode::SyncFileRange::new($file, length).offset(offset).flags(WHOLE_SYNC).build()
                    }
                    _ => opcode::Fsync::new($file).flags(data_only).build(),
                }
            };
        }
        let entry = if self.registered.files { entry!(Fixed(request.address.file)) } else { entry!(Fd(descriptor)) };
        Ok(entry.user_data(given_back | u64::from(request.slot)))
    }

    /// Trims a device: before Linux 6.12 `io_uring` has no call for it.
    #[cold]
    fn discard(&mut self, request: &Request) -> Result<(), EngineError> {
        let (descriptor, _) = self.files.target(request, &self.slots)?;
        self.waited = true;
        self.early.push(Completion { slot: request.slot, result: local::trim(descriptor, true, request) });
        Ok(())
    }
}

impl Engine for UringEngine {
    #[inline]
    fn send_batch(_in_flight: usize) -> usize {
        files::SEND_BATCH
    }

    #[inline]
    fn submit(&mut self, request: Request) -> Result<(), EngineError> {
        if request.kind == OperationKind::Trim && self.files.is_device(&request) {
            return self.discard(&request);
        }
        let entry = self.entry(&request)?;
        // SAFETY: the entry's buffer and file stay until it has completed; see `drop`.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.send_early()?;
        }
        self.queued += 1;
        if self.queued >= Self::send_batch(self.in_flight) { self.send_early() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), EngineError> {
        if self.queued > 0 { self.send_early() } else { Ok(()) }
    }

    fn reap(&mut self, min: usize, deadline: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        let early = self.early.len();
        done.append(&mut self.early);
        let outstanding = self.queued + self.in_flight;
        // With nothing outstanding there is only the deadline to wait for.
        let most = if outstanding == 0 && early == 0 && deadline != Nanos::MAX { 1 } else { outstanding };
        let min = min.saturating_sub(early).min(most);
        if self.queued > 0 || (outstanding > 0 || min > 0) && self.ring.completion().len() < min.max(1) {
            self.enter(min, deadline)?;
        }
        self.take_completions(done);
        Ok(())
    }

    fn settle(&mut self) -> Result<(), EngineError> {
        self.files.settle()
    }

    fn drop_cached_pages(&mut self, files: Range<usize>) -> Result<(), EngineError> {
        self.files.drop_cached_pages(files)
    }

    fn describe(&self) -> String {
        let registered = match (self.registered.files, self.registered.slots_per_buffer) {
            (true, Some(_)) => "registered buffers and files",
            (true, None) => "registered files",
            (false, Some(_)) => "registered buffers",
            (false, None) => "nothing registered",
        };
        format!("io_uring, {registered}")
    }

    fn labels(&self) -> Vec<String> {
        let labels = [
            ("uring_files_not_registered", !self.registered.files),
            ("uring_buffers_not_registered", self.registered.slots_per_buffer.is_none()),
            // The threads' CPU time is not counted as the worker's, and each operation switches threads twice.
            ("uring_kernel_threads", self.threaded),
            ("uring_waits_for_trims", self.waited),
        ];
        labels.into_iter().filter(|(_, applies)| *applies).map(|(label, _)| label.to_owned()).collect()
    }
}

impl Drop for UringEngine {
    /// Waits for operations in flight, so that no buffer is written to after it was freed.
    fn drop(&mut self) {
        // Entries that were never sent are dropped with the queue.
        self.queued = 0;
        while self.in_flight > 0 {
            if self.enter(1, Nanos::MAX).is_err() {
                // Leaks the memory: the kernel may still write to it.
                std::mem::forget(self.slots.clone());
                return;
            }
            self.take_completions(&mut Vec::new());
        }
    }
}

/// A ring with the best set-up that this kernel supports.
fn new_ring(depth: u32) -> Result<IoUring, EngineError> {
    let mut refusal = None;
    for setup in SETUPS {
        match build_ring(setup, depth) {
            Ok(ring) => return Ok(ring),
            Err(source) if source.raw_os_error() == Some(libc::EINVAL) => refusal = Some(source),
            Err(source) => return Err(setup_error(&source)),
        }
    }
    Err(setup_error(&refusal.unwrap_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))))
}

/// Options of a ring that newer kernels have.
type RingSetup = fn(&mut Builder);

/// Best first. Deferred task work (Linux 6.1) completes operations in batches on entry instead of by interrupting the
/// thread at each; no array between queue and entries needs 6.6; cooperative task work 5.19 (with a single issuer 6.0).
const SETUPS: [RingSetup; 4] = [
    |ring| {
        ring.setup_single_issuer().setup_defer_taskrun().setup_submit_all().setup_no_sqarray();
    },
    |ring| {
        ring.setup_single_issuer().setup_defer_taskrun().setup_submit_all();
    },
    |ring| {
        ring.setup_coop_taskrun().setup_submit_all();
    },
    |_| {},
];

fn build_ring(setup: RingSetup, depth: u32) -> io::Result<IoUring> {
    let mut ring = IoUring::builder();
    setup(&mut ring);
    // A depth beyond the kernel's limit is cut to it: `submit` then sends before the reap.
    ring.setup_clamp().build(depth.max(1))
}

fn setup_error(source: &io::Error) -> EngineError {
    let advice = match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "; it is denied here: check the sysctl kernel.io_uring_disabled (0 allows it) and the container's seccomp profile, or use --ioengine=libaio instead"
        }
        Some(libc::ENOSYS) => {
            "; this kernel has no io_uring (or a seccomp filter hides it): use --ioengine=libaio instead"
        }
        Some(libc::ENOMEM) => "; raise the limit on locked memory (ulimit -l) or use --ioengine=libaio instead",
        _ => "; use --ioengine=libaio instead",
    };
    EngineError::Plan(format!("set up io_uring: {source}{advice}"))
}

/// Registers the buffers; returns the slots of each registered buffer, or `None` if the kernel refuses.
///
/// A few large buffers cost the kernel less to look up than many; it takes at most 1 GiB in one and 16384 of them.
fn register_buffers(ring: &IoUring, slots: &SlotMap) -> Option<u32> {
    let slots_per_buffer = ((1_usize << 30) / slots.stride()).clamp(1, slots.count().max(1));
    let pieces: Vec<libc::iovec> = (0..slots.count())
        .step_by(slots_per_buffer)
        .map(|first| libc::iovec {
            iov_base: slots.slot(first as u32).cast(),
            iov_len: slots_per_buffer.min(slots.count() - first) * slots.stride(),
        })
        .collect();
    // SAFETY: the memory lives as long as the engine, and the ring is closed before the memory is freed.
    unsafe { ring.submitter().register_buffers(&pieces) }.ok().map(|()| slots_per_buffer as u32)
}

/// Waits for a completion, or until the time is over; the caller checks the ring in both cases.
fn poll_ring(ring: &IoUring, remaining: Duration) {
    let mut poll = libc::pollfd { fd: ring.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let timeout = libc::timespec { tv_sec: remaining.as_secs() as i64, tv_nsec: i64::from(remaining.subsec_nanos()) };
    // SAFETY: one descriptor, and a timeout that outlives the call.
    unsafe { libc::ppoll(&raw mut poll, 1, &raw const timeout, std::ptr::null()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::testing::{Scratch, check_engine, open, setup};

    #[test]
    fn passes_the_engine_suite() {
        check_engine(UringEngine::open);
    }

    /// Kernels from 5.1 on support one of the set-ups; each that this kernel supports is tested.
    #[test]
    fn passes_it_with_every_set_up() {
        fn opener<const SETUP: usize>(setup: Setup<'_>) -> Result<UringEngine, EngineError> {
            // Four entries only: the queue overflows into the kernel at every batch.
            let ring = build_ring(SETUPS[SETUP], setup.depth.min(4)).map_err(|source| setup_error(&source))?;
            UringEngine::over(ring, setup)
        }
        let known = |setup| build_ring(setup, 1).is_ok();
        let openers = [opener::<0>, opener::<1>, opener::<2>, opener::<3>];
        for (setup, opener) in SETUPS.into_iter().zip(openers).filter(|(setup, _)| known(*setup)) {
            assert!(known(setup));
            check_engine(opener);
        }
    }

    #[test]
    fn passes_it_with_nothing_registered() {
        check_engine(|setup| {
            let mut engine = UringEngine::open(setup)?;
            engine.registered = Registered { files: false, slots_per_buffer: None };
            engine.threaded = false;
            assert_eq!(engine.describe(), "io_uring, nothing registered");
            assert_eq!(engine.labels(), ["uring_files_not_registered", "uring_buffers_not_registered"]);
            Ok(engine)
        });
    }

    #[test]
    fn reports_registration_and_kernel_threads() {
        let scratch = Scratch::with_file("registered", 4096);
        let (files, open) = ([scratch.plan(4096)], open(false));
        let mut engine = UringEngine::open(setup(&open, &files, false, 4)).unwrap();
        assert_eq!(engine.describe(), "io_uring, registered buffers and files");
        engine.threaded = false;
        assert_eq!(engine.labels(), Vec::<String>::new());
        engine.threaded = true;
        assert_eq!(engine.labels(), ["uring_kernel_threads"]);
    }

    #[test]
    fn a_refused_ring_names_the_settings_to_check_and_an_alternative() {
        let text = |errno| setup_error(&io::Error::from_raw_os_error(errno)).to_string();
        assert!(text(libc::EPERM).contains("kernel.io_uring_disabled"));
        for errno in [libc::EPERM, libc::ENOSYS, libc::ENOMEM, libc::EINVAL] {
            assert!(text(errno).ends_with("use --ioengine=libaio instead"), "{}", text(errno));
        }
    }

    #[test]
    fn polls_if_the_kernel_cannot_time_out() {
        let ring = build_ring(SETUPS[3], 1).unwrap();
        let clock = Clock::new();
        poll_ring(&ring, Duration::from_millis(2));
        assert!(clock.now() >= 2_000_000);
    }
}
