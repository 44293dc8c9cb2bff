use proptest::prelude::*;

use super::*;

const LIMIT: usize = 300;

/// The bytes of a record in these fragments.
fn on_the_wire(fragments: &[Vec<u8>]) -> Vec<u8> {
    let mark = |number: usize, fragment: &Vec<u8>| RecordMark {
        length: fragment.len() as u32,
        last: number + 1 == fragments.len(),
    };
    fragments.iter().enumerate().flat_map(|(n, part)| [&mark(n, part).to_bytes(), part.as_slice()].concat()).collect()
}

/// Collects records from bytes that arrive in pieces; takes over those that are partial if `take_over` says so of their length.
struct Receiver<F> {
    reassembler: Reassembler,
    input: Vec<u8>,
    taken_over: Option<Vec<u8>>,
    records: Vec<Vec<u8>>,
    take_over: F,
}

impl<F: FnMut(usize) -> bool> Receiver<F> {
    fn new(take_over: F) -> Self {
        let (reassembler, input) = (Reassembler::new(LIMIT), Vec::new());
        Self { reassembler, input, taken_over: None, records: Vec::new(), take_over }
    }

    /// Returns how many bytes are missing before there can be progress.
    fn receive(&mut self, bytes: &[u8]) -> Result<usize, RecordTooLong> {
        let input = [std::mem::take(&mut self.input), bytes.to_vec()].concat();
        let mut rest = input.as_slice();
        let missing = loop {
            match self.reassembler.advance(&mut rest)? {
                Progress::NeedBytes { missing } => break missing,
                Progress::Record(record) => self.records.push(record.to_vec()),
                Progress::Partial { arrived, length } => {
                    if !(self.take_over)(length) {
                        break length - arrived.len();
                    }
                    self.taken_over = Some(arrived.to_vec());
                    self.reassembler.take_partial(&mut rest);
                }
                Progress::Body(bytes) => self.taken_over.as_mut().unwrap().extend(bytes),
            }
            self.finish();
        };
        self.input = rest.to_vec();
        Ok(missing)
    }

    /// Receives at most what is missing of a record taken over past the reassembler; returns the other bytes.
    fn bypass<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (body, rest) = bytes.split_at(self.reassembler.body_left().min(bytes.len()));
        if let Some(record) = &mut self.taken_over {
            record.extend(body);
        }
        self.reassembler.body_received(body.len());
        self.finish();
        rest
    }

    fn finish(&mut self) {
        if self.reassembler.body_left() == 0 {
            self.records.extend(self.taken_over.take());
        }
    }
}

fn fragments() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![3 => prop::collection::vec(bytes.clone(), 1..2), 1 => prop::collection::vec(bytes, 1..6)]
}

proptest! {
    #[test]
    fn any_split_of_the_bytes_gives_the_same_records(
        records in prop::collection::vec(fragments(), 0..12),
        pieces in prop::collection::vec(1_usize..60, 1..40),
        choices in prop::collection::vec(any::<[bool; 2]>(), 1..8),
    ) {
        let stream: Vec<u8> = records.iter().flat_map(|record| on_the_wire(record)).collect();
        let mut choice = choices.iter().cycle();
        let mut receiver = Receiver::new(|_| choice.next().unwrap()[0]);
        let (mut rest, mut bypass) = (stream.as_slice(), choices.iter().cycle());
        for piece in pieces.iter().cycle() {
            let (now, later) = rest.split_at((*piece).min(rest.len()));
            let now = if bypass.next().unwrap()[1] { receiver.bypass(now) } else { now };
            receiver.receive(now).unwrap();
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        let expected: Vec<Vec<u8>> = records.iter().map(|record| record.concat()).collect();
        prop_assert_eq!(&receiver.records, &expected);
        prop_assert!(receiver.input.is_empty());
    }

    #[test]
    fn whoever_receives_just_the_missing_bytes_ends_with_the_record(fragments in fragments()) {
        let stream = [on_the_wire(&fragments), b"more".to_vec()].concat();
        let (mut receiver, mut at) = (Receiver::new(|_| false), 0);
        let mut missing = receiver.receive(&[]).unwrap();
        while receiver.records.is_empty() {
            prop_assert!(missing > 0);
            at += missing;
            missing = receiver.receive(&stream[at - missing..at]).unwrap();
        }
        prop_assert_eq!((&receiver.records[0], &stream[at..]), (&fragments.concat(), b"more".as_slice()));
    }
}

#[test]
fn a_record_of_one_fragment_is_lent_from_the_input() {
    let stream = on_the_wire(&[b"record".to_vec()]);
    let (mut reassembler, mut rest) = (Reassembler::new(LIMIT), stream.as_slice());
    let Ok(Progress::Record(record)) = reassembler.advance(&mut rest) else { panic!("a whole record is there") };
    assert_eq!((record, record.as_ptr()), (b"record".as_slice(), stream[RECORD_MARK_BYTES..].as_ptr()));
    assert_eq!((rest, reassembler.joined.capacity()), (b"".as_slice(), 0));
}

#[test]
fn a_partial_record_stays_until_it_is_taken_over() {
    let stream = on_the_wire(&[b"head, body".to_vec()]);
    let (mut reassembler, mut rest) = (Reassembler::new(LIMIT), &stream[..RECORD_MARK_BYTES + 4]);
    for _ in 0..2 {
        let partial = reassembler.advance(&mut rest);
        assert_eq!(partial, Ok(Progress::Partial { arrived: b"head", length: 10 }));
    }
    reassembler.take_partial(&mut rest);
    assert_eq!((rest, reassembler.body_left()), (b"".as_slice(), 6));
    assert_eq!(reassembler.advance(&mut rest), Ok(Progress::NeedBytes { missing: 6 }));
    reassembler.body_received(2);
    rest = b"body\x80\0";
    assert_eq!(reassembler.advance(&mut rest), Ok(Progress::Body(b"body")));
    assert_eq!((rest, reassembler.body_left()), (b"\x80\0".as_slice(), 0));
    assert_eq!(reassembler.advance(&mut rest), Ok(Progress::NeedBytes { missing: 2 }));
}

#[test]
fn a_record_is_too_long_as_soon_as_its_mark_says_so() {
    let too_long = |length| Err(RecordTooLong { length, limit: LIMIT });
    let mark = |length, last| RecordMark { length, last }.to_bytes();
    let advance = |stream: &[u8]| Receiver::new(|_| false).receive(stream);
    assert_eq!(advance(&mark(LIMIT as u32, true)), Ok(LIMIT));
    assert_eq!(advance(&mark(LIMIT as u32 + 1, true)), too_long(LIMIT + 1));
    assert_eq!(advance(&mark((1 << 31) - 1, false)), too_long((1 << 31) - 1));
    let first = [&mark(LIMIT as u32, false), [7; LIMIT].as_slice()].concat();
    assert_eq!(advance(&[first.as_slice(), &mark(0, true)].concat()), Ok(RECORD_MARK_BYTES));
    assert_eq!(advance(&[first.as_slice(), &mark(1, true)].concat()), too_long(LIMIT + 1));
}

#[test]
fn memory_is_taken_only_for_bytes_that_have_arrived() {
    let mut reassembler = Reassembler::new(1 << 30);
    let mark = RecordMark { length: 1 << 30, last: false }.to_bytes();
    assert_eq!(reassembler.advance(&mut mark.as_slice()), Ok(Progress::NeedBytes { missing: 1 << 30 }));
    assert_eq!(reassembler.buffer_bytes(), 0);
}

#[test]
fn the_buffer_is_freed_between_records_only() {
    let stream = on_the_wire(&[vec![1; 20], vec![2; 20]]);
    let mut reassembler = Reassembler::new(LIMIT);
    let mut rest = &stream[..30];
    assert_eq!(reassembler.advance(&mut rest), Ok(Progress::NeedBytes { missing: 18 }));
    reassembler.free_buffer();
    rest = &stream[30..];
    assert_eq!(reassembler.advance(&mut rest), Ok(Progress::Record(&[[1; 20], [2; 20]].concat())));
    assert!(reassembler.buffer_bytes() >= 40);
    reassembler.free_buffer();
    assert_eq!((reassembler.buffer_bytes(), reassembler.state), (0, State::Mark));
}

#[test]
fn another_stream_begins_with_a_mark() {
    for start in [&on_the_wire(&[vec![1; 9], vec![2; 9]])[..8], &on_the_wire(&[vec![1; 9]])[..8]] {
        let mut receiver = Receiver::new(|_| true);
        receiver.receive(start).unwrap();
        receiver.reassembler.reset();
        receiver.taken_over = None;
        receiver.receive(&on_the_wire(&[b"new".to_vec()])).unwrap();
        assert_eq!(receiver.records, [b"new"]);
    }
}
