//! The names in one directory.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound::{Excluded, Unbounded};

/// Names with their nodes, by cookie. The cookie of a name is its hash, so that one table serves look-ups and listings, and no table
/// is ever built again for its growth. The hash has a key: clients cannot choose names whose hashes meet.
#[derive(Debug)]
pub(super) struct Directory {
    /// Node of the directory that this one is in; the root is in itself.
    pub(super) parent: u32,
    hasher: RandomState,
    entries: BTreeMap<u64, (Box<[u8]>, u32)>,
}

/// Cookies of `.` and `..`, which every directory lists first.
const DOT: u64 = 1;
const DOT_DOT: u64 = 2;

/// Names whose hashes meet have neighbouring cookies, of which a name keeps its own when the others go. So many never meet: in a directory
/// of a million names, two do once in ten million times.
const MEETING_MAX: u64 = 16;

impl Directory {
    pub(super) fn new(parent: u32) -> Self {
        Self { parent, hasher: RandomState::new(), entries: BTreeMap::new() }
    }

    /// True if there are no names but `.` and `..`.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Size as `ls` shows it.
    pub(super) fn size(&self) -> u64 {
        4096 + 32 * self.entries.len() as u64
    }

    /// The first cookie that a name may have. It fits into the 63 bits of a position in a file, where clients keep it.
    fn first_cookie(&self, name: &[u8]) -> u64 {
        (self.hasher.hash_one(name) >> 2) + DOT_DOT + 1
    }

    /// Cookie and node of a name, else the cookie that it would get.
    fn find(&self, name: &[u8]) -> Result<(u64, u32), u64> {
        let first = self.first_cookie(name);
        // Almost always: no other hash is close to this one.
        if let Some((found, index)) = self.entries.get(&first)
            && **found == *name
        {
            return Ok((first, *index));
        }
        let mut free = first;
        for (cookie, (found, index)) in self.entries.range(first..first + MEETING_MAX) {
            if **found == *name {
                return Ok((*cookie, *index));
            }
            free += u64::from(*cookie == free);
        }
        Err(free)
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<u32> {
        self.find(name).ok().map(|(_, index)| index)
    }

    /// Puts a node under a name, and replaces the one that was there.
    pub(super) fn insert(&mut self, name: &[u8], index: u32) {
        let cookie = self.find(name).map_or_else(|free| free, |(cookie, _)| cookie);
        self.entries.insert(cookie, (name.into(), index));
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        if let Ok((cookie, _)) = self.find(name) {
            self.entries.remove(&cookie);
        }
    }

    /// Lists at most `limit` names after `cookie` with their cookies and nodes; `true` if nothing follows them.
    pub(super) fn list(&self, own: u32, cookie: u64, limit: usize) -> (Vec<(u64, Vec<u8>, u32)>, bool) {
        let dots = [(DOT, b".".to_vec(), own), (DOT_DOT, b"..".to_vec(), self.parent)];
        let dots = dots.into_iter().filter(|dot| dot.0 > cookie);
        let after = self.entries.range((Excluded(cookie.max(DOT_DOT)), Unbounded));
        let names = after.map(|(cookie, (name, index))| (*cookie, name.to_vec(), *index));
        let mut all = dots.chain(names);
        let listed: Vec<_> = all.by_ref().take(limit).collect();
        (listed, all.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(listed: &[(u64, Vec<u8>, u32)]) -> Vec<&[u8]> {
        listed.iter().map(|(_, name, _)| name.as_slice()).collect()
    }

    #[test]
    fn cookies_outlive_changes() {
        let mut directory = Directory::new(0);
        for name in ["a", "b", "c", "d"] {
            directory.insert(name.as_bytes(), 9);
        }
        let (all, end) = directory.list(5, 0, 6);
        assert!(end && names(&all)[..2] == [&b"."[..], b".."]);
        assert!(all.iter().map(|(cookie, ..)| *cookie).is_sorted_by(|one, next| one < next && next >> 63 == 0));
        let (first, end) = directory.list(5, 0, 4);
        assert!(!end && first == all[..4]);
        directory.remove(&all[2].1);
        directory.remove(&all[4].1);
        directory.insert(&all[4].1, 9);
        assert_eq!(directory.list(5, all[3].0, 10), (all[4..].to_vec(), true));
    }

    #[test]
    fn names_whose_hashes_meet_are_told_apart() {
        let mut directory = Directory::new(0);
        let first = directory.first_cookie(b"one");
        directory.entries.insert(first, (b"other".as_slice().into(), 1));
        directory.insert(b"one", 2);
        directory.entries.remove(&first);
        directory.insert(b"one", 3);
        assert_eq!((directory.get(b"one"), directory.entries.len()), (Some(3), 1));
        assert_eq!(directory.list(0, first, 9), (vec![(first + 1, b"one".to_vec(), 3)], true));
        directory.remove(b"one");
        assert!(directory.is_empty());
    }
}
