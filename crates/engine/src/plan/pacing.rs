//! Rates and pauses, and the ends of a worker.

use serde::{Deserialize, Serialize};

use iocurve_meter::Nanos;

/// An open-loop rate: `count` per `per_ns`. The k-th operation is due at exactly k × per / count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// What is counted.
    pub unit: RateUnit,
    /// How many; at least 1.
    pub count: u64,
    /// In how long; at least 1.
    pub per_ns: Nanos,
    /// When, within that.
    pub arrivals: Arrivals,
}

/// When operations of a rate are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// At equal distances.
    Even,
    /// At exponentially distributed distances (a Poisson process) of that mean.
    Poisson,
}

/// What a rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateUnit {
    /// Operations.
    Operations,
    /// Bytes.
    Bytes,
}

/// Pauses between operations (fio's `thinktime`, DiskSpd's `-i` and `-j`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Think {
    /// Length of a pause.
    pub pause_ns: Nanos,
    /// Part of the pause in which the processor is kept busy.
    pub spin_ns: Nanos,
    /// Operations between pauses; 0, with `every_ns` alone, is any number.
    pub every: u32,
    /// Whether operations are counted when handed over or when done.
    pub counts: ThinkCounts,
    /// Length of the load between pauses, if so many operations do not come first (fio's `thinktime_iotime`).
    #[serde(deserialize_with = "Option::deserialize")]
    pub every_ns: Option<Nanos>,
    /// Whether what is in flight comes back before a pause begins (fio); otherwise it begins at once (`DiskSpd`).
    pub drains: bool,
    /// Whether due times are moved by a pause (fio's `rate_ignore_thinktime`); otherwise what was missed is caught up with.
    pub moves_schedule: bool,
}

/// Which operations count towards a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkCounts {
    /// Those that are done.
    Completed,
    /// Those that are handed over.
    Issued,
}

/// A part of the operations of all workers with the same number (vdbench's skew, fio's `flow`): whoever is ahead waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Workers of a group with the same number belong together.
    pub id: u32,
    /// Its part, relative to the others'; at least 1.
    pub weight: u32,
}

/// What ends a worker: whichever comes first. At least one is set, or it runs until it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Length of the measured window, after the ramp.
    #[serde(deserialize_with = "Option::deserialize")]
    pub runtime_ns: Option<Nanos>,
    /// Bytes transferred, all kinds together, ramp included.
    #[serde(deserialize_with = "Option::deserialize")]
    pub bytes: Option<u64>,
    /// Operations, all kinds together, ramp included.
    #[serde(deserialize_with = "Option::deserialize")]
    pub operations: Option<u64>,
    /// Whether a write for which there is no room ends the worker in order (fio's `fill_device`); otherwise it has failed.
    pub when_full: bool,
}

/// What happens to the others when a worker has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndsOthers {
    /// Nothing.
    Never,
    /// They end in order, as finished (fio's `exitall`); later groups still run.
    Always,
    /// They end in order if this one failed (fio's `exitall_on_error`).
    OnError,
    /// They end in order once all workers of the group that say so have ended (vdbench's `seekpct=eof`).
    Together,
}

/// A search for the depth at which so many per cent of the operations stay within a latency, up to the worker's depth
/// (fio's `latency_target`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyTarget {
    /// The latency.
    pub target_ns: Nanos,
    /// How long each depth is tried.
    pub window_ns: Nanos,
    /// Per cent of operations that must be within it.
    pub percentile: f64,
    /// Whether to go on at the depth found until the worker's end; otherwise it ends the worker.
    pub run_on: bool,
}

/// When figures hold steady (fio's `steadystate`, SNIA PTS).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SteadyState {
    /// Which figure.
    pub figure: SteadyFigure,
    /// What of it must be small.
    pub criterion: SteadyCriterion,
    /// How small: in per cent of the mean, or in the figure's own unit (operations/s, bytes/s, ns; a slope per check).
    pub limit: f64,
    /// Whether `limit` is in per cent.
    pub limit_is_percent: bool,
    /// Over how long.
    pub duration_ns: Nanos,
    /// How long to let pass first.
    pub ramp_ns: Nanos,
    /// Time between two samples.
    pub check_ns: Nanos,
}

/// Which figure must hold steady.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SteadyFigure {
    /// Operations per second.
    Iops,
    /// Bytes per second.
    Bandwidth,
    /// Mean service latency.
    Latency,
}

/// What must be small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SteadyCriterion {
    /// The largest deviation of a sample from the mean.
    Deviation,
    /// The slope of the least-squares line.
    Slope,
}
