//! A small server of `NFSv4.1`, which keeps sessions as the RFC says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use iocurve_wire::nfs4::attributes::{Attributes, bitmap4, fattr4};
use iocurve_wire::nfs4::operations::{
    BIND_CONN_TO_SESSION4resok, COMMIT4resok, CREATE_SESSION4resok, EXCHANGE_ID4resok, GETATTR4resok, GETFH4resok,
    OPEN4args, OPEN4resok, READ4resok, READDIR4resok, REMOVE4resok, SEQUENCE4args, SEQUENCE4resok, SETATTR4res,
    TEST_STATEID4resok, WRITE4resok, dirlist4, entry4, nfs_argop4, nfs_resop4, open_claim4, open_delegation4,
    openflag4, state_protect4_r,
};
use iocurve_wire::nfs4::{
    change_info4, channel_attrs4, compound4_head, compound4_result_head, nfs_fh4, nfs_ftype4, nfs_opnum4, nfsstat4,
    owner_name4, server_owner4, sessionid4, stateid4,
};
use iocurve_wire::rpc::CallHeader;
use iocurve_wire::xdr::{Decode, Encode, List, Reader, Writer, from_bytes, to_bytes};

use nfsstat4::*;

use super::super::super::tests::scripted::{self, Files, Program, Reaction, Script, is_directory, marked, reply};

/// A call, for scripts and for later checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// Number of the connection, in the order of acceptance.
    pub connection: usize,
    pub xid: u32,
    /// The last operation of the COMPOUND.
    pub operation: nfs_opnum4,
    /// SEQUENCE's; 0 without one.
    pub slot: u32,
    pub sequence: u32,
}

/// The reaction of a script to READ, WRITE, COMMIT and SEQUENCE alone.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Act {
    #[default]
    Answer,
    /// SEQUENCE fails.
    FailSequence(nfsstat4),
    /// All succeed but the last operation, which is not executed.
    Fail(nfsstat4),
    /// This operation fails and is not executed; those behind it are not either.
    FailAt(nfs_opnum4, nfsstat4),
    /// Answers each READDIR as the first one.
    ListAgain,
    /// Closes the connection; the call is not executed.
    Close,
    /// Executes the call and closes the connection before the reply.
    LoseReply,
    Silence,
    /// Forgets clients, sessions and opens, as a restart does.
    Restart,
    /// Executes the call, restarts, and closes the connection before the reply.
    RestartAfter,
    /// Forgets opens, as after an expired lease of a client whose session is kept.
    Revoke,
}

pub(super) type Server = scripted::Server<Shared>;

pub(super) struct Shared {
    pub files: Files,
    seen: Vec<Seen>,
    /// Names of claims of OPEN, and `RECLAIM_COMPLETE`, in order.
    pub opened: Vec<&'static str>,
    clients: BTreeMap<u64, (Vec<u8>, u32)>,
    sessions: BTreeMap<sessionid4, Session>,
    opens: BTreeMap<[u8; 12], String>,
    script: Script<Self>,
    /// Acts at set-up: the next call with the first one's operation is treated so.
    pub at_setup: VecDeque<(nfs_opnum4, Act)>,
    /// Replies are kept even if the client does not ask for it.
    pub keeps_replies: bool,
    /// `CLAIM_PREVIOUS` is refused with this.
    pub no_reclaim: Option<nfsstat4>,
    /// Calls that were executed in sessions.
    pub sequenced: u64,
    /// OPENs that are answered by GRACE first.
    pub grace: u32,
    pub slots: u32,
    pub lease_s: u32,
    lists_again: bool,
    next: u64,
}

struct Session {
    clientid: u64,
    slots: Vec<Slot>,
    connections: BTreeSet<usize>,
}

#[derive(Clone, Default)]
struct Slot {
    /// Sequence id of the last call.
    last: u32,
    /// Its results, if they are kept.
    kept: Vec<u8>,
}

impl Server {
    /// Clients, sessions and opens that it keeps.
    pub(super) fn kept(&self) -> [usize; 3] {
        self.lock().kept()
    }

    /// Connections of each session.
    pub(super) fn connections(&self) -> Vec<usize> {
        self.lock().connections()
    }
}

impl Program for Shared {
    const VERSION: u32 = 4;

    type Seen = Seen;
    type Act = Act;

    fn new(script: Script<Self>) -> Self {
        Self {
            files: Files::new(),
            seen: Vec::new(),
            opened: Vec::new(),
            clients: BTreeMap::new(),
            sessions: BTreeMap::new(),
            opens: BTreeMap::new(),
            script,
            at_setup: VecDeque::new(),
            keeps_replies: false,
            no_reclaim: None,
            sequenced: 0,
            grace: 0,
            slots: 8,
            lease_s: 90,
            lists_again: false,
            next: 1,
        }
    }

    fn files(&mut self) -> &mut Files {
        &mut self.files
    }

    /// Calls of READ, WRITE, COMMIT and SEQUENCE alone.
    fn seen(&self) -> &[Seen] {
        &self.seen
    }

    fn steps(record: &[u8]) -> Vec<&'static str> {
        let (_, operations) = parse(record);
        operations.iter().map(|operation| number(operation).name().trim_start_matches("OP_")).collect()
    }

    fn act(&mut self, connection: usize, record: &[u8]) -> Act {
        let (xid, operations) = parse(record);
        self.decide(connection, xid, &operations)
    }

    fn react(&mut self, connection: usize, record: &[u8], act: Act) -> Reaction {
        let (xid, operations) = parse(record);
        match self.compound(connection, &operations, act) {
            Ok(results) => Reaction::Send(marked(&reply(xid, &results))),
            Err(Act::Silence) => Reaction::Silence,
            Err(_) => Reaction::Close,
        }
    }
}

impl Shared {
    /// Clients, sessions and opens that it keeps.
    pub(super) fn kept(&self) -> [usize; 3] {
        [self.clients.len(), self.sessions.len(), self.opens.len()]
    }

    /// Connections of each session.
    pub(super) fn connections(&self) -> Vec<usize> {
        self.sessions.values().map(|session| session.connections.len()).collect()
    }

    fn decide(&mut self, connection: usize, xid: u32, operations: &[nfs_argop4<'_>]) -> Act {
        let last = number(operations.last().unwrap());
        let sequence = match operations[0] {
            nfs_argop4::SEQUENCE(sequence) => Some(sequence),
            _ => None,
        };
        let seen = Seen {
            connection,
            xid,
            operation: last,
            slot: sequence.map_or(0, |sequence| sequence.sa_slotid),
            sequence: sequence.map_or(0, |sequence| sequence.sa_sequenceid),
        };
        let is_load = matches!(
            last,
            nfs_opnum4::OP_READ | nfs_opnum4::OP_WRITE | nfs_opnum4::OP_COMMIT | nfs_opnum4::OP_SEQUENCE
        );
        if is_load {
            self.seen.push(seen);
            return (self.script)(seen);
        }
        let numbers: Vec<nfs_opnum4> = operations.iter().map(number).collect();
        match self.at_setup.front() {
            Some((operation, act)) if numbers.contains(operation) => {
                let act = *act;
                self.at_setup.pop_front();
                act
            }
            _ => Act::Answer,
        }
    }

    /// The results, or the act that takes their place.
    fn compound(&mut self, connection: usize, operations: &[nfs_argop4<'_>], act: Act) -> Result<Vec<u8>, Act> {
        match act {
            Act::Restart => self.restart(),
            Act::ListAgain => self.lists_again = true,
            Act::Revoke => self.opens.clear(),
            Act::FailSequence(status) => {
                return Ok(results(&[nfs_resop4::SEQUENCE(Err(status))], status));
            }
            Act::Close | Act::Silence => return Err(act),
            _ => {}
        }
        let first = match operations[0] {
            nfs_argop4::SEQUENCE(first) => Some(first),
            _ => None,
        };
        if let Some(kept) = first.and_then(|first| self.kept_reply(&first)) {
            return Ok(kept);
        }
        let mut run = Vec::new();
        let mut status = NFS4_OK;
        let mut current = String::new();
        let mut buffers = Vec::new();
        for operation in operations {
            let (at, is_last) = (number(operation), buffers.len() + 1 == operations.len());
            let (bytes, outcome) = match act {
                Act::Fail(status) if is_last && at != nfs_opnum4::OP_SEQUENCE => failed(at, status),
                Act::FailAt(failing, status) if at == failing => failed(at, status),
                _ => self.operation(connection, operation, &mut current),
            };
            buffers.push(bytes);
            status = outcome;
            if status != NFS4_OK {
                break;
            }
        }
        let head = compound4_result_head { status, tag: &[], count: buffers.len() as u32 };
        run.extend(to_bytes(&head));
        for bytes in &buffers {
            run.extend(bytes);
        }
        if let Some(first) = first.filter(|first| first.sa_cachethis || self.keeps_replies)
            && let Some(session) = self.sessions.get_mut(&first.sa_sessionid)
            && let Some(slot) = session.slots.get_mut(first.sa_slotid as usize)
        {
            slot.kept = run.clone();
        }
        match act {
            Act::LoseReply => Err(act),
            Act::RestartAfter => {
                self.restart();
                Err(act)
            }
            _ => Ok(run),
        }
    }

    /// The reply to a call that is repeated, if it was kept.
    fn kept_reply(&self, call: &SEQUENCE4args) -> Option<Vec<u8>> {
        let slot = self.sessions.get(&call.sa_sessionid)?.slots.get(call.sa_slotid as usize)?;
        (slot.last == call.sa_sequenceid && !slot.kept.is_empty()).then(|| slot.kept.clone())
    }

    fn restart(&mut self) {
        self.clients.clear();
        self.sessions.clear();
        self.opens.clear();
    }

    #[allow(clippy::too_many_lines)] // one arm for each operation
    fn operation(
        &mut self,
        connection: usize,
        operation: &nfs_argop4<'_>,
        current: &mut String,
    ) -> (Vec<u8>, nfsstat4) {
        macro_rules! done {
            ($variant:ident, $result:expr) => {{
                let result = $result;
                let status = result.as_ref().err().copied().unwrap_or(NFS4_OK);
                (to_bytes(&nfs_resop4::$variant(result)), status)
            }};
        }
        match operation {
            nfs_argop4::EXCHANGE_ID(arguments) => {
                let owner = arguments.eia_clientowner.co_ownerid.0.to_vec();
                let clientid = self.take_number();
                self.clients.retain(|_, (known, _)| *known != owner);
                self.clients.insert(clientid, (owner, 1));
                done!(
                    EXCHANGE_ID,
                    Ok::<_, nfsstat4>(EXCHANGE_ID4resok {
                        eir_clientid: clientid,
                        eir_sequenceid: 1,
                        eir_flags: 0,
                        eir_state_protect: state_protect4_r::SP4_NONE(()),
                        eir_server_owner: server_owner4 { so_minor_id: 0, so_major_id: owner_name4(b"test") },
                        eir_server_scope: owner_name4(b"test"),
                        eir_server_impl_id: None,
                    })
                )
            }
            nfs_argop4::CREATE_SESSION(arguments) => {
                let (clientid, sequence) = (arguments.csa_clientid, arguments.csa_sequence);
                done!(CREATE_SESSION, self.create_session(clientid, sequence, arguments.csa_fore_chan_attrs))
            }
            nfs_argop4::BIND_CONN_TO_SESSION(arguments) => {
                let session = arguments.bctsa_sessid;
                let bound = self.sessions.get_mut(&session).ok_or(NFS4ERR_BADSESSION).map(|known| {
                    known.connections.insert(connection);
                    BIND_CONN_TO_SESSION4resok {
                        bctsr_sessid: session,
                        bctsr_dir: 1,
                        bctsr_use_conn_in_rdma_mode: false,
                    }
                });
                done!(BIND_CONN_TO_SESSION, bound)
            }
            nfs_argop4::DESTROY_SESSION(arguments) => {
                done!(
                    DESTROY_SESSION,
                    self.sessions.remove(&arguments.dsa_sessionid).map(drop).ok_or(NFS4ERR_BADSESSION)
                )
            }
            nfs_argop4::DESTROY_CLIENTID(arguments) => {
                let clientid = arguments.dca_clientid;
                let busy = !self.opens.is_empty() || self.sessions.values().any(|one| one.clientid == clientid);
                let destroyed = if busy { Err(NFS4ERR_CLIENTID_BUSY) } else { Ok(()) };
                if !busy {
                    self.clients.remove(&clientid);
                }
                done!(DESTROY_CLIENTID, destroyed)
            }
            nfs_argop4::SEQUENCE(arguments) => done!(SEQUENCE, self.sequence(connection, arguments)),
            nfs_argop4::RECLAIM_COMPLETE(_) => {
                self.opened.push("RECLAIM_COMPLETE");
                done!(RECLAIM_COMPLETE, Ok::<_, nfsstat4>(()))
            }
            nfs_argop4::PUTROOTFH(()) => {
                "/".clone_into(current);
                done!(PUTROOTFH, Ok::<_, nfsstat4>(()))
            }
            nfs_argop4::PUTFH(arguments) => {
                *current = String::from_utf8(arguments.object.0.to_vec()).unwrap();
                done!(PUTFH, Ok::<_, nfsstat4>(()))
            }
            nfs_argop4::GETFH(()) => {
                done!(GETFH, Ok::<_, nfsstat4>(GETFH4resok { object: nfs_fh4(current.as_bytes()) }))
            }
            nfs_argop4::LOOKUP(arguments) => done!(LOOKUP, self.lookup(current, arguments.objname)),
            nfs_argop4::GETATTR(_) => {
                let is_file = self.files.contains_key(current.as_str());
                let known = Attributes {
                    file_type: Some(if is_file { nfs_ftype4::NF4REG } else { nfs_ftype4::NF4DIR }),
                    size: Some(self.files.get(current.as_str()).map_or(0, Vec::len) as u64),
                    lease_time: Some(self.lease_s),
                    maxread: Some(1 << 20),
                    maxwrite: Some(1 << 20),
                    ..Attributes::default()
                };
                let encoded = to_bytes(&known);
                let obj_attributes: fattr4<'_> = from_bytes(&encoded).unwrap();
                done!(GETATTR, Ok::<_, nfsstat4>(GETATTR4resok { obj_attributes }))
            }
            nfs_argop4::OPEN(arguments) => done!(OPEN, self.open(arguments, current)),
            nfs_argop4::CLOSE(arguments) => {
                let closed = self.opens.remove(&arguments.open_stateid.other).ok_or(NFS4ERR_BAD_STATEID);
                done!(CLOSE, closed.map(|_| arguments.open_stateid))
            }
            nfs_argop4::REMOVE(arguments) => {
                let name = String::from_utf8(arguments.target.to_vec()).unwrap();
                let removed = self.files.remove(&name).ok_or(NFS4ERR_NOENT);
                done!(REMOVE, removed.map(|_| REMOVE4resok { cinfo: change_info4::default() }))
            }
            nfs_argop4::SETATTR(arguments) => {
                let size = arguments.obj_attributes.values().unwrap().size.expect("only sizes are set");
                self.files.get_mut(current.as_str()).unwrap().resize(size as usize, 0);
                let set = SETATTR4res { status: NFS4_OK, attrsset: arguments.obj_attributes.attrmask };
                (to_bytes(&nfs_resop4::SETATTR(set)), NFS4_OK)
            }
            nfs_argop4::TEST_STATEID(arguments) => {
                let status = |stateid: &stateid4| {
                    if self.opens.contains_key(&stateid.other) { NFS4_OK } else { NFS4ERR_EXPIRED }
                };
                let tsr_status_codes = arguments.ts_stateids.iter().map(status).collect();
                done!(TEST_STATEID, Ok::<_, nfsstat4>(TEST_STATEID4resok { tsr_status_codes }))
            }
            nfs_argop4::FREE_STATEID(_) => {
                self.opened.push("FREE_STATEID");
                done!(FREE_STATEID, Ok::<_, nfsstat4>(()))
            }
            nfs_argop4::READ(arguments) => {
                let read = self.check_open(arguments.stateid).map(|name| {
                    let (data, eof) = scripted::read(&self.files[&name], arguments.offset, arguments.count);
                    READ4resok { eof, data }
                });
                done!(READ, read)
            }
            nfs_argop4::WRITE(arguments) => {
                let written = self.check_open(arguments.stateid).map(|name| {
                    scripted::write(self.files.get_mut(&name).unwrap(), arguments.offset, arguments.data);
                    WRITE4resok { count: arguments.data.len() as u32, committed: arguments.stable, writeverf: [1; 8] }
                });
                done!(WRITE, written)
            }
            nfs_argop4::COMMIT(_) => {
                done!(COMMIT, Ok::<_, nfsstat4>(COMMIT4resok { writeverf: [1; 8] }))
            }
            nfs_argop4::READDIR(arguments) => {
                // Two replies: one with each file's name, and one with the end alone.
                let is_end = arguments.cookie > 0 && !self.lists_again;
                let names = self.files.keys().filter(|_| !is_end).enumerate();
                let attrs = fattr4 { attrmask: bitmap4::default(), attr_vals: &[] };
                let entries = names.map(|(at, name)| entry4 { cookie: at as u64 + 3, name: name.as_bytes(), attrs });
                let reply = dirlist4 { entries: List(entries.collect()), eof: is_end };
                done!(READDIR, Ok::<_, nfsstat4>(READDIR4resok { cookieverf: [0; 8], reply }))
            }
            other => panic!("{other:?} is not for tests"),
        }
    }

    fn create_session(
        &mut self,
        clientid: u64,
        sequence: u32,
        channel: channel_attrs4,
    ) -> Result<CREATE_SESSION4resok, nfsstat4> {
        let (_, expected) = self.clients.get_mut(&clientid).ok_or(NFS4ERR_STALE_CLIENTID)?;
        if sequence != *expected && sequence + 1 != *expected {
            return Err(NFS4ERR_SEQ_MISORDERED);
        }
        let is_repeated = sequence != *expected;
        *expected = sequence + 1;
        let of_client = self.sessions.iter().find(|(_, session)| session.clientid == clientid).map(|(id, _)| *id);
        let mut id = [0; 16];
        match of_client.filter(|_| is_repeated) {
            Some(before) => id = before,
            None => id[..8].copy_from_slice(&self.take_number().to_be_bytes()),
        }
        let slots = self.slots.min(channel.ca_maxrequests);
        let session = Session { clientid, slots: vec![Slot::default(); slots as usize], connections: BTreeSet::new() };
        self.sessions.insert(id, session);
        let channel = channel_attrs4 { ca_maxrequests: slots, ..channel };
        Ok(CREATE_SESSION4resok {
            csr_sessionid: id,
            csr_sequence: sequence,
            csr_flags: 0,
            csr_fore_chan_attrs: channel,
            csr_back_chan_attrs: channel,
        })
    }

    fn sequence(&mut self, connection: usize, arguments: &SEQUENCE4args) -> Result<SEQUENCE4resok, nfsstat4> {
        let session = self.sessions.get_mut(&arguments.sa_sessionid).ok_or(NFS4ERR_BADSESSION)?;
        session.connections.insert(connection);
        let slot = session.slots.get_mut(arguments.sa_slotid as usize).ok_or(NFS4ERR_BADSLOT)?;
        match arguments.sa_sequenceid.wrapping_sub(slot.last) {
            0 => return Err(NFS4ERR_RETRY_UNCACHED_REP),
            1 => *slot = Slot { last: arguments.sa_sequenceid, kept: Vec::new() },
            _ => return Err(NFS4ERR_SEQ_MISORDERED),
        }
        self.sequenced += 1;
        Ok(SEQUENCE4resok {
            sr_sessionid: arguments.sa_sessionid,
            sr_sequenceid: arguments.sa_sequenceid,
            sr_slotid: arguments.sa_slotid,
            sr_highest_slotid: arguments.sa_highest_slotid,
            sr_target_highest_slotid: arguments.sa_highest_slotid,
            sr_status_flags: 0,
        })
    }

    fn lookup(&self, current: &mut String, name: &[u8]) -> Result<(), nfsstat4> {
        let name = String::from_utf8(name.to_vec()).unwrap();
        let found = match current.as_str() {
            "/" if name == "vol" => "vol/".to_owned(),
            "/" => return Err(NFS4ERR_NOENT),
            "vol/" => name,
            directory => format!("{directory}/{name}"),
        };
        let is_known = found == "vol/" || is_directory(&self.files, &found) || self.files.contains_key(&found);
        if !is_known {
            return Err(NFS4ERR_NOENT);
        }
        *current = found;
        Ok(())
    }

    fn open(&mut self, arguments: &OPEN4args<'_>, current: &mut String) -> Result<OPEN4resok, nfsstat4> {
        self.opened.push(match arguments.claim {
            open_claim4::CLAIM_NULL(_) => "CLAIM_NULL",
            open_claim4::CLAIM_PREVIOUS(_) => "CLAIM_PREVIOUS",
            open_claim4::CLAIM_FH(()) => "CLAIM_FH",
            _ => "another claim",
        });
        if self.grace > 0 {
            self.grace -= 1;
            return Err(NFS4ERR_GRACE);
        }
        match (arguments.claim, self.no_reclaim) {
            (open_claim4::CLAIM_PREVIOUS(_), Some(status)) => return Err(status),
            (open_claim4::CLAIM_NULL(name), _) => *current = String::from_utf8(name.to_vec()).unwrap(),
            _ => {}
        }
        if let openflag4::OPEN4_CREATE(_) = arguments.openhow {
            if self.files.contains_key(current.as_str()) {
                return Err(NFS4ERR_EXIST);
            }
            self.files.insert(current.clone(), Vec::new());
        }
        let mut other = [0; 12];
        other[..8].copy_from_slice(&self.take_number().to_be_bytes());
        self.opens.insert(other, current.clone());
        Ok(OPEN4resok {
            stateid: stateid4 { seqid: 1, other },
            cinfo: change_info4::default(),
            rflags: 0,
            attrset: bitmap4::default(),
            delegation: open_delegation4::OPEN_DELEGATE_NONE(()),
        })
    }

    fn check_open(&self, stateid: stateid4) -> Result<String, nfsstat4> {
        self.opens.get(&stateid.other).cloned().ok_or(NFS4ERR_EXPIRED)
    }

    fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

fn number(operation: &nfs_argop4<'_>) -> nfs_opnum4 {
    nfs_opnum4::from_u32(operation.discriminant()).unwrap()
}

/// The result of an operation that failed.
fn failed(operation: nfs_opnum4, status: nfsstat4) -> (Vec<u8>, nfsstat4) {
    ([operation as u32, status as u32].map(u32::to_be_bytes).concat(), status)
}

/// The xid and the operations of a call.
fn parse(record: &[u8]) -> (u32, Vec<nfs_argop4<'_>>) {
    let mut reader = Reader::new(record);
    let header = CallHeader::decode(&mut reader).unwrap();
    let head = compound4_head::decode(&mut reader).unwrap();
    (header.xid, (0..head.count).map(|_| nfs_argop4::decode(&mut reader).unwrap()).collect())
}

fn results(results: &[nfs_resop4<'_>], status: nfsstat4) -> Vec<u8> {
    let mut bytes = to_bytes(&compound4_result_head { status, tag: &[], count: results.len() as u32 });
    let mut writer = Writer::new(&mut bytes);
    for result in results {
        result.encode(&mut writer);
    }
    bytes
}
