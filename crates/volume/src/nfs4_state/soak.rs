//! Weeks of clients that come and vanish, by a clock that is held. `SOAK_DAYS` says how many days; two by default.
//!
//! Each day the server is killed, and the clients that stay reclaim what they have. The state at the end of a day is that of the clients that
//! stay, of those that came within the last hour, and of those that attack: each day one address makes clients, and another one states.

use std::collections::VecDeque;
use std::sync::Arc;

use iocurve_meter::{Nanos, Rng, SECOND};
use iocurve_wire::nfs3::nfs_fh3;
use iocurve_wire::nfs4::stateid4;

use super::ledger::COURTESY_NS;
use super::session::LEASE_NS;
use super::tests::{CHANNEL, Kept, PRINCIPAL};
use super::*;
use crate::stats::Nfs4Stats;

const DAY_NS: Nanos = 24 * 3600 * SECOND;
/// A client comes each half minute, on average.
const COMES_NS: u64 = 60 * SECOND;
const STAY: usize = 16;
const ADDRESSES: u64 = 40;
/// Clients, and opens with a lock owner each, that attackers try to make each day.
const ATTACK_CLIENTS: u64 = 5_000;
const ATTACK_STATES: u64 = 2_000;
const FILES: u64 = 200;
/// Most opens and lock owners, and most ranges, of one that comes and goes.
const STATES_MAX: u64 = 6;

struct Weeks {
    record: Kept,
    state: State,
    random: Rng,
    now: Nanos,
    stay: Vec<Arc<NfsSession>>,
    /// The times at which clients came that may still have state.
    came: VecDeque<Nanos>,
    names: u64,
}

fn file(number: u64) -> nfs_fh3 {
    nfs_fh3::new(&number.to_be_bytes()).unwrap()
}

impl Weeks {
    fn new() -> Self {
        let record = Kept::default();
        let state = Self::started(&record, 0);
        let (random, came) = (Rng::new(1), VecDeque::new());
        let mut weeks = Self { record, state, random, now: 0, stay: Vec::new(), came, names: 0 };
        weeks.stay =
            (0..STAY).map(|number| weeks.arrive(format!("stays {number}").as_bytes(), number as u64)).collect();
        weeks.stay.iter().for_each(|session| weeks.state.reclaim_complete(&session.client).unwrap());
        weeks.open_what_stays(false);
        weeks
    }

    fn started(record: &Kept, now: Nanos) -> State {
        let kept = record.clone();
        State::new("test".to_owned(), [7; 16], vec![Box::new(kept)], now)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.below(end)
    }

    fn arrive(&self, name: &[u8], address: u64) -> Arc<NfsSession> {
        let address = Address::new(0xffff_0a00_0000 + u128::from(address));
        let owner = ClientOwner { id: name, verifier: [1; 8], origin: Origin { address, principal: PRINCIPAL } };
        let Exchanged { client, sequence, .. } = self.state.exchange_id(&owner, false, self.now).unwrap();
        let request = SessionRequest { client, sequence, origin: owner.origin, fore: CHANNEL, back: CHANNEL };
        let created = self.state.create_session(&request, self.now).unwrap();
        self.state.session(&created.csr_sessionid).unwrap()
    }

    /// Each client that stays has a file for itself, and a lock.
    fn open_what_stays(&self, is_reclaim: bool) {
        for (number, session) in self.stay.iter().enumerate() {
            let file = file(FILES + number as u64);
            let request = OpenRequest { owner: b"stays", file: &file, access: 3, deny: 3 };
            let (open, _) = self.state.open(&session.client, &request, self.now).unwrap();
            self.lock(session, open, (&file, 0), is_reclaim).unwrap();
        }
    }

    fn lock(
        &self,
        session: &NfsSession,
        open: stateid4,
        (file, byte): (&nfs_fh3, u64),
        is_reclaim: bool,
    ) -> Result<stateid4, LockError> {
        let range = Range { first: byte, last: byte };
        let locker = Locker::New { open, owner: b"owner" };
        let request = LockRequest { file, range, is_write: true, is_reclaim, locker };
        self.state.lock(&session.client, &request, self.now)
    }

    /// The server is killed. Clients that stay reclaim, those that came and went do not.
    fn restart(&mut self) {
        self.state = Self::started(&self.record, self.now);
        self.came.clear();
        self.stay = (0..STAY).map(|number| self.arrive(format!("stays {number}").as_bytes(), number as u64)).collect();
        for session in &self.stay {
            self.state.check_open(&session.client, true, self.now).expect("it may reclaim");
        }
        self.open_what_stays(true);
        self.stay.iter().for_each(|session| self.state.reclaim_complete(&session.client).unwrap());
        self.now += LEASE_NS;
    }

    /// A client comes, opens files, locks bytes, and takes leave or not.
    fn come_and_go(&mut self) {
        self.names += 1;
        let (name, address) = (self.names.to_be_bytes(), self.below(ADDRESSES));
        let session = self.arrive(&name, address);
        self.state.reclaim_complete(&session.client).unwrap();
        for _ in 0..self.below(STATES_MAX / 2 + 1) {
            let (file, byte) = (file(self.below(FILES)), self.below(1 << 40));
            let request = OpenRequest { owner: b"opens", file: &file, access: 3, deny: 0 };
            let (open, _) = self.state.open(&session.client, &request, self.now).unwrap();
            match self.lock(&session, open, (&file, byte), false) {
                Ok(_) | Err(LockError::Denied(_)) => {}
                Err(LockError::Failed(status)) => panic!("{status:?}"),
            }
        }
        if self.below(4) == 0 {
            self.state.destroy_session(&session.id).unwrap();
        }
        self.came.push_back(self.now);
    }

    /// One address makes clients, another one opens and lock owners, up to their limits. Those that stay keep theirs, and a newcomer is served.
    fn attack(&mut self) {
        for name in 0..ATTACK_CLIENTS {
            let address = Address::new(0xffff_0a01_0000);
            let name = (name << 32).to_be_bytes();
            let owner = ClientOwner { id: &name, verifier: [1; 8], origin: Origin { address, principal: PRINCIPAL } };
            if let Ok(Exchanged { client, sequence, .. }) = self.state.exchange_id(&owner, false, self.now) {
                let request = SessionRequest { client, sequence, origin: owner.origin, fore: CHANNEL, back: CHANNEL };
                let _ = self.state.create_session(&request, self.now);
            }
        }
        let session = self.arrive(b"attacks", 1 << 17);
        self.state.reclaim_complete(&session.client).unwrap();
        for name in 0..ATTACK_STATES {
            let (file, name) = (file(self.below(FILES)), name.to_be_bytes());
            let request = OpenRequest { owner: &name, file: &file, access: 3, deny: 0 };
            let Ok((open, _)) = self.state.open(&session.client, &request, self.now) else { continue };
            let (range, locker) =
                (Range { first: self.below(1 << 40), last: u64::MAX }, Locker::New { open, owner: &name });
            let request = LockRequest { file: &file, range, is_write: true, is_reclaim: false, locker };
            drop(self.state.lock(&session.client, &request, self.now));
        }
        assert!(self.stay.iter().all(|session| self.state.session(&session.id).is_some()));
        self.come_and_go();
    }

    fn day(&mut self) -> Nfs4Stats {
        let end = self.now + DAY_NS;
        self.attack();
        while self.now < end {
            self.now += self.below(COMES_NS);
            self.stay.iter().for_each(|session| session.client.renew(self.now));
            self.come_and_go();
            let gone = |came: &Nanos| self.now - came > COURTESY_NS + 2 * SECOND;
            let count = self.came.iter().take_while(|came| gone(came)).count();
            self.came.drain(..count);
            let found = self.state.stats();
            let may_be_there = self.came.len() as u64;
            let clients = STAY as u64 + may_be_there + ATTACK_CLIENTS + 1;
            assert!(found.clients <= clients, "{found:?}, {may_be_there} came within an hour");
            let states = 2 * STAY as u64 + may_be_there * STATES_MAX + 2 * ATTACK_STATES;
            assert!(found.states <= states && found.ranges <= states, "{found:?}");
        }
        self.state.tables().check();
        self.state.stats()
    }
}

/// Memory of this process, in KiB.
fn resident_kib() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4
}

#[test]
fn weeks_of_clients_leave_nothing_behind() {
    let days: u64 = std::env::var("SOAK_DAYS").map_or(2, |days| days.parse().unwrap());
    let mut weeks = Weeks::new();
    for day in 1..=days {
        let found = weeks.day();
        if day % 7 == 1 {
            eprintln!("day {day}: {} clients came; {found:?}; {} KiB", weeks.names, resident_kib());
        }
        weeks.restart();
    }
}
