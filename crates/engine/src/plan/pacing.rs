//! Rates and pauses, and the ends of a worker.

use serde::{Deserialize, Serialize};

use iocurve_meter::Nanos;

/// An open-loop rate: `count` per `per_ns`. The k-th operation is due at exactly k × per / count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Unit of `count`.
    pub unit: RateUnit,
    /// Units per `per_ns`; at least 1.
    pub count: u64,
    /// At least 1.
    pub per_ns: Nanos,
    /// Distribution of the arrivals.
    #[cfg_attr(test, schemars(extend("default" = "even")))]
    pub arrivals: Arrivals,
}

/// Distribution of the arrivals of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Equal distances.
    Even,
    /// Exponentially distributed distances (a Poisson process) with the mean of the rate.
    Poisson,
}

/// Unit of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RateUnit {
    /// Operations.
    Operations,
    /// Bytes.
    Bytes,
}

/// Pauses between operations (fio's `thinktime`, DiskSpd's `-i` and `-j`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Think {
    /// Length of a pause.
    pub pause_ns: Nanos,
    /// Part of the pause in which the processor is kept busy.
    #[cfg_attr(test, schemars(default))]
    pub spin_ns: Nanos,
    /// Operations between pauses; 0 sets no number, and `every_ns` alone decides.
    #[cfg_attr(test, schemars(extend("default" = 1)))]
    pub every: u32,
    /// Operations that count towards a pause.
    #[cfg_attr(test, schemars(extend("default" = "completed")))]
    pub counts: ThinkCounts,
    /// Length of the load between pauses, if `every` operations do not come first (fio's `thinktime_iotime`).
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub every_ns: Option<Nanos>,
    /// Operations in flight complete before a pause begins (fio); otherwise the pause begins at once (DiskSpd).
    #[cfg_attr(test, schemars(extend("default" = true)))]
    pub drains: bool,
    /// A pause moves due times (fio's `rate_ignore_thinktime`); otherwise the worker catches up.
    #[cfg_attr(test, schemars(default))]
    pub moves_schedule: bool,
}

/// Operations that count towards a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ThinkCounts {
    /// Completed operations.
    Completed,
    /// Submitted operations.
    Issued,
}

/// Share of the operations of all workers with the same id (vdbench's skew, fio's flow): a worker that is ahead waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Workers of a group with the same id share a flow.
    pub id: u32,
    /// Share, relative to the other workers; at least 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub weight: u32,
}

/// Conditions that end a worker, whichever comes first. Without any, the worker runs until it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    /// A write that fails for lack of space ends the worker cleanly (fio's `fill_device`); otherwise it fails the
    /// worker.
    #[cfg_attr(test, schemars(default))]
    pub when_full: bool,
}

/// Ends the other workers of a group when a worker has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EndsOthers {
    /// The others go on.
    Never,
    /// The others end cleanly, as finished (fio's `exitall`); later groups still run.
    Always,
    /// The others end cleanly if this one failed (fio's `exitall_on_error`).
    OnError,
    /// The others end cleanly once all workers of the group with this setting have ended (vdbench's `seekpct=eof`).
    Together,
}

/// Search for the largest depth, up to the worker's, at which a percentage of the operations stays within a latency
/// (fio's `latency_target`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LatencyTarget {
    /// Latency limit.
    pub target_ns: Nanos,
    /// Length of the window in which each depth is tried.
    pub window_ns: Nanos,
    /// Per cent of the operations that must be within the limit.
    #[cfg_attr(test, schemars(extend("exclusiveMinimum" = 0, "maximum" = 100)))]
    pub percentile: f64,
    /// The worker goes on at the depth found; otherwise finding it ends the worker.
    pub run_on: bool,
}

/// Criterion for a steady state (fio's steadystate, SNIA PTS), which ends the workers of the report group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SteadyState {
    /// Figure that must be steady.
    pub figure: SteadyFigure,
    /// Property of the figure that must be small.
    pub criterion: SteadyCriterion,
    /// Limit of that property: in per cent of the mean, or in the figure's own unit (operations/s, bytes/s, ns; a slope
    /// per check).
    #[cfg_attr(test, schemars(extend("minimum" = 0)))]
    pub limit: f64,
    /// `limit` is in per cent of the mean, not in the figure's unit.
    pub limit_is_percent: bool,
    /// Length of the window that must be steady.
    pub duration_ns: Nanos,
    /// Time ignored at the start.
    pub ramp_ns: Nanos,
    /// Time between two samples.
    pub check_ns: Nanos,
}

/// Figure that must be steady.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SteadyFigure {
    /// Operations per second.
    Iops,
    /// Bytes per second.
    Bandwidth,
    /// Mean service latency.
    Latency,
}

/// Property that must be small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SteadyCriterion {
    /// The largest deviation of a sample from the mean.
    Deviation,
    /// The slope of the least-squares line.
    Slope,
}
