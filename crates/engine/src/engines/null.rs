use iocurve_meter::Nanos;

use crate::engines::request::{Completion, Engine, Request};
use crate::error::EngineError;

/// Completes every request at once without I/O: only the cost of the loop remains, the upper bound of every other
/// engine.
#[derive(Debug, Default)]
pub(crate) struct NullEngine {
    finished: Vec<Completion>,
}

impl Engine for NullEngine {
    #[inline]
    fn submit(&mut self, request: Request) -> Result<(), EngineError> {
        let bytes = if request.kind.moves_data() { request.address.length } else { 0 };
        self.finished.push(Completion { slot: request.slot, result: i64::from(bytes) });
        Ok(())
    }

    #[inline]
    fn reap(&mut self, _min: usize, _deadline: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        if done.is_empty() {
            std::mem::swap(done, &mut self.finished);
        } else {
            done.append(&mut self.finished);
        }
        Ok(())
    }

    fn describe(&self) -> String {
        "null".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::request::Address;
    use crate::plan::OperationKind;

    #[test]
    fn every_kind_is_done_at_once_and_only_transfers_move_bytes() {
        let mut engine = NullEngine::default();
        for (slot, kind) in (0..).zip(OperationKind::ALL) {
            engine.submit(Request { slot, kind, address: Address { file: 0, offset: 0, length: 512 } }).unwrap();
        }
        let mut done = Vec::new();
        engine.reap(0, 0, &mut done).unwrap();
        let results: Vec<_> = done.iter().map(|completion| (completion.slot, completion.result)).collect();
        let moved = (0..).zip(OperationKind::ALL).map(|(slot, kind)| (slot, if kind.moves_data() { 512 } else { 0 }));
        assert_eq!(results, moved.collect::<Vec<_>>());
    }
}
