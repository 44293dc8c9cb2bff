//! The byte stream of a connection with TLS.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::TcpStream;

use iocurve_tls::Channel;
use libc::iovec;

use super::transport::is_temporary;

/// As `Transport::receive`, opened.
///
/// # Safety
/// The pieces must be writable memory that nothing else refers to.
#[cold]
pub(super) unsafe fn receive(channel: &mut Channel, mut stream: &TcpStream, into: &[iovec]) -> io::Result<usize> {
    // SAFETY: the caller's promise.
    let mut into: Vec<_> = into.iter().map(|piece| unsafe { slice_mut(piece) }).collect();
    channel.receive(&mut stream, &mut into)
}

/// As `Transport::send`, sealed.
///
/// # Safety
/// The pieces must be readable memory.
#[cold]
pub(super) unsafe fn send(channel: &mut Channel, mut stream: &TcpStream, from: &[iovec]) -> io::Result<usize> {
    // SAFETY: the caller's promise.
    let from: Vec<_> = from.iter().map(|piece| unsafe { slice(piece) }).collect();
    channel.send(&mut stream, &from)
}

/// As `Transport::flush`, for sealed bytes.
#[cold]
pub(super) fn flush(channel: &mut Channel, mut stream: &TcpStream) -> io::Result<bool> {
    match channel.flush(&mut stream) {
        Ok(()) => Ok(true),
        Err(error) if is_temporary(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// # Safety
/// The piece must be readable memory.
unsafe fn slice<'p>(piece: &iovec) -> IoSlice<'p> {
    // SAFETY: the caller's promise.
    IoSlice::new(unsafe { std::slice::from_raw_parts(piece.iov_base.cast(), piece.iov_len) })
}

/// # Safety
/// The piece must be writable memory that nothing else refers to.
unsafe fn slice_mut<'p>(piece: &iovec) -> IoSliceMut<'p> {
    // SAFETY: the caller's promise.
    IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(piece.iov_base.cast(), piece.iov_len) })
}
