//! A client id and its session (RFC 8881 §2.4, §2.10): made, used for one call at a time, and given back. Its calls are
//! those of a [`Conversation`](super::super::conversation::Conversation), which set-up waits for and a load makes between
//! others.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};

use iocurve_meter::Nanos;
use iocurve_wire::client_fast::Malformed;
use iocurve_wire::nfs4::operations::{
    BIND_CONN_TO_SESSION4args, CREATE_SESSION4args, CREATE_SESSION4resok, DESTROY_CLIENTID4args, DESTROY_SESSION4args,
    EXCHANGE_ID4args, RECLAIM_COMPLETE4args, SEQUENCE4args, SEQUENCE4resok, callback_sec_parms4, direction, nfs_argop4,
    nfs_resop4, state_protect4_a,
};
use iocurve_wire::nfs4::{
    COMPOUND, MINOR_VERSION, channel_attrs4, client_owner4, compound4_head, compound4_result_head, nfs_opnum4,
    nfsstat4, owner_name4, sessionid4,
};
use iocurve_wire::xdr::{Decode, Encode, Reader, Writer};

use super::super::conversation::{Line, encode};
use super::status::{self, NAME, refused};
use crate::error::{ConnectionError, EngineError, InvalidReply};

/// Largest READ or WRITE payload to request of a session.
const PAYLOAD_BYTES_MAX: u32 = 1 << 20;
/// Most bytes of a call or a reply without its payload.
pub(super) const OVERHEAD_BYTES: u32 = 1 << 10;
/// Most operations of a COMPOUND, SEQUENCE included.
const OPERATIONS_MAX: u32 = 8;
/// Longest reply that the server keeps for a repeated call.
const CACHED_BYTES_MAX: u32 = 4 << 10;
/// Most attempts to take a client id and a session from a server that restarts.
const ATTEMPTS_MAX: u32 = 5;

/// A client as the server knows it, and its session.
#[derive(Debug, Clone)]
pub(super) struct Registration {
    /// Names this client to the server; no other client has the same name.
    owner: Vec<u8>,
    /// Changes when this client has lost its state.
    verifier: [u8; 8],
    pub clientid: u64,
    /// Sequence id of the next `CREATE_SESSION`.
    create_sequence: u32,
    pub session: sessionid4,
    /// Slots and limits that the server gave.
    pub channel: channel_attrs4,
    /// Slots to ask for.
    slots_wanted: u32,
    /// The server knows the client since its last start, and has not been told yet that nothing more will be reclaimed: it may let
    /// no one open files until then (RFC 8881 §18.51.3).
    is_reclaiming: bool,
}

/// The state of a client that a server still has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// The client id, and with it opens unless they were revoked.
    ClientId,
    /// Nothing: the server has restarted, or the lease has expired. So it is until all was reclaimed.
    Nothing,
}

/// How a COMPOUND ended.
enum Ended {
    /// By its operations.
    Done(Result<(), nfsstat4>),
    /// The server did not take it up.
    SessionLost(nfsstat4),
}

impl Registration {
    /// A client that no server knows yet.
    pub(super) fn new(slots_wanted: u32) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let stamp = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
        let owner = format!("iocurve/{}/{}/{stamp:x}/{number}", host.trim(), std::process::id());
        Self {
            owner: owner.into_bytes(),
            verifier: stamp.to_be_bytes(),
            clientid: 0,
            create_sequence: 0,
            session: [0; 16],
            channel: fore_channel(slots_wanted),
            slots_wanted,
            is_reclaiming: true,
        }
    }

    /// Name of the client, as an owner of opens.
    pub(super) fn owner(&self) -> &[u8] {
        &self.owner
    }
}

/// One call at a time, on slot 0 of a session that no one else uses meanwhile.
#[derive(Debug)]
pub(super) struct Client {
    pub line: Line,
    server: String,
    pub credential: Vec<u8>,
    pub timeout_ns: Nanos,
    pub registration: Registration,
    /// Sequence id of the next call on slot 0.
    pub next_sequence: u32,
    /// A session that the server has ended is replaced by another, and the call made there: nothing that the server
    /// forgets with it is needed. A recovery starts over instead.
    pub replaces_session: bool,
    /// The last COMPOUND was sent more than once: the server may have executed it before a restart.
    pub was_repeated: bool,
}

impl Client {
    /// Uses a session that was made before, if it was.
    pub(super) fn new(
        server: &str,
        credential: &[u8],
        timeout_ns: Nanos,
        registration: Registration,
        next_sequence: u32,
    ) -> Self {
        Self {
            line: Line::default(),
            server: server.to_owned(),
            credential: credential.to_vec(),
            timeout_ns,
            registration,
            next_sequence,
            replaces_session: false,
            was_repeated: false,
        }
    }

    /// Registers with the server and makes a session.
    pub(super) async fn register(&mut self) -> Result<(), EngineError> {
        self.begin().await?;
        self.replaces_session = true;
        self.reclaim_complete().await
    }

    /// Takes a client id and a session. A server that restarts in between does not know the client id any more.
    async fn begin(&mut self) -> Result<(), EngineError> {
        let mut attempts = 1;
        loop {
            self.exchange_id().await?;
            match self.create_session().await? {
                Err(nfsstat4::NFS4ERR_STALE_CLIENTID) if attempts < ATTEMPTS_MAX => attempts += 1,
                created => return created.map_err(|status| self.failed("CREATE_SESSION", status)),
            }
        }
    }

    /// Replaces a lost session by a new one, under the same client id if the server still knows it.
    pub(super) async fn renew(&mut self) -> Result<Kept, EngineError> {
        // The server may know the session and have lost count of its slots only.
        self.destroy_session().await?;
        match self.create_session().await? {
            Ok(()) if self.registration.is_reclaiming => return Ok(Kept::Nothing),
            Ok(()) => return Ok(Kept::ClientId),
            Err(nfsstat4::NFS4ERR_STALE_CLIENTID) => {}
            // The number of the next CREATE_SESSION is lost: start as a client that has restarted.
            Err(nfsstat4::NFS4ERR_SEQ_MISORDERED) => self.registration.verifier = Registration::new(0).verifier,
            Err(status) => return Err(self.failed("CREATE_SESSION", status)),
        }
        self.registration.is_reclaiming = true;
        self.begin().await?;
        Ok(Kept::Nothing)
    }

    /// Tells the server that nothing more will be reclaimed.
    pub(super) async fn reclaim_complete(&mut self) -> Result<(), EngineError> {
        let complete = nfs_argop4::RECLAIM_COMPLETE(RECLAIM_COMPLETE4args { rca_one_fs: false });
        match self.compound(&[complete], |_| {}).await? {
            Ok(()) | Err(nfsstat4::NFS4ERR_COMPLETE_ALREADY) => {
                self.registration.is_reclaiming = false;
                Ok(())
            }
            Err(status) => Err(self.failed("RECLAIM_COMPLETE", status)),
        }
    }

    /// Binds a connection to the session; its slots are those of the session. If the server has ended the session
    /// meanwhile, the first call in it will tell.
    pub(super) async fn bind(&mut self, connection: usize) -> Result<(), EngineError> {
        let session = self.registration.session;
        let bind = nfs_argop4::BIND_CONN_TO_SESSION(BIND_CONN_TO_SESSION4args {
            bctsa_sessid: session,
            bctsa_dir: direction::CDFC4_FORE,
            bctsa_use_conn_in_rdma_mode: false,
        });
        let mut is_bound = true;
        let ended = self.alone(connection, &bind, |result| {
            is_bound = !matches!(result, nfs_resop4::BIND_CONN_TO_SESSION(Ok(bound)) if bound.bctsr_sessid != session);
        });
        match ended.await? {
            _ if !is_bound => Err(self.invalid(Malformed::BoundElsewhere)),
            Ok(()) | Err(nfsstat4::NFS4ERR_BADSESSION | nfsstat4::NFS4ERR_DEADSESSION) => Ok(()),
            Err(status) => Err(self.failed("BIND_CONN_TO_SESSION", status)),
        }
    }

    /// Gives session and client id back; the server forgets this client.
    pub(super) async fn unregister(&mut self) -> Result<(), EngineError> {
        self.destroy_session().await?;
        let clientid = nfs_argop4::DESTROY_CLIENTID(DESTROY_CLIENTID4args { dca_clientid: self.registration.clientid });
        // If it refuses, the lease ends the client.
        self.alone(0, &clientid, |_| {}).await.map(drop)
    }

    /// Carries operations out in the session, and hands each result to `each`. Repeats them while the server asks for
    /// patience.
    pub(super) async fn compound(
        &mut self,
        operations: &[nfs_argop4<'_>],
        mut each: impl FnMut(nfs_resop4<'_>) + Send,
    ) -> Result<Result<(), nfsstat4>, EngineError> {
        let started = self.line.now();
        let mut was_repeated = false;
        loop {
            let ended = self.compound_once(operations, &mut each).await?;
            was_repeated |= self.was_repeated;
            match ended {
                Ended::SessionLost(status) => self.replace_session(status, started).await?,
                Ended::Done(Err(status)) if self.waits_to_repeat(status, started).await => {}
                Ended::Done(result) => {
                    // Calls that replace a session in between have separate repetitions.
                    self.was_repeated = was_repeated;
                    return Ok(result);
                }
            }
        }
    }

    /// As [`Line::waits_to_repeat`].
    async fn waits_to_repeat(&self, status: nfsstat4, started: Nanos) -> bool {
        self.line.waits_to_repeat(started, status::judge(status as u32).patience_ns(self.timeout_ns)).await
    }

    async fn compound_once(
        &mut self,
        operations: &[nfs_argop4<'_>],
        each: &mut (dyn FnMut(nfs_resop4<'_>) + Send),
    ) -> Result<Ended, EngineError> {
        let sequence = nfs_argop4::SEQUENCE(SEQUENCE4args {
            sa_sessionid: self.registration.session,
            sa_sequenceid: self.next_sequence,
            sa_slotid: 0,
            sa_highest_slotid: self.registration.channel.ca_maxrequests.saturating_sub(1),
            // A reply with data is too long to be kept.
            sa_cachethis: !operations.iter().any(|operation| matches!(operation, nfs_argop4::READ(_))),
        });
        let call = Operations { first: Some(&sequence), rest: operations };
        let asked = (self.registration.session, self.next_sequence, 0);
        let mut answered = None;
        let result = self.transact(0, &call, |result| match result {
            nfs_resop4::SEQUENCE(Ok(SEQUENCE4resok { sr_sessionid, sr_sequenceid, sr_slotid, .. })) => {
                answered = Some((sr_sessionid, sr_sequenceid, sr_slotid));
            }
            nfs_resop4::SEQUENCE(Err(_)) => {}
            result => each(result),
        });
        let result = result.await?;
        if answered.is_some_and(|answered| answered != asked) {
            return Err(self.invalid(Malformed::Sequence));
        }
        let sequenced = answered.is_some();
        if sequenced {
            self.next_sequence = self.next_sequence.wrapping_add(1);
        }
        Ok(match result {
            Err(status) if !sequenced && status != nfsstat4::NFS4ERR_DELAY => Ended::SessionLost(status),
            result => Ended::Done(result),
        })
    }

    /// Makes another session while files are prepared, unless that does not help for longer than the timeout.
    async fn replace_session(&mut self, status: nfsstat4, started: Nanos) -> Result<(), EngineError> {
        if !self.replaces_session || self.line.is_late(started, self.timeout_ns) {
            let (server, status) = (self.server.clone(), status.name());
            return Err(ConnectionError::SessionEnded { server, status }.into());
        }
        self.replaces_session = false;
        let replaced = self.restored().await;
        self.replaces_session = true;
        replaced
    }

    /// As [`Self::restore`], which makes calls that may come here again.
    fn restored(&mut self) -> Pin<Box<dyn Future<Output = Result<(), EngineError>> + Send + '_>> {
        Box::pin(self.restore(&mut []))
    }

    async fn exchange_id(&mut self) -> Result<(), EngineError> {
        let Registration { owner, verifier, .. } = self.registration.clone();
        let exchange = nfs_argop4::EXCHANGE_ID(EXCHANGE_ID4args {
            eia_clientowner: client_owner4 { co_verifier: verifier, co_ownerid: owner_name4(&owner) },
            eia_flags: 0,
            eia_state_protect: state_protect4_a::SP4_NONE(()),
            eia_client_impl_id: None,
        });
        let mut given = None;
        let exchanged = self.alone(0, &exchange, |result| {
            if let nfs_resop4::EXCHANGE_ID(Ok(result)) = result {
                given = Some((result.eir_clientid, result.eir_sequenceid));
            }
        });
        exchanged.await?.map_err(|status| self.failed("EXCHANGE_ID", status))?;
        let (clientid, sequence) = given.ok_or_else(|| self.invalid(Malformed::ClientIdMissing))?;
        (self.registration.clientid, self.registration.create_sequence) = (clientid, sequence);
        Ok(())
    }

    async fn create_session(&mut self) -> Result<Result<(), nfsstat4>, EngineError> {
        let registration = &self.registration;
        let create = nfs_argop4::CREATE_SESSION(CREATE_SESSION4args {
            csa_clientid: registration.clientid,
            csa_sequence: registration.create_sequence,
            csa_flags: 0,
            csa_fore_chan_attrs: fore_channel(registration.slots_wanted),
            csa_back_chan_attrs: back_channel(),
            csa_cb_program: 0,
            csa_sec_parms: vec![callback_sec_parms4::AUTH_NONE(())],
        });
        let mut given = None;
        let created = self.alone(0, &create, |result| {
            if let nfs_resop4::CREATE_SESSION(Ok(result)) = result {
                given = Some(result);
            }
        });
        let Err(status) = created.await? else {
            let created = given.ok_or_else(|| self.invalid(Malformed::SessionMissing))?;
            return self.take_session(&created).map(Ok);
        };
        Ok(Err(status))
    }

    fn take_session(&mut self, created: &CREATE_SESSION4resok) -> Result<(), EngineError> {
        let channel = created.csr_fore_chan_attrs;
        if channel.ca_maxrequests == 0 || channel.ca_maxoperations < 5 {
            return Err(self.invalid(Malformed::SessionTooSmall));
        }
        let registration = &mut self.registration;
        if created.csr_sequence != registration.create_sequence {
            return Err(self.invalid(Malformed::AnotherSession));
        }
        registration.create_sequence = registration.create_sequence.wrapping_add(1);
        registration.session = created.csr_sessionid;
        registration.channel =
            channel_attrs4 { ca_maxrequests: channel.ca_maxrequests.min(registration.slots_wanted), ..channel };
        self.next_sequence = 1;
        Ok(())
    }

    /// A server that does not know the session any more is fine.
    async fn destroy_session(&mut self) -> Result<(), EngineError> {
        let session = DESTROY_SESSION4args { dsa_sessionid: self.registration.session };
        self.alone(0, &nfs_argop4::DESTROY_SESSION(session), |_| {}).await.map(drop)
    }

    /// Carries one operation out that needs no session. While the server asks for patience, the operation is repeated.
    async fn alone(
        &mut self,
        connection: usize,
        operation: &nfs_argop4<'_>,
        mut each: impl FnMut(nfs_resop4<'_>) + Send,
    ) -> Result<Result<(), nfsstat4>, EngineError> {
        let started = self.line.now();
        loop {
            let call = Operations { first: None, rest: std::slice::from_ref(operation) };
            match self.transact(connection, &call, &mut each).await? {
                Err(status) if self.waits_to_repeat(status, started).await => {}
                result => return Ok(result),
            }
        }
    }

    async fn transact(
        &mut self,
        connection: usize,
        call: &Operations<'_>,
        each: impl FnMut(nfs_resop4<'_>) + Send,
    ) -> Result<Result<(), nfsstat4>, EngineError> {
        let record = encode(&self.credential, COMPOUND, call);
        let results = self.line.ask(connection, record).await?;
        self.was_repeated = results.was_repeated;
        parse(call, &results.bytes, each).map_err(|why| self.invalid(why))
    }

    /// Error for a reply that makes no sense.
    pub(super) fn invalid(&self, why: impl Into<InvalidReply>) -> EngineError {
        ConnectionError::invalid(&self.server, NAME, why).into()
    }

    fn failed(&self, operation: &'static str, status: nfsstat4) -> EngineError {
        refused(operation, &format!("server {}", self.server), status as u32)
    }
}

fn fore_channel(slots: u32) -> channel_attrs4 {
    channel_attrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: PAYLOAD_BYTES_MAX + OVERHEAD_BYTES,
        ca_maxresponsesize: PAYLOAD_BYTES_MAX + OVERHEAD_BYTES,
        ca_maxresponsesize_cached: CACHED_BYTES_MAX,
        ca_maxoperations: OPERATIONS_MAX,
        ca_maxrequests: slots,
        ca_rdma_ird: None,
    }
}

/// The least that servers accept: nothing is called back.
fn back_channel() -> channel_attrs4 {
    channel_attrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: 4 << 10,
        ca_maxresponsesize: 4 << 10,
        ca_maxresponsesize_cached: 0,
        ca_maxoperations: 2,
        ca_maxrequests: 1,
        ca_rdma_ird: None,
    }
}

/// Hands each result to `each`.
fn parse(
    call: &Operations<'_>,
    results: &[u8],
    mut each: impl FnMut(nfs_resop4<'_>),
) -> Result<Result<(), nfsstat4>, InvalidReply> {
    let nonsense = |why: Malformed| Err(why.into());
    let mut results = Reader::new(results);
    let head = compound4_result_head::decode(&mut results)?;
    let (count, mut last) = (head.count as usize, None);
    for operation in call.operations().take(count) {
        if last.is_some_and(|status| status != nfsstat4::NFS4_OK) {
            return nonsense(Malformed::ResultBehindFailure);
        }
        let mut start = Reader::new(results.rest());
        let number = start.u32()?;
        last = Some(nfsstat4::decode(&mut start)?);
        if number != operation.discriminant() && number != nfs_opnum4::OP_ILLEGAL as u32 {
            return nonsense(Malformed::AnotherOperation);
        }
        each(nfs_resop4::decode(&mut results)?);
    }
    match head.status {
        status if last.is_some_and(|last| last != status) => nonsense(Malformed::Status),
        nfsstat4::NFS4_OK if count == call.count() => Ok(Ok(())),
        nfsstat4::NFS4_OK => nonsense(Malformed::ResultsMissing),
        _ if count > call.count() => nonsense(Malformed::TooManyResults),
        status => Ok(Err(status)),
    }
}

/// Arguments of COMPOUND.
struct Operations<'a> {
    first: Option<&'a nfs_argop4<'a>>,
    rest: &'a [nfs_argop4<'a>],
}

impl Operations<'_> {
    fn count(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    fn operations(&self) -> impl Iterator<Item = &nfs_argop4<'_>> {
        self.first.into_iter().chain(self.rest)
    }
}

impl Encode for Operations<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        compound4_head { tag: &[], minorversion: MINOR_VERSION, count: self.count() as u32 }.encode(writer);
        self.operations().for_each(|operation| operation.encode(writer));
    }
}
