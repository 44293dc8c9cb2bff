//! A thin wrapper around a TCP socket.
//!
//! Sockets block, so that a worker with one connection can wait in `recv` itself; pass [`DONTWAIT`] to avoid waiting.

use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use iocurve_meter::Nanos;
use iocurve_tls::{Channel, ClientTls, Wait};

use crate::outcome::ConnectionOutcome;

/// Most time of a blocking receive: less than a worker's wait, so that deadlines are met.
pub(in crate::engines::nfs) const RECEIVE_WAIT_NS: Nanos = 20_000_000;
/// Flag for [`Socket::receive`] and [`Socket::discard`].
pub(in crate::engines::nfs) const DONTWAIT: libc::c_int = libc::MSG_DONTWAIT;
/// Most pieces in one gathered send (`UIO_MAXIOV`).
pub(in crate::engines::nfs) const PIECES_MAX: usize = 1024;

/// Privileged ports, without those below 665 that well-known services use (as the Linux NFS client chooses).
const RESERVED_PORTS: std::ops::RangeInclusive<u32> = 665..=1023;
/// Reserved ports tried before an ephemeral one is taken.
const RESERVED_PORT_TRIES: u32 = 8;

/// Congestion control towards servers on this machine. BBR sends by timers, which halves WRITE throughput on loopback.
const LOOPBACK_CONGESTION: &[u8; 16] = b"reno\0\0\0\0\0\0\0\0\0\0\0\0";
/// Send buffer towards servers on this machine: bytes queued in sockets should fit the processor's caches.
const LOOPBACK_SEND_BYTES: libc::c_int = 512 << 10;

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
        match self.option(libc::SOL_SOCKET, libc::SO_ERROR)? {
            0 => {
                let off: libc::c_int = 0;
                // SAFETY: FIONBIO reads one int.
                check(unsafe { libc::ioctl(self.as_raw_fd(), libc::FIONBIO, &raw const off) } as isize)?;
                let establish = |channel: &RefCell<Channel>| channel.borrow_mut().establish(&mut self.plain(DONTWAIT));
                self.tls.as_deref().map_or(Ok(None), establish)
            }
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// The socket without TLS; only its first receive may wait, and only without `DONTWAIT`.
    fn plain(&self, flags: libc::c_int) -> Plain<'_> {
        Plain { socket: &self.fd, flags }
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

    /// Sends as much of one piece as the socket accepts now.
    pub(in crate::engines::nfs) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(channel) = &self.tls {
            return channel.borrow_mut().send(&mut self.plain(DONTWAIT), &[IoSlice::new(bytes)]);
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the slice is valid for its length.
        check(unsafe { libc::send(self.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) })
    }

    /// Sends as much as the socket accepts of at most [`PIECES_MAX`] pieces, in one system call.
    ///
    /// # Safety
    /// Every piece points to readable memory.
    pub(in crate::engines::nfs) unsafe fn send_gathered(&self, pieces: &[libc::iovec]) -> io::Result<usize> {
        if let Some(channel) = &self.tls {
            // SAFETY: by this function's contract.
            let slice =
                |piece: &libc::iovec| unsafe { std::slice::from_raw_parts(piece.iov_base.cast(), piece.iov_len) };
            let pieces: Vec<_> = pieces.iter().map(|piece| IoSlice::new(slice(piece))).collect();
            return channel.borrow_mut().send(&mut self.plain(DONTWAIT), &pieces);
        }
        let message = message(pieces);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the pieces are valid by this function's contract.
        check(unsafe { libc::sendmsg(self.as_raw_fd(), &raw const message, flags) })
    }

    /// Receives into one buffer.
    pub(in crate::engines::nfs) fn receive(&self, into: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
        if let Some(channel) = &self.tls {
            return channel.borrow_mut().receive(&mut self.plain(flags), &mut [IoSliceMut::new(into)]);
        }
        // SAFETY: the slice is valid for its length.
        check(unsafe { libc::recv(self.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), flags) })
    }

    /// Receives into several buffers, in order.
    ///
    /// # Safety
    /// Every piece points to writable memory.
    pub(in crate::engines::nfs) unsafe fn receive_scattered(
        &self,
        pieces: &[libc::iovec],
        flags: libc::c_int,
    ) -> io::Result<usize> {
        if let Some(channel) = &self.tls {
            let slice = |piece: &libc::iovec| {
                // SAFETY: by this function's contract.
                unsafe { std::slice::from_raw_parts_mut(piece.iov_base.cast(), piece.iov_len) }
            };
            let mut pieces: Vec<_> = pieces.iter().map(|piece| IoSliceMut::new(slice(piece))).collect();
            return channel.borrow_mut().receive(&mut self.plain(flags), &mut pieces);
        }
        let mut message = message(pieces);
        // SAFETY: the pieces are valid by this function's contract.
        check(unsafe { libc::recvmsg(self.as_raw_fd(), &raw mut message, flags) })
    }

    /// Drops up to `bytes` received bytes in the kernel, without copying them (tcp(7), `MSG_TRUNC`).
    pub(in crate::engines::nfs) fn discard(&self, bytes: usize, flags: libc::c_int) -> io::Result<usize> {
        if let Some(channel) = &self.tls {
            return channel.borrow_mut().discard(&mut self.plain(flags), bytes);
        }
        let flags = flags | libc::MSG_TRUNC;
        // SAFETY: TCP touches no memory with MSG_TRUNC; if it did, a null pointer is an error, not a stray write.
        check(unsafe { libc::recv(self.as_raw_fd(), std::ptr::null_mut(), bytes, flags) })
    }

    /// Name of the congestion control in use.
    pub(in crate::engines::nfs) fn congestion_control(&self) -> Option<String> {
        let mut name = [0_u8; 16];
        let mut length = name.len() as libc::socklen_t;
        // SAFETY: the array has room for `length` bytes.
        let result = unsafe {
            let option = libc::TCP_CONGESTION;
            libc::getsockopt(self.as_raw_fd(), libc::IPPROTO_TCP, option, name.as_mut_ptr().cast(), &raw mut length)
        };
        check(result as isize).ok()?;
        let name = name.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(name).into_owned())
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
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no memory is passed.
        let fd = check(unsafe { libc::socket(family, kind, 0) } as isize)? as RawFd;
        // SAFETY: a new descriptor without another owner.
        let socket = Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, tls };
        socket.set(libc::IPPROTO_TCP, libc::TCP_NODELAY, &1i32)?;
        if address.ip().is_loopback() {
            // Both only improve speed.
            let _ = socket.set(libc::IPPROTO_TCP, libc::TCP_CONGESTION, LOOPBACK_CONGESTION);
            let _ = socket.set(libc::SOL_SOCKET, libc::SO_SNDBUF, &LOOPBACK_SEND_BYTES);
        }
        // Detects a server that vanished, even when all our bytes are acknowledged.
        socket.set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1i32)?;
        socket.set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, &10i32)?;
        socket.set(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, &5i32)?;
        let wait = libc::timeval { tv_sec: 0, tv_usec: (RECEIVE_WAIT_NS / 1000) as libc::suseconds_t };
        socket.set(libc::SOL_SOCKET, libc::SO_RCVTIMEO, &wait)?;
        Ok(socket)
    }

    fn connect_from_any_port(self, route: &Route) -> io::Result<Self> {
        if route.source.is_some() {
            // The port is chosen when connecting, so that connections to other servers may use the same one. Without
            // it, ports are only scarcer.
            let _ = self.set(libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &1i32);
            self.bind(&route.local(0))?;
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
            match self.bind(&route.local(port)) {
                Err(error) if error.raw_os_error() == Some(libc::EADDRINUSE) => {}
                Err(_) => return false,
                Ok(()) => {
                    self.free_port_on_close();
                    return true;
                }
            }
        }
        false
    }

    fn bind(&self, local: &SocketAddr) -> io::Result<()> {
        let (storage, length) = sockaddr(local);
        // SAFETY: the address is valid for its length.
        check(unsafe { libc::bind(self.as_raw_fd(), (&raw const storage).cast(), length) } as isize).map(drop)
    }

    /// Resets the connection on close: otherwise the port would be blocked for a minute, and privileged ports are few.
    /// No data are lost: a connection is closed only when no reply is outstanding on it.
    fn free_port_on_close(&self) {
        let reset = libc::linger { l_onoff: 1, l_linger: 0 };
        // If this fails, ports are only scarcer.
        let _ = self.set(libc::SOL_SOCKET, libc::SO_LINGER, &reset);
    }

    fn connect(&self, address: &SocketAddr) -> io::Result<()> {
        let (storage, length) = sockaddr(address);
        // SAFETY: the address is valid for its length.
        match check(unsafe { libc::connect(self.as_raw_fd(), (&raw const storage).cast(), length) } as isize) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(()),
        }
    }

    fn set<T>(&self, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
        let length = size_of::<T>() as libc::socklen_t;
        // SAFETY: the value is valid for its length.
        check(unsafe { libc::setsockopt(self.as_raw_fd(), level, name, (&raw const *value).cast(), length) } as isize)
            .map(drop)
    }

    fn option(&self, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
        let mut value: libc::c_int = 0;
        let mut length = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: value and length are valid, and the option is an int.
        let result =
            unsafe { libc::getsockopt(self.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length) };
        check(result as isize)?;
        Ok(value)
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
    /// Flags of the next receive.
    flags: libc::c_int,
}

impl Read for Plain<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let flags = mem::replace(&mut self.flags, DONTWAIT);
        // SAFETY: the slice is valid for its length.
        check(unsafe { libc::recv(self.socket.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), flags) })
    }
}

impl Write for Plain<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the slice is valid for its length.
        check(unsafe { libc::send(self.socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns `true` for an error that only means "try again later".
pub(in crate::engines::nfs) fn not_now(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
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

fn message(pieces: &[libc::iovec]) -> libc::msghdr {
    // SAFETY: all zeros is a valid empty msghdr.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = pieces.as_ptr().cast_mut();
    message.msg_iovlen = pieces.len() as _;
    message
}

fn sockaddr(address: &SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all zeros is a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let length = match address {
        SocketAddr::V4(v4) => {
            let plain = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: a sockaddr_storage has the size and alignment for every address family.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(plain) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let plain = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(plain) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, length as libc::socklen_t)
}
