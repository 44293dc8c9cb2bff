//! The slots of a session: how many calls may be in flight, and the number of each call on its slot (RFC 8881 §2.10.6).

use iocurve_wire::client_fast::nfs4::SlotSequence;

/// Sequence id of the first call on a slot.
const FIRST_SEQUENCE: u32 = 1;

/// The slot table of a session, on the client's side.
#[derive(Debug)]
pub(super) struct SlotTable {
    free: Vec<u32>,
    /// By slot: sequence id of the next call.
    next: Vec<u32>,
}

impl SlotTable {
    /// The table of a session whose slot 0 goes on at `sequence`; the other slots have not been used.
    pub(super) fn resume(slots: u32, sequence: u32) -> Self {
        let mut next = vec![FIRST_SEQUENCE; slots as usize];
        next[0] = sequence;
        Self { free: (0..slots).rev().collect(), next }
    }

    /// Number of slots.
    pub(super) fn count(&self) -> usize {
        self.next.len()
    }

    /// Takes a free slot, the one that was used last: low slots stay in use, as servers expect.
    #[inline]
    pub(super) fn acquire(&mut self) -> Option<SlotSequence> {
        let slot = self.free.pop()?;
        Some(SlotSequence { slot, sequence: self.next[slot as usize] })
    }

    /// Frees a slot. If the server did not execute the call, the next one on the slot has the same sequence id.
    #[inline]
    pub(super) fn release(&mut self, at: SlotSequence, executed: bool) {
        self.next[at.slot as usize] = at.sequence.wrapping_add(u32::from(executed));
        self.free.push(at.slot);
    }

    /// Sequence id of the next call on slot 0, if no slot is in use.
    pub(super) fn sequence_of_first(&self) -> Option<u32> {
        (self.free.len() == self.next.len()).then(|| self.next[0])
    }

    /// Takes all slots away: calls wait until there is another session.
    pub(super) fn close(&mut self) {
        self.free.clear();
    }
}
