//! A gate lets operations through one after the other, as its rates and servers allow, and shares fairly who is next.

use serde::Serialize;

use iocurve_meter::{Nanos, SECOND, TokenBucket};

use super::fair::{Cost, Fair, Fifo, Key, Queue};
use super::limits::{Burst, Parallelism};
use super::servers::Servers;

/// Fraction of a second that an export which was idle may catch up on: 1/64 s, 15.6 ms.
const CATCH_UPS_PER_S: u64 = 64;

/// Picoseconds, the unit in which fair shares are counted.
const PICOSECONDS_PER_S: Cost = 1_000_000_000_000;

/// An operation that asks to be let through.
#[derive(Debug)]
pub struct Request<T> {
    /// Whose it is: client, connection.
    pub path: [Key; 2],
    /// A WRITE; otherwise a READ.
    pub is_write: bool,
    /// What it moves.
    pub bytes: u64,
    /// What is to be let through.
    pub item: T,
}

/// What a gate is limited to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rates {
    /// Bytes per second.
    pub throughput: Option<u64>,
    /// Operations per second.
    pub iops: Option<u64>,
    /// More operations for a time.
    pub burst: Option<Burst>,
    /// Servers behind the gate.
    pub parallelism: Option<Parallelism>,
}

/// How full a token bucket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Level {
    /// Bytes or operations that can go through at once; negative if that many are owed by what goes through next.
    pub level: i64,
    /// The most that can be saved up.
    pub capacity: u64,
    /// How much comes in a second.
    pub rate_per_s: u64,
}

impl Level {
    /// Of a bucket.
    pub fn of(bucket: &TokenBucket, now: Nanos) -> Self {
        Self { level: bucket.level(now), capacity: bucket.burst(), rate_per_s: bucket.rate_per_s() }
    }
}

/// The gate.
#[derive(Debug)]
pub struct Gate<T> {
    rates: Rates,
    throughput: Option<TokenBucket>,
    /// With a burst it holds the credits: tokens at the baseline rate, saved up.
    iops: Option<TokenBucket>,
    /// Keeps a burst to its rate.
    peak: Option<TokenBucket>,
    servers: Option<Servers>,
    queue: Fair<Fair<Fifo<Request<T>>>>,
    /// The operation that is next and has taken its tokens, and when it goes through.
    head: Option<(Nanos, Request<T>)>,
}

impl<T> Gate<T> {
    /// A rested gate.
    pub fn new(rates: Rates, now: Nanos) -> Self {
        let (queue, head) = (Fair::default(), None);
        let none = Rates::default();
        let mut gate = Self { rates: none, throughput: None, iops: None, peak: None, servers: None, queue, head };
        gate.set(rates, now);
        gate
    }

    /// Whether everything goes through at once.
    pub fn is_open(&self) -> bool {
        self.rates == Rates::default() && self.head.is_none()
    }

    /// When the next operation goes through.
    pub fn next(&self) -> Option<Nanos> {
        self.head.as_ref().map(|head| head.0)
    }

    /// Takes in an operation. `now` must not be before the last time that something went through.
    pub fn push(&mut self, request: Request<T>, now: Nanos) {
        let path = request.path;
        self.queue.push(&path, request);
        if self.head.is_none() {
            self.choose(now);
        }
    }

    /// Lets the next operation through: when that was, what it is, and how long a server works on it.
    pub fn pop(&mut self) -> Option<(Nanos, Request<T>, Nanos)> {
        let (at, request) = self.head.take()?;
        let service_ns = self.servers.as_mut().map_or(0, |servers| servers.occupy(at));
        self.choose(at);
        Some((at, request, service_ns))
    }

    /// Forgets a connection, and returns how many operations of it waited. One that was next gives back its tokens.
    pub fn remove(&mut self, path: [Key; 2], now: Nanos) -> usize {
        let removed = self.queue.remove(&path);
        let Some((_, request)) = self.head.take_if(|head| head.1.path == path) else { return removed };
        self.refund(&request, now);
        self.choose(now);
        removed + 1
    }

    /// Changes the rates from `now` on. Who waits has not been given anything and waits at the new rates.
    /// What was saved up stays, up to what can be saved now; a limit that was not there before starts rested.
    pub fn set(&mut self, rates: Rates, now: Nanos) {
        let head = self.head.take();
        if let Some((_, request)) = &head {
            self.refund(request, now);
        }
        let credits = rates.burst.map_or(0, |burst| burst.credits);
        set_bucket(&mut self.throughput, rates.throughput, 0, now);
        if rates.burst.is_some() && self.rates.burst.is_none() {
            // Credits are there from the start.
            self.iops = None;
        }
        set_bucket(&mut self.iops, rates.iops, credits, now);
        set_bucket(&mut self.peak, rates.burst.map(|burst| burst.iops), 0, now);
        match (&mut self.servers, rates.parallelism) {
            (Some(servers), Some(parallelism)) => servers.set(parallelism),
            (servers, parallelism) => *servers = parallelism.map(Servers::new),
        }
        self.rates = rates;
        self.head = head.map(|(_, request)| (self.take(request.bytes, now), request));
    }

    /// What its buckets hold: of bytes, of operations, and of operations within a burst.
    pub fn levels(&self, now: Nanos) -> [Option<Level>; 3] {
        [&self.throughput, &self.iops, &self.peak].map(|bucket| bucket.as_ref().map(|bucket| Level::of(bucket, now)))
    }

    /// Credits that are left for a burst.
    pub fn credits(&self, now: Nanos) -> Option<u64> {
        let (burst, iops) = (self.rates.burst?, self.iops.as_ref()?);
        Some((iops.level(now).max(0) as u64).min(burst.credits))
    }

    fn choose(&mut self, now: Nanos) {
        let rates = self.rates;
        if let Some(request) = self.queue.pop(&|request| rates.cost(request.bytes)) {
            self.head = Some((self.take(request.bytes, now), request));
        }
    }

    /// Takes the tokens of an operation and returns when it may go through.
    fn take(&mut self, bytes: u64, now: Nanos) -> Nanos {
        let take = |bucket: &mut Option<TokenBucket>, cost| bucket.as_mut().map_or(0, |bucket| bucket.take(now, cost));
        let wait = take(&mut self.throughput, bytes).max(take(&mut self.iops, 1)).max(take(&mut self.peak, 1));
        self.servers.as_ref().map_or(0, Servers::free_at).max(now + wait)
    }

    fn refund(&mut self, request: &Request<T>, now: Nanos) {
        let refund = |bucket: &mut Option<TokenBucket>, cost| {
            if let Some(bucket) = bucket {
                bucket.refund(now, cost);
            }
        };
        refund(&mut self.throughput, request.bytes);
        refund(&mut self.iops, 1);
        refund(&mut self.peak, 1);
    }
}

impl Rates {
    /// The share that an operation takes: how long it keeps the scarcest resource busy.
    fn cost(&self, bytes: u64) -> Cost {
        let of = |rate: Option<u64>, cost: u64| {
            rate.map_or(0, |rate| Cost::from(cost) * PICOSECONDS_PER_S / Cost::from(rate))
        };
        let serving = self.parallelism.map_or(0, |Parallelism { servers, service_ns }| {
            Cost::from(service_ns) * (PICOSECONDS_PER_S / Cost::from(SECOND)) / Cost::from(servers)
        });
        of(self.throughput, bytes).max(of(self.iops, 1)).max(serving)
    }
}

/// A bucket of this rate that can save up `saved` tokens, and what an idle export may catch up on.
pub fn set_bucket(bucket: &mut Option<TokenBucket>, rate: Option<u64>, saved: u64, now: Nanos) {
    let Some(rate) = rate else { return *bucket = None };
    let most = saved.saturating_add((rate / CATCH_UPS_PER_S).max(1));
    match bucket {
        Some(bucket) => bucket.set_rate(rate, most, now),
        None => *bucket = Some(TokenBucket::new(rate, most, now)),
    }
}
