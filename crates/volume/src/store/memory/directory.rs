//! The names in one directory.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

/// Names with their nodes. Cookies count the names in the order in which they were added, and are never used again.
#[derive(Debug)]
pub(super) struct Directory {
    /// Node of the directory that this one is in; the root is in itself.
    pub(super) parent: u32,
    cookies: HashMap<Arc<[u8]>, u64>,
    entries: BTreeMap<u64, (Arc<[u8]>, u32)>,
    next_cookie: u64,
}

/// Cookies of `.` and `..`, which every directory lists first.
const DOT: u64 = 1;
const DOT_DOT: u64 = 2;

impl Directory {
    pub(super) fn new(parent: u32) -> Self {
        Self { parent, cookies: HashMap::new(), entries: BTreeMap::new(), next_cookie: DOT_DOT + 1 }
    }

    /// True if there are no names but `.` and `..`.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Size as `ls` shows it.
    pub(super) fn size(&self) -> u64 {
        4096 + 32 * self.entries.len() as u64
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<u32> {
        self.cookies.get(name).map(|cookie| self.entries[cookie].1)
    }

    /// Puts a node under a name, and replaces the one that was there.
    pub(super) fn insert(&mut self, name: &[u8], index: u32) {
        if let Some(cookie) = self.cookies.get(name) {
            self.entries.get_mut(cookie).expect("both tables agree").1 = index;
            return;
        }
        let name: Arc<[u8]> = name.into();
        self.cookies.insert(Arc::clone(&name), self.next_cookie);
        self.entries.insert(self.next_cookie, (name, index));
        self.next_cookie += 1;
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        if let Some(cookie) = self.cookies.remove(name) {
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

    #[test]
    fn cookies_outlive_changes() {
        let mut directory = Directory::new(0);
        for name in ["a", "b", "c"] {
            directory.insert(name.as_bytes(), 9);
        }
        let (first, end) = directory.list(5, 0, 3);
        assert_eq!(first.iter().map(|(_, name, _)| name.as_slice()).collect::<Vec<_>>(), [&b"."[..], b"..", b"a"]);
        assert!(!end);
        directory.remove(b"b");
        directory.insert(b"b", 9);
        let (rest, end) = directory.list(5, first[2].0, 10);
        assert_eq!(rest.iter().map(|(_, name, _)| name.as_slice()).collect::<Vec<_>>(), [b"c", b"b"]);
        assert!(end);
    }
}
