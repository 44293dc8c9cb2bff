//! The room that the server has for the state of clients, and what each client and each address takes of it.
//!
//! All state but the bytes of kept replies goes through `Tables::make_room` before it exists. Leases govern it: a client that has been silent for an hour
//! goes when another comes. If there is no room, clients whose lease has expired go first, and an address's clients without a session make room for its next one. Clients whose lease holds go only from
//! the address that takes most, and only for an address within its share: one that fills the tables harms itself, and a newcomer is
//! always served (RFC 8881 §8.4.2.4 lets a server revoke state).

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use iocurve_meter::{Nanos, SECOND};
use iocurve_wire::nfs4::clientid4;

use super::session::NfsClient;
use crate::stats::Nfs4Stats;

/// A kind of state that takes room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Clients,
    /// Slots of sessions. A slot takes some 200 bytes, and `SLOT_REPLY_BYTES`.
    Slots,
    /// Opens and lock owners.
    States,
    /// Locked ranges. One takes some 150 bytes.
    Ranges,
    /// Bytes that slots may keep of replies, beyond `SLOT_REPLY_BYTES` of each. They are granted while there are some, and no client
    /// goes for them.
    ReplyBytes,
}

const KINDS: usize = 5;

/// Amounts by kind.
pub(super) type Amounts = [usize; KINDS];

/// Most of each kind of all clients together.
const MOST: Amounts = [1 << 12, 1 << 17, 1 << 18, 1 << 18, 64 << 20];

/// Most of each kind of one client.
const CLIENT_MOST: Amounts = [1, 1 << 12, 1 << 16, 1 << 16, 8 << 20];

/// Bytes that each slot may keep of a reply: enough for an OPEN, a CREATE or a RENAME with attributes.
pub(super) const SLOT_REPLY_BYTES: u32 = 1024;

/// A client whose lease has expired keeps its state for this time, if it is in no other's way: it may have slept, or its network.
pub(super) const COURTESY_NS: Nanos = 3600 * SECOND;

/// The part of a client's address that counts as one: of IPv6 the network, since one machine has all addresses of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address(u128);

impl Address {
    /// Takes the bits of an IPv6 address, or of the one that an IPv4 address is mapped to.
    pub(crate) const fn new(client: u128) -> Self {
        let is_ipv4 = client >> 32 == 0xffff;
        Self(if is_ipv4 { client } else { client >> 64 << 64 })
    }

    /// The part of this address.
    pub(crate) fn of(client: IpAddr) -> Self {
        match client {
            IpAddr::V4(address) => Self::new(address.to_ipv6_mapped().to_bits()),
            IpAddr::V6(address) => Self::new(address.to_bits()),
        }
    }
}

/// The room that there is, and the accounts of those who take it.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Most of each kind of all clients together, and of one client.
    most: Amounts,
    client_most: Amounts,
    taken: Amounts,
    clients: HashMap<clientid4, Account>,
    addresses: HashMap<Address, AddressAccount>,
    /// Clients by the time of a sign of life, which need not be the last.
    by_renewal: BTreeSet<(Nanos, clientid4)>,
}

#[derive(Debug)]
struct Account {
    client: Arc<NfsClient>,
    address: Address,
    taken: Amounts,
    /// The time under which it is in `by_renewal`.
    renewed: Nanos,
}

#[derive(Debug, Default)]
struct AddressAccount {
    taken: Amounts,
    clients: HashSet<clientid4>,
    /// Clients without a session, the oldest first.
    unconfirmed: VecDeque<clientid4>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self::new(MOST, CLIENT_MOST)
    }
}

impl Ledger {
    pub(super) fn new(most: Amounts, client_most: Amounts) -> Self {
        Self {
            most,
            client_most,
            taken: Amounts::default(),
            clients: HashMap::new(),
            addresses: HashMap::new(),
            by_renewal: BTreeSet::new(),
        }
    }

    /// Enters a client, which has no session yet.
    pub(super) fn open_account(&mut self, client: Arc<NfsClient>, address: Address) {
        let (id, renewed) = (client.id, client.renewed());
        let of_address = self.addresses.entry(address).or_default();
        of_address.clients.insert(id);
        of_address.unconfirmed.push_back(id);
        self.by_renewal.insert((renewed, id));
        let account = Account { client, address, taken: Amounts::default(), renewed };
        self.clients.insert(id, account);
        self.take(id, Kind::Clients, 1);
    }

    /// Notes that a client has a session.
    pub(super) fn confirm(&mut self, client: clientid4) {
        let Some(account) = self.clients.get(&client) else { return };
        let Some(of_address) = self.addresses.get_mut(&account.address) else { return };
        of_address.unconfirmed.retain(|id| *id != client);
    }

    /// Removes a client with all that it takes.
    pub(super) fn close_account(&mut self, client: clientid4) {
        let Some(account) = self.clients.remove(&client) else { return };
        self.by_renewal.remove(&(account.renewed, client));
        let Some(of_address) = self.addresses.get_mut(&account.address) else { return };
        for kind in 0..KINDS {
            self.taken[kind] -= account.taken[kind];
            of_address.taken[kind] -= account.taken[kind];
        }
        of_address.clients.remove(&client);
        of_address.unconfirmed.retain(|id| *id != client);
        if of_address.clients.is_empty() {
            self.addresses.remove(&account.address);
        }
    }

    pub(super) fn take(&mut self, client: clientid4, kind: Kind, amount: usize) {
        self.change(client, kind, |taken| *taken += amount);
    }

    pub(super) fn give_back(&mut self, client: clientid4, kind: Kind, amount: usize) {
        self.change(client, kind, |taken| *taken -= amount);
    }

    fn change(&mut self, client: clientid4, kind: Kind, change: impl Fn(&mut usize)) {
        let Some(account) = self.clients.get_mut(&client) else { return };
        change(&mut account.taken[kind as usize]);
        change(&mut self.taken[kind as usize]);
        if let Some(of_address) = self.addresses.get_mut(&account.address) {
            change(&mut of_address.taken[kind as usize]);
        }
    }

    /// True if this amount fits into what all clients may have.
    pub(super) fn has_room(&self, kind: Kind, amount: usize) -> bool {
        self.taken[kind as usize] + amount <= self.most[kind as usize]
    }

    /// True if this amount fits into what one client may have.
    pub(super) fn may_take(&self, client: clientid4, kind: Kind, amount: usize) -> bool {
        self.of_client(client, kind) + amount <= self.client_most[kind as usize]
    }

    /// The amount that is left of an address's share. All addresses that have clients have equal shares.
    pub(super) fn left_of_share(&self, address: Address, kind: Kind) -> usize {
        let newcomers = usize::from(!self.addresses.contains_key(&address));
        let share = self.most[kind as usize] / (self.addresses.len() + newcomers);
        share.saturating_sub(self.of_address(address, kind))
    }

    /// The room that is taken.
    pub(super) fn stats(&self) -> Nfs4Stats {
        let [clients, slots, states, ranges, _] = self.taken.map(|taken| taken as u64);
        Nfs4Stats { clients, slots, states, ranges }
    }

    pub(super) fn address_of(&self, client: clientid4) -> Option<Address> {
        self.clients.get(&client).map(|account| account.address)
    }

    /// Sums over clients and over addresses are these amounts, and within the limits.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn check(&self, amounts: Amounts) {
        let sum = |all: &mut dyn Iterator<Item = Amounts>| {
            all.fold(Amounts::default(), |sum, one| std::array::from_fn(|kind| sum[kind] + one[kind]))
        };
        assert_eq!(self.taken, amounts);
        assert_eq!(sum(&mut self.clients.values().map(|account| account.taken)), amounts);
        assert_eq!(sum(&mut self.addresses.values().map(|account| account.taken)), amounts);
        assert!((0..KINDS).all(|kind| self.taken[kind] <= self.most[kind]));
        let is_within = |account: &Account| (0..KINDS).all(|kind| account.taken[kind] <= self.client_most[kind]);
        assert!(self.clients.values().all(is_within));
    }

    fn of_client(&self, client: clientid4, kind: Kind) -> usize {
        self.clients.get(&client).map_or(0, |account| account.taken[kind as usize])
    }

    fn of_address(&self, address: Address, kind: Kind) -> usize {
        self.addresses.get(&address).map_or(0, |account| account.taken[kind as usize])
    }

    /// The client that makes room for an amount of a kind of state of an address: one whose lease has expired, one of the same address
    /// that has no session, or, within the address's share, one of the address that takes most.
    pub(super) fn first_to_go(&mut self, kind: Kind, amount: usize, address: Address, now: Nanos) -> Option<clientid4> {
        let is_within_share = amount <= self.left_of_share(address, kind);
        self.expired(now)
            .or_else(|| if kind == Kind::Clients { self.unconfirmed(address) } else { None })
            .or_else(|| if is_within_share { self.largest(kind) } else { None })
    }

    /// The client that has been silent for longest, if its lease has expired.
    fn expired(&mut self, now: Nanos) -> Option<clientid4> {
        let client = self.most_silent()?;
        client.is_expired(now).then_some(client.id)
    }

    /// The client that has been silent for longest, if no courtesy is left.
    pub(super) fn forgotten(&mut self, now: Nanos) -> Option<clientid4> {
        let client = self.most_silent()?;
        (now.saturating_sub(client.renewed()) > COURTESY_NS).then_some(client.id)
    }

    /// The client that has been silent for longest.
    fn most_silent(&mut self) -> Option<&NfsClient> {
        loop {
            let (noted, id) = *self.by_renewal.first()?;
            let account = self.clients.get_mut(&id)?;
            account.renewed = account.client.renewed();
            if account.renewed == noted {
                return self.clients.get(&id).map(|account| &*account.client);
            }
            self.by_renewal.pop_first();
            self.by_renewal.insert((account.renewed, id));
        }
    }

    /// The oldest client of an address that has no session.
    fn unconfirmed(&self, address: Address) -> Option<clientid4> {
        self.addresses.get(&address)?.unconfirmed.front().copied()
    }

    /// A client of the address that takes most: one without a session, or the one that takes most and has been silent for longest.
    fn largest(&self, kind: Kind) -> Option<clientid4> {
        let of_address = self.addresses.values().max_by_key(|account| account.taken[kind as usize])?;
        let accounts = of_address.clients.iter().filter_map(|id| self.clients.get(id));
        let taking = accounts.filter(|account| account.taken[kind as usize] > 0);
        let rank = |account: &&Account| {
            (account.client.is_confirmed(), Reverse(account.taken[kind as usize]), account.client.renewed())
        };
        taking.min_by_key(rank).map(|account| account.client.id)
    }
}

/// Bytes that slots may keep of replies, beyond those of each slot.
pub(super) fn beyond_guaranteed(slots: u32, reply_bytes: u32) -> usize {
    slots as usize * reply_bytes.saturating_sub(SLOT_REPLY_BYTES) as usize
}
