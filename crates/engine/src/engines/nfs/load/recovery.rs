//! Calls that are repeated: at once, later, when a slot of the session is free, or when state is restored.

use std::collections::VecDeque;

use iocurve_meter::Nanos;

use super::super::conversation::JUKEBOX_DELAY_NS;
use super::super::protocol::{Judgement, Protocol};

/// Most repetitions of a call for which the server's state had to be restored.
const RECOVERIES_MAX: u16 = 16;
/// Time from which a call waits that was in flight when the session was lost.
const SINCE_RECOVERY: Nanos = Nanos::MAX;

/// Waits for a free slot of the session.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SlotWaits {
    /// Calls that waited.
    pub calls: u64,
    /// Their time without a slot.
    pub wait_ns: Nanos,
    /// Calls of sessions that were lost.
    pub calls_before: u64,
}

/// Calls that are to be sent, by their index.
#[derive(Debug)]
pub(super) struct Recovery {
    timeout_ns: Nanos,
    /// Calls that wait for a slot of the session, and since when.
    waiting: VecDeque<(Nanos, u32)>,
    pub slot_waits: SlotWaits,
    /// Status that says that the session, or the state of a file, is lost.
    pub state_lost: Option<u32>,
    /// Calls to repeat now, on any connection.
    pub retry_now: Vec<u32>,
    /// Calls to repeat later, at the server's request.
    pub retry_later: Vec<u32>,
}

impl Recovery {
    pub(super) fn new(timeout_ns: Nanos) -> Self {
        Self {
            timeout_ns,
            waiting: VecDeque::new(),
            slot_waits: SlotWaits::default(),
            state_lost: None,
            retry_now: Vec::new(),
            retry_later: Vec::new(),
        }
    }

    /// Most repetitions of a call that was judged so.
    pub(super) fn retries_max(&self, judgement: Judgement) -> u16 {
        match judgement.patience_ns(self.timeout_ns) {
            Some(patience_ns) => (patience_ns / JUKEBOX_DELAY_NS).clamp(1, u64::from(u16::MAX)) as u16,
            None if judgement == Judgement::Failed => 0,
            None => RECOVERIES_MAX,
        }
    }

    /// Queues a call that the server refused.
    pub(super) fn refused(&mut self, index: u32, status: u32, judgement: Judgement) {
        match judgement {
            Judgement::Now => self.retry_now.push(index),
            Judgement::Recover => {
                self.state_lost = Some(status);
                self.waiting.push_front((SINCE_RECOVERY, index));
            }
            _ => self.retry_later.push(index),
        }
    }

    /// Lets a call wait for a slot.
    pub(super) fn wait(&mut self, index: u32, now: Nanos) {
        self.waiting.push_back((now, index));
    }

    /// Lets a call wait that was in flight when the session was lost.
    pub(super) fn suspend(&mut self, index: u32) {
        self.waiting.push_back((SINCE_RECOVERY, index));
    }

    /// All that wait so far wait for the server, and not for a slot.
    pub(super) fn wait_for_server(&mut self) {
        self.waiting.iter_mut().for_each(|(since, _)| *since = SINCE_RECOVERY);
    }

    /// Goes on in a new session of the server after `calls` in the last one.
    pub(super) fn resume(&mut self, calls: u64) {
        self.slot_waits.calls_before += calls;
        self.state_lost = None;
        self.wait_for_server();
    }

    /// Returns `true` if calls wait for a slot.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The call that has waited longest, with what it needs to be sent, if the session has that.
    pub(super) fn acquire<P: Protocol>(&mut self, protocol: &mut P, now: Nanos) -> Option<(u32, P::Sequence)> {
        let &(since, index) = self.waiting.front()?;
        let sequence = protocol.acquire()?;
        self.waiting.pop_front();
        if since != SINCE_RECOVERY {
            self.slot_waits.calls += 1;
            self.slot_waits.wait_ns += now.saturating_sub(since);
        }
        Some((index, sequence))
    }
}
