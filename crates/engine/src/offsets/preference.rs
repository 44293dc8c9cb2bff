//! Distributions other than uniform.
//!
//! The time of a draw does not depend on the number of places.

use std::f64::consts::TAU;

use iocurve_meter::Rng;

use crate::permutation::Permutation;
use crate::plan::{Distribution, Zone};

/// Draws indices of places.
#[derive(Debug)]
pub(super) enum Preference {
    Zipf(Zipf, Spread),
    Pareto { places: u64, exponent: f64, spread: Spread },
    Normal { places: u64, mean: f64, deviation: f64 },
    Zones(Box<[Part]>),
}

/// Consecutive places, and the sum of the shares up to them.
#[derive(Debug)]
pub(super) struct Part {
    upto: f64,
    first: u64,
    places: u64,
}

impl Preference {
    /// A distribution over `places` places at multiples of `align_bytes`; `None` if it is uniform or no place is left.
    pub(super) fn new(distribution: &Distribution, places: u64, align_bytes: u64, seed: u64) -> Option<Self> {
        Some(match *distribution {
            Distribution::Uniform {} => return None,
            Distribution::Zipf { theta, center } => {
                Self::Zipf(Zipf::new(places, theta), Spread::new(places, center, seed))
            }
            Distribution::Pareto { h, center } => {
                let exponent = h.ln() / (-h).ln_1p();
                Self::Pareto { places, exponent, spread: Spread::new(places, center, seed) }
            }
            Distribution::Normal { deviation_percent, center } => Self::Normal {
                places,
                mean: center.unwrap_or(0.5) * places as f64,
                deviation: deviation_percent / 100.0 * places as f64,
            },
            Distribution::Zones { ref zones } => Self::Zones(parts(zones, places, align_bytes)?),
        })
    }

    /// Draws an index below the number of places.
    #[inline(never)]
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Self::Zipf(zipf, spread) => spread.place(zipf.draw(rng) - 1),
            Self::Pareto { places, exponent, spread } => {
                let rank = (*places as f64 * rng.unit().powf(*exponent)) as u64;
                spread.place(rank.min(places - 1))
            }
            Self::Normal { places, mean, deviation } => normal(*places, *mean, *deviation, rng),
            Self::Zones(parts) => {
                let drawn = rng.unit() * parts[parts.len() - 1].upto;
                let part = parts.iter().find(|part| drawn < part.upto).unwrap_or(&parts[parts.len() - 1]);
                part.first + rng.below(part.places)
            }
        }
    }
}

/// Converts zones to places, without zones that are cut off or never visited. A zone narrower than a block has one
/// place.
fn parts(zones: &[Zone], places: u64, align_bytes: u64) -> Option<Box<[Part]>> {
    let mut upto = 0.0;
    let parts: Box<[Part]> = zones
        .iter()
        .filter(|zone| zone.access_percent > 0.0 && zone.offset_bytes / align_bytes < places)
        .map(|zone| {
            upto += zone.access_percent;
            let first = zone.offset_bytes / align_bytes;
            let end = (zone.offset_bytes.saturating_add(zone.bytes) / align_bytes).min(places);
            Part { upto, first, places: end.saturating_sub(first).max(1) }
        })
        .collect();
    (!parts.is_empty()).then_some(parts)
}

/// Draws a place from the normal distribution (Box and Muller, 1958), again while it is outside the region.
fn normal(places: u64, mean: f64, deviation: f64, rng: &mut Rng) -> u64 {
    // At least half of the draws are inside; a third, if the deviation is wide. 64 draws outside in a row do not
    // happen, except without any deviation around the very end.
    for _ in 0..64 {
        let radius = (-2.0 * (-rng.unit()).ln_1p()).sqrt();
        let place = mean + deviation * radius * (TAU * rng.unit()).cos();
        if place >= 0.0 && place < places as f64 {
            return place as u64;
        }
    }
    (mean as u64).min(places - 1)
}

/// Ranks of popularity over a region: the most popular rank at its own place, the others by a keyed bijection, so that
/// no two ranks share a place.
#[derive(Debug)]
pub(super) struct Spread {
    order: Permutation,
    places: u64,
    shift: u64,
}

impl Spread {
    fn new(places: u64, center: Option<f64>, seed: u64) -> Self {
        let order = Permutation::new(places, seed);
        let shift = center.map_or(0, |center| {
            let first = ((center * places as f64) as u64).min(places - 1);
            (first + places - order.at(0)) % places
        });
        Self { order, places, shift }
    }

    fn place(&self, rank: u64) -> u64 {
        (self.order.at(rank) + self.shift) % self.places
    }
}

/// Ranks 1 to n with a probability proportional to 1/k^theta, exactly, by rejection from the inverted integral (Hörmann
/// and Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", 1996).
///
/// Needs no sum over all ranks (the zeta that Gray's method, and with it fio, starts from), so a region of any size
/// needs no preparation; a draw takes fewer than two attempts on average, for any theta. fio's ranks from the third on
/// approximate the same probabilities, within two per cent of the operations.
#[derive(Debug)]
pub(super) struct Zipf {
    ranks: f64,
    theta: f64,
    from: f64,
    to: f64,
    safe: f64,
}

impl Zipf {
    pub(super) fn new(ranks: u64, theta: f64) -> Self {
        let mut zipf = Self { ranks: ranks as f64, theta, from: 0.0, to: 0.0, safe: 0.0 };
        zipf.from = zipf.integral(1.5) - 1.0;
        zipf.to = zipf.integral(zipf.ranks + 0.5);
        zipf.safe = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.chance(2.0));
        zipf
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.to + rng.unit() * (self.from - self.to);
            let x = self.inverse(area);
            let rank = x.round().clamp(1.0, self.ranks);
            if rank - x <= self.safe || area >= self.integral(rank + 0.5) - self.chance(rank) {
                return rank as u64;
            }
        }
    }

    /// x^-theta.
    fn chance(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// The integral of [`Self::chance`] from 1 to x.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.theta) * log;
        if power.abs() < 1e-8 { log * (1.0 + power / 2.0) } else { log * power.exp_m1() / power }
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = (area * (1.0 - self.theta)).max(-1.0);
        let log = if power.abs() < 1e-8 { area * (1.0 - power / 2.0) } else { area * power.ln_1p() / power };
        log.exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 200_000;

    fn counts(preference: &Preference, places: u64) -> Vec<u64> {
        let mut rng = Rng::new(5);
        let mut seen = vec![0; places as usize];
        for _ in 0..DRAWS {
            seen[preference.draw(&mut rng) as usize] += 1;
        }
        seen
    }

    /// Pearson's statistic against exact probabilities, in standard deviations from its expectation; places are merged
    /// until 20 operations are expected.
    fn deviation(seen: &[u64], chances: &[f64]) -> f64 {
        let sum: f64 = chances.iter().sum();
        let (mut statistic, mut classes, mut expected, mut got) = (0.0, 0.0, 0.0, 0.0);
        for (&count, &chance) in seen.iter().zip(chances) {
            expected += DRAWS as f64 * chance / sum;
            got += count as f64;
            if expected >= 20.0 {
                statistic += (got - expected) * (got - expected) / expected;
                (classes, expected, got) = (classes + 1.0, 0.0, 0.0);
            }
        }
        let freedom: f64 = classes - 1.0;
        (statistic - freedom) / (2.0 * freedom).sqrt()
    }

    /// Counts by rank instead of by place.
    fn by_rank(seen: &[u64], spread: &Spread) -> Vec<u64> {
        (0..spread.places).map(|rank| seen[spread.place(rank) as usize]).collect()
    }

    #[test]
    fn zipf_gives_each_rank_its_chance() {
        let places = 1000;
        for theta in [0.3, 0.8, 0.99, 1.0001, 1.2, 2.5, 8.0] {
            let zipf = Preference::new(&Distribution::Zipf { theta, center: None }, places, 1, 3).unwrap();
            let Preference::Zipf(_, spread) = &zipf else { unreachable!() };
            let chances: Vec<f64> = (1..=places).map(|rank| (rank as f64).powf(-theta)).collect();
            let off = deviation(&by_rank(&counts(&zipf, places), spread), &chances);
            assert!(off.abs() < 4.0, "theta {theta}: {off}");
        }
    }

    #[test]
    fn zipf_over_more_places_than_can_be_summed_has_the_exact_first_ranks() {
        let places = 1 << 40;
        let zipf = Zipf::new(places, 1.2);
        let mut rng = Rng::new(1);
        let first = (0..DRAWS).filter(|_| zipf.draw(&mut rng) == 1).count();
        // 1/ζ(1.2), less the share of the ranks beyond 2⁴⁰: 0.17947; five standard deviations are 858.
        assert!(first.abs_diff(35_893) < 858, "{first}");
    }

    #[test]
    fn pareto_gives_the_share_1_h_to_the_share_h() {
        let places = 1000;
        let pareto = Preference::new(&Distribution::Pareto { h: 0.2, center: None }, places, 1, 3).unwrap();
        let Preference::Pareto { exponent, spread, .. } = &pareto else { unreachable!() };
        let seen = by_rank(&counts(&pareto, places), spread);
        let upto = |rank: u64| (rank as f64 / places as f64).powf(1.0 / exponent);
        let chances: Vec<f64> = (0..places).map(|rank| upto(rank + 1) - upto(rank)).collect();
        assert!(deviation(&seen, &chances).abs() < 4.0);
        let first: u64 = seen[..200].iter().sum();
        // 80 %; five standard deviations are 894.
        assert!(first.abs_diff(160_000) < 894, "{first}");
    }

    #[test]
    fn the_most_popular_place_is_at_the_centre() {
        for (distribution, center) in [
            (Distribution::Zipf { theta: 1.5, center: Some(0.25) }, 250),
            (Distribution::Zipf { theta: 1.5, center: Some(1.0) }, 999),
            (Distribution::Pareto { h: 0.1, center: Some(0.0) }, 0),
        ] {
            let seen = counts(&Preference::new(&distribution, 1000, 1, 3).unwrap(), 1000);
            let most = (0..1000).max_by_key(|&place| seen[place]);
            assert_eq!(most, Some(center), "{distribution:?}");
        }
    }

    #[test]
    fn normal_has_its_mean_and_deviation() {
        let places = 1000;
        for (center, mean) in [(None, 500.0), (Some(0.3), 300.0)] {
            let distribution = Distribution::Normal { deviation_percent: 5.0, center };
            let seen = counts(&Preference::new(&distribution, places, 1, 3).unwrap(), places);
            let chances: Vec<f64> =
                (0..places).map(|place| (-(place as f64 + 0.5 - mean).powi(2) / (2.0 * 50.0 * 50.0)).exp()).collect();
            assert!(deviation(&seen, &chances).abs() < 4.0, "{center:?}");
        }
        for deviation_percent in [0.0, 1e-9, 100.0] {
            for center in [0.0, 1.0] {
                let distribution = Distribution::Normal { deviation_percent, center: Some(center) };
                assert_eq!(counts(&Preference::new(&distribution, 10, 1, 3).unwrap(), 10).len(), 10);
            }
        }
    }

    #[test]
    fn zones_have_their_shares_and_are_cut_off_at_the_end() {
        let zone = |access_percent, offset_bytes, bytes| Zone { access_percent, offset_bytes, bytes };
        let zones = vec![zone(60.0, 0, 100), zone(30.0, 100, 200), zone(0.0, 300, 100), zone(10.0, 400, 5000)];
        let seen = counts(&Preference::new(&Distribution::Zones { zones }, 50, 10, 3).unwrap(), 50);
        let chances: Vec<f64> = (0..50)
            .map(|place| match place {
                0..10 => 0.06,
                10..30 => 0.015,
                40.. => 0.01,
                _ => 0.0,
            })
            .collect();
        assert!(seen[30..40].iter().all(|&count| count == 0), "{seen:?}");
        assert!(deviation(&seen, &chances).abs() < 4.0, "{seen:?}");
        let beyond = Distribution::Zones { zones: vec![zone(100.0, 500, 100)] };
        assert!(Preference::new(&beyond, 50, 10, 3).is_none());
    }
}
