//! The calls in flight. The `xid` of a call holds its index in the table and a generation, so that a reply finds its call
//! with one look-up, and a duplicate or late reply finds none.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::{Index, IndexMut};

use iocurve_wire::rpc::Xid;

use super::super::names::NamedCall;
use super::super::protocol::{CallKind, Protocol};

/// READ payloads from this size up are received separately: straight into the slot's buffer, or dropped. Below it the
/// extra system call costs more than the copy.
pub(in crate::engines::nfs) const LARGE_BYTES: u32 = 32 << 10;

/// Load of one connection.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::engines::nfs) struct ConnectionLoad {
    /// Calls without a reply.
    pub calls: u32,
    /// Calls without a reply that read [`LARGE_BYTES`] or more.
    pub large_reads: u32,
}

/// The part of an operation that a call carries.
#[derive(Debug, Clone, Copy)]
pub(in crate::engines::nfs) struct Part {
    pub kind: CallKind,
    pub slot: u32,
    pub file: u32,
    pub offset: u64,
    pub length: u32,
    /// Offset of its payload in the slot's buffer.
    pub at: u32,
}

impl Part {
    /// A call that moves no data by a template.
    pub(super) fn without_data(kind: CallKind, slot: u32, file: u32) -> Self {
        Self { kind, slot, file, offset: 0, length: 0, at: 0 }
    }

    fn is_large_read(&self) -> bool {
        self.kind == CallKind::Read && self.length >= LARGE_BYTES
    }
}

/// One call. A free entry of the table keeps its last `xid`.
#[derive(Debug, Clone, Copy)]
pub(in crate::engines::nfs) struct Call<S> {
    pub xid: Xid,
    pub sequence: S,
    place: Place,
    /// Attempts that were postponed or moved no byte.
    pub retries: u16,
    pub part: Part,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Free,
    /// Must be issued, for the first time or again.
    Waiting,
    On(u8),
}

/// All calls of one engine, by index.
#[derive(Debug)]
pub(in crate::engines::nfs) struct CallTable<P: Protocol> {
    calls: Vec<Call<P::Sequence>>,
    free: Vec<u32>,
    index_bits: u32,
    loads: Vec<ConnectionLoad>,
    /// Calls on names. Empty until there is one.
    named: Vec<NamedCall<P::Handle>>,
    /// A call was sent more than once; of calls on names, and of conversations.
    repeated: Vec<bool>,
}

impl<P: Protocol> CallTable<P> {
    /// A table of `places`, a power of two, for calls on `connections` connections.
    pub(super) fn new(places: u32, connections: usize) -> Self {
        let index_bits = places.trailing_zeros();
        // Servers remember calls by xid and client address, and reserved ports are reused soon: start at a random
        // generation.
        let generation = RandomState::new().hash_one(0u8) as u32;
        let free_call = |index| Call {
            xid: Xid(generation << index_bits | index),
            sequence: P::Sequence::default(),
            place: Place::Free,
            retries: 0,
            part: Part::without_data(CallKind::Read, 0, 0),
        };
        Self {
            calls: (0..places).map(free_call).collect(),
            free: (0..places).rev().collect(),
            index_bits,
            loads: vec![ConnectionLoad::default(); connections],
            named: Vec::new(),
            repeated: Vec::new(),
        }
    }

    /// Returns `true` if nothing is in flight.
    pub(in crate::engines::nfs) fn is_empty(&self) -> bool {
        self.free.len() == self.calls.len()
    }

    /// Returns `true` if no call can be opened but the one that makes a new session.
    pub(super) fn is_full(&self) -> bool {
        self.free.len() <= 1
    }

    pub(in crate::engines::nfs) fn load(&self, connection: usize) -> ConnectionLoad {
        self.loads[connection]
    }

    pub(super) fn open(&mut self, part: Part) -> u32 {
        let index = self.free.pop().expect("the table has a place for every call of every slot");
        let xid = self.next_xid(index);
        self[index] = Call { xid, sequence: P::Sequence::default(), place: Place::Waiting, retries: 0, part };
        index
    }

    /// Opens a call on a name for the operation in a slot; `fill` writes the call over an earlier one.
    pub(in crate::engines::nfs) fn open_named(
        &mut self,
        slot: u32,
        fill: impl FnOnce(&mut NamedCall<P::Handle>),
    ) -> u32 {
        let index = self.open_counted(Part::without_data(CallKind::Named, slot, 0));
        if self.named.is_empty() {
            self.named.resize_with(self.calls.len(), NamedCall::default);
        }
        fill(&mut self.named[index as usize]);
        index
    }

    /// Opens a call of which [`Self::was_repeated`] tells whether it was sent more than once.
    pub(super) fn open_counted(&mut self, part: Part) -> u32 {
        let index = self.open(part);
        self.repeated.resize(self.calls.len(), false);
        self.repeated[index as usize] = false;
        index
    }

    pub(super) fn named(&self, index: u32) -> &NamedCall<P::Handle> {
        &self.named[index as usize]
    }

    pub(super) fn was_repeated(&self, index: u32) -> bool {
        self.repeated.get(index as usize).is_some_and(|repeated| *repeated)
    }

    /// Notes that a call may reach the server a second time.
    pub(super) fn note_repeated(&mut self, index: u32) {
        if let Some(repeated) = self.repeated.get_mut(index as usize) {
            *repeated = true;
        }
    }

    /// The calls on a connection, or on any.
    pub(super) fn on(&self, connection: Option<usize>) -> impl Iterator<Item = u32> + '_ {
        let is_there = move |place| match place {
            Place::On(number) => connection.is_none_or(|connection| usize::from(number) == connection),
            _ => false,
        };
        (0..self.calls.len() as u32).filter(move |&index| is_there(self[index].place))
    }

    /// The call that a reply on a connection belongs to.
    pub(super) fn find(&self, xid: Xid, connection: usize) -> Option<(u32, CallKind)> {
        let index = xid.0 & (self.calls.len() as u32 - 1);
        let call = &self[index];
        (call.xid == xid && call.place == Place::On(connection as u8)).then_some((index, call.part.kind))
    }

    /// Assigns a call to a connection.
    pub(in crate::engines::nfs) fn assign(&mut self, index: u32, connection: usize) {
        let call = &mut self.calls[index as usize];
        call.place = Place::On(connection as u8);
        let load = &mut self.loads[connection];
        load.calls += 1;
        load.large_reads += u32::from(call.part.is_large_read());
    }

    /// Takes a call off its connection, if it is on one; returns what it needed to be sent.
    pub(super) fn take_off(&mut self, index: u32) -> Option<P::Sequence> {
        let call = &mut self.calls[index as usize];
        let Place::On(connection) = call.place else { return None };
        call.place = Place::Waiting;
        let load = &mut self.loads[connection as usize];
        load.calls -= 1;
        load.large_reads -= u32::from(call.part.is_large_read());
        Some(call.sequence)
    }

    /// Gives a call another `xid`: to the server it is a new call.
    pub(super) fn renumber(&mut self, index: u32) {
        self[index].xid = self.next_xid(index);
    }

    /// Frees a call that is on no connection.
    pub(super) fn close(&mut self, index: u32) {
        self[index].place = Place::Free;
        self.free.push(index);
    }

    fn next_xid(&self, index: u32) -> Xid {
        Xid(self[index].xid.0.wrapping_add(1 << self.index_bits))
    }
}

impl<P: Protocol> Index<u32> for CallTable<P> {
    type Output = Call<P::Sequence>;

    #[inline]
    fn index(&self, index: u32) -> &Self::Output {
        &self.calls[index as usize]
    }
}

impl<P: Protocol> IndexMut<u32> for CallTable<P> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Self::Output {
        &mut self.calls[index as usize]
    }
}
