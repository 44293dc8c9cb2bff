//! The room that the server has for the state of clients, and what each client and each address takes of it.
//!
//! All state but the bytes of kept replies goes through `Tables::make_room` before it exists. Leases govern it: a client that has been silent for an hour
//! goes when another comes. If there is no room, clients whose lease has expired go first, and an address's clients without a session make room for its next one. Then
//! all addresses have equal shares (networks of an IPv6 site share that of a site), in these their users, and in these their clients. Clients whose lease
//! holds go only from those that take most, and only for others within their share: one that fills the tables harms itself, and a newcomer is
//! always served (RFC 8881 §8.4.2.4 lets a server revoke state).

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use iocurve_meter::{Nanos, SECOND};
use iocurve_wire::nfs4::clientid4;

use super::session::{NfsClient, Principal};
use crate::stats::Nfs4Stats;

/// A kind of state that takes room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Clients,
    /// Slots of sessions. A slot takes some 200 bytes, and `SLOT_REPLY_BYTES`.
    Slots,
    /// Opens and lock owners, with some 400 bytes each; one with a long owner counts as several.
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

    /// The bits of its site: of IPv6 the first 48, which are what a site is given.
    const fn site(self) -> u128 {
        let Self(bits) = self;
        if bits >> 32 == 0xffff { bits } else { bits >> 80 }
    }

    /// The part of this address.
    pub(crate) fn of(client: IpAddr) -> Self {
        match client {
            IpAddr::V4(address) => Self::new(address.to_ipv6_mapped().to_bits()),
            IpAddr::V6(address) => Self::new(address.to_bits()),
        }
    }
}

/// The caller of an operation: the address, and the user that it states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) address: Address,
    pub(crate) principal: Principal,
}

/// A party shares equally with the others of the same larger party.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Party {
    /// An IPv6 site has thousands of networks.
    Site(u128),
    Address(Address),
    User(Address, Principal),
    Client(clientid4),
}

/// A client, and the parties that it is in, the largest first.
type Path = [Party; 4];

/// Parties of a path down to its address.
const ADDRESS_PARTIES: usize = 2;

/// The room that there is, and the accounts of those who take it.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Most of each kind of all clients together, and of one client.
    most: Amounts,
    client_most: Amounts,
    clients: HashMap<clientid4, Account>,
    all: PartyAccount,
    /// Clients without a session by address, the oldest first.
    unconfirmed: HashMap<Address, VecDeque<clientid4>>,
    /// Clients by the time of a sign of life, which need not be the last.
    by_renewal: BTreeSet<(Nanos, clientid4)>,
}

#[derive(Debug)]
struct Account {
    client: Arc<NfsClient>,
    origin: Origin,
    /// The time under which it is in `by_renewal`.
    renewed: Nanos,
}

#[derive(Debug, Default)]
struct PartyAccount {
    taken: Amounts,
    /// The smaller parties in it; a client has none.
    parts: HashMap<Party, Self>,
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
            clients: HashMap::new(),
            all: PartyAccount::default(),
            unconfirmed: HashMap::new(),
            by_renewal: BTreeSet::new(),
        }
    }

    /// Enters a client, which has no session yet.
    pub(super) fn open_account(&mut self, client: Arc<NfsClient>, origin: Origin) {
        let (id, renewed) = (client.id, client.renewed());
        origin.path(id).into_iter().fold(&mut self.all, |larger, part| larger.parts.entry(part).or_default());
        self.unconfirmed.entry(origin.address).or_default().push_back(id);
        self.by_renewal.insert((renewed, id));
        self.clients.insert(id, Account { client, origin, renewed });
        self.take(id, Kind::Clients, 1);
    }

    /// Notes that a client has a session.
    pub(super) fn confirm(&mut self, client: clientid4) {
        let Some(address) = self.clients.get(&client).map(|account| account.origin.address) else { return };
        let Some(unconfirmed) = self.unconfirmed.get_mut(&address) else { return };
        unconfirmed.retain(|id| *id != client);
        if unconfirmed.is_empty() {
            self.unconfirmed.remove(&address);
        }
    }

    /// Removes a client with all that it takes.
    pub(super) fn close_account(&mut self, client: clientid4) {
        self.confirm(client);
        let Some(account) = self.clients.remove(&client) else { return };
        self.by_renewal.remove(&(account.renewed, client));
        let path = account.origin.path(client);
        let taken = self.all.taken_by(&path);
        self.all.remove(&path, taken);
    }

    pub(super) fn take(&mut self, client: clientid4, kind: Kind, amount: usize) {
        self.change(client, kind, |taken| *taken += amount);
    }

    pub(super) fn give_back(&mut self, client: clientid4, kind: Kind, amount: usize) {
        self.change(client, kind, |taken| *taken -= amount);
    }

    fn change(&mut self, client: clientid4, kind: Kind, change: impl Fn(&mut usize)) {
        let Some(account) = self.clients.get(&client) else { return };
        let mut larger = &mut self.all;
        change(&mut larger.taken[kind as usize]);
        for part in account.origin.path(client) {
            let Some(of_part) = larger.parts.get_mut(&part) else { return };
            larger = of_part;
            change(&mut larger.taken[kind as usize]);
        }
    }

    /// True if this amount fits into what all clients may have.
    pub(super) fn has_room(&self, kind: Kind, amount: usize) -> bool {
        amount <= self.free(kind)
    }

    /// True if this amount fits into what one client may have.
    pub(super) fn may_take(&self, client: clientid4, kind: Kind, amount: usize) -> bool {
        self.of_client(client, kind) + amount <= self.client_most[kind as usize]
    }

    /// The amount that is left of an address's share.
    pub(super) fn left_of_address(&self, origin: Origin, kind: Kind) -> usize {
        let path = origin.path(NEWCOMER);
        let left = |parties: usize| self.left_of(&path[..parties], kind, self.most[kind as usize]);
        (1..=ADDRESS_PARTIES).map(left).min().unwrap_or(0)
    }

    /// The most that a client may have made room for: what is left of the largest of its shares, among all sites, in its site, at its
    /// address and of its user.
    pub(super) fn left_of_share(&self, origin: Origin, client: Option<clientid4>, kind: Kind) -> usize {
        let path = origin.path(client.unwrap_or(NEWCOMER));
        self.left_of_shares(&path, kind).map(|(_, left)| left).max().unwrap_or(0)
    }

    /// The parties that a client is in, from all clients on, with the amount that is left of its part's share in each. What a part leaves to others
    /// is theirs meanwhile: what is shared is what the party has, and what is free.
    fn left_of_shares<'p>(&self, path: &'p Path, kind: Kind) -> impl Iterator<Item = (&'p [Party], usize)> {
        let free = self.free(kind);
        (0..path.len()).map(move |larger| {
            let room = self.all.taken_by(&path[..larger])[kind as usize] + free;
            (&path[..larger], self.left_of(&path[..=larger], kind, room))
        })
    }

    /// The amount that is left of a party's share of `room`. A newcomer's share is at least one, unless another of the same user would
    /// lose its client for it.
    fn left_of(&self, party: &[Party], kind: Kind, room: usize) -> usize {
        let larger = party.split_last().and_then(|(_, larger)| self.all.party(larger));
        let newcomers = usize::from(self.all.party(party).is_none());
        let parts = larger.map_or(0, |larger| larger.parts.len()) + newcomers;
        let least = usize::from(!matches!(party, [.., Party::Client(_)]));
        (room / parts.max(1)).max(least).saturating_sub(self.all.taken_by(party)[kind as usize])
    }

    /// The room that is taken.
    pub(super) fn stats(&self) -> Nfs4Stats {
        let [clients, slots, states, ranges, _] = self.all.taken.map(|taken| taken as u64);
        Nfs4Stats { clients, slots, states, ranges }
    }

    pub(super) fn origin_of(&self, client: clientid4) -> Option<Origin> {
        self.clients.get(&client).map(|account| account.origin)
    }

    fn of_client(&self, client: clientid4, kind: Kind) -> usize {
        let account = self.clients.get(&client);
        account.map_or(0, |account| self.all.taken_by(&account.origin.path(client))[kind as usize])
    }

    fn free(&self, kind: Kind) -> usize {
        self.most[kind as usize].saturating_sub(self.all.taken[kind as usize])
    }

    /// Each party has the sum of its parts, all have these amounts, and they are within the limits.
    pub(super) fn check(&self, amounts: Amounts) {
        assert_eq!(self.all.taken, amounts);
        self.all.check();
        assert!((0..KINDS).all(|kind| amounts[kind] <= self.most[kind]));
        for (id, account) in &self.clients {
            let taken = self.all.taken_by(&account.origin.path(*id));
            assert!((0..KINDS).all(|kind| taken[kind] <= self.client_most[kind]));
        }
        let unconfirmed: usize = self.unconfirmed.values().map(VecDeque::len).sum();
        assert_eq!(unconfirmed, self.clients.values().filter(|account| !account.client.is_confirmed()).count());
    }

    /// The client that makes room for an amount of a kind of state: one whose lease has expired, one of the same address
    /// that has no session, or the one that takes most where the amount is within a share.
    pub(super) fn first_to_go(
        &mut self,
        (kind, amount): (Kind, usize),
        origin: Origin,
        client: Option<clientid4>,
        now: Nanos,
    ) -> Option<clientid4> {
        let unconfirmed = |ledger: &Self| {
            let of_address = ledger.unconfirmed.get(&origin.address).filter(|_| kind == Kind::Clients)?;
            of_address.front().copied()
        };
        let path = origin.path(client.unwrap_or(NEWCOMER));
        self.expired(now).or_else(|| unconfirmed(self)).or_else(|| {
            let mut shares = self.left_of_shares(&path, kind).filter(|(_, left)| amount <= *left);
            shares.find_map(|(larger, _)| self.largest(self.all.party(larger)?, kind))
        })
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

    /// The client of the parts of a party that take most: one without a session, or the one that has been silent for longest.
    fn largest(&self, larger: &PartyAccount, kind: Kind) -> Option<clientid4> {
        let mut largest: Vec<_> = larger.parts.iter().collect();
        loop {
            let taken = |part: &PartyAccount| part.taken[kind as usize];
            let most = largest.iter().map(|(_, part)| taken(part)).max().filter(|most| *most > 0)?;
            largest.retain(|(_, part)| taken(part) == most);
            if matches!(largest[..], [(Party::Client(_), _), ..]) {
                break;
            }
            largest = largest.into_iter().flat_map(|(_, larger)| &larger.parts).collect();
        }
        let accounts = largest.into_iter().filter_map(|(party, _)| match party {
            Party::Client(id) => self.clients.get(id),
            _ => None,
        });
        let first = accounts.min_by_key(|account| (account.client.is_confirmed(), account.client.renewed()));
        first.map(|account| account.client.id)
    }
}

impl PartyAccount {
    fn party(&self, path: &[Party]) -> Option<&Self> {
        path.iter().try_fold(self, |larger, part| larger.parts.get(part))
    }

    fn taken_by(&self, path: &[Party]) -> Amounts {
        self.party(path).map_or(Amounts::default(), |party| party.taken)
    }

    /// Removes the last party of a path, which takes these amounts, and larger ones that are empty without it.
    fn remove(&mut self, path: &[Party], amounts: Amounts) {
        self.taken = std::array::from_fn(|kind| self.taken[kind] - amounts[kind]);
        if let [part, smaller @ ..] = path
            && let Some(of_part) = self.parts.get_mut(part)
        {
            of_part.remove(smaller, amounts);
            if of_part.parts.is_empty() {
                self.parts.remove(part);
            }
        }
    }

    /// Each party has the sum of its parts.
    fn check(&self) {
        let add = |sum: Amounts, part: &Self| std::array::from_fn(|kind| sum[kind] + part.taken[kind]);
        assert!(self.parts.is_empty() || self.parts.values().fold(Amounts::default(), add) == self.taken);
        self.parts.values().for_each(Self::check);
    }
}

/// The place in a path of a client that has no id yet.
const NEWCOMER: clientid4 = 0;

impl Origin {
    fn path(self, client: clientid4) -> Path {
        let Self { address, principal } = self;
        [Party::Site(address.site()), Party::Address(address), Party::User(address, principal), Party::Client(client)]
    }
}

/// Bytes that slots may keep of replies, beyond those of each slot.
pub(super) fn beyond_guaranteed(slots: u32, reply_bytes: u32) -> usize {
    slots as usize * reply_bytes.saturating_sub(SLOT_REPLY_BYTES) as usize
}
