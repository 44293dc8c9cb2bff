//! Detection of a steady state in a report group (fio's `steadystate`, SNIA PTS).

use std::collections::{BTreeMap, VecDeque};

use iocurve_meter::{Nanos, SECOND};

use crate::outcome::{IntervalOutcome, SteadyOutcome, SteadySample};
use crate::plan::{SteadyCriterion, SteadyFigure, SteadyState};
use crate::record::Tally;

/// Samples of a report group, all workers together. The criterion applies to the window of the newest samples.
///
/// A sample is a period of `check_ns`, counted from the group's start. A period in which some worker did not run from
/// beginning to end, or that contains a part of the ramp, is left out.
#[derive(Debug)]
pub(crate) struct Steadiness {
    plan: SteadyState,
    running: usize,
    /// Periods that some running workers have not finished.
    open: BTreeMap<u64, Period>,
    /// Start of the first whole period.
    first_ns: Option<Nanos>,
    samples: VecDeque<SteadySample>,
    judged: Judged,
    attained_ns: Option<Nanos>,
}

#[derive(Debug, Default)]
struct Period {
    closed_by: usize,
    covered_ns: Nanos,
    operations: u64,
    bytes: u64,
    latency_ns: u128,
}

/// Figures of the last full window.
#[derive(Debug, Clone, Copy, Default)]
struct Judged {
    criterion: f64,
    deviation: f64,
    slope: f64,
}

impl Steadiness {
    pub(crate) fn new(plan: SteadyState, workers: usize) -> Self {
        Self {
            plan,
            running: workers,
            open: BTreeMap::new(),
            first_ns: None,
            samples: VecDeque::new(),
            judged: Judged::default(),
            attained_ns: None,
        }
    }

    pub(crate) fn worker_ended(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// Called when a worker has closed an interval. Returns `true` once, when the figures have become steady.
    pub(crate) fn interval_closed(&mut self, interval: &IntervalOutcome, tallies: &[Tally]) -> bool {
        if self.attained_ns.is_some() || interval.end_ns <= interval.start_ns {
            return false;
        }
        let check_ns = self.plan.check_ns;
        let number = interval.start_ns / check_ns;
        let period = self.open.entry(number).or_default();
        period.closed_by += usize::from(interval.end_ns.is_multiple_of(check_ns));
        if !interval.ramp {
            period.covered_ns += interval.end_ns - interval.start_ns;
            for tally in tallies {
                period.operations += tally.operations;
                period.bytes += tally.bytes();
                period.latency_ns += tally.service.sum();
            }
        }
        if period.closed_by < self.running {
            return false;
        }
        let period = self.open.remove(&number).expect("it was just looked at");
        self.open = self.open.split_off(&(number + 1));
        period.covered_ns == self.running as u64 * check_ns && self.add(number * check_ns, &period)
    }

    pub(crate) fn outcome(&self) -> SteadyOutcome {
        SteadyOutcome {
            attained_ns: self.attained_ns,
            criterion: self.judged.criterion,
            deviation: self.judged.deviation,
            slope: self.judged.slope,
            samples: self.samples.iter().copied().collect(),
        }
    }

    /// Adds the sample of a whole period; returns `true` if the figures are steady now.
    fn add(&mut self, start_ns: Nanos, period: &Period) -> bool {
        let first_ns = *self.first_ns.get_or_insert(start_ns);
        if start_ns < first_ns + self.plan.ramp_ns {
            return false;
        }
        let seconds = self.plan.check_ns as f64 / SECOND as f64;
        let latency_ns = if period.operations == 0 { 0.0 } else { period.latency_ns as f64 / period.operations as f64 };
        let end_ns = start_ns + self.plan.check_ns;
        let (iops, bytes_per_s) = (period.operations as f64 / seconds, period.bytes as f64 / seconds);
        self.samples.push_back(SteadySample { end_ns, iops, bytes_per_s, latency_ns });
        let window = (self.plan.duration_ns / self.plan.check_ns) as usize;
        if self.samples.len() > window {
            self.samples.pop_front();
        }
        if self.samples.len() < window {
            return false;
        }
        let figures: Vec<f64> = self.samples.iter().map(|sample| figure(sample, self.plan.figure)).collect();
        self.judged = judge(&figures, &self.plan);
        let attained = self.judged.criterion.abs() <= self.plan.limit;
        if attained {
            self.attained_ns = Some(end_ns);
        }
        attained
    }
}

fn figure(sample: &SteadySample, figure: SteadyFigure) -> f64 {
    match figure {
        SteadyFigure::Iops => sample.iops,
        SteadyFigure::Bandwidth => sample.bytes_per_s,
        SteadyFigure::Latency => sample.latency_ns,
    }
}

/// Applies the criterion to a window. With a mean of 0 it is never steady in per cent of the mean.
fn judge(figures: &[f64], plan: &SteadyState) -> Judged {
    let count = figures.len() as f64;
    let mean = figures.iter().sum::<f64>() / count;
    let deviation = figures.iter().map(|figure| (figure - mean).abs()).fold(0.0, f64::max);
    let middle = (count - 1.0) / 2.0;
    let along = |place: usize| place as f64 - middle;
    let spread: f64 = (0..figures.len()).map(|place| along(place).powi(2)).sum();
    let rise: f64 = figures.iter().enumerate().map(|(place, figure)| along(place) * (figure - mean)).sum();
    // One sample has no slope.
    let slope = if spread > 0.0 { rise / spread } else { 0.0 };
    let value = if plan.criterion == SteadyCriterion::Slope { slope } else { deviation };
    let criterion = match (plan.limit_is_percent, mean == 0.0) {
        (false, _) => value,
        (true, false) => 100.0 * value / mean,
        (true, true) => f64::MAX,
    };
    Judged { criterion, deviation, slope }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::IntervalKinds;
    use crate::record::recorder::tests::tally_of;

    const S: Nanos = SECOND;

    fn plan(criterion: SteadyCriterion, limit: f64) -> SteadyState {
        SteadyState {
            figure: SteadyFigure::Iops,
            criterion,
            limit,
            limit_is_percent: true,
            duration_ns: 4 * S,
            ramp_ns: 0,
            check_ns: S,
        }
    }

    fn interval(start_ns: Nanos, end_ns: Nanos, ramp: bool) -> IntervalOutcome {
        IntervalOutcome { index: start_ns / S, joined: 1, ramp, start_ns, end_ns, operations: IntervalKinds::default() }
    }

    /// One worker that completes these numbers of operations of 10 bytes and 5 ns, second by second.
    fn run(steadiness: &mut Steadiness, from: u64, counts: &[u64]) -> Vec<u64> {
        let seconds = (from..).zip(counts);
        let steady = seconds.filter(|&(second, &count)| {
            let interval = interval(second * S, (second + 1) * S, false);
            steadiness.interval_closed(&interval, &[tally_of(count, 10, 5)])
        });
        steady.map(|(second, _)| second).collect()
    }

    #[test]
    fn the_largest_deviation_of_the_newest_samples_is_judged() {
        let mut steadiness = Steadiness::new(plan(SteadyCriterion::Deviation, 10.0), 1);
        // 50, 90, 100, 110 is 37.5 off its mean of 87.5; 90, 100, 110, 100 is 10 off 100.
        assert_eq!(run(&mut steadiness, 0, &[50, 90, 100, 110, 100, 70]), [4]);
        let outcome = steadiness.outcome();
        assert_eq!(outcome.attained_ns, Some(5 * S));
        assert_eq!((outcome.criterion, outcome.deviation, outcome.slope), (10.0, 10.0, 4.0));
        let iops: Vec<f64> = outcome.samples.iter().map(|sample| sample.iops).collect();
        assert_eq!(iops, [90.0, 100.0, 110.0, 100.0]);
        assert_eq!(
            outcome.samples[3],
            SteadySample { end_ns: 5 * S, iops: 100.0, bytes_per_s: 1000.0, latency_ns: 5.0 }
        );
    }

    #[test]
    fn the_slope_is_that_of_the_least_squares_line() {
        let mut steadiness = Steadiness::new(plan(SteadyCriterion::Slope, 1.0), 1);
        // A slope of 10 per second, then a decline: 20, 30, 40, 20 has a slope of 1 and a mean of 27.5.
        assert_eq!(run(&mut steadiness, 0, &[10, 20, 30, 40]), [0; 0]);
        let outcome = steadiness.outcome();
        assert_eq!((outcome.slope, outcome.criterion, outcome.attained_ns), (10.0, 40.0, None));
        let mut absolute = plan(SteadyCriterion::Slope, 1.0);
        absolute.limit_is_percent = false;
        let mut steadiness = Steadiness::new(absolute, 1);
        assert_eq!(run(&mut steadiness, 0, &[10, 20, 30, 40, 20]), [4]);
        assert_eq!((steadiness.outcome().criterion, steadiness.outcome().slope), (1.0, 1.0));
        // A negative slope counts, too.
        let mut steadiness = Steadiness::new(absolute, 1);
        assert_eq!(run(&mut steadiness, 0, &[40, 30, 20, 10]), [0; 0]);
    }

    #[test]
    fn all_workers_of_the_group_add_up_to_a_sample() {
        let mut steadiness =
            Steadiness::new(SteadyState { duration_ns: 2 * S, ..plan(SteadyCriterion::Deviation, 0.0) }, 2);
        // Each alone varies, their sum does not; the second starts a second late.
        assert_eq!(run(&mut steadiness, 0, &[10, 90]), [0; 0]);
        assert_eq!(run(&mut steadiness, 0, &[90, 10]), [1]);
        let sample = SteadySample { end_ns: S, iops: 100.0, bytes_per_s: 1000.0, latency_ns: 5.0 };
        assert_eq!(steadiness.outcome().samples[0], sample);
    }

    #[test]
    fn the_ramp_and_periods_in_part_are_left_out() {
        let two = SteadyState { duration_ns: 2 * S, ramp_ns: S, ..plan(SteadyCriterion::Deviation, 0.0) };
        let mut steadiness = Steadiness::new(two, 1);
        assert!(!steadiness.interval_closed(&interval(0, S / 2, true), &[tally_of(5, 1, 1)]));
        assert!(!steadiness.interval_closed(&interval(S / 2, S, false), &[tally_of(5, 1, 1)]));
        // The second from 1 to 2 is the first whole one, and its own ramp; the samples are those after it.
        assert_eq!(run(&mut steadiness, 1, &[100, 7, 7]), [3]);
        assert_eq!(steadiness.outcome().attained_ns, Some(4 * S));
    }

    #[test]
    fn ended_workers_are_not_waited_for() {
        let mut steadiness =
            Steadiness::new(SteadyState { duration_ns: 2 * S, ..plan(SteadyCriterion::Deviation, 0.0) }, 2);
        assert_eq!(run(&mut steadiness, 0, &[10]), [0; 0]);
        steadiness.interval_closed(&interval(0, S / 3, false), &[tally_of(1, 1, 1)]);
        steadiness.worker_ended();
        assert_eq!(run(&mut steadiness, 1, &[10, 10]), [2]);
    }

    #[test]
    fn nothing_at_all_is_not_steady_in_per_cent() {
        let mut steadiness = Steadiness::new(plan(SteadyCriterion::Deviation, 50.0), 1);
        assert_eq!(run(&mut steadiness, 0, &[0, 0, 0, 0, 0]), [0; 0]);
    }
}
