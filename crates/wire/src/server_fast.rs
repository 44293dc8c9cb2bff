//! The server's side of the data path: READ, WRITE, COMMIT and GETATTR calls parsed in place, replies written in one piece.
//!
//! Nothing is allocated and no handle is copied. The layouts are those of [`crate::nfs3`]; tests hold the two together.

use crate::nfs3::{FATTR3_BYTES, NFS3_FHSIZE, fattr3, nfsstat3, stable_how, wcc_attr, writeverf3};
use crate::record::{RECORD_MARK_BYTES, RecordMark};
use crate::xdr::{Reader, XdrError, padding};

/// Arguments of READ and of COMMIT, which are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeArgs<'a> {
    /// File handle.
    pub file: &'a [u8],
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub count: u32,
}

impl<'a> RangeArgs<'a> {
    /// Parses the arguments of READ or COMMIT.
    #[inline]
    pub fn parse(arguments: &'a [u8]) -> Result<Self, XdrError> {
        let mut reader = Reader::new(arguments);
        let parsed = Self { file: reader.opaque(NFS3_FHSIZE)?, offset: reader.u64()?, count: reader.u32()? };
        reader.finish()?;
        Ok(parsed)
    }
}

/// Parses the arguments of GETATTR: a file handle.
#[inline]
pub fn parse_getattr(arguments: &[u8]) -> Result<&[u8], XdrError> {
    let mut reader = Reader::new(arguments);
    let object = reader.opaque(NFS3_FHSIZE)?;
    reader.finish()?;
    Ok(object)
}

/// Arguments of WRITE before its data, whose bytes may not have arrived yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteArgs<'a> {
    /// File handle.
    pub file: &'a [u8],
    /// First byte.
    pub offset: u64,
    /// Stability that the reply must promise.
    pub stable: stable_how,
    /// Bytes of data; the same as the RFC's `count`.
    pub length: u32,
    /// The data and their padding, as far as they have arrived.
    pub arrived: &'a [u8],
}

impl<'a> WriteArgs<'a> {
    /// Parses the `arrived` bytes of arguments that are `total` bytes long.
    #[inline]
    pub fn parse(arrived: &'a [u8], total: usize) -> Result<Self, XdrError> {
        let mut reader = Reader::new(arrived);
        let file = reader.opaque(NFS3_FHSIZE)?;
        let offset = reader.u64()?;
        let count = reader.u32()?;
        let stable = reader.u32()?;
        let stable = stable_how::from_u32(stable).ok_or(XdrError::BadValue { what: "stable_how", value: stable })?;
        let length = reader.u32()?;
        if length != count {
            return Err(XdrError::TooLong { length: length as usize, limit: count as usize });
        }
        let head = arrived.len() - reader.rest().len();
        let needed = head + length as usize + padding(length as usize);
        match total.checked_sub(needed) {
            Some(0) => Ok(Self { file, offset, stable, length, arrived: reader.rest() }),
            Some(count) => Err(XdrError::Trailing { count }),
            None => Err(XdrError::Truncated { missing: needed - total }),
        }
    }
}

/// Record mark, xid, and the words that say "accepted, `AUTH_NONE`, success".
pub const REPLY_HEAD_BYTES: usize = RECORD_MARK_BYTES + 24;

/// Bytes before the data of a READ reply with attributes.
pub const READ_REPLY_BYTES: usize = REPLY_HEAD_BYTES + 4 + 4 + FATTR3_BYTES + 12;

/// Bytes of a WRITE reply with attributes before and after.
pub const WRITE_REPLY_BYTES: usize = REPLY_HEAD_BYTES + 4 + WCC_BYTES + 8 + 8;

/// Bytes of a COMMIT reply with attributes before and after.
pub const COMMIT_REPLY_BYTES: usize = REPLY_HEAD_BYTES + 4 + WCC_BYTES + 8;

/// Bytes of a GETATTR reply.
pub const GETATTR_REPLY_BYTES: usize = REPLY_HEAD_BYTES + 4 + FATTR3_BYTES;

const WCC_BYTES: usize = 4 + 24 + 4 + FATTR3_BYTES;

/// A READ reply up to its data; `count` bytes and their padding follow.
#[inline]
pub fn read_reply(xid: u32, attributes: &fattr3, count: u32, eof: bool) -> [u8; READ_REPLY_BYTES] {
    let mut reply = Reply::new(xid, (count as usize) + padding(count as usize));
    reply.u32(nfsstat3::NFS3_OK as u32);
    reply.u32(1);
    reply.attributes(attributes);
    reply.u32(count);
    reply.u32(u32::from(eof));
    reply.u32(count);
    reply.done()
}

/// A WRITE reply.
#[inline]
pub fn write_reply(
    xid: u32,
    before: &wcc_attr,
    after: &fattr3,
    count: u32,
    committed: stable_how,
    verf: writeverf3,
) -> [u8; WRITE_REPLY_BYTES] {
    let mut reply = Reply::new(xid, 0);
    reply.u32(nfsstat3::NFS3_OK as u32);
    reply.wcc(before, after);
    reply.u32(count);
    reply.u32(committed as u32);
    reply.bytes(&verf);
    reply.done()
}

/// A COMMIT reply.
#[inline]
pub fn commit_reply(xid: u32, before: &wcc_attr, after: &fattr3, verf: writeverf3) -> [u8; COMMIT_REPLY_BYTES] {
    let mut reply = Reply::new(xid, 0);
    reply.u32(nfsstat3::NFS3_OK as u32);
    reply.wcc(before, after);
    reply.bytes(&verf);
    reply.done()
}

/// A GETATTR reply.
#[inline]
pub fn getattr_reply(xid: u32, attributes: &fattr3) -> [u8; GETATTR_REPLY_BYTES] {
    let mut reply = Reply::new(xid, 0);
    reply.u32(nfsstat3::NFS3_OK as u32);
    reply.attributes(attributes);
    reply.done()
}

/// A reply of known length that is filled from the front.
struct Reply<const N: usize> {
    bytes: [u8; N],
    filled: usize,
}

impl<const N: usize> Reply<N> {
    /// Writes the head of a reply that `following` more bytes belong to.
    #[inline]
    fn new(xid: u32, following: usize) -> Self {
        let mut reply = Self { bytes: [0; N], filled: 0 };
        let length = (N - RECORD_MARK_BYTES + following) as u32;
        reply.bytes(&RecordMark { length, last: true }.to_bytes());
        reply.u32(xid);
        reply.u32(1); // REPLY; what follows it are zeros: MSG_ACCEPTED, AUTH_NONE of no bytes, SUCCESS
        reply.filled = REPLY_HEAD_BYTES;
        reply
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.bytes[self.filled..self.filled + bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
    }

    #[inline]
    fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    #[inline]
    fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    #[inline]
    fn attributes(&mut self, attributes: &fattr3) {
        self.u32(attributes.file_type as u32);
        for word in [attributes.mode, attributes.nlink, attributes.uid, attributes.gid] {
            self.u32(word);
        }
        self.u64(attributes.size);
        self.u64(attributes.used);
        self.u32(attributes.rdev.specdata1);
        self.u32(attributes.rdev.specdata2);
        self.u64(attributes.fsid);
        self.u64(attributes.fileid);
        for time in [attributes.atime, attributes.mtime, attributes.ctime] {
            self.u32(time.seconds);
            self.u32(time.nseconds);
        }
    }

    #[inline]
    fn wcc(&mut self, before: &wcc_attr, after: &fattr3) {
        self.u32(1);
        self.u64(before.size);
        for time in [before.mtime, before.ctime] {
            self.u32(time.seconds);
            self.u32(time.nseconds);
        }
        self.u32(1);
        self.attributes(after);
    }

    #[inline]
    fn done(self) -> [u8; N] {
        debug_assert_eq!(self.filled, N);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nfs3::*;
    use crate::record::write_record;
    use crate::rpc::ReplyHeader;
    use crate::xdr::{Encode, to_bytes};

    fn attributes() -> fattr3 {
        fattr3 {
            file_type: ftype3::NF3REG,
            mode: 0o644,
            nlink: 1,
            uid: 1000,
            gid: 100,
            size: 0x1_0000_0001,
            used: 4096,
            rdev: specdata3 { specdata1: 8, specdata2: 9 },
            fsid: 7,
            fileid: 42,
            atime: nfstime3 { seconds: 1, nseconds: 2 },
            mtime: nfstime3 { seconds: 3, nseconds: 4 },
            ctime: nfstime3 { seconds: 5, nseconds: 6 },
        }
    }

    fn by_codec(xid: u32, result: &impl Encode) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_record(&mut bytes, |writer| {
            ReplyHeader::success(xid).encode(writer);
            result.encode(writer);
        });
        bytes
    }

    #[test]
    fn replies_are_those_of_the_codec() {
        let (after, before, verf) = (attributes(), attributes().wcc(), [1, 2, 3, 4, 5, 6, 7, 8]);
        let wcc = wcc_data { before: Some(before), after: Some(after) };

        let getattr: GETATTR3res = Ok(GETATTR3resok { obj_attributes: after });
        assert_eq!(getattr_reply(9, &after).as_slice(), by_codec(9, &getattr));

        let commit: COMMIT3res = Ok(COMMIT3resok { file_wcc: wcc, verf });
        assert_eq!(commit_reply(9, &before, &after, verf).as_slice(), by_codec(9, &commit));

        let committed = stable_how::FILE_SYNC;
        let write: WRITE3res = Ok(WRITE3resok { file_wcc: wcc, count: 5, committed, verf });
        assert_eq!(write_reply(9, &before, &after, 5, committed, verf).as_slice(), by_codec(9, &write));

        let data = b"hello".as_slice();
        let read: READ3res<'_> = Ok(READ3resok { file_attributes: Some(after), count: 5, eof: true, data });
        let mut reply = read_reply(9, &after, 5, true).to_vec();
        reply.extend_from_slice(b"hello\0\0\0");
        assert_eq!(reply, by_codec(9, &read));
    }

    #[test]
    fn calls_are_those_of_the_codec() {
        let file = nfs_fh3::new(b"0123456789").unwrap();
        let read = to_bytes(&READ3args { file, offset: 4096, count: 512 });
        assert_eq!(RangeArgs::parse(&read), Ok(RangeArgs { file: b"0123456789", offset: 4096, count: 512 }));
        assert_eq!(RangeArgs::parse(&read[..read.len() - 1]), Err(XdrError::Truncated { missing: 1 }));
        assert_eq!(parse_getattr(&to_bytes(&GETATTR3args { object: file })), Ok(b"0123456789".as_slice()));

        let stable = stable_how::DATA_SYNC;
        let write = to_bytes(&WRITE3args { file, offset: 8, count: 5, stable, data: b"hello" });
        let parsed = WriteArgs::parse(&write, write.len()).unwrap();
        assert_eq!((parsed.file, parsed.offset, parsed.stable), (b"0123456789".as_slice(), 8, stable));
        assert_eq!((parsed.length, parsed.arrived), (5, b"hello\0\0\0".as_slice()));
        let early = WriteArgs::parse(&write[..write.len() - 6], write.len()).unwrap();
        assert_eq!((early.length, early.arrived), (5, b"he".as_slice()));
    }

    #[test]
    fn lengths_that_disagree_are_refused() {
        let file = nfs_fh3::new(&[7; 4]).unwrap();
        let stable = stable_how::UNSTABLE;
        let two_lengths = to_bytes(&WRITE3args { file, offset: 0, count: 4, stable, data: b"hello" });
        assert_eq!(WriteArgs::parse(&two_lengths, two_lengths.len()), Err(XdrError::TooLong { length: 5, limit: 4 }));
        let write = to_bytes(&WRITE3args { file, offset: 0, count: 5, stable, data: b"hello" });
        assert_eq!(WriteArgs::parse(&write, write.len() - 4), Err(XdrError::Truncated { missing: 4 }));
        assert_eq!(WriteArgs::parse(&write, write.len() + 4), Err(XdrError::Trailing { count: 4 }));
        assert_eq!(parse_getattr(&[0, 0, 0, 65]), Err(XdrError::TooLong { length: 65, limit: NFS3_FHSIZE }));
    }
}
