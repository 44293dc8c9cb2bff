//! The tables compared with a model of them: many clients open, lock, expire and restart in random order, and the server is killed in between.
//!
//! The model has one list of opens with one entry for each byte that is locked, and searches it from end to end.

use std::sync::Arc;

use iocurve_meter::{Nanos, SECOND};
use iocurve_wire::nfs3::nfs_fh3;
use iocurve_wire::nfs4::{channel_attrs4, clientid4, nfsstat4, stateid4};
use proptest::prelude::*;
use proptest::test_runner::Config;

use super::ledger::{Amounts, COURTESY_NS, Kind, Ledger};
use super::session::LEASE_NS;
use super::tests::{CHANNEL, Kept, PRINCIPAL};
use super::*;

const NAMES: usize = 5;
const OWNERS: usize = 3;
const FILES: usize = 2;
const BYTES: usize = 12;

/// As many sequences as `PROPTEST_CASES` says.
fn cases(default: u32) -> Config {
    let config = Config::default();
    if std::env::var_os("PROPTEST_CASES").is_some() { config } else { Config { cases: default, ..config } }
}

/// A step of one client.
#[derive(Debug, Clone)]
enum Step {
    /// `EXCHANGE_ID` and `CREATE_SESSION`, after a restart of the client or not.
    Arrive {
        restarted: bool,
    },
    Open {
        owner: usize,
        file: usize,
        access: u32,
        deny: u32,
    },
    Downgrade {
        open: usize,
        access: u32,
        deny: u32,
    },
    Close {
        open: usize,
    },
    Lock {
        open: usize,
        owner: usize,
        first: usize,
        bytes: usize,
        is_write: bool,
    },
    Unlock {
        open: usize,
        owner: usize,
        first: usize,
        bytes: usize,
    },
    Free {
        open: usize,
        owner: usize,
    },
    /// Nothing but a sign of life.
    Renew,
    DestroySession,
    DestroyClient,
}

/// A step, and what happens before it.
#[derive(Debug, Clone)]
struct Event {
    client: usize,
    /// Time that passes, as a part of a lease.
    leases: f64,
    is_killed: bool,
    step: Step,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let open = (0..OWNERS, 0..FILES, 1..4_u32, prop_oneof![4 => Just(0), 1 => 1..4_u32])
        .prop_map(|(owner, file, access, deny)| Step::Open { owner, file, access, deny });
    let place = (0..4_usize, 0..OWNERS, 0..BYTES, 1..=BYTES);
    let step = prop_oneof![
        2 => any::<bool>().prop_map(|restarted| Step::Arrive { restarted }),
        8 => open,
        2 => (0..4_usize, 1..4_u32, 0..4_u32).prop_map(|(open, access, deny)| Step::Downgrade { open, access, deny }),
        4 => (0..4_usize).prop_map(|open| Step::Close { open }),
        8 => (place.clone(), any::<bool>()).prop_map(|((open, owner, first, bytes), is_write)| {
            Step::Lock { open, owner, first, bytes, is_write }
        }),
        5 => place.prop_map(|(open, owner, first, bytes)| Step::Unlock { open, owner, first, bytes }),
        2 => (0..4_usize, 0..OWNERS).prop_map(|(open, owner)| Step::Free { open, owner }),
        4 => Just(Step::Renew),
        1 => Just(Step::DestroySession),
        1 => Just(Step::DestroyClient),
    ];
    let leases = prop_oneof![80 => Just(0.0), 40 => 0.0..0.6, 10 => 1.1..3.0, 1 => 55.0..70.0];
    let event = (0..NAMES, leases, prop::bool::weighted(0.02), step)
        .prop_map(|(client, leases, is_killed, step)| Event { client, leases, is_killed, step });
    prop::collection::vec(event, 1..100)
}

/// An open of the model, with the locks that were made with it.
#[derive(Debug, Clone)]
struct ModelOpen {
    client: usize,
    owner: usize,
    file: usize,
    stateid: stateid4,
    /// Each OPEN: access and deny.
    shares: Vec<(u32, u32)>,
    locks: Vec<ModelLocks>,
}

/// A lock owner's bytes: unlocked, locked for reading or for writing.
#[derive(Debug, Clone)]
struct ModelLocks {
    owner: usize,
    stateid: stateid4,
    bytes: [Option<bool>; BYTES],
}

impl ModelOpen {
    fn share(&self) -> (u32, u32) {
        self.shares.iter().fold((0, 0), |(access, deny), one| (access | one.0, deny | one.1))
    }
}

/// A client of the model.
#[derive(Debug, Clone, Default)]
struct ModelClient {
    verifier: u8,
    id: Option<clientid4>,
    sessions: Vec<Arc<NfsSession>>,
    renewed: Nanos,
}

struct Model {
    record: Kept,
    state: State,
    clients: Vec<ModelClient>,
    opens: Vec<ModelOpen>,
    now: Nanos,
}

fn file(number: usize) -> nfs_fh3 {
    nfs_fh3::new(&[number as u8; 16]).unwrap()
}

fn range(first: usize, bytes: usize) -> (Range, std::ops::Range<usize>) {
    let end = (first + bytes).min(BYTES);
    (Range { first: first as u64, last: end as u64 - 1 }, first..end)
}

fn owner_name(owner: usize) -> [u8; 1] {
    [owner as u8]
}

fn arrived(state: &State, owner: &ClientOwner<'_>, now: Nanos) -> Arc<NfsSession> {
    let Exchanged { client, sequence, .. } = state.exchange_id(owner, false, now).unwrap();
    let request = SessionRequest { client, sequence, origin: owner.origin, fore: CHANNEL, back: CHANNEL };
    let created = state.create_session(&request, now).unwrap();
    state.session(&created.csr_sessionid).unwrap()
}

impl Model {
    fn new() -> Self {
        let (record, clients) = (Kept::default(), vec![ModelClient::default(); NAMES]);
        Self { state: Self::started(&record, 0), record, clients, opens: Vec::new(), now: 0 }
    }

    fn started(record: &Kept, now: Nanos) -> State {
        State::new("test".to_owned(), [7; 16], vec![Box::new(record.clone())], now)
    }

    /// The server is killed; no client reclaims.
    fn restart(&mut self) {
        self.state = Self::started(&self.record, self.now);
        self.now += LEASE_NS;
        (self.clients, self.opens) = (vec![ModelClient::default(); NAMES], Vec::new());
    }

    fn is_expired(&self, client: usize) -> bool {
        self.now - self.clients[client].renewed > LEASE_NS + SECOND
    }

    fn forget(&mut self, client: usize) {
        let verifier = self.clients[client].verifier;
        self.clients[client] = ModelClient { verifier, ..ModelClient::default() };
        self.opens.retain(|open| open.client != client);
    }

    /// True if the clients with these conflicts are not all expired. Those that have expired go, or may go.
    fn is_kept_out(&mut self, in_the_way: &[usize]) -> bool {
        let is_kept_out = in_the_way.iter().any(|client| !self.is_expired(*client));
        for client in in_the_way {
            let is_gone = self.clients[*client].id.is_some_and(|id| self.state.tables().clients.get(id).is_none());
            if is_gone {
                assert!(self.is_expired(*client), "a client whose lease holds lost its state");
                self.forget(*client);
            } else {
                assert!(is_kept_out || self.clients[*client].id.is_none(), "an expired client was in the way");
            }
        }
        is_kept_out
    }

    fn step(&mut self, client: usize, step: &Step) {
        if let Step::Arrive { restarted } = *step {
            return self.arrive(client, restarted);
        }
        if let (Step::DestroyClient, Some(id)) = (step, self.clients[client].id) {
            return self.destroy_client(client, id);
        }
        let Some(session) = self.clients[client].sessions.last().cloned() else { return };
        session.client.renew(self.now);
        if self.now - self.clients[client].renewed >= SECOND {
            self.clients[client].renewed = self.now;
        }
        let own: Vec<usize> = (0..self.opens.len()).filter(|at| self.opens[*at].client == client).collect();
        let chosen = |open: &usize| own.get(*open).copied();
        match step {
            Step::Open { owner, file, access, deny } => self.open(client, &session, *owner, *file, (*access, *deny)),
            Step::DestroySession => {
                self.state.destroy_session(&session.id).unwrap();
                assert!(session.has_ended());
                self.clients[client].sessions.pop();
            }
            Step::Downgrade { open, access, deny } => {
                if let Some(at) = chosen(open) {
                    self.downgrade(at, &session, (*access, *deny));
                }
            }
            Step::Close { open } => {
                let Some(at) = chosen(open) else { return };
                let ModelOpen { stateid, file, .. } = self.opens.remove(at);
                self.state.close(&session.client, &stateid, &self::file(file)).unwrap();
                let gone = self.state.test_stateid(&session.client, &stateid);
                assert_eq!(gone, nfsstat4::NFS4ERR_BAD_STATEID);
            }
            Step::Lock { open, owner, first, bytes, is_write } => {
                let place = range(*first, *bytes);
                if let Some(at) = chosen(open) {
                    self.lock(at, &session, *owner, place.clone(), *is_write);
                }
            }
            Step::Unlock { open, owner, first, bytes } => {
                let place = range(*first, *bytes);
                if let Some(at) = chosen(open) {
                    self.unlock(at, &session, *owner, place.clone());
                }
            }
            Step::Free { open, owner } => {
                if let Some(at) = chosen(open) {
                    self.free(at, &session, *owner);
                }
            }
            Step::Renew | Step::Arrive { .. } | Step::DestroyClient => {}
        }
    }

    fn arrive(&mut self, client: usize, restarted: bool) {
        if restarted {
            self.forget(client);
            self.clients[client].verifier += 1;
        }
        if self.clients[client].id.is_none() {
            // Those of whom nothing was heard for an hour go when a new client comes.
            for other in 0..NAMES {
                if self.clients[other].id.is_some() && self.now - self.clients[other].renewed > COURTESY_NS {
                    self.forget(other);
                }
            }
        }
        let (name, verifier) = (owner_name(client), [self.clients[client].verifier; 8]);
        let owner = ClientOwner {
            id: &name,
            verifier,
            origin: Origin { address: Address::new(client as u128), principal: PRINCIPAL },
        };
        let session = arrived(&self.state, &owner, self.now);
        // A client that is known already has completed.
        let _ = self.state.reclaim_complete(&session.client);
        let known = &mut self.clients[client];
        if known.id.is_none() || self.now - known.renewed >= SECOND {
            known.renewed = self.now;
        }
        known.id = Some(session.client.id);
        known.sessions.push(session);
    }

    fn destroy_client(&mut self, client: usize, id: clientid4) {
        let is_busy = !self.clients[client].sessions.is_empty() || self.opens.iter().any(|open| open.client == client);
        let expected = if is_busy { Err(nfsstat4::NFS4ERR_CLIENTID_BUSY) } else { Ok(()) };
        assert_eq!(self.state.destroy_client(id), expected);
        if !is_busy {
            self.forget(client);
        }
    }

    fn open(&mut self, client: usize, session: &NfsSession, owner: usize, file: usize, share: (u32, u32)) {
        let is_own = |open: &ModelOpen| (open.client, open.owner, open.file) == (client, owner, file);
        let others = self.opens.iter().filter(|open| open.file == file && !is_own(open));
        let conflicts = others.filter(|open| open.share().1 & share.0 != 0 || open.share().0 & share.1 != 0);
        let in_the_way: Vec<usize> = conflicts.map(|open| open.client).collect();
        let request =
            OpenRequest { owner: &owner_name(owner), file: &self::file(file), access: share.0, deny: share.1 };
        let opened = self.state.open(&session.client, &request, self.now);
        if self.is_kept_out(&in_the_way) {
            return assert_eq!(opened, Err(nfsstat4::NFS4ERR_SHARE_DENIED));
        }
        let (stateid, was_open) = opened.unwrap();
        let own = self.opens.iter().position(is_own);
        assert_eq!(was_open, own.is_some());
        match own {
            Some(at) => {
                self.opens[at].stateid = stateid;
                self.opens[at].shares.push(share);
            }
            None => {
                self.opens.push(ModelOpen { client, owner, file, stateid, shares: vec![share], locks: Vec::new() });
            }
        }
    }

    fn downgrade(&mut self, at: usize, session: &NfsSession, (access, deny): (u32, u32)) {
        let open = &mut self.opens[at];
        let within = open.shares.iter().copied().filter(|share| share.0 & !access == 0 && share.1 & !deny == 0);
        let within = ModelOpen { shares: within.collect(), ..open.clone() };
        let found = self.state.downgrade(&session.client, &open.stateid, &file(open.file), (access, deny));
        if within.share() == (access, deny) {
            *open = ModelOpen { stateid: found.unwrap(), ..within };
        } else {
            assert_eq!(found, Err(nfsstat4::NFS4ERR_INVAL));
        }
    }

    /// The open and the place in it of a lock owner's locks in the file of an open.
    fn locks_of(&self, at: usize, owner: usize) -> Option<(usize, usize)> {
        let ModelOpen { client, file, .. } = self.opens[at];
        let of_file =
            (0..self.opens.len()).filter(|at| (self.opens[*at].client, self.opens[*at].file) == (client, file));
        of_file
            .into_iter()
            .find_map(|at| self.opens[at].locks.iter().position(|locks| locks.owner == owner).map(|place| (at, place)))
    }

    fn lock(
        &mut self,
        at: usize,
        session: &NfsSession,
        owner: usize,
        (range, bytes): (Range, std::ops::Range<usize>),
        is_write: bool,
    ) {
        let open = self.opens[at].clone();
        let in_the_way: Vec<usize> = self
            .opens
            .iter()
            .filter(|other| other.file == open.file)
            .flat_map(|other| other.locks.iter().map(|locks| (other.client, locks)))
            .filter(|(client, locks)| (*client, locks.owner) != (open.client, owner))
            .filter(|(_, locks)| locks.bytes[bytes.clone()].iter().flatten().any(|held| *held || is_write))
            .map(|(client, _)| client)
            .collect();
        let name = owner_name(owner);
        let locker = Locker::New { open: open.stateid, owner: &name };
        let request = LockRequest { file: &file(open.file), range, is_write, is_reclaim: false, locker };
        let locked = self.state.lock(&session.client, &request, self.now);
        if open.share().0 & (1 + u32::from(is_write)) == 0 {
            return assert_eq!(locked, Err(LockError::Failed(nfsstat4::NFS4ERR_OPENMODE)));
        }
        if self.is_kept_out(&in_the_way) {
            return assert!(matches!(locked, Err(LockError::Denied(_))), "{locked:?}");
        }
        let stateid = locked.unwrap();
        let at = self.opens.iter().position(|one| one.stateid.other == open.stateid.other).unwrap();
        let (at, place) = self.locks_of(at, owner).unwrap_or_else(|| {
            self.opens[at].locks.push(ModelLocks { owner, stateid, bytes: [None; BYTES] });
            (at, self.opens[at].locks.len() - 1)
        });
        let locks = &mut self.opens[at].locks[place];
        locks.stateid = stateid;
        locks.bytes[bytes].fill(Some(is_write));
    }

    fn unlock(&mut self, at: usize, session: &NfsSession, owner: usize, place: (Range, std::ops::Range<usize>)) {
        let Some((at, of_owner)) = self.locks_of(at, owner) else { return };
        let file = file(self.opens[at].file);
        let locks = &mut self.opens[at].locks[of_owner];
        locks.stateid = self.state.unlock(&session.client, &locks.stateid, &file, place.0).unwrap();
        locks.bytes[place.1].fill(None);
    }

    fn free(&mut self, at: usize, session: &NfsSession, owner: usize) {
        let Some((at, place)) = self.locks_of(at, owner) else { return };
        let locks = &self.opens[at].locks[place];
        let freed = self.state.free_stateid(&session.client, &locks.stateid);
        if locks.bytes.iter().any(Option::is_some) {
            return assert_eq!(freed, Err(nfsstat4::NFS4ERR_LOCKS_HELD));
        }
        freed.unwrap();
        self.opens[at].locks.remove(place);
    }

    /// The tables hold what the model holds.
    fn check(&self) {
        let tables = self.state.tables();
        tables.check();
        let locks: usize = self.opens.iter().map(|open| open.locks.len()).sum();
        assert_eq!((tables.opens.len(), tables.locks.len()), (self.opens.len(), locks));
        let sessions: usize = self.clients.iter().map(|client| client.sessions.len()).sum();
        assert_eq!(tables.sessions.len(), sessions);
    }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn clients_have_what_a_simple_model_says(events in events()) {
        let mut model = Model::new();
        for event in events {
            model.now += (event.leases * LEASE_NS as f64) as Nanos;
            if event.is_killed {
                model.restart();
            }
            model.step(event.client, &event.step);
            model.check();
        }
    }
}

/// Room for few, so that clients are in each other's way.
const FEW: Amounts = [8, 16, 24, 24, 16 << 10];
const FEW_OF_A_CLIENT: Amounts = [1, 8, 12, 12, 12 << 10];

/// The next wish of an address's client.
#[derive(Debug, Clone, Copy)]
enum Want {
    NewClient { is_confirmed: bool },
    Slots(u32),
    Open,
    Locks { owners: u8, released: bool },
}

fn wants() -> impl Strategy<Value = Vec<(u8, f64, Want)>> {
    let want = prop_oneof![
        4 => any::<bool>().prop_map(|is_confirmed| Want::NewClient { is_confirmed }),
        3 => (1..8_u32).prop_map(Want::Slots),
        6 => Just(Want::Open),
        3 => (1..6_u8, any::<bool>()).prop_map(|(owners, released)| Want::Locks { owners, released }),
    ];
    // Most come from one address, which does not let its leases expire.
    let address = prop_oneof![3 => Just(0_u8), 1 => 1..5_u8];
    let leases = prop_oneof![9 => 0.0..0.02, 1 => 0.0..2.0];
    prop::collection::vec((address, leases, want), 1..150)
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn an_address_below_its_share_is_served(wants in wants()) {
        let state = State::new("test".to_owned(), [7; 16], Vec::new(), 0);
        state.tables().ledger = Ledger::new(FEW, FEW_OF_A_CLIENT);
        let mut sessions: Vec<(u8, Arc<NfsSession>)> = Vec::new();
        let mut now = 0;
        for (number, (address, leases, want)) in wants.into_iter().enumerate() {
            now += (leases * LEASE_NS as f64) as Nanos;
            sessions.retain(|(_, session)| !session.has_ended());
            let at = Address::new(0xffff_0000_0000 + u128::from(address));
            let origin = Origin { address: at, principal: PRINCIPAL };
            let own = sessions.iter().rev().find(|(of, _)| *of == address).map(|(_, session)| Arc::clone(session));
            let id = own.as_ref().map(|own| own.client.id);
            let left = |kind| state.tables().ledger.left_of_share(origin, id, kind);
            let name = [number as u8];
            match (want, own) {
                (Want::NewClient { is_confirmed }, _) => {
                    let is_within = state.tables().ledger.left_of_share(origin, None, Kind::Clients) > 0;
                    let owner = ClientOwner { id: &name, verifier: [0; 8], origin };
                    let exchanged = state.exchange_id(&owner, false, now);
                    prop_assert!(exchanged.is_ok() || !is_within);
                    let Ok(Exchanged { client, sequence, .. }) = exchanged else { continue };
                    if is_confirmed {
                        create(&state, &mut sessions, (address, origin), client, sequence, 2, now);
                    }
                }
                (Want::Slots(slots), Some(own)) => {
                    let sequence = state.tables().clients.get(own.client.id).unwrap().sequence();
                    create(&state, &mut sessions, (address, origin), own.client.id, sequence, slots, now);
                }
                (Want::Open, Some(own)) => {
                    own.client.renew(now);
                    let may_take = state.tables().ledger.may_take(own.client.id, Kind::States, 1);
                    let is_within = left(Kind::States) > 0 && may_take;
                    let _ = state.reclaim_complete(&own.client);
                    let request = OpenRequest { owner: &name, file: &file(1), access: 1, deny: 0 };
                    let opened = state.open(&own.client, &request, now);
                    prop_assert!(opened.is_ok() || !is_within, "{opened:?}");
                }
                (Want::Locks { owners, released }, Some(own)) => {
                    own.client.renew(now);
                    let _ = state.reclaim_complete(&own.client);
                    let request = OpenRequest { owner: b"locks", file: &file(2), access: 1, deny: 0 };
                    let Ok((open, _)) = state.open(&own.client, &request, now) else { continue };
                    for owner in 0..owners {
                        let (is_within, name) = (left(Kind::Ranges) > 0 && left(Kind::States) > 0, [owner]);
                        let may_take = |kind| state.tables().ledger.may_take(own.client.id, kind, 1);
                        let is_within = is_within && may_take(Kind::Ranges) && may_take(Kind::States);
                        let locker = Locker::New { open, owner: &name };
                        let range = Range { first: u64::from(owner), last: u64::from(owner) };
                        let request =
                            LockRequest { file: &file(2), range, is_write: false, is_reclaim: false, locker };
                        let locked = state.lock(&own.client, &request, now);
                        prop_assert!(locked.is_ok() || !is_within, "{locked:?}");
                        if let (Ok(stateid), true) = (locked, released) {
                            state.unlock(&own.client, &stateid, &file(2), range).unwrap();
                        }
                    }
                }
                (_, None) => {}
            }
            state.tables().check();
        }
    }
}

/// Makes a session, and fails if an address is not given one slot within its share.
fn create(
    state: &State,
    sessions: &mut Vec<(u8, Arc<NfsSession>)>,
    (address, origin): (u8, Origin),
    client: clientid4,
    sequence: u32,
    slots: u32,
    now: Nanos,
) {
    let fore = channel_attrs4 { ca_maxrequests: slots, ..CHANNEL };
    let (left, may_take) = {
        let tables = state.tables();
        let ledger = &tables.ledger;
        (ledger.left_of_share(origin, Some(client), Kind::Slots), ledger.may_take(client, Kind::Slots, slots as usize))
    };
    let request = SessionRequest { client, sequence, origin, fore, back: CHANNEL };
    let created = state.create_session(&request, now);
    assert!(created.is_ok() || left == 0 || !may_take, "{created:?}");
    if let Ok(created) = created {
        assert!((1..=slots).contains(&created.csr_fore_chan_attrs.ca_maxrequests));
        assert!([1024, 4096].contains(&created.csr_fore_chan_attrs.ca_maxresponsesize_cached));
        sessions.push((address, state.session(&created.csr_sessionid).unwrap()));
    }
}
