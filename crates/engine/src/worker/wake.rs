//! Reasons why the loop stops submitting.

use iocurve_meter::Nanos;

/// An attempt to submit the next operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Issue {
    Submitted,
    /// Nothing was submitted; the loop waits for this event.
    Blocked(Wake),
}

/// The loop waits for this event, or for a completion, whichever comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    /// A point in time: the next paced operation is due, or a pause is over.
    At(Nanos),
    /// As `At`, but the processor is kept busy.
    Busy(Nanos),
    /// Nothing: more can be submitted as soon as the batch is sent.
    Now,
    /// A completion alone: the submit allowance is exhausted.
    Never,
    /// Nothing: the depth search has converged, and the measured window restarts.
    Measure,
    /// Nothing more: all operations were issued.
    Exhausted,
    /// Nothing more: the window at the depth found is over.
    Found,
}

impl Wake {
    /// Returns `true` if nothing more will be issued.
    pub(super) fn is_last(self) -> bool {
        matches!(self, Self::Exhausted | Self::Found)
    }

    /// The time at which submitting can continue.
    #[inline]
    pub(super) fn at(self) -> Nanos {
        match self {
            Self::At(instant) | Self::Busy(instant) => instant,
            _ => Nanos::MAX,
        }
    }
}
