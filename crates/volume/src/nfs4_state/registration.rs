//! `EXCHANGE_ID`, `CREATE_SESSION` and what ends clients and sessions (RFC 8881 §18.35 to §18.37, §18.50).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use iocurve_meter::Nanos;
use iocurve_wire::nfs4::operations::CREATE_SESSION4resok;
use iocurve_wire::nfs4::{channel_attrs4, clientid4, nfsstat4, sequenceid4, sessionid4, verifier4};

use super::clients::Known;
use super::ledger::{Kind, Origin, SLOT_REPLY_BYTES, beyond_guaranteed};
use super::session::{NfsClient, NfsSession};
use super::tables::{State, Tables};

/// A client as it names itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientOwner<'a> {
    pub(crate) id: &'a [u8],
    /// Differs after each restart of the client.
    pub(crate) verifier: verifier4,
    pub(crate) origin: Origin,
}

/// A session that a client asks for; the limits are those that it gets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionRequest {
    pub(crate) client: clientid4,
    pub(crate) sequence: sequenceid4,
    pub(crate) origin: Origin,
    pub(crate) fore: channel_attrs4,
    pub(crate) back: channel_attrs4,
}

/// Result of `EXCHANGE_ID`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exchanged {
    pub(crate) client: clientid4,
    pub(crate) sequence: sequenceid4,
    pub(crate) is_confirmed: bool,
}

impl State {
    /// `EXCHANGE_ID`; the cases are those of RFC 8881 §18.35.4.
    pub(crate) fn exchange_id(
        &self,
        owner: &ClientOwner<'_>,
        is_update: bool,
        now: Nanos,
    ) -> Result<Exchanged, nfsstat4> {
        let mut tables = self.tables();
        if let Some(id) = tables.clients.named(owner.id, true) {
            let known = tables.clients.get(id).ok_or(nfsstat4::NFS4ERR_SERVERFAULT)?;
            let is_same = known.verifier == owner.verifier;
            let is_own = known.origin.principal == owner.origin.principal;
            let is_here = known.origin.address == owner.origin.address;
            match () {
                () if is_update && !is_same => return Err(nfsstat4::NFS4ERR_NOT_SAME),
                () if is_update && !is_own => return Err(nfsstat4::NFS4ERR_PERM),
                () if is_own && is_same => {
                    known.shared.renew(now);
                    return Ok(Exchanged { client: id, sequence: known.sequence, is_confirmed: true });
                }
                () if is_own && is_here => {}
                // Another address states the same name: nothing shows that this client has restarted there.
                () if tables.has_state(id) && !tables.clients.is_expired(id, now) => {
                    return Err(nfsstat4::NFS4ERR_CLID_INUSE);
                }
                () if is_own => {}
                () => tables.remove_client(id),
            }
        } else if is_update {
            return Err(nfsstat4::NFS4ERR_NOENT);
        }
        if let Some(id) = tables.clients.named(owner.id, false) {
            tables.remove_client(id);
        }
        tables.make_room((Kind::Clients, 1), owner.origin, None, now)?;
        let client = self.new_client_id(&mut tables);
        let shared = Arc::new(NfsClient::new(client, now));
        tables.ledger.open_account(Arc::clone(&shared), owner.origin);
        let known = Known {
            shared,
            owner: owner.id.into(),
            verifier: owner.verifier,
            origin: owner.origin,
            sequence: 1,
            created: None,
            sessions: HashSet::new(),
            opens: HashSet::new(),
            idle_locks: BTreeMap::new(),
        };
        tables.clients.add(client, known);
        Ok(Exchanged { client, sequence: 1, is_confirmed: false })
    }

    fn new_client_id(&self, tables: &mut Tables) -> clientid4 {
        loop {
            let id = self.id(tables.number(), 0);
            if tables.clients.get(id).is_none() {
                return id;
            }
        }
    }

    /// `CREATE_SESSION`. It confirms a new client, and then removes the one of the same name that was before.
    pub(crate) fn create_session(&self, asked: &SessionRequest, now: Nanos) -> Result<CREATE_SESSION4resok, nfsstat4> {
        let mut tables = self.tables();
        let known = tables.clients.get(asked.client).ok_or(nfsstat4::NFS4ERR_STALE_CLIENTID)?;
        match known.created {
            Some((created, origin)) if asked.sequence == created.csr_sequence && asked.origin == origin => {
                return Ok(created);
            }
            _ if asked.sequence != known.sequence => return Err(nfsstat4::NFS4ERR_SEQ_MISORDERED),
            _ if !known.shared.is_confirmed() && known.origin.principal != asked.origin.principal => {
                return Err(nfsstat4::NFS4ERR_CLID_INUSE);
            }
            _ if !known.shared.is_confirmed() && known.shared.is_expired(now) => {
                tables.remove_client(asked.client);
                return Err(nfsstat4::NFS4ERR_STALE_CLIENTID);
            }
            _ => {}
        }
        known.shared.renew(now);
        let slots = tables.room_for_slots(asked.client, asked.fore.ca_maxrequests, now)?;
        let reply_bytes = tables.reply_bytes(asked.client, slots, asked.fore.ca_maxresponsesize_cached);
        tables.confirm(asked.client);
        let number = tables.number();
        let known = tables.clients.get_mut(asked.client).ok_or(nfsstat4::NFS4ERR_STALE_CLIENTID)?;
        let fore = channel_attrs4 { ca_maxrequests: slots, ca_maxresponsesize_cached: reply_bytes, ..asked.fore };
        let created = CREATE_SESSION4resok {
            csr_sessionid: self.session_id(number),
            csr_sequence: asked.sequence,
            csr_flags: 0,
            csr_fore_chan_attrs: fore,
            csr_back_chan_attrs: asked.back,
        };
        let id = created.csr_sessionid;
        known.sequence = known.sequence.wrapping_add(1);
        known.created = Some((created, asked.origin));
        known.sessions.insert(id);
        let session = NfsSession::new(id, Arc::clone(&known.shared), fore);
        tables.ledger.take(asked.client, Kind::Slots, slots as usize);
        tables.ledger.take(asked.client, Kind::ReplyBytes, session.reply_bytes());
        tables.sessions.insert(id, Arc::new(session));
        Ok(created)
    }

    fn session_id(&self, number: u64) -> sessionid4 {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.id(number, 1).to_be_bytes());
        id[8..].copy_from_slice(&self.id(number, 2).to_be_bytes());
        id
    }

    /// `DESTROY_SESSION`.
    pub(crate) fn destroy_session(&self, id: &sessionid4) -> Result<(), nfsstat4> {
        let mut tables = self.tables();
        let session = tables.sessions.remove(id).ok_or(nfsstat4::NFS4ERR_BADSESSION)?;
        session.end();
        tables.ledger.give_back(session.client.id, Kind::Slots, session.fore.ca_maxrequests as usize);
        tables.ledger.give_back(session.client.id, Kind::ReplyBytes, session.reply_bytes());
        if let Some(known) = tables.clients.get_mut(session.client.id) {
            known.sessions.remove(id);
        }
        Ok(())
    }

    /// `DESTROY_CLIENTID`: only a client without sessions and state may go.
    pub(crate) fn destroy_client(&self, id: clientid4) -> Result<(), nfsstat4> {
        let mut tables = self.tables();
        let known = tables.clients.get(id).ok_or(nfsstat4::NFS4ERR_STALE_CLIENTID)?;
        let owner = Arc::clone(&known.owner);
        if tables.has_state(id) {
            return Err(nfsstat4::NFS4ERR_CLIENTID_BUSY);
        }
        tables.remove_client(id);
        tables.grace.forget(&owner);
        Ok(())
    }
}

impl Tables {
    /// True if a client has sessions, opens or locks.
    fn has_state(&self, id: clientid4) -> bool {
        self.clients.get(id).is_some_and(|known| !known.sessions.is_empty() || !known.opens.is_empty())
    }

    /// Confirms a client; the one of the same name before it, which has restarted, goes.
    fn confirm(&mut self, id: clientid4) {
        let Some(known) = self.clients.get(id) else { return };
        if known.shared.is_confirmed() {
            return;
        }
        if let Some(before) = self.clients.named(&known.owner, true) {
            self.remove_client(before);
        }
        self.clients.confirm(id);
        self.ledger.confirm(id);
    }

    /// The slots that a new session of a client gets: the number that it asks for, or the rest of its largest share.
    fn room_for_slots(&mut self, client: clientid4, asked: u32, now: Nanos) -> Result<u32, nfsstat4> {
        let origin = self.ledger.origin_of(client).ok_or(nfsstat4::NFS4ERR_STALE_CLIENTID)?;
        if !self.ledger.may_take(client, Kind::Slots, asked as usize) {
            return Err(nfsstat4::NFS4ERR_NOSPC);
        }
        if self.make_room((Kind::Slots, asked as usize), origin, Some(client), now).is_ok() {
            return Ok(asked);
        }
        let left = self.ledger.left_of_share(origin, Some(client), Kind::Slots).clamp(1, asked as usize);
        self.make_room((Kind::Slots, left), origin, Some(client), now)?;
        Ok(left as u32)
    }

    /// The bytes that each slot of a new session may keep of a reply: those that the client asks for, or `SLOT_REPLY_BYTES` if all
    /// slots together would take more than is left (RFC 8881 §18.36.3 lets a server return less).
    fn reply_bytes(&self, client: clientid4, slots: u32, asked: u32) -> u32 {
        let Self { ledger, .. } = self;
        let more = beyond_guaranteed(slots, asked);
        let is_within_share =
            ledger.origin_of(client).is_some_and(|origin| more <= ledger.left_of_address(origin, Kind::ReplyBytes));
        let has_room = ledger.has_room(Kind::ReplyBytes, more) && ledger.may_take(client, Kind::ReplyBytes, more);
        if is_within_share && has_room { asked } else { asked.min(SLOT_REPLY_BYTES) }
    }
}
