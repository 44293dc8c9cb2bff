//! A gate admits operations one after the other, as its rates and servers allow, and is fair in the order.

use iocurve_meter::{Nanos, PARTS, SECOND, TokenBucket};

use super::bucket::{CATCH_UPS_PER_S, Level, set_bucket};
use super::fair::{Cost, Fair, Fifo, Key, Queue};
use super::limits::{Burst, Parallelism, ServerCache};
use super::servers::Servers;

/// Picoseconds, the unit in which fair shares are counted.
const PICOSECONDS_PER_S: u64 = 1_000_000_000_000;

/// An operation that asks to be admitted.
#[derive(Debug)]
pub(super) struct Request<T> {
    /// Client and connection that it came from.
    pub(super) path: [Key; 2],
    /// A WRITE; otherwise a READ.
    pub(super) is_write: bool,
    pub(super) bytes: u64,
    /// The server's cache holds its data.
    pub(super) is_hit: bool,
    pub(super) item: T,
}

impl Request<()> {
    /// The request with its operation.
    pub(super) fn with<T>(&self, item: T) -> Request<T> {
        let Self { path, is_write, bytes, is_hit, .. } = *self;
        Request { path, is_write, bytes, is_hit, item }
    }
}

/// The limits of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Rates {
    /// Bytes per second.
    pub(super) throughput: Option<u64>,
    /// More bytes per second for a time.
    pub(super) throughput_burst: Option<Burst>,
    /// Bytes of READs that count as one.
    pub(super) reads_per_write: Option<u64>,
    /// Operations per second.
    pub(super) iops: Option<u64>,
    /// More operations per second for a time.
    pub(super) burst: Option<Burst>,
    /// The cost of operations whose data are held.
    pub(super) server_cache: Option<ServerCache>,
    /// Servers behind the gate.
    pub(super) parallelism: Option<Parallelism>,
    /// The rates count in windows of this length; 0: at any time.
    pub(super) window_ns: Nanos,
}

/// Operations that wait for the rates of a gate.
#[derive(Debug)]
pub(super) struct Gate<T> {
    rates: Rates,
    /// With a burst it holds the credits: saved-up tokens of the baseline rate.
    throughput: Option<TokenBucket>,
    /// Limits a burst of bytes to its rate.
    throughput_peak: Option<TokenBucket>,
    /// As `throughput`, of operations.
    iops: Option<TokenBucket>,
    /// Limits a burst of operations to its rate.
    peak: Option<TokenBucket>,
    servers: Option<Servers>,
    /// Its buckets keep what they gain in this time on top of their capacities.
    late_ns: Nanos,
    queue: Fair<Fair<Fifo<Request<T>>>>,
    /// The operation that is next and has taken its tokens, and the time at which it is admitted.
    head: Option<(Nanos, Request<T>)>,
}

impl<T> Gate<T> {
    pub(super) fn new(rates: Rates, now: Nanos) -> Self {
        let (queue, head) = (Fair::default(), None);
        let none = Rates::default();
        let (throughput, throughput_peak, iops, peak, servers) = (None, None, None, None, None);
        let mut gate = Self { rates: none, throughput, throughput_peak, iops, peak, servers, late_ns: 0, queue, head };
        gate.set(rates, now);
        gate
    }

    /// True if it admits everything at once.
    pub(super) fn is_open(&self) -> bool {
        self.rates == Rates::default() && self.head.is_none()
    }

    /// Sets the time for which its buckets keep what they gain on top of their capacities.
    pub(super) fn set_late(&mut self, late_ns: Nanos) {
        self.late_ns = late_ns;
    }

    /// When the next operation is admitted.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.head.as_ref().map(|head| head.0)
    }

    /// True if no operation waits.
    pub(super) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// Queues an operation. `now` must not be before the last admission.
    pub(super) fn push(&mut self, request: Request<T>, now: Nanos) {
        if self.is_empty() {
            let at = self.enter(&request, now);
            self.head = Some((at, request));
        } else {
            let path = request.path;
            self.queue.push(&path, request);
        }
    }

    /// Lets an operation through at once if no other waits and there are tokens; then returns the time that a server works on it.
    /// Otherwise the operation is queued.
    pub(super) fn pass(&mut self, asked: &Request<()>, now: Nanos, item: impl FnOnce() -> T) -> Option<Nanos> {
        if !self.is_empty() {
            self.queue.push(&asked.path, asked.with(item()));
            return None;
        }
        let at = self.enter(asked, now);
        if at > now {
            self.head = Some((at, asked.with(item())));
            return None;
        }
        Some(self.servers.as_mut().map_or(0, |servers| servers.occupy(at, asked.is_write, asked.bytes)))
    }

    /// An operation becomes the next one, as no other waits: takes its tokens and returns when it is admitted.
    #[inline]
    fn enter<I>(&mut self, request: &Request<I>, now: Nanos) -> Nanos {
        self.queue.pass(&request.path, self.rates.cost(request));
        self.take(self.rates.counted(request), now)
    }

    /// Admits the next operation. Returns the time of admission, the operation, and the time that a server works on it.
    pub(super) fn pop(&mut self) -> Option<(Nanos, Request<T>, Nanos)> {
        let (at, request) = self.head.take()?;
        let service_ns = self.servers.as_mut().map_or(0, |servers| servers.occupy(at, request.is_write, request.bytes));
        self.choose(at);
        Some((at, request, service_ns))
    }

    /// Drops the operations of a connection, and returns how many there were. If one of them was next, its tokens are given back.
    pub(super) fn remove(&mut self, path: [Key; 2], now: Nanos) -> usize {
        let removed = self.queue.remove(&path);
        let Some((_, request)) = self.head.take_if(|head| head.1.path == path) else { return removed };
        self.refund(&request, now);
        self.choose(now);
        removed + 1
    }

    /// Changes the rates from `now` on. Operations that wait have been given nothing, and wait at the new rates.
    /// Saved tokens stay, up to the new capacity; a limit that did not exist before starts full.
    pub(super) fn set(&mut self, rates: Rates, now: Nanos) {
        let head = self.head.take();
        if let Some((_, request)) = &head {
            self.refund(request, now);
        }
        let credits = |burst: Option<Burst>| burst.map_or(0, |burst| burst.credits);
        // Credits are there from the start.
        if rates.throughput_burst.is_some() && self.rates.throughput_burst.is_none() {
            self.throughput = None;
        }
        if rates.burst.is_some() && self.rates.burst.is_none() {
            self.iops = None;
        }
        // A window begins with what it allows and nothing that was saved up.
        let per_s = if rates.window_ns == 0 { CATCH_UPS_PER_S } else { u64::MAX };
        set_bucket(&mut self.throughput, rates.throughput, credits(rates.throughput_burst), per_s, now);
        set_bucket(&mut self.throughput_peak, rates.throughput_burst.map(|burst| burst.value), 0, per_s, now);
        set_bucket(&mut self.iops, rates.iops, credits(rates.burst), per_s, now);
        set_bucket(&mut self.peak, rates.burst.map(|burst| burst.value), 0, per_s, now);
        match (&mut self.servers, rates.parallelism) {
            (Some(servers), Some(parallelism)) => servers.set(parallelism),
            (servers, parallelism) => *servers = parallelism.map(Servers::new),
        }
        self.rates = rates;
        self.head = head.map(|(_, request)| (self.take(rates.counted(&request), now), request));
    }

    /// Levels of its buckets: bytes, operations, and both within a burst.
    pub(super) fn levels(&self, now: Nanos) -> [Option<Level>; 4] {
        let buckets = [&self.throughput, &self.iops, &self.throughput_peak, &self.peak];
        buckets.map(|bucket| bucket.as_ref().map(|bucket| Level::of(bucket, now)))
    }

    /// Credits that are left for a burst.
    pub(super) fn credits(&self, now: Nanos) -> Option<u64> {
        let of_operations = self.rates.burst.zip(self.iops.as_ref());
        let (burst, bucket) = of_operations.or(self.rates.throughput_burst.zip(self.throughput.as_ref()))?;
        Some((bucket.level(now).max(0) as u64).min(burst.credits))
    }

    fn choose(&mut self, now: Nanos) {
        let rates = self.rates;
        if let Some(request) = self.queue.pop(&|request| rates.cost(request)) {
            self.head = Some((self.take(rates.counted(&request), now), request));
        }
    }

    /// Takes the tokens of an operation and returns when it is admitted.
    fn take(&mut self, counted: Counted, now: Nanos) -> Nanos {
        let (late_ns, window_ns) = (self.late_ns, self.rates.window_ns);
        let since = now - now.checked_rem(window_ns).unwrap_or(0);
        let take = |bucket: &mut Option<TokenBucket>, parts| {
            bucket.as_mut().map_or(0, |bucket| bucket.take_parts(since, late_ns, parts))
        };
        let Counted { bytes, operations } = counted;
        let data = take(&mut self.throughput, bytes).max(take(&mut self.throughput_peak, bytes));
        let operations = take(&mut self.iops, operations).max(take(&mut self.peak, operations));
        let granted = since + data.max(operations);
        // A window grants all of its tokens at its start.
        let granted = granted - granted.checked_rem(window_ns).unwrap_or(0);
        self.servers.as_ref().map_or(0, Servers::free_at).max(granted).max(now)
    }

    fn refund(&mut self, request: &Request<T>, now: Nanos) {
        let refund = |bucket: &mut Option<TokenBucket>, cost| {
            if let Some(bucket) = bucket {
                bucket.refund_parts(now, cost);
            }
        };
        let Counted { bytes, operations } = self.rates.counted(request);
        refund(&mut self.throughput, bytes);
        refund(&mut self.throughput_peak, bytes);
        refund(&mut self.iops, operations);
        refund(&mut self.peak, operations);
    }
}

/// The bytes and the operations that a request counts as, in [`PARTS`].
#[derive(Debug, Clone, Copy)]
struct Counted {
    bytes: u64,
    operations: u64,
}

impl Rates {
    /// The cost of a request: of a READ's bytes a part where reads weigh less, and less of both if a cache holds its data.
    fn counted<T>(&self, request: &Request<T>) -> Counted {
        let bytes = match self.reads_per_write {
            Some(parts) if parts > 1 && !request.is_write => request.bytes.div_ceil(parts),
            _ => request.bytes,
        };
        match &self.server_cache {
            Some(cache) if request.is_hit => {
                let (of_bytes, operations) = cache.costs(request.is_write);
                Counted { bytes: bytes.saturating_mul(of_bytes), operations }
            }
            _ => Counted { bytes: bytes.saturating_mul(PARTS), operations: PARTS },
        }
    }

    /// The share that an operation takes: the time for which it keeps the scarcest resource busy.
    fn cost<T>(&self, request: &Request<T>) -> Cost {
        let of = |rate: Option<u64>, cost: u64| {
            // A division of 64 bits is several times as fast, and enough for 16 MiB.
            rate.map_or(0, |rate| match cost.checked_mul(PICOSECONDS_PER_S / PARTS) {
                Some(cost) => Cost::from(cost / rate),
                None => Cost::from(cost) * Cost::from(PICOSECONDS_PER_S / PARTS) / Cost::from(rate),
            })
        };
        let serving = self.parallelism.map_or(0, |speed| {
            let service_ns = speed.takes(request.is_write, request.bytes);
            Cost::from(service_ns) * Cost::from(PICOSECONDS_PER_S / SECOND) / Cost::from(speed.servers)
        });
        let Counted { bytes, operations } = self.counted(request);
        of(self.throughput, bytes).max(of(self.iops, operations)).max(serving)
    }
}
