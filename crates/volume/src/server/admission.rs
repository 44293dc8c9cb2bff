//! The connections that may be open: each address (IPv6: each /64 network) has an equal share of them.
//!
//! When all are open, a connection of an address below its share takes the place of the longest idle connection of the addresses that have most.
//! One of an address at its share takes the place of the longest idle one of the same address, if that has been idle for `IDLE_NS`.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::TcpStream;
use std::sync::{Arc, Weak};

use iocurve_meter::{Nanos, SECOND};

use crate::nfs4_state::Address;
use crate::pending::ConnectionId;
use crate::stats::ConnectionCounters;

/// A connection without a byte for this long gives way to another one of its address.
const IDLE_NS: Nanos = SECOND;

/// Idle connections that one search remembers for the next: a search looks at all of them.
const FOUND_MAX: usize = 256;

/// An open connection.
#[derive(Debug)]
pub(super) struct Guest {
    counters: Arc<ConnectionCounters>,
    /// Gone once its thread has closed it.
    stream: Weak<TcpStream>,
}

/// A connection with the time since which a search found it idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Idle {
    since: Nanos,
    id: ConnectionId,
    address: Address,
}

#[derive(Debug, Default)]
struct OfAddress {
    guests: BTreeMap<ConnectionId, Guest>,
    longest_idle: VecDeque<Idle>,
    /// None has been idle for `IDLE_NS` before this time.
    busy_until: Nanos,
}

/// The open connections by address.
#[derive(Debug)]
pub(super) struct Admission {
    /// Most connections that may be open.
    most: usize,
    addresses: HashMap<Address, OfAddress>,
    of_connections: HashMap<ConnectionId, Address>,
    /// Numbers of addresses by their number of connections.
    sizes: BTreeMap<usize, usize>,
    /// Those of addresses with most connections.
    longest_idle: VecDeque<Idle>,
}

/// The room for a new connection.
#[derive(Debug)]
pub(super) enum Room {
    Free,
    /// After this connection, which is no longer counted, was closed.
    InPlaceOf(Guest),
    None,
}

impl Guest {
    pub(super) fn new(counters: Arc<ConnectionCounters>, stream: Weak<TcpStream>) -> Self {
        Self { counters, stream }
    }

    /// Ends the connection; its thread learns of that by an event of the socket.
    pub(super) fn end(&self) {
        // It fails if the peer has ended it.
        let _ = self.stream.upgrade().map(|stream| stream.shutdown(std::net::Shutdown::Both));
    }

    /// The time since which it has been idle. One with operations in flight is not.
    fn idle_since(&self) -> Nanos {
        if self.counters.in_flight() > 0 { Nanos::MAX } else { self.counters.active() }
    }
}

impl Admission {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            addresses: HashMap::new(),
            of_connections: HashMap::new(),
            sizes: BTreeMap::new(),
            longest_idle: VecDeque::new(),
        }
    }

    /// Makes room for a connection of an address.
    pub(super) fn make_room(&mut self, address: Address, now: Nanos) -> Room {
        if self.of_connections.len() < self.most {
            return Room::Free;
        }
        let own = self.size_of(address);
        let share = self.most / (self.addresses.len() + usize::from(own == 0));
        let idle = if own < share.max(1) { self.of_largest() } else { self.of_address(address, now) };
        idle.and_then(|idle| self.leave(idle.id)).map_or(Room::None, Room::InPlaceOf)
    }

    pub(super) fn enter(&mut self, id: ConnectionId, address: Address, guest: Guest) {
        self.of_connections.insert(id, address);
        let of_address = self.addresses.entry(address).or_default();
        of_address.guests.insert(id, guest);
        let size = of_address.guests.len();
        self.resized(size - 1, size);
    }

    pub(super) fn leave(&mut self, id: ConnectionId) -> Option<Guest> {
        let address = self.of_connections.remove(&id)?;
        let of_address = self.addresses.get_mut(&address)?;
        let guest = of_address.guests.remove(&id);
        let size = of_address.guests.len();
        if size == 0 {
            self.addresses.remove(&address);
        }
        self.resized(size + 1, size);
        guest
    }

    /// Notes that an address has another number of connections.
    fn resized(&mut self, before: usize, after: usize) {
        if let Some(addresses) = self.sizes.get_mut(&before) {
            *addresses -= 1;
            if *addresses == 0 {
                self.sizes.remove(&before);
            }
        }
        if after > 0 {
            *self.sizes.entry(after).or_default() += 1;
        }
    }

    fn size_of(&self, address: Address) -> usize {
        self.addresses.get(&address).map_or(0, |of_address| of_address.guests.len())
    }

    /// The longest idle connection of the addresses that have most.
    fn of_largest(&mut self) -> Option<Idle> {
        let most = *self.sizes.last_key_value()?.0;
        let Self { addresses, longest_idle, .. } = self;
        let largest = |address: &Address| addresses.get(address).filter(|of_address| of_address.guests.len() == most);
        let is_still = |idle: &Idle| largest(&idle.address).is_some_and(|of_address| of_address.has(idle));
        let all = || addresses.keys().filter_map(|address| Some(largest(address)?.idle(*address))).flatten();
        find(longest_idle, is_still, || longest(all().collect()))
    }

    /// The longest idle connection of an address, if it has been idle for `IDLE_NS`.
    fn of_address(&mut self, address: Address, now: Nanos) -> Option<Idle> {
        let of_address = self.addresses.get_mut(&address)?;
        if now < of_address.busy_until {
            return None;
        }
        let mut found = std::mem::take(&mut of_address.longest_idle);
        let idle = find(&mut found, |idle| of_address.has(idle), || longest(of_address.idle(address).collect()));
        let gives_way = idle.filter(|idle| idle.since.saturating_add(IDLE_NS) <= now);
        if gives_way.is_none() {
            let since = idle.map_or(now, |idle| idle.since.min(now));
            of_address.busy_until = since + IDLE_NS;
        } else {
            of_address.longest_idle = found;
        }
        gives_way
    }
}

impl OfAddress {
    /// True if a connection has been idle since it was found.
    fn has(&self, idle: &Idle) -> bool {
        self.guests.get(&idle.id).is_some_and(|guest| guest.idle_since() == idle.since)
    }

    fn idle(&self, address: Address) -> impl Iterator<Item = Idle> {
        self.guests.iter().map(move |(id, guest)| Idle { since: guest.idle_since(), id: *id, address })
    }
}

/// The first of those found before that is still idle, or of those that another search finds.
fn find(
    found: &mut VecDeque<Idle>,
    is_still: impl Fn(&Idle) -> bool,
    search: impl FnOnce() -> VecDeque<Idle>,
) -> Option<Idle> {
    if let Some(first) = found.iter().position(&is_still) {
        return found.drain(..=first).next_back();
    }
    *found = search();
    found.pop_front()
}

/// Those that have been idle for longest, the longest first.
fn longest(mut all: Vec<Idle>) -> VecDeque<Idle> {
    if all.len() > FOUND_MAX {
        all.select_nth_unstable(FOUND_MAX);
        all.truncate(FOUND_MAX);
    }
    all.sort_unstable();
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Connections, IoStats};

    const MOST: usize = 8;

    struct Crowd {
        admission: Admission,
        counters: HashMap<ConnectionId, Arc<ConnectionCounters>>,
        connections: Connections,
        came: ConnectionId,
    }

    fn address(number: u8) -> Address {
        Address::new(0xffff_7f00_0000 + u128::from(number))
    }

    impl Crowd {
        fn new() -> Self {
            let (admission, connections) = (Admission::new(MOST), Connections::default());
            Self { admission, counters: HashMap::new(), connections, came: 0 }
        }

        /// A connection arrives. The connection whose place it takes, 0 if there was room, or none if it is refused.
        fn arrive(&mut self, from: u8, now: Nanos) -> Option<ConnectionId> {
            let replaced = match self.admission.make_room(address(from), now) {
                Room::Free => 0,
                Room::InPlaceOf(guest) => {
                    *self.counters.iter().find(|(_, counters)| Arc::ptr_eq(counters, &guest.counters)).unwrap().0
                }
                Room::None => return None,
            };
            self.came += 1;
            let counters = self.connections.opened(self.came, ([127, 0, 0, from], 700).into(), now);
            self.counters.insert(self.came, Arc::clone(&counters));
            self.admission.enter(self.came, address(from), Guest::new(counters, Weak::new()));
            Some(replaced)
        }

        fn has_turn(&self, id: ConnectionId, in_flight: usize, now: Nanos) {
            self.counters[&id].turned(&IoStats::default(), in_flight, now);
        }
    }

    #[test]
    fn a_newcomer_takes_the_place_of_the_longest_idle_connection_of_the_address_with_most() {
        let mut crowd = Crowd::new();
        assert!((1..=MOST as u64).all(|now| crowd.arrive(1, now) == Some(0)));
        crowd.has_turn(1, 0, 20);
        crowd.has_turn(2, 1, 3);
        assert_eq!(crowd.arrive(2, 21), Some(3));
        assert_eq!((crowd.arrive(2, 22), crowd.arrive(2, 23), crowd.arrive(2, 24)), (Some(4), Some(5), Some(6)));
        assert_eq!(crowd.arrive(2, 25), None, "it has its share, and none of its connections is idle");
        assert_eq!((crowd.arrive(3, 26), crowd.arrive(3, 27)), (Some(7), Some(9)), "those with most have four");
    }

    #[test]
    fn a_newcomer_is_served_though_there_are_more_addresses_than_connections() {
        let mut crowd = Crowd::new();
        assert!((0..8).all(|from| crowd.arrive(from, 1 + u64::from(from)) == Some(0)));
        crowd.has_turn(1, 0, 30);
        assert_eq!((crowd.arrive(100, 40), crowd.arrive(101, 41)), (Some(2), Some(3)));
        assert_eq!(crowd.arrive(100, 42), None);
    }

    #[test]
    fn connections_of_one_address_give_way_to_another_when_they_are_idle() {
        let mut crowd = Crowd::new();
        assert!((1..=MOST as u64).all(|now| crowd.arrive(1, now) == Some(0)));
        assert_eq!(crowd.arrive(1, IDLE_NS), None);
        crowd.has_turn(1, 0, 50);
        assert_eq!(crowd.arrive(1, IDLE_NS + 1), None, "a second search comes only when one can be idle");
        assert_eq!((crowd.arrive(1, IDLE_NS + 3), crowd.arrive(1, IDLE_NS + 3)), (Some(2), Some(3)));
        (1..=MOST as u64 + 2).for_each(|id| crowd.has_turn(id, 1, IDLE_NS));
        assert_eq!(crowd.arrive(1, 9 * IDLE_NS), None, "all have operations in flight");
    }

    #[test]
    fn one_that_has_left_makes_room() {
        let mut crowd = Crowd::new();
        assert!((1..=MOST as u64).all(|now| crowd.arrive(1, now) == Some(0)));
        assert!(crowd.admission.leave(4).is_some() && crowd.admission.leave(4).is_none());
        assert_eq!((crowd.arrive(1, 9), crowd.arrive(1, 9)), (Some(0), None));
        (1..=MOST as u64 + 1).for_each(|id| drop(crowd.admission.leave(id)));
        assert!(crowd.admission.addresses.is_empty() && crowd.admission.sizes.is_empty());
    }
}
