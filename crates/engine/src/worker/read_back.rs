//! How long what was written was read back and nothing else was done.

use iocurve_meter::Nanos;

/// The passes of reading back, so that the rates of reads and writes can be told over their own time.
#[derive(Debug, Default)]
pub(super) struct ReadBack {
    window_start: Nanos,
    since: Option<Nanos>,
    total: Nanos,
}

impl ReadBack {
    /// What comes before the window does not count.
    pub(super) fn counts_from(&mut self, window_start: Nanos) {
        self.window_start = window_start;
    }

    /// A pass begins, unless one goes on.
    pub(super) fn begins(&mut self, now: Nanos) {
        self.since.get_or_insert(now.max(self.window_start));
    }

    /// A pass ends, if there is one; all that was inside the window so far.
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
    fn only_what_is_inside_the_window_counts() {
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
