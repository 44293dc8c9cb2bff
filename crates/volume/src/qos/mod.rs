//! Quality of service as pure decisions: the order of operations, and the time at which each is answered. Time is an argument.
//!
//! READs and WRITEs pass the gate of their kind, then the gate of all. At each gate clients take turns, and so do a client's
//! connections; an operation takes its tokens only when it is next, so that those behind it owe nothing and lose nothing
//! when their connection ends or the limits change. Behind the gates an operation is delayed by a server's work, the latency, and the
//! bandwidth of its connection and client; there no operation waits for another.
//!
//! The emulated [`cache`] of the server decides as an operation arrives whether it holds its data; the operation then costs less at a gate.
//!
//! [`Qos`] decides for one export; [`throttle`] shares it among threads.

mod bucket;
mod cache;
mod fair;
mod gate;
mod key_hash;
mod latency;
mod lateness;
mod limits;
mod links;
mod servers;
pub(crate) mod throttle;

use iocurve_meter::Nanos;

use cache::Cache;
use gate::{Gate, Rates, Request};
use latency::Latencies;
use lateness::Lateness;
use links::Links;

pub(crate) use bucket::CATCH_UPS_PER_S;
pub use bucket::{Bucket, Level};
pub(crate) use cache::Extent;
pub(crate) use fair::Key;
pub use limits::{Burst, Cap, Distribution, Kind, Latency, Limits, Parallelism, Quantity, Scope, ServerCache};

/// All limits of one export, and the operations that wait for them.
#[derive(Debug)]
struct Qos<T> {
    limits: Limits,
    reads: Gate<T>,
    writes: Gate<T>,
    all: Gate<T>,
    latencies: Latencies,
    links: Links,
    cache: Option<Cache>,
    lateness: Lateness,
    /// The latest time seen.
    now: Nanos,
}

impl<T> Qos<T> {
    fn new(limits: Limits, now: Nanos) -> Self {
        Self {
            reads: Gate::new(limits.rates(Kind::Read), now),
            writes: Gate::new(limits.rates(Kind::Write), now),
            all: Gate::new(limits.rates(Kind::Any), now),
            latencies: Latencies::new(&limits),
            links: Links::new(&limits),
            cache: limits.server_cache.map(|of| Cache::new(of.bytes)),
            lateness: Lateness::default(),
            limits,
            now,
        }
    }

    /// True if the server's cache holds the data of an operation. From now on it does.
    fn is_hit(&mut self, extent: &Extent) -> bool {
        self.cache.as_mut().is_some_and(|cache| cache.touch(extent))
    }

    /// Admits an operation that arrives `now`, and returns when it is due; an operation that must wait is made and queued. Before it, all
    /// that were admitted by now are released, each with the time when it is due.
    fn admit(
        &mut self,
        now: Nanos,
        asked: &Request<()>,
        item: impl FnOnce() -> T,
        release: impl FnMut(Nanos, T),
    ) -> Option<Nanos> {
        self.advance(now, release);
        let now = self.now;
        let kind = if asked.is_write { &mut self.writes } else { &mut self.reads };
        let mut item = Some(item);
        let mut item = || item.take().expect("one gate keeps it")();
        if !kind.is_open() {
            kind.pass(asked, now, &mut item)?;
        }
        let service_ns = self.all.pass(asked, now, item)?;
        Some(self.due(now, service_ns, asked))
    }

    /// Releases all operations admitted by `now`, each with the time when it is due.
    fn advance(&mut self, now: Nanos, mut release: impl FnMut(Nanos, T)) {
        self.now = self.now.max(now);
        self.make_up_for_lateness();
        while self.next().is_some_and(|next| next <= self.now) {
            let (reads, writes) = (self.reads.next(), self.writes.next());
            let next = self.next();
            if self.all.next() == next {
                if let Some((at, request, service_ns)) = self.all.pop() {
                    release(self.due(at, service_ns, &request), request.item);
                }
            } else {
                let kind = if reads == next { &mut self.reads } else { &mut self.writes };
                debug_assert!(reads == next || writes == next);
                if let Some((at, request, _)) = kind.pop() {
                    self.all.push(request, at);
                }
            }
        }
    }

    /// Notes that a thread comes `late_ns` late `now`. Buckets keep what it missed for a second, at most 250 ms of it.
    fn came_late(&mut self, now: Nanos, thread: usize, late_ns: Nanos) {
        self.lateness.note(thread, self.now.max(now), late_ns);
    }

    fn catch_up_ns(&mut self, now: Nanos) -> Nanos {
        self.lateness.late_ns(now.max(self.now))
    }

    fn make_up_for_lateness(&mut self) {
        let late_ns = self.catch_up_ns(self.now);
        for gate in [&mut self.reads, &mut self.writes, &mut self.all] {
            gate.set_late(late_ns);
        }
        self.links.set_late(late_ns);
    }

    /// When the next operation is admitted.
    fn next(&self) -> Option<Nanos> {
        [&self.reads, &self.writes, &self.all].into_iter().filter_map(Gate::next).min()
    }

    /// Drops the operations of a connection that has ended, and returns how many there were. They cost no tokens.
    fn remove(&mut self, now: Nanos, path: [Key; 2], release: impl FnMut(Nanos, T)) -> usize {
        self.advance(now, release);
        self.links.remove(path);
        [&mut self.reads, &mut self.writes, &mut self.all].into_iter().map(|gate| gate.remove(path, self.now)).sum()
    }

    /// Changes the limits from `now` on, also for operations that wait at a gate. Those admitted before keep their time.
    fn set_limits(&mut self, now: Nanos, limits: Limits, release: impl FnMut(Nanos, T)) {
        self.advance(now, release);
        self.reads.set(limits.rates(Kind::Read), self.now);
        self.writes.set(limits.rates(Kind::Write), self.now);
        self.all.set(limits.rates(Kind::Any), self.now);
        self.links.set(&limits, self.now);
        if (limits.latency, limits.write_latency) != (self.limits.latency, self.limits.write_latency) {
            self.latencies = Latencies::new(&limits);
        }
        let bytes = |of: &Limits| of.server_cache.map(|cache| cache.bytes);
        if bytes(&limits) != bytes(&self.limits) {
            self.cache = bytes(&limits).map(Cache::new);
        }
        self.limits = limits;
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    /// All token buckets, each with the name of its limit: those for all, for clients and for connections.
    fn buckets(&self, now: Nanos) -> Vec<Bucket> {
        let now = now.max(self.now);
        let gates = [(&self.all, Kind::Any), (&self.reads, Kind::Read), (&self.writes, Kind::Write)];
        let shared = gates.into_iter().flat_map(|(gate, kind)| {
            let of_kind = [Cap::bytes_per_s(0).of(kind).name(), Cap::iops(0).of(kind).name()];
            let names = of_kind.into_iter().chain(["burst_throughput_bytes_per_s", "burst_iops"].map(str::to_owned));
            names.zip(gate.levels(now))
        });
        let bucket =
            |(limit, level): (_, Option<_>)| Some(Bucket { limit, client: None, connection: None, level: level? });
        shared.filter_map(bucket).chain(self.links.buckets(now)).collect()
    }

    /// Burst credits that are left: operations, or bytes where only the throughput bursts; `None` without a burst.
    fn credits(&self, now: Nanos) -> Option<u64> {
        self.all.credits(now.max(self.now))
    }

    /// When an operation admitted at `at` is answered.
    fn due<I>(&mut self, at: Nanos, service_ns: Nanos, request: &Request<I>) -> Nanos {
        at + service_ns + self.latencies.draw(request.is_write, request.bytes) + self.links.take(request, at)
    }
}

impl Limits {
    /// The limits of an export on operations of a kind.
    fn rates(&self, kind: Kind) -> Rates {
        let cap = |quantity| self.cap(Scope::Volume, quantity, kind);
        let (data, iops) = (cap(Quantity::BytesPerS), cap(Quantity::Iops));
        Rates {
            throughput: data.map(|cap| cap.value),
            throughput_burst: data.and_then(|cap| cap.burst),
            reads_per_write: data.map(|cap| cap.reads_per_write),
            iops: iops.map(|cap| cap.value),
            burst: iops.and_then(|cap| cap.burst),
            // Each operation passes the gate of all, and is worked on there.
            parallelism: self.parallelism.filter(|_| kind == Kind::Any),
            // Without a rate there is nothing to count.
            window_ns: if data.or(iops).is_some() { self.window_ns } else { 0 },
            server_cache: self.server_cache.filter(|_| data.or(iops).is_some()),
        }
    }
}

#[cfg(test)]
mod tests;
