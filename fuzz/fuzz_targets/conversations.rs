//! Conversations of up to three NFSv4.1 clients with a volume in memory. The clients keep valid sessions, slots and state ids, as they
//! were told them, and now and then send something else in a call.
//!
//! A call in a valid session is taken up; every reply can be decoded and is that of its call; a call that is sent again has the reply that
//! it had; what clients have sums up to what the tables hold, within the limits; a client that comes back in time after a restart of the
//! server reclaims its opens and locks; and once all leases have expired, nothing is in the way of a newcomer.

#![no_main]

mod compound;

use std::sync::atomic::{AtomicU64, Ordering};

use arbitrary::Arbitrary;
use iocurve_volume::fuzzing::Fed;
use iocurve_wire::nfs3::stable_how;
use iocurve_wire::nfs4::attributes::{Attributes, bitmap4, fattr4};
use iocurve_wire::nfs4::operations::*;
use iocurve_wire::nfs4::*;
use iocurve_wire::xdr::{from_bytes, to_bytes};
use libfuzzer_sys::fuzz_target;

use compound::{record, results};

const CLIENTS: usize = 3;
const SLOTS: u32 = 3;
const NAMES: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
const STEPS_MAX: usize = 96;
const MORE_MAX: usize = 3;
/// Least value of [`Call::mutation`] that changes something.
const MUTATION_MIN: u8 = 248;

#[derive(Debug, Arbitrary)]
struct Conversation {
    /// Most bytes that arrive at once, for some values.
    grain: u16,
    steps: Vec<Step>,
}

#[derive(Debug, Arbitrary)]
struct Step {
    client: u8,
    what: What,
}

#[derive(Debug, Arbitrary)]
enum What {
    Call(Call),
    More(Call),
    Most(Call),
    /// The client makes a session, as one that has restarted or not.
    Arrive {
        restarted: bool,
        slots: u8,
    },
    DestroySession,
    DestroyClient,
    /// Another connection, bound to the session or not.
    Connect {
        is_bound: bool,
    },
    /// Time passes, in 16ths of a lease.
    Wait(u8),
    /// The server is killed and starts again.
    Restart,
    /// The client makes a session and reclaims what it had before a restart. It may skip RECLAIM_COMPLETE.
    Recover {
        is_complete: bool,
    },
}

#[derive(Debug, Arbitrary)]
struct Call {
    slot: u8,
    is_kept: bool,
    is_sent_again: bool,
    work: Work,
    more: Vec<Work>,
    /// The part of the call that is not as it should be, for few values.
    mutation: u8,
    value: u64,
}

/// Operations on one file or directory.
#[derive(Debug, Arbitrary)]
enum Work {
    Open { name: u8, owner: u8, access: u8, deny: u8, how: u8 },
    OpenByHandle { open: u8, owner: u8, access: u8, deny: u8 },
    OpenAndUse { name: u8, owner: u8, is_closed: bool, length: u16 },
    Close(u8),
    Downgrade { open: u8, access: u8, deny: u8 },
    Read { open: u8, offset: u16, count: u16 },
    Write { open: u8, offset: u16, length: u16, stable: u8 },
    WriteFar { open: u8, offset: u64, length: u16 },
    Commit(u8),
    Lock { open: u8, owner: u8, is_write: bool, offset: u8, length: u8 },
    LockMore { lock: u8, is_write: bool, offset: u8, length: u8 },
    LockAll { open: u8, owner: u8, offset: u64 },
    TestLock { open: u8, owner: u8, is_write: bool, offset: u8, length: u8 },
    Unlock { lock: u8, offset: u8, length: u8 },
    UnlockAll(u8),
    Free(u8),
    Test(Vec<u8>),
    GetAttributes { open: u8, numbers: Vec<u8> },
    SetSize { open: u8, size: u32 },
    SetMode { name: u8, mode: u16 },
    Verify { open: u8, size: u16, is_not: bool },
    Access { name: u8, access: u8 },
    Lookup(u8),
    MakeDirectory(u8),
    MakeLink { name: u8, is_symbolic: bool, open: u8 },
    ReadLink(u8),
    Remove(u8),
    Rename(u8, u8),
    List { cookie: u8, maxcount: u16 },
    Secinfo(u8),
    ReclaimComplete,
    Reclaim { open: u8 },
}

/// An open or a lock owner's state, as its client was told it.
#[derive(Debug, Clone)]
struct Held {
    stateid: stateid4,
    handle: Vec<u8>,
    owner: u8,
    /// Access and deny of an open.
    share: (u32, u32),
    /// Offset and length of a lock owner's last LOCK, and whether it was for writing.
    lock: (u64, u64, bool),
}

/// A client, as it sees itself.
#[derive(Debug, Default)]
struct Client {
    verifier: u8,
    clientid: clientid4,
    session: Option<Session>,
    connection: usize,
    /// Time of the last call that the server took up.
    renewed: u64,
    opens: Vec<Held>,
    locks: Vec<Held>,
    /// State from before a restart of the server that is not reclaimed, if the lease held.
    before: Before,
}

#[derive(Debug, Default)]
struct Before {
    opens: Vec<Held>,
    locks: Vec<Held>,
}

#[derive(Debug, Clone)]
struct Session {
    id: sessionid4,
    /// By slot: sequence id of the last call.
    sequences: Vec<u32>,
}

struct Table {
    volume: Fed,
    clients: [Client; CLIENTS],
    /// Handles that clients were given.
    handles: Vec<Vec<u8>>,
    grain: usize,
    now: u64,
    /// Time of the last start of the server.
    started: u64,
    /// No call was mutated: clients know exactly what they have.
    is_pure: bool,
    xid: u32,
}

/// An operation, encoded; the state or the handle that its result brings.
struct Operation {
    bytes: Vec<u8>,
    brings: Brings,
}

#[derive(Debug, Clone)]
enum Brings {
    Nothing,
    /// An open by this owner with this share, of the handle that follows.
    Open(u8, (u32, u32)),
    /// The state of a lock owner in a file.
    Lock(Held),
    /// Another seqid of an open or a lock owner's state.
    Change,
    /// Another share of an open.
    Share((u32, u32)),
    /// The end of the state with this id.
    End([u8; 12]),
}

impl From<nfs_argop4<'_>> for Operation {
    fn from(operation: nfs_argop4<'_>) -> Self {
        let brings = match &operation {
            nfs_argop4::OPEN(open) => {
                Brings::Open(open.owner.owner.0.len() as u8 - OWNER_BYTES_MIN, (open.share_access, open.share_deny))
            }
            nfs_argop4::OPEN_DOWNGRADE(downgrade) => Brings::Share((downgrade.share_access, downgrade.share_deny)),
            nfs_argop4::LOCKU(_) => Brings::Change,
            nfs_argop4::CLOSE(close) => Brings::End(close.open_stateid.other),
            nfs_argop4::FREE_STATEID(free) => Brings::End(free.fsa_stateid.other),
            _ => Brings::Nothing,
        };
        Self { bytes: to_bytes(&operation), brings }
    }
}

impl Call {
    /// A call as it should be.
    fn of(work: Work) -> Self {
        Self { slot: 0, is_kept: false, is_sent_again: false, work, more: Vec::new(), mutation: 0, value: 0 }
    }
}

fn pick<T>(all: &[T], index: u8) -> Option<&T> {
    all.get(usize::from(index) % all.len().max(1))
}

fn name(index: u8) -> &'static [u8] {
    NAMES[usize::from(index) % NAMES.len()]
}

/// Owners differ in the lengths of their names.
const OWNER_BYTES_MIN: u8 = 2;

fn owner(kind: &'static [u8; 4], index: u8) -> state_owner4<'static> {
    state_owner4 { clientid: 0, owner: owner_name4(&kind[..usize::from(OWNER_BYTES_MIN + index % 3)]) }
}

/// Claims an open as it was before the restart of the server.
fn reclaim(held: &Held) -> Vec<Operation> {
    let (share_access, share_deny) = held.share;
    let open = nfs_argop4::OPEN(OPEN4args {
        seqid: 0,
        share_access,
        share_deny,
        owner: owner(b"open", held.owner),
        openhow: openflag4::OPEN4_NOCREATE(()),
        claim: open_claim4::CLAIM_PREVIOUS(0),
    });
    vec![put(&held.handle), open.into(), nfs_argop4::GETFH(()).into()]
}

/// Claims a lock as it was before the restart of the server, by an open that has been reclaimed.
fn reclaim_lock(held: &Held, open: &Held) -> Vec<Operation> {
    let (offset, length, is_write) = held.lock;
    let locker = locker4::open_owner(open_to_lock_owner4 {
        open_seqid: 0,
        open_stateid: open.stateid,
        lock_seqid: 0,
        lock_owner: owner(b"lock", held.owner),
    });
    let locktype = lock_type(is_write);
    let lock = nfs_argop4::LOCK(LOCK4args { locktype, reclaim: true, offset, length, locker });
    vec![put(&held.handle), Operation { brings: Brings::Lock(held.clone()), ..lock.into() }]
}

fn lock_type(is_write: bool) -> nfs_lock_type4 {
    if is_write { nfs_lock_type4::WRITE_LT } else { nfs_lock_type4::READ_LT }
}

fn put(handle: &[u8]) -> Operation {
    nfs_argop4::PUTFH(PUTFH4args { object: nfs_fh4(handle) }).into()
}

const NO_ATTRIBUTES: fattr4<'static> = fattr4 { attrmask: bitmap4::of(&[]), attr_vals: &[] };

impl Work {
    /// The operations. A client that has not what they need opens a file.
    fn operations(&self, client: &Client, root: &[u8]) -> Vec<Operation> {
        let open = || Self::OPEN.try_operations(client, root);
        self.try_operations(client, root).or_else(open).expect("an open needs nothing")
    }

    /// Opens a file for reading and writing, and makes it if it is missing.
    const OPEN: Self = Self::Open { name: 0, owner: 0, access: 3, deny: 0, how: 3 };

    #[allow(clippy::too_many_lines)] // one arm for each kind
    fn try_operations(&self, client: &Client, root: &[u8]) -> Option<Vec<Operation>> {
        let open = |index: &u8| pick(&client.opens, *index);
        let in_root = |operation: nfs_argop4<'_>| Some(vec![put(root), operation.into()]);
        let on = |held: &Held, operation: nfs_argop4<'_>| Some(vec![put(&held.handle), operation.into()]);
        let named = |index: u8, operation: nfs_argop4<'_>| {
            let lookup = nfs_argop4::LOOKUP(LOOKUP4args { objname: name(index) });
            Some(vec![put(root), lookup.into(), operation.into()])
        };
        let opening = |by: u8, access: u8, deny: u8, openhow, claim| {
            let (share_access, share_deny) = (u32::from(access % 4), u32::from(if deny < 200 { 0 } else { deny % 5 }));
            nfs_argop4::OPEN(OPEN4args {
                seqid: 0,
                share_access,
                share_deny,
                owner: owner(b"open", by),
                openhow,
                claim,
            })
        };
        let locking = |locker, is_write, offset, length| {
            nfs_argop4::LOCK(LOCK4args { locktype: lock_type(is_write), reclaim: false, offset, length, locker })
        };
        let first = |held: &Held, by: u8| {
            locker4::open_owner(open_to_lock_owner4 {
                open_seqid: 0,
                open_stateid: held.stateid,
                lock_seqid: 0,
                lock_owner: owner(b"lock", by),
            })
        };
        let locked = |held: &Held, by: u8, lock: nfs_argop4<'_>| {
            let nfs_argop4::LOCK(LOCK4args { offset, length, ref locktype, .. }) = lock else { unreachable!() };
            let lock_held = (offset, length, matches!(locktype, nfs_lock_type4::WRITE_LT));
            let brings = Brings::Lock(Held { owner: by % 3, lock: lock_held, ..held.clone() });
            Some(vec![put(&held.handle), Operation { brings, ..lock.into() }])
        };
        let unlocking = |held: &Held, offset, length| {
            nfs_argop4::LOCKU(LOCKU4args {
                locktype: nfs_lock_type4::WRITE_LT,
                seqid: 0,
                lock_stateid: held.stateid,
                offset,
                length,
            })
        };
        let writing = |stateid, offset, length: u16, stable: u8| {
            let data = vec![7; usize::from(length)];
            let stable = stable_how::from_u32(u32::from(stable % 3)).expect("there are three");
            Operation::from(nfs_argop4::WRITE(WRITE4args { stateid, offset, stable, data: &data }))
        };
        match self {
            Self::Open { name: at, owner: by, access, deny, how } => {
                let verf = [*how; 8];
                let attributes = creatverfattr { cva_verf: verf, cva_attrs: NO_ATTRIBUTES };
                let openhow = match how % 8 {
                    0 => openflag4::OPEN4_NOCREATE(()),
                    1 => openflag4::OPEN4_CREATE(createhow4::GUARDED4(NO_ATTRIBUTES)),
                    2 => openflag4::OPEN4_CREATE(createhow4::EXCLUSIVE4_1(attributes)),
                    _ => openflag4::OPEN4_CREATE(createhow4::UNCHECKED4(NO_ATTRIBUTES)),
                };
                let open = opening(*by, (*access).max(1), *deny, openhow, open_claim4::CLAIM_NULL(name(*at)));
                Some(vec![put(root), open.into(), nfs_argop4::GETFH(()).into()])
            }
            Self::OpenByHandle { open: at, owner: by, access, deny } => {
                let how = openflag4::OPEN4_NOCREATE(());
                let open_again = opening(*by, (*access).max(1), *deny, how, open_claim4::CLAIM_FH(()));
                Some(vec![put(&open(at)?.handle), open_again.into(), nfs_argop4::GETFH(()).into()])
            }
            Self::OpenAndUse { name: at, owner: by, is_closed, length } => {
                let how = openflag4::OPEN4_CREATE(createhow4::UNCHECKED4(NO_ATTRIBUTES));
                let open = opening(*by, 3, 0, how, open_claim4::CLAIM_NULL(name(*at)));
                let mut all = vec![put(root), open.into(), nfs_argop4::GETFH(()).into()];
                all.push(writing(stateid4::CURRENT, 0, *length, 0));
                let count = u32::from(*length);
                all.push(nfs_argop4::READ(READ4args { stateid: stateid4::CURRENT, offset: 0, count }).into());
                if *is_closed {
                    all.push(nfs_argop4::CLOSE(CLOSE4args { seqid: 0, open_stateid: stateid4::CURRENT }).into());
                }
                Some(all)
            }
            Self::Close(at) => {
                let held = open(at)?;
                on(held, nfs_argop4::CLOSE(CLOSE4args { seqid: 0, open_stateid: held.stateid }))
            }
            Self::Downgrade { open: at, access, deny } => {
                let held = open(at)?;
                let (share_access, share_deny) = (u32::from(access % 4), u32::from(deny % 4));
                let downgrade = OPEN_DOWNGRADE4args { open_stateid: held.stateid, seqid: 0, share_access, share_deny };
                on(held, nfs_argop4::OPEN_DOWNGRADE(downgrade))
            }
            Self::Read { open: at, offset, count } => {
                let held = open(at)?;
                let (offset, count) = (u64::from(*offset), u32::from(*count));
                on(held, nfs_argop4::READ(READ4args { stateid: held.stateid, offset, count }))
            }
            Self::Write { open: at, offset, length, stable } => {
                let held = open(at)?;
                Some(vec![put(&held.handle), writing(held.stateid, u64::from(*offset), *length, *stable)])
            }
            Self::WriteFar { open: at, offset, length } => {
                let held = open(at)?;
                Some(vec![put(&held.handle), writing(held.stateid, *offset, *length, 2)])
            }
            Self::Commit(at) => on(open(at)?, nfs_argop4::COMMIT(COMMIT4args { offset: 0, count: 0 })),
            Self::Lock { open: at, owner: by, is_write, offset, length } => {
                let held = open(at)?;
                locked(held, *by, locking(first(held, *by), *is_write, u64::from(*offset), u64::from(*length).max(1)))
            }
            Self::LockMore { lock, is_write, offset, length } => {
                let held = pick(&client.locks, *lock)?;
                let locker = locker4::lock_owner(exist_lock_owner4 { lock_stateid: held.stateid, lock_seqid: 0 });
                let lock = locking(locker, *is_write, u64::from(*offset), u64::from(*length).max(1));
                locked(held, held.owner, lock)
            }
            Self::LockAll { open: at, owner: by, offset } => {
                let held = open(at)?;
                locked(held, *by, locking(first(held, *by), false, *offset, u64::MAX))
            }
            Self::TestLock { open: at, owner: by, is_write, offset, length } => {
                let (locktype, owner) = (lock_type(*is_write), owner(b"lock", *by));
                let (offset, length) = (u64::from(*offset), u64::from(*length).max(1));
                on(open(at)?, nfs_argop4::LOCKT(LOCKT4args { locktype, offset, length, owner }))
            }
            Self::Unlock { lock, offset, length } => {
                let held = pick(&client.locks, *lock)?;
                on(held, unlocking(held, u64::from(*offset), u64::from(*length).max(1)))
            }
            Self::UnlockAll(lock) => {
                let held = pick(&client.locks, *lock)?;
                on(held, unlocking(held, 0, u64::MAX))
            }
            Self::Free(lock) => {
                let held = pick(&client.locks, *lock)?;
                Some(vec![nfs_argop4::FREE_STATEID(FREE_STATEID4args { fsa_stateid: held.stateid }).into()])
            }
            Self::Test(indices) => {
                let held = indices.iter().take(16).filter_map(|at| pick(&client.opens, *at));
                let held = held.chain(pick(&client.locks, indices.len() as u8));
                let ts_stateids = held.map(|held| held.stateid).collect();
                Some(vec![nfs_argop4::TEST_STATEID(TEST_STATEID4args { ts_stateids }).into()])
            }
            Self::GetAttributes { open: at, numbers } => {
                let numbers: Vec<u32> = numbers.iter().map(|number| u32::from(*number) % 96).collect();
                let handle = open(at).map_or(root, |held| &held.handle);
                let get = nfs_argop4::GETATTR(GETATTR4args { attr_request: bitmap4::of(&numbers) });
                Some(vec![put(handle), get.into()])
            }
            Self::SetSize { open: at, size } => {
                let held = open(at)?;
                let size = to_bytes(&Attributes { size: Some(u64::from(*size)), ..Attributes::default() });
                let obj_attributes = from_bytes(&size).expect("just encoded");
                on(held, nfs_argop4::SETATTR(SETATTR4args { stateid: held.stateid, obj_attributes }))
            }
            Self::SetMode { name: at, mode } => {
                let mode = to_bytes(&Attributes { mode: Some(u32::from(*mode)), ..Attributes::default() });
                let obj_attributes = from_bytes(&mode).expect("just encoded");
                named(*at, nfs_argop4::SETATTR(SETATTR4args { stateid: stateid4::ANONYMOUS, obj_attributes }))
            }
            Self::Verify { open: at, size, is_not } => {
                let size = to_bytes(&Attributes { size: Some(u64::from(*size)), ..Attributes::default() });
                let arguments = VERIFY4args { obj_attributes: from_bytes(&size).expect("just encoded") };
                on(open(at)?, if *is_not { nfs_argop4::NVERIFY(arguments) } else { nfs_argop4::VERIFY(arguments) })
            }
            Self::Access { name: at, access } => {
                named(*at, nfs_argop4::ACCESS(ACCESS4args { access: u32::from(*access) }))
            }
            Self::Lookup(at) => named(*at, nfs_argop4::GETFH(())),
            Self::MakeDirectory(at) => {
                let (objtype, objname) = (createtype4::NF4DIR(()), name(*at));
                in_root(nfs_argop4::CREATE(CREATE4args { objtype, objname, createattrs: NO_ATTRIBUTES }))
            }
            Self::MakeLink { name: at, is_symbolic: true, .. } => {
                let (objtype, objname) = (createtype4::NF4LNK(b"target"), name(*at));
                in_root(nfs_argop4::CREATE(CREATE4args { objtype, objname, createattrs: NO_ATTRIBUTES }))
            }
            Self::MakeLink { name: at, open: file, .. } => {
                let link = nfs_argop4::LINK(LINK4args { newname: name(*at) });
                Some(vec![put(&open(file)?.handle), nfs_argop4::SAVEFH(()).into(), put(root), link.into()])
            }
            Self::ReadLink(at) => named(*at, nfs_argop4::READLINK(())),
            Self::Remove(at) => in_root(nfs_argop4::REMOVE(REMOVE4args { target: name(*at) })),
            Self::Rename(from, to) => {
                let rename = nfs_argop4::RENAME(RENAME4args { oldname: name(*from), newname: name(*to) });
                Some(vec![put(root), nfs_argop4::SAVEFH(()).into(), rename.into()])
            }
            Self::List { cookie, maxcount } => in_root(nfs_argop4::READDIR(READDIR4args {
                cookie: u64::from(cookie % 8),
                cookieverf: Fed::COOKIEVERF,
                dircount: 0,
                maxcount: u32::from(*maxcount).max(64),
                attr_request: Attributes::KNOWN,
            })),
            Self::Secinfo(at) => in_root(nfs_argop4::SECINFO(SECINFO4args { name: name(*at) })),
            Self::ReclaimComplete => {
                Some(vec![nfs_argop4::RECLAIM_COMPLETE(RECLAIM_COMPLETE4args { rca_one_fs: false }).into()])
            }
            Self::Reclaim { open: at } => Some(reclaim(open(at)?)),
        }
    }
}

/// Compounds in a session, and those of which an operation on a file or on state succeeded.
static COMPOUNDS: AtomicU64 = AtomicU64::new(0);
static DID_SOMETHING: AtomicU64 = AtomicU64::new(0);
/// Compounds before the first report; each report comes after twice as many.
const REPORTED_MIN: u64 = 1 << 16;

fn count(found: &[nfs_resop4<'_>], status: nfsstat4) {
    let succeeded = found.len() - usize::from(status != nfsstat4::NFS4_OK && !found.is_empty());
    let is_work = |result: &nfs_resop4<'_>| {
        !matches!(result, nfs_resop4::SEQUENCE(_) | nfs_resop4::PUTFH(_) | nfs_resop4::PUTROOTFH(_))
    };
    let did = found[..succeeded].iter().any(is_work);
    let compounds = COMPOUNDS.fetch_add(1, Ordering::Relaxed) + 1;
    let worked = DID_SOMETHING.fetch_add(u64::from(did), Ordering::Relaxed) + u64::from(did);
    if compounds >= REPORTED_MIN && compounds.is_power_of_two() {
        eprintln!("{compounds} compounds, {:.1} % did something", worked as f64 / compounds as f64 * 100.0);
    }
}

impl Table {
    fn new(grain: usize) -> Self {
        let volume = Fed::new();
        let root = volume.root().as_bytes().to_vec();
        let clients = Default::default();
        let (handles, is_pure) = (vec![root], true);
        let mut table = Self { volume, clients, handles, grain, now: 0, started: 0, is_pure, xid: 0 };
        for client in 0..CLIENTS {
            table.clients[client].connection = table.volume.connect(client as u8 + 1);
            table.arrive(client, SLOTS, true);
        }
        table
    }

    /// Sends a record; the reply must not cost the connection.
    fn send(&mut self, client: usize, record: &[u8]) -> Vec<u8> {
        let grain = if record.len() > 1 << 14 { usize::MAX } else { self.grain };
        let connection = self.clients[client].connection;
        self.volume.feed_on(connection, record, grain).expect("a COMPOUND never costs the connection")
    }

    /// Sends one operation outside a session, and takes its result.
    fn alone<T>(&mut self, client: usize, operation: &nfs_argop4<'_>, take: impl FnOnce(nfs_resop4<'_>) -> T) -> T {
        self.xid += 1;
        let reply = self.send(client, &record(self.xid, &[to_bytes(operation)]));
        let (_, mut found) = results(&reply, self.xid);
        take(found.pop().expect("one result"))
    }

    /// Registers a client and makes a session.
    fn arrive(&mut self, client: usize, slots: u32, has_reclaimed: bool) {
        let names: [&[u8]; CLIENTS] = [b"one", b"another", b"third"];
        let exchange = nfs_argop4::EXCHANGE_ID(EXCHANGE_ID4args {
            eia_clientowner: client_owner4 {
                co_verifier: [self.clients[client].verifier; 8],
                co_ownerid: owner_name4(names[client]),
            },
            eia_flags: 0,
            eia_state_protect: state_protect4_a::SP4_NONE(()),
            eia_client_impl_id: None,
        });
        let (clientid, sequence) = self.alone(client, &exchange, |result| match result {
            nfs_resop4::EXCHANGE_ID(Ok(exchanged)) => (exchanged.eir_clientid, exchanged.eir_sequenceid),
            other => panic!("a client is not let in: {other:?}"),
        });
        let channel = channel_attrs4 {
            ca_headerpadsize: 0,
            ca_maxrequestsize: 1 << 20,
            ca_maxresponsesize: 1 << 20,
            ca_maxresponsesize_cached: 4096,
            ca_maxoperations: 64,
            ca_maxrequests: slots,
            ca_rdma_ird: None,
        };
        let create = nfs_argop4::CREATE_SESSION(CREATE_SESSION4args {
            csa_clientid: clientid,
            csa_sequence: sequence,
            csa_flags: 0,
            csa_fore_chan_attrs: channel,
            csa_back_chan_attrs: channel,
            csa_cb_program: 0,
            csa_sec_parms: Vec::new(),
        });
        let created = self.alone(client, &create, |result| match result {
            nfs_resop4::CREATE_SESSION(created) => created.ok(),
            other => panic!("{other:?}"),
        });
        let known = &mut self.clients[client];
        if known.clientid != clientid {
            (known.opens, known.locks) = Default::default();
        }
        known.clientid = clientid;
        // A client may not have more slots than one client may have.
        let Some(created) = created else { return };
        let sequences = vec![0; created.csr_fore_chan_attrs.ca_maxrequests as usize];
        (known.session, known.renewed) = (Some(Session { id: created.csr_sessionid, sequences }), self.now);
        if has_reclaimed {
            self.call(client, &Call::of(Work::ReclaimComplete));
        }
    }

    fn step(&mut self, step: &Step) {
        let client = usize::from(step.client) % CLIENTS;
        match &step.what {
            What::Call(call) | What::More(call) | What::Most(call) => drop(self.call(client, call)),
            What::Arrive { restarted, slots } => {
                if *restarted && self.clients[client].verifier < u8::MAX - 1 {
                    self.clients[client].verifier += 1;
                    self.clients[client].before = Before::default();
                }
                self.arrive(client, u32::from(slots % 8) + 1, *slots < 224);
            }
            What::DestroySession => {
                let Some(session) = self.clients[client].session.take() else { return };
                let destroy = nfs_argop4::DESTROY_SESSION(DESTROY_SESSION4args { dsa_sessionid: session.id });
                self.alone(client, &destroy, |_| {});
            }
            What::DestroyClient => {
                let dca_clientid = self.clients[client].clientid;
                let destroy = nfs_argop4::DESTROY_CLIENTID(DESTROY_CLIENTID4args { dca_clientid });
                let is_gone =
                    self.alone(client, &destroy, |result| matches!(result, nfs_resop4::DESTROY_CLIENTID(Ok(()))));
                let known = &mut self.clients[client];
                assert!(!is_gone || known.session.is_none(), "a client with a session is gone");
                if is_gone {
                    (known.session, known.opens, known.locks, known.before) = Default::default();
                }
            }
            What::Connect { is_bound } => {
                self.clients[client].connection = self.volume.connect(client as u8 + 1);
                if let (true, Some(session)) = (is_bound, self.clients[client].session.clone()) {
                    let bind = nfs_argop4::BIND_CONN_TO_SESSION(BIND_CONN_TO_SESSION4args {
                        bctsa_sessid: session.id,
                        bctsa_dir: direction::CDFC4_FORE,
                        bctsa_use_conn_in_rdma_mode: false,
                    });
                    self.alone(client, &bind, |_| {});
                }
            }
            What::Wait(parts) => {
                let passed = Fed::LEASE_NS / 16 * u64::from(parts % 24);
                self.now += passed;
                self.volume.pass(passed);
            }
            What::Restart => self.restart(),
            What::Recover { is_complete } => self.recover(client, *is_complete),
        }
    }

    fn restart(&mut self) {
        let is_over = self.now - self.started >= Fed::LEASE_NS;
        self.volume.restart();
        self.started = self.now;
        for (number, client) in self.clients.iter_mut().enumerate() {
            client.connection = self.volume.connect(number as u8 + 1);
            client.session = None;
            if is_over {
                client.before = Before::default();
            }
            let (opens, locks) = (std::mem::take(&mut client.opens), std::mem::take(&mut client.locks));
            if self.now - client.renewed <= Fed::LEASE_NS {
                client.before.opens.extend(opens);
                client.before.locks.extend(locks);
            }
        }
    }

    /// A client that comes back during the grace period has each open and lock again, unless the file was removed meanwhile.
    fn recover(&mut self, client: usize, is_complete: bool) {
        let before = std::mem::take(&mut self.clients[client].before);
        self.arrive(client, SLOTS, false);
        let is_owed = self.is_pure && self.now - self.started < Fed::LEASE_NS;
        let call = Call::of(Work::ReclaimComplete);
        for held in &before.opens {
            let status = self.carry_out(client, &call, reclaim(held));
            let is_kept = matches!(status, None | Some(nfsstat4::NFS4_OK | nfsstat4::NFS4ERR_STALE));
            assert!(is_kept || !is_owed, "an open is lost: {held:?} {status:?}");
        }
        for held in &before.locks {
            let Some(open) = self.clients[client].opens.iter().find(|open| open.handle == held.handle).cloned() else {
                continue;
            };
            let status = self.carry_out(client, &call, reclaim_lock(held, &open));
            // Part of the range may have been unlocked and be another client's, and another open the one that was locked by.
            let or_not = [nfsstat4::NFS4ERR_DENIED, nfsstat4::NFS4ERR_OPENMODE, nfsstat4::NFS4ERR_STALE];
            let is_kept = status.is_none_or(|status| status == nfsstat4::NFS4_OK || or_not.contains(&status));
            assert!(is_kept || !is_owed, "a lock is lost: {held:?} {status:?}");
        }
        if is_complete {
            self.call(client, &call);
        }
    }

    /// A COMPOUND in the client's session, and its status.
    fn call(&mut self, client: usize, call: &Call) -> Option<nfsstat4> {
        let (known, root) = (&self.clients[client], &self.handles[0]);
        let works = std::iter::once(&call.work).chain(call.more.iter().take(MORE_MAX));
        let operations = works.flat_map(|work| work.operations(known, root)).collect();
        self.carry_out(client, call, operations)
    }

    /// A COMPOUND of these operations, sent as the call says.
    fn carry_out(&mut self, client: usize, call: &Call, mut operations: Vec<Operation>) -> Option<nfsstat4> {
        let mut session = self.clients[client].session.clone()?;
        let slot = usize::from(call.slot) % session.sequences.len();
        let mut sequence = SEQUENCE4args {
            sa_sessionid: session.id,
            sa_sequenceid: session.sequences[slot].wrapping_add(1),
            sa_slotid: slot as u32,
            sa_highest_slotid: session.sequences.len() as u32 - 1,
            sa_cachethis: call.is_kept,
        };
        let is_sequence_changed = self.mutate(client, call, &mut sequence, &mut operations);
        self.is_pure &= call.mutation < MUTATION_MIN;
        self.xid += 1;
        let mut encoded = vec![to_bytes(&nfs_argop4::SEQUENCE(sequence))];
        encoded.extend(operations.iter().map(|operation| operation.bytes.clone()));
        let sent = record(self.xid, &encoded);
        let reply = self.send(client, &sent);
        let (status, found) = results(&reply, self.xid);
        count(&found, status);
        let known = &mut self.clients[client];
        match found.first() {
            Some(nfs_resop4::SEQUENCE(Ok(taken))) => {
                let expected = (sequence.sa_sessionid, sequence.sa_sequenceid, sequence.sa_slotid);
                assert_eq!((taken.sr_sessionid, taken.sr_sequenceid, taken.sr_slotid), expected);
                if is_sequence_changed {
                    // It was another call's, perhaps of another client.
                    self.note_sequence(&sequence);
                    return None;
                }
                session.sequences[slot] = sequence.sa_sequenceid;
                (known.session, known.renewed) = (Some(session), self.now);
                known.take(&operations, &found[1..], &mut self.handles);
            }
            _ if is_sequence_changed => return None,
            refused => {
                let is_expired = self.now - known.renewed > Fed::LEASE_NS;
                let is_ended = status == nfsstat4::NFS4ERR_BADSESSION;
                assert!(is_expired && is_ended, "a call in a valid session is refused: {refused:?} {status:?}");
                (known.session, known.opens, known.locks) = Default::default();
                return None;
            }
        }
        if call.is_kept && call.is_sent_again {
            let again = self.send(client, &sent);
            assert!(again == reply, "the same call has another reply");
        }
        Some(status)
    }

    fn note_sequence(&mut self, taken: &SEQUENCE4args) {
        let sessions = self.clients.iter_mut().filter_map(|client| client.session.as_mut());
        for session in sessions.filter(|session| session.id == taken.sa_sessionid) {
            session.sequences[taken.sa_slotid as usize] = taken.sa_sequenceid;
        }
    }

    /// Changes a part of the call, from [`MUTATION_MIN`] on; returns whether it is its SEQUENCE.
    fn mutate(
        &self,
        client: usize,
        call: &Call,
        sequence: &mut SEQUENCE4args,
        operations: &mut Vec<Operation>,
    ) -> bool {
        let other = &self.clients[(client + 1) % CLIENTS];
        let index = call.value as usize;
        match call.mutation {
            MUTATION_MIN => sequence.sa_slotid = call.value as u32,
            249 => sequence.sa_sequenceid = call.value as u32,
            250 => sequence.sa_sessionid[index % 16] ^= (call.value >> 8) as u8 | 1,
            251 => match &other.session {
                Some(session) => sequence.sa_sessionid = session.id,
                None => return false,
            },
            // A word of an operation is another one; it means what it means.
            252 | 253 => {
                let count = operations.len().max(1);
                if let Some(operation) = operations.get_mut(index % count) {
                    let words = operation.bytes.len() / 4;
                    let at = (index / count % words) * 4;
                    operation.bytes[at..at + 4].copy_from_slice(&((call.value >> 32) as u32).to_be_bytes());
                    operation.brings = Brings::Nothing;
                }
                return false;
            }
            // State and files of another client.
            254 => {
                if let Some(held) = pick(&other.opens, call.value as u8) {
                    let close = nfs_argop4::CLOSE(CLOSE4args { seqid: 0, open_stateid: held.stateid });
                    let foreign = [put(&held.handle), Operation { brings: Brings::Nothing, ..close.into() }];
                    operations.splice(..0, foreign);
                }
                return false;
            }
            255 => {
                if let Some(handle) = self.handles.get(index % self.handles.len()) {
                    operations.insert(0, put(handle));
                }
                return false;
            }
            _ => return false,
        }
        true
    }

    /// The tables hold what clients have, and no more than they may.
    fn check(&self) {
        self.volume.check_state();
        assert!(self.volume.used_bytes() <= Fed::QUOTA_BYTES);
    }

    /// After all leases have expired, another client has each file for itself.
    fn leave(&mut self) {
        let passed = 3 * Fed::LEASE_NS;
        self.now += passed;
        self.volume.pass(passed);
        self.clients[0] = Client { connection: self.clients[0].connection, verifier: u8::MAX, ..Client::default() };
        self.arrive(0, SLOTS, true);
        for at in 0..NAMES.len() as u8 {
            let open = Work::Open { name: at, owner: 0, access: 3, deny: 203, how: 3 };
            let status = self.call(0, &Call::of(open));
            assert_ne!(status, Some(nfsstat4::NFS4ERR_SHARE_DENIED), "an expired client is in the way");
            assert_ne!(status, Some(nfsstat4::NFS4ERR_DELAY), "there is no room");
            assert_ne!(status, Some(nfsstat4::NFS4ERR_GRACE), "the grace period has no end");
        }
    }
}

impl Client {
    /// Takes what the results bring.
    fn take(&mut self, operations: &[Operation], found: &[nfs_resop4<'_>], handles: &mut Vec<Vec<u8>>) {
        let (mut opened, mut current) = (None, stateid4::CURRENT.other);
        for (operation, result) in operations.iter().zip(found) {
            if let nfs_resop4::GETFH(Ok(handle)) = result {
                handles.push(handle.object.0.to_vec());
                if let Some((stateid, owner, share)) = opened.take() {
                    note_open(
                        &mut self.opens,
                        Held { stateid, handle: handle.object.0.to_vec(), owner, share, lock: NO_LOCK },
                    );
                }
            }
            match (&operation.brings, result) {
                (Brings::Open(owner, share), nfs_resop4::OPEN(Ok(result))) => {
                    (opened, current) = (Some((result.stateid, *owner, *share)), result.stateid.other);
                }
                (Brings::Lock(held), nfs_resop4::LOCK(Ok(result))) => {
                    note(&mut self.locks, Held { stateid: result.lock_stateid, ..held.clone() });
                }
                (Brings::Change, nfs_resop4::LOCKU(Ok(stateid))) => {
                    self.locks.iter_mut().filter(|held| held.stateid.other == stateid.other).for_each(|held| {
                        held.stateid = *stateid;
                    });
                }
                (Brings::Share(share), nfs_resop4::OPEN_DOWNGRADE(Ok(stateid))) => {
                    self.opens.iter_mut().filter(|held| held.stateid.other == stateid.other).for_each(|held| {
                        (held.stateid, held.share) = (*stateid, *share);
                    });
                }
                (Brings::End(other), nfs_resop4::CLOSE(Ok(_)) | nfs_resop4::FREE_STATEID(Ok(()))) => {
                    // The current state is that of the last OPEN.
                    let other = if *other == stateid4::CURRENT.other { current } else { *other };
                    self.opens.retain(|held| held.stateid.other != other);
                    self.locks.retain(|held| held.stateid.other != other);
                }
                (_, nfs_resop4::RECLAIM_COMPLETE(Ok(()))) => self.before = Before::default(),
                _ => {}
            }
        }
    }
}

const NO_LOCK: (u64, u64, bool) = (0, 0, false);

/// Notes an open. Another OPEN of the same owner adds to its share.
fn note_open(all: &mut Vec<Held>, held: Held) {
    let before = all.iter().find(|known| known.stateid.other == held.stateid.other);
    let (access, deny) = before.map_or((0, 0), |known| known.share);
    let share = (access | held.share.0, deny | held.share.1);
    note(all, Held { share, ..held });
}

/// Notes a state, in the place of the same one with an earlier seqid.
fn note(all: &mut Vec<Held>, held: Held) {
    match all.iter_mut().find(|known| known.stateid.other == held.stateid.other) {
        Some(known) => *known = held,
        None => all.push(held),
    }
}

fuzz_target!(|conversation: Conversation| {
    // Most calls arrive whole: the other targets look for their pieces.
    let grain = if conversation.grain % 8 == 0 { usize::from(conversation.grain / 8).max(1) } else { usize::MAX };
    let mut table = Table::new(grain);
    for step in conversation.steps.iter().take(STEPS_MAX) {
        table.step(step);
        table.check();
    }
    table.leave();
    table.check();
});
