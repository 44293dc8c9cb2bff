//! The intended and the actual content of a file's sectors: numbers of WRITEs, and the content before the newest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The unit in which a WRITE can be torn.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Most bytes of older contents that an export keeps. Sectors written beyond it are never read stale.
const OLDER_BYTES_MAX: usize = 256 << 20;

/// The WRITEs of one file.
#[derive(Debug)]
pub(super) struct Sectors {
    by_number: BTreeMap<u64, Sector>,
    writes: u64,
    /// Bytes of older contents of all files; `None` if they are not kept.
    older_bytes: Option<Arc<AtomicUsize>>,
}

/// One sector, as clients believe it to be and as it is.
#[derive(Debug, Clone, Default)]
pub(super) struct Sector {
    /// Number of the newest acknowledged WRITE among those of the file.
    pub(super) write: u64,
    /// Number of the newest acknowledged WRITE among those of the sector.
    pub(super) generation: u64,
    /// That of the WRITE whose data the sector holds; 0 for data of another place.
    pub(super) held: u64,
    /// Content before the newest WRITE, and the number of that content.
    older: Option<(Box<[u8]>, u64)>,
}

impl Sectors {
    pub(super) fn new(older_bytes: Option<Arc<AtomicUsize>>) -> Self {
        Self { by_number: BTreeMap::new(), writes: 0, older_bytes }
    }

    /// The sector at an offset.
    pub(super) fn at(&self, offset: u64) -> Sector {
        self.by_number
            .get(&(offset / SECTOR_BYTES))
            .map_or_else(Sector::default, |sector| Sector { older: None, ..*sector })
    }

    /// Notes an acknowledged WRITE before it is carried out. `before` is the content of its range.
    pub(super) fn acknowledge(&mut self, offset: u64, before: &[u8]) {
        self.writes += 1;
        for (number, part) in parts(offset, before) {
            let sector = self.by_number.entry(number).or_default();
            sector.write = self.writes;
            sector.generation += 1;
            keep_older(self.older_bytes.as_deref(), sector, part);
        }
    }

    /// Notes that a range holds the newest WRITE that was acknowledged there.
    pub(super) fn stored(&mut self, offset: u64, length: u64) {
        for number in numbers(offset, length) {
            let sector = self.by_number.entry(number).or_default();
            sector.held = sector.generation;
        }
    }

    /// Notes that a range holds data of another place.
    pub(super) fn spoiled(&mut self, offset: u64, length: u64) {
        numbers(offset, length).for_each(|number| self.by_number.entry(number).or_default().held = 0);
    }

    /// Puts older contents in the place of `data`, which were read from `offset`. Returns the first sector in which they differ: its
    /// offset, and the number of the older WRITE.
    pub(super) fn make_stale(&self, offset: u64, data: &mut [u8]) -> Option<(u64, u64)> {
        let (mut first, end) = (None, offset + data.len() as u64);
        let Self { by_number, .. } = self;
        for (number, sector) in by_number.range(numbers(offset, data.len() as u64)) {
            // A sector that the READ has in part stays: its older content may have been another part.
            let start = number * SECTOR_BYTES;
            let Some((older, generation)) = &sector.older else { continue };
            if start < offset || start + older.len() as u64 > end {
                continue;
            }
            let at = (start - offset) as usize;
            let place = &mut data[at..at + older.len()];
            if *place != **older {
                place.copy_from_slice(older);
                first.get_or_insert((start, *generation));
            }
        }
        first
    }
}

/// Keeps what a sector holds, if it is written as a whole and there is room.
fn keep_older(older_bytes: Option<&AtomicUsize>, sector: &mut Sector, before: &[u8]) {
    let Some(total) = older_bytes else { return };
    let kept = if before.len() as u64 == SECTOR_BYTES { before.len() } else { 0 };
    let was = sector.older.take().map_or(0, |(older, _)| older.len());
    let now = total.fetch_sub(was, Relaxed) - was;
    if kept > 0 && now + kept <= OLDER_BYTES_MAX {
        total.fetch_add(kept, Relaxed);
        sector.older = Some((before.into(), sector.held));
    }
}

impl Drop for Sectors {
    fn drop(&mut self) {
        let Some(total) = &self.older_bytes else { return };
        let kept = self.by_number.values().filter_map(|sector| sector.older.as_ref()).map(|(older, _)| older.len());
        total.fetch_sub(kept.sum(), Relaxed);
    }
}

fn numbers(offset: u64, length: u64) -> std::ops::Range<u64> {
    offset / SECTOR_BYTES..(offset + length).div_ceil(SECTOR_BYTES)
}

/// The sectors of a range, with the part of `data` in each.
fn parts(offset: u64, data: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut rest = data;
    numbers(offset, data.len() as u64).map(move |number| {
        let start = offset.max(number * SECTOR_BYTES);
        let (part, later) = rest.split_at(rest.len().min(((number + 1) * SECTOR_BYTES - start) as usize));
        rest = later;
        (number, part)
    })
}
