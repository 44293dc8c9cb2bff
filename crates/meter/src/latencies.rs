use std::fmt;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use crate::{Nanos, SECOND};

/// A latency distribution: an HDR histogram with three significant digits, and the exact count, sum, smallest
/// and largest value beside it.
///
/// Values above an hour are kept exactly in sum and maximum and counted in the last bucket.
#[derive(Clone)]
pub struct Latencies {
    histogram: Histogram<u64>,
    sum: u128,
    min: Nanos,
    max: Nanos,
}

/// A histogram that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub struct LatencyError(String);

impl fmt::Display for LatencyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "not a latency histogram: {}", self.0)
    }
}

impl std::error::Error for LatencyError {}

impl Latencies {
    /// Largest value with a bucket of its own.
    pub const TRACKED_MAX: Nanos = 3600 * SECOND;

    /// Nothing recorded yet; all memory is taken now.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, Self::TRACKED_MAX, 3).expect("constant bounds are valid");
        Self { histogram, sum: 0, min: Nanos::MAX, max: 0 }
    }

    /// Records one value.
    #[inline]
    pub fn record(&mut self, value: Nanos) {
        self.histogram.saturating_record(value);
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all values of another.
    pub fn add(&mut self, other: &Self) {
        if other.count() == 0 {
            return;
        }
        self.histogram.add(&other.histogram).expect("same bounds everywhere");
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.histogram.clear();
        (self.sum, self.min, self.max) = (0, Nanos::MAX, 0);
    }

    /// Values recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Smallest value, exact; 0 when empty.
    pub fn min(&self) -> Nanos {
        if self.count() == 0 { 0 } else { self.min }
    }

    /// Largest value, exact; 0 when empty.
    pub fn max(&self) -> Nanos {
        self.max
    }

    /// Sum of all values, exact.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Mean, exact; 0 when empty.
    pub fn mean(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum as f64 / self.count() as f64 }
    }

    /// Standard deviation of the population, from the buckets.
    pub fn stddev(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.histogram.stdev() }
    }

    /// Smallest value that `percent` of all values do not exceed, within the histogram's precision and never
    /// outside the exact smallest and largest; 0 when empty.
    pub fn percentile(&self, percent: f64) -> Nanos {
        if self.count() == 0 { 0 } else { self.histogram.value_at_percentile(percent).clamp(self.min(), self.max) }
    }

    /// Values in `low..=high`, to bucket precision.
    pub fn count_between(&self, low: Nanos, high: Nanos) -> u64 {
        let (low, high) = (low.min(Self::TRACKED_MAX), high.min(Self::TRACKED_MAX));
        self.histogram
            .iter_recorded()
            .filter(|bucket| (low..=high).contains(&self.histogram.lowest_equivalent(bucket.value_iterated_to())))
            .map(|bucket| bucket.count_at_value())
            .sum()
    }

    /// Non-empty buckets: lowest value and count.
    pub fn buckets(&self) -> Vec<(Nanos, u64)> {
        self.histogram
            .iter_recorded()
            .map(|bucket| (self.histogram.lowest_equivalent(bucket.value_iterated_to()), bucket.count_at_value()))
            .collect()
    }

    /// The histogram as `HdrHistogram` V2 with DEFLATE; the exact figures are not part of it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        V2DeflateSerializer::new().serialize(&self.histogram, &mut out).expect("writing to memory does not fail");
        out
    }

    /// Reads [`Self::encode`]'s bytes. Sum, smallest and largest are as exact as the buckets.
    pub fn decode(bytes: &[u8]) -> Result<Self, LatencyError> {
        let read: Histogram<u64> =
            Deserializer::new().deserialize(&mut &bytes[..]).map_err(|error| LatencyError(error.to_string()))?;
        let mut latencies = Self::new();
        latencies.histogram.add(&read).map_err(|error| LatencyError(error.to_string()))?;
        if read.is_empty() {
            return Ok(latencies);
        }
        latencies.sum = (read.mean() * read.len() as f64) as u128;
        (latencies.min, latencies.max) = (read.min(), read.max());
        Ok(latencies)
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Latencies {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Latencies({} values, {}..{} ns)", self.count(), self.min(), self.max)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[Nanos]) -> Latencies {
        let mut latencies = Latencies::new();
        for &value in values {
            latencies.record(value);
        }
        latencies
    }

    #[test]
    fn empty_is_all_zero() {
        let empty = Latencies::new();
        assert_eq!((empty.count(), empty.min(), empty.max(), empty.percentile(99.0)), (0, 0, 0, 0));
        assert!(empty.mean().abs() < f64::EPSILON);
    }

    #[test]
    fn keeps_extremes_and_mean_exact() {
        let latencies = of(&[1, 1_000_001, 2 * Latencies::TRACKED_MAX + 7]);
        assert_eq!((latencies.min(), latencies.max()), (1, 2 * Latencies::TRACKED_MAX + 7));
        assert_eq!(latencies.sum(), u128::from(2 * Latencies::TRACKED_MAX + 7 + 1_000_002));
    }

    #[test]
    fn percentiles_of_small_values_are_exact() {
        let latencies = of(&(1..=100).collect::<Vec<_>>());
        assert_eq!([1.0, 50.0, 99.0, 100.0].map(|p| latencies.percentile(p)), [1, 50, 99, 100]);
    }

    #[test]
    fn clearing_forgets_everything() {
        let mut latencies = of(&[5, 6]);
        latencies.clear();
        latencies.record(9);
        assert_eq!((latencies.count(), latencies.min(), latencies.max(), latencies.sum()), (1, 9, 9, 9));
    }

    #[test]
    fn counts_between_bounds() {
        assert_eq!(of(&[10, 20, 20, 30]).count_between(11, 20), 2);
    }

    #[test]
    fn refuses_what_is_no_histogram() {
        assert!(Latencies::decode(b"nonsense").unwrap_err().to_string().starts_with("not a latency histogram"));
    }

    proptest! {
        #[test]
        fn percentiles_are_within_a_thousandth(mut values in prop::collection::vec(1u64..10_000_000_000, 1..500), p in 0.1f64..100.0) {
            let got = of(&values).percentile(p) as f64;
            values.sort_unstable();
            let rank = ((p / 100.0 * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1] as f64;
            prop_assert!((got - exact).abs() <= exact / 1000.0 + 1.0, "{} against {}", got, exact);
        }

        #[test]
        fn merging_is_recording_together(a in prop::collection::vec(1u64..1_000_000, 0..100), b in prop::collection::vec(1u64..1_000_000, 0..100)) {
            let mut merged = of(&a);
            merged.add(&of(&b));
            let together = of(&[a, b].concat());
            prop_assert_eq!(merged.buckets(), together.buckets());
            prop_assert_eq!((merged.sum(), merged.min(), merged.max()), (together.sum(), together.min(), together.max()));
        }

        #[test]
        fn survives_encoding(values in prop::collection::vec(1u64..1_000_000_000, 0..200)) {
            let before = of(&values);
            let after = Latencies::decode(&before.encode()).unwrap();
            prop_assert_eq!(before.buckets(), after.buckets());
        }
    }
}
