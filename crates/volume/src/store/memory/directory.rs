//! The names in one directory.

use std::hash::{BuildHasher, RandomState};
use std::iter;

/// Names with their nodes, by cookie. The cookie of a name is its hash, so that one table serves look-ups and listings. The hash has a key:
/// clients cannot choose names whose hashes meet.
///
/// The table is one of extendible hashing (Fagin and others, 1979) by the first bits of the cookies: it finds a name among a million
/// with as many accesses to memory as among a hundred, it has the names in the order of their cookies, and it grows by one bucket at a time.
#[derive(Debug)]
pub(super) struct Directory {
    /// The directory that this one is in; the root is in itself.
    pub(super) parent: Link,
    /// Its level when it was made or moved itself, 0 of the root. Where a directory above it was moved it may be another one.
    pub(super) level: u32,
    hasher: RandomState,
    /// Number of names.
    length: usize,
    /// Number of a bucket by the first bits of cookies: a power of two, unless there are no names. Neighbours may have the same bucket.
    places: Vec<u32>,
    buckets: Vec<Bucket>,
}

/// A node as a directory refers to it: the slot, and the stamp that tells the node from a later one in the same slot. A handle can be
/// made of both without a look at the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) stamp: u64,
}

#[derive(Debug)]
struct Bucket {
    /// Number of first bits that all its cookies share, and no other bucket's have.
    bits: u32,
    /// In the order of their cookies.
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    cookie: u64,
    link: Link,
    name: Name,
}

/// A name. Most are short, and are kept where the search for them ends: one access to memory less.
#[derive(Debug)]
enum Name {
    Short { length: u8, bytes: [u8; SHORT_BYTES] },
    Long(Box<[u8]>),
}

/// The longest short name: an entry of 48 bytes has it.
const SHORT_BYTES: usize = 22;

impl Name {
    fn new(name: &[u8]) -> Self {
        let mut bytes = [0; SHORT_BYTES];
        match bytes.get_mut(..name.len()) {
            Some(start) => {
                start.copy_from_slice(name);
                Self::Short { length: name.len() as u8, bytes }
            }
            None => Self::Long(name.into()),
        }
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short { length, bytes } => &bytes[..*length as usize],
            Self::Long(name) => name,
        }
    }
}

/// Cookies of `.` and `..`, which every directory lists first.
const DOT: u64 = 1;
const DOT_DOT: u64 = 2;

/// Bits of a hash that cookies have.
const COOKIE_BITS: u32 = 62;

/// Names whose hashes meet have neighbouring cookies, of which a name keeps its own when the others go. So many never meet: in a directory
/// of a million names, two do once in ten million times.
const MEETING_MAX: u64 = 16;

/// A bucket with more entries is split.
const BUCKET_ENTRIES_MAX: usize = 32;

impl Directory {
    pub(super) fn new(parent: Link, level: u32) -> Self {
        Self { parent, level, hasher: RandomState::new(), length: 0, places: Vec::new(), buckets: Vec::new() }
    }

    /// True if there are no names but `.` and `..`.
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Size as `ls` shows it.
    pub(super) fn size(&self) -> u64 {
        4096 + 32 * self.length as u64
    }

    /// The first cookie that a name may have. It fits into the 63 bits of a position in a file, where clients keep it.
    fn first_cookie(&self, name: &[u8]) -> u64 {
        (self.hasher.hash_one(name) >> (u64::BITS - COOKIE_BITS)) + DOT_DOT + 1
    }

    /// Cookie and node of a name, else the cookie that it would get.
    fn find(&self, name: &[u8]) -> Result<(u64, Link), u64> {
        let first = self.first_cookie(name);
        let mut free = first;
        for entry in self.from(first).take_while(|entry| entry.cookie < first + MEETING_MAX) {
            if entry.name.as_bytes() == name {
                return Ok((entry.cookie, entry.link));
            }
            free += u64::from(entry.cookie == free);
        }
        Err(free)
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<Link> {
        self.find(name).ok().map(|(_, link)| link)
    }

    /// Puts a node under a name, and replaces the one that was there.
    pub(super) fn insert(&mut self, name: &[u8], link: Link) {
        let cookie = match self.find(name) {
            Ok((cookie, _)) => {
                self.remove_at(cookie);
                cookie
            }
            Err(free) => free,
        };
        self.insert_at(Entry { cookie, link, name: Name::new(name) });
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        if let Ok((cookie, _)) = self.find(name) {
            self.remove_at(cookie);
        }
    }

    /// Calls `visit` with the cookie, name and node of each name after `cookie` until it returns `false`; `true` if it took them all.
    pub(super) fn list(&self, own: Link, cookie: u64, mut visit: impl FnMut(u64, &[u8], Link) -> bool) -> bool {
        let dots = [(DOT, &b"."[..], own), (DOT_DOT, b"..", self.parent)];
        let mut after = self.from(cookie.max(DOT_DOT).saturating_add(1));
        dots.into_iter().filter(|dot| dot.0 > cookie).all(|(cookie, name, link)| visit(cookie, name, link))
            && after.all(|entry| visit(entry.cookie, entry.name.as_bytes(), entry.link))
    }

    // -- the table ---------------------------------------------------------------------------------------------------

    /// Number of first bits that tell the places apart.
    fn bits(&self) -> u32 {
        self.places.len().trailing_zeros()
    }

    /// The place of a cookie; there are names. A few cookies are beyond those of the hashes: they are in the last place.
    fn place(&self, cookie: u64) -> usize {
        let place = (cookie >> (COOKIE_BITS - self.bits())) as usize;
        place.min(self.places.len() - 1)
    }

    /// The entries from a cookie on, in the order of their cookies.
    fn from(&self, cookie: u64) -> impl Iterator<Item = &Entry> {
        let mut next = if self.places.is_empty() { 0 } else { self.place(cookie) };
        let mut buckets = iter::from_fn(move || {
            let bucket = &self.buckets[*self.places.get(next)? as usize];
            // Behind all the places that it has.
            next = (next | ((1 << (self.bits() - bucket.bits)) - 1)) + 1;
            Some(bucket)
        });
        let first = buckets.next().map_or(&[][..], |bucket| &bucket.entries[bucket.position(cookie)..]);
        first.iter().chain(buckets.flat_map(|bucket| &bucket.entries))
    }

    fn bucket_mut(&mut self, cookie: u64) -> &mut Bucket {
        let number = self.places[self.place(cookie)];
        &mut self.buckets[number as usize]
    }

    /// Adds an entry, whose cookie is free.
    fn insert_at(&mut self, entry: Entry) {
        if self.places.is_empty() {
            self.places.push(0);
            self.buckets.push(Bucket { bits: 0, entries: Vec::new() });
        }
        // Hashes that are spread evenly do not need more places than names.
        while self.bucket_mut(entry.cookie).entries.len() >= BUCKET_ENTRIES_MAX && self.places.len() <= self.length {
            self.split(entry.cookie);
        }
        let bucket = self.bucket_mut(entry.cookie);
        bucket.entries.insert(bucket.position(entry.cookie), entry);
        self.length += 1;
    }

    /// Splits the bucket of a cookie by one more bit.
    fn split(&mut self, cookie: u64) {
        if self.bucket_mut(cookie).bits == self.bits() {
            self.places = self.places.iter().flat_map(|&number| [number; 2]).collect();
        }
        let (place, bits, new) = (self.place(cookie), self.bits(), self.buckets.len() as u32);
        let bucket = self.bucket_mut(cookie);
        bucket.bits += 1;
        let places = 1 << (bits - bucket.bits);
        let upper = (place & !(2 * places - 1)) + places;
        let entries = bucket.entries.split_off(bucket.position((upper as u64) << (COOKIE_BITS - bits)));
        let split = Bucket { bits: bucket.bits, entries };
        self.buckets.push(split);
        self.places[upper..upper + places].fill(new);
    }

    /// Removes the entry of a cookie. Buckets keep the memory that they need; when there are more of them than names, the table is made again.
    fn remove_at(&mut self, cookie: u64) {
        let bucket = self.bucket_mut(cookie);
        bucket.entries.remove(bucket.position(cookie));
        if bucket.entries.len() * 4 <= bucket.entries.capacity() {
            bucket.entries.shrink_to(bucket.entries.len() * 2);
        }
        self.length -= 1;
        if self.length < self.buckets.len() {
            let buckets = std::mem::take(&mut self.buckets);
            (self.places, self.length) = (Vec::new(), 0);
            buckets.into_iter().flat_map(|bucket| bucket.entries).for_each(|entry| self.insert_at(entry));
        }
    }
}

impl Bucket {
    /// Position of the first entry from a cookie on. Hashes are spread evenly, so that the search starts close to it.
    fn position(&self, cookie: u64) -> usize {
        let within = u128::from(cookie << (u64::BITS - COOKIE_BITS) << self.bits);
        let mut at = ((within * self.entries.len() as u128) >> u64::BITS) as usize;
        while at > 0 && self.entries[at - 1].cookie >= cookie {
            at -= 1;
        }
        while at < self.entries.len() && self.entries[at].cookie < cookie {
            at += 1;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node of these tests.
    fn node(index: u32) -> Link {
        Link { index, stamp: u64::from(index) + 1000 }
    }

    fn names(listed: &[(u64, Vec<u8>, Link)]) -> Vec<&[u8]> {
        listed.iter().map(|(_, name, _)| name.as_slice()).collect()
    }

    /// At most `limit` names after a cookie; `true` if nothing follows them.
    fn list(directory: &Directory, own: Link, cookie: u64, limit: usize) -> (Vec<(u64, Vec<u8>, Link)>, bool) {
        let mut listed = Vec::new();
        let end = directory.list(own, cookie, |cookie, name, link| {
            let has_room = listed.len() < limit;
            if has_room {
                listed.push((cookie, name.to_vec(), link));
            }
            has_room
        });
        (listed, end)
    }

    #[test]
    fn cookies_outlive_changes() {
        let mut directory = Directory::new(node(0), 0);
        for name in ["a", "b", "c", "d"] {
            directory.insert(name.as_bytes(), node(9));
        }
        let (all, end) = list(&directory, node(5), 0, 6);
        assert!(end && names(&all)[..2] == [&b"."[..], b".."]);
        assert!(all.iter().map(|(cookie, ..)| *cookie).is_sorted_by(|one, next| one < next && next >> 63 == 0));
        let (first, end) = list(&directory, node(5), 0, 4);
        assert!(!end && first == all[..4]);
        directory.remove(&all[2].1);
        directory.remove(&all[4].1);
        directory.insert(&all[4].1, node(9));
        assert_eq!(list(&directory, node(5), all[3].0, 10), (all[4..].to_vec(), true));
    }

    #[test]
    fn names_whose_hashes_meet_are_told_apart() {
        let mut directory = Directory::new(node(0), 0);
        let first = directory.first_cookie(b"one");
        directory.insert_at(Entry { cookie: first, link: node(1), name: Name::new(b"other") });
        directory.insert(b"one", node(2));
        directory.remove_at(first);
        directory.insert(b"one", node(3));
        assert_eq!((directory.get(b"one"), directory.length), (Some(node(3)), 1));
        assert_eq!(list(&directory, node(0), first, 9), (vec![(first + 1, b"one".to_vec(), node(3))], true));
        directory.remove(b"one");
        assert!(directory.is_empty());
    }

    #[test]
    fn names_come_and_go_by_the_hundred_thousand() {
        let mut directory = Directory::new(node(0), 0);
        // Some are long.
        let name = |number: u32| format!("{:>1$}", format!("name{number}"), number as usize % 40).into_bytes();
        for number in 0..100_000 {
            directory.insert(&name(number), node(number));
        }
        assert!((1 << 12..=1 << 15).contains(&directory.places.len()), "{} places", directory.places.len());
        assert!((0..100_000).all(|number| directory.get(&name(number)) == Some(node(number))));
        assert_eq!(directory.get(&name(100_000)), None);
        for number in (0..100_000).filter(|number| number % 3 != 0) {
            directory.remove(&name(number));
        }
        directory.insert(&name(0), node(7));
        let (mut listed, mut cookie, mut is_last) = (Vec::new(), DOT_DOT, false);
        while !is_last {
            let (page, end) = list(&directory, node(0), cookie, 1000);
            (cookie, is_last) = (page.last().map_or(cookie, |last| last.0), end);
            listed.extend(page);
        }
        assert!(listed.is_sorted_by(|one, next| one.0 < next.0));
        let mut indexes: Vec<u32> = listed.iter().map(|(.., link)| link.index).collect();
        indexes.sort_unstable();
        let mut expected: Vec<u32> = iter::once(7).chain((3..100_000).step_by(3)).collect();
        expected.sort_unstable();
        assert_eq!((indexes, directory.length), (expected, 33_334));
        for (removed, (_, name, _)) in listed.iter().enumerate() {
            assert!(directory.buckets.len() <= (listed.len() - removed).max(1), "{} buckets", directory.buckets.len());
            directory.remove(name);
        }
        assert!(directory.is_empty() && directory.places.is_empty() && directory.buckets.is_empty());
    }

    #[test]
    fn cookies_that_meet_across_two_buckets_are_found() {
        let mut directory = Directory::new(node(0), 0);
        for number in 0..1000_u32 {
            directory.insert(&number.to_be_bytes(), node(number));
        }
        let bits = directory.bits();
        let start = 1_u64 << (COOKIE_BITS - 1);
        assert_ne!(directory.place(start - 1), directory.place(start), "{bits} bits");
        for cookie in [start - 2, start - 1, start, start + 1] {
            if directory.from(cookie).next().is_none_or(|entry| entry.cookie != cookie) {
                directory.insert_at(Entry { cookie, link: node(9), name: Name::new(&cookie.to_be_bytes()) });
            }
        }
        let found: Vec<u64> = directory.from(start - 2).map(|entry| entry.cookie).take(4).collect();
        assert_eq!(found, [start - 2, start - 1, start, start + 1]);
        let last = (1 << COOKIE_BITS) + DOT_DOT;
        directory.insert_at(Entry { cookie: last, link: node(9), name: Name::new(b"last") });
        assert_eq!(list(&directory, node(0), last - 1, 9), (vec![(last, b"last".to_vec(), node(9))], true));
        directory.remove_at(last);
        assert_eq!(list(&directory, node(0), last - 1, 9), (vec![], true));
    }
}
