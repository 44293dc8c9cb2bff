//! Calls of which each follows from the reply to the last one, as an asynchronous function that knows neither sockets nor a
//! clock. Set-up waits for each call ([`Rpc::wait_for`]); a load makes them between its other calls.
//!
//! [`Rpc::wait_for`]: super::transport::rpc::Rpc::wait_for

use std::fmt::{self, Debug, Formatter};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use iocurve_meter::{Nanos, SECOND};
use iocurve_wire::record::{RECORD_MARK_BYTES, write_record};
use iocurve_wire::rpc::{CallHeader, Procedure, RPC_VERSION, Xid, opaque_auth};
use iocurve_wire::xdr::{Decode, Encode, Reader};

use crate::error::EngineError;

/// Delay before a call is repeated after `NFS3ERR_JUKEBOX`.
pub(super) const JUKEBOX_DELAY_NS: Nanos = 100_000_000;
/// Longest grace period of a server.
pub(super) const GRACE_NS_MAX: Nanos = 300 * SECOND;

/// A call to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// Record mark first; its `xid` is the sender's.
    pub record: Vec<u8>,
    /// Number of the connection, where there are several.
    pub connection: usize,
}

/// The results in the reply to a call.
#[derive(Debug)]
pub(super) struct Results {
    pub bytes: Vec<u8>,
    /// The call was sent more than once: the server may have executed it before it answered.
    pub was_repeated: bool,
}

/// Makes the calls of a [`Conversation`].
#[derive(Debug, Clone, Default)]
pub(super) struct Line(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    now: Nanos,
    is_stopped: bool,
    question: Option<Question>,
    results: Option<Result<Results, EngineError>>,
    pause_end: Option<Nanos>,
}

impl Line {
    /// The time at which the conversation goes on.
    pub(super) fn now(&self) -> Nanos {
        self.state().now
    }

    /// Returns `true` if calls that began at `started` should end.
    pub(super) fn is_late(&self, started: Nanos, patience_ns: Nanos) -> bool {
        let state = self.state();
        state.now - started >= patience_ns || state.is_stopped
    }

    /// Waits before a call, begun at `started`, is repeated that the server refused; returns `false` if it is not repeated.
    pub(super) async fn waits_to_repeat(&self, started: Nanos, patience_ns: Option<Nanos>) -> bool {
        if patience_ns.is_none_or(|patience_ns| self.is_late(started, patience_ns)) {
            return false;
        }
        self.pause(JUKEBOX_DELAY_NS).await;
        true
    }

    /// Makes a call.
    pub(super) async fn ask(&self, connection: usize, record: Vec<u8>) -> Result<Results, EngineError> {
        self.state().question = Some(Question { record, connection });
        poll_fn(|_| self.state().results.take().map_or(Poll::Pending, Poll::Ready)).await
    }

    /// Lets time pass.
    pub(super) async fn pause(&self, pause_ns: Nanos) {
        let end = self.now() + pause_ns;
        self.state().pause_end = Some(end);
        poll_fn(|_| if self.now() < end { Poll::Pending } else { Poll::Ready(()) }).await;
        self.state().pause_end = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The next step of a conversation.
#[derive(Debug)]
pub(super) enum Turn<T> {
    /// A call must be sent.
    Asks(Question),
    /// Nothing must be done before this time but to take the reply that is outstanding.
    Waits(Nanos),
    /// It is over.
    Ends(Result<T, EngineError>),
}

/// Calls that end in a `T`.
pub(super) struct Conversation<'a, T> {
    line: Line,
    calls: Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send + 'a>>,
}

impl<'a, T> Conversation<'a, T> {
    pub(super) fn new(line: Line, calls: impl Future<Output = Result<T, EngineError>> + Send + 'a) -> Self {
        Self { line, calls: Box::pin(calls) }
    }

    /// Goes on until a reply or time is needed; not to be called once it is over.
    pub(super) fn proceed(&mut self, now: Nanos, is_stopped: bool) -> Turn<T> {
        {
            let mut state = self.line.state();
            (state.now, state.is_stopped) = (now, is_stopped);
        }
        match self.calls.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Turn::Ends(result),
            Poll::Pending => {
                let mut state = self.line.state();
                let pause_end = state.pause_end.unwrap_or(Nanos::MAX);
                state.question.take().map_or(Turn::Waits(pause_end), Turn::Asks)
            }
        }
    }

    /// Takes the reply to the call that is outstanding, or the reason that there is none.
    pub(super) fn answer(&mut self, results: Result<Results, EngineError>) {
        self.line.state().results = Some(results);
    }
}

impl<T> Debug for Conversation<'_, T> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Conversation").field("line", &self.line).finish_non_exhaustive()
    }
}

/// Encodes a call, record mark first, without its `xid`.
pub(super) fn encode(credential: &[u8], procedure: Procedure, arguments: &(impl Encode + ?Sized)) -> Vec<u8> {
    let mut call = Vec::new();
    let cred = opaque_auth::decode(&mut Reader::new(credential)).expect("a credential made here");
    let Procedure { program: prog, version: vers, number: proc } = procedure;
    let header = CallHeader { xid: 0, rpcvers: RPC_VERSION, prog, vers, proc, cred, verf: opaque_auth::NONE };
    write_record(&mut call, |writer| {
        header.encode(writer);
        arguments.encode(writer);
    });
    call
}

/// Sets the `xid` of an encoded call.
pub(super) fn set_xid(call: &mut [u8], xid: Xid) {
    call[RECORD_MARK_BYTES..RECORD_MARK_BYTES + 4].copy_from_slice(&xid.0.to_be_bytes());
}
