//! Waits for a server: to connect, to answer, to come back after a restart.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iocurve_meter::{Nanos, SECOND};
use iocurve_tls::Wait;

use super::socket::{Route, Socket};
use crate::stall::{Waiting, has_answered};

/// First pause between two attempts to reach a server; it doubles each time.
const PAUSE_NS_MIN: Nanos = 10_000_000;
/// Longest pause between two attempts.
const PAUSE_NS_MAX: Nanos = SECOND;
/// A call without an answer for this time is a stall.
const SILENCE_NS: Nanos = 2 * SECOND;
/// Most time for giving opens and session back at the end.
pub(in crate::engines::nfs) const LEAVE_NS: Nanos = 2 * SECOND;
/// Longest time between two polls of the stop flag.
pub(in crate::engines::nfs) const STOP_CHECK_NS: Nanos = 50_000_000;

/// Connects; a server that has answered before may be about to restart, and is tried again.
pub(in crate::engines::nfs) fn connect_one(route: &Route, patience: &Patience<'_>) -> io::Result<Socket> {
    loop {
        match connect_once(route, patience) {
            Err(error) if is_lost(&error) && has_answered(route.peer) => patience.pause(&error)?,
            result => return result,
        }
    }
}

fn connect_once(route: &Route, patience: &Patience<'_>) -> io::Result<Socket> {
    let socket = Socket::start(route).map_err(|error| match (route.source, error.kind()) {
        (Some(source), io::ErrorKind::InvalidInput) => io::Error::other(format!("there is no route from {source}")),
        _ => error,
    })?;
    let mut wait = Wait::Write;
    loop {
        while !socket.wait(wait == Wait::Write, STOP_CHECK_NS)? {
            patience.check_silence()?;
        }
        match socket.connected()? {
            Some(next) => wait = next,
            None => return Ok(socket),
        }
    }
}

/// Errors of a connection that a restart of the server brings about.
pub(in crate::engines::nfs) fn is_lost(error: &io::Error) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable,
        NotConnected, UnexpectedEof,
    };
    matches!(
        error.kind(),
        BrokenPipe
            | ConnectionAborted
            | ConnectionRefused
            | ConnectionReset
            | HostUnreachable
            | NetworkUnreachable
            | NotConnected
            | UnexpectedEof
    )
}

/// Longest time without a reply on a connection before another one is tried.
pub(in crate::engines::nfs) fn silence_ns_max(timeout_ns: Nanos) -> Nanos {
    timeout_ns / 3
}

/// Error of a connection on which no reply comes.
pub(in crate::engines::nfs) fn no_answer() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "no answer on this connection")
}

/// Timeout and stop flag of a wait for a server.
pub(in crate::engines::nfs) struct Patience<'a> {
    server: SocketAddr,
    started: Instant,
    end: Instant,
    /// When another connection is tried; `None` once it was.
    silence_end: Cell<Option<Instant>>,
    stop: &'a AtomicBool,
    /// Pause before the next attempt.
    pause_ns: Cell<Nanos>,
    stall: RefCell<Option<Waiting>>,
}

impl<'a> Patience<'a> {
    pub(in crate::engines::nfs) fn new(server: SocketAddr, timeout_ns: Nanos, stop: &'a AtomicBool) -> Self {
        // A timeout beyond the clock's range becomes a day.
        let started = Instant::now();
        let day = started + Duration::from_secs(86_400);
        let end = started.checked_add(Duration::from_nanos(timeout_ns)).unwrap_or(day);
        let silence_end = Cell::new(started.checked_add(Duration::from_nanos(silence_ns_max(timeout_ns))));
        Self { server, started, end, silence_end, stop, pause_ns: Cell::new(PAUSE_NS_MIN), stall: RefCell::default() }
    }

    pub(in crate::engines::nfs) fn check(&self) -> io::Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("stopped"));
        }
        if Instant::now() >= self.end {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if self.started.elapsed() >= Duration::from_nanos(SILENCE_NS) && has_answered(self.server) {
            self.begin_stall("it does not answer".to_owned());
        }
        Ok(())
    }

    /// As [`Self::check`]; fails once if a server that has answered before is silent: it may have forgotten the connection
    /// without a word, and answer on another.
    fn check_silence(&self) -> io::Result<()> {
        self.check()?;
        if self.silence_end.get().is_some_and(|end| Instant::now() >= end) && has_answered(self.server) {
            self.silence_end.set(None);
            return Err(no_answer());
        }
        Ok(())
    }

    /// Waits before the next attempt after an error; each pause is twice as long, up to a second.
    fn pause(&self, error: &io::Error) -> io::Result<()> {
        self.note(error);
        let end = Instant::now() + Duration::from_nanos(self.pause_ns.get());
        self.pause_ns.set((self.pause_ns.get() * 2).min(PAUSE_NS_MAX));
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_nanos(STOP_CHECK_NS)));
        }
    }

    /// Tells that the server is waited for after an error.
    pub(in crate::engines::nfs) fn note(&self, error: &io::Error) {
        self.begin_stall(match error.kind() {
            io::ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
            _ => error.to_string(),
        });
    }

    fn begin_stall(&self, reason: String) {
        let mut stall = self.stall.borrow_mut();
        if stall.is_none() {
            *stall = Waiting::begin(&self.server.to_string(), reason, self.started.elapsed().as_nanos() as Nanos);
        }
    }
}
