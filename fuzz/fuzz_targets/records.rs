//! Any bytes as a stream of records: it makes no difference how they are divided, or whether partial records are taken over.

#![no_main]

use arbitrary::Arbitrary;
use iocurve_wire::record::{Progress, Reassembler, RecordTooLong};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Stream<'a> {
    limit: u16,
    /// Bytes of each piece, in turn.
    pieces: Vec<u8>,
    /// Decisions to take over a partial record, in turn.
    take_over: Vec<bool>,
    bytes: &'a [u8],
}

/// The records, and the error that ended them.
type Outcome = (Vec<Vec<u8>>, Option<RecordTooLong>);

fn reassemble<'a>(
    limit: usize,
    pieces: impl Iterator<Item = &'a [u8]>,
    mut take_over: impl FnMut() -> bool,
) -> Outcome {
    let mut reassembler = Reassembler::new(limit);
    let (mut input, mut records, mut body) = (Vec::new(), Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        let mut rest = input.as_slice();
        loop {
            match reassembler.advance(&mut rest) {
                Err(error) => return (records, Some(error)),
                Ok(Progress::NeedBytes { missing }) => {
                    assert!(missing > 0 && rest.len() < 4);
                    break;
                }
                Ok(Progress::Record(record)) => records.push(record.to_vec()),
                Ok(Progress::Partial { arrived, length }) => {
                    assert!(arrived.len() < length && length <= limit);
                    if !take_over() {
                        break;
                    }
                    body = arrived.to_vec();
                    reassembler.take_partial(&mut rest);
                }
                Ok(Progress::Body(bytes)) => {
                    body.extend_from_slice(bytes);
                    if reassembler.body_left() == 0 {
                        records.push(std::mem::take(&mut body));
                    }
                }
            }
        }
        input = rest.to_vec();
    }
    (records, None)
}

/// Divides the bytes into pieces of these sizes.
fn divide<'a>(bytes: &'a [u8], sizes: &[u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut sizes = sizes.iter().cycle().map(|size| usize::from(*size).max(1));
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (piece, later) = rest.split_at(sizes.next().unwrap_or(usize::MAX).min(rest.len()));
        rest = later;
        (!piece.is_empty()).then_some(piece)
    })
}

fuzz_target!(|stream: Stream<'_>| {
    let limit = usize::from(stream.limit);
    let whole = reassemble(limit, std::iter::once(stream.bytes), || false);
    let mut choices = stream.take_over.iter().cycle();
    let divided =
        reassemble(limit, divide(stream.bytes, &stream.pieces), || choices.next().copied().unwrap_or_default());
    assert_eq!(whole, divided);
    assert!(whole.0.iter().all(|record| record.len() <= limit));
});
