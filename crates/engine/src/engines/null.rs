use iocurve_meter::Nanos;

use crate::error::EngineError;
use crate::request::{Completion, Engine, Request};

/// Does nothing, at once: what remains is the cost of the loop, the ceiling of every other engine.
#[derive(Debug, Default)]
pub struct NullEngine {
    finished: Vec<Completion>,
}

impl Engine for NullEngine {
    #[inline]
    fn submit(&mut self, request: Request) -> Result<(), EngineError> {
        self.finished.push(Completion { slot: request.slot, result: i64::from(request.length) });
        Ok(())
    }

    #[inline]
    fn reap(&mut self, _min: usize, _deadline: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        done.append(&mut self.finished);
        Ok(())
    }

    fn describe(&self) -> String {
        "null".into()
    }
}
