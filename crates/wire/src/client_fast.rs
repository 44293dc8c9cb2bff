//! The hot path of an NFS client: calls made from templates, replies parsed where they lie. `NFSv3` is here, `NFSv4.1` in [`nfs4`].
//!
//! A load generator makes the same call a million times a second with another offset, and needs five words of each
//! reply. So a call is its file's template with `xid`, offset and count patched in, and the attributes in a reply are
//! skipped, not decoded. All other calls use the full codec in `nfs3`; tests check that both give the same bytes.

mod malformed;
pub mod nfs4;

use thiserror::Error;

pub use self::malformed::Malformed;
use crate::nfs3::{FATTR3_BYTES, NFS_PROGRAM, NFS_V3, NFS3_FHSIZE, nfsproc3, stable_how};
use crate::record::{RECORD_MARK_BYTES, RecordMark};
use crate::rpc::{AUTH_BODY_BYTES_MAX, RPC_VERSION};
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

/// READ calls on one file (RFC 1813 §3.3.6).
#[derive(Debug, Clone)]
pub struct ReadTemplate(Template);

impl ReadTemplate {
    /// `credential` is an encoded `opaque_auth` (flavor, length, body); `file` a file handle of at most 64 bytes.
    pub fn new(credential: &[u8], file: &[u8]) -> Self {
        Self(Template::new(nfsproc3::NFSPROC3_READ, credential, file, &[0; 12]))
    }

    /// Makes the calls go to another file.
    pub fn set_file(&mut self, credential: &[u8], file: &[u8]) {
        if !self.0.set_file(credential, file, 12) {
            *self = Self::new(credential, file);
        }
    }

    /// Appends the call, record mark first.
    pub fn append(&self, out: &mut Vec<u8>, xid: u32, offset: u64, count: u32) {
        self.0.append_range(out, xid, offset, count);
    }
}

/// COMMIT calls on one file (RFC 1813 §3.3.21).
#[derive(Debug, Clone)]
pub struct CommitTemplate(Template);

impl CommitTemplate {
    /// As [`ReadTemplate::new`].
    pub fn new(credential: &[u8], file: &[u8]) -> Self {
        Self(Template::new(nfsproc3::NFSPROC3_COMMIT, credential, file, &[0; 12]))
    }

    /// Makes the calls go to another file.
    pub fn set_file(&mut self, credential: &[u8], file: &[u8]) {
        if !self.0.set_file(credential, file, 12) {
            *self = Self::new(credential, file);
        }
    }

    /// Appends the call, record mark first. Count 0 is "to the end of the file".
    pub fn append(&self, out: &mut Vec<u8>, xid: u32, offset: u64, count: u32) {
        self.0.append_range(out, xid, offset, count);
    }
}

/// GETATTR calls on one file (RFC 1813 §3.3.1).
#[derive(Debug, Clone)]
pub struct GetattrTemplate(Template);

impl GetattrTemplate {
    /// As [`ReadTemplate::new`].
    pub fn new(credential: &[u8], file: &[u8]) -> Self {
        Self(Template::new(nfsproc3::NFSPROC3_GETATTR, credential, file, &[]))
    }

    /// Appends the call, record mark first.
    pub fn append(&self, out: &mut Vec<u8>, xid: u32) {
        self.0.append(out, xid);
    }
}

/// WRITE calls on one file (RFC 1813 §3.3.7), up to the payload.
#[derive(Debug, Clone)]
pub struct WriteTemplate(Template);

impl WriteTemplate {
    /// As [`ReadTemplate::new`]; `stable` is the stability that the reply must promise.
    pub fn new(credential: &[u8], file: &[u8], stable: stable_how) -> Self {
        let mut tail = [0; 20];
        tail[12..16].copy_from_slice(&(stable as u32).to_be_bytes());
        Self(Template::new(nfsproc3::NFSPROC3_WRITE, credential, file, &tail))
    }

    /// Makes the calls go to another file.
    pub fn set_file(&mut self, credential: &[u8], file: &[u8], stable: stable_how) {
        if !self.0.set_file(credential, file, 20) {
            *self = Self::new(credential, file, stable);
        }
    }

    /// Appends the call up to its payload, record mark first. The caller sends `count` bytes of payload after it, then
    /// [`padding`] of `count` zeros.
    pub fn append(&self, out: &mut Vec<u8>, xid: u32, offset: u64, count: u32) {
        let start = self.0.append(out, xid);
        let call = &mut out[start..];
        let tail = call.len() - 20;
        let record = (call.len() - RECORD_MARK_BYTES) as u32 + count + padding(count);
        call[..RECORD_MARK_BYTES].copy_from_slice(&RecordMark { length: record, last: true }.to_bytes());
        call[tail..tail + 8].copy_from_slice(&offset.to_be_bytes());
        put(call, tail + 8, count);
        put(call, tail + 16, count);
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
    pub fn append(&self, out: &mut Vec<u8>, xid: u32, procedure: nfsproc3, arguments: &(impl Encode + ?Sized)) {
        let start = out.len();
        out.extend_from_slice(&self.head);
        put(out, start + RECORD_MARK_BYTES, xid);
        put(out, start + RECORD_MARK_BYTES + PROCEDURE_AT, procedure as u32);
        arguments.encode(&mut Writer::new(out));
        mark(&mut out[start..]);
    }
}

/// Zeros after an opaque of this length (RFC 4506 §4.10): 0 to 3.
pub const fn padding(length: u32) -> u32 {
    length.wrapping_neg() & 3
}

/// A call with its record mark; the fields that change from call to call are zero.
#[derive(Debug, Clone)]
struct Template(Box<[u8]>);

impl Template {
    fn new(procedure: nfsproc3, credential: &[u8], file: &[u8], tail: &[u8]) -> Self {
        assert!(file.len() <= NFS3_FHSIZE, "a file handle has at most 64 bytes");
        let mut bytes = head(procedure, credential);
        bytes.extend_from_slice(&(file.len() as u32).to_be_bytes());
        bytes.extend_from_slice(file);
        bytes.resize(bytes.len() + padding(file.len() as u32) as usize, 0);
        bytes.extend_from_slice(tail);
        mark(&mut bytes);
        Self(bytes.into_boxed_slice())
    }

    /// Replaces the file handle by one of the same length, before a tail of `tail` bytes; `false` if the lengths differ.
    fn set_file(&mut self, credential: &[u8], file: &[u8], tail: usize) -> bool {
        let at = RECORD_MARK_BYTES + PROCEDURE_AT + 4 + credential.len() + 8;
        let length = 4 + file.len() + padding(file.len() as u32) as usize;
        if self.0.len() != at + length + tail || self.0[at..at + 4] != (file.len() as u32).to_be_bytes() {
            return false;
        }
        self.0[at + 4..at + 4 + file.len()].copy_from_slice(file);
        true
    }

    /// Returns the offset of the call.
    fn append(&self, out: &mut Vec<u8>, xid: u32) -> usize {
        let start = out.len();
        out.extend_from_slice(&self.0);
        put(out, start + RECORD_MARK_BYTES, xid);
        start
    }

    fn append_range(&self, out: &mut Vec<u8>, xid: u32, offset: u64, count: u32) {
        self.append(out, xid);
        let tail = out.len() - 12;
        let range = &mut out[tail..];
        range[..8].copy_from_slice(&offset.to_be_bytes());
        range[8..12].copy_from_slice(&count.to_be_bytes());
    }
}

/// A call up to its arguments.
fn head(procedure: nfsproc3, credential: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; RECORD_MARK_BYTES];
    for word in [0, 0, RPC_VERSION, NFS_PROGRAM, NFS_V3, procedure as u32] {
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
    pub xid: u32,
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
            return Ok(Head { xid: self.word(0)?, verdict: Verdict::Success, result_at: REPLY_HEAD_BYTES });
        }
        self.unusual_head()
    }

    #[cold]
    fn unusual_head(&self) -> Result<Head, Unparsed> {
        let xid = self.word(0)?;
        if self.word(4)? != 1 {
            return Err(Unparsed::Malformed(Malformed::NotAReply));
        }
        match self.word(8)? {
            0 => self.accepted(xid),
            1 => self.denied(xid),
            _ => Err(Unparsed::Malformed(Malformed::ReplyStat)),
        }
    }

    fn accepted(&self, xid: u32) -> Result<Head, Unparsed> {
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

    fn denied(&self, xid: u32) -> Result<Head, Unparsed> {
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
        if payload_at as u64 + u64::from(count) + u64::from(padding(count)) != self.length as u64 {
            return Err(Unparsed::Malformed(Malformed::Payload));
        }
        Ok(ReadResult { status, count, eof, payload_at })
    }

    /// The result of a WRITE at [`Head::result_at`].
    pub fn write(&self, result_at: usize) -> Result<WriteResult, Unparsed> {
        let status = self.word(result_at)?;
        if status != 0 {
            return Ok(WriteResult { status, count: 0, committed: 0, verifier: [0; 8] });
        }
        let at = self.after_wcc_data(result_at + 4)?;
        self.ends_at(at + 16)?;
        Ok(WriteResult {
            status,
            count: self.word(at)?,
            committed: self.word(at + 4)?,
            verifier: self.verifier(at + 8)?,
        })
    }

    /// The result of a COMMIT at [`Head::result_at`].
    pub fn commit(&self, result_at: usize) -> Result<CommitResult, Unparsed> {
        let status = self.word(result_at)?;
        if status != 0 {
            return Ok(CommitResult { status, verifier: [0; 8] });
        }
        let at = self.after_wcc_data(result_at + 4)?;
        self.ends_at(at + 8)?;
        Ok(CommitResult { status, verifier: self.verifier(at)? })
    }

    /// The status of a GETATTR at [`Head::result_at`]; the attributes of a success are skipped.
    pub fn getattr(&self, result_at: usize) -> Result<u32, Unparsed> {
        let status = self.word(result_at)?;
        if status == 0 {
            self.ends_at(result_at + 4 + FATTR3_BYTES)?;
        }
        Ok(status)
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
