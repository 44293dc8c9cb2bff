//! The hot path of an `NFSv4.1` client: COMPOUND of SEQUENCE, PUTFH and one operation, from templates.

use super::{CommitResult, FileTemplates, Malformed, ReadResult, Reply, Template, Unparsed, WriteResult, flag, put};
use crate::nfs4::operations::{COMMIT4args, PUTFH4args, READ4args, SEQUENCE4args, WRITE4args, nfs_argop4};
use crate::nfs4::{COMPOUND, MINOR_VERSION, compound4_head, nfs_fh4, nfs_opnum4, sessionid4, stable_how4, stateid4};
use crate::record::RECORD_MARK_BYTES;
use crate::rpc::Xid;
use crate::xdr::{Encode, Writer};

/// Bytes before the payload of a successful READ reply with empty verifier and tag, record mark included.
pub const READ_REPLY_HEAD_BYTES: usize = RECORD_MARK_BYTES + super::REPLY_HEAD_BYTES + SEQUENCED_BYTES + 8;

/// From the COMPOUND's status to the status of its third operation, that one included.
const SEQUENCED_BYTES: usize = 12 + SEQUENCE_RESULT_BYTES + 8 + 8;
/// Operation, status and result of SEQUENCE.
const SEQUENCE_RESULT_BYTES: usize = 44;

/// The session that calls belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionCalls<'a> {
    /// An encoded `opaque_auth` (flavor, length, body).
    pub credential: &'a [u8],
    /// The session's id.
    pub session: sessionid4,
    /// Highest slot that the client uses.
    pub highest_slot: u32,
}

/// Slot of a session, and the sequence id of a call on the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlotSequence {
    /// The slot.
    pub slot: u32,
    /// Its sequence id.
    pub sequence: u32,
}

/// READ, WRITE and COMMIT calls on one file (RFC 8881 §18.22, §18.32, §18.3).
#[derive(Debug, Clone)]
pub struct FileCalls(FileTemplates);

impl FileCalls {
    /// `file` is a file handle, `stateid` the state of its open, and `stable` the stability that the reply to a WRITE must
    /// promise.
    pub fn new(calls: &SessionCalls<'_>, file: &[u8], stateid: stateid4, stable: stable_how4) -> Self {
        let template = |operation| {
            template(calls, 3, |writer| {
                nfs_argop4::PUTFH(PUTFH4args { object: nfs_fh4(file) }).encode(writer);
                nfs_argop4::encode(&operation, writer);
            })
        };
        Self(FileTemplates {
            read: template(nfs_argop4::READ(READ4args { stateid, offset: 0, count: 0 })),
            write: template(nfs_argop4::WRITE(WRITE4args { stateid, offset: 0, stable, data: &[] })),
            commit: template(nfs_argop4::COMMIT(COMMIT4args { offset: 0, count: 0 })),
        })
    }

    /// Makes the calls go to another file.
    pub fn set_file(&mut self, calls: &SessionCalls<'_>, file: &[u8], stateid: stateid4, stable: stable_how4) {
        let Some(ends) = self.0.set_file(file) else {
            *self = Self::new(calls, file, stateid, stable);
            return;
        };
        for (template, end) in [&mut self.0.read, &mut self.0.write].into_iter().zip(ends) {
            // Behind the number of the operation.
            put(&mut template.bytes, end + 4, stateid.seqid);
            template.bytes[end + 8..end + 20].copy_from_slice(&stateid.other);
        }
    }

    /// Appends a READ, record mark first.
    pub fn append_read(&self, out: &mut Vec<u8>, xid: Xid, at: SlotSequence, offset: u64, count: u32) {
        let start = self.0.read.append_range(out, xid, offset, count);
        self.0.read.put_sequence(&mut out[start..], at);
    }

    /// Appends a WRITE up to its payload, record mark first. The caller sends `count` bytes of payload after it, then
    /// [`padding`] of `count` zeros.
    ///
    /// [`padding`]: super::padding
    pub fn append_write(&self, out: &mut Vec<u8>, xid: Xid, at: SlotSequence, offset: u64, count: u32) {
        let start = self.0.write.append_head(out, xid, 16, offset, count);
        self.0.write.put_sequence(&mut out[start..], at);
    }

    /// Appends a COMMIT, record mark first. Count 0 is "to the end of the file".
    pub fn append_commit(&self, out: &mut Vec<u8>, xid: Xid, at: SlotSequence, offset: u64, count: u32) {
        let start = self.0.commit.append_range(out, xid, offset, count);
        self.0.commit.put_sequence(&mut out[start..], at);
    }
}

/// Calls of any operations, which the codec encodes. Without one a call renews the lease.
#[derive(Debug, Clone)]
pub struct CompoundTemplate(Template);

impl CompoundTemplate {
    /// For calls of a session.
    pub fn new(calls: &SessionCalls<'_>) -> Self {
        Self(template(calls, 1, |_| {}))
    }

    /// Appends SEQUENCE and the operations, record mark first; `keeps_reply` asks the server to keep the reply for a
    /// repetition.
    pub fn append(
        &self,
        out: &mut Vec<u8>,
        xid: Xid,
        at: SlotSequence,
        keeps_reply: bool,
        operations: &[nfs_argop4<'_>],
    ) {
        let start = self.0.append(out, xid);
        self.0.put_sequence(&mut out[start..], at);
        let sequence_at = start + self.0.file_at - FILE_AFTER_SEQUENCE;
        // The count of operations is the word before SEQUENCE's number and session.
        put(out, sequence_at - 24, 1 + operations.len() as u32);
        put(out, sequence_at + 12, u32::from(keeps_reply));
        let mut writer = Writer::new(out);
        for operation in operations {
            operation.encode(&mut writer);
        }
        super::mark(&mut out[start..]);
    }
}

/// From SEQUENCE's sequence id, which the slot follows, then the highest slot and whether the reply is kept, to the file handle
/// of PUTFH.
const FILE_AFTER_SEQUENCE: usize = 16 + 4;

/// A call of SEQUENCE and what `rest` writes, `count` operations in all.
fn template(calls: &SessionCalls<'_>, count: u32, rest: impl FnOnce(&mut Writer<'_>)) -> Template {
    let mut bytes = super::head_of(COMPOUND, calls.credential);
    let mut writer = Writer::new(&mut bytes);
    compound4_head { tag: &[], minorversion: MINOR_VERSION, count }.encode(&mut writer);
    let sequence_at = writer.position() + 20;
    nfs_argop4::SEQUENCE(SEQUENCE4args {
        sa_sessionid: calls.session,
        sa_sequenceid: 0,
        sa_slotid: 0,
        sa_highest_slotid: calls.highest_slot,
        sa_cachethis: false,
    })
    .encode(&mut writer);
    rest(&mut writer);
    Template::new(bytes, sequence_at + FILE_AFTER_SEQUENCE)
}

impl Template {
    fn put_sequence(&self, call: &mut [u8], at: SlotSequence) {
        let sequence_at = self.file_at - FILE_AFTER_SEQUENCE;
        put(call, sequence_at, at.sequence);
        put(call, sequence_at + 4, at.slot);
    }
}

/// A COMPOUND's status is that of its last operation.
const CONTRADICTION: Unparsed = Unparsed::Malformed(Malformed::Status);

/// How far a COMPOUND came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compound {
    /// SEQUENCE succeeded; the status at this offset of the record is that of the operation, or of the PUTFH that failed
    /// before it.
    Sequenced(usize),
    /// SEQUENCE succeeded, and no operation follows it.
    Empty,
    /// SEQUENCE failed with this `nfsstat4`, or the COMPOUND as a whole: no operation was executed.
    Refused(u32),
}

impl Reply<'_> {
    /// Parses a COMPOUND's result at [`super::Head::result_at`] up to its operation. Its SEQUENCE must be that of the call: of
    /// `session`, with the call's slot and sequence id (RFC 8881 §18.46.3).
    pub fn compound(&self, result_at: usize, session: &sessionid4, call: SlotSequence) -> Result<Compound, Unparsed> {
        let at = match self.sequenced(result_at, session, call)? {
            Compound::Sequenced(at) => at,
            refused => return Ok(refused),
        };
        let [status, _, count] = self.words(result_at)?;
        if count == 1 {
            return if status == 0 { self.ends_at(at).map(|()| Compound::Empty) } else { Err(CONTRADICTION) };
        }
        let [operation, put_filehandle] = self.words(at)?;
        expect(operation, nfs_opnum4::OP_PUTFH)?;
        if put_filehandle == 0 && count != 3 {
            return Err(Unparsed::Malformed(Malformed::ResultMissing));
        }
        let last = if put_filehandle == 0 { at + 12 } else { at + 4 };
        if self.word(last)? != status {
            return Err(CONTRADICTION);
        }
        Ok(Compound::Sequenced(last))
    }

    /// Parses a COMPOUND's result at [`super::Head::result_at`] up to the result behind SEQUENCE, which [`Compound::Sequenced`]
    /// then means; the results of the operations follow there.
    pub fn sequenced(&self, result_at: usize, session: &sessionid4, call: SlotSequence) -> Result<Compound, Unparsed> {
        let [status, tag_bytes, count] = self.words(result_at)?;
        if tag_bytes != 0 {
            return Err(Unparsed::Malformed(Malformed::Tag));
        }
        if count == 0 {
            return if status == 0 { Err(CONTRADICTION) } else { Ok(Compound::Refused(status)) };
        }
        let at = result_at + 12;
        let [operation, sequence] = self.words(at)?;
        expect(operation, nfs_opnum4::OP_SEQUENCE)?;
        if sequence != 0 {
            return Ok(Compound::Refused(sequence));
        }
        self.check_sequence(at + 8, session, call)?;
        Ok(Compound::Sequenced(at + SEQUENCE_RESULT_BYTES))
    }

    fn check_sequence(&self, at: usize, session: &sessionid4, call: SlotSequence) -> Result<(), Unparsed> {
        let found = self.arrived.get(at..at + 16).ok_or_else(|| self.missing(at + 16))?;
        if found != session || self.words(at + 16)? != [call.sequence, call.slot] {
            return Err(Unparsed::Malformed(Malformed::Sequence));
        }
        Ok(())
    }

    /// The result of a READ at [`Compound::Sequenced`]. Success is reported only for a record that is as long as its count
    /// says.
    pub fn read4(&self, at: usize) -> Result<ReadResult, Unparsed> {
        let [operation, status] = self.words(at - 4)?;
        if status != 0 {
            return Ok(ReadResult { status, count: 0, eof: false, payload_at: 0 });
        }
        expect(operation, nfs_opnum4::OP_READ)?;
        let [eof, count] = self.words(at + 4)?;
        let eof = flag(eof)?;
        let payload_at = at + 12;
        self.check_payload(payload_at, count)?;
        Ok(ReadResult { status, count, eof, payload_at })
    }

    /// The result of a WRITE at [`Compound::Sequenced`].
    pub fn write4(&self, at: usize) -> Result<WriteResult, Unparsed> {
        let status = self.word(at)?;
        if status != 0 {
            return Ok(WriteResult { status, count: 0, committed: 0, verifier: [0; 8] });
        }
        expect(self.word(at - 4)?, nfs_opnum4::OP_WRITE)?;
        self.written(at + 4)
    }

    /// The result of a COMMIT at [`Compound::Sequenced`].
    pub fn commit4(&self, at: usize) -> Result<CommitResult, Unparsed> {
        let status = self.word(at)?;
        if status != 0 {
            return Ok(CommitResult { status, verifier: [0; 8] });
        }
        expect(self.word(at - 4)?, nfs_opnum4::OP_COMMIT)?;
        self.committed(at + 4)
    }
}

#[inline]
fn expect(found: u32, operation: nfs_opnum4) -> Result<(), Unparsed> {
    if found == operation as u32 {
        return Ok(());
    }
    Err(Unparsed::Malformed(Malformed::AnotherOperation))
}

#[cfg(test)]
mod tests;
