use super::*;
use crate::offsets::{Offsets, SharedPositions};
use crate::outcome::DifferenceKind;
use crate::plan::tests::{file, operation, worker};
use crate::plan::{
    Access, BlockShare, Blocks, Content, Cover, End, EnginePlan, FilePlan, NfsMount, OperationPlan, Payload, Renew,
};

const BLOCK: u32 = 4096;

pub(super) const METHODS: [VerifyMethod; 18] = [
    VerifyMethod::Header,
    VerifyMethod::Null,
    VerifyMethod::Pattern,
    VerifyMethod::PatternHeader,
    VerifyMethod::Crc7,
    VerifyMethod::Crc16,
    VerifyMethod::Crc32,
    VerifyMethod::Crc32c,
    VerifyMethod::Crc64,
    VerifyMethod::Xxhash,
    VerifyMethod::Md5,
    VerifyMethod::Sha1,
    VerifyMethod::Sha256,
    VerifyMethod::Sha512,
    VerifyMethod::Sha3224,
    VerifyMethod::Sha3256,
    VerifyMethod::Sha3384,
    VerifyMethod::Sha3512,
];

fn by(method: VerifyMethod) -> Verify {
    let pattern =
        if matches!(method, VerifyMethod::Pattern | VerifyMethod::PatternHeader) { "ffoooooooooooooooo" } else { "" };
    Verify {
        method,
        interval_bytes: 0,
        header_offset: 0,
        pattern: pattern.into(),
        read_back: true,
        pass_bytes: None,
        backlog: None,
        backlog_batch: 0,
        only: false,
        fatal: false,
        dump: false,
        map: None,
    }
}

/// Writes 4 KiB blocks of a file of 64 KiB.
fn writer(plan: Verify) -> Worker {
    let engine = EnginePlan::Sync { open: crate::engines::testing::open(false) };
    Worker {
        engine,
        files: vec![file("data", 65536)],
        operations: vec![operation(OperationKind::Write, BLOCK)],
        payload: Payload { content: Content::Random {}, renew: Renew::Keep, ..worker().payload },
        verify: Some(plan),
        ..worker()
    }
}

fn reader(plan: Verify) -> Worker {
    Worker { operations: vec![operation(OperationKind::Read, BLOCK)], ..writer(plan) }
}

fn at(offset: u64) -> Address {
    Address { file: 0, offset, length: BLOCK }
}

/// A worker's verifier, with the parts of the loop that it needs: one slot.
struct Bench<'a> {
    verifier: Verifier<'a>,
    filler: Filler,
    buffer: Vec<u8>,
    reads_back: bool,
    reads_again: bool,
}

impl<'a> Bench<'a> {
    fn new(worker: &'a Worker) -> Self {
        let mut buffer = vec![0; BLOCK as usize];
        let filler = Filler::new(worker, std::iter::once(&mut buffer[..])).unwrap();
        let verifier = Verifier::new(worker, 1, None).unwrap().unwrap();
        Self { verifier, filler, buffer, reads_back: worker.writes(), reads_again: false }
    }

    fn write(&mut self, address: Address) -> Vec<u8> {
        let block = &mut self.buffer[..address.length as usize];
        self.verifier.stamp(&mut self.filler, block, 0, address);
        let back = CompletedOperation {
            slot: 0,
            kind: OperationKind::Write,
            address,
            bytes: BLOCK,
            reads_back: false,
            reads_again: false,
        };
        assert!(!self.verifier.completed(&back));
        block.to_vec()
    }

    fn read(&mut self, address: Address, content: &[u8]) -> Result<(), EngineError> {
        self.buffer[..content.len()].copy_from_slice(content);
        let bytes = content.len() as u32;
        let back = CompletedOperation {
            slot: 0,
            kind: OperationKind::Read,
            address,
            bytes,
            reads_back: self.reads_back,
            reads_again: self.reads_again,
        };
        if !self.verifier.completed(&back) {
            return Ok(());
        }
        self.verifier.compare(&mut self.filler, &self.buffer[..address.length as usize], &back).map(drop)
    }

    fn failure(&self) -> String {
        self.verifier.failure().map_or_else(String::new, |error| error.to_string())
    }
}

#[test]
fn written_data_pass_every_method() {
    for method in METHODS {
        for (interval_bytes, header_offset) in [(0, 0), (512, 0), (1024, 100), (4096, 3968)] {
            let plan = writer(Verify { interval_bytes, header_offset, ..by(method) });
            assert!(check(&plan).is_ok(), "{method:?}");
            let mut bench = Bench::new(&plan);
            let content = bench.write(at(8192));
            bench.read(at(8192), &content).unwrap();
            assert_eq!(bench.failure(), "", "{method:?} {interval_bytes} {header_offset}");
        }
    }
}

#[test]
fn a_byte_that_changes_anywhere_is_found_by_every_method_that_looks_there() {
    for method in METHODS {
        let plan = writer(Verify { interval_bytes: 512, header_offset: 64, ..by(method) });
        let mut bench = Bench::new(&plan);
        let content = bench.write(at(0));
        for place in (0..BLOCK as usize).step_by(61) {
            let mut wrong = content.clone();
            wrong[place] ^= 0x10;
            let mut bench = Bench::new(&plan);
            bench.write(at(0));
            bench.read(at(0), &wrong).unwrap();
            let in_header = (64..104).contains(&(place % 512));
            let found = match method {
                VerifyMethod::Null => false,
                VerifyMethod::Header => in_header,
                _ => true,
            };
            assert_eq!(!bench.failure().is_empty(), found, "{method:?} {place}");
            let interval = format!("512 bytes at offset {} of data", place / 512 * 512);
            assert!(!found || bench.failure().contains(&interval), "{}", bench.failure());
        }
    }
}

#[test]
fn a_difference_is_reported_with_its_kind() {
    let plan = writer(by(VerifyMethod::Crc32c));
    let mut bench = Bench::new(&plan);
    let first = bench.write(at(0));
    let second = bench.write(at(4096));
    let newest = bench.write(at(0));
    let mut damaged = newest.clone();
    damaged[26] ^= 1;
    let mut changed = newest.clone();
    changed[4095] ^= 1;
    for (content, expected) in [
        (vec![0; 4096], "it has no header: magic 00000000 instead of 696f4376; was it written with verification?"),
        (second, "it holds data of offset 4096 instead of 0"),
        (first, "it holds write number 1 instead of the newest, 3"),
        (damaged, "its header is damaged: checksum "),
        (changed, "crc32c of its content is "),
        (newest[..100].to_vec(), "the file ends after 100 bytes of it"),
    ] {
        let plan = writer(by(VerifyMethod::Crc32c));
        let mut bench = Bench::new(&plan);
        for offset in [0, 4096, 0] {
            bench.write(at(offset));
        }
        bench.read(at(0), &content).unwrap();
        let text = format!("verification of 4096 bytes at offset 0 of data failed: {expected}");
        assert!(bench.failure().starts_with(&text), "{}", bench.failure());
    }
}

#[test]
fn another_method_or_length_is_told() {
    let crc = writer(by(VerifyMethod::Crc32c));
    let content = Bench::new(&crc).write(at(0));
    let sha = reader(by(VerifyMethod::Sha1));
    let mut bench = Bench::new(&sha);
    bench.read(at(0), &content).unwrap();
    assert!(bench.failure().contains("it has no header") || bench.failure().contains("header is damaged"));
    let halves = reader(Verify { interval_bytes: 2048, ..by(VerifyMethod::Crc32c) });
    let mut bench = Bench::new(&halves);
    bench.read(at(0), &content).unwrap();
    assert!(bench.failure().contains("it was written as 4096 bytes instead of 2048"), "{}", bench.failure());
}

#[test]
fn a_reader_checks_data_of_any_write() {
    let plan = writer(by(VerifyMethod::Md5));
    let mut bench = Bench::new(&plan);
    bench.write(at(0));
    let content = bench.write(at(4096));
    let plan = reader(by(VerifyMethod::Md5));
    let mut bench = Bench::new(&plan);
    bench.read(at(4096), &content).unwrap();
    assert_eq!(bench.failure(), "");
    bench.read(at(8192), &content).unwrap();
    assert!(bench.failure().ends_with("it holds data of offset 4096 instead of 8192"));
}

#[test]
fn differences_are_counted_or_end_the_worker() {
    let plan = writer(by(VerifyMethod::Crc32));
    let mut bench = Bench::new(&plan);
    for offset in [0, 4096, 8192] {
        let content = bench.write(at(offset));
        let content = if offset == 0 { content } else { vec![7; 4096] };
        bench.read(at(offset), &content).unwrap();
    }
    assert!(bench.failure().contains("at offset 4096 of data failed"));
    assert!(bench.failure().ends_with("; 2 of 3 intervals differ, this is the first"), "{}", bench.failure());

    let plan = writer(Verify { fatal: true, ..by(VerifyMethod::Crc32) });
    let mut bench = Bench::new(&plan);
    bench.write(at(0));
    assert!(bench.read(at(0), &[7; 4096]).is_err());
}

#[test]
fn expected_content_is_known_from_the_write_or_from_the_header() {
    let plan = writer(by(VerifyMethod::Crc32c));
    let mut bench = Bench::new(&plan);
    let content = bench.write(at(4096));
    let place = at(4096);
    assert_eq!(bench.verifier.expected(&mut bench.filler, &[0; 4096], place), Some(content.clone()));

    let reading = reader(by(VerifyMethod::Crc32c));
    let mut bench = Bench::new(&reading);
    let mut changed = content.clone();
    changed[2000] ^= 1;
    assert_eq!(bench.verifier.expected(&mut bench.filler, &changed, place), Some(content));
    changed[0] ^= 1;
    assert_eq!(bench.verifier.expected(&mut bench.filler, &changed, place), None, "its header is damaged");
}

#[test]
fn expected_content_is_not_guessed_from_another_payload() {
    let plan = writer(by(VerifyMethod::Crc32c));
    let mut content = Bench::new(&plan).write(at(0));
    content[2000] ^= 1;
    let zeros = Payload { content: Content::Zero {}, ..plan.payload.clone() };
    let other = Worker { payload: zeros, ..reader(by(VerifyMethod::Crc32c)) };
    let mut bench = Bench::new(&other);
    assert_eq!(bench.verifier.expected(&mut bench.filler, &content, at(0)), None);
}

fn turns(verifier: &mut Verifier, issued: u64, exhausted: bool) -> Vec<u64> {
    let mut offsets = Vec::new();
    loop {
        match verifier.next_step(issued, exhausted, 0) {
            NextStep::Load => return offsets,
            NextStep::Settle => {}
            NextStep::ReadBack(address) => offsets.push(address.offset),
            NextStep::Drain => panic!("nothing is in flight"),
        }
    }
}

#[test]
fn written_data_are_read_back_in_order_after_all_writes() {
    let plan = writer(by(VerifyMethod::Crc32c));
    let mut bench = Bench::new(&plan);
    for offset in [8192, 0, 4096] {
        bench.write(at(offset));
        assert_eq!(turns(&mut bench.verifier, 4096, false), [0; 0]);
    }
    assert_eq!(bench.verifier.labels(), [NOT_ALL_READ_BACK]);
    assert_eq!(turns(&mut bench.verifier, 3 * 4096, true), [8192, 0, 4096]);
    assert_eq!(turns(&mut bench.verifier, 3 * 4096, true), [0; 0]);
    assert_eq!(bench.verifier.labels(), [""; 0]);
}

#[test]
fn blocks_that_may_come_again_are_read_back_in_the_order_of_their_places_once() {
    let access = Access { cover: Cover::Independent, ..worker().access };
    let plan = Worker { access, ..writer(by(VerifyMethod::Crc32c)) };
    let mut bench = Bench::new(&plan);
    for offset in [8192, 0, 4096, 8192] {
        bench.write(at(offset));
    }
    assert_eq!(turns(&mut bench.verifier, 4 * 4096, true), [0, 4096, 8192]);
}

#[test]
fn nothing_is_read_back_before_all_writes_are_done() {
    let plan = writer(by(VerifyMethod::Crc32c));
    let mut bench = Bench::new(&plan);
    bench.write(at(0));
    assert_eq!(bench.verifier.next_step(4096, true, 1), NextStep::Drain);
    assert_eq!(bench.verifier.next_step(4096, true, 0), NextStep::Settle);
    assert_eq!(bench.verifier.next_step(4096, true, 0), NextStep::ReadBack(at(0)));
    assert_eq!(bench.verifier.next_step(4096, true, 1), NextStep::Drain);
    assert_eq!(bench.verifier.next_step(4096, true, 0), NextStep::Load);
}

#[test]
fn every_pass_is_read_back_by_itself() {
    let plan = writer(Verify { pass_bytes: Some(8192), ..by(VerifyMethod::Crc32c) });
    let mut bench = Bench::new(&plan);
    bench.write(at(0));
    assert_eq!(bench.verifier.next_step(8192, false, 1), NextStep::Drain);
    assert_eq!(bench.verifier.next_step(8192, false, 0), NextStep::Settle, "its last writes had to come back first");

    let mut bench = Bench::new(&plan);
    let mut read_back = Vec::new();
    for (number, offset) in [0, 4096, 0, 4096, 0].into_iter().enumerate() {
        bench.write(at(offset));
        read_back.push(turns(&mut bench.verifier, (number as u64 + 1) * 4096, false));
    }
    assert_eq!(read_back, [vec![], vec![0, 4096], vec![], vec![0, 4096], vec![]]);
    assert_eq!(turns(&mut bench.verifier, 5 * 4096, true), [0]);
}

#[test]
fn a_backlog_is_read_back_in_between() {
    for (batch, expected) in [
        (0, [vec![], vec![0, 4096], vec![], vec![8192, 12288], vec![]]),
        (1, [vec![], vec![0], vec![4096], vec![8192], vec![12288]]),
        (5, [vec![], vec![0, 4096], vec![], vec![8192, 12288], vec![]]),
    ] {
        let plan = writer(Verify { backlog: Some(2), backlog_batch: batch, ..by(VerifyMethod::Crc32c) });
        let mut bench = Bench::new(&plan);
        let read_back: Vec<Vec<u64>> = (0..5)
            .map(|block| {
                bench.write(at(block * 4096));
                turns(&mut bench.verifier, 0, false)
            })
            .collect();
        assert_eq!(read_back, expected, "batch {batch}");
        assert_eq!(turns(&mut bench.verifier, 0, true), [16384]);
    }
}

#[test]
fn a_part_of_a_backlog_settles_nothing() {
    let plan = writer(Verify { backlog: Some(1), ..by(VerifyMethod::Crc32c) });
    let mut bench = Bench::new(&plan);
    bench.write(at(0));
    assert_eq!(bench.verifier.next_step(4096, false, 0), NextStep::ReadBack(at(0)));
}

#[test]
fn data_of_an_earlier_run_are_read_back_without_writing() {
    let plan = writer(Verify { only: true, ..by(VerifyMethod::Crc32c) });
    let content = Bench::new(&writer(by(VerifyMethod::Crc32c))).write(at(4096));
    let mut bench = Bench::new(&plan);
    assert!(bench.verifier.submits_nothing());
    bench.verifier.found(at(4096));
    assert_eq!(turns(&mut bench.verifier, 4096, true), [4096]);
    bench.read(at(4096), &content).unwrap();
    assert_eq!(bench.failure(), "");
}

#[test]
fn only_workers_that_write_and_do_not_read_have_reads_added() {
    let both = vec![operation(OperationKind::Read, BLOCK), operation(OperationKind::Write, BLOCK)];
    let mixed = Worker { operations: both, ..writer(by(VerifyMethod::Crc32c)) };
    let not_back = writer(Verify { read_back: false, ..by(VerifyMethod::Crc32c) });
    let plans = [writer(by(VerifyMethod::Crc32c)), mixed, reader(by(VerifyMethod::Crc32c)), not_back];
    assert_eq!(plans.each_ref().map(Worker::verification_adds_reads), [true, false, false, false]);
}

#[test]
fn a_number_of_a_write_is_known_from_its_low_bits() {
    let range = u64::from(SEQUENCE_MASK) + 1;
    for newest in [1, 5, range - 1, range, range + 7, 9 * range + 3] {
        for sequence in newest.saturating_sub(5)..=newest {
            assert_eq!(whole_sequence(sequence as u32 & SEQUENCE_MASK, newest), sequence);
        }
    }
}

#[test]
fn the_null_engine_has_nothing_to_compare_and_says_so() {
    let plan = Worker { engine: EnginePlan::Null {}, ..writer(by(VerifyMethod::Crc32c)) };
    assert_eq!((check(&plan).is_ok(), labels(&plan).len()), (true, 1));
    let mut bench = Bench::new(&plan);
    bench.write(at(0));
    bench.read(at(0), &[7; 4096]).unwrap();
    assert_eq!(bench.failure(), "");
    assert_eq!(labels(&writer(by(VerifyMethod::Crc32c))), [""; 0]);
}

#[test]
fn the_interval_length_fits_all_blocks() {
    let sized = |blocks: Blocks, align_bytes: u64| {
        let operations = vec![OperationPlan { blocks, align_bytes, ..operation(OperationKind::Write, BLOCK) }];
        let plan = Worker { operations, ..writer(by(VerifyMethod::Crc32c)) };
        plan::interval_bytes(&plan, plan.verify.as_ref().unwrap())
    };
    assert_eq!(sized(Blocks::Fixed { bytes: 65536 }, 0), 65536);
    assert_eq!(sized(Blocks::Fixed { bytes: 65536 }, 512), 512);
    assert_eq!(sized(Blocks::Range { low: 4096, high: 65536, step: 4096 }, 0), 4096);
    let parts = [8192, 12288].map(|bytes| BlockShare { bytes, weight: 1 }).to_vec();
    assert_eq!(sized(Blocks::Split { parts }, 0), 4096);
}

#[test]
fn invalid_plans_are_refused_with_a_reason() {
    let crc = || by(VerifyMethod::Crc32c);
    let mount = NfsMount {
        host: "h".into(),
        port: None,
        mount_port: None,
        export: "/".into(),
        version: 3,
        nconnect: 1,
        session_slots: 64,
        uid: 0,
        gid: 0,
        durability: crate::plan::Durability::None,
        timeout_ns: 1,
        keep_payload: false,
        source: None,
        rsize: None,
        wsize: None,
        tls: None,
    };
    let trims = vec![operation(OperationKind::Trim, BLOCK), operation(OperationKind::Write, BLOCK)];
    let amount = End { bytes: Some(1), ..worker().end };
    for (plan, reason) in [
        (writer(Verify { pattern: String::new(), ..by(VerifyMethod::Pattern) }), "needs a pattern; set it"),
        (writer(Verify { pattern: "0".into(), ..crc() }), "'0' is not a pattern"),
        (writer(Verify { interval_bytes: 3000, ..crc() }), "of 3000 bytes does not divide the blocks"),
        (writer(Verify { interval_bytes: 8192, ..crc() }), "of 8192 bytes does not divide the blocks"),
        (writer(Verify { interval_bytes: 64, ..by(VerifyMethod::Sha512) }), "header of 104 bytes at 0 does not fit"),
        (writer(Verify { header_offset: 4060, ..crc() }), "header of 44 bytes at 4060 does not fit"),
        (writer(Verify { backlog: Some(0), ..crc() }), "must be at least 1"),
        (writer(Verify { only: true, ..crc() }), "needs a size or a number of operations"),
        (Worker { end: amount, ..writer(Verify { only: true, read_back: false, ..crc() }) }, "has nothing to do"),
        (Worker { operations: trims, ..writer(crc()) }, "leave out the trims"),
        (Worker { engine: EnginePlan::Nfs { mount }, ..writer(crc()) }, "which this mount discards"),
    ] {
        let text = check(&plan).unwrap_err().to_string();
        assert!(text.starts_with("job: ") || text.starts_with('\''), "{text}");
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn reads_of_a_worker_that_writes_are_compared_only_when_read_back() {
    let plan = writer(by(VerifyMethod::Crc32c));
    let mut bench = Bench::new(&plan);
    bench.write(at(0));
    bench.reads_back = false;
    bench.read(at(0), &[7; 4096]).unwrap();
    assert_eq!(bench.failure(), "");
}

#[test]
fn blocks_begin_at_intervals_for_every_choice_of_places() {
    let range = Blocks::Range { low: 4096, high: 20480, step: 4096 };
    let parts = [8192, 12288].map(|bytes| BlockShare { bytes, weight: 1 }).to_vec();
    let fixed = || Blocks::Fixed { bytes: 8192 };
    let access = worker().access;
    let independent = Access { cover: Cover::Independent, ..access };
    for (blocks, align_bytes, random_percent, access) in [
        (range.clone(), 0, 0, access),
        (range.clone(), 0, 100, access),
        (range, 0, 50, independent),
        (Blocks::Split { parts: parts.clone() }, 0, 100, access),
        (Blocks::Split { parts }, 2048, 100, independent),
        (fixed(), 512, 100, independent),
        (fixed(), 0, 100, Access { run_length: 4, ..access }),
        (fixed(), 0, 0, Access { gap_bytes: 1024, ..access }),
        (fixed(), 0, 0, Access { gap_bytes: -16384, ..access }),
    ] {
        let of_kind = operation(OperationKind::Write, 8192);
        let operations = vec![OperationPlan { blocks, align_bytes, random_percent, ..of_kind }];
        let bytes = if access.gap_bytes < 0 { 1_000_448 } else { 1_000_000 };
        let region = FilePlan { offset_bytes: 12345 * 512, ..file("data", bytes) };
        let plan = Worker { operations, access, files: vec![region], ..writer(by(VerifyMethod::Header)) };
        check(&plan).unwrap();
        let mut offsets = Offsets::new(&plan, &SharedPositions::default()).unwrap();
        let mut written = Written::new(&plan.files, plan::interval_bytes(&plan, &by(VerifyMethod::Header))).unwrap();
        let interval = u64::from(plan::interval_bytes(&plan, &by(VerifyMethod::Header)));
        for number in 1..2000 {
            let address = offsets.next(0).unwrap();
            assert!((address.offset - 12345 * 512).is_multiple_of(interval), "{address:?} {:?}", plan.access);
            written.submitted(address, number);
            written.completed(address, number);
        }
        while let Some(address) = written.take(20480) {
            assert!(address.offset + u64::from(address.length) <= 12345 * 512 + bytes);
        }
    }
}

/// Blocks written once each, of which some are read as something else; with a second read.
fn differs(wrong: impl Fn(&[Vec<u8>]) -> Vec<(u64, Vec<u8>)>, is_right_again: bool) -> Vec<DifferenceOutcome> {
    let worker = writer(by(VerifyMethod::Crc32c));
    let mut bench = Bench::new(&worker);
    let blocks: Vec<_> = (0..4).map(|number| bench.write(at(number * u64::from(BLOCK)))).collect();
    for (offset, content) in wrong(&blocks) {
        bench.reads_again = false;
        bench.read(at(offset), &content).unwrap();
        bench.reads_again = true;
        let right = &blocks[(offset / u64::from(BLOCK)) as usize];
        bench.read(at(offset), if is_right_again { right } else { &content }).unwrap();
    }
    bench.verifier.differences()
}

fn only(found: Vec<DifferenceOutcome>) -> DifferenceOutcome {
    let [one] = <[_; 1]>::try_from(found).unwrap();
    one
}

#[test]
fn a_flipped_bit_is_named_wherever_it_is() {
    for (byte, bit) in [(2000, 3_u8), (2, 0), (20, 7), (13, 5), (41, 1)] {
        let flipped = |blocks: &[Vec<u8>]| {
            let mut block = blocks[1].clone();
            block[byte] ^= 1 << bit;
            vec![(4096, block)]
        };
        let found = only(differs(flipped, true));
        assert_eq!((found.kind, found.persists), (DifferenceKind::FlippedBits, Some(false)));
        assert_eq!((found.offset, found.first_offset), (4096, 4096 + byte as u64));
        assert_eq!(found.expected_write, Some(2));
        let text =
            format!("; only bit {bit} of byte {byte} differs; it should hold write number 2; a second read is right");
        assert!(found.text.ends_with(&text), "{}", found.text);
    }
}

#[test]
fn a_torn_write_is_named_with_its_seam() {
    let torn = |blocks: &[Vec<u8>]| {
        let mut block = blocks[1].clone();
        block[1536..].copy_from_slice(&blocks[0][1536..]);
        vec![(4096, block)]
    };
    let found = only(differs(torn, false));
    assert_eq!((found.kind, found.persists, found.first_offset), (DifferenceKind::TornWrite, Some(true), 4096 + 1536));
    assert_eq!((found.found_write, found.expected_write), (Some(2), Some(2)));
    assert!(found.text.ends_with(
        "; its first 1536 bytes are right: the write was torn; it should hold write number 2; a second read is the same"
    ));
}

#[test]
fn a_second_read_tells_a_lost_write_from_a_stale_read() {
    let nothing = |_: &[Vec<u8>]| vec![(4096, vec![0; BLOCK as usize])];
    let (lost, stale) = (only(differs(nothing, false)), only(differs(nothing, true)));
    assert_eq!((lost.kind, lost.found_write, lost.expected_write), (DifferenceKind::LostWrite, None, Some(2)));
    assert!(
        lost.text.ends_with(
            "; it is all zeros; it should hold write number 2; a second read is the same: the write was lost"
        )
    );
    assert_eq!((stale.kind, stale.persists), (DifferenceKind::StaleRead, Some(false)));
    assert!(stale.text.ends_with("; a second read is right: the first was stale"), "{}", stale.text);
}

#[test]
fn a_misdirected_write_is_found_where_it_is_and_where_it_is_not() {
    let misdirected = |blocks: &[Vec<u8>]| vec![(4096, blocks[2].clone()), (8192, vec![0; BLOCK as usize])];
    let found = differs(misdirected, false);
    let facts: Vec<_> = found.iter().map(|one| (one.kind, one.offset, one.found_write)).collect();
    assert_eq!(facts, [(DifferenceKind::MisdirectedWrite, 4096, Some(3)), (DifferenceKind::LostWrite, 8192, None)]);
    assert!(found[0].text.starts_with("it holds data of offset 8192 instead of 4096"), "{}", found[0].text);
}

#[test]
fn a_difference_that_only_a_second_read_finds_is_found() {
    let worker = writer(by(VerifyMethod::Crc32c));
    let mut bench = Bench::new(&worker);
    let content = bench.write(at(0));
    bench.reads_again = true;
    bench.read(at(0), &content).unwrap();
    assert_eq!(bench.failure(), "");
    bench.read(at(0), &[0; BLOCK as usize]).unwrap();
    assert_eq!(only(bench.verifier.differences()).kind, DifferenceKind::StaleRead);
}
