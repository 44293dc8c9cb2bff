//! XDR (RFC 4506): big-endian words, everything padded to four bytes.
//!
//! [`Reader`] walks over received bytes and lends opaques out of them; [`Writer`] appends to a `Vec<u8>`.
//! Structures, enumerations and unions are declared once with `xdr_struct!`, `xdr_enum!` and `xdr_union!`, which write both
//! directions, so that client and server cannot disagree.

use thiserror::Error;

/// Reasons why bytes cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum XdrError {
    /// The message ends inside a value.
    #[error("the message ends {missing} bytes too early")]
    Truncated {
        /// Number of missing bytes.
        missing: usize,
    },
    /// A length is above the limit of the protocol or of this program.
    #[error("a length of {length} is above the limit of {limit}")]
    TooLong {
        /// Length in the message.
        length: usize,
        /// Largest length accepted.
        limit: usize,
    },
    /// A discriminant that its type does not have.
    #[error("{value} is no {what}")]
    BadValue {
        /// Name of the type.
        what: &'static str,
        /// Number in the message.
        value: u32,
    },
    /// Bytes are left after the last value.
    #[error("{count} bytes follow the last value")]
    Trailing {
        /// Number of bytes left.
        count: usize,
    },
}

/// A value that can be written.
pub trait Encode {
    /// Appends the value.
    fn encode(&self, writer: &mut Writer<'_>);
}

/// A value that can be read from bytes that live for `'a`.
pub trait Decode<'a>: Sized {
    /// Reads the value and steps over it.
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError>;
}

/// Reads one value that fills `bytes` exactly.
pub fn from_bytes<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, XdrError> {
    let mut reader = Reader::new(bytes);
    let value = T::decode(&mut reader)?;
    reader.finish()?;
    Ok(value)
}

/// The bytes of one value.
pub fn to_bytes<T: Encode + ?Sized>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut Writer::new(&mut bytes));
    bytes
}

/// Zero bytes that follow `length` bytes of an opaque.
pub const fn padding(length: usize) -> usize {
    length.wrapping_neg() & 3
}

/// Walks over received bytes.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `length` bytes, without any padding.
    #[inline]
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], XdrError> {
        match self.rest.split_at_checked(length) {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(bytes)
            }
            None => Err(XdrError::Truncated { missing: length - self.rest.len() }),
        }
    }

    /// An unsigned integer.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, XdrError> {
        match self.rest.split_first_chunk() {
            Some((word, rest)) => {
                self.rest = rest;
                Ok(u32::from_be_bytes(*word))
            }
            None => Err(XdrError::Truncated { missing: 4 - self.rest.len() }),
        }
    }

    /// Unsigned integers, whose bytes are checked to be there once for all.
    #[inline]
    pub fn words<const COUNT: usize>(&mut self) -> Result<[u32; COUNT], XdrError> {
        let (words, _) = self.bytes(4 * COUNT)?.as_chunks();
        Ok(std::array::from_fn(|at| u32::from_be_bytes(words[at])))
    }

    /// An unsigned hyper integer.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, XdrError> {
        match self.rest.split_first_chunk() {
            Some((word, rest)) => {
                self.rest = rest;
                Ok(u64::from_be_bytes(*word))
            }
            None => Err(XdrError::Truncated { missing: 8 - self.rest.len() }),
        }
    }

    /// A variable-length opaque of at most `limit` bytes; its padding is skipped, and may have any value.
    #[inline]
    pub fn opaque(&mut self, limit: usize) -> Result<&'a [u8], XdrError> {
        let length = self.u32()? as usize;
        if length > limit {
            return Err(XdrError::TooLong { length, limit });
        }
        let bytes = self.bytes(length)?;
        self.bytes(padding(length))?;
        Ok(bytes)
    }

    /// Checks that nothing is left.
    pub fn finish(&self) -> Result<(), XdrError> {
        match self.rest.len() {
            0 => Ok(()),
            count => Err(XdrError::Trailing { count }),
        }
    }
}

/// Appends values to a `Vec<u8>`.
#[derive(Debug)]
pub struct Writer<'b> {
    out: &'b mut Vec<u8>,
}

impl<'b> Writer<'b> {
    /// Appends to `out`, which should hold a multiple of four bytes.
    pub fn new(out: &'b mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Bytes in the vector.
    pub fn position(&self) -> usize {
        self.out.len()
    }

    /// Appends bytes without padding.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// An unsigned integer.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    /// An unsigned hyper integer.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    /// A variable-length opaque with its padding.
    #[inline]
    pub fn opaque(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.bytes(bytes);
        self.bytes(&[0; 3][..padding(bytes.len())]);
    }

    /// Overwrites the word at `position` (a length that is known only afterwards).
    pub fn patch_u32(&mut self, position: usize, value: u32) {
        self.out[position..position + 4].copy_from_slice(&value.to_be_bytes());
    }
}

impl Encode for () {
    fn encode(&self, _: &mut Writer<'_>) {}
}

impl<'a> Decode<'a> for () {
    fn decode(_: &mut Reader<'a>) -> Result<Self, XdrError> {
        Ok(())
    }
}

impl Encode for u32 {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(*self);
    }
}

impl<'a> Decode<'a> for u32 {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        reader.u32()
    }
}

impl Encode for u64 {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u64(*self);
    }
}

impl<'a> Decode<'a> for u64 {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        reader.u64()
    }
}

impl Encode for i64 {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u64(*self as u64);
    }
}

impl<'a> Decode<'a> for i64 {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        Ok(reader.u64()? as Self)
    }
}

impl Encode for bool {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(u32::from(*self));
    }
}

impl<'a> Decode<'a> for bool {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        match reader.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(XdrError::BadValue { what: "bool", value }),
        }
    }
}

/// A fixed-length opaque; all of them here are multiples of four bytes long.
impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, writer: &mut Writer<'_>) {
        const { assert!(N.is_multiple_of(4)) };
        writer.bytes(self);
    }
}

impl<'a, const N: usize> Decode<'a> for [u8; N] {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        Ok(reader.bytes(N)?.try_into().expect("N bytes were asked for"))
    }
}

/// A variable-length opaque or string, lent out of the message, which bounds it.
impl Encode for &[u8] {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.opaque(self);
    }
}

impl<'a> Decode<'a> for &'a [u8] {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        reader.opaque(usize::MAX)
    }
}

/// Optional data (RFC 4506 §4.19), and unions that are void where a boolean is false.
impl<T: Encode> Encode for Option<T> {
    fn encode(&self, writer: &mut Writer<'_>) {
        self.is_some().encode(writer);
        if let Some(value) = self {
            value.encode(writer);
        }
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        Ok(if bool::decode(reader)? { Some(T::decode(reader)?) } else { None })
    }
}

/// A variable-length array. Memory grows with the elements read, not with the announced length.
impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.len() as u32);
        for element in self {
            element.encode(writer);
        }
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Vec<T> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        let mut elements = Vec::new();
        for _ in 0..reader.u32()? {
            elements.push(T::decode(reader)?);
        }
        Ok(elements)
    }
}

/// A linked list: each element is announced by a true boolean, a false one ends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

impl<T: Encode> Encode for List<T> {
    fn encode(&self, writer: &mut Writer<'_>) {
        for element in &self.0 {
            true.encode(writer);
            element.encode(writer);
        }
        false.encode(writer);
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for List<T> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        let mut elements = Vec::new();
        while bool::decode(reader)? {
            elements.push(T::decode(reader)?);
        }
        Ok(Self(elements))
    }
}

/// Declares structures whose encoding is that of their fields in order.
macro_rules! xdr_struct {
    ($($(#[$meta:meta])* $name:ident $(<$life:lifetime>)? { $($(#[$field_meta:meta])* $field:ident: $type:ty),* $(,)? })*) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name $(<$life>)? { $($(#[$field_meta])* pub $field: $type),* }

        impl $(<$life>)? $crate::xdr::Encode for $name $(<$life>)? {
            #[inline]
            fn encode(&self, writer: &mut $crate::xdr::Writer<'_>) {
                $($crate::xdr::Encode::encode(&self.$field, writer);)*
            }
        }

        $crate::xdr::with_lifetime! { ($($life)?)
            impl Decode for $name $(<$life>)? {
                #[inline]
                fn decode(reader) -> Result<Self, $crate::xdr::XdrError> {
                    Ok(Self { $($field: $crate::xdr::Decode::decode(reader)?),* })
                }
                fn sample(entropy) -> Self {
                    Self { $($field: $crate::sample::Sample::sample(entropy)),* }
                }
            }
        }
    )* };
}

/// Declares enumerations; `name()` is the RFC's name of a value.
macro_rules! xdr_enum {
    ($($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $value:literal),* $(,)? })*) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $name { $($(#[$variant_meta])* $variant = $value),* }

        impl $name {
            /// The RFC's name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant)),* }
            }

            /// The value with this number.
            pub const fn from_u32(value: u32) -> Option<Self> {
                match value { $($value => Some(Self::$variant),)* _ => None }
            }
        }

        impl $crate::xdr::Encode for $name {
            fn encode(&self, writer: &mut $crate::xdr::Writer<'_>) {
                writer.u32(*self as u32);
            }
        }

        $crate::xdr::with_lifetime! { ()
            impl Decode for $name {
                #[inline]
                fn decode(reader) -> Result<Self, $crate::xdr::XdrError> {
                    let value = reader.u32()?;
                    Self::from_u32(value).ok_or($crate::xdr::XdrError::BadValue { what: stringify!($name), value })
                }
                fn sample(entropy) -> Self {
                    *entropy.one_of(&[$(Self::$variant),*])
                }
            }
        }
    )* };
}

/// Declares unions that are discriminated by a number.
macro_rules! xdr_union {
    ($($(#[$meta:meta])* $name:ident $(<$life:lifetime>)? { $($(#[$variant_meta:meta])* $value:literal => $variant:ident ($type:ty)),* $(,)? })*) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name $(<$life>)? { $($(#[$variant_meta])* $variant($type)),* }

        impl $(<$life>)? $name $(<$life>)? {
            /// The number that tells its variant.
            pub const fn discriminant(&self) -> u32 {
                match self { $(Self::$variant(_) => $value),* }
            }
        }

        impl $(<$life>)? $crate::xdr::Encode for $name $(<$life>)? {
            fn encode(&self, writer: &mut $crate::xdr::Writer<'_>) {
                match self { $(Self::$variant(arm) => { writer.u32($value); $crate::xdr::Encode::encode(arm, writer); }),* }
            }
        }

        $crate::xdr::with_lifetime! { ($($life)?)
            impl Decode for $name $(<$life>)? {
                #[inline]
                fn decode(reader) -> Result<Self, $crate::xdr::XdrError> {
                    match reader.u32()? {
                        $($value => Ok(Self::$variant($crate::xdr::Decode::decode(reader)?)),)*
                        value => Err($crate::xdr::XdrError::BadValue { what: stringify!($name), value }),
                    }
                }
                fn sample(entropy) -> Self {
                    match *entropy.one_of(&[$($value),*]) {
                        $($value => Self::$variant($crate::sample::Sample::sample(entropy)),)*
                        _ => unreachable!("one of the arms was chosen"),
                    }
                }
            }
        }
    )* };
}

/// Implements `Decode` for a type that borrows from the message, or for one that does not; under test `Sample`, too.
macro_rules! with_lifetime {
    (() impl Decode for $name:ident {
        #[inline] fn decode($reader:ident) -> $result:ty $decode:block
        fn sample($entropy:ident) -> Self $sample:block
    }) => {
        impl<'message> $crate::xdr::Decode<'message> for $name {
            #[inline]
            fn decode($reader: &mut $crate::xdr::Reader<'message>) -> $result $decode
        }

        #[cfg(test)]
        impl<'message> $crate::sample::Sample<'message> for $name {
            fn sample($entropy: &mut $crate::sample::Entropy<'message>) -> Self $sample
        }
    };
    (($life:lifetime) impl Decode for $name:ident <$same:lifetime> {
        #[inline] fn decode($reader:ident) -> $result:ty $decode:block
        fn sample($entropy:ident) -> Self $sample:block
    }) => {
        impl<$life> $crate::xdr::Decode<$life> for $name<$life> {
            #[inline]
            fn decode($reader: &mut $crate::xdr::Reader<$life>) -> $result $decode
        }

        #[cfg(test)]
        impl<$life> $crate::sample::Sample<$life> for $name<$life> {
            fn sample($entropy: &mut $crate::sample::Entropy<$life>) -> Self $sample
        }
    };
}

pub(crate) use {with_lifetime, xdr_enum, xdr_struct, xdr_union};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_big_endian_and_opaques_are_padded() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer.u32(0x0102_0304);
        writer.u64(5);
        writer.opaque(b"abcde");
        Some(7_u32).encode(&mut writer);
        assert_eq!(
            bytes,
            [
                1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 5, b'a', b'b', b'c', b'd', b'e', 0, 0, 0, 0, 0, 0, 1, 0,
                0, 0, 7
            ]
        );
    }

    #[test]
    fn opaques_are_lent_from_the_message() {
        let message = [0, 0, 0, 3, b'x', b'y', b'z', 0, 0, 0, 0, 9];
        let mut reader = Reader::new(&message);
        let lent = reader.opaque(3).unwrap();
        assert_eq!(lent.as_ptr(), message[4..].as_ptr());
        assert_eq!(reader.u32(), Ok(9));
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn a_huge_length_is_an_error_before_memory_is_taken() {
        let message = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1];
        assert_eq!(Reader::new(&message).opaque(64), Err(XdrError::TooLong { length: 0xffff_ffff, limit: 64 }));
        assert_eq!(from_bytes::<&[u8]>(&message), Err(XdrError::Truncated { missing: 0xffff_fffb }));
        assert_eq!(from_bytes::<Vec<u32>>(&message), Err(XdrError::Truncated { missing: 4 }));
    }

    #[test]
    fn missing_padding_and_trailing_bytes_are_noticed() {
        assert_eq!(from_bytes::<&[u8]>(&[0, 0, 0, 1, 7]), Err(XdrError::Truncated { missing: 3 }));
        assert_eq!(from_bytes::<u32>(&[0; 5]), Err(XdrError::Trailing { count: 1 }));
        assert_eq!(from_bytes::<bool>(&[0, 0, 0, 2]), Err(XdrError::BadValue { what: "bool", value: 2 }));
    }

    #[test]
    fn a_list_ends_with_a_false_boolean() {
        let list = List(vec![3_u32, 4]);
        let bytes = to_bytes(&list);
        assert_eq!(bytes, [0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 0]);
        assert_eq!(from_bytes(&bytes), Ok(list));
    }
}
