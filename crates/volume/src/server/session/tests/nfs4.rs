//! NFSv4.1 over the pipe: COMPOUNDs as clients send them.

use iocurve_wire::nfs4::attributes::{Attributes, FATTR4_SIZE, FATTR4_TYPE, bitmap4, fattr4};
use iocurve_wire::nfs4::operations::share::*;
use iocurve_wire::nfs4::operations::*;
use iocurve_wire::nfs4::{
    NFS_V4, NFSPROC4_COMPOUND, channel_attrs4, client_owner4, compound4_head, compound4_result_head, nfs_fh4, nfsstat4,
    owner_name4, sessionid4, state_owner4, stateid4,
};

use super::*;

/// A client with one session.
struct Client {
    server: Server,
    session: sessionid4,
    /// Sequence id of the last call in slot 0.
    sequence: u32,
}

/// Status and results of a COMPOUND.
type Reply = (nfsstat4, Vec<Vec<u8>>);

const SLOTS: u32 = 4;

impl Client {
    fn new(limits: Limits) -> Self {
        let mut server = Server::new(limits);
        let session = new_session(&mut server, b"client");
        let mut client = Self { server, session, sequence: 0 };
        client.ok(&[nfs_argop4::RECLAIM_COMPLETE(RECLAIM_COMPLETE4args { rca_one_fs: false })]);
        client
    }

    /// Sends a COMPOUND in the next sequence of slot 0.
    fn send(&mut self, operations: &[nfs_argop4<'_>]) {
        self.sequence += 1;
        self.send_as((0, self.sequence, false), operations);
    }

    fn send_as(&mut self, (slot, sequence, cachethis): (u32, u32, bool), operations: &[nfs_argop4<'_>]) {
        let first = nfs_argop4::SEQUENCE(SEQUENCE4args {
            sa_sessionid: self.session,
            sa_sequenceid: sequence,
            sa_slotid: slot,
            sa_highest_slotid: slot,
            sa_cachethis: cachethis,
        });
        send_compound(&mut self.server, &[&[first], operations].concat());
    }

    fn compound(&mut self, operations: &[nfs_argop4<'_>]) -> Reply {
        self.send(operations);
        reply(&mut self.server)
    }

    fn compound_as(&mut self, slot: (u32, u32, bool), operations: &[nfs_argop4<'_>]) -> Reply {
        self.send_as(slot, operations);
        reply(&mut self.server)
    }

    /// Results of operations that all succeed, without that of SEQUENCE.
    fn ok(&mut self, operations: &[nfs_argop4<'_>]) -> Vec<Vec<u8>> {
        let (status, results) = self.compound(operations);
        assert_eq!(status, nfsstat4::NFS4_OK, "{operations:?}");
        results[1..].to_vec()
    }

    fn root(&self) -> nfs_fh3 {
        self.server.files().root()
    }

    /// Opens a file, new or not, and returns its handle and state id.
    fn open(&mut self, owner: &[u8], name: &[u8]) -> (nfs_fh3, stateid4) {
        let results = self.ok(&open(&self.root(), owner, name, (OPEN4_SHARE_ACCESS_BOTH, 0)));
        let opened: Result<OPEN4resok, nfsstat4> = from_bytes(&results[1]).unwrap();
        let handle: Result<GETFH4resok<'_>, nfsstat4> = from_bytes(&results[2]).unwrap();
        (nfs_fh3::new(handle.unwrap().object.0).unwrap(), opened.unwrap().stateid)
    }

    fn read(&mut self, file: &nfs_fh3, stateid: stateid4, offset: u64, count: u32) -> Vec<u8> {
        let results = self.ok(&[putfh(file), nfs_argop4::READ(READ4args { stateid, offset, count })]);
        let read: Result<READ4resok<'_>, nfsstat4> = from_bytes(&results[1]).unwrap();
        read.unwrap().data.to_vec()
    }
}

fn putfh(file: &nfs_fh3) -> nfs_argop4<'_> {
    nfs_argop4::PUTFH(PUTFH4args { object: nfs_fh4(file.as_bytes()) })
}

fn open<'a>(
    directory: &'a nfs_fh3,
    owner: &'a [u8],
    name: &'a [u8],
    (access, deny): (u32, u32),
) -> [nfs_argop4<'a>; 3] {
    let createattrs = fattr4 { attrmask: bitmap4::default(), attr_vals: &[] };
    let open = OPEN4args {
        seqid: 0,
        share_access: access,
        share_deny: deny,
        owner: state_owner4 { clientid: 0, owner: owner_name4(owner) },
        openhow: openflag4::OPEN4_CREATE(createhow4::UNCHECKED4(createattrs)),
        claim: open_claim4::CLAIM_NULL(name),
    };
    [putfh(directory), nfs_argop4::OPEN(open), nfs_argop4::GETFH(())]
}

fn write(stateid: stateid4, offset: u64, data: &[u8]) -> nfs_argop4<'_> {
    nfs_argop4::WRITE(WRITE4args { stateid, offset, stable: stable_how::FILE_SYNC, data })
}

fn remove(name: &[u8]) -> nfs_argop4<'_> {
    nfs_argop4::REMOVE(REMOVE4args { target: name })
}

fn exchange_id(owner: &[u8]) -> nfs_argop4<'_> {
    nfs_argop4::EXCHANGE_ID(EXCHANGE_ID4args {
        eia_clientowner: client_owner4 { co_verifier: [1; 8], co_ownerid: owner_name4(owner) },
        eia_flags: 0,
        eia_state_protect: state_protect4_a::SP4_NONE(()),
        eia_client_impl_id: None,
    })
}

fn new_session(server: &mut Server, owner: &[u8]) -> sessionid4 {
    send_compound(server, &[exchange_id(owner)]);
    let results = reply(server).1;
    create_session(server, &results[0])
}

/// Makes a session of the client that the result of `EXCHANGE_ID` names.
fn create_session(server: &mut Server, exchanged: &[u8]) -> sessionid4 {
    let exchanged: Result<EXCHANGE_ID4resok<'_>, nfsstat4> = from_bytes(exchanged).unwrap();
    let channel = channel_attrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: 1 << 21,
        ca_maxresponsesize: 1 << 21,
        ca_maxresponsesize_cached: 1 << 12,
        ca_maxoperations: 16,
        ca_maxrequests: SLOTS,
        ca_rdma_ird: None,
    };
    let create = nfs_argop4::CREATE_SESSION(CREATE_SESSION4args {
        csa_clientid: exchanged.unwrap().eir_clientid,
        csa_sequence: 1,
        csa_flags: 0,
        csa_fore_chan_attrs: channel,
        csa_back_chan_attrs: channel,
        csa_cb_program: 0,
        csa_sec_parms: vec![callback_sec_parms4::AUTH_NONE(())],
    });
    send_compound(server, &[create]);
    let results = reply(server).1;
    let created: Result<CREATE_SESSION4resok, nfsstat4> = from_bytes(&results[0]).unwrap();
    created.unwrap().csr_sessionid
}

/// Arguments of a COMPOUND.
struct Compound<'a>(&'a [nfs_argop4<'a>]);

impl Encode for Compound<'_> {
    fn encode(&self, writer: &mut iocurve_wire::xdr::Writer<'_>) {
        compound4_head { tag: b"tag", minorversion: 1, count: self.0.len() as u32 }.encode(writer);
        self.0.iter().for_each(|operation| operation.encode(writer));
    }
}

fn send_compound(server: &mut Server, operations: &[nfs_argop4<'_>]) {
    server.xid += 1;
    let record = call(server.xid, (NFS_PROGRAM, NFS_V4, NFSPROC4_COMPOUND), &Compound(operations));
    server.send(&record);
}

/// The only reply that has arrived.
fn reply(server: &mut Server) -> Reply {
    let result = server.result();
    parse(&result)
}

fn parse(result: &[u8]) -> Reply {
    let mut reader = Reader::new(result);
    let head = compound4_result_head::decode(&mut reader).unwrap();
    assert_eq!(head.tag, b"tag");
    let result = |_| {
        let operation = reader.clone().u32().unwrap();
        let before = reader.rest();
        nfs_resop4::decode(&mut reader).unwrap_or_else(|error| panic!("result of operation {operation}: {error}"));
        before[4..before.len() - reader.rest().len()].to_vec()
    };
    let results = (0..head.count).map(result).collect();
    reader.finish().unwrap();
    (head.status, results)
}

fn status(result: &[u8]) -> nfsstat4 {
    nfsstat4::decode(&mut Reader::new(result)).unwrap()
}

#[test]
fn a_file_is_opened_written_read_and_closed() {
    for grain in [1, 1000, usize::MAX] {
        let mut client = Client::new(Limits::default());
        client.server.pipe.grain = grain;
        let (file, stateid) = client.open(b"owner", b"f");
        let data = pattern(if grain == 1 { 20_000 } else { 1 << 20 });
        client.ok(&[putfh(&file), write(stateid, 5, &data)]);
        assert_eq!(client.read(&file, stateid, 5, 1 << 20), data);
        assert_eq!(client.read(&file, stateid, 0, 6), [0, 0, 0, 0, 0, data[0]]);
        let close = nfs_argop4::CLOSE(CLOSE4args { seqid: 0, open_stateid: stateid });
        let asked = bitmap4::of(&[FATTR4_TYPE, FATTR4_SIZE]);
        let results = client.ok(&[putfh(&file), close, nfs_argop4::GETATTR(GETATTR4args { attr_request: asked })]);
        let found: Result<GETATTR4resok<'_>, nfsstat4> = from_bytes(&results[2]).unwrap();
        let found: Attributes<'_> = found.unwrap().obj_attributes.values().unwrap();
        assert_eq!((found.size, found.mask()), (Some(5 + data.len() as u64), asked));
        let (refused, _) = client.compound(&[putfh(&file), write(stateid, 0, b"late")]);
        assert_eq!(refused, nfsstat4::NFS4ERR_BAD_STATEID);
    }
}

/// The data of a long WRITE are received in place or gathered; whatever follows them is executed as well.
#[test]
fn long_writes_arrive_in_any_pieces_and_company() {
    for grain in [7, 1000, 20_000, usize::MAX] {
        let mut client = Client::new(Limits::default());
        let (file, stateid) = client.open(b"owner", b"f");
        client.server.pipe.grain = grain;
        let data = pattern(if grain == 7 { 16_387 } else { 300_001 });
        let getattr = nfs_argop4::GETATTR(GETATTR4args { attr_request: bitmap4::of(&[FATTR4_SIZE]) });
        let long = [putfh(&file), write(stateid, 1, &data)];
        let gathered = [nfs_argop4::PUTROOTFH(()), putfh(&file), write(stateid, 2, &data), getattr.clone()];
        for (at, operations) in
            [(1, [&long[..], std::slice::from_ref(&getattr)].concat()), (2, gathered.to_vec()), (1, long.to_vec())]
        {
            // Two calls at once: the second begins where the first ends.
            client.send(&operations);
            client.send(&operations);
            client.server.run().unwrap();
            let replies = client.server.replies();
            assert_eq!(replies.len(), 2);
            for (_, result) in replies {
                let (found, results) = parse(&result);
                assert_eq!((found, results.len()), (nfsstat4::NFS4_OK, 1 + operations.len()), "grain {grain}");
            }
            assert_eq!(client.read(&file, stateid, at, data.len() as u32), data, "grain {grain}");
        }
    }
}

#[test]
fn a_long_write_that_is_refused_costs_nothing_but_itself() {
    let mut client = Client::new(Limits::default());
    let (file, stateid) = client.open(b"owner", b"f");
    let data = pattern(100_000);
    let wrong = stateid4 { seqid: stateid.seqid + 1, ..stateid };
    assert_eq!(client.compound(&[putfh(&file), write(wrong, 0, &data)]).0, nfsstat4::NFS4ERR_BAD_STATEID);
    let (stale, other) = client.open(b"owner", b"g");
    let root = client.root();
    client.ok(&[putfh(&stale), nfs_argop4::CLOSE(CLOSE4args { seqid: 0, open_stateid: other })]);
    client.ok(&[putfh(&root), remove(b"g")]);
    assert_eq!(client.compound(&[putfh(&stale), write(stateid4::ANONYMOUS, 0, &data)]).0, nfsstat4::NFS4ERR_STALE);
    client.sequence += 1;
    let sequence = client.sequence;
    client.send_as((0, sequence + 5, false), &[putfh(&file), write(stateid, 0, &data)]);
    assert_eq!(reply(&mut client.server).0, nfsstat4::NFS4ERR_SEQ_MISORDERED);
    client.sequence -= 1;
    assert_eq!(client.server.files().getattr(file.as_bytes()).unwrap().size, 0);
    client.ok(&[putfh(&file), write(stateid, 0, &data)]);
}

#[test]
fn exports_are_found_from_the_root() {
    let mut client = Client::new(Limits::default());
    let lookup = |name| nfs_argop4::LOOKUP(LOOKUP4args { objname: name });
    let results = client.ok(&[nfs_argop4::PUTROOTFH(()), lookup(b"vol"), nfs_argop4::GETFH(())]);
    let handle: Result<GETFH4resok<'_>, nfsstat4> = from_bytes(&results[2]).unwrap();
    assert_eq!(handle.unwrap().object.0, client.root().as_bytes());
    let (missing, results) = client.compound(&[nfs_argop4::PUTROOTFH(()), lookup(b"other"), nfs_argop4::GETFH(())]);
    assert_eq!((missing, results.len()), (nfsstat4::NFS4ERR_NOENT, 3), "the operation after it is not executed");
    let (read_only, _) = client.compound(&[nfs_argop4::PUTROOTFH(()), remove(b"vol")]);
    assert_eq!(read_only, nfsstat4::NFS4ERR_ROFS);
}

#[test]
fn a_call_sent_again_is_carried_out_once() {
    let mut client = Client::new(Limits::default());
    client.open(b"owner", b"f");
    let root = client.root();
    let first = client.compound_as((1, 1, true), &[putfh(&root), remove(b"f")]);
    assert_eq!(first.0, nfsstat4::NFS4_OK);
    assert_eq!(client.compound_as((1, 1, true), &[putfh(&root), remove(b"f")]), first);
    let (other, _) = client.compound_as((1, 1, true), &[putfh(&root), remove(b"other")]);
    assert_eq!(other, nfsstat4::NFS4ERR_SEQ_FALSE_RETRY, "it is another call");
    // The slot knows that there was a reply, also if it was not to be kept.
    client.open(b"owner", b"g");
    assert_eq!(client.compound_as((2, 1, false), &[putfh(&root), remove(b"g")]).0, nfsstat4::NFS4_OK);
    let (again, results) = client.compound_as((2, 1, false), &[putfh(&root), remove(b"g")]);
    assert_eq!((again, status(&results[0])), (nfsstat4::NFS4ERR_RETRY_UNCACHED_REP, nfsstat4::NFS4_OK));
}

#[test]
fn a_slot_keeps_no_more_than_was_granted() {
    let mut client = Client::new(Limits::default());
    // The reply repeats the tag, which is as long as a client likes.
    for (tag_bytes, expected, again) in [
        (3000, nfsstat4::NFS4_OK, nfsstat4::NFS4_OK),
        (100_000, nfsstat4::NFS4ERR_REP_TOO_BIG_TO_CACHE, nfsstat4::NFS4ERR_RETRY_UNCACHED_REP),
    ] {
        let (slot, tag) = (2 + u32::from(tag_bytes > 3000), vec![b't'; tag_bytes]);
        let sequence = SEQUENCE4args {
            sa_sessionid: client.session,
            sa_sequenceid: 1,
            sa_slotid: slot,
            sa_highest_slotid: slot,
            sa_cachethis: true,
        };
        let mut arguments = to_bytes(&compound4_head { tag: &tag, minorversion: 1, count: 2 });
        arguments.extend(to_bytes(&nfs_argop4::SEQUENCE(sequence)));
        arguments.extend(to_bytes(&nfs_argop4::PUTROOTFH(())));
        let mut answered = || {
            client.server.xid += 1;
            let xid = client.server.xid;
            client.server.send(&call(xid, (NFS_PROGRAM, NFS_V4, NFSPROC4_COMPOUND), &Raw(&arguments)));
            status(&client.server.result())
        };
        assert_eq!([answered(), answered()], [expected, again]);
    }
}

#[test]
fn slots_and_sequences_are_checked() {
    use nfsstat4::*;
    let mut client = Client::new(Limits::default());
    let cases = [
        ((1, 2), NFS4ERR_SEQ_MISORDERED),
        ((1, 0), NFS4ERR_SEQ_MISORDERED),
        ((1, 1), NFS4_OK),
        ((1, 3), NFS4ERR_SEQ_MISORDERED),
        ((1, 2), NFS4_OK),
        ((1, 1), NFS4ERR_SEQ_MISORDERED),
        ((SLOTS, 1), NFS4ERR_BADSLOT),
    ];
    for ((slot, sequence), expected) in cases {
        let (found, _) = client.compound_as((slot, sequence, false), &[nfs_argop4::PUTROOTFH(())]);
        assert_eq!(found, expected, "slot {slot}, sequence {sequence}");
    }
    client.session[15] ^= 1;
    assert_eq!(client.compound(&[]).0, NFS4ERR_BADSESSION);
    send_compound(&mut client.server, &[nfs_argop4::PUTROOTFH(())]);
    assert_eq!(reply(&mut client.server).0, NFS4ERR_OP_NOT_IN_SESSION);
}

#[test]
fn a_read_waits_for_limits_in_its_slot() {
    let mut client = Client::new(Limits::of([Cap::iops(1)]));
    let (file, stateid) = client.open(b"owner", b"f");
    let data = pattern(3000);
    client.server.files().write(&Caller::default(), file.as_bytes(), 0, &data, stable_how::UNSTABLE).unwrap();
    let read = |offset| nfs_argop4::READ(READ4args { stateid, offset, count: 1000 });
    // The bucket is full: the first READ is answered at once, the second a second later.
    let both = [putfh(&file), read(0), read(1000)];
    client.send_as((1, 1, false), &both);
    client.server.run().unwrap();
    assert_eq!((client.server.replies().len(), client.server.session.in_flight()), (0, 1));
    assert_eq!(client.compound_as((1, 1, false), &both).0, nfsstat4::NFS4ERR_DELAY, "it is being executed");
    client.server.now += SECOND;
    let (found, results) = reply(&mut client.server);
    assert_eq!((found, results.len()), (nfsstat4::NFS4_OK, 4));
    for (at, result) in results[2..].iter().enumerate() {
        let read: Result<READ4resok<'_>, nfsstat4> = from_bytes(result).unwrap();
        assert_eq!(read.unwrap().data, &data[1000 * at..1000 * (at + 1)]);
    }
    let stats = client.server.stats();
    assert_eq!((stats.reads, stats.read_bytes, stats.throttled_operations), (2, 2000, 1));
}

/// A COMPOUND that waits keeps the data of its earlier READs: they count to the memory of all connections.
#[test]
fn data_that_wait_with_a_call_are_counted_and_bounded() {
    let mut client = Client::new(Limits::of([Cap::iops(1)]));
    let (file, stateid) = client.open(b"owner", b"f");
    client.server.files().write(&Caller::default(), file.as_bytes(), 0, &pattern(9000), stable_how::UNSTABLE).unwrap();
    let read = |offset| nfs_argop4::READ(READ4args { stateid, offset, count: 4000 });
    let both = [putfh(&file), read(0), read(4000)];
    let used = |client: &Client| client.server.worker.served.memory.used();
    client.server.run().unwrap();
    let before = used(&client);
    client.send_as((1, 1, false), &both);
    client.server.run().unwrap();
    let held = used(&client) - before;
    assert!((4000..6000).contains(&held), "{held} bytes are counted");
    client.server.now += SECOND;
    assert_eq!(reply(&mut client.server).0, nfsstat4::NFS4_OK);
    assert_eq!(used(&client), before);

    // Once memory is tight, the second READ is refused for now; a call that keeps no data waits as before.
    Arc::get_mut(&mut client.server.worker.served).unwrap().memory = ConnectionMemory::new(0);
    client.server.now += SECOND;
    let (found, results) = client.compound_as((1, 2, false), &both);
    assert_eq!((found, results.len()), (nfsstat4::NFS4ERR_DELAY, 4));
    client.send_as((1, 3, false), &both[..2]);
    client.server.run().unwrap();
    assert_eq!((client.server.replies().len(), client.server.session.in_flight()), (0, 1));
    client.server.now += SECOND;
    assert_eq!(reply(&mut client.server).0, nfsstat4::NFS4_OK);
}

#[test]
fn a_read_whose_connection_has_ended_may_be_sent_again() {
    let mut client = Client::new(Limits::of([Cap::iops(1)]));
    let (file, stateid) = client.open(b"owner", b"f");
    client.server.files().write(&Caller::default(), file.as_bytes(), 0, &pattern(2000), stable_how::UNSTABLE).unwrap();
    let read = [putfh(&file), nfs_argop4::READ(READ4args { stateid, offset: 0, count: 1000 })];
    client.send_as((1, 1, false), &read);
    client.send_as((1, 2, false), &read);
    client.server.run().unwrap();
    assert_eq!(client.server.replies().len(), 1, "the second waits");
    assert!(client.server.session.forget(&mut client.server.worker, client.server.now));
    client.server.session = Session::new(7, PEER.into(), &client.server.worker.served.exports);
    client.server.now += SECOND;
    assert_eq!(client.compound_as((1, 2, false), &read).0, nfsstat4::NFS4_OK);
}

#[test]
fn who_makes_a_client_after_a_wait_owns_it() {
    let mut client = Client::new(Limits::of([Cap::iops(1)]));
    let (file, stateid) = client.open(b"owner", b"f");
    client.server.files().write(&Caller::default(), file.as_bytes(), 0, &pattern(1000), stable_how::UNSTABLE).unwrap();
    let read = nfs_argop4::READ(READ4args { stateid, offset: 0, count: 1000 });
    client.ok(&[putfh(&file), read.clone()]);
    client.send(&[putfh(&file), read, exchange_id(b"another")]);
    client.server.run().unwrap();
    assert_eq!(client.server.session.in_flight(), 1, "the READ waits");
    client.server.now += SECOND;
    let (status, results) = reply(&mut client.server);
    assert_eq!(status, nfsstat4::NFS4_OK);
    create_session(&mut client.server, &results[3]);
}

#[test]
fn the_reply_to_a_write_waits_for_limits() {
    let mut client = Client::new(Limits::of([Cap::iops(1)]));
    let (file, stateid) = client.open(b"owner", b"f");
    let data = pattern(1000);
    client.ok(&[putfh(&file), write(stateid, 0, &data)]);
    client.send_as((1, 1, true), &[putfh(&file), write(stateid, 1000, &data)]);
    client.server.run().unwrap();
    assert_eq!(client.server.replies().len(), 0);
    assert_eq!(client.server.files().getattr(file.as_bytes()).unwrap().size, 2000, "it was executed on arrival");
    client.server.now += SECOND;
    assert_eq!(reply(&mut client.server).0, nfsstat4::NFS4_OK);
}

#[test]
fn a_reply_longer_than_the_session_allows_is_refused() {
    let mut client = Client::new(Limits::default());
    let names: Vec<Vec<u8>> = (0..40).map(|n| format!("{n:0>200}").into_bytes()).collect();
    for name in &names {
        client.open(b"owner", name);
    }
    let readdir = nfs_argop4::READDIR(READDIR4args {
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 0,
        maxcount: 1 << 16,
        attr_request: bitmap4::default(),
    });
    let root = client.root();
    let (found, _) = client.compound_as((1, 1, false), &[putfh(&root), readdir.clone()]);
    assert_eq!(found, nfsstat4::NFS4_OK);
    // A listing that is to be kept is cut to what may be kept; two of them are too long.
    let (found, results) = client.compound_as((1, 2, true), &[putfh(&root), readdir.clone()]);
    let listed: Result<READDIR4resok<'_>, nfsstat4> = from_bytes(&results[2]).unwrap();
    let listed = listed.unwrap().reply;
    assert!(found == nfsstat4::NFS4_OK && !listed.eof && !listed.entries.0.is_empty());
    let (found, results) = client.compound_as((1, 3, true), &[putfh(&root), readdir.clone(), readdir]);
    assert_eq!((found, results.len()), (nfsstat4::NFS4ERR_TOOSMALL, 4));
}

#[test]
fn all_names_are_listed_part_by_part() {
    let mut client = Client::new(Limits::default());
    let mut names: Vec<Vec<u8>> = (0..100).map(|n| format!("name{n}").into_bytes()).collect();
    for name in &names {
        client.open(b"owner", name);
    }
    let (root, mut found, mut cookie, mut cookieverf) = (client.root(), Vec::new(), 0, [0; 8]);
    loop {
        let attr_request = bitmap4::of(&[FATTR4_TYPE]);
        let asked = READDIR4args { cookie, cookieverf, dircount: 0, maxcount: 600, attr_request };
        let results = client.ok(&[putfh(&root), nfs_argop4::READDIR(asked)]);
        let listed: Result<READDIR4resok<'_>, nfsstat4> = from_bytes(&results[1]).unwrap();
        let READDIR4resok { cookieverf: verf, reply } = listed.unwrap();
        cookie = reply.entries.0.last().map_or(cookie, |entry| entry.cookie);
        cookieverf = verf;
        found.extend(reply.entries.0.iter().map(|entry| entry.name.to_vec()));
        if reply.eof {
            break;
        }
    }
    found.sort_unstable();
    names.sort_unstable();
    assert_eq!(found, names);
}

#[test]
fn what_cannot_be_decoded_ends_the_compound() {
    let mut client = Client::new(Limits::default());
    client.sequence += 1;
    let mut arguments = to_bytes(&compound4_head { tag: b"tag", minorversion: 1, count: 3 });
    let sequence = SEQUENCE4args {
        sa_sessionid: client.session,
        sa_sequenceid: client.sequence,
        sa_slotid: 0,
        sa_highest_slotid: 0,
        sa_cachethis: false,
    };
    arguments.extend(to_bytes(&nfs_argop4::SEQUENCE(sequence)));
    arguments.extend([0, 0, 0, 24, 0, 0, 0, 15, 0xff, 0xff, 0xff, 0xff]); // PUTROOTFH, and LOOKUP of a name that is not there
    client.server.xid += 1;
    let xid = client.server.xid;
    let record = call(xid, (NFS_PROGRAM, NFS_V4, NFSPROC4_COMPOUND), &Raw(&arguments));
    client.server.send(&record);
    let (found, results) = reply(&mut client.server);
    assert_eq!((found, results.len()), (nfsstat4::NFS4ERR_BADXDR, 3));
    client.ok(&[nfs_argop4::PUTROOTFH(())]);
}

struct Raw<'a>(&'a [u8]);

impl Encode for Raw<'_> {
    fn encode(&self, writer: &mut iocurve_wire::xdr::Writer<'_>) {
        writer.bytes(self.0);
    }
}

#[test]
fn the_rules_of_the_export_hold() {
    let rules = |read_only| ExportRules { read_only, ..ExportRules::default() };
    let mut client = Client::new(Limits::default());
    let (file, stateid) = client.open(b"owner", b"f");
    let (root, name) = (client.root(), b"new".as_slice());
    let attributes = fattr4 { attrmask: bitmap4::default(), attr_vals: &[] };
    let create = CREATE4args { objtype: createtype4::NF4DIR(()), objname: name, createattrs: attributes };
    let setattr = SETATTR4args { stateid: stateid4::ANONYMOUS, obj_attributes: attributes };
    let changes = [
        vec![putfh(&file), write(stateid, 0, b"data")],
        vec![putfh(&root), remove(b"f")],
        vec![putfh(&root), nfs_argop4::CREATE(create)],
        vec![putfh(&file), nfs_argop4::SETATTR(setattr)],
        open(&root, b"owner", name, (OPEN4_SHARE_ACCESS_READ, 0)).to_vec(),
    ];
    let read = nfs_argop4::READ(READ4args { stateid, offset: 0, count: 1 });
    let uses = [vec![putfh(&file), read], vec![putfh(&root), nfs_argop4::LOOKUP(LOOKUP4args { objname: b"f" })]];
    client.server.change_rules(&rules(true));
    for operations in &changes {
        assert_eq!(client.compound(operations).0, nfsstat4::NFS4ERR_ROFS, "{operations:?}");
    }
    for operations in &uses {
        assert_eq!(client.compound(operations).0, nfsstat4::NFS4_OK, "{operations:?}");
    }
    let elsewhere = ClientRule { network: "10.0.0.0/8".parse().unwrap(), read_only: false };
    client.server.change_rules(&ExportRules { clients: vec![elsewhere], ..rules(false) });
    for operations in changes.iter().chain(&uses) {
        assert_eq!(client.compound(operations).0, nfsstat4::NFS4ERR_ACCESS, "{operations:?}");
    }
    // Nor does the root of all exports lead to it, and no handle is given out.
    let lookup = nfs_argop4::LOOKUP(LOOKUP4args { objname: b"vol" });
    assert_eq!(client.compound(&[nfs_argop4::PUTROOTFH(()), lookup]).0, nfsstat4::NFS4ERR_NOENT);
    assert_eq!(client.compound(&[putfh(&root), nfs_argop4::GETFH(())]).0, nfsstat4::NFS4ERR_ACCESS);
}
