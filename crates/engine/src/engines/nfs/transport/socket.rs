//! A thin wrapper around a TCP socket.
//!
//! Sockets block, so that a worker with one connection can wait in `recv` itself.

use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use iocurve_meter::Nanos;
use iocurve_tls::{Channel, ClientTls, Wait};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::super::stream::Stream;
use crate::outcome::ConnectionOutcome;

/// Most time of a blocking receive: less than a worker's wait, so that deadlines are met.
pub(in crate::engines::nfs) const RECEIVE_WAIT_NS: Nanos = 20_000_000;
/// A send neither waits nor raises a signal.
const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// Privileged ports, without those below 665 that well-known services use (as the Linux NFS client chooses).
const RESERVED_PORTS: std::ops::RangeInclusive<u32> = 665..=1023;
/// Reserved ports tried before an ephemeral one is taken.
const RESERVED_PORT_TRIES: u32 = 8;

/// Congestion control towards servers on this machine. BBR sends by timers, which halves WRITE throughput on loopback.
const LOOPBACK_CONGESTION: &str = "reno";
/// Send buffer towards servers on this machine: bytes queued in sockets should fit the processor's caches.
const LOOPBACK_SEND_BYTES: usize = 512 << 10;

/// Bytes of `struct tcp_info` up to `tcpi_sndbuf_limited` (Linux 4.10).
const TCP_INFO_BYTES: usize = 192;

/// Both ends of a connection, and its encryption.
#[derive(Debug, Clone)]
pub(in crate::engines::nfs) struct Route {
    /// Address of the server.
    pub peer: SocketAddr,
    /// Address of this machine; `None` leaves the choice to the system.
    pub source: Option<IpAddr>,
    /// TLS, and the NFS version whose NULL call requests it; `None`: nothing is encrypted.
    pub tls: Option<(Arc<ClientTls>, u32)>,
}

impl Route {
    /// Local address to bind to, with this port.
    fn local(&self, port: u16) -> SocketAddr {
        let any = if self.peer.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
        SocketAddr::new(self.source.unwrap_or(any), port)
    }
}

/// Checks that connections can use a local address.
pub(in crate::engines::nfs) fn check_source(source: IpAddr) -> io::Result<()> {
    UdpSocket::bind((source, 0)).map(drop)
}

/// A TCP socket.
#[derive(Debug)]
pub(in crate::engines::nfs) struct Socket {
    fd: OwnedFd,
    /// Seals and opens the bytes of a connection with TLS.
    tls: Option<Box<RefCell<Channel>>>,
}

impl Socket {
    /// Starts to connect; the socket becomes writable when the attempt has ended, and [`Socket::connected`] goes on.
    ///
    /// If the process has the permission, the socket is bound to a privileged port: many servers insist on one.
    pub(in crate::engines::nfs) fn start(route: &Route) -> io::Result<Self> {
        let socket = Self::new(route)?;
        if !socket.bind_reserved(route) {
            return socket.connect_from_any_port(route);
        }
        match socket.connect(&route.peer) {
            // An earlier connection from this port to this server still exists.
            Err(error) if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => {
                Self::new(route)?.connect_from_any_port(route)
            }
            result => result.map(|()| socket),
        }
    }

    /// Result of the attempt to connect: `None` once calls can be sent, or the event that TLS waits for next. From here on
    /// the socket blocks.
    pub(in crate::engines::nfs) fn connected(&self) -> io::Result<Option<Wait>> {
        sockopt::socket_error(&self.fd)??;
        ioctl_fionbio(&self.fd, false)?;
        let establish = |channel: &RefCell<Channel>| channel.borrow_mut().establish(&mut self.plain(false));
        self.tls.as_deref().map_or(Ok(None), establish)
    }

    /// The socket without TLS; only its first receive may wait, and only if it `waits`.
    fn plain(&self, waits: bool) -> Plain<'_> {
        Plain { socket: &self.fd, waits }
    }

    /// Waits until the socket can be read (`write`: written) or `wait_ns` have passed; returns `true` if it can.
    pub(in crate::engines::nfs) fn wait(&self, write: bool, wait_ns: Nanos) -> io::Result<bool> {
        self.wait_for(if write { libc::POLLOUT } else { libc::POLLIN }, wait_ns).map(|events| events != 0)
    }

    /// Waits until the socket has one of these events (`poll(2)`) or `wait_ns` have passed; returns the events that it has.
    pub(in crate::engines::nfs) fn wait_for(&self, events: libc::c_short, wait_ns: Nanos) -> io::Result<libc::c_short> {
        let mut entry = libc::pollfd { fd: self.as_raw_fd(), events, revents: 0 };
        let timeout = timespec(wait_ns);
        // SAFETY: one valid pollfd and a timespec, both on this stack.
        match check(unsafe { libc::ppoll(&raw mut entry, 1, &raw const timeout, std::ptr::null()) } as isize) {
            Ok(_) => Ok(entry.revents),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Name of the congestion control in use.
    pub(in crate::engines::nfs) fn congestion_control(&self) -> Option<String> {
        sockopt::tcp_congestion(&self.fd).ok()
    }

    /// State of the connection, by `struct tcp_info` (include/uapi/linux/tcp.h); what an older kernel lacks is 0.
    pub(in crate::engines::nfs) fn tcp_info(&self) -> Option<ConnectionOutcome> {
        let mut info = [0_u8; TCP_INFO_BYTES];
        let mut length = info.len() as libc::socklen_t;
        // SAFETY: the array has room for `length` bytes.
        let result = unsafe {
            let option = libc::TCP_INFO;
            libc::getsockopt(self.as_raw_fd(), libc::IPPROTO_TCP, option, info.as_mut_ptr().cast(), &raw mut length)
        };
        check(result as isize).ok()?;
        let word = |at: usize| u32::from_ne_bytes(info[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_ne_bytes(info[at..at + 8].try_into().expect("eight bytes"));
        let micros = |micros: u64| micros * 1_000;
        Some(ConnectionOutcome {
            segment_bytes: word(16),
            rtt_ns: micros(word(68).into()),
            congestion_window: word(80),
            retransmits: word(100),
            rtt_ns_min: micros(word(148).into()),
            busy_ns: micros(long(168)),
            receive_window_limited_ns: micros(long(176)),
            send_buffer_limited_ns: micros(long(184)),
            sent_bytes: long(120),
            received_bytes: long(128),
        })
    }

    fn new(route: &Route) -> io::Result<Self> {
        let address = &route.peer;
        let tls = route.tls.as_ref().map(|(tls, version)| Channel::client(tls, *version)).transpose()?;
        let tls = tls.map(|channel| Box::new(RefCell::new(channel)));
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&fd, true)?;
        if address.ip().is_loopback() {
            // Both only improve speed.
            let _ = sockopt::set_tcp_congestion(&fd, LOOPBACK_CONGESTION);
            let _ = sockopt::set_socket_send_buffer_size(&fd, LOOPBACK_SEND_BYTES);
        }
        // Detects a server that vanished, even when all our bytes are acknowledged.
        sockopt::set_socket_keepalive(&fd, true)?;
        sockopt::set_tcp_keepidle(&fd, Duration::from_secs(10))?;
        sockopt::set_tcp_keepintvl(&fd, Duration::from_secs(5))?;
        sockopt::set_socket_timeout(&fd, Timeout::Recv, Some(Duration::from_nanos(RECEIVE_WAIT_NS)))?;
        Ok(Self { fd, tls })
    }

    fn connect_from_any_port(self, route: &Route) -> io::Result<Self> {
        if route.source.is_some() {
            // The port is chosen when connecting, so that connections to other servers may use the same one. Without
            // it, ports are only scarcer.
            let _ = self.choose_port_late();
            net::bind(&self.fd, &route.local(0))?;
        }
        self.connect(&route.peer)?;
        Ok(self)
    }

    /// Best effort: returns `false` without the permission, or if the ports are in use; then any port is used.
    fn bind_reserved(&self, route: &Route) -> bool {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let ports = RESERVED_PORTS.end() - RESERVED_PORTS.start() + 1;
        for _ in 0..RESERVED_PORT_TRIES {
            // Different processes start at different ports, to avoid collisions.
            let step = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id().wrapping_mul(61));
            let port = (RESERVED_PORTS.end() - step % ports) as u16;
            match net::bind(&self.fd, &route.local(port)) {
                Err(Errno::ADDRINUSE) => {}
                Err(_) => return false,
                Ok(()) => {
                    self.free_port_on_close();
                    return true;
                }
            }
        }
        false
    }

    /// Resets the connection on close: otherwise the port would be blocked for a minute, and privileged ports are few.
    /// No data are lost: a connection is closed only when no reply is outstanding on it.
    fn free_port_on_close(&self) {
        // If this fails, ports are only scarcer.
        let _ = sockopt::set_socket_linger(&self.fd, Some(Duration::ZERO));
    }

    fn connect(&self, address: &SocketAddr) -> io::Result<()> {
        match net::connect(&self.fd, address) {
            Err(error) if error != Errno::INPROGRESS => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn choose_port_late(&self) -> io::Result<usize> {
        let (on, length) = (1 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
        let option = libc::IP_BIND_ADDRESS_NO_PORT;
        // SAFETY: the value is valid for its length.
        check(unsafe {
            libc::setsockopt(self.as_raw_fd(), libc::IPPROTO_IP, option, (&raw const on).cast(), length) as isize
        })
    }
}

impl Stream for Socket {
    fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        if let Some(channel) = &self.tls {
            return channel.borrow_mut().send(&mut self.plain(false), pieces);
        }
        if let [piece] = pieces {
            return Ok(net::send(&self.fd, piece, SEND)?);
        }
        let message = message(pieces.as_ptr().cast(), pieces.len());
        // SAFETY: an `IoSlice` is an iovec of readable memory.
        check(unsafe { libc::sendmsg(self.as_raw_fd(), &raw const message, SEND.bits() as libc::c_int) })
    }

    fn receive(&self, into: &mut [IoSliceMut<'_>], waits: bool) -> io::Result<usize> {
        if let Some(channel) = &self.tls {
            return channel.borrow_mut().receive(&mut self.plain(waits), into);
        }
        if let [piece] = into {
            return receive(&self.fd, piece, waits);
        }
        let mut message = message(into.as_ptr().cast(), into.len());
        // SAFETY: an `IoSliceMut` is an iovec of writable memory that nothing else refers to.
        check(unsafe { libc::recvmsg(self.as_raw_fd(), &raw mut message, receive_flags(waits).bits() as libc::c_int) })
    }

    /// Nothing is copied from the kernel (tcp(7), `MSG_TRUNC`).
    fn discard(&self, bytes: usize, waits: bool) -> io::Result<usize> {
        if let Some(channel) = &self.tls {
            return channel.borrow_mut().discard(&mut self.plain(waits), bytes);
        }
        let flags = (receive_flags(waits) | RecvFlags::TRUNC).bits() as libc::c_int;
        // SAFETY: TCP touches no memory with MSG_TRUNC; if it did, a null pointer is an error, not a stray write.
        check(unsafe { libc::recv(self.as_raw_fd(), std::ptr::null_mut(), bytes, flags) })
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// The bytes of a socket as TLS has them.
struct Plain<'s> {
    socket: &'s OwnedFd,
    /// The next receive may wait.
    waits: bool,
}

impl Read for Plain<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        receive(self.socket, into, mem::take(&mut self.waits))
    }
}

impl Write for Plain<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(net::send(self.socket, bytes, SEND)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn receive(socket: &OwnedFd, into: &mut [u8], waits: bool) -> io::Result<usize> {
    Ok(net::recv(socket, into, receive_flags(waits))?.1)
}

fn receive_flags(waits: bool) -> RecvFlags {
    if waits { RecvFlags::empty() } else { RecvFlags::DONTWAIT }
}

fn check(result: isize) -> io::Result<usize> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as usize) }
}

fn timespec(wait_ns: Nanos) -> libc::timespec {
    libc::timespec {
        tv_sec: (wait_ns / iocurve_meter::SECOND) as libc::time_t,
        tv_nsec: (wait_ns % iocurve_meter::SECOND) as libc::c_long,
    }
}

fn message(pieces: *const libc::iovec, count: usize) -> libc::msghdr {
    // SAFETY: all zeros is a valid empty msghdr.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = pieces.cast_mut();
    message.msg_iovlen = count as _;
    message
}
