//! Linux native AIO (`io_submit`, `io_getevents`), which other tools call libaio.

use std::io;
use std::ops::Range;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use iocurve_meter::{Clock, Nanos, SECOND};

use crate::engines::buffers::SlotMap;
use crate::engines::files::{self, LocalFiles};
use crate::engines::local::{self, Setup};
use crate::engines::request::{Completion, Engine, Request};
use crate::error::EngineError;
use crate::plan::OperationKind;

/// Sends a few requests at a time; see [`files::SEND_BATCH`].
#[derive(Debug)]
pub struct AioEngine {
    context: Context,
    files: LocalFiles,
    slots: SlotMap,
    clock: Clock,
    direct: bool,
    /// A flush or trim that native AIO does not have was done inside `submit`.
    waited: bool,
    /// One per slot, at a fixed address while the kernel may access it.
    controls: Box<[Control]>,
    /// Submitted but not sent yet, oldest first.
    queued: Vec<*mut Control>,
    /// Sent and not reaped.
    in_flight: usize,
    /// Completed while sending, for the next reap.
    early: Vec<Completion>,
    events: Box<[Event]>,
}

impl AioEngine {
    /// Opens the files and a context for `depth` operations.
    pub fn open(setup: Setup<'_>) -> Result<Self, EngineError> {
        let slots = setup.slots;
        Ok(Self {
            files: LocalFiles::open(setup.open, setup.files, setup.writes)?,
            context: Context::new(setup.depth.max(1))?,
            clock: setup.clock,
            direct: setup.open.direct,
            waited: false,
            controls: vec![Control::default(); slots.count()].into(),
            queued: Vec::with_capacity(slots.count()),
            in_flight: 0,
            early: Vec::new(),
            events: vec![Event::default(); slots.count().max(1)].into(),
            slots,
        })
    }

    /// Sends queued requests. A request that the kernel refuses is a completion, unless the kernel's queue is full.
    fn submit_queued(&mut self, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        let mut next = 0;
        while next < self.queued.len() {
            match self.context.submit(&mut self.queued[next..]) {
                Ok(count) => {
                    next += count;
                    self.in_flight += count;
                }
                Err(source) if is_interruption(&source) => {}
                // Queue full: operations in flight must complete first; a later reap sends the rest.
                Err(source) if source.raw_os_error() == Some(libc::EAGAIN) && self.in_flight > 0 => break,
                Err(source) if source.raw_os_error() == Some(libc::EAGAIN) => {
                    return Err(EngineError::System { action: "submit to native AIO", source });
                }
                Err(source) => {
                    // SAFETY: points into `controls`, and the kernel did not take it.
                    let control = unsafe { *self.queued[next] };
                    done.push(Completion { slot: control.data as u32, result: self.refused(&control, &source) });
                    next += 1;
                }
            }
        }
        self.queued.drain(..next);
        Ok(())
    }

    /// Result of an operation that the kernel refused. Before Linux 4.18 it refused flushes: they are done here.
    #[cold]
    fn refused(&mut self, control: &Control, source: &io::Error) -> i64 {
        let errno = source.raw_os_error().unwrap_or(libc::EIO);
        if errno == libc::EINVAL && matches!(control.opcode, IOCB_CMD_FSYNC | IOCB_CMD_FDSYNC) {
            self.waited = true;
            let kind = if control.opcode == IOCB_CMD_FDSYNC { OperationKind::Fdatasync } else { OperationKind::Fsync };
            return local::sync_file(kind, control.descriptor as RawFd);
        }
        -i64::from(errno)
    }

    /// Performs an operation that native AIO has no call for.
    #[cold]
    fn wait_for(&mut self, request: &Request, descriptor: RawFd) {
        self.waited = true;
        let result = match request.kind {
            OperationKind::Trim => local::trim(descriptor, self.files.is_device(request), request),
            _ => local::flush(descriptor, request),
        };
        self.early.push(Completion { slot: request.slot, result });
    }

    /// Waits for at least `min` in the kernel, or takes the available completions with `min` 0.
    fn wait(&mut self, min: usize, deadline: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        let timeout = (deadline != Nanos::MAX).then(|| timespec(deadline.saturating_sub(self.clock.now())));
        match self.context.events(min, &mut self.events, timeout) {
            Ok(count) => {
                self.in_flight -= count;
                done.extend(self.events[..count].iter().map(Event::completion));
                Ok(())
            }
            Err(source) if is_interruption(&source) => Ok(()),
            Err(source) => Err(EngineError::System { action: "wait for native AIO", source }),
        }
    }
}

impl Engine for AioEngine {
    /// At most the number in flight: `io_submit` starts the first request of a batch after it has prepared the last, and
    /// a device with little to do would idle until then.
    #[inline]
    fn send_batch(in_flight: usize) -> usize {
        in_flight.clamp(1, files::SEND_BATCH)
    }

    fn submit(&mut self, request: Request) -> Result<(), EngineError> {
        let (descriptor, memory) = self.files.target(&request, &self.slots)?;
        let transfer = |opcode| Control {
            opcode,
            buffer: memory as u64,
            bytes: u64::from(request.address.length),
            offset: request.address.offset as i64,
            ..Control::default()
        };
        let call = match request.kind {
            OperationKind::Read => transfer(IOCB_CMD_PREAD),
            OperationKind::Write => transfer(IOCB_CMD_PWRITE),
            OperationKind::Fsync | OperationKind::FsyncAtEnd => {
                Control { opcode: IOCB_CMD_FSYNC, ..Control::default() }
            }
            OperationKind::Fdatasync => Control { opcode: IOCB_CMD_FDSYNC, ..Control::default() },
            _ => {
                self.wait_for(&request, descriptor);
                return Ok(());
            }
        };
        let control = &mut self.controls[request.slot as usize];
        *control = Control { data: u64::from(request.slot), descriptor: descriptor as u32, ..call };
        self.queued.push(ptr::from_mut(control));
        if self.queued.len() < Self::send_batch(self.in_flight) { Ok(()) } else { self.send() }
    }

    /// With the page cache, the kernel does all the work in `io_submit`.
    fn sending_blocks(&self) -> bool {
        !self.direct
    }

    fn send(&mut self) -> Result<(), EngineError> {
        let mut early = std::mem::take(&mut self.early);
        let outcome = self.submit_queued(&mut early);
        self.early = early;
        outcome
    }

    fn reap(&mut self, min: usize, deadline: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        let before = done.len();
        done.append(&mut self.early);
        self.submit_queued(done)?;
        self.in_flight -= self.context.finished(done);
        let taken = done.len() - before;
        let missing = min.saturating_sub(taken);
        if missing == 0 || (self.in_flight == 0 && (taken > 0 || deadline == Nanos::MAX)) {
            // Without the mapped ring, only the kernel knows the completions.
            return if self.context.ring.is_some() { Ok(()) } else { self.wait(0, 0, done) };
        }
        // With nothing in flight this sleeps until the deadline.
        self.wait(missing.min(self.in_flight.max(1)), deadline, done)
    }

    fn settle(&mut self) -> Result<(), EngineError> {
        self.files.settle()
    }

    fn drop_cached_pages(&mut self, files: Range<usize>) -> Result<(), EngineError> {
        self.files.drop_cached_pages(files)
    }

    fn describe(&self) -> String {
        "Linux native AIO".to_owned()
    }

    fn labels(&self) -> Vec<String> {
        let labels = [("aio_buffered_is_synchronous", !self.direct), ("aio_waits_for_trims_and_flushes", self.waited)];
        labels.into_iter().filter(|(_, applies)| *applies).map(|(label, _)| label.to_owned()).collect()
    }
}

const IOCB_CMD_PREAD: u16 = 0;
const IOCB_CMD_PWRITE: u16 = 1;
const IOCB_CMD_FSYNC: u16 = 2;
const IOCB_CMD_FDSYNC: u16 = 3;

/// `struct iocb` (`linux/aio_abi.h`).
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Control {
    data: u64,
    #[cfg(target_endian = "little")]
    key: u32,
    flags_of_rw: i32,
    #[cfg(target_endian = "big")]
    key: u32,
    opcode: u16,
    priority: i16,
    descriptor: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_descriptor: u32,
}

/// `struct io_event` (`linux/aio_abi.h`).
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Event {
    data: u64,
    object: u64,
    result: i64,
    result2: i64,
}

impl Event {
    fn completion(&self) -> Completion {
        Completion { slot: self.data as u32, result: self.result }
    }
}

/// The start of the completion ring that the kernel maps at the context's address (`struct aio_ring`, `fs/aio.c`).
#[repr(C, align(8))]
struct Ring {
    id: u32,
    count: u32,
    head: AtomicU32,
    tail: AtomicU32,
    magic: u32,
    compatible_features: u32,
    incompatible_features: u32,
    header_bytes: u32,
}

/// An AIO context of the kernel.
#[derive(Debug)]
struct Context {
    id: libc::c_ulong,
    /// The mapped ring, if it has the layout known here: completions are then read without a system call.
    ring: Option<*const Ring>,
}

impl Context {
    fn new(depth: u32) -> Result<Self, EngineError> {
        let mut id: libc::c_ulong = 0;
        // SAFETY: io_setup writes the id.
        let code = unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut id) };
        if code < 0 {
            return Err(setup_error(depth, &io::Error::last_os_error()));
        }
        Ok(Self { id, ring: mapped_ring(id) })
    }

    /// Sends requests from the front; returns the number taken, at least one.
    fn submit(&self, controls: &mut [*mut Control]) -> io::Result<usize> {
        // SAFETY: each points to a control block whose buffer and descriptor live until its event.
        count(unsafe { libc::syscall(libc::SYS_io_submit, self.id, controls.len(), controls.as_mut_ptr()) })
    }

    fn events(&self, min: usize, events: &mut [Event], mut timeout: Option<libc::timespec>) -> io::Result<usize> {
        let timeout = timeout.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        // SAFETY: at most `events.len()` events are written.
        count(unsafe {
            libc::syscall(libc::SYS_io_getevents, self.id, min, events.len(), events.as_mut_ptr(), timeout)
        })
    }

    /// Takes the completions in the mapped ring; returns their number.
    fn finished(&self, done: &mut Vec<Completion>) -> usize {
        let Some(ring) = self.ring else { return 0 };
        // SAFETY: `mapped_ring` checked the layout; the mapping lives as long as the context. This thread alone moves
        // the head, and the kernel writes an event before it moves the tail.
        unsafe {
            let events = ring.byte_add((*ring).header_bytes as usize).cast::<Event>();
            let (mut head, tail) = ((*ring).head.load(Ordering::Relaxed), (*ring).tail.load(Ordering::Acquire));
            let before = done.len();
            while head != tail {
                done.push((*events.add(head as usize)).completion());
                head = (head + 1) % (*ring).count;
            }
            (*ring).head.store(head, Ordering::Release);
            done.len() - before
        }
    }
}

impl Drop for Context {
    /// Waits for operations in flight, so that no buffer is written to after it was freed.
    fn drop(&mut self) {
        // SAFETY: the id is this context's own.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.id) };
    }
}

fn mapped_ring(id: libc::c_ulong) -> Option<*const Ring> {
    const MAGIC: u32 = 0xa10a_10a1;
    let ring = id as *const Ring;
    // SAFETY: the id of a context is the address of its ring; libaio relies on the same.
    let known = unsafe { (*ring).magic == MAGIC && (*ring).incompatible_features == 0 };
    known.then_some(ring)
}

fn setup_error(depth: u32, source: &io::Error) -> EngineError {
    let advice = match source.raw_os_error() {
        Some(libc::EAGAIN) => {
            format!("; {depth} more operations exceed the sysctl fs.aio-max-nr: raise it or use a smaller depth")
        }
        Some(libc::ENOSYS | libc::EPERM) => {
            "; the kernel or a seccomp filter denies native AIO: use --ioengine=io_uring instead".to_owned()
        }
        _ => String::new(),
    };
    EngineError::Plan(format!("set up native AIO: {source}{advice}"))
}

fn timespec(nanos: Nanos) -> libc::timespec {
    libc::timespec { tv_sec: (nanos / SECOND) as i64, tv_nsec: (nanos % SECOND) as i64 }
}

fn count(code: libc::c_long) -> io::Result<usize> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(code as usize) }
}

fn is_interruption(source: &io::Error) -> bool {
    source.raw_os_error() == Some(libc::EINTR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::request::Address;
    use crate::engines::testing::{Scratch, check_engine, open, setup};

    #[test]
    fn passes_the_engine_suite() {
        check_engine(AioEngine::open);
    }

    #[test]
    fn passes_it_without_the_mapped_ring() {
        check_engine(|setup| {
            let mut engine = AioEngine::open(setup)?;
            engine.context.ring = None;
            Ok(engine)
        });
    }

    #[test]
    fn a_batch_is_no_larger_than_what_is_in_flight() {
        let scratch = Scratch::with_file("batches", 64 * 4096);
        let (files, open) = ([scratch.plan(64 * 4096)], open(false));
        let mut engine = AioEngine::open(setup(&open, &files, false, 64)).unwrap();
        let waiting = (0..40).map(|slot| {
            let address = Address { file: 0, offset: u64::from(slot) * 4096, length: 4096 };
            engine.submit(Request { slot, kind: OperationKind::Read, address }).unwrap();
            engine.queued.len()
        });
        let batches = [vec![0, 0], vec![1, 0], vec![1, 2, 3, 0], [1, 2, 3, 4, 5, 6, 7, 0].repeat(4)];
        assert_eq!(waiting.collect::<Vec<_>>(), batches.concat());
        let mut done = Vec::new();
        engine.reap(40, SECOND, &mut done).unwrap();
        assert_eq!(done.len(), 40);
    }

    #[test]
    fn says_when_it_had_to_wait() {
        let scratch = Scratch::with_file("waits", 4096);
        let (files, open) = ([scratch.plan(4096)], open(true));
        let mut engine = AioEngine::open(setup(&open, &files, true, 1)).unwrap();
        let request =
            Request { slot: 0, kind: OperationKind::Fsync, address: Address { file: 0, offset: 0, length: 0 } };
        engine.submit(request).unwrap();
        assert_eq!(engine.labels(), Vec::<String>::new());
        engine
            .submit(Request {
                kind: OperationKind::Trim,
                address: Address { length: 4096, ..request.address },
                ..request
            })
            .unwrap();
        assert_eq!(engine.labels(), ["aio_waits_for_trims_and_flushes"]);
    }

    #[test]
    fn a_flush_that_the_kernel_does_not_take_is_done_at_once() {
        let scratch = Scratch::with_file("flush", 4096);
        let (files, open) = ([scratch.plan(4096)], open(true));
        let mut engine = AioEngine::open(setup(&open, &files, true, 1)).unwrap();
        let descriptor = engine.files.descriptors()[0] as u32;
        let flush = Control { opcode: IOCB_CMD_FSYNC, descriptor, ..Control::default() };
        let unknown = io::Error::from_raw_os_error(libc::EINVAL);
        assert_eq!(engine.refused(&flush, &unknown), 0);
        assert_eq!(engine.refused(&Control { descriptor: u32::MAX, ..flush }, &unknown), -i64::from(libc::EBADF));
        let read = Control { opcode: IOCB_CMD_PREAD, ..flush };
        assert_eq!(engine.refused(&read, &unknown), -i64::from(libc::EINVAL));
    }

    #[test]
    fn a_refused_setup_names_the_limit() {
        let text = |errno| setup_error(64, &io::Error::from_raw_os_error(errno)).to_string();
        assert_eq!(
            text(libc::EAGAIN),
            "set up native AIO: Resource temporarily unavailable (os error 11); 64 more operations exceed the sysctl fs.aio-max-nr: raise it or use a smaller depth"
        );
        assert!(text(libc::ENOSYS).ends_with("use --ioengine=io_uring instead"));
    }
}
