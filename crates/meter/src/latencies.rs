use std::fmt;
use std::ops::Range;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use crate::{Nanos, SECOND};

/// Largest relative error of a rank in floating point.
const RANK_ERROR: f64 = 1e-12;

/// A latency distribution: an HDR histogram with three significant digits, and the exact count, sum, minimum and
/// maximum.
///
/// Values above an hour share one bucket; they are exact in sum and maximum.
#[derive(Clone)]
pub struct Latencies {
    /// Counts by bucket, in the order of `HdrHistogram`: recording a value is one addition.
    counts: Box<[u64]>,
    count: u64,
    sum: u128,
    min: Nanos,
    max: Nanos,
}

/// Error for a histogram that cannot be decoded.
#[derive(Debug, PartialEq, Eq)]
pub struct LatencyError(String);

impl fmt::Display for LatencyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "not a latency histogram: {}", self.0)
    }
}

impl std::error::Error for LatencyError {}

impl Latencies {
    /// Largest value with its own bucket.
    pub const TRACKED_MAX: Nanos = 3600 * SECOND;

    /// Creates an empty distribution; allocates all memory.
    pub fn new() -> Self {
        Self { counts: vec![0; bucket::COUNT].into(), count: 0, sum: 0, min: Nanos::MAX, max: 0 }
    }

    /// Records one value.
    #[inline]
    pub fn record(&mut self, value: Nanos) {
        self.counts[bucket::of_any(value)] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Records a value `count` times.
    pub fn record_several(&mut self, value: Nanos, count: u64) {
        self.counts[bucket::of_any(value)] += count;
        self.count += count;
        self.sum += u128::from(value) * u128::from(count);
        if count > 0 {
            self.min = self.min.min(value);
            self.max = self.max.max(value);
        }
    }

    /// Adds all values of another distribution.
    pub fn add(&mut self, other: &Self) {
        if other.count() == 0 {
            return;
        }
        let used = other.used();
        self.counts[used.clone()].iter_mut().zip(&other.counts[used]).for_each(|(mine, theirs)| *mine += theirs);
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Removes all values, keeps the memory.
    pub fn clear(&mut self) {
        let used = self.used();
        self.counts[used].fill(0);
        (self.count, self.sum, self.min, self.max) = (0, 0, Nanos::MAX, 0);
    }

    /// Number of recorded values.
    pub fn count(&self) -> u64 {
        self.count
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
        if self.count() == 0 {
            return 0.0;
        }
        let total = self.count as f64;
        let middles = || self.recorded().map(|(bucket, count)| (bucket::middle(bucket) as f64, count as f64));
        let mean = middles().fold(0.0, |sum, (value, count)| sum + value * count / total);
        (middles().fold(0.0, |sum, (value, count)| sum + (value - mean).powi(2) * count) / total).sqrt()
    }

    /// Smallest value that `percent` of all values do not exceed, within the histogram's precision and never
    /// outside the exact smallest and largest; 0 when empty.
    pub fn percentile(&self, percent: f64) -> Nanos {
        if percent <= 0.0 {
            return self.min();
        }
        // In floating point 0.999 of 2,000 is a little more than 1,998, and would be rank 1,999.
        let exact = percent.min(100.0) / 100.0 * self.count as f64;
        let wanted = (exact * (1.0 - RANK_ERROR)).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reaches = |&(_, count): &(usize, u64)| {
            seen += count;
            seen >= wanted
        };
        let found = self.recorded().find(reaches);
        found.map_or(self.max, |(bucket, _)| bucket::highest(bucket).clamp(self.min(), self.max))
    }

    /// Number of values in `low..=high`, to bucket precision.
    pub fn count_between(&self, low: Nanos, high: Nanos) -> u64 {
        let (low, high) = (low.min(Self::TRACKED_MAX), high.min(Self::TRACKED_MAX));
        self.buckets().into_iter().filter(|(lowest, _)| (low..=high).contains(lowest)).map(|(_, count)| count).sum()
    }

    /// Non-empty buckets: lowest value and count.
    pub fn buckets(&self) -> Vec<(Nanos, u64)> {
        self.recorded().map(|(bucket, count)| (bucket::lowest(bucket), count)).collect()
    }

    /// The buckets between the smallest and the largest value; all others are empty. A worker closes an interval in much less
    /// time than one lasts, even without optimization on a busy machine, as it reads no others.
    fn used(&self) -> Range<usize> {
        if self.count() == 0 {
            return 0..0;
        }
        // The largest values have the bucket of the tracked maximum, which others that are too large may be above.
        bucket::of_any(self.min.min(Self::TRACKED_MAX))..bucket::of(self.max).map_or(bucket::COUNT, |last| last + 1)
    }

    /// Non-empty buckets: index and count.
    fn recorded(&self) -> impl Iterator<Item = (usize, u64)> {
        let used = self.used();
        used.clone().zip(self.counts[used].iter().copied()).filter(|&(_, count)| count > 0)
    }

    /// Encodes the histogram as `HdrHistogram` V2 with DEFLATE, without the exact figures.
    pub fn encode(&self) -> Vec<u8> {
        let mut histogram =
            Histogram::<u64>::new_with_bounds(1, Self::TRACKED_MAX, 3).expect("constant bounds are valid");
        for (lowest, count) in self.buckets() {
            histogram.saturating_record_n(lowest, count);
        }
        let mut out = Vec::new();
        V2DeflateSerializer::new().serialize(&histogram, &mut out).expect("writing to memory does not fail");
        out
    }

    /// Decodes the bytes of [`Self::encode`]. Sum, minimum and maximum are only as exact as the buckets.
    pub fn decode(bytes: &[u8]) -> Result<Self, LatencyError> {
        let read: Histogram<u64> =
            Deserializer::new().deserialize(&mut &bytes[..]).map_err(|error| LatencyError(error.to_string()))?;
        let mut latencies = Self::new();
        if read.is_empty() {
            return Ok(latencies);
        }
        for recorded in read.iter_recorded() {
            let bucket = bucket::of(recorded.value_iterated_to());
            latencies.counts[bucket.ok_or_else(|| LatencyError("a value is too large".into()))?] +=
                recorded.count_at_value();
        }
        latencies.count = read.len();
        latencies.sum = (read.mean() * read.len() as f64) as u128;
        (latencies.min, latencies.max) = (read.min(), read.max());
        Ok(latencies)
    }
}

/// The buckets of an HDR histogram with three significant digits: 2048 of width 1, then 1024 of each next power of two.
mod bucket {
    use super::{Latencies, Nanos};

    const HALF_BITS: u32 = 10;
    /// Number of values with a bucket of width 1.
    const EXACT: u64 = 2 << HALF_BITS;
    /// Number of widths that cover all tracked values.
    const WIDTHS: u32 = Latencies::TRACKED_MAX.ilog2() - HALF_BITS + 1;
    pub(super) const COUNT: usize = ((WIDTHS + 1) << HALF_BITS) as usize;
    const OF_TRACKED_MAX: usize = number(Latencies::TRACKED_MAX);

    /// The bucket of a value; the last bucket for values above the tracked maximum.
    #[inline]
    pub(super) fn of_any(value: Nanos) -> usize {
        of(value).unwrap_or(OF_TRACKED_MAX)
    }

    #[inline]
    pub(super) fn of(value: Nanos) -> Option<usize> {
        let number = number(value);
        (number < COUNT).then_some(number)
    }

    #[inline]
    const fn number(value: Nanos) -> usize {
        let width_bits = (value | (EXACT - 1)).ilog2() - HALF_BITS;
        ((width_bits as usize) << HALF_BITS) + (value >> width_bits) as usize
    }

    const fn width_bits(bucket: usize) -> u32 {
        (bucket >> HALF_BITS).saturating_sub(1) as u32
    }

    pub(super) fn lowest(bucket: usize) -> Nanos {
        let bits = width_bits(bucket);
        (bucket as u64 - (u64::from(bits) << HALF_BITS)) << bits
    }

    pub(super) fn middle(bucket: usize) -> Nanos {
        lowest(bucket) + ((1 << width_bits(bucket)) >> 1)
    }

    pub(super) fn highest(bucket: usize) -> Nanos {
        lowest(bucket) + (1 << width_bits(bucket)) - 1
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
    fn a_rank_is_the_exact_one() {
        for count in [1000, 2000, 3000, 10_000] {
            let mut latencies = Latencies::new();
            (1..=count).for_each(|value| latencies.record(if value > count / 1000 * 999 { 2000 } else { 100 }));
            assert!(latencies.percentile(99.9) < 2000, "{count}");
            assert_eq!(latencies.percentile(100.0), 2000);
        }
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
    fn refuses_bytes_that_are_not_a_histogram() {
        assert!(Latencies::decode(b"nonsense").unwrap_err().to_string().starts_with("not a latency histogram"));
    }

    proptest! {
        #[test]
        fn percentiles_are_within_a_thousandth(mut values in prop::collection::vec(1u64..10_000_000_000, 1..500), tenths in 1usize..=1000) {
            let got = of(&values).percentile(tenths as f64 / 10.0) as f64;
            values.sort_unstable();
            let rank = (tenths * values.len()).div_ceil(1000);
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn every_figure_is_that_of_the_hdr_histogram_library(
            values in prop::collection::vec((0u32..43, any::<u64>()).prop_map(|(bits, any)| any >> (63 - bits)), 1..300),
            percents in prop::collection::vec(0f64..110.0, 8),
        ) {
            let ours = of(&values);
            let mut theirs = Histogram::<u64>::new_with_bounds(1, Latencies::TRACKED_MAX, 3).unwrap();
            for &value in &values {
                theirs.saturating_record(value);
            }
            let recorded = theirs.iter_recorded();
            let buckets = recorded.map(|one| (theirs.lowest_equivalent(one.value_iterated_to()), one.count_at_value()));
            prop_assert_eq!(ours.buckets(), buckets.collect::<Vec<_>>());
            for percent in percents.into_iter().chain([0.0]) {
                let expected = theirs.value_at_percentile(percent).clamp(ours.min(), ours.max());
                prop_assert_eq!(ours.percentile(percent), expected, "{}", percent);
            }
            prop_assert!((ours.stddev() - theirs.stdev()).abs() <= theirs.stdev() * 1e-12);
            let mut encoded = Vec::new();
            V2DeflateSerializer::new().serialize(&theirs, &mut encoded).unwrap();
            prop_assert_eq!(ours.encode(), encoded);
        }
    }
}
