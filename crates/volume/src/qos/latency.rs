//! Latencies drawn from a distribution, the same ones for the same seed.

use iocurve_meter::Nanos;

use super::limits::{Distribution, LATENCY_NS_MAX, Latency, Limits, of_bytes};
use iocurve_meter::Rng;

/// The 99th percentile of the normal distribution with mean 0 and variance 1.
const NORMAL_P99: f64 = 2.326_347_874_040_841;

/// Draws latencies.
#[derive(Debug)]
pub(super) struct Latencies {
    read: Latency,
    write: Latency,
    random: Rng,
}

impl Latencies {
    pub(super) fn new(limits: &Limits) -> Self {
        let (read, write) = (limits.latency, limits.write_latency.unwrap_or(limits.latency));
        Self { read, write, random: Rng::new(read.seed) }
    }

    /// Draws the next operation's latency.
    pub(super) fn draw(&mut self, is_write: bool, bytes: u64) -> Nanos {
        let latency = if is_write { self.write } else { self.read };
        let fixed_ns = latency.base_ns + of_bytes(latency.per_kib_ns, bytes);
        let varying = match latency.distribution {
            Distribution::Constant => return fixed_ns,
            Distribution::Exponential { mean_ns } => mean_ns as f64 * -self.random.unit_above_zero().ln(),
            Distribution::Lognormal { median_ns, p99_ns } => {
                let sigma = (p99_ns as f64 / median_ns as f64).ln() / NORMAL_P99;
                median_ns as f64 * (sigma * self.normal()).exp()
            }
        };
        fixed_ns + (varying.round() as Nanos).min(LATENCY_NS_MAX)
    }

    /// Box and Muller's method.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.random.unit_above_zero().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.random.unit_above_zero()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(distribution: Distribution, seed: u64) -> Vec<Nanos> {
        let latency = Latency { base_ns: 1_000_000, distribution, seed, ..Latency::default() };
        let mut latencies = Latencies::new(&Limits { latency, ..Limits::default() });
        (0..100_000).map(|_| latencies.draw(false, 4096)).collect()
    }

    /// The latency, without its base, that this share of the operations stays below.
    fn percentile(mut drawn: Vec<Nanos>, percent: usize) -> f64 {
        drawn.sort_unstable();
        (drawn[drawn.len() * percent / 100] - 1_000_000) as f64
    }

    #[test]
    fn a_constant_latency_is_constant() {
        assert!(drawn(Distribution::Constant, 1).iter().all(|&latency| latency == 1_000_000));
    }

    #[test]
    fn a_latency_grows_with_the_block_and_writes_have_their_own() {
        let latency = Latency { base_ns: 100, per_kib_ns: 7, ..Latency::default() };
        let limits = Limits { latency, ..Limits::default() };
        assert_eq!(Latencies::new(&limits).draw(true, 4096), 128);
        let mut latencies = Latencies::new(&Limits { write_latency: Some(Latency::constant(5)), ..limits });
        assert_eq!([latencies.draw(false, 4096), latencies.draw(true, 4096)], [128, 5]);
    }

    #[test]
    fn an_exponential_tail_has_its_mean_and_median() {
        let drawn = drawn(Distribution::Exponential { mean_ns: 500_000 }, 7);
        let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64 - 1e6;
        assert!((mean / 500_000.0 - 1.0).abs() < 0.01, "{mean}");
        let median = percentile(drawn, 50);
        assert!((median / (500_000.0 * std::f64::consts::LN_2) - 1.0).abs() < 0.01, "{median}");
    }

    #[test]
    fn a_lognormal_latency_has_its_median_and_99th_percentile() {
        let drawn = drawn(Distribution::Lognormal { median_ns: 400_000, p99_ns: 4_000_000 }, 7);
        let (median, p99) = (percentile(drawn.clone(), 50), percentile(drawn, 99));
        assert!((median / 400_000.0 - 1.0).abs() < 0.02, "{median}");
        assert!((p99 / 4_000_000.0 - 1.0).abs() < 0.03, "{p99}");
    }

    #[test]
    fn the_seed_decides() {
        let distribution = Distribution::Exponential { mean_ns: 500_000 };
        assert_eq!(drawn(distribution, 3), drawn(distribution, 3));
        assert_ne!(drawn(distribution, 3), drawn(distribution, 4));
    }

    #[test]
    fn the_most_extreme_latency_is_bounded() {
        let distribution = Distribution::Lognormal { median_ns: 1, p99_ns: LATENCY_NS_MAX };
        assert!(drawn(distribution, 1).iter().all(|&latency| latency <= 1_000_000 + LATENCY_NS_MAX));
    }
}
