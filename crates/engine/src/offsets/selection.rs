//! Selection of the file for the next operation.

use iocurve_meter::Rng;

use crate::plan::{FileSelect, Worker};

/// The files of a worker that are not exhausted in this pass, in their order.
#[derive(Debug)]
pub(super) struct Selection {
    is_alone: bool,
    how: FileSelect,
    run: u32,
    /// Operations on the current file before the next is selected.
    left: u32,
    /// Files that are not exhausted, and some that are: those are removed once they are the majority.
    files: Vec<u32>,
    at: usize,
    exhausted: Vec<bool>,
    open: usize,
    /// By file: sum of the region sizes up to it, for selection by size.
    ends: Vec<u64>,
    bytes: Vec<u64>,
}

impl Selection {
    pub(super) fn new(worker: &Worker) -> Self {
        let mut selection = Self {
            is_alone: worker.files.len() == 1,
            how: worker.file_select,
            run: worker.file_run,
            left: 0,
            files: Vec::new(),
            at: 0,
            exhausted: vec![false; worker.files.len()],
            open: 0,
            ends: Vec::new(),
            bytes: match worker.file_select {
                FileSelect::BySize => worker.files.iter().map(|file| file.bytes).collect(),
                _ => Vec::new(),
            },
        };
        selection.restart();
        selection
    }

    /// Opens all files again, beginning with the first.
    pub(super) fn restart(&mut self) {
        self.open = self.exhausted.len();
        if self.files.len() < self.open {
            self.files = (0..self.open as u32).collect();
            self.weigh();
        }
        self.exhausted.fill(false);
        (self.at, self.left) = (self.files.len() - 1, 0);
    }

    fn weigh(&mut self) {
        let Self { files, bytes, ends, .. } = self;
        ends.clear();
        ends.extend(files.iter().scan(0_u64, |end, &file| {
            *end += bytes.get(file as usize)?;
            Some(*end)
        }));
    }

    /// Selects the file of the next operation; at least one file must not be exhausted.
    #[inline(always)]
    pub(super) fn next(&mut self, rng: &mut Rng) -> usize {
        if self.is_alone { 0 } else { self.next_of_many(rng) }
    }

    #[inline]
    fn next_of_many(&mut self, rng: &mut Rng) -> usize {
        if self.left == 0 {
            self.select(rng);
        }
        if self.how != FileSelect::Sequential {
            self.left -= 1;
        }
        self.files[self.at] as usize
    }

    #[inline]
    fn select(&mut self, rng: &mut Rng) {
        loop {
            self.at = match self.how {
                FileSelect::Random => rng.below(self.files.len() as u64) as usize,
                FileSelect::BySize => {
                    let place = rng.below(self.ends[self.ends.len() - 1]);
                    self.ends.partition_point(|&end| end <= place)
                }
                _ if self.at + 1 == self.files.len() => 0,
                _ => self.at + 1,
            };
            if self.open == self.files.len() || !self.exhausted[self.files[self.at] as usize] {
                break;
            }
        }
        self.left = self.run;
    }

    /// Leaves the file out until [`Self::restart`]; returns `true` if any other file is left.
    pub(super) fn exhaust(&mut self, file: usize) -> bool {
        self.exhausted[file] = true;
        self.open -= 1;
        self.left = 0;
        if self.open * 2 < self.files.len() && self.open > 0 {
            let exhausted = &self.exhausted;
            let before = self.files[..=self.at].iter().filter(|&&file| !exhausted[file as usize]).count();
            self.files.retain(|&file| !exhausted[file as usize]);
            self.at = before.checked_sub(1).unwrap_or(self.open - 1);
            self.weigh();
        }
        self.open > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{file, worker};

    fn selection(file_select: FileSelect, file_run: u32, files: usize) -> Selection {
        let files = (0..files).map(|_| file("f", 4096)).collect();
        Selection::new(&Worker { files, file_select, file_run, ..worker() })
    }

    fn take(selection: &mut Selection, count: usize) -> Vec<usize> {
        let mut rng = Rng::new(1);
        (0..count).map(|_| selection.next(&mut rng)).collect()
    }

    #[test]
    fn files_take_turns_of_the_run_s_length() {
        assert_eq!(take(&mut selection(FileSelect::RoundRobin, 1, 3), 5), [0, 1, 2, 0, 1]);
        assert_eq!(take(&mut selection(FileSelect::RoundRobin, 2, 3), 7), [0, 0, 1, 1, 2, 2, 0]);
        let random = take(&mut selection(FileSelect::Random, 3, 100), 300);
        assert!(random.chunks(3).all(|run| run.iter().all(|&file| file == run[0])), "{random:?}");
    }

    #[test]
    fn files_that_are_through_are_passed_over_until_all_are() {
        let mut files = selection(FileSelect::RoundRobin, 1, 5);
        assert_eq!(take(&mut files, 3), [0, 1, 2]);
        assert!(files.exhaust(2) && files.exhaust(0));
        assert_eq!(take(&mut files, 4), [3, 4, 1, 3]);
        assert!(files.exhaust(3));
        assert_eq!(take(&mut files, 3), [4, 1, 4]);
        assert!(files.exhaust(1));
        assert_eq!(take(&mut files, 2), [4, 4]);
        assert!(!files.exhaust(4));
        files.restart();
        assert_eq!(take(&mut files, 6), [0, 1, 2, 3, 4, 0]);
    }

    #[test]
    fn the_next_file_comes_when_the_one_before_is_through() {
        let mut files = selection(FileSelect::Sequential, 1, 3);
        for file in 0..3 {
            assert_eq!(take(&mut files, 4), [file; 4]);
            assert_eq!(files.exhaust(file), file < 2);
        }
    }

    #[test]
    fn files_come_as_often_as_they_are_large() {
        let files = [1, 0, 6, 3].map(|blocks| file("f", blocks * 4096)).to_vec();
        let mut files = Selection::new(&Worker { files, file_select: FileSelect::BySize, ..worker() });
        let count = |drawn: &[usize]| [0, 1, 2, 3].map(|file| drawn.iter().filter(|&&one| one == file).count());
        let [first, empty, large, last] = count(&take(&mut files, 100_000));
        assert_eq!(empty, 0);
        for (drawn, share) in [(first, 10_000), (large, 60_000), (last, 30_000)] {
            assert!(drawn.abs_diff(share) < 1_000, "{drawn} instead of {share}");
        }
        assert!(files.exhaust(2) && files.exhaust(1) && files.exhaust(0));
        assert_eq!(take(&mut files, 10), [3; 10]);
    }

    #[test]
    fn only_open_files_are_drawn() {
        let mut files = selection(FileSelect::Random, 1, 50);
        for file in 0..49 {
            assert!(files.exhaust(file));
            assert!(take(&mut files, 100).into_iter().all(|drawn| drawn > file));
        }
    }
}
