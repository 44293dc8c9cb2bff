use std::sync::Arc;
use std::time::Duration;

use quanta::Mock;

use crate::Nanos;

/// A monotonic clock that counts from its creation. Copies share the same zero.
///
/// Reads the processor's time stamp counter if that is invariant (about 10 ns a reading, half the cost of the system's
/// clock), and otherwise the system's monotonic clock.
#[derive(Debug, Clone)]
pub struct Clock {
    inner: quanta::Clock,
    zero: u64,
    hand: Option<Arc<Mock>>,
}

impl Clock {
    /// Creates a clock that reads 0 now.
    pub fn new() -> Self {
        let inner = quanta::Clock::new();
        let zero = inner.raw();
        Self { inner, zero, hand: None }
    }

    /// Creates a clock that moves only when it is advanced, for exactly repeatable simulations.
    pub fn manual() -> Self {
        let (inner, hand) = quanta::Clock::mock();
        let zero = inner.raw();
        Self { inner, zero, hand: Some(hand) }
    }

    /// Time since the clock was created.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.inner.delta_as_nanos(self.zero, self.inner.raw())
    }

    /// Moves a manual clock and all its copies.
    ///
    /// # Panics
    /// If the clock is a real clock.
    pub fn advance(&self, by: Nanos) {
        self.hand.as_ref().expect("only a manual clock is moved").increment(by);
    }

    /// Returns at `deadline`, with almost no delay: sleeps, then spins for the last part, because a sleep ends late and
    /// never early. Advances a manual clock to the deadline instead.
    pub fn wait_until(&self, deadline: Nanos) {
        const SPIN: Nanos = 20_000;
        while let Some(rest) = deadline.checked_sub(self.now()).filter(|&rest| rest > 0) {
            if self.hand.is_some() {
                self.advance(rest);
            } else if rest > SPIN {
                std::thread::sleep(Duration::from_nanos(rest - SPIN));
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Returns at `deadline` and keeps the processor busy until then. Advances a manual clock to the deadline instead.
    pub fn spin_until(&self, deadline: Nanos) {
        while let Some(rest) = deadline.checked_sub(self.now()).filter(|&rest| rest > 0) {
            if self.hand.is_some() {
                self.advance(rest);
            }
            std::hint::spin_loop();
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_goes_back_and_agrees_between_copies() {
        let clock = Clock::new();
        let copy = clock.clone();
        let mut last = 0;
        for _ in 0..1000 {
            let now = if last % 2 == 0 { clock.now() } else { copy.now() };
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn a_manual_clock_moves_only_when_moved() {
        let clock = Clock::manual();
        assert_eq!(clock.now(), 0);
        clock.clone().advance(1_500);
        clock.wait_until(2_000);
        clock.wait_until(1_000);
        assert_eq!(clock.now(), 2_000);
    }

    #[test]
    fn waiting_is_never_short() {
        let clock = Clock::new();
        clock.wait_until(300_000);
        assert!(clock.now() >= 300_000);
    }
}
