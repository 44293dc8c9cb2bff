use crate::Nanos;

/// An open-loop schedule: the k-th unit is due at exactly start + ⌊k × `per_ns` / count⌋.
///
/// The schedule never drifts: a late caller does not move future due times (as in vegeta's pacer and wrk2's schedule).
#[derive(Debug, Clone)]
pub struct Pacer {
    count: u64,
    per_ns: Nanos,
    start: Nanos,
    taken: u64,
    /// Fraction of a unit used beyond `taken`.
    part: f64,
    due: Nanos,
}

impl Pacer {
    /// Creates a schedule of `count` units every `per_ns`, the first at `start`.
    ///
    /// # Panics
    /// If `count` is 0: nothing would ever be due.
    pub fn new(count: u64, per_ns: Nanos, start: Nanos) -> Self {
        assert!(count > 0, "a pacer needs a rate");
        Self { count, per_ns, start, taken: 0, part: 0.0, due: start }
    }

    /// Due time of the next unit.
    #[inline]
    pub fn due(&self) -> Nanos {
        self.due
    }

    /// Advances by `units` (1 for operations, the size for bytes).
    pub fn advance(&mut self, units: u64) {
        self.taken += units;
        self.settle();
    }

    /// Advances by any fraction of a unit, at least 0, for random intervals. Fractions add up, so the mean is exact.
    pub fn advance_by(&mut self, units: f64) {
        let sum = self.part + units;
        self.part = sum.fract();
        self.advance(sum as u64);
    }

    /// Moves all future due times.
    pub fn postpone(&mut self, by: Nanos) {
        self.start = self.start.saturating_add(by);
        self.settle();
    }

    fn settle(&mut self) {
        let whole = u128::from(self.taken) * u128::from(self.per_ns) / u128::from(self.count);
        let part = (self.part * self.per_ns as f64 / self.count as f64) as u64;
        let offset = u64::try_from(whole).unwrap_or(u64::MAX);
        self.due = self.start.saturating_add(offset).saturating_add(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SECOND;

    #[test]
    fn is_exact_if_the_period_is_not_an_integer() {
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
    fn paces_bytes_by_the_bytes_moved_before() {
        let mut pacer = Pacer::new(1 << 20, SECOND, 0);
        pacer.advance(1 << 18);
        assert_eq!(pacer.due(), SECOND / 4);
        pacer.advance(1 << 19);
        assert_eq!(pacer.due(), SECOND * 3 / 4);
    }

    #[test]
    fn parts_of_a_unit_add_up() {
        let mut pacer = Pacer::new(1000, SECOND, 0);
        pacer.advance_by(0.25);
        assert_eq!(pacer.due(), 250_000);
        for _ in 0..7 {
            pacer.advance_by(0.25);
        }
        assert_eq!(pacer.due(), 2_000_000);
        // Rounding loses nothing in a million steps.
        (0..1_000_000).for_each(|_| pacer.advance_by(250.25));
        assert_eq!(pacer.due(), 250_250 * SECOND + 2_000_000);
    }

    #[test]
    fn postponed_units_keep_their_intervals() {
        let mut pacer = Pacer::new(10, SECOND, 5);
        pacer.advance(1);
        pacer.postpone(7);
        assert_eq!(pacer.due(), SECOND / 10 + 12);
        pacer.advance(1);
        assert_eq!(pacer.due(), SECOND / 5 + 12);
    }
}
