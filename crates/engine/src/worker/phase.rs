//! Phases of the loop, from its start to its end: a table of phases and events. Time is an argument.

use iocurve_meter::Nanos;

/// Most time without a completion after the end of the load, while operations are in flight. Over NFS it is at least the
/// timeout of the mount.
pub(super) const DRAIN: Nanos = 30_000_000_000;
/// Most time after a stop or a failure.
pub(super) const DRAIN_WHEN_STOPPED: Nanos = 1_000_000_000;

/// The phases of the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Submits operations as they come due.
    Issuing,
    /// Submits nothing more, and waits for operations in flight until this time.
    Draining { until: Nanos },
    /// As before, after a stop or a failure.
    Stopping { until: Nanos },
    /// Flushes one file after another; nothing else is in flight.
    FlushingAtEnd,
    /// Nothing is in flight and nothing is left to do.
    Over,
}

/// Events that move the loop to another phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The run was stopped from outside.
    Stopped,
    /// An operation failed.
    Failed,
    /// The load is over: by time, because the run asks the worker to finish, or because the depth searched for is found.
    /// Operations in flight have this time to complete.
    LoadOver { drain: Nanos },
    /// All operations were issued and have completed; files may be left to flush.
    Idle { flushes: bool },
}

impl Phase {
    /// The phase that follows an event at `now`.
    #[must_use]
    pub(super) fn after(self, event: Event, now: Nanos) -> Self {
        match (self, event) {
            (Self::Over, _) | (_, Event::Idle { flushes: false }) => Self::Over,
            (_, Event::Stopped | Event::Failed) => Self::Stopping { until: now.saturating_add(DRAIN_WHEN_STOPPED) },
            (Self::Issuing, Event::LoadOver { drain }) => Self::Draining { until: now.saturating_add(drain) },
            (_, Event::LoadOver { .. }) => self,
            (_, Event::Idle { flushes: true }) => Self::FlushingAtEnd,
        }
    }

    /// The phase after an operation has completed at `now`: the drain goes on while operations complete.
    #[inline]
    #[must_use]
    pub(super) fn after_completion(self, now: Nanos, drain: Nanos) -> Self {
        match self {
            Self::Draining { .. } => Self::Draining { until: now.saturating_add(drain) },
            _ => self,
        }
    }

    /// Returns `true` if operations in flight have exceeded their time to complete. A flush at the end has no time
    /// limit.
    pub(super) fn is_overdue(self, now: Nanos) -> bool {
        matches!(self, Self::Draining { until } | Self::Stopping { until } if now >= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = 1_000;
    const DRAINING: Phase = Phase::Draining { until: 5 };
    const OVER: Event = Event::LoadOver { drain: DRAIN };
    const STOPPING: Phase = Phase::Stopping { until: 5 };
    const LONG: Phase = Phase::Draining { until: NOW + DRAIN };
    const SHORT: Phase = Phase::Stopping { until: NOW + DRAIN_WHEN_STOPPED };

    #[test]
    fn each_phase_follows_from_the_one_before_and_the_event() {
        let idle = |flushes| Event::Idle { flushes };
        for (before, event, after) in [
            (Phase::Issuing, Event::Stopped, SHORT),
            (Phase::Issuing, Event::Failed, SHORT),
            (Phase::Issuing, OVER, LONG),
            (Phase::Issuing, idle(true), Phase::FlushingAtEnd),
            (Phase::Issuing, idle(false), Phase::Over),
            (DRAINING, Event::Stopped, SHORT),
            (DRAINING, Event::Failed, SHORT),
            (DRAINING, OVER, DRAINING),
            (DRAINING, idle(true), Phase::FlushingAtEnd),
            (DRAINING, idle(false), Phase::Over),
            (STOPPING, Event::Stopped, SHORT),
            (STOPPING, OVER, STOPPING),
            (STOPPING, idle(false), Phase::Over),
            (Phase::FlushingAtEnd, Event::Stopped, SHORT),
            (Phase::FlushingAtEnd, Event::Failed, SHORT),
            (Phase::FlushingAtEnd, OVER, Phase::FlushingAtEnd),
            (Phase::FlushingAtEnd, idle(true), Phase::FlushingAtEnd),
            (Phase::FlushingAtEnd, idle(false), Phase::Over),
            (Phase::Over, Event::Stopped, Phase::Over),
            (Phase::Over, Event::Failed, Phase::Over),
            (Phase::Over, OVER, Phase::Over),
            (Phase::Over, idle(true), Phase::Over),
            (Phase::Over, idle(false), Phase::Over),
        ] {
            assert_eq!(before.after(event, NOW), after, "{before:?} {event:?}");
        }
    }

    #[test]
    fn only_draining_is_given_up_and_only_when_its_time_is_over() {
        for phase in [DRAINING, STOPPING] {
            assert!(phase.is_overdue(5) && !phase.is_overdue(4), "{phase:?}");
        }
        for phase in [Phase::Issuing, Phase::FlushingAtEnd, Phase::Over] {
            assert!(!phase.is_overdue(Nanos::MAX), "{phase:?}");
        }
    }

    #[test]
    fn a_completion_extends_the_drain_and_nothing_else() {
        assert_eq!(DRAINING.after_completion(NOW, DRAIN), LONG);
        for phase in [Phase::Issuing, STOPPING, Phase::FlushingAtEnd, Phase::Over] {
            assert_eq!(phase.after_completion(NOW, DRAIN), phase);
        }
    }

    #[test]
    fn an_end_beyond_the_clock_does_not_overflow() {
        assert_eq!(Phase::Issuing.after(OVER, Nanos::MAX), Phase::Draining { until: Nanos::MAX });
    }
}
