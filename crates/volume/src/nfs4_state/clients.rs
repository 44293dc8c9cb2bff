//! `EXCHANGE_ID`, `CREATE_SESSION` and what ends clients and sessions (RFC 8881 §18.35 to §18.37, §18.50).

use std::collections::HashMap;
use std::sync::Arc;

use iocurve_meter::Nanos;
use iocurve_wire::nfs4::operations::CREATE_SESSION4resok;
use iocurve_wire::nfs4::{channel_attrs4, clientid4, nfsstat4, sequenceid4, sessionid4, verifier4};

use super::session::{NfsClient, NfsSession};
use super::{CLIENTS_MAX, LEASE_NS, SLOTS_MAX, State, Tables};

/// The principal of a call: the flavor of the credential and the user in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Principal {
    pub(crate) flavor: u32,
    pub(crate) uid: u32,
}

/// A client as it names itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientOwner<'a> {
    pub(crate) id: &'a [u8],
    /// Differs after each restart of the client.
    pub(crate) verifier: verifier4,
    pub(crate) principal: Principal,
}

/// A session that a client asks for; the limits are those that it gets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionRequest {
    pub(crate) client: clientid4,
    pub(crate) sequence: sequenceid4,
    pub(crate) principal: Principal,
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

#[derive(Debug)]
pub(super) struct Known {
    pub(super) shared: Arc<NfsClient>,
    pub(super) owner: Box<[u8]>,
    verifier: verifier4,
    principal: Principal,
    /// It has made a session.
    is_confirmed: bool,
    /// Sequence id of the next `CREATE_SESSION`.
    sequence: sequenceid4,
    /// Result of the last `CREATE_SESSION`, for the same call sent again.
    created: Option<CREATE_SESSION4resok>,
}

/// The clients by number.
#[derive(Debug, Default)]
pub(super) struct Clients(pub(super) HashMap<clientid4, Known>);

impl Clients {
    /// The client with this name that has made a session, or the one that has not yet.
    fn named(&self, owner: &[u8], is_confirmed: bool) -> Option<clientid4> {
        let is_it = |known: &Known| known.is_confirmed == is_confirmed && *known.owner == *owner;
        self.0.iter().find(|(_, known)| is_it(known)).map(|(id, _)| *id)
    }

    pub(super) fn remove(&mut self, id: clientid4) {
        self.0.remove(&id);
    }

    pub(super) fn is_expired(&self, id: clientid4, now: Nanos) -> bool {
        self.0.get(&id).is_none_or(|known| known.shared.is_expired(now))
    }
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
            let known = &tables.clients.0[&id];
            let (is_same, is_own) = (known.verifier == owner.verifier, known.principal == owner.principal);
            match () {
                () if is_update && !is_same => return Err(nfsstat4::NFS4ERR_NOT_SAME),
                () if is_update && !is_own => return Err(nfsstat4::NFS4ERR_PERM),
                () if is_own && is_same => {
                    known.shared.renew(now);
                    return Ok(Exchanged { client: id, sequence: known.sequence, is_confirmed: true });
                }
                () if is_own => {}
                () if tables.has_state(id) && !tables.clients.is_expired(id, now) => {
                    return Err(nfsstat4::NFS4ERR_CLID_INUSE);
                }
                () => tables.remove_client(id),
            }
        } else if is_update {
            return Err(nfsstat4::NFS4ERR_NOENT);
        }
        if let Some(id) = tables.clients.named(owner.id, false) {
            tables.remove_client(id);
        }
        tables.make_room(now)?;
        let client = u64::from(self.boot) << 32 | tables.number() & 0xffff_ffff;
        let known = Known {
            shared: Arc::new(NfsClient::new(client, now)),
            owner: owner.id.into(),
            verifier: owner.verifier,
            principal: owner.principal,
            is_confirmed: false,
            sequence: 1,
            created: None,
        };
        tables.clients.0.insert(client, known);
        Ok(Exchanged { client, sequence: 1, is_confirmed: false })
    }

    /// `CREATE_SESSION`. It confirms a new client, and then removes the one of the same name that was before.
    pub(crate) fn create_session(&self, asked: &SessionRequest, now: Nanos) -> Result<CREATE_SESSION4resok, nfsstat4> {
        let mut tables = self.tables();
        let known = tables.clients.0.get(&asked.client).ok_or(nfsstat4::NFS4ERR_STALE_CLIENTID)?;
        match known.created {
            Some(created) if asked.sequence == created.csr_sequence => return Ok(created),
            _ if asked.sequence != known.sequence => return Err(nfsstat4::NFS4ERR_SEQ_MISORDERED),
            _ if !known.is_confirmed && known.principal != asked.principal => {
                return Err(nfsstat4::NFS4ERR_CLID_INUSE);
            }
            _ if !known.is_confirmed && known.shared.is_expired(now) => {
                tables.remove_client(asked.client);
                return Err(nfsstat4::NFS4ERR_STALE_CLIENTID);
            }
            _ => {}
        }
        let slots = tables.sessions.values().map(|session| session.fore.ca_maxrequests as usize).sum::<usize>();
        if slots + asked.fore.ca_maxrequests as usize > SLOTS_MAX {
            return Err(nfsstat4::NFS4ERR_DELAY);
        }
        tables.confirm(asked.client);
        let number = tables.number();
        let known = tables.clients.0.get_mut(&asked.client).ok_or(nfsstat4::NFS4ERR_STALE_CLIENTID)?;
        let id = session_id(asked.client, number);
        let created = CREATE_SESSION4resok {
            csr_sessionid: id,
            csr_sequence: asked.sequence,
            csr_flags: 0,
            csr_fore_chan_attrs: asked.fore,
            csr_back_chan_attrs: asked.back,
        };
        known.sequence = known.sequence.wrapping_add(1);
        known.created = Some(created);
        known.shared.renew(now);
        let session = NfsSession::new(id, Arc::clone(&known.shared), asked.fore);
        tables.sessions.insert(id, Arc::new(session));
        Ok(created)
    }

    /// `DESTROY_SESSION`.
    pub(crate) fn destroy_session(&self, id: &sessionid4) -> Result<(), nfsstat4> {
        let session = self.tables().sessions.remove(id).ok_or(nfsstat4::NFS4ERR_BADSESSION)?;
        session.end();
        Ok(())
    }

    /// `DESTROY_CLIENTID`: only a client without sessions and state may go.
    pub(crate) fn destroy_client(&self, id: clientid4) -> Result<(), nfsstat4> {
        let mut tables = self.tables();
        let known = tables.clients.0.get(&id).ok_or(nfsstat4::NFS4ERR_STALE_CLIENTID)?;
        let owner = known.owner.clone();
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
        self.sessions.values().any(|session| session.client.id == id)
            || self.opens.values().any(|open| open.client == id)
    }

    /// Confirms a client; the one of the same name before it, which has restarted, goes.
    fn confirm(&mut self, id: clientid4) {
        let Some(known) = self.clients.0.get(&id) else { return };
        if known.is_confirmed {
            return;
        }
        let before = self.clients.named(&known.owner, true);
        if let Some(before) = before {
            self.remove_client(before);
        }
        if let Some(known) = self.clients.0.get_mut(&id) {
            known.is_confirmed = true;
        }
    }

    /// Removes clients that never made a session, and beyond the limit the one that has been silent for the longest time.
    fn make_room(&mut self, now: Nanos) -> Result<(), nfsstat4> {
        if self.clients.0.len() < CLIENTS_MAX / 2 {
            return Ok(());
        }
        self.clients.0.retain(|_, known| known.is_confirmed || now.saturating_sub(known.shared.renewed()) <= LEASE_NS);
        if self.clients.0.len() < CLIENTS_MAX {
            return Ok(());
        }
        let expired = self.clients.0.values().filter(|known| known.shared.is_expired(now));
        let oldest = expired.min_by_key(|known| known.shared.renewed()).map(|known| known.shared.id);
        oldest.map(|id| self.remove_client(id)).ok_or(nfsstat4::NFS4ERR_DELAY)
    }
}

fn session_id(client: clientid4, number: u64) -> sessionid4 {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&client.to_be_bytes());
    id[8..].copy_from_slice(&number.to_be_bytes());
    id
}
