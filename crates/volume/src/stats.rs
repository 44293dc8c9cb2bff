//! What a volume has done. Each thread counts for itself; readers add up.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

macro_rules! counters {
    ($($(#[$meta:meta])* $name:ident),* $(,)?) => {
        /// What a volume has done since it was started.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
        pub struct Stats { $($(#[$meta])* pub $name: u64),* }

        /// Counters of one thread, on cache lines of their own.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct Counters { $(pub(crate) $name: Counter),* }

        impl Counters {
            /// Adds these counters to `stats`.
            pub(crate) fn add_to(&self, stats: &mut Stats) {
                $(stats.$name += self.$name.0.load(Relaxed);)*
            }
        }
    };
}

counters! {
    /// READs answered.
    reads,
    /// Bytes of data in them.
    read_bytes,
    /// WRITEs carried out.
    writes,
    /// Bytes of data in them.
    write_bytes,
    /// COMMITs answered.
    commits,
    /// Other calls answered, of all programs.
    other_operations,
    /// READs and WRITEs that had to wait for a limit or the added latency.
    throttled_operations,
    /// How long they waited, together.
    throttled_ns,
    /// Connections accepted.
    connections_accepted,
    /// Connections closed.
    connections_closed,
    /// Connections closed because the peer broke the protocol.
    protocol_errors,
}

impl Stats {
    /// Connections that are open now.
    pub fn connections(&self) -> u64 {
        self.connections_accepted.saturating_sub(self.connections_closed)
    }
}

/// A number that one thread adds to and others read.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds; only one thread may. A plain load and store cost less than a locked addition.
    #[inline]
    pub(crate) fn add(&self, value: u64) {
        self.0.store(self.0.load(Relaxed) + value, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up() {
        let (one, two) = (Counters::default(), Counters::default());
        one.reads.add(2);
        two.reads.add(3);
        two.connections_accepted.add(4);
        one.connections_closed.add(1);
        let mut stats = Stats::default();
        one.add_to(&mut stats);
        two.add_to(&mut stats);
        assert_eq!((stats.reads, stats.connections()), (5, 3));
    }
}
