//! Headers of intervals: writing and checking them.

use super::digest::{digest, digest_bytes};
use crate::error::{EngineError, Fault, hexadecimal};
use crate::payload::Pattern;
use crate::plan::{Verify, VerifyMethod};

/// First bytes of every header.
const MAGIC: [u8; 4] = *b"ioCv";
/// Magic, method and file, length, checksum of the header, offset, sequence and seed; the content's checksum follows.
const HEADER_BYTES: usize = 40;
/// Bits of the method's number in its word.
const METHOD_BITS: u32 = 8;
const METHOD_MASK: u32 = (1 << METHOD_BITS) - 1;
/// The header's own checksum, which does not cover itself.
const HEADER_CHECKSUM: std::ops::Range<usize> = 12..16;

/// Bits of the key of a file; they share a word with the number of the method.
pub(super) const KEY_MASK: u32 = (1 << 24) - 1;

/// Bits of a write's number that headers keep.
pub(super) const SEQUENCE_MASK: u32 = (1 << 29) - 1;

/// Bytes of a method's header in each interval.
pub(super) fn header_bytes(method: VerifyMethod) -> usize {
    match method {
        VerifyMethod::Null | VerifyMethod::Pattern => 0,
        _ => HEADER_BYTES + digest_bytes(method),
    }
}

/// Content of a header, apart from the length of its interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Key of the file, within [`KEY_MASK`]; 0 without maps.
    pub file: u32,
    /// Offset of the interval in its file.
    pub offset: u64,
    /// Number of the write.
    pub sequence: u64,
    /// Seed of the content.
    pub seed: u64,
}

/// Writes headers, and checks intervals.
#[derive(Debug)]
pub(super) struct Proof {
    method: VerifyMethod,
    header_start: usize,
    header_bytes: usize,
    pattern: Option<Pattern>,
}

impl Proof {
    /// Follows the plan, but with `method`.
    pub(super) fn new(plan: &Verify, method: VerifyMethod) -> Result<Self, EngineError> {
        let pattern = if plan.pattern.is_empty() { None } else { Some(Pattern::parse(&plan.pattern)?) };
        Ok(Self { method, header_start: plan.header_offset as usize, header_bytes: header_bytes(method), pattern })
    }

    pub(super) fn method(&self) -> VerifyMethod {
        self.method
    }

    /// Returns `true` if intervals have a header.
    pub(super) fn has_header(&self) -> bool {
        self.header_bytes != 0
    }

    /// Returns `true` if the header fits into the interval, which the end of a file may cut off.
    #[inline]
    pub(super) fn fits(&self, interval: &[u8]) -> bool {
        interval.len() >= self.header_start + self.header_bytes
    }

    /// Returns `true` if two intervals have the same header.
    pub(super) fn same_header(&self, a: &[u8], b: &[u8]) -> bool {
        self.fits(a) && self.fits(b) && self.header(a) == self.header(b)
    }

    /// The pattern that replaces the payload.
    pub(super) fn pattern(&self) -> Option<&Pattern> {
        self.pattern.as_ref()
    }

    /// Writes the header over the content of an interval.
    #[inline]
    pub(super) fn stamp(&self, interval: &mut [u8], stamp: Stamp) {
        if self.header_bytes == 0 {
            return;
        }
        let content = digest(self.method, self.content(interval));
        let length = interval.len() as u32;
        let header = &mut interval[self.header_start..self.header_start + self.header_bytes];
        header[0..4].copy_from_slice(&MAGIC);
        header[4..8].copy_from_slice(&(number(self.method) | stamp.file << METHOD_BITS).to_le_bytes());
        header[8..12].copy_from_slice(&length.to_le_bytes());
        header[16..24].copy_from_slice(&stamp.offset.to_le_bytes());
        header[24..32].copy_from_slice(&stamp.sequence.to_le_bytes());
        header[32..40].copy_from_slice(&stamp.seed.to_le_bytes());
        header[HEADER_BYTES..].copy_from_slice(&content[..digest_bytes(self.method)]);
        let checksum = header_checksum(header);
        header[HEADER_CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Checks an interval that was read from `offset` of the file with this key. `sequence` has the low bits of the
    /// newest write's number, if they are known.
    #[inline]
    pub(super) fn check(&self, interval: &[u8], file: u32, offset: u64, sequence: Option<u32>) -> Result<(), Fault> {
        if self.header_bytes != 0 {
            self.check_header(interval, file, offset, sequence)?;
        }
        match (self.method, &self.pattern) {
            (VerifyMethod::Pattern | VerifyMethod::PatternHeader, Some(pattern)) => {
                self.check_pattern(pattern, interval, offset)
            }
            _ => self.check_content(interval),
        }
    }

    /// The header of an interval, if it is valid.
    pub(super) fn read(&self, interval: &[u8]) -> Option<Stamp> {
        let header = interval.get(self.header_start..self.header_start + self.header_bytes)?;
        let whole = self.header_bytes != 0 && header[0..4] == MAGIC && header_checksum(header) == word(header, 12);
        whole.then(|| Stamp {
            file: word(header, 4) >> METHOD_BITS,
            offset: long(header, 16),
            sequence: long(header, 24),
            seed: long(header, 32),
        })
    }

    /// The bit, with its byte, without whose change the header of an interval would be valid.
    pub(super) fn flipped_header_bit(&self, interval: &[u8]) -> Option<(usize, u8)> {
        if self.header_bytes == 0 || !self.fits(interval) || self.read(interval).is_some() {
            return None;
        }
        let mut header = self.header(interval).to_vec();
        let bits = (0..header.len()).flat_map(|byte| (0..8).map(move |bit| (byte, bit)));
        for (byte, bit) in bits {
            header[byte] ^= 1 << bit;
            let is_valid = header[0..4] == MAGIC && header_checksum(&header) == word(&header, 12);
            header[byte] ^= 1 << bit;
            if is_valid {
                return Some((self.header_start + byte, bit));
            }
        }
        None
    }

    fn check_header(&self, interval: &[u8], file: u32, offset: u64, sequence: Option<u32>) -> Result<(), Fault> {
        let header = self.header(interval);
        let checks = [
            (header[0..4] != MAGIC)
                .then(|| Fault::Magic { got: [header[0], header[1], header[2], header[3]], wanted: MAGIC }),
            unequal(header_checksum(header), word(header, 12)).map(|(got, wanted)| Fault::Header { got, wanted }),
            unequal(word(header, 4) & METHOD_MASK, number(self.method))
                .map(|(got, wanted)| Fault::Method { got, wanted }),
            unequal(word(header, 8), interval.len() as u32).map(|(got, wanted)| Fault::Length { got, wanted }),
            unequal(word(header, 4) >> METHOD_BITS, file).map(|_| Fault::File { offset: long(header, 16) }),
            unequal(long(header, 16), offset).map(|(got, wanted)| Fault::Offset { got, wanted }),
            sequence
                .filter(|&newest| long(header, 24) as u32 & SEQUENCE_MASK != newest)
                .map(|wanted| Fault::Sequence { got: long(header, 24), wanted }),
        ];
        checks.into_iter().flatten().next().map_or(Ok(()), Err)
    }

    fn check_content(&self, interval: &[u8]) -> Result<(), Fault> {
        let length = digest_bytes(self.method);
        if length == 0 {
            return Ok(());
        }
        let got = &digest(self.method, self.content(interval))[..length];
        let wanted = &self.header(interval)[HEADER_BYTES..];
        if got == wanted {
            return Ok(());
        }
        Err(Fault::Checksum { method: self.method, got: hexadecimal(got), wanted: hexadecimal(wanted) })
    }

    fn check_pattern(&self, pattern: &Pattern, interval: &[u8], offset: u64) -> Result<(), Fault> {
        let before = pattern.difference(&interval[..self.header_start], 0, offset);
        let after = || pattern.difference(interval, self.header_start + self.header_bytes, offset);
        match before.or_else(after) {
            None => Ok(()),
            Some((place, wanted)) => Err(Fault::Pattern { place, got: interval[place], wanted }),
        }
    }

    fn header<'a>(&self, interval: &'a [u8]) -> &'a [u8] {
        &interval[self.header_start..self.header_start + self.header_bytes]
    }

    /// The content before and after the header.
    fn content<'a>(&self, interval: &'a [u8]) -> [&'a [u8]; 2] {
        [&interval[..self.header_start], &interval[self.header_start + self.header_bytes..]]
    }
}

/// Number of a method in headers: its position in the contract, which never changes.
fn number(method: VerifyMethod) -> u32 {
    method as u32
}

fn header_checksum(header: &[u8]) -> u32 {
    let before = crc32c::crc32c(&header[..HEADER_CHECKSUM.start]);
    crc32c::crc32c_append(before, &header[HEADER_CHECKSUM.end..])
}

fn word(header: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

fn long(header: &[u8], at: usize) -> u64 {
    u64::from(word(header, at)) | u64::from(word(header, at + 4)) << 32
}

fn unequal<T: PartialEq>(got: T, wanted: T) -> Option<(T, T)> {
    (got != wanted).then_some((got, wanted))
}
