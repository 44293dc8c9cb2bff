//! `NFSv4.1` (RFC 8881) as a [`Protocol`]: calls belong to a session, which limits how many are in flight and executes
//! each of them once, and files are open.
//!
//! `client` makes sessions and the calls in them one by one, `opens` opens and closes files, also in the session that
//! replaces one that the server has ended. `calls` mounts an export; `slots` is the slot table of a load.

mod attributes;
mod calls;
mod client;
mod names;
mod opens;
mod slots;
mod status;
#[cfg(test)]
mod tests;

use iocurve_meter::Nanos;
use iocurve_wire::client_fast::nfs4::{
    Compound, CompoundTemplate, FileCalls, READ_REPLY_HEAD_BYTES, SessionCalls, SlotSequence,
};
use iocurve_wire::client_fast::{CommitResult, ReadResult, Reply, Unparsed, WriteResult};
use iocurve_wire::nfs4::operations::share;
use iocurve_wire::nfs4::{nfsstat4, sessionid4, stable_how4, stateid4};
use iocurve_wire::rpc::Xid;

use super::conversation::Conversation;
use super::names::{NamedCall, Procedure};
use super::protocol::{Arguments, Found, Judgement, Passed, Protocol, SlotCounts, stability};
use super::transport::patience::LEAVE_NS;
use crate::error::EngineError;
use crate::plan::NfsMount;

use self::client::{Client, Registration};
use self::names::OpenState;
use self::opens::{Handle, Open};
use self::slots::SlotTable;

/// A lease is renewed when this part of it has passed without a call.
const LEASE_PARTS: Nanos = 3;

/// Calls of `NFSv4.1` on the files of a load.
#[derive(Debug)]
pub struct Nfs4 {
    files: Vec<FileCalls>,
    others: CompoundTemplate,
    stable: stable_how4,
    slots: SlotTable,
    registration: Registration,
    /// By file; `None` if the file is open no longer.
    opens: Vec<Option<Open>>,
    credential: Vec<u8>,
    lease_ns: Nanos,
}

impl Nfs4 {
    /// Takes a client's session over: slot 0 goes on, the others begin.
    fn new(client: Client, opens: Vec<Option<Open>>, lease_ns: Nanos, mount: &NfsMount) -> Self {
        let Client { credential, registration, next_sequence, .. } = client;
        let slots = registration.channel.ca_maxrequests;
        let calls = SessionCalls { credential: &credential, session: registration.session, highest_slot: slots - 1 };
        let stable = stability(mount.durability);
        let files = opens.iter().map(|open| match open {
            Some(Open { handle, stateid, .. }) => FileCalls::new(&calls, handle, *stateid, stable),
            None => FileCalls::new(&calls, &[], stateid4::ANONYMOUS, stable),
        });
        Self {
            files: files.collect(),
            others: CompoundTemplate::new(&calls),
            stable,
            slots: SlotTable::resume(slots, next_sequence),
            registration,
            opens,
            credential,
            lease_ns,
        }
    }

    /// Takes a session over in which a file is open, with all of its slots free.
    pub(super) fn of_session(credential: &[u8], session: sessionid4, handle: &Handle, mount: &NfsMount) -> Self {
        let mut registration = Registration::new(mount.session_slots);
        registration.session = session;
        let client = Client::new("", credential, mount.timeout_ns, registration, 1);
        let (path, stateid) = (String::new(), stateid4 { seqid: 0, other: [3; 12] });
        let open = Open { path, handle: handle.clone(), stateid, access: share::OPEN4_SHARE_ACCESS_BOTH };
        Self::new(client, vec![Some(open)], Nanos::MAX, mount)
    }

    async fn close_all(&self, client: &mut Client) -> Result<(), EngineError> {
        for open in self.opens.iter().flatten() {
            // The lease ends an open that the server does not close.
            let _ = opens::close(client, &open.handle, open.stateid).await?;
        }
        client.unregister().await
    }
}

impl Protocol for Nfs4 {
    const NAME: &'static str = status::NAME;
    const READ_REPLY_HEAD_BYTES: usize = READ_REPLY_HEAD_BYTES;

    type Sequence = SlotSequence;
    type Handle = Handle;
    type State = OpenState;
    const FINDS_BY_NAME: bool = true;
    const CLOSES: bool = true;

    fn files(&self) -> usize {
        self.files.len()
    }

    fn slots(&self) -> Option<SlotCounts> {
        Some(self.slots.counts())
    }

    #[inline]
    fn append_read(&self, call: Arguments<SlotSequence>, out: &mut Vec<u8>) {
        self.files[call.file as usize].append_read(out, call.xid, call.sequence, call.offset, call.length);
    }

    #[inline]
    fn append_write(&self, call: Arguments<SlotSequence>, out: &mut Vec<u8>) {
        self.files[call.file as usize].append_write(out, call.xid, call.sequence, call.offset, call.length);
    }

    fn append_commit(&self, call: Arguments<SlotSequence>, out: &mut Vec<u8>) {
        self.files[call.file as usize].append_commit(out, call.xid, call.sequence, call.offset, call.length);
    }

    fn append_renewal(&self, xid: Xid, sequence: SlotSequence, out: &mut Vec<u8>) {
        self.others.append(out, xid, sequence, false, &[]);
    }

    fn append_named(&self, call: &NamedCall<Handle>, data: &[u8], xid: Xid, sequence: SlotSequence, out: &mut Vec<u8>) {
        let open = self.opens.get(call.file as usize).and_then(Option::as_ref);
        names::with_operations(&self.registration, open, call, data, |operations| {
            self.others.append(out, xid, sequence, call.procedure.changes_names(), operations);
        });
    }

    fn named(procedure: Procedure, results: &[u8]) -> Result<Result<Found<Self>, u32>, Unparsed> {
        names::parse(procedure, results)
    }

    fn set_file(&mut self, number: u32, path: &str, handle: &Handle, (stateid, access): OpenState) {
        let highest_slot = self.registration.channel.ca_maxrequests - 1;
        let calls = SessionCalls { credential: &self.credential, session: self.registration.session, highest_slot };
        let open = Some(Open { path: path.to_owned(), handle: handle.clone(), stateid, access });
        let Some(file) = self.files.get_mut(number as usize) else {
            self.files.push(FileCalls::new(&calls, handle, stateid, self.stable));
            self.opens.push(open);
            return;
        };
        file.set_file(&calls, handle, stateid, self.stable);
        self.opens[number as usize] = open;
    }

    fn close_file(&mut self, number: u32) {
        self.opens[number as usize] = None;
    }

    #[inline]
    fn acquire(&mut self) -> Option<SlotSequence> {
        self.slots.acquire()
    }

    #[inline]
    fn release(&mut self, sequence: SlotSequence, executed: bool) {
        self.slots.release(sequence, executed);
    }

    #[inline]
    fn pass(
        &self,
        reply: &Reply<'_>,
        result_at: usize,
        sequence: SlotSequence,
        is_named: bool,
    ) -> Result<Passed, Unparsed> {
        let session = &self.registration.session;
        let compound = if is_named {
            reply.sequenced(result_at, session, sequence)
        } else {
            reply.compound(result_at, session, sequence)
        };
        Ok(match compound? {
            Compound::Sequenced(at) => Passed::At(at),
            Compound::Empty => Passed::Alone,
            Compound::Refused(status) => Passed::Refused(status),
        })
    }

    #[inline]
    fn read(reply: &Reply<'_>, at: usize) -> Result<ReadResult, Unparsed> {
        reply.read4(at)
    }

    #[inline]
    fn write(reply: &Reply<'_>, at: usize) -> Result<WriteResult, Unparsed> {
        reply.write4(at)
    }

    #[inline]
    fn commit(reply: &Reply<'_>, at: usize) -> Result<CommitResult, Unparsed> {
        reply.commit4(at)
    }

    /// A call whose reply the server did not keep was executed.
    fn counted(status: u32) -> bool {
        status == nfsstat4::NFS4ERR_RETRY_UNCACHED_REP as u32
    }

    fn judge(status: u32) -> Judgement {
        status::judge(status)
    }

    fn status_name(status: u32) -> &'static str {
        status::name(status)
    }

    fn renewal_ns(&self) -> Nanos {
        self.lease_ns / LEASE_PARTS
    }

    fn recovery(&mut self, mount: &NfsMount, server: &str) -> Option<Conversation<'static, Self>> {
        self.slots.close();
        let (mut opens, mount, lease_ns) = (self.opens.clone(), mount.clone(), self.lease_ns);
        let mut client = Client::new(server, &self.credential, mount.timeout_ns, self.registration.clone(), 1);
        Some(Conversation::new(client.line.clone(), async move {
            client.recover(&mut opens, mount.nconnect).await?;
            Ok(Self::new(client, opens, lease_ns, &mount))
        }))
    }

    /// If the server does not answer, the lease ends what is left.
    fn leave(&mut self, server: &str) -> Option<Conversation<'_, ()>> {
        let sequence = self.slots.sequence_of_first()?;
        let mut client = Client::new(server, &self.credential, LEAVE_NS, self.registration.clone(), sequence);
        client.replaces_session = true;
        Some(Conversation::new(client.line.clone(), async move { self.close_all(&mut client).await }))
    }
}
