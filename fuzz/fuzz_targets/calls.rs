//! Whole calls against a volume in memory: every call is answered once, by its xid, however its bytes arrive; then come any bytes,
//! which at worst cost the connection.

#![no_main]

use arbitrary::Arbitrary;
use iocurve_volume::fuzzing::Fed;
use iocurve_volume::{ExportRules, Squash};
use iocurve_wire::nfs3::*;
use iocurve_wire::record::{RecordMark, write_record};
use iocurve_wire::rpc::{CallHeader, ReplyHeader, auth_flavor, authsys_parms, opaque_auth};
use iocurve_wire::xdr::{Decode, Encode, Reader, from_bytes, to_bytes};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Conversation {
    /// Most bytes that arrive at once.
    grain: u16,
    /// Bits of the export's rules.
    rules: u8,
    calls: Vec<Call>,
    garbage: Vec<u8>,
}

#[derive(Debug, Arbitrary)]
struct Call {
    procedure: u8,
    uid: u8,
    /// Index into the handles seen so far.
    file: u8,
    directory: u8,
    name: Name,
    new_name: Name,
    attributes: Attributes,
    offset: u64,
    count: u32,
    choice: u8,
    data: Vec<u8>,
    /// In the place of well-formed arguments.
    raw: Option<Vec<u8>>,
}

#[derive(Debug, Arbitrary)]
enum Name {
    A,
    B,
    C,
    Dot,
    DotDot,
    Long(u16),
    Any(Vec<u8>),
}

#[derive(Debug, Arbitrary)]
struct Attributes {
    mode: Option<u16>,
    uid: Option<u8>,
    gid: Option<u8>,
    size: Option<u64>,
    times: [u8; 2],
    seconds: u32,
}

impl Name {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::A => b"a".to_vec(),
            Self::B => b"b".to_vec(),
            Self::C => b"c".to_vec(),
            Self::Dot => b".".to_vec(),
            Self::DotDot => b"..".to_vec(),
            Self::Long(length) => vec![b'n'; usize::from(*length) % 5000],
            Self::Any(bytes) => bytes.clone(),
        }
    }
}

impl Attributes {
    fn sattr3(&self) -> sattr3 {
        let time = |kind: u8| match kind % 3 {
            0 => set_time::DONT_CHANGE(()),
            1 => set_time::SET_TO_SERVER_TIME(()),
            _ => set_time::SET_TO_CLIENT_TIME(nfstime3 { seconds: self.seconds, nseconds: self.seconds }),
        };
        sattr3 {
            mode: self.mode.map(u32::from),
            uid: self.uid.map(u32::from),
            gid: self.gid.map(u32::from),
            size: self.size,
            atime: time(self.times[0]),
            mtime: time(self.times[1]),
        }
    }
}

impl Call {
    fn arguments(&self, handles: &[nfs_fh3]) -> Vec<u8> {
        let pick = |index: u8| handles[usize::from(index) % handles.len()];
        let (object, dir) = (pick(self.file), pick(self.directory));
        let (name, new_name) = (self.name.bytes(), self.new_name.bytes());
        let (at, to) = (diropargs3 { dir, name: &name }, diropargs3 { dir: object, name: &new_name });
        let (attributes, offset, count) = (self.attributes.sattr3(), self.offset, self.count);
        let verf = offset.to_be_bytes();
        let spec = specdata3 { specdata1: count, specdata2: count };
        let device = devicedata3 { dev_attributes: attributes, spec };
        if let Some(raw) = &self.raw {
            let handle = if self.choice % 2 == 0 { to_bytes(&object) } else { Vec::new() };
            return [handle, raw.clone()].concat();
        }
        match nfsproc3::from_u32(u32::from(self.procedure) % 22).expect("there are 22") {
            nfsproc3::NFSPROC3_NULL => Vec::new(),
            nfsproc3::NFSPROC3_GETATTR
            | nfsproc3::NFSPROC3_READLINK
            | nfsproc3::NFSPROC3_FSSTAT
            | nfsproc3::NFSPROC3_FSINFO
            | nfsproc3::NFSPROC3_PATHCONF => to_bytes(&object),
            nfsproc3::NFSPROC3_SETATTR => {
                let guard = (self.choice == 0).then(nfstime3::default);
                to_bytes(&SETATTR3args { object, new_attributes: attributes, guard })
            }
            nfsproc3::NFSPROC3_LOOKUP | nfsproc3::NFSPROC3_REMOVE | nfsproc3::NFSPROC3_RMDIR => to_bytes(&at),
            nfsproc3::NFSPROC3_ACCESS => to_bytes(&ACCESS3args { object, access: count }),
            nfsproc3::NFSPROC3_READ => to_bytes(&READ3args { file: object, offset, count: count % (1 << 21) }),
            nfsproc3::NFSPROC3_WRITE => {
                let stable = stable_how::from_u32(u32::from(self.choice % 3)).expect("there are three");
                let data =
                    if self.choice > 100 { vec![self.choice; count as usize % (1 << 20)] } else { self.data.clone() };
                to_bytes(&WRITE3args { file: object, offset, count: data.len() as u32, stable, data: &data })
            }
            nfsproc3::NFSPROC3_CREATE => {
                let how = match self.choice % 3 {
                    0 => createhow3::UNCHECKED(attributes),
                    1 => createhow3::GUARDED(attributes),
                    _ => createhow3::EXCLUSIVE(verf),
                };
                to_bytes(&CREATE3args { r#where: at, how })
            }
            nfsproc3::NFSPROC3_MKDIR => to_bytes(&MKDIR3args { r#where: at, attributes }),
            nfsproc3::NFSPROC3_SYMLINK => {
                let symlink = symlinkdata3 { symlink_attributes: attributes, symlink_data: &self.data };
                to_bytes(&SYMLINK3args { r#where: at, symlink })
            }
            nfsproc3::NFSPROC3_MKNOD => {
                let what = match self.choice % 5 {
                    0 => mknoddata3::NF3REG(()),
                    1 => mknoddata3::NF3BLK(device),
                    2 => mknoddata3::NF3CHR(device),
                    3 => mknoddata3::NF3SOCK(attributes),
                    _ => mknoddata3::NF3FIFO(attributes),
                };
                to_bytes(&MKNOD3args { r#where: at, what })
            }
            nfsproc3::NFSPROC3_RENAME => to_bytes(&RENAME3args { from: at, to }),
            nfsproc3::NFSPROC3_LINK => to_bytes(&LINK3args { file: object, link: at }),
            nfsproc3::NFSPROC3_READDIR => {
                to_bytes(&READDIR3args { dir, cookie: offset % 8, cookieverf: Fed::COOKIEVERF, count })
            }
            nfsproc3::NFSPROC3_READDIRPLUS => {
                let (cookie, cookieverf) = (offset % 8, Fed::COOKIEVERF);
                to_bytes(&READDIRPLUS3args { dir, cookie, cookieverf, dircount: count, maxcount: count })
            }
            nfsproc3::NFSPROC3_COMMIT => to_bytes(&COMMIT3args { file: object, offset, count }),
        }
    }

    fn record(&self, xid: u32, handles: &[nfs_fh3]) -> Vec<u8> {
        let gids = vec![u32::from(self.choice)];
        let uid = u32::from(self.uid % 3);
        let body = to_bytes(&authsys_parms { stamp: 0, machinename: b"fuzz", uid, gid: uid, gids });
        let cred = opaque_auth { flavor: auth_flavor::AUTH_SYS, body: &body };
        let proc = u32::from(self.procedure) % 22;
        let mut record = Vec::new();
        write_record(&mut record, |writer| {
            let verf = opaque_auth::NONE;
            CallHeader { xid, rpcvers: 2, prog: NFS_PROGRAM, vers: NFS_V3, proc, cred, verf }.encode(writer);
        });
        record.extend(self.arguments(handles));
        let length = (record.len() - 4) as u32;
        record[..4].copy_from_slice(&RecordMark { length, last: true }.to_bytes());
        record
    }
}

fn rules(bits: u8) -> ExportRules {
    let squash = [Squash::Root, Squash::None, Squash::All][usize::from(bits % 3)];
    let bit = |number: u8| bits >> number & 1 != 0;
    ExportRules { squash, suid: bit(2), dev: bit(3), read_only: bits > 240, ..ExportRules::default() }
}

fuzz_target!(|conversation: Conversation| {
    let grain = usize::from(conversation.grain).max(1);
    let mut volume = Fed::with_rules(rules(conversation.rules));
    let mut handles = vec![volume.root()];
    for (xid, call) in conversation.calls.iter().take(64).enumerate() {
        let record = call.record(xid as u32, &handles);
        // A record longer than names and link targets can be must be a WRITE.
        if record.len() > 16 << 10 && call.procedure % 22 != 7 {
            continue;
        }
        let Some(replies) = volume.feed(&record, if record.len() > 1 << 16 { usize::MAX } else { grain }) else {
            assert!(call.raw.is_some(), "a well-formed call cost the connection: {call:?}");
            return;
        };
        let (mark, reply) = replies.split_first_chunk().expect("an answer");
        assert_eq!(RecordMark::from_bytes(*mark).length as usize, reply.len(), "one answer");
        let mut reader = Reader::new(reply);
        let header = ReplyHeader::decode(&mut reader).expect("a reply");
        assert_eq!(header.xid, xid as u32);
        if call.raw.is_none() {
            assert_eq!(header, ReplyHeader::success(xid as u32), "{call:?}");
        }
        if matches!(call.procedure % 22, 8..=11)
            && let Ok(Ok(CREATE3resok { obj: Some(made), .. })) = from_bytes::<CREATE3res>(reader.rest())
        {
            handles.push(made);
        }
    }
    let _ = volume.feed(&conversation.garbage, grain);
    assert!(volume.used_bytes() <= Fed::QUOTA_BYTES);
});
