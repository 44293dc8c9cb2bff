//! Sending memory by reference: through a pipe, whose pages go on to a socket without a copy.
//!
//! The kernel refers to the pages until the peer has read them, even on this machine, and reports to nobody when that is. So memory
//! that a store lends must hold the same file's data as long as it is mapped, and must be parted from its pages before it is used for
//! anything else.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, iovec};

/// Size of a pipe: the most that any user may have. It holds a READ of the largest size but for its head.
const PIPE_BYTES: c_int = 1 << 20;

/// Most empty pipes that a thread keeps.
const SPARE_MAX: usize = 4;

/// A pipe with bytes on their way to one socket.
#[derive(Debug)]
pub(crate) struct SplicePipe {
    read: OwnedFd,
    write: OwnedFd,
    held: usize,
}

/// Empty pipes.
#[derive(Debug, Default)]
pub(crate) struct SplicePipes(Vec<SplicePipe>);

impl SplicePipes {
    /// Returns an empty pipe; `None` if the system has none left.
    pub(crate) fn take(&mut self) -> Option<SplicePipe> {
        self.0.pop().or_else(|| SplicePipe::new().ok())
    }

    /// Keeps an empty pipe.
    pub(crate) fn give_back(&mut self, pipe: SplicePipe) {
        debug_assert_eq!(pipe.held, 0);
        if self.0.len() < SPARE_MAX {
            self.0.push(pipe);
        }
    }
}

impl SplicePipe {
    fn new() -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors, which nobody else has.
        let (read, write) = unsafe {
            done(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) as isize)?;
            (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
        };
        // SAFETY: a pipe of ours.
        done(unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) } as isize)?;
        Ok(Self { read, write, held: 0 })
    }

    /// Sends pieces in order, lent ones by reference and others by copy, and returns how many bytes were taken. The pipe holds bytes
    /// that the socket did not take, until [`SplicePipe::drain`].
    ///
    /// # Safety
    /// The pieces must be readable. The peer sees lent pieces as they are when it reads them.
    pub(crate) unsafe fn send(
        &mut self,
        pieces: impl Iterator<Item = (bool, iovec)>,
        socket: RawFd,
    ) -> io::Result<usize> {
        let mut taken = 0;
        for (is_lent, piece) in pieces {
            let mut at = 0;
            while at < piece.iov_len {
                let rest = iovec { iov_base: piece.iov_base.wrapping_byte_add(at), iov_len: piece.iov_len - at };
                // SAFETY: the caller's promise.
                match unsafe { self.put(is_lent, rest) } {
                    Ok(count) => at += count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        let held = self.held;
                        if !self.drain(socket)? && self.held == held {
                            return Ok(taken + at);
                        }
                    }
                    Err(error) => return Err(error),
                }
            }
            taken += at;
        }
        self.drain(socket)?;
        Ok(taken)
    }

    /// Moves held bytes to the socket, and returns whether all of them have gone.
    pub(crate) fn drain(&mut self, socket: RawFd) -> io::Result<bool> {
        let (none, flags) = (std::ptr::null_mut(), libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK);
        while self.held > 0 {
            // SAFETY: a pipe of ours; no offsets.
            match done(unsafe { libc::splice(self.read.as_raw_fd(), none, socket, none, self.held, flags) }) {
                Ok(count) => self.held -= count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Puts bytes into the pipe and returns how many it took.
    unsafe fn put(&mut self, is_lent: bool, piece: iovec) -> io::Result<usize> {
        let fd = self.write.as_raw_fd();
        // SAFETY: the caller's promise; neither writes through the piece.
        let count = done(unsafe {
            if is_lent {
                libc::vmsplice(fd, &raw const piece, 1, libc::SPLICE_F_NONBLOCK)
            } else {
                libc::write(fd, piece.iov_base, piece.iov_len)
            }
        })?;
        self.held += count;
        Ok(count)
    }
}

fn done(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn piece(bytes: &[u8]) -> iovec {
        iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
    }

    #[test]
    fn what_the_socket_does_not_take_is_held_and_goes_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        let lent: Vec<u8> = (0..3 << 20).map(|at: usize| (at % 249) as u8).collect();
        let all = [b"head".as_slice(), &lent, b"tail", &lent[5..], b"end"].concat();
        let pieces =
            [(false, piece(b"head")), (true, piece(&lent)), (false, piece(b"tail")), (true, piece(&lent[5..]))];
        let mut pipes = SplicePipes::default();
        let mut pipe = pipes.take().unwrap();
        // SAFETY: all pieces live to the end.
        let mut taken = unsafe { pipe.send(pieces.into_iter(), socket.as_raw_fd()) }.unwrap();
        assert!(pipe.held > 0 && taken < all.len() - 3, "more than socket and pipe hold");
        let mut arrived = vec![0; all.len()];
        let mut at = 0;
        while at < all.len() {
            at += peer.read(&mut arrived[at..]).unwrap();
            if pipe.drain(socket.as_raw_fd()).unwrap() && taken < all.len() {
                // SAFETY: the same.
                taken += unsafe { pipe.send([(false, piece(&all[taken..]))].into_iter(), socket.as_raw_fd()) }.unwrap();
            }
        }
        assert_eq!((arrived == all, pipe.held), (true, 0));
        pipes.give_back(pipe);
        assert_eq!(pipes.0.len(), 1);
    }

    #[test]
    fn a_peer_that_has_gone_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        drop(peer);
        let mut pipe = SplicePipe::new().unwrap();
        let bytes = vec![1; 1 << 16];
        // SAFETY: the bytes live to the end.
        let failed =
            (0..100).find_map(|_| unsafe { pipe.send([(true, piece(&bytes))].into_iter(), socket.as_raw_fd()) }.err());
        assert!(matches!(
            failed.unwrap().kind(),
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted
        ));
    }
}
