//! A COMPOUND too long for the input buffer, of which the first bytes have arrived.
//!
//! As a rule it is SEQUENCE, PUTFH and a WRITE: then the data are received where the store keeps them, and only what is around them is
//! gathered. Any other is gathered whole.

use iocurve_wire::nfs3::stable_how;
use iocurve_wire::nfs4::operations::{PUTFH4args, SEQUENCE4args};
use iocurve_wire::nfs4::{compound4_head, nfs_fh4, nfs_opnum4, stateid4};
use iocurve_wire::rpc::CallHeader;
use iocurve_wire::xdr::{Decode, Reader, XdrError, padding};

use super::compound::Received;
use crate::programs::turn::Turn;
use crate::store::Store;
use crate::store::write_buffer::WriteBuffer;

/// A COMPOUND of which bytes are missing.
#[derive(Debug)]
pub(crate) struct ArrivingCompound {
    /// The bytes of the call so far, without data that are in the buffer.
    call: Vec<u8>,
    /// Bytes of the whole call.
    length: usize,
    buffer: Option<WriteBuffer>,
    /// Padding of the data that has not arrived.
    padding: usize,
}

/// The WRITE in a COMPOUND: where its data begin in the call, and where they go.
struct Head<'a> {
    bytes: usize,
    file: &'a [u8],
    offset: u64,
    length: u32,
}

impl ArrivingCompound {
    /// Begins a call of `length` bytes. Fails with `Truncated` if more of its head must arrive to tell what it is.
    pub(crate) fn begin(
        turn: &mut Turn<'_>,
        header: &CallHeader<'_>,
        arrived: &[u8],
        length: usize,
    ) -> Result<Self, XdrError> {
        let mut whole = Self { call: Vec::new(), length, buffer: None, padding: 0 };
        let head = match Head::parse(arrived) {
            Err(error @ XdrError::Truncated { .. }) => return Err(error),
            // The operation that cannot be decoded is answered in its turn.
            parsed => parsed.unwrap_or(None).filter(|head| head.fits(length)),
        };
        let Some(head) = head else {
            whole.append(arrived);
            return Ok(whole);
        };
        whole.buffer = head.buffer(turn, header);
        let Some(buffer) = &mut whole.buffer else {
            whole.append(arrived);
            return Ok(whole);
        };
        whole.padding = padding(head.length as usize);
        let (before, behind) = arrived.split_at(head.bytes);
        let (data, rest) = behind.split_at(behind.len().min(head.length as usize));
        buffer.copy_from(data);
        whole.call.extend_from_slice(before);
        whole.append(rest);
        Ok(whole)
    }

    /// Memory for data that have not arrived.
    pub(crate) fn buffer(&mut self) -> Option<&mut WriteBuffer> {
        self.buffer.as_mut()
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.call.capacity() + self.buffer.as_ref().map_or(0, WriteBuffer::length)
    }

    /// Takes the next bytes that are no data of the buffer.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        let skipped = self.padding.min(bytes.len());
        self.padding -= skipped;
        self.call.extend_from_slice(&bytes[skipped..]);
    }

    /// Answers the call, all of which has arrived.
    pub(crate) fn answer(self, turn: &mut Turn<'_>) -> Result<(), XdrError> {
        let mut reader = Reader::new(&self.call);
        let header = CallHeader::decode(&mut reader)?;
        super::answer_with(turn, &header, reader.rest(), Received { call_bytes: self.length, buffer: self.buffer });
        Ok(())
    }
}

impl<'a> Head<'a> {
    /// Parses a call up to the data of its WRITE; `None` if it is not one of the usual form.
    fn parse(arrived: &'a [u8]) -> Result<Option<Self>, XdrError> {
        let mut reader = Reader::new(arrived);
        CallHeader::decode(&mut reader)?;
        let head = compound4_head::decode(&mut reader)?;
        if head.count < 3 || reader.u32()? != nfs_opnum4::OP_SEQUENCE as u32 {
            return Ok(None);
        }
        SEQUENCE4args::decode(&mut reader)?;
        if reader.u32()? != nfs_opnum4::OP_PUTFH as u32 {
            return Ok(None);
        }
        let PUTFH4args { object: nfs_fh4(file) } = Decode::decode(&mut reader)?;
        if reader.u32()? != nfs_opnum4::OP_WRITE as u32 {
            return Ok(None);
        }
        stateid4::decode(&mut reader)?;
        let offset = reader.u64()?;
        stable_how::decode(&mut reader)?;
        let length = reader.u32()?;
        Ok(Some(Self { bytes: arrived.len() - reader.rest().len(), file, offset, length }))
    }

    /// True if the data and their padding are within the call.
    fn fits(&self, call_bytes: usize) -> bool {
        let length = self.length as usize;
        self.bytes + length + padding(length) <= call_bytes
    }

    /// Memory of the store for the data, if the caller may write them: nothing is written before SEQUENCE has let it.
    fn buffer(&self, turn: &mut Turn<'_>, header: &CallHeader<'_>) -> Option<WriteBuffer> {
        let export = turn.export(self.file);
        turn.credential.take(&header.cred).ok()?;
        turn.admit(export, true).ok()?;
        export.files.begin_write(turn.credential.caller(), self.file, self.offset, self.length).ok()
    }
}
