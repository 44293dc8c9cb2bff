//! What is written.

use crate::chance::Rng;
use crate::plan::{Content, OperationKind, Renew, Worker};
use crate::request::Buffers;

/// Distance between the bytes that scrambling changes: no storage compares smaller units.
const SCRAMBLE_STEP: usize = 512;

/// Fills a worker's write buffers.
#[derive(Debug)]
pub struct Filler {
    rng: Rng,
    renew: Renew,
}

impl Filler {
    /// Fills all buffers as the plan says, if the worker writes.
    pub fn new(worker: &Worker, buffers: &Buffers) -> Self {
        let mut rng = Rng::new(worker.seed ^ 0x0070_6179_6c6f_6164);
        let writes = worker.operations.iter().any(|operation| operation.kind == OperationKind::Write);
        if writes && matches!(worker.payload.content, Content::Random {}) {
            for slot in 0..buffers.count() {
                with_slot(buffers, slot as u32, buffers.stride(), |bytes| rng.fill(bytes));
            }
        }
        Self {
            rng,
            renew: if matches!(worker.payload.content, Content::Zero {}) { Renew::Keep } else { worker.payload.renew },
        }
    }

    /// Prepares a buffer for its next write.
    #[inline]
    pub fn renew(&mut self, buffers: &Buffers, slot: u32, length: u32) {
        match self.renew {
            Renew::Keep => {}
            Renew::Refill => with_slot(buffers, slot, length as usize, |bytes| self.rng.fill(bytes)),
            Renew::Scramble => {
                let word = self.rng.next_u64().to_le_bytes();
                with_slot(buffers, slot, length as usize, |bytes| scramble(bytes, word));
            }
        }
    }
}

fn scramble(bytes: &mut [u8], word: [u8; 8]) {
    for sector in bytes.chunks_mut(SCRAMBLE_STEP) {
        let length = sector.len().min(word.len());
        sector[..length].copy_from_slice(&word[..length]);
    }
}

fn with_slot<T>(buffers: &Buffers, slot: u32, length: usize, touch: impl FnOnce(&mut [u8]) -> T) -> T {
    assert!(length <= buffers.stride());
    // SAFETY: the slot is free, so nobody else touches it, and the length is inside it.
    touch(unsafe { std::slice::from_raw_parts_mut(buffers.slot(slot), length) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Payload;
    use crate::plan::tests::{operation, worker};

    fn two_writes(content: Content, renew: Renew) -> (Vec<u8>, Vec<u8>) {
        let operations = vec![operation(OperationKind::Write, 4096)];
        let plan = Worker { operations, payload: Payload { content, renew, ..worker().payload }, ..worker() };
        let buffers = Buffers::new(1, 4096);
        let mut filler = Filler::new(&plan, &buffers);
        let mut write = || {
            filler.renew(&buffers, 0, 4096);
            with_slot(&buffers, 0, 4096, |bytes| bytes.to_vec())
        };
        (write(), write())
    }

    fn sectors_that_differ((a, b): &(Vec<u8>, Vec<u8>)) -> usize {
        a.chunks(512).zip(b.chunks(512)).filter(|(a, b)| a != b).count()
    }

    #[test]
    fn kept_payload_is_the_same_again() {
        let writes = two_writes(Content::Random {}, Renew::Keep);
        assert_eq!(sectors_that_differ(&writes), 0);
        assert!(writes.0.iter().any(|&byte| byte != 0));
    }

    #[test]
    fn scrambling_changes_every_sector_a_little() {
        let writes = two_writes(Content::Random {}, Renew::Scramble);
        assert_eq!(sectors_that_differ(&writes), 8);
        assert_eq!(writes.0[8..512], writes.1[8..512]);
    }

    #[test]
    fn refilling_changes_everything() {
        let (a, b) = two_writes(Content::Random {}, Renew::Refill);
        assert!(a.iter().zip(&b).filter(|(a, b)| a == b).count() < 100);
    }

    #[test]
    fn zeros_stay_zeros() {
        assert_eq!(two_writes(Content::Zero {}, Renew::Refill), (vec![0; 4096], vec![0; 4096]));
    }
}
