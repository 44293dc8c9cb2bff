//! The data that are written.
//!
//! [`Material`] generates bytes, the same for the same seed and offset, so that verification knows the content of a
//! block. [`Filler`] decides when a buffer is filled again.

mod pattern;
mod pool;
mod random;

use iocurve_meter::Rng;

use crate::error::EngineError;
use crate::plan::{Content, OperationKind, Payload, Renew, Worker};

pub(crate) use pattern::Pattern;
use pool::{POOL_BYTES_MAX, Pool};
use random::fill_random;

/// Distance between the bytes that scrambling changes: no storage compares smaller units.
const SCRAMBLE_STEP: usize = 512;

/// Refuses payloads that cannot be generated, with a message for the user.
pub(crate) fn check(worker: &Worker) -> Result<(), EngineError> {
    let refuse = |text: String| Err(EngineError::Plan(format!("{}: {text}", worker.job)));
    let Payload { content, compress_percent, dedupe_percent, .. } = &worker.payload;
    if *compress_percent > 100 || *dedupe_percent > 100 {
        return refuse("the shares to compress and to deduplicate must not exceed 100 per cent".into());
    }
    let varies = matches!(content, Content::Random {} | Content::Pattern { .. });
    if (*compress_percent != 0 || *dedupe_percent != 0) && !varies {
        return refuse(
            "a share to compress or to deduplicate needs random content (or a pattern to fill up with); zeros and pools are \
             as they are"
                .into(),
        );
    }
    match content {
        Content::Pattern { bytes } => Pattern::parse(bytes).map(|_| ()),
        Content::Pool { bytes, .. } => {
            let largest = worker.write_bytes_max().unwrap_or(0);
            if *bytes > POOL_BYTES_MAX {
                return refuse(format!("a pool of {bytes} bytes exceeds the maximum of {POOL_BYTES_MAX}"));
            }
            if *bytes < u64::from(largest) {
                return refuse(format!("a pool of {bytes} bytes is smaller than one write of {largest}"));
            }
            Ok(())
        }
        Content::Random {} | Content::Zero {} => Ok(()),
    }
}

/// Generates the bytes of blocks.
#[derive(Debug)]
pub(crate) struct Material {
    source: Source,
    compressible: Option<Compressible>,
}

#[derive(Debug)]
enum Source {
    Random,
    Zero,
    Pattern(Pattern),
    Pool(Pool),
}

/// A share of every chunk is random.
#[derive(Debug)]
struct Compressible {
    random_percent: usize,
    /// Length of a chunk; 0 is the whole block.
    chunk_bytes: usize,
}

impl Material {
    /// Creates the payload of the plan, and fills the pool if it has one.
    pub(crate) fn new(worker: &Worker) -> Result<Self, EngineError> {
        let Payload { content, compress_percent, compress_chunk_bytes, .. } = &worker.payload;
        let source = match content {
            Content::Random {} => Source::Random,
            Content::Zero {} => Source::Zero,
            Content::Pattern { bytes } => Source::Pattern(Pattern::parse(bytes)?),
            Content::Pool { bytes, path } => Source::Pool(Pool::new(*bytes, path.as_deref(), worker.seed)?),
        };
        let compressible = (*compress_percent > 0).then_some(Compressible {
            random_percent: 100 - *compress_percent as usize,
            chunk_bytes: *compress_chunk_bytes as usize,
        });
        Ok(Self { source, compressible })
    }

    /// Fills a block for `offset`; the same seed gives the same bytes.
    #[inline]
    pub(crate) fn fill(&self, block: &mut [u8], offset: u64, seed: u64) {
        match &self.source {
            Source::Random if self.compressible.is_none() => fill_random(block, seed),
            Source::Random | Source::Zero => block.fill(0),
            Source::Pattern(pattern) => pattern.fill(block, offset),
            Source::Pool(pool) => pool.fill(block, seed),
        }
        if let Some(Compressible { random_percent, chunk_bytes }) = self.compressible {
            let chunk_bytes = if chunk_bytes == 0 { block.len().max(1) } else { chunk_bytes };
            for (number, chunk) in block.chunks_mut(chunk_bytes).enumerate() {
                let random = chunk.len() * random_percent / 100;
                fill_random(&mut chunk[..random], seed.wrapping_add(number as u64));
            }
        }
    }
}

/// The seeds of consecutive blocks; a share of them repeats.
#[derive(Debug)]
pub(crate) struct Seeds {
    base: u64,
    repeat_percent: u64,
    /// Number of blocks that repeated blocks are drawn from; 0 repeats the newest block that is not a duplicate.
    set_blocks: u64,
    /// Number of the newest block, and of the newest block that is not a duplicate; from 1.
    newest: u64,
    unique: u64,
}

impl Seeds {
    pub(crate) fn new(worker: &Worker) -> Self {
        let base = worker.seed ^ 0x0070_6179_6c6f_6164;
        let Payload { dedupe_percent, dedupe_set_blocks: set_blocks, .. } = worker.payload;
        Self { base, repeat_percent: u64::from(dedupe_percent), set_blocks, newest: 0, unique: 0 }
    }

    /// The seed of the next block.
    #[inline]
    pub(crate) fn draw(&mut self) -> u64 {
        self.newest += 1;
        if self.is_unique(self.newest) {
            self.unique = self.newest;
        } else if self.set_blocks > 0 {
            return self.of_set(self.newest);
        }
        self.of_unique(self.unique)
    }

    /// The seed that the block of this number had.
    pub(crate) fn of(&self, number: u64) -> u64 {
        if self.set_blocks > 0 && !self.is_unique(number) {
            return self.of_set(number);
        }
        let unique = (1..=number).rev().find(|&earlier| self.is_unique(earlier)).unwrap_or(1);
        self.of_unique(unique)
    }

    /// Number of the newest block; 0 before the first.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    fn is_unique(&self, number: u64) -> bool {
        let repeats_nothing = self.repeat_percent == 0 || (number == 1 && self.set_blocks == 0);
        repeats_nothing || self.rng(number, 1).below(100) >= self.repeat_percent
    }

    /// The seed of the block of the set that the block of this number repeats.
    fn of_set(&self, number: u64) -> u64 {
        let member = self.rng(number, 2).below(self.set_blocks);
        self.rng(member, 0).next_u64()
    }

    fn of_unique(&self, number: u64) -> u64 {
        self.rng(number, 2).next_u64()
    }

    fn rng(&self, number: u64, use_of_it: u64) -> Rng {
        Rng::new(self.base ^ Rng::new(number.wrapping_mul(3).wrapping_add(use_of_it)).next_u64())
    }
}

/// Prepares a worker's write buffers.
#[derive(Debug)]
pub(crate) struct Filler {
    material: Material,
    seeds: Seeds,
    before_each: BeforeEach,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BeforeEach {
    Nothing,
    Scramble,
    Fill,
}

impl Filler {
    /// Fills all of the worker's buffers now, unless they are filled before each write.
    pub(crate) fn new<'a>(worker: &Worker, buffers: impl Iterator<Item = &'a mut [u8]>) -> Result<Self, EngineError> {
        let material = Material::new(worker)?;
        let mut seeds = Seeds::new(worker);
        let before_each = before_each(worker, &material);
        if worker.verify.is_none() && before_each != BeforeEach::Fill && worker.writes() {
            for buffer in buffers {
                material.fill(buffer, 0, seeds.draw());
            }
        }
        Ok(Self { material, seeds, before_each })
    }

    pub(crate) fn material(&self) -> &Material {
        &self.material
    }

    pub(crate) fn seeds(&mut self) -> &mut Seeds {
        &mut self.seeds
    }

    /// Prepares a block for its write at `offset`. With verification, the verifier does this.
    #[inline]
    pub(crate) fn renew(&mut self, block: &mut [u8], offset: u64) {
        match self.before_each {
            BeforeEach::Nothing => {}
            BeforeEach::Scramble => scramble(block, self.seeds.draw().to_le_bytes()),
            BeforeEach::Fill => self.material.fill(block, offset, self.seeds.draw()),
        }
    }
}

fn before_each(worker: &Worker, material: &Material) -> BeforeEach {
    let Payload { renew, compress_percent, dedupe_percent, .. } = worker.payload;
    let reads = worker.does(OperationKind::Read);
    let varies = compress_percent != 0 || dedupe_percent != 0;
    let (is_random, is_fixed) = match &material.source {
        Source::Random => (true, false),
        Source::Zero => (false, true),
        Source::Pattern(pattern) => (varies, pattern.is_fixed()),
        Source::Pool(_) => (false, false),
    };
    match renew {
        // Reads overwrite the buffer.
        _ if !is_random && (reads || !is_fixed) => BeforeEach::Fill,
        // Scrambled blocks would not repeat.
        Renew::Scramble if varies => BeforeEach::Fill,
        Renew::Scramble => BeforeEach::Scramble,
        Renew::Refill if is_random => BeforeEach::Fill,
        Renew::Keep | Renew::Refill => BeforeEach::Nothing,
    }
}

fn scramble(bytes: &mut [u8], word: [u8; 8]) {
    let (sectors, rest) = bytes.as_chunks_mut::<SCRAMBLE_STEP>();
    for sector in sectors {
        sector[..word.len()].copy_from_slice(&word);
    }
    let length = rest.len().min(word.len());
    rest[..length].copy_from_slice(&word[..length]);
}

#[cfg(test)]
mod tests;
