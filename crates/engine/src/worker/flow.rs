//! Flows: workers that keep their operations in proportion, each as fast as the slowest allows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::plan::Group;

/// Position of a worker that has ended: it blocks no other worker.
const ENDED: u64 = u64::MAX;
/// Least number of operations that a worker may be ahead. With a smaller lead, workers would spend their time waking
/// each other.
const AHEAD_MIN: u64 = 1000;

/// State shared by the workers of one flow.
#[derive(Debug)]
struct FlowState {
    /// Position of each worker: its operations, scaled by the sum of weights over its own weight.
    positions: Vec<AtomicU64>,
    /// Largest lead of a worker over the slowest, in positions.
    ahead: u64,
}

/// The share of one worker in a flow.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    state: Arc<FlowState>,
    number: usize,
    operations: u64,
    weight: u64,
    whole: u64,
    /// Position of the slowest worker at the last check; it only grows.
    last: u64,
}

/// By worker of a group: its share in a flow, if it has one.
pub(crate) fn of_group(group: &Group) -> Vec<Option<Share>> {
    let mut flows: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (number, worker) in group.workers.iter().enumerate() {
        if let Some(flow) = worker.flow {
            flows.entry(flow.id).or_default().push(number);
        }
    }
    let mut shares: Vec<Option<Share>> = group.workers.iter().map(|_| None).collect();
    for members in flows.into_values() {
        let weight = |number: &usize| group.workers[*number].flow.map_or(1, |flow| u64::from(flow.weight));
        let whole = members.iter().map(weight).sum();
        let depth: u64 = members.iter().map(|number| u64::from(group.workers[*number].depth)).sum();
        let positions = members.iter().map(|_| AtomicU64::new(0)).collect();
        let state = Arc::new(FlowState { positions, ahead: depth.max(AHEAD_MIN) });
        for (number, member) in members.iter().enumerate() {
            let weight = weight(member);
            let state = Arc::clone(&state);
            shares[*member] = Some(Share { state, number, operations: 0, weight, whole, last: 0 });
        }
    }
    shares
}

impl Share {
    /// Returns `true` if another operation may be submitted.
    pub(crate) fn may_submit(&mut self) -> bool {
        let limit = |last: u64| last.saturating_add(self.state.ahead);
        let position = self.position();
        if position > limit(self.last) {
            self.last = self.state.positions.iter().map(|one| one.load(Ordering::Relaxed)).min().unwrap_or(ENDED);
        }
        position <= limit(self.last)
    }

    /// Counts a submitted operation.
    pub(crate) fn submitted(&mut self) {
        self.operations += 1;
        self.state.positions[self.number].store(self.position(), Ordering::Relaxed);
    }

    /// Ends the worker's part: it blocks no other worker any more.
    pub(crate) fn end(&self) {
        self.state.positions[self.number].store(ENDED, Ordering::Relaxed);
    }

    fn position(&self) -> u64 {
        (u128::from(self.operations) * u128::from(self.whole) / u128::from(self.weight)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::worker;
    use crate::plan::{Flow, Worker};

    fn shares(weights: &[u32]) -> Vec<Share> {
        let member = |weight: &u32| Worker { flow: Some(Flow { id: 7, weight: *weight }), depth: 8, ..worker() };
        let mut workers: Vec<Worker> = weights.iter().map(member).collect();
        workers.push(worker());
        let mut made = of_group(&Group { workers });
        assert!(made.pop().unwrap().is_none());
        made.into_iter().flatten().collect()
    }

    fn go(share: &mut Share, most: u64) -> u64 {
        (0..most).take_while(|_| share.may_submit().then(|| share.submitted()).is_some()).count() as u64
    }

    #[test]
    fn no_worker_is_further_ahead_than_a_thousand_operations_of_the_whole() {
        let [mut many, mut few] = shares(&[80, 20]).try_into().unwrap();
        assert_eq!(go(&mut many, 2000), 801, "80 per cent of them, and one more");
        assert_eq!(go(&mut few, 1), 1);
        assert_eq!(go(&mut many, 1000), 4);
    }

    #[test]
    fn over_time_the_proportion_is_kept() {
        let [mut many, mut few] = shares(&[3, 1]).try_into().unwrap();
        let (mut counted_many, mut counted_few) = (0, 0);
        for _ in 0..10_000 {
            counted_many += go(&mut many, 5);
            counted_few += go(&mut few, 5);
        }
        assert!((counted_many / 3).abs_diff(counted_few) <= 251, "{counted_many} {counted_few}");
        assert!(counted_few > 10_000);
    }

    #[test]
    fn an_ended_worker_blocks_no_other_in_its_flow() {
        let [mut many, few] = shares(&[1, 1]).try_into().unwrap();
        assert_eq!(go(&mut many, 1000), 501);
        few.end();
        assert_eq!(go(&mut many, 1000), 1000);
    }
}
