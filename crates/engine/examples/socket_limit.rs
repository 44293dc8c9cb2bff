//! Moves the bytes of NFS calls and replies over loopback, and does nothing else: the rate that this machine's sockets allow.
//!
//! `cargo run --release --example socket_limit -- CONNECTIONS DEPTH REQUEST_BYTES REPLY_BYTES --runtime=1000ms` prints fio's
//! JSON; further options of fio's form are ignored, so that the bench runs it as it runs fio.
//!
//! Each connection has a client thread and a server thread. A client sends as many requests as it has received whole replies,
//! in one call; a server answers all requests that it has received, in one call. Nothing is parsed. Replies of 32 KiB and more
//! are discarded in the kernel, as our NFS client does with payload that nobody reads.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use serde_json::json;

const BUFFER_BYTES: usize = 1 << 20;
/// Replies from this size on are discarded unread.
const DISCARD_BYTES: usize = 32 << 10;

#[derive(Clone, Copy)]
struct Load {
    connections: usize,
    depth: usize,
    request_bytes: usize,
    reply_bytes: usize,
    runtime: Duration,
}

fn main() -> io::Result<()> {
    let Some(load) = load() else {
        eprintln!("usage: socket_limit CONNECTIONS DEPTH REQUEST_BYTES REPLY_BYTES --runtime=1000ms");
        std::process::exit(2);
    };
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let start = Instant::now();
    let (clients, servers): (Vec<_>, Vec<_>) = (0..load.connections)
        .map(|_| -> io::Result<_> {
            let client = TcpStream::connect(listener.local_addr()?)?;
            let (server, _) = listener.accept()?;
            client.set_nodelay(true)?;
            server.set_nodelay(true)?;
            let end = start + load.runtime;
            let client = std::thread::spawn(move || run_client(client, load, end));
            Ok((client, std::thread::spawn(move || run_server(server, load))))
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
    let &[connections, depth, request_bytes, reply_bytes] = numbers.as_slice() else { return None };
    let milliseconds = options.iter().find_map(|option| option.strip_prefix("--runtime=")?.strip_suffix("ms"))?;
    let runtime = Duration::from_millis(milliseconds.parse().ok()?);
    (!numbers.contains(&0)).then_some(Load { connections, depth, request_bytes, reply_bytes, runtime })
}

/// Keeps `depth` requests in flight until the end, and returns the number of replies.
fn run_client(mut socket: TcpStream, load: Load, end: Instant) -> io::Result<u64> {
    let requests = vec![0; load.depth * load.request_bytes];
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut operations, mut partial) = (0, 0);
    socket.write_all(&requests)?;
    while Instant::now() < end {
        partial += receive(&mut socket, &mut buffer, load.reply_bytes >= DISCARD_BYTES)?;
        let whole = partial / load.reply_bytes;
        partial %= load.reply_bytes;
        socket.write_all(&requests[..whole * load.request_bytes])?;
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
fn run_server(mut socket: TcpStream, load: Load) -> io::Result<()> {
    let replies = vec![0; load.depth * load.reply_bytes];
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut partial = 0;
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(received) => partial += received,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error),
        }
        let whole = partial / load.request_bytes;
        partial %= load.request_bytes;
        match socket.write_all(&replies[..whole * load.reply_bytes]) {
            Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                return Ok(());
            }
            result => result?,
        }
    }
}

fn print(load: Load, operations: u64, elapsed: Duration) {
    let iops = operations as f64 / elapsed.as_secs_f64();
    let bytes = load.request_bytes.max(load.reply_bytes) as f64;
    let kind = json!({"total_ios": operations, "iops": iops, "bw_bytes": iops * bytes, "clat_ns": {}});
    println!("{}", json!({"jobs": [{"read": kind, "write": {"total_ios": 0}}]}));
}
