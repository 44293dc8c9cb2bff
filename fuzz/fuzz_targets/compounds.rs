//! NFSv4.1 COMPOUNDs of two clients against a volume in memory: each is answered once, by its xid, with results that can be decoded and
//! end at the first that fails, however its bytes arrive; a COMPOUND that is sent again has the reply that it had.

#![no_main]

mod compound;

use arbitrary::Arbitrary;
use iocurve_volume::fuzzing::Fed;
use iocurve_wire::nfs3::{nfs_fh3, stable_how};
use iocurve_wire::nfs4::attributes::{Attributes, bitmap4, fattr4};
use iocurve_wire::nfs4::operations::*;
use iocurve_wire::nfs4::*;
use iocurve_wire::xdr::{from_bytes, to_bytes};
use libfuzzer_sys::fuzz_target;

use compound::{record, results};

#[derive(Debug, Arbitrary)]
struct Conversation {
    /// Most bytes that arrive at once.
    grain: u16,
    calls: Vec<Call>,
    garbage: Vec<u8>,
}

#[derive(Debug, Arbitrary)]
struct Call {
    client: bool,
    slot: u8,
    is_kept: bool,
    is_sent_again: bool,
    operations: Vec<Operation>,
    /// Bytes in the place of an operation, after all others.
    raw: Option<Vec<u8>>,
}

#[derive(Debug, Arbitrary)]
enum Operation {
    Root,
    Put(u8),
    GetHandle,
    Save,
    Restore,
    Lookup(Name),
    Parent,
    Create { kind: u8, name: Name, mode: u16 },
    Remove(Name),
    Rename(Name, Name),
    Link(Name),
    ReadLink,
    List { cookie: u8, maxcount: u16 },
    Open { owner: u8, name: Name, access: u8, deny: u8, how: u8, is_by_handle: bool },
    Close(u8),
    Downgrade { stateid: u8, access: u8, deny: u8 },
    Read { stateid: u8, offset: u32, count: u32 },
    Write { stateid: u8, offset: u32, length: u32 },
    Commit,
    Lock { stateid: u8, owner: u8, is_write: bool, offset: u8, length: u8, is_new: bool },
    TestLock { owner: u8, offset: u8, length: u8 },
    Unlock { stateid: u8, offset: u8, length: u8 },
    FreeStateid(u8),
    TestStateids(Vec<u8>),
    Attributes(Vec<u8>),
    SetSize { stateid: u8, size: u64 },
    Verify { size: u64 },
    Access(u8),
    Secinfo(Name),
    DestroySession,
}

#[derive(Debug, Arbitrary)]
enum Name {
    A,
    B,
    Dot,
    Long(u16),
    Any(Vec<u8>),
}

impl Name {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::A => b"a".to_vec(),
            Self::B => b"b".to_vec(),
            Self::Dot => b".".to_vec(),
            Self::Long(length) => vec![b'n'; usize::from(*length) % 5000],
            Self::Any(bytes) => bytes.clone(),
        }
    }
}

/// The replies that clients have had so far.
struct Seen {
    handles: Vec<nfs_fh3>,
    stateids: Vec<stateid4>,
}

const SLOTS: u32 = 4;

/// A client's session and the next sequence id of each slot.
struct Client {
    session: sessionid4,
    sequences: [u32; SLOTS as usize],
}

impl Operation {
    fn encode(&self, seen: &Seen, session: sessionid4) -> Vec<u8> {
        let handle = |index: u8| seen.handles[usize::from(index) % seen.handles.len()];
        let stateid = |index: u8| seen.stateids[usize::from(index) % seen.stateids.len()];
        let owner = |owner: &'static [u8; 4], index: u8| state_owner4 {
            clientid: 0,
            owner: owner_name4(&owner[..usize::from(index % 5)]),
        };
        let none = fattr4 { attrmask: bitmap4::default(), attr_vals: &[] };
        let data;
        let (name, other);
        to_bytes(&match self {
            Self::Root => nfs_argop4::PUTROOTFH(()),
            Self::Put(index) => {
                let handle = handle(*index);
                return to_bytes(&nfs_argop4::PUTFH(PUTFH4args { object: nfs_fh4(handle.as_bytes()) }));
            }
            Self::GetHandle => nfs_argop4::GETFH(()),
            Self::Save => nfs_argop4::SAVEFH(()),
            Self::Restore => nfs_argop4::RESTOREFH(()),
            Self::Lookup(asked) => {
                name = asked.bytes();
                nfs_argop4::LOOKUP(LOOKUP4args { objname: &name })
            }
            Self::Parent => nfs_argop4::LOOKUPP(()),
            Self::Create { kind, name: asked, mode } => {
                name = asked.bytes();
                data = to_bytes(&Attributes { mode: Some(u32::from(*mode)), ..Attributes::default() });
                let objtype = match kind % 6 {
                    0 | 1 => createtype4::NF4DIR(()),
                    2 => createtype4::NF4LNK(b"target"),
                    3 => createtype4::NF4FIFO(()),
                    4 => createtype4::NF4BLK(specdata4::default()),
                    _ => createtype4::NF4REG(()),
                };
                let createattrs = from_bytes(&data).expect("just encoded");
                return to_bytes(&nfs_argop4::CREATE(CREATE4args { objtype, objname: &name, createattrs }));
            }
            Self::Remove(asked) => {
                name = asked.bytes();
                nfs_argop4::REMOVE(REMOVE4args { target: &name })
            }
            Self::Rename(from, to) => {
                (name, other) = (from.bytes(), to.bytes());
                nfs_argop4::RENAME(RENAME4args { oldname: &name, newname: &other })
            }
            Self::Link(asked) => {
                name = asked.bytes();
                nfs_argop4::LINK(LINK4args { newname: &name })
            }
            Self::ReadLink => nfs_argop4::READLINK(()),
            Self::List { cookie, maxcount } => nfs_argop4::READDIR(READDIR4args {
                cookie: u64::from(*cookie),
                cookieverf: Fed::COOKIEVERF,
                dircount: 0,
                maxcount: u32::from(*maxcount),
                attr_request: Attributes::KNOWN,
            }),
            Self::Open { owner: by, name: asked, access, deny, how, is_by_handle } => {
                name = asked.bytes();
                let verf = [*how; 8];
                let openhow = match how % 5 {
                    0 => openflag4::OPEN4_NOCREATE(()),
                    1 => openflag4::OPEN4_CREATE(createhow4::UNCHECKED4(none)),
                    2 => openflag4::OPEN4_CREATE(createhow4::GUARDED4(none)),
                    3 => openflag4::OPEN4_CREATE(createhow4::EXCLUSIVE4(verf)),
                    _ => openflag4::OPEN4_CREATE(createhow4::EXCLUSIVE4_1(creatverfattr {
                        cva_verf: verf,
                        cva_attrs: none,
                    })),
                };
                nfs_argop4::OPEN(OPEN4args {
                    seqid: 0,
                    share_access: u32::from(access % 5),
                    share_deny: u32::from(deny % 5),
                    owner: owner(b"open", *by),
                    openhow,
                    claim: if *is_by_handle { open_claim4::CLAIM_FH(()) } else { open_claim4::CLAIM_NULL(&name) },
                })
            }
            Self::Close(index) => nfs_argop4::CLOSE(CLOSE4args { seqid: 0, open_stateid: stateid(*index) }),
            Self::Downgrade { stateid: index, access, deny } => nfs_argop4::OPEN_DOWNGRADE(OPEN_DOWNGRADE4args {
                open_stateid: stateid(*index),
                seqid: 0,
                share_access: u32::from(access % 4),
                share_deny: u32::from(deny % 4),
            }),
            Self::Read { stateid: index, offset, count } => nfs_argop4::READ(READ4args {
                stateid: stateid(*index),
                offset: u64::from(*offset),
                count: count % (1 << 21),
            }),
            Self::Write { stateid: index, offset, length } => {
                data = vec![7; *length as usize % (1 << 18)];
                let stateid = stateid(*index);
                nfs_argop4::WRITE(WRITE4args {
                    stateid,
                    offset: u64::from(*offset),
                    stable: stable_how::UNSTABLE,
                    data: &data,
                })
            }
            Self::Commit => nfs_argop4::COMMIT(COMMIT4args { offset: 0, count: 0 }),
            Self::Lock { stateid: index, owner: by, is_write, offset, length, is_new } => nfs_argop4::LOCK(LOCK4args {
                locktype: if *is_write { nfs_lock_type4::WRITE_LT } else { nfs_lock_type4::READ_LT },
                reclaim: false,
                offset: u64::from(*offset),
                length: u64::from(*length),
                locker: if *is_new {
                    locker4::open_owner(open_to_lock_owner4 {
                        open_seqid: 0,
                        open_stateid: stateid(*index),
                        lock_seqid: 0,
                        lock_owner: owner(b"lock", *by),
                    })
                } else {
                    locker4::lock_owner(exist_lock_owner4 { lock_stateid: stateid(*index), lock_seqid: 0 })
                },
            }),
            Self::TestLock { owner: by, offset, length } => nfs_argop4::LOCKT(LOCKT4args {
                locktype: nfs_lock_type4::READ_LT,
                offset: u64::from(*offset),
                length: u64::from(*length),
                owner: owner(b"lock", *by),
            }),
            Self::Unlock { stateid: index, offset, length } => nfs_argop4::LOCKU(LOCKU4args {
                locktype: nfs_lock_type4::WRITE_LT,
                seqid: 0,
                lock_stateid: stateid(*index),
                offset: u64::from(*offset),
                length: u64::from(*length),
            }),
            Self::FreeStateid(index) => nfs_argop4::FREE_STATEID(FREE_STATEID4args { fsa_stateid: stateid(*index) }),
            Self::TestStateids(indices) => {
                let ts_stateids = indices.iter().map(|index| stateid(*index)).collect();
                nfs_argop4::TEST_STATEID(TEST_STATEID4args { ts_stateids })
            }
            Self::Attributes(numbers) => {
                let numbers: Vec<u32> = numbers.iter().map(|number| u32::from(*number)).collect();
                nfs_argop4::GETATTR(GETATTR4args { attr_request: bitmap4::of(&numbers) })
            }
            Self::SetSize { stateid: index, size } => {
                data = to_bytes(&Attributes { size: Some(*size), ..Attributes::default() });
                let obj_attributes = from_bytes(&data).expect("just encoded");
                return to_bytes(&nfs_argop4::SETATTR(SETATTR4args { stateid: stateid(*index), obj_attributes }));
            }
            Self::Verify { size } => {
                data = to_bytes(&Attributes { size: Some(*size), ..Attributes::default() });
                let obj_attributes = from_bytes(&data).expect("just encoded");
                return to_bytes(&nfs_argop4::NVERIFY(VERIFY4args { obj_attributes }));
            }
            Self::Access(access) => nfs_argop4::ACCESS(ACCESS4args { access: u32::from(*access) }),
            Self::Secinfo(asked) => {
                name = asked.bytes();
                nfs_argop4::SECINFO(SECINFO4args { name: &name })
            }
            Self::DestroySession => nfs_argop4::DESTROY_SESSION(DESTROY_SESSION4args { dsa_sessionid: session }),
        })
    }
}

fn client(volume: &mut Fed, name: &'static [u8]) -> Client {
    let exchange = nfs_argop4::EXCHANGE_ID(EXCHANGE_ID4args {
        eia_clientowner: client_owner4 { co_verifier: [1; 8], co_ownerid: owner_name4(name) },
        eia_flags: 0,
        eia_state_protect: state_protect4_a::SP4_NONE(()),
        eia_client_impl_id: None,
    });
    let reply = volume.feed(&record(0, &[to_bytes(&exchange)]), usize::MAX).expect("an answer");
    let (_, found) = results(&reply, 0);
    let [nfs_resop4::EXCHANGE_ID(Ok(exchanged))] = &found[..] else { panic!("{found:?}") };
    let channel = channel_attrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: 1 << 20,
        ca_maxresponsesize: 1 << 20,
        ca_maxresponsesize_cached: 4096,
        ca_maxoperations: 64,
        ca_maxrequests: SLOTS,
        ca_rdma_ird: None,
    };
    let create = nfs_argop4::CREATE_SESSION(CREATE_SESSION4args {
        csa_clientid: exchanged.eir_clientid,
        csa_sequence: 1,
        csa_flags: 0,
        csa_fore_chan_attrs: channel,
        csa_back_chan_attrs: channel,
        csa_cb_program: 0,
        csa_sec_parms: Vec::new(),
    });
    let reply = volume.feed(&record(0, &[to_bytes(&create)]), usize::MAX).expect("an answer");
    let (_, found) = results(&reply, 0);
    let [nfs_resop4::CREATE_SESSION(Ok(created))] = &found[..] else { panic!("{found:?}") };
    let mut client = Client { session: created.csr_sessionid, sequences: [0; SLOTS as usize] };
    let complete = nfs_argop4::RECLAIM_COMPLETE(RECLAIM_COMPLETE4args { rca_one_fs: false });
    let operations = [client.sequence(0, false), to_bytes(&complete)];
    volume.feed(&record(0, &operations), usize::MAX).expect("an answer");
    client
}

impl Client {
    fn sequence(&mut self, slot: u8, is_kept: bool) -> Vec<u8> {
        let slot = u32::from(slot) % SLOTS;
        self.sequences[slot as usize] += 1;
        to_bytes(&nfs_argop4::SEQUENCE(SEQUENCE4args {
            sa_sessionid: self.session,
            sa_sequenceid: self.sequences[slot as usize],
            sa_slotid: slot,
            sa_highest_slotid: slot,
            sa_cachethis: is_kept,
        }))
    }
}

fuzz_target!(|conversation: Conversation| {
    let grain = usize::from(conversation.grain).max(1);
    let mut volume = Fed::new();
    let mut clients = [client(&mut volume, b"one"), client(&mut volume, b"other")];
    let stateids = vec![stateid4::ANONYMOUS, stateid4::READ_BYPASS, stateid4::CURRENT];
    let mut seen = Seen { handles: vec![volume.root()], stateids };
    for (xid, call) in (1..).zip(conversation.calls.iter().take(64)) {
        let client = &mut clients[usize::from(call.client)];
        let mut operations = vec![client.sequence(call.slot, call.is_kept)];
        operations.extend(call.operations.iter().take(40).map(|operation| operation.encode(&seen, client.session)));
        operations.extend(call.raw.clone().map(|mut raw| {
            raw.resize(raw.len().next_multiple_of(4), 0);
            raw
        }));
        let record = record(xid, &operations);
        if record.len() > 1 << 20 {
            continue;
        }
        let grain = if record.len() > 1 << 16 { usize::MAX } else { grain };
        let reply = volume.feed(&record, grain).expect("a COMPOUND never costs the connection");
        let (status, found) = results(&reply, xid);
        for result in &found {
            match result {
                nfs_resop4::GETFH(Ok(found)) => seen.handles.push(nfs_fh3::new(found.object.0).expect("short")),
                nfs_resop4::OPEN(Ok(opened)) => seen.stateids.push(opened.stateid),
                nfs_resop4::LOCK(Ok(locked)) => seen.stateids.push(locked.lock_stateid),
                _ => {}
            }
        }
        if call.is_kept && call.is_sent_again && status != nfsstat4::NFS4ERR_BADSESSION {
            let again = volume.feed(&record, grain).expect("an answer");
            let is_ended = results(&again, xid).0 == nfsstat4::NFS4ERR_BADSESSION;
            assert!(again == reply || is_ended, "the same call has another reply");
        }
    }
    let _ = volume.feed(&conversation.garbage, grain);
    assert!(volume.used_bytes() <= Fed::QUOTA_BYTES);
});
