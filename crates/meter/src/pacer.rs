use crate::Nanos;

/// An open-loop schedule: the k-th unit is due at exactly start + ⌊k × `per_ns` / count⌋.
///
/// It asks nothing of whoever follows it and never drifts: being late does not move what comes after
/// (vegeta's pacer and wrk2's schedule are the models).
#[derive(Debug, Clone)]
pub struct Pacer {
    count: u64,
    per_ns: Nanos,
    start: Nanos,
    taken: u64,
}

impl Pacer {
    /// `count` units every `per_ns`, the first at `start`.
    ///
    /// # Panics
    /// If `count` is 0: nothing would ever be due.
    pub fn new(count: u64, per_ns: Nanos, start: Nanos) -> Self {
        assert!(count > 0, "a pacer needs a rate");
        Self { count, per_ns, start, taken: 0 }
    }

    /// When the next unit is due.
    pub fn due(&self) -> Nanos {
        let offset = u128::from(self.taken) * u128::from(self.per_ns) / u128::from(self.count);
        self.start.saturating_add(u64::try_from(offset).unwrap_or(u64::MAX))
    }

    /// Goes on to what is due after `units` more (1 for operations, their size for bytes).
    pub fn advance(&mut self, units: u64) {
        self.taken += units;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SECOND;

    #[test]
    fn is_exact_where_the_period_is_no_whole_number() {
        let mut pacer = Pacer::new(3, SECOND, 100);
        let due: Vec<Nanos> = (0..4)
            .map(|_| {
                let due = pacer.due();
                pacer.advance(1);
                due
            })
            .collect();
        assert_eq!(due, [100, 333_333_433, 666_666_766, 1_000_000_100]);
    }

    #[test]
    fn does_not_drift_in_a_billion_operations() {
        let mut pacer = Pacer::new(3200, SECOND, 0);
        pacer.advance(3_200_000_000);
        assert_eq!(pacer.due(), 1_000_000 * SECOND);
    }

    #[test]
    fn paces_bytes_by_what_was_moved_before() {
        let mut pacer = Pacer::new(1 << 20, SECOND, 0);
        pacer.advance(1 << 18);
        assert_eq!(pacer.due(), SECOND / 4);
        pacer.advance(1 << 19);
        assert_eq!(pacer.due(), SECOND * 3 / 4);
    }
}
