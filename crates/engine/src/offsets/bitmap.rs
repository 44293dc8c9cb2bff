//! The visited units of a region that blocks of several sizes share.

/// A bit per unit, and for each 64 bits one bit on the level above, which is set if all are visited: the next free unit
/// is found in a few steps, however full the map is.
#[derive(Debug)]
pub(super) struct Bitmap {
    /// The units first, then coarser and coarser levels, the last of one word.
    levels: Vec<Vec<u64>>,
    units: u64,
    free: u64,
}

impl Bitmap {
    pub(super) fn new(units: u64) -> Self {
        let mut bits = units;
        let mut levels = Vec::new();
        loop {
            levels.push(vec![0; bits.div_ceil(64) as usize]);
            bits = bits.div_ceil(64);
            if bits <= 1 {
                break;
            }
        }
        let mut map = Self { levels, units, free: 0 };
        map.clear();
        map
    }

    pub(super) fn clear(&mut self) {
        self.free = self.units;
        let mut bits = self.units;
        for level in &mut self.levels {
            level.fill(0);
            // Units behind the end count as visited.
            if let (Some(last), 1..) = (level.last_mut(), bits % 64) {
                *last = u64::MAX << (bits % 64);
            }
            bits = bits.div_ceil(64);
        }
    }

    pub(super) fn free(&self) -> u64 {
        self.free
    }

    /// The first free unit at or after `unit`, wrapping at the end; `None` if all are visited.
    pub(super) fn next_free(&self, unit: u64) -> Option<u64> {
        self.free_from(unit).or_else(|| self.free_from(0))
    }

    fn free_from(&self, unit: u64) -> Option<u64> {
        let mut at = unit;
        for (height, level) in self.levels.iter().enumerate() {
            let word = *level.get((at / 64) as usize)?;
            let open = !word & (u64::MAX << (at % 64));
            if open != 0 {
                return Some(self.descend(height, at / 64 * 64 + u64::from(open.trailing_zeros())));
            }
            at = at / 64 + 1;
        }
        None
    }

    /// The first free unit below a bit of a coarser level.
    fn descend(&self, height: usize, bit: u64) -> u64 {
        (0..height)
            .rev()
            .fold(bit, |at, level| at * 64 + u64::from((!self.levels[level][at as usize]).trailing_zeros()))
    }

    /// Visits free units from `unit`, which must be free: at most `count`, up to the first visited one. Returns their
    /// number.
    pub(super) fn visit(&mut self, unit: u64, count: u64) -> u64 {
        let mut visited = 0;
        while visited < count {
            let at = unit + visited;
            let Some(word) = self.levels[0].get_mut((at / 64) as usize) else { break };
            let wanted = (count - visited).min(64 - at % 64);
            let open = u64::from((*word >> (at % 64)).trailing_zeros()).min(wanted);
            if open > 0 {
                *word |= (u64::MAX >> (64 - open)) << (at % 64);
            }
            if *word == u64::MAX {
                self.close(at / 64);
            }
            visited += open;
            if open < wanted {
                break;
            }
        }
        self.free -= visited;
        visited
    }

    /// Marks a full word on the levels above.
    fn close(&mut self, mut word: u64) {
        for level in &mut self.levels[1..] {
            level[(word / 64) as usize] |= 1 << (word % 64);
            if level[(word / 64) as usize] != u64::MAX {
                break;
            }
            word /= 64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocurve_meter::Rng;

    #[test]
    fn it_agrees_with_a_plain_list() {
        for units in [1, 2, 63, 64, 65, 4095, 4096, 4097, 20_000] {
            let mut map = Bitmap::new(units);
            let mut plain = vec![false; units as usize];
            let mut rng = Rng::new(units);
            while map.free() > 0 {
                let start = rng.below(units);
                let expected = (start..units).chain(0..start).find(|&unit| !plain[unit as usize]);
                let unit = map.next_free(start);
                assert_eq!(unit, expected, "of {units} from {start}");
                let (unit, count) = (unit.unwrap(), 1 + rng.below(200));
                let open = plain[unit as usize..].iter().take(count as usize).take_while(|visited| !**visited).count();
                assert_eq!(map.visit(unit, count), open as u64);
                plain[unit as usize..][..open].fill(true);
                assert_eq!(map.free(), plain.iter().filter(|visited| !**visited).count() as u64);
            }
            assert_eq!(map.next_free(0), None);
            map.clear();
            assert_eq!((map.free(), map.next_free(units - 1)), (units, Some(units - 1)));
        }
    }
}
