//! Attributes (RFC 8881 §5): a bitmap that names them, and their values in the order of their numbers.

use super::{fsid4, nfs_ftype4, nfsstat4, nfstime4, settime4, specdata4};
use crate::xdr::{Decode, Encode, Reader, Writer, XdrError, xdr_struct};

/// Most words of a bitmap: numbers up to 255. RFC 8881 uses three.
const BITMAP4_WORDS_MAX: usize = 8;

/// A set of attributes or operations, by number, kept in place.
#[derive(Debug, Clone, Copy, Default)]
pub struct bitmap4 {
    length: u8,
    words: [u32; BITMAP4_WORDS_MAX],
}

impl bitmap4 {
    /// The set of these numbers, each below 256.
    pub const fn of(numbers: &[u32]) -> Self {
        let (mut set, mut at) = (Self { length: 0, words: [0; BITMAP4_WORDS_MAX] }, 0);
        while at < numbers.len() {
            set.insert(numbers[at]);
            at += 1;
        }
        set
    }

    /// Adds a number below 256.
    pub const fn insert(&mut self, number: u32) {
        let word = number as usize / 32;
        self.words[word] |= 1 << (number % 32);
        if word as u8 >= self.length {
            self.length = word as u8 + 1;
        }
    }

    /// True if the number is in the set.
    #[inline]
    pub const fn contains(&self, number: u32) -> bool {
        (number as usize) < 32 * BITMAP4_WORDS_MAX && self.words[number as usize / 32] >> (number % 32) & 1 == 1
    }

    /// True if the set has no number.
    pub fn is_empty(&self) -> bool {
        self.words == [0; BITMAP4_WORDS_MAX]
    }

    /// The numbers that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self::by_word(|at| self.words[at] & other.words[at])
    }

    /// The numbers that are in this set and not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self::by_word(|at| self.words[at] & !other.words[at])
    }

    fn by_word(word: impl Fn(usize) -> u32) -> Self {
        let words: [u32; BITMAP4_WORDS_MAX] = std::array::from_fn(word);
        let length = BITMAP4_WORDS_MAX - words.iter().rev().take_while(|word| **word == 0).count();
        Self { length: length as u8, words }
    }
}

/// Sets are equal by their numbers; zero words at the end of one do not count.
impl PartialEq for bitmap4 {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Eq for bitmap4 {}

impl Encode for bitmap4 {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(u32::from(self.length));
        self.words[..self.length as usize].iter().for_each(|word| writer.u32(*word));
    }
}

impl<'a> Decode<'a> for bitmap4 {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        let (length, limit) = (reader.u32()? as usize, BITMAP4_WORDS_MAX);
        if length > limit {
            return Err(XdrError::TooLong { length, limit });
        }
        let mut words = [0; BITMAP4_WORDS_MAX];
        for word in &mut words[..length] {
            *word = reader.u32()?;
        }
        Ok(Self { length: length as u8, words })
    }
}

xdr_struct! {
    /// Attributes as they are on the wire; [`Attributes`] has their values.
    #[derive(Copy)]
    fattr4<'a> { attrmask: bitmap4, attr_vals: &'a [u8] }
}

/// Declares the attributes that are known here: number, name, type.
macro_rules! attributes {
    ($($number:literal $constant:ident $name:ident: $type:ty,)*) => {
        $(
            #[doc = concat!("Number of `", stringify!($name), "`.")]
            pub const $constant: u32 = $number;
        )*

        /// Values of attributes; `None` for those that are not asked for, not known or not set.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Attributes<'a> {
            $(pub $name: Option<$type>,)*
        }

        impl<'a> Attributes<'a> {
            /// All attributes that are known here.
            pub const KNOWN: bitmap4 = bitmap4::of(&[$($number),*]);

            /// The attributes that have a value.
            pub fn mask(&self) -> bitmap4 {
                let mut mask = bitmap4::default();
                $(if self.$name.is_some() { mask.insert($number); })*
                mask
            }

            fn encode_values(&self, writer: &mut Writer<'_>) {
                $(if let Some(value) = &self.$name { value.encode(writer); })*
            }

            /// Decodes the values of `mask`, all of whose attributes must be known here.
            pub fn decode_values(mask: &bitmap4, values: &'a [u8]) -> Result<Self, XdrError> {
                let (mut reader, mut found) = (Reader::new(values), Self::default());
                $(if mask.contains($number) { found.$name = Some(Decode::decode(&mut reader)?); })*
                reader.finish()?;
                Ok(found)
            }
        }

        #[cfg(test)]
        impl<'a> crate::sample::Sample<'a> for Attributes<'a> {
            fn sample(entropy: &mut crate::sample::Entropy<'a>) -> Self {
                Self { $($name: crate::sample::Sample::sample(entropy),)* }
            }
        }
    };
}

attributes! {
    0 FATTR4_SUPPORTED_ATTRS supported_attrs: bitmap4,
    1 FATTR4_TYPE file_type: nfs_ftype4,
    2 FATTR4_FH_EXPIRE_TYPE fh_expire_type: u32,
    3 FATTR4_CHANGE change: u64,
    4 FATTR4_SIZE size: u64,
    5 FATTR4_LINK_SUPPORT link_support: bool,
    6 FATTR4_SYMLINK_SUPPORT symlink_support: bool,
    7 FATTR4_NAMED_ATTR named_attr: bool,
    8 FATTR4_FSID fsid: fsid4,
    9 FATTR4_UNIQUE_HANDLES unique_handles: bool,
    10 FATTR4_LEASE_TIME lease_time: u32,
    11 FATTR4_RDATTR_ERROR rdattr_error: nfsstat4,
    15 FATTR4_CANSETTIME cansettime: bool,
    16 FATTR4_CASE_INSENSITIVE case_insensitive: bool,
    17 FATTR4_CASE_PRESERVING case_preserving: bool,
    18 FATTR4_CHOWN_RESTRICTED chown_restricted: bool,
    19 FATTR4_FILEHANDLE filehandle: &'a [u8],
    20 FATTR4_FILEID fileid: u64,
    21 FATTR4_FILES_AVAIL files_avail: u64,
    22 FATTR4_FILES_FREE files_free: u64,
    23 FATTR4_FILES_TOTAL files_total: u64,
    26 FATTR4_HOMOGENEOUS homogeneous: bool,
    27 FATTR4_MAXFILESIZE maxfilesize: u64,
    28 FATTR4_MAXLINK maxlink: u32,
    29 FATTR4_MAXNAME maxname: u32,
    30 FATTR4_MAXREAD maxread: u64,
    31 FATTR4_MAXWRITE maxwrite: u64,
    33 FATTR4_MODE mode: u32,
    34 FATTR4_NO_TRUNC no_trunc: bool,
    35 FATTR4_NUMLINKS numlinks: u32,
    36 FATTR4_OWNER owner: &'a [u8],
    37 FATTR4_OWNER_GROUP owner_group: &'a [u8],
    41 FATTR4_RAWDEV rawdev: specdata4,
    42 FATTR4_SPACE_AVAIL space_avail: u64,
    43 FATTR4_SPACE_FREE space_free: u64,
    44 FATTR4_SPACE_TOTAL space_total: u64,
    45 FATTR4_SPACE_USED space_used: u64,
    47 FATTR4_TIME_ACCESS time_access: nfstime4,
    48 FATTR4_TIME_ACCESS_SET time_access_set: settime4,
    51 FATTR4_TIME_DELTA time_delta: nfstime4,
    52 FATTR4_TIME_METADATA time_metadata: nfstime4,
    53 FATTR4_TIME_MODIFY time_modify: nfstime4,
    54 FATTR4_TIME_MODIFY_SET time_modify_set: settime4,
    55 FATTR4_MOUNTED_ON_FILEID mounted_on_fileid: u64,
    75 FATTR4_SUPPATTR_EXCLCREAT suppattr_exclcreat: bitmap4,
}

/// As `fattr4`.
impl Encode for Attributes<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        self.mask().encode(writer);
        let at = writer.position();
        writer.u32(0);
        self.encode_values(writer);
        writer.patch_u32(at, (writer.position() - at - 4) as u32);
    }
}

impl<'a> fattr4<'a> {
    /// The values, if all attributes are known here.
    pub fn values(&self) -> Result<Attributes<'a>, XdrError> {
        Attributes::decode_values(&self.attrmask, self.attr_vals)
    }
}

#[cfg(test)]
impl crate::sample::Sample<'_> for bitmap4 {
    fn sample(entropy: &mut crate::sample::Entropy<'_>) -> Self {
        Self::of(&Vec::<u32>::sample(entropy).iter().map(|number| number % 256).collect::<Vec<_>>())
    }
}
