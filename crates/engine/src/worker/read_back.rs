//! Time in which written data are read back and nothing else is done.

use iocurve_meter::Nanos;

/// Adds up the passes of reading back, so that the rates of reads and writes can be reported over their own time.
#[derive(Debug, Default)]
pub(super) struct ReadBack {
    window_start: Nanos,
    since: Option<Nanos>,
    total: Nanos,
}

impl ReadBack {
    /// Sets the start of the window; time before it does not count.
    pub(super) fn counts_from(&mut self, window_start: Nanos) {
        self.window_start = window_start;
    }

    /// Begins a pass, unless one is in progress.
    pub(super) fn begins(&mut self, now: Nanos) {
        self.since.get_or_insert(now.max(self.window_start));
    }

    /// Ends the pass, if there is one; returns the sum inside the window so far.
    pub(super) fn ends(&mut self, now: Nanos) -> Nanos {
        if let Some(since) = self.since.take() {
            self.total += now.saturating_sub(since);
        }
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_completions_inside_the_window_count() {
        let mut read_back = ReadBack::default();
        read_back.counts_from(30);
        for (from, to) in [(0, 20), (22, 40), (60, 80), (90, 100)] {
            read_back.begins(from);
            read_back.begins(from + 5);
            read_back.ends(to);
        }
        assert_eq!(read_back.ends(120), 10 + 20 + 10);
    }
}
