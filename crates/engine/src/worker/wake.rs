//! Why the loop does not go on submitting.

use iocurve_meter::Nanos;

/// What the loop waits for besides completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    /// An instant: the next paced operation is due, or a pause is over.
    At(Nanos),
    /// As `At`, but the processor is kept busy.
    Busy(Nanos),
    /// Nothing: more could be handed over at once, after what has been has gone out.
    Now,
    /// Completions alone: as much is in flight as may be.
    Never,
    /// Nothing: what was measured so far was for the search of a depth alone, and counts from now on.
    Measure,
    /// Nothing more: all was issued.
    Exhausted,
    /// Nothing more: the depth that was searched for is found.
    Found,
}

impl Wake {
    /// Whether nothing more will be issued.
    pub(super) fn is_last(self) -> bool {
        matches!(self, Self::Exhausted | Self::Found)
    }

    /// When it comes, if it comes by itself.
    #[inline]
    pub(super) fn at(self) -> Nanos {
        match self {
            Self::At(instant) | Self::Busy(instant) => instant,
            _ => Nanos::MAX,
        }
    }
}
