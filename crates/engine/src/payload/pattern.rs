//! Patterns of bytes, which may contain the offset.

use crate::error::EngineError;

/// Form of fio's `%o` in a pattern: eight bytes for the offset.
const OFFSET: &str = "oooooooooooooooo";
const OFFSET_BYTES: usize = 8;

/// A pattern to fill memory with, and to compare memory with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    bytes: Vec<u8>,
    /// Positions of the offset in the pattern.
    offsets: Vec<usize>,
}

impl Pattern {
    /// Parses the plan's form of a pattern; refuses an empty pattern.
    pub(crate) fn parse(text: &str) -> Result<Self, EngineError> {
        let wrong =
            || EngineError::Plan(format!("'{text}' is not a pattern: at least one byte in hexadecimal is needed"));
        let (mut bytes, mut offsets, mut rest) = (Vec::new(), Vec::new(), text);
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix(OFFSET) {
                offsets.push(bytes.len());
                bytes.extend([0; OFFSET_BYTES]);
                rest = after;
            } else {
                let digits = rest.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
                bytes.push(u8::from_str_radix(digits.ok_or_else(wrong)?, 16).map_err(|_| wrong())?);
                rest = &rest[2..];
            }
        }
        if bytes.is_empty() { Err(wrong()) } else { Ok(Self { bytes, offsets }) }
    }

    /// Returns `true` if the pattern is the same at every offset.
    pub(crate) fn is_fixed(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Fills `memory`, which belongs to `offset` of its file, from its start.
    #[inline]
    pub(crate) fn fill(&self, memory: &mut [u8], offset: u64) {
        let first = self.bytes.len().min(memory.len());
        memory[..first].copy_from_slice(&self.bytes[..first]);
        for (place, byte) in self.offset_bytes(offset).take_while(|&(place, _)| place < first) {
            memory[place] = byte;
        }
        let mut filled = first;
        while filled < memory.len() {
            let more = filled.min(memory.len() - filled);
            memory.copy_within(..more, filled);
            filled += more;
        }
    }

    /// First index from `from` on at which `memory` (all of it at `offset`) differs from the pattern, with the byte
    /// expected.
    pub(crate) fn difference(&self, memory: &[u8], from: usize, offset: u64) -> Option<(usize, u8)> {
        let period = self.bytes.len();
        let first = period.min(memory.len() - from);
        if let Some(place) = (from..from + first).find(|&place| memory[place] != self.at(place, offset)) {
            return Some((place, self.at(place, offset)));
        }
        let rest = &memory[from..];
        // If the first period is right, the rest is right if it repeats the first period.
        if rest[first..] == rest[..rest.len() - first] {
            return None;
        }
        (from + first..memory.len()).map(|place| (place, self.at(place, offset))).find(|&(at, byte)| memory[at] != byte)
    }

    /// The byte at index `place` of a block that is at `offset`.
    fn at(&self, place: usize, offset: u64) -> u8 {
        let place = place % self.bytes.len();
        match self.offsets.iter().find(|&&start| (start..start + OFFSET_BYTES).contains(&place)) {
            Some(start) => offset.to_le_bytes()[place - start],
            None => self.bytes[place],
        }
    }

    fn offset_bytes(&self, offset: u64) -> impl Iterator<Item = (usize, u8)> {
        let start_and_byte = move |&start| (0..OFFSET_BYTES).map(move |k| (start + k, offset.to_le_bytes()[k]));
        self.offsets.iter().flat_map(start_and_byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_down(text: &str, bytes: usize, offset: u64) -> Vec<u8> {
        let mut memory = vec![0xee; bytes];
        Pattern::parse(text).unwrap().fill(&mut memory, offset);
        memory
    }

    #[test]
    fn a_pattern_comes_over_and_over_and_is_cut_at_the_end() {
        assert_eq!(laid_down("010203", 8, 0), [1, 2, 3, 1, 2, 3, 1, 2]);
        assert_eq!(laid_down("010203", 2, 0), [1, 2]);
    }

    #[test]
    fn the_offset_is_inserted_into_the_pattern_in_little_endian() {
        let expected = [0xff, 2, 1, 0, 0, 0, 0, 0, 0, 0xff, 2, 1];
        assert_eq!(laid_down("ffoooooooooooooooo", 12, 0x0102), expected);
        assert_eq!(laid_down("ffoooooooooooooooo", 3, 0x0102), [0xff, 2, 1]);
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for text in ["", "0", "zz", "ooo", "01 2", "+1", "ffooooooooooooooo"] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_difference_is_found_wherever_it_is() {
        for text in ["41", "010203", "ffoooooooooooooooo", "oooooooooooooooo"] {
            let pattern = Pattern::parse(text).unwrap();
            let right = laid_down(text, 100, 0x7_0503_0201);
            assert_eq!(pattern.difference(&right, 0, 0x7_0503_0201), None);
            for place in 0..100 {
                let mut wrong = right.clone();
                wrong[place] ^= 0x80;
                for from in 0..100 {
                    let expected = (from <= place).then_some((place, right[place]));
                    assert_eq!(pattern.difference(&wrong, from, 0x7_0503_0201), expected, "{text} {place} {from}");
                }
            }
        }
    }
}
