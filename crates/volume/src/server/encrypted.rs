//! The byte stream of a connection with TLS.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::TcpStream;

use iocurve_tls::Channel;
use libc::iovec;

use super::transport::{Transport, is_temporary};
use crate::reply::splice::SplicePipes;

/// A socket, and the channel that seals and opens its bytes. Replies are copied: they are sealed on the way.
#[derive(Debug)]
pub(super) struct Encrypted<'c> {
    pub(super) stream: &'c TcpStream,
    pub(super) channel: &'c mut Channel,
}

impl Transport for Encrypted<'_> {
    unsafe fn receive(&mut self, into: &[iovec]) -> io::Result<usize> {
        // SAFETY: the caller's promise; an `IoSliceMut` is an iovec, and these are copies of the caller's.
        let mut into: Vec<_> = into.iter().map(|piece| unsafe { slice_mut(piece) }).collect();
        self.channel.receive(&mut self.stream, &mut into)
    }

    unsafe fn send(&mut self, from: &[iovec]) -> io::Result<usize> {
        // SAFETY: the caller's promise.
        let from: Vec<_> = from.iter().map(|piece| unsafe { slice(piece) }).collect();
        self.channel.send(&mut self.stream, &from)
    }

    fn flush(&mut self, _pipes: &mut SplicePipes) -> io::Result<bool> {
        match self.channel.flush(&mut self.stream) {
            Ok(()) => Ok(true),
            Err(error) if is_temporary(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn held_bytes(&self) -> usize {
        self.channel.bytes()
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
