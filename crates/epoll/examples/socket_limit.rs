//! Moves the bytes of NFS calls and replies over loopback, and does nothing else: the rate that this machine's sockets allow.
//!
//! `cargo run --release --example socket_limit -- CONNECTIONS DEPTH REQUEST_BYTES REPLY_BYTES MEMORY_MIB --runtime=1000ms`
//! prints fio's JSON; further options of fio's form are ignored, so that the bench runs it as it runs fio.
//!
//! Each connection has a client thread and a server thread. A client sends as many requests as it has received whole replies,
//! in one call; a server answers all requests that it has received, in one call. Nothing is parsed.
//!
//! Replies come from random places of `MEMORY_MIB` of memory for each connection, as those of a server come from files: a
//! buffer that stays in the processor's caches would be quicker to copy. Larger replies are sent by reference, without a copy.
//! Replies of 32 KiB and more are discarded by the client's kernel, as our NFS client does with payload that nobody reads.
//!
//! With `--store` a client sends its requests in turn, each from separate memory, and a server copies each to a random place of
//! `MEMORY_MIB` of memory, as a server that keeps what is written has to. Without it both use one buffer over and over.

use std::alloc::Layout;
use std::io::{self, IoSlice, PipeReader, PipeWriter, Read, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

const BUFFER_BYTES: usize = 1 << 20;
/// Replies from this size on are discarded unread.
const DISCARD_BYTES: usize = 32 << 10;
/// Replies from this size on are sent by reference: below it, a copy is cheaper.
const REFERENCE_BYTES: usize = 128 << 10;
const PIPE_BYTES: i32 = 1 << 20;
const HUGE_PAGE_BYTES: usize = 2 << 20;

#[derive(Clone, Copy)]
struct Load {
    connections: usize,
    depth: usize,
    request_bytes: usize,
    reply_bytes: usize,
    memory_bytes: usize,
    stores: bool,
    runtime: Duration,
}

fn main() -> io::Result<()> {
    let Some(load) = load() else {
        eprintln!(
            "usage: socket_limit CONNECTIONS DEPTH REQUEST_BYTES REPLY_BYTES MEMORY_MIB [--store] --runtime=1000ms"
        );
        std::process::exit(2);
    };
    let listener = TcpListener::bind("127.0.0.1:0")?;
    send_unpaced(&listener)?;
    let memory = |_| Ok((Replies::new(load)?, load.stores.then(|| Store::new(load))));
    let memories = (0..load.connections).map(memory).collect::<io::Result<Vec<_>>>()?;
    let start = Instant::now();
    let (clients, servers): (Vec<_>, Vec<_>) = memories
        .into_iter()
        .map(|(replies, store)| -> io::Result<_> {
            let client = connect(&listener)?;
            let (server, _) = listener.accept()?;
            client.set_nodelay(true)?;
            server.set_nodelay(true)?;
            let end = start + load.runtime;
            let client = std::thread::spawn(move || run_client(client, load, end));
            Ok((client, std::thread::spawn(move || run_server(server, load, replies, store))))
        })
        .collect::<io::Result<Vec<_>>>()?
        .into_iter()
        .unzip();
    let mut operations = 0;
    for client in clients {
        operations += client.join().expect("a client does not panic")?;
    }
    let elapsed = start.elapsed();
    for server in servers {
        server.join().expect("a server does not panic")?;
    }
    print(load, operations, elapsed);
    Ok(())
}

fn load() -> Option<Load> {
    let (options, numbers): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let numbers: Vec<usize> = numbers.iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let &[connections, depth, request_bytes, reply_bytes, memory_mib] = numbers.as_slice() else { return None };
    let milliseconds = options.iter().find_map(|option| option.strip_prefix("--runtime=")?.strip_suffix("ms"))?;
    let runtime = Duration::from_millis(milliseconds.parse().ok()?);
    let memory_bytes = (memory_mib << 20).max(request_bytes.max(reply_bytes) + 1);
    let stores = options.iter().any(|option| option == "--store");
    let load = Load { connections, depth, request_bytes, reply_bytes, memory_bytes, stores, runtime };
    (!numbers.contains(&0)).then_some(load)
}

/// Connects to the address of a listener.
fn connect(listener: &TcpListener) -> io::Result<TcpStream> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and not shared.
    let socket = unsafe { TcpStream::from_raw_fd(fd) };
    send_unpaced(&socket)?;
    let mut address = MaybeUninit::<libc::sockaddr_storage>::uninit();
    let mut length = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: room for an address of any family; `connect` reads what `getsockname` wrote.
    let result = unsafe {
        match libc::getsockname(listener.as_raw_fd(), address.as_mut_ptr().cast(), &raw mut length) {
            0 => libc::connect(fd, address.as_ptr().cast(), length),
            failed => failed,
        }
    };
    if result == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
}

/// Takes a congestion control that does not send by timers, as our client and volume do on loopback. A socket that is connected
/// already would go on sending by timers.
fn send_unpaced(socket: &impl AsRawFd) -> io::Result<()> {
    let name = b"reno";
    // SAFETY: the name is valid for its length.
    let result = unsafe {
        let (option, length) = (libc::TCP_CONGESTION, name.len() as libc::socklen_t);
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, option, name.as_ptr().cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Keeps `depth` requests in flight until the end, and returns the number of replies.
fn run_client(mut socket: TcpStream, load: Load, end: Instant) -> io::Result<u64> {
    let requests = vec![1; load.depth * load.request_bytes];
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut operations, mut partial, mut next) = (0, 0, 0);
    socket.write_all(&requests)?;
    while Instant::now() < end {
        partial += receive(&mut socket, &mut buffer, load.reply_bytes >= DISCARD_BYTES)?;
        let whole = partial / load.reply_bytes;
        partial %= load.reply_bytes;
        if whole == 0 {
            continue;
        }
        let (before, from) = requests.split_at(next);
        let sent = whole * load.request_bytes;
        let first = sent.min(from.len());
        write_all_vectored(&mut socket, &mut [IoSlice::new(&from[..first]), IoSlice::new(&before[..sent - first])])?;
        if load.stores {
            next = (next + sent) % requests.len();
        }
        operations += whole as u64;
    }
    Ok(operations)
}

/// Receives what is there; discarded bytes are not copied to the buffer.
fn receive(socket: &mut TcpStream, buffer: &mut [u8], is_discarded: bool) -> io::Result<usize> {
    if !is_discarded {
        return socket.read(buffer);
    }
    // SAFETY: the buffer is valid for its length; with MSG_TRUNC the kernel writes nothing to it.
    let received = unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_TRUNC) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}

/// Answers until the client has gone.
fn run_server(mut socket: TcpStream, load: Load, mut replies: Replies, mut store: Option<Store>) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut partial = 0;
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(received) => {
                partial += received;
                if let Some(store) = &mut store {
                    store.write(&buffer[..received]);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error),
        }
        let whole = partial / load.request_bytes;
        partial %= load.request_bytes;
        match replies.send(&mut socket, whole) {
            Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                return Ok(());
            }
            result => result?,
        }
    }
}

/// The memory that replies are taken from.
struct Replies {
    memory: &'static [u8],
    reply_bytes: usize,
    random: Random,
    pipe: Option<(PipeReader, PipeWriter)>,
}

impl Replies {
    fn new(load: Load) -> io::Result<Self> {
        let pipe = if load.reply_bytes < REFERENCE_BYTES { None } else { Some(wide_pipe()?) };
        Ok(Self { memory: huge_pages(load.memory_bytes), reply_bytes: load.reply_bytes, random: Random(1), pipe })
    }

    fn send(&mut self, socket: &mut TcpStream, count: usize) -> io::Result<()> {
        let starts: Vec<usize> = (0..count).map(|_| self.random.page(self.memory.len() - self.reply_bytes)).collect();
        let replies = starts.iter().map(|&start| &self.memory[start..][..self.reply_bytes]);
        match &self.pipe {
            None => write_all_vectored(socket, &mut replies.map(IoSlice::new).collect::<Vec<_>>()),
            Some((read, write)) => {
                replies.into_iter().try_for_each(|reply| send_by_reference(socket, reply, read, write))
            }
        }
    }
}

/// The memory that requests are stored in.
struct Store {
    memory: &'static mut [u8],
    request_bytes: usize,
    random: Random,
    /// Place of the current request, and its bytes that are stored.
    start: usize,
    stored: usize,
}

impl Store {
    fn new(load: Load) -> Self {
        let memory = huge_pages(load.memory_bytes);
        Self { memory, request_bytes: load.request_bytes, random: Random(1), start: 0, stored: 0 }
    }

    fn write(&mut self, mut received: &[u8]) {
        while !received.is_empty() {
            let (part, rest) = received.split_at(received.len().min(self.request_bytes - self.stored));
            self.memory[self.start + self.stored..][..part.len()].copy_from_slice(part);
            (received, self.stored) = (rest, self.stored + part.len());
            if self.stored == self.request_bytes {
                (self.start, self.stored) = (self.random.page(self.memory.len() - self.request_bytes), 0);
            }
        }
    }
}

/// Random numbers (xorshift64).
struct Random(u64);

impl Random {
    /// The start of a page below `end`.
    fn page(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 as usize % end) & !4095
    }
}

/// Memory in huge pages, as the volume's; it stays until the process ends.
fn huge_pages(bytes: usize) -> &'static mut [u8] {
    let layout = Layout::from_size_align(bytes, HUGE_PAGE_BYTES).expect("a size of memory");
    // SAFETY: the memory is fresh, of this size, filled before it is read, and never freed. If the advice fails, pages are small.
    unsafe {
        let start = std::alloc::alloc(layout);
        assert!(!start.is_null(), "no memory");
        libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE);
        start.write_bytes(1, bytes);
        std::slice::from_raw_parts_mut(start, bytes)
    }
}

fn wide_pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let (read, write) = io::pipe()?;
    // SAFETY: the call only takes the descriptor and a number.
    match unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok((read, write)),
    }
}

fn write_all_vectored(socket: &mut TcpStream, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
    while !parts.is_empty() {
        let written = socket.write_vectored(parts)?;
        IoSlice::advance_slices(&mut parts, written);
    }
    Ok(())
}

fn send_by_reference(socket: &TcpStream, mut reply: &[u8], read: &PipeReader, write: &PipeWriter) -> io::Result<()> {
    while !reply.is_empty() {
        let piece = libc::iovec { iov_base: reply.as_ptr().cast_mut().cast(), iov_len: reply.len() };
        // SAFETY: the memory outlives the socket's use of it, and nothing writes to it.
        let mut held = moved(unsafe { libc::vmsplice(write.as_raw_fd(), &raw const piece, 1, 0) })?;
        reply = &reply[held..];
        while held > 0 {
            let (from, to) = (read.as_raw_fd(), socket.as_raw_fd());
            // SAFETY: both descriptors are open, and null stands for their own positions.
            held -= moved(unsafe { libc::splice(from, null_mut(), to, null_mut(), held, libc::SPLICE_F_MOVE) })?;
        }
    }
    Ok(())
}

fn moved(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn print(load: Load, operations: u64, elapsed: Duration) {
    let iops = operations as f64 / elapsed.as_secs_f64();
    let bytes = load.request_bytes.max(load.reply_bytes) as f64;
    let kind =
        format!(r#"{{"total_ios": {operations}, "iops": {iops}, "bw_bytes": {}, "clat_ns": {{}}}}"#, iops * bytes);
    println!(r#"{{"jobs": [{{"read": {kind}, "write": {{"total_ios": 0}}}}]}}"#);
}
