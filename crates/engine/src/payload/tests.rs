use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use super::*;
use crate::plan::tests::{operation, worker};

const BLOCK: usize = 4096;

fn writer(payload: Payload) -> Worker {
    Worker { operations: vec![operation(OperationKind::Write, BLOCK as u32)], payload, ..worker() }
}

fn payload(content: Content, renew: Renew) -> Payload {
    Payload { content, renew, ..worker().payload }
}

/// The content that a worker writes to the first blocks of its file.
fn written(plan: &Worker, blocks: u64) -> Vec<Vec<u8>> {
    let mut buffer = vec![0; BLOCK];
    let mut filler = Filler::new(plan, std::iter::once(&mut buffer[..])).unwrap();
    (0..blocks)
        .map(|block| {
            filler.renew(&mut buffer, block * BLOCK as u64);
            buffer.clone()
        })
        .collect()
}

fn two_writes(content: Content, renew: Renew) -> (Vec<u8>, Vec<u8>) {
    let [a, b] = written(&writer(payload(content, renew)), 2).try_into().unwrap();
    (a, b)
}

fn sectors_that_differ((a, b): &(Vec<u8>, Vec<u8>)) -> usize {
    a.chunks(512).zip(b.chunks(512)).filter(|(a, b)| a != b).count()
}

#[test]
fn kept_payload_is_the_same_again() {
    let writes = two_writes(Content::Random {}, Renew::Keep);
    assert_eq!(sectors_that_differ(&writes), 0);
    assert!(writes.0.iter().any(|&byte| byte != 0));
}

#[test]
fn scrambling_changes_every_sector_a_little() {
    let writes = two_writes(Content::Random {}, Renew::Scramble);
    assert_eq!(sectors_that_differ(&writes), 8);
    assert_eq!(writes.0[8..512], writes.1[8..512]);
}

#[test]
fn a_sector_shorter_than_the_scrambled_bytes_changes_as_a_whole() {
    let mut block = vec![0; 512 + 3];
    scramble(&mut block, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!((&block[..9], &block[512..]), (&[1, 2, 3, 4, 5, 6, 7, 8, 0][..], &[1, 2, 3][..]));
}

#[test]
fn refilling_changes_everything() {
    let (a, b) = two_writes(Content::Random {}, Renew::Refill);
    assert!(a.iter().zip(&b).filter(|(a, b)| a == b).count() < 100);
}

#[test]
fn zeros_stay_zeros() {
    assert_eq!(two_writes(Content::Zero {}, Renew::Refill), (vec![0; BLOCK], vec![0; BLOCK]));
}

#[test]
fn zeros_and_patterns_can_be_scrambled() {
    for content in [Content::Zero {}, Content::Pattern { bytes: "5a".into() }] {
        assert_eq!(sectors_that_differ(&two_writes(content.clone(), Renew::Scramble)), 8);
        assert_eq!(sectors_that_differ(&two_writes(content, Renew::Keep)), 0);
    }
}

#[test]
fn kept_payload_is_not_compressed_or_deduplicated_again() {
    for (compress_percent, dedupe_percent) in [(50, 0), (0, 20)] {
        let shares = |renew| Payload { compress_percent, dedupe_percent, ..payload(Content::Random {}, renew) };
        let distinct = |renew| written(&writer(shares(renew)), 8).into_iter().collect::<BTreeSet<_>>();
        assert_eq!(distinct(Renew::Keep).len(), 1);
        assert!(distinct(Renew::Refill).len() > 1);
        assert_eq!(distinct(Renew::Scramble), distinct(Renew::Refill));
    }
}

#[test]
fn zeros_and_patterns_are_restored_after_a_read_into_the_buffer() {
    for (content, expected) in [(Content::Zero {}, 0), (Content::Pattern { bytes: "5a".into() }, 0x5a)] {
        let operations = vec![operation(OperationKind::Read, 4096), operation(OperationKind::Write, 4096)];
        let plan = Worker { operations, ..writer(payload(content, Renew::Keep)) };
        let mut buffer = vec![0; BLOCK];
        let mut filler = Filler::new(&plan, std::iter::once(&mut buffer[..])).unwrap();
        buffer.fill(0xee);
        filler.renew(&mut buffer, 0);
        assert_eq!(buffer, vec![expected; BLOCK]);
    }
}

#[test]
fn a_pattern_is_there_from_the_first_write_on() {
    let writes = two_writes(Content::Pattern { bytes: "0102".into() }, Renew::Keep);
    assert_eq!(writes, ([1, 2].repeat(BLOCK / 2), [1, 2].repeat(BLOCK / 2)));
}

#[test]
fn a_pattern_with_the_offset_follows_the_block() {
    let (a, b) = two_writes(Content::Pattern { bytes: "oooooooooooooooo".into() }, Renew::Keep);
    assert_eq!((a, b), (vec![0; BLOCK], 4096_u64.to_le_bytes().repeat(BLOCK / 8)));
}

#[test]
fn each_write_takes_another_part_of_a_pool() {
    let (a, b) = two_writes(Content::Pool { bytes: 1 << 20, path: None }, Renew::Keep);
    assert_ne!(a, b);
}

/// Bytes that are left of each hundred by a real compressor.
fn compressed_percent(blocks: &[Vec<u8>]) -> usize {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(6));
    for block in blocks {
        encoder.write_all(block).unwrap();
    }
    encoder.finish().unwrap().len() * 100 / (blocks.len() * BLOCK)
}

#[test]
fn content_can_be_compressed_by_the_share_that_was_asked_for() {
    for content in [Content::Random {}, Content::Pattern { bytes: "abcdef01".into() }] {
        for (percent, chunk) in [(0, 0), (10, 0), (25, 512), (50, 0), (50, 1024), (75, 4096), (90, 0), (100, 512)] {
            if matches!(content, Content::Pattern { .. }) && percent == 0 {
                continue;
            }
            let base = payload(content.clone(), Renew::Refill);
            let plan = writer(Payload { compress_percent: percent, compress_chunk_bytes: chunk, ..base });
            let left = compressed_percent(&written(&plan, 64));
            // The compressor notes where random bytes end: a few bytes for each chunk.
            let expected = 100 - percent as usize;
            assert!((expected..=expected + 6).contains(&left), "{percent} % of {chunk}: {left}");
        }
    }
}

#[test]
fn every_chunk_holds_its_share_of_random_bytes_and_zeros() {
    let base = payload(Content::Random {}, Renew::Keep);
    let plan = writer(Payload { compress_percent: 75, compress_chunk_bytes: 1024, ..base });
    let block = written(&plan, 1).remove(0);
    for chunk in block.chunks(1024) {
        assert!(chunk[256..].iter().all(|&byte| byte == 0));
        assert!(chunk[..256].iter().filter(|&&byte| byte != 0).count() > 240);
    }
    assert_ne!(block[..256], block[1024..1280]);
}

#[test]
fn the_share_to_deduplicate_repeats_earlier_blocks() {
    for percent in [0, 20, 50, 90, 100] {
        let base = payload(Content::Random {}, Renew::Refill);
        let plan = writer(Payload { dedupe_percent: percent, ..base });
        let mut times = BTreeMap::new();
        for block in written(&plan, 2000) {
            *times.entry(block).or_insert(0) += 1;
        }
        let repeated = 2000 - times.len();
        // Five standard deviations of a binomial distribution are at most 112.
        let expected = 20 * percent as usize;
        // The first block repeats nothing.
        let tolerance = if percent % 100 == 0 { 1 } else { 112 };
        assert!(repeated.abs_diff(expected) <= tolerance, "{percent} %: {repeated} repeated");
    }
}

#[test]
fn repeated_blocks_can_be_drawn_from_a_set() {
    let base = payload(Content::Random {}, Renew::Refill);
    for (percent, least, most) in [(100, 10, 10), (50, 888, 1132)] {
        let plan = writer(Payload { dedupe_percent: percent, dedupe_set_blocks: 10, ..base.clone() });
        let distinct: BTreeSet<_> = written(&plan, 2000).into_iter().collect();
        // Five standard deviations of a binomial distribution are at most 112.
        assert!((least..=most).contains(&distinct.len()), "{percent} %: {} distinct", distinct.len());
    }
}

#[test]
fn a_seed_is_known_from_its_number() {
    for dedupe_set_blocks in [0, 7] {
        let base = payload(Content::Random {}, Renew::Keep);
        let plan = writer(Payload { dedupe_percent: 60, dedupe_set_blocks, ..base });
        let mut seeds = Seeds::new(&plan);
        let drawn: Vec<u64> = (0..500).map(|_| seeds.draw()).collect();
        assert_eq!(seeds.newest(), 500);
        assert_eq!((1..=500).map(|number| seeds.of(number)).collect::<Vec<_>>(), drawn);
    }
}

#[test]
fn content_that_cannot_be_is_refused_with_its_reason() {
    let small = Content::Pool { bytes: 512, path: None };
    let endless = Content::Pool { bytes: u64::MAX, path: None };
    let base = payload(Content::Random {}, Renew::Keep);
    for (wrong, reason) in [
        (Payload { compress_percent: 101, ..base.clone() }, "must not exceed 100 per cent"),
        (Payload { dedupe_percent: 101, ..base.clone() }, "must not exceed 100 per cent"),
        (Payload { compress_percent: 50, content: Content::Zero {}, ..base.clone() }, "needs random content"),
        (Payload { content: Content::Pattern { bytes: String::new() }, ..base.clone() }, "'' is not a pattern"),
        (Payload { content: small, ..base.clone() }, "smaller than one write of 4096"),
        (Payload { content: endless, ..base.clone() }, "exceeds the maximum of 1073741824"),
    ] {
        let text = check(&writer(wrong)).unwrap_err().to_string();
        assert!(text.contains(reason), "{text}");
    }
    assert!(check(&writer(Payload { compress_percent: 100, dedupe_percent: 100, ..base })).is_ok());
}
