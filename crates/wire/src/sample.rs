//! Makes up values from random bytes, so that every type can be tested by one property.

use crate::xdr::List;

/// Random bytes that values are made from; zeros after the last of them.
pub(crate) struct Entropy<'a> {
    bytes: &'a [u8],
}

impl<'a> Entropy<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let length = N.min(self.bytes.len());
        let (taken, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        let mut array = [0; N];
        array[..length].copy_from_slice(taken);
        array
    }

    pub(crate) fn one_of<'c, T>(&mut self, choices: &'c [T]) -> &'c T {
        &choices[self.take::<1>()[0] as usize % choices.len()]
    }
}

/// A value made from random bytes.
pub(crate) trait Sample<'a> {
    fn sample(entropy: &mut Entropy<'a>) -> Self;
}

impl Sample<'_> for () {
    fn sample(_: &mut Entropy<'_>) -> Self {}
}

impl Sample<'_> for u32 {
    fn sample(entropy: &mut Entropy<'_>) -> Self {
        u32::from_ne_bytes(entropy.take())
    }
}

impl Sample<'_> for u64 {
    fn sample(entropy: &mut Entropy<'_>) -> Self {
        u64::from_ne_bytes(entropy.take())
    }
}

impl Sample<'_> for i64 {
    fn sample(entropy: &mut Entropy<'_>) -> Self {
        Self::from_ne_bytes(entropy.take())
    }
}

impl Sample<'_> for bool {
    fn sample(entropy: &mut Entropy<'_>) -> Self {
        entropy.take::<1>()[0] & 1 == 1
    }
}

impl<const N: usize> Sample<'_> for [u8; N] {
    fn sample(entropy: &mut Entropy<'_>) -> Self {
        entropy.take()
    }
}

impl<'a> Sample<'a> for &'a [u8] {
    fn sample(entropy: &mut Entropy<'a>) -> Self {
        let length = (entropy.take::<1>()[0] as usize).min(entropy.bytes.len());
        let (taken, rest) = entropy.bytes.split_at(length);
        entropy.bytes = rest;
        taken
    }
}

impl<'a, T: Sample<'a>> Sample<'a> for Option<T> {
    fn sample(entropy: &mut Entropy<'a>) -> Self {
        bool::sample(entropy).then(|| T::sample(entropy))
    }
}

impl<'a, T: Sample<'a>> Sample<'a> for Vec<T> {
    fn sample(entropy: &mut Entropy<'a>) -> Self {
        (0..entropy.take::<1>()[0] % 5).map(|_| T::sample(entropy)).collect()
    }
}

impl<'a, T: Sample<'a>> Sample<'a> for List<T> {
    fn sample(entropy: &mut Entropy<'a>) -> Self {
        Self(Vec::sample(entropy))
    }
}
