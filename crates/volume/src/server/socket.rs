//! The TCP socket of a connection.

use std::io;
use std::mem::size_of;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Weak};

use iocurve_tls::Channel;
use libc::{c_int, iovec};

use super::encrypted;
use super::transport::Transport;
use crate::reply::splice::{SplicePipe, SplicePipes};

/// Send buffer towards clients on this machine. What is sent there waits in the client's core's caches, or beyond them if it is
/// much: with the system's growing buffers READs of 1 MiB ran at two thirds of the speed.
const LOOPBACK_SEND_BYTES: c_int = 512 << 10;

/// Congestion control towards clients on this machine. Others (BBR) pace what they send by timers, which loopback does not need.
const LOOPBACK_CONGESTION: &[u8; 16] = b"reno\0\0\0\0\0\0\0\0\0\0\0\0";

/// A socket, and the pipe through which it sends by reference.
#[derive(Debug)]
pub(super) struct Socket {
    /// Shared, so that the thread that accepts connections can end it for another.
    stream: Arc<TcpStream>,
    /// Holds bytes that were sent by reference and that the socket has not taken.
    pipe: Option<SplicePipe>,
    /// Seals and opens its bytes, where the volume demands TLS. Replies are then copied: they are sealed on the way.
    tls: Option<Box<Channel>>,
}

impl Socket {
    /// Sets options, none of which can fail on a socket.
    pub(super) fn new(stream: TcpStream, is_loopback: bool, tls: Option<Box<Channel>>) -> Self {
        let _ = (stream.set_nodelay(true), stream.set_nonblocking(true));
        if is_loopback {
            set(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, &LOOPBACK_SEND_BYTES);
            set(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, LOOPBACK_CONGESTION);
        }
        Self { stream: Arc::new(stream), pipe: None, tls }
    }

    /// True if bytes are opened already: epoll does not report them.
    pub(super) fn has_opened(&self) -> bool {
        self.tls.as_ref().is_some_and(|channel| channel.has_opened())
    }

    pub(super) fn stream(&self) -> Weak<TcpStream> {
        Arc::downgrade(&self.stream)
    }

    /// Ends the connection; the descriptor stays.
    pub(super) fn end(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// The core on which the last packet arrived.
    pub(super) fn incoming_cpu(&self) -> Option<usize> {
        let (mut cpu, mut length) = (0 as c_int, size_of::<c_int>() as libc::socklen_t);
        let fd = self.stream.as_raw_fd();
        // SAFETY: an integer of ours and its length.
        let status = unsafe {
            libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_INCOMING_CPU, (&raw mut cpu).cast(), &raw mut length)
        };
        (status == 0).then(|| usize::try_from(cpu).ok())?
    }
}

/// Lets the connections of a listener on loopback begin with their congestion control: a connection that began with BBR is paced
/// under any other, too, and after a pause large replies take milliseconds longer.
pub(crate) fn accept_unpaced(listener: &TcpListener) {
    if listener.local_addr().is_ok_and(|address| address.ip().is_loopback()) {
        set(listener.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, LOOPBACK_CONGESTION);
    }
}

/// Sets an option; without it the socket is slower, but works.
fn set<V>(fd: RawFd, level: c_int, option: c_int, value: &V) {
    let length = size_of::<V>() as libc::socklen_t;
    // SAFETY: a value of plain bytes and its length.
    unsafe { libc::setsockopt(fd, level, option, (&raw const *value).cast(), length) };
}

impl Transport for Socket {
    unsafe fn receive(&mut self, into: &[iovec]) -> io::Result<usize> {
        if let Some(channel) = &mut self.tls {
            // SAFETY: the caller's promise.
            return unsafe { encrypted::receive(channel, &self.stream, into) };
        }
        // SAFETY: the caller's promise.
        moved(unsafe { libc::readv(self.stream.as_raw_fd(), into.as_ptr(), into.len() as c_int) })
    }

    unsafe fn send(&mut self, from: &[iovec]) -> io::Result<usize> {
        if let Some(channel) = &mut self.tls {
            // SAFETY: the caller's promise.
            return unsafe { encrypted::send(channel, &self.stream, from) };
        }
        // SAFETY: all zeros is an empty message.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = from.as_ptr().cast_mut();
        message.msg_iovlen = from.len();
        // SAFETY: the caller's promise; sending does not write through the pieces.
        moved(unsafe { libc::sendmsg(self.stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) })
    }

    fn prepare_send_by_reference(&mut self, pipes: &mut SplicePipes) -> bool {
        if self.tls.is_none() {
            self.pipe = self.pipe.take().or_else(|| pipes.take());
        }
        self.pipe.is_some()
    }

    unsafe fn send_by_reference(&mut self, pieces: impl Iterator<Item = (bool, iovec)>) -> io::Result<usize> {
        let socket = self.stream.as_raw_fd();
        // SAFETY: the caller's promise.
        self.pipe.as_mut().map_or(Ok(0), |pipe| unsafe { pipe.send(pieces, socket) })
    }

    fn flush(&mut self, pipes: &mut SplicePipes) -> io::Result<bool> {
        if let Some(channel) = &mut self.tls {
            return encrypted::flush(channel, &self.stream);
        }
        if let Some(pipe) = &mut self.pipe {
            if !pipe.drain(self.stream.as_raw_fd())? {
                return Ok(false);
            }
            self.pipe.take().into_iter().for_each(|pipe| pipes.give_back(pipe));
        }
        Ok(true)
    }

    fn held_bytes(&self) -> usize {
        self.tls.as_ref().map_or(0, |channel| channel.bytes())
    }
}

fn moved(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}
