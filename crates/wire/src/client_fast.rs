//! The hot path of an NFS client: calls made from templates, replies parsed where they lie. `NFSv3` is here, `NFSv4.1` in [`nfs4`].
//!
//! A load generator makes the same call a million times a second with another offset, and needs five words of each
//! reply. So a call is its file's template with `xid`, offset and count patched in, and the attributes in a reply are
//! skipped, not decoded. All other calls use the full codec in `nfs3`; tests check that both give the same bytes.

mod malformed;
pub mod nfs4;

use thiserror::Error;

pub use self::malformed::Malformed;
use crate::nfs3::{FATTR3_BYTES, NFS3_FHSIZE, nfsproc3, stable_how};
use crate::record::{RECORD_MARK_BYTES, RecordMark};
use crate::rpc::{AUTH_BODY_BYTES_MAX, Procedure, RPC_VERSION, Xid};
use crate::xdr::{Encode, Writer};

/// Bytes before the payload of a successful READ reply that carries attributes and an empty verifier, record mark included.
/// Receive only these if the payload is to go elsewhere.
pub const READ_REPLY_HEAD_BYTES: usize = RECORD_MARK_BYTES + REPLY_HEAD_BYTES + 4 + (4 + FATTR3_BYTES) + 12;

/// `wcc_attr` on the wire (RFC 1813 §2.6).
const WCC_ATTR_BYTES: usize = 24;
/// From `xid` to the procedure.
const PROCEDURE_AT: usize = 20;
/// From `xid` to `accept_stat`, with an empty verifier.
const REPLY_HEAD_BYTES: usize = 24;
/// REPLY, `MSG_ACCEPTED`, verifier `AUTH_NONE` of length 0, SUCCESS: nearly every reply has these bytes behind its `xid`.
const ACCEPTED: [u8; 20] = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// READ, WRITE and COMMIT calls on one file (RFC 1813 §3.3.6, §3.3.7, §3.3.21).
#[derive(Debug, Clone)]
pub struct FileCalls(FileTemplates);

impl FileCalls {
    /// `credential` is an encoded `opaque_auth` (flavor, length, body), `file` a file handle of at most 64 bytes, and `stable`
    /// the stability that the reply to a WRITE must promise.
    pub fn new(credential: &[u8], file: &[u8], stable: stable_how) -> Self {
        assert!(file.len() <= NFS3_FHSIZE, "a file handle has at most 64 bytes");
        let template = |procedure, tail: &[u8]| {
            let mut bytes = head(procedure, credential);
            let file_at = bytes.len();
            let mut writer = Writer::new(&mut bytes);
            writer.opaque(file);
            writer.bytes(tail);
            Template::new(bytes, file_at)
        };
        let mut write = [0; 20];
        write[12..16].copy_from_slice(&(stable as u32).to_be_bytes());
        Self(FileTemplates {
            read: template(nfsproc3::NFSPROC3_READ, &[0; 12]),
            write: template(nfsproc3::NFSPROC3_WRITE, &write),
            commit: template(nfsproc3::NFSPROC3_COMMIT, &[0; 12]),
        })
    }

    /// Makes the calls go to another file.
    pub fn set_file(&mut self, credential: &[u8], file: &[u8], stable: stable_how) {
        if self.0.set_file(file).is_none() {
            *self = Self::new(credential, file, stable);
        }
    }

    /// Appends a READ, record mark first.
    pub fn append_read(&self, out: &mut Vec<u8>, xid: Xid, offset: u64, count: u32) {
        self.0.read.append_range(out, xid, offset, count);
    }

    /// Appends a WRITE up to its payload, record mark first. The caller sends `count` bytes of payload after it, then
    /// [`padding`] of `count` zeros.
    pub fn append_write(&self, out: &mut Vec<u8>, xid: Xid, offset: u64, count: u32) {
        self.0.write.append_head(out, xid, 20, offset, count);
        let count_at = out.len() - 12;
        put(out, count_at, count);
    }

    /// Appends a COMMIT, record mark first. Count 0 is "to the end of the file".
    pub fn append_commit(&self, out: &mut Vec<u8>, xid: Xid, offset: u64, count: u32) {
        self.0.commit.append_range(out, xid, offset, count);
    }
}

/// Calls of any procedure, whose arguments the codec encodes.
#[derive(Debug, Clone)]
pub struct CallTemplate {
    /// Up to the arguments.
    head: Box<[u8]>,
}

impl CallTemplate {
    /// As [`ReadTemplate::new`].
    pub fn new(credential: &[u8]) -> Self {
        Self { head: head(nfsproc3::NFSPROC3_NULL, credential).into_boxed_slice() }
    }

    /// Appends the call, record mark first.
    pub fn append(&self, out: &mut Vec<u8>, xid: Xid, procedure: nfsproc3, arguments: &(impl Encode + ?Sized)) {
        let start = out.len();
        out.extend_from_slice(&self.head);
        put(out, start + RECORD_MARK_BYTES, xid.0);
        put(out, start + RECORD_MARK_BYTES + PROCEDURE_AT, procedure as u32);
        arguments.encode(&mut Writer::new(out));
        mark(&mut out[start..]);
    }
}

/// Zeros after an opaque of this length (RFC 4506 §4.10): 0 to 3.
pub const fn padding(length: u32) -> u32 {
    length.wrapping_neg() & 3
}

/// The calls that move the data of one file.
#[derive(Debug, Clone)]
struct FileTemplates {
    read: Template,
    write: Template,
    commit: Template,
}

impl FileTemplates {
    /// Replaces the file handle in each call by one of the same length; returns the offsets behind it, of READ and of WRITE.
    fn set_file(&mut self, file: &[u8]) -> Option<[usize; 2]> {
        self.commit.set_file(file)?;
        Some([self.read.set_file(file)?, self.write.set_file(file)?])
    }
}

/// A call with its record mark; the fields that change from call to call are zero.
#[derive(Debug, Clone)]
struct Template {
    bytes: Box<[u8]>,
    /// Offset of the length of the file handle.
    file_at: usize,
}

impl Template {
    fn new(mut bytes: Vec<u8>, file_at: usize) -> Self {
        mark(&mut bytes);
        Self { bytes: bytes.into_boxed_slice(), file_at }
    }

    /// Replaces the file handle by one of the same length; returns the offset behind it.
    fn set_file(&mut self, file: &[u8]) -> Option<usize> {
        let at = self.file_at + 4;
        let length = file.len() as u32;
        if self.bytes[self.file_at..at] != length.to_be_bytes() {
            return None;
        }
        self.bytes[at..at + file.len()].copy_from_slice(file);
        Some(at + (length + padding(length)) as usize)
    }

    /// Returns the offset of the call.
    fn append(&self, out: &mut Vec<u8>, xid: Xid) -> usize {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        put(out, start + RECORD_MARK_BYTES, xid.0);
        start
    }

    /// Appends a call that ends with an offset and a count; returns the offset of the call.
    fn append_range(&self, out: &mut Vec<u8>, xid: Xid, offset: u64, count: u32) -> usize {
        let start = self.append(out, xid);
        let tail = out.len() - 12;
        let range = &mut out[tail..];
        range[..8].copy_from_slice(&offset.to_be_bytes());
        range[8..12].copy_from_slice(&count.to_be_bytes());
        start
    }

    /// Appends a call up to its payload, whose last `tail_bytes` begin with the offset and end with the length; returns the
    /// offset of the call.
    fn append_head(&self, out: &mut Vec<u8>, xid: Xid, tail_bytes: usize, offset: u64, count: u32) -> usize {
        let start = self.append(out, xid);
        let call = &mut out[start..];
        let (tail, end) = (call.len() - tail_bytes, call.len());
        let length = (end - RECORD_MARK_BYTES) as u32 + count + padding(count);
        call[..RECORD_MARK_BYTES].copy_from_slice(&RecordMark { length, last: true }.to_bytes());
        call[tail..tail + 8].copy_from_slice(&offset.to_be_bytes());
        put(call, end - 4, count);
        start
    }
}

/// A call up to its arguments.
fn head(procedure: nfsproc3, credential: &[u8]) -> Vec<u8> {
    head_of(procedure.into(), credential)
}

/// A call up to its arguments.
fn head_of(procedure: Procedure, credential: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; RECORD_MARK_BYTES];
    for word in [0, 0, RPC_VERSION, procedure.program, procedure.version, procedure.number] {
        bytes.extend_from_slice(&u32::to_be_bytes(word));
    }
    bytes.extend_from_slice(credential);
    bytes.extend_from_slice(&[0; 8]);
    bytes
}

/// Sets the record mark of a complete call.
fn mark(call: &mut [u8]) {
    let length = (call.len() - RECORD_MARK_BYTES) as u32;
    call[..RECORD_MARK_BYTES].copy_from_slice(&RecordMark { length, last: true }.to_bytes());
}

fn flag(word: u32) -> Result<bool, Unparsed> {
    match word {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Unparsed::Malformed(Malformed::Boolean)),
    }
}

fn put(bytes: &mut [u8], at: usize, word: u32) {
    bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
}

/// Reasons why a reply was not parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unparsed {
    /// The bytes that have arrived end too early; parse again with more of them.
    #[error("the reply has not arrived far enough")]
    Incomplete,
    /// The record is not a reply of this protocol.
    #[error("{0}")]
    Malformed(Malformed),
}

/// One reply: the part of its record (without the record mark) that has arrived, and the record's whole length.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    arrived: &'a [u8],
    length: usize,
}

/// The first fields of every reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Identifies the call that it answers.
    pub xid: Xid,
    /// Outcome at the RPC layer.
    pub verdict: Verdict,
    /// Offset of the procedure's result in the record.
    pub result_at: usize,
}

/// Outcome of a call at the RPC layer (RFC 5531 §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Carried out: the procedure's result follows.
    Success,
    /// Accepted, but not executed: an `accept_stat` other than SUCCESS.
    Failed(u32),
    /// Denied for its credential: an `auth_stat`.
    DeniedCredential(u32),
    /// Denied for its RPC version.
    DeniedVersion,
}

/// Result of READ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadResult {
    /// An `nfsstat3`; unless it is 0 (`NFS3_OK`) the other fields are 0 too.
    pub status: u32,
    /// Bytes of payload.
    pub count: u32,
    /// The payload reaches the end of the file.
    pub eof: bool,
    /// Offset of the payload in the record.
    pub payload_at: usize,
}

/// Result of WRITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteResult {
    /// An `nfsstat3`; unless it is 0 (`NFS3_OK`) the other fields are 0 too.
    pub status: u32,
    /// Bytes written.
    pub count: u32,
    /// A `stable_how`: their stability.
    pub committed: u32,
    /// Changes when the server may have lost data that were not committed.
    pub verifier: [u8; 8],
}

/// Result of COMMIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitResult {
    /// An `nfsstat3`; unless it is 0 (`NFS3_OK`) the other field is 0 too.
    pub status: u32,
    /// As in [`WriteResult`].
    pub verifier: [u8; 8],
}

impl<'a> Reply<'a> {
    /// Takes the bytes that have `arrived` of a record of `length` bytes.
    pub fn new(arrived: &'a [u8], length: usize) -> Self {
        Self { arrived: &arrived[..arrived.len().min(length)], length }
    }

    /// Parses the first fields.
    pub fn head(&self) -> Result<Head, Unparsed> {
        if self.arrived.len() >= REPLY_HEAD_BYTES && self.arrived[4..REPLY_HEAD_BYTES] == ACCEPTED {
            return Ok(Head { xid: Xid(self.word(0)?), verdict: Verdict::Success, result_at: REPLY_HEAD_BYTES });
        }
        self.unusual_head()
    }

    #[cold]
    fn unusual_head(&self) -> Result<Head, Unparsed> {
        let xid = Xid(self.word(0)?);
        if self.word(4)? != 1 {
            return Err(Unparsed::Malformed(Malformed::NotAReply));
        }
        match self.word(8)? {
            0 => self.accepted(xid),
            1 => self.denied(xid),
            _ => Err(Unparsed::Malformed(Malformed::ReplyStat)),
        }
    }

    fn accepted(&self, xid: Xid) -> Result<Head, Unparsed> {
        let verifier_bytes = self.word(16)?;
        if verifier_bytes as usize > AUTH_BODY_BYTES_MAX {
            return Err(Unparsed::Malformed(Malformed::LongVerifier));
        }
        let stat_at = 20 + (verifier_bytes + padding(verifier_bytes)) as usize;
        let verdict = match self.word(stat_at)? {
            0 => Verdict::Success,
            stat => Verdict::Failed(stat),
        };
        Ok(Head { xid, verdict, result_at: stat_at + 4 })
    }

    fn denied(&self, xid: Xid) -> Result<Head, Unparsed> {
        match self.word(12)? {
            0 => Ok(Head { xid, verdict: Verdict::DeniedVersion, result_at: 24 }),
            1 => Ok(Head { xid, verdict: Verdict::DeniedCredential(self.word(16)?), result_at: 20 }),
            _ => Err(Unparsed::Malformed(Malformed::RejectStat)),
        }
    }

    /// The result of a READ at [`Head::result_at`]. Success is reported only for a record that is as long as its count says.
    pub fn read(&self, result_at: usize) -> Result<ReadResult, Unparsed> {
        let status = self.word(result_at)?;
        if status != 0 {
            return Ok(ReadResult { status, count: 0, eof: false, payload_at: 0 });
        }
        let at = self.after_optional(result_at + 4, FATTR3_BYTES)?;
        let [count, eof, length] = self.words(at)?;
        let (eof, payload_at) = (flag(eof)?, at + 12);
        if length != count {
            return Err(Unparsed::Malformed(Malformed::Count));
        }
        self.check_payload(payload_at, count)?;
        Ok(ReadResult { status, count, eof, payload_at })
    }

    /// Checks that the record ends with a payload of `count` bytes.
    fn check_payload(&self, payload_at: usize, count: u32) -> Result<(), Unparsed> {
        if payload_at as u64 + u64::from(count) + u64::from(padding(count)) == self.length as u64 {
            return Ok(());
        }
        Err(Unparsed::Malformed(Malformed::Payload))
    }

    /// The result of a WRITE at [`Head::result_at`].
    pub fn write(&self, result_at: usize) -> Result<WriteResult, Unparsed> {
        let status = self.word(result_at)?;
        if status != 0 {
            return Ok(WriteResult { status, count: 0, committed: 0, verifier: [0; 8] });
        }
        self.written(self.after_wcc_data(result_at + 4)?)
    }

    /// The end of a WRITE that succeeded, in any version.
    fn written(&self, at: usize) -> Result<WriteResult, Unparsed> {
        self.ends_at(at + 16)?;
        let [count, committed] = self.words(at)?;
        Ok(WriteResult { status: 0, count, committed, verifier: self.verifier(at + 8)? })
    }

    /// The result of a COMMIT at [`Head::result_at`].
    pub fn commit(&self, result_at: usize) -> Result<CommitResult, Unparsed> {
        let status = self.word(result_at)?;
        if status != 0 {
            return Ok(CommitResult { status, verifier: [0; 8] });
        }
        self.committed(self.after_wcc_data(result_at + 4)?)
    }

    /// The end of a COMMIT that succeeded, in any version.
    fn committed(&self, at: usize) -> Result<CommitResult, Unparsed> {
        self.ends_at(at + 8)?;
        Ok(CommitResult { status: 0, verifier: self.verifier(at)? })
    }

    /// The received bytes of the record from an offset on.
    pub fn results(&self, at: usize) -> &'a [u8] {
        self.arrived.get(at..).unwrap_or_default()
    }

    /// True if the whole record has arrived.
    pub fn is_whole(&self) -> bool {
        self.arrived.len() == self.length
    }

    fn after_wcc_data(&self, at: usize) -> Result<usize, Unparsed> {
        let after_before = self.after_optional(at, WCC_ATTR_BYTES)?;
        self.after_optional(after_before, FATTR3_BYTES)
    }

    /// Offset behind an optional field.
    fn after_optional(&self, at: usize, bytes: usize) -> Result<usize, Unparsed> {
        Ok(at + 4 + if self.flag(at)? { bytes } else { 0 })
    }

    fn flag(&self, at: usize) -> Result<bool, Unparsed> {
        flag(self.word(at)?)
    }

    /// Several words, with one check whether they have arrived.
    #[inline]
    fn words<const N: usize>(&self, at: usize) -> Result<[u32; N], Unparsed> {
        let bytes = self.arrived.get(at..at + 4 * N).ok_or_else(|| self.missing(at + 4 * N))?;
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        Ok(words)
    }

    #[inline]
    fn word(&self, at: usize) -> Result<u32, Unparsed> {
        match self.arrived.get(at..at + 4) {
            Some(bytes) => Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
            None => Err(self.missing(at + 4)),
        }
    }

    fn verifier(&self, at: usize) -> Result<[u8; 8], Unparsed> {
        let mut verifier = [0; 8];
        verifier.copy_from_slice(self.arrived.get(at..at + 8).ok_or_else(|| self.missing(at + 8))?);
        Ok(verifier)
    }

    fn ends_at(&self, end: usize) -> Result<(), Unparsed> {
        if self.length > end {
            return Err(Unparsed::Malformed(Malformed::RecordGoesOn));
        }
        if self.arrived.len() < end {
            return Err(self.missing(end));
        }
        Ok(())
    }

    #[cold]
    fn missing(&self, end: usize) -> Unparsed {
        if end > self.length { Unparsed::Malformed(Malformed::RecordEnds) } else { Unparsed::Incomplete }
    }
}

#[cfg(test)]
mod tests;
