//! Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996): the flow that has been given least is next.
//!
//! Each flow has a tag, the virtual time at which its next item starts; the lowest tag is served first and goes up by what the item
//! costs. A flow that was empty starts at the present virtual time: idle flows save up no claim, and flows that used spare
//! capacity owe nothing for it. Queues nest: shares are fair among clients, and a client's share among its connections.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::key_hash::KeyHash;

/// Names a flow among its siblings.
pub(crate) type Key = u128;

/// The cost of an item, in units of virtual time.
pub(super) type Cost = u128;

/// A queue with a path of keys to each of its first-in, first-out ends.
pub(super) trait Queue: Default {
    type Item;

    /// Adds an item at the end of its path's flow.
    fn push(&mut self, path: &[Key], item: Self::Item);

    /// Adds an item of this cost to an empty queue and takes it out again. The item itself is not needed.
    fn pass(&mut self, path: &[Key], cost: Cost);

    /// Takes out the item that is next.
    fn pop(&mut self, cost: &impl Fn(&Self::Item) -> Cost) -> Option<Self::Item>;

    fn is_empty(&self) -> bool;

    /// Removes a flow, and returns how many items waited in it.
    fn remove(&mut self, path: &[Key]) -> usize;

    /// True if it has no flows, not even empty ones with a tag to remember.
    fn is_forgotten(&self) -> bool;
}

/// First in, first out: the end of a path.
#[derive(Debug)]
pub(super) struct Fifo<T>(VecDeque<T>);

/// Shares fairly among its flows, in logarithmic time.
#[derive(Debug, Default)]
pub(super) struct Fair<Q> {
    flows: HashMap<Key, Flow<Q>, KeyHash>,
    /// Flows with items: tag, turn, key.
    order: BTreeSet<(Cost, u64, Key)>,
    /// Tag of the item served last.
    virtual_time: Cost,
    /// Decides between equal tags: the flow that has waited longer is next.
    turns: u64,
}

#[derive(Debug, Default)]
struct Flow<Q> {
    tag: Cost,
    turn: u64,
    queue: Q,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Queue for Fifo<T> {
    type Item = T;

    fn push(&mut self, _: &[Key], item: T) {
        self.0.push_back(item);
    }

    fn pass(&mut self, _: &[Key], _: Cost) {}

    fn pop(&mut self, _: &impl Fn(&T) -> Cost) -> Option<T> {
        self.0.pop_front()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn remove(&mut self, _: &[Key]) -> usize {
        self.0.drain(..).count()
    }

    fn is_forgotten(&self) -> bool {
        self.0.is_empty()
    }
}

impl<Q: Queue> Queue for Fair<Q> {
    type Item = Q::Item;

    fn push(&mut self, path: &[Key], item: Q::Item) {
        let (&key, rest) = path.split_first().expect("a path is as long as the queue is deep");
        let flow = self.flows.entry(key).or_default();
        if flow.queue.is_empty() {
            flow.tag = flow.tag.max(self.virtual_time);
            self.turns += 1;
            flow.turn = self.turns;
            self.order.insert((flow.tag, flow.turn, key));
        }
        flow.queue.push(rest, item);
    }

    #[inline]
    fn pass(&mut self, path: &[Key], cost: Cost) {
        debug_assert!(self.order.is_empty());
        let (&key, rest) = path.split_first().expect("a path is as long as the queue is deep");
        let flow = self.flows.entry(key).or_default();
        self.virtual_time = self.virtual_time.max(flow.tag);
        self.turns += 1;
        flow.turn = self.turns;
        flow.tag = self.virtual_time + cost;
        flow.queue.pass(rest, cost);
    }

    fn pop(&mut self, cost: &impl Fn(&Q::Item) -> Cost) -> Option<Q::Item> {
        let (tag, _, key) = self.order.pop_first()?;
        self.virtual_time = tag;
        let flow = self.flows.get_mut(&key)?;
        let item = flow.queue.pop(cost)?;
        flow.tag = tag + cost(&item);
        if !flow.queue.is_empty() {
            self.turns += 1;
            flow.turn = self.turns;
            self.order.insert((flow.tag, flow.turn, key));
        }
        Some(item)
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn remove(&mut self, path: &[Key]) -> usize {
        let Some((key, rest)) = path.split_first() else { return 0 };
        let Some(flow) = self.flows.get_mut(key) else { return 0 };
        let removed = flow.queue.remove(rest);
        if flow.queue.is_empty() {
            self.order.remove(&(flow.tag, flow.turn, *key));
        }
        if flow.queue.is_forgotten() {
            self.flows.remove(key);
        }
        removed
    }

    fn is_forgotten(&self) -> bool {
        self.flows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Flat = Fair<Fifo<(char, Cost)>>;
    type Nested = Fair<Fair<Fifo<(char, Cost)>>>;

    fn take<Q: Queue<Item = (char, Cost)>>(queue: &mut Q, count: usize) -> String {
        (0..count).map_while(|_| queue.pop(&|item| item.1)).map(|item| item.0).collect()
    }

    #[test]
    fn equal_items_take_turns_whoever_came_first() {
        let mut queue = Flat::default();
        (0..4).for_each(|_| queue.push(&[1], ('a', 1)));
        (0..3).for_each(|_| queue.push(&[2], ('b', 1)));
        queue.push(&[3], ('c', 1));
        assert_eq!(take(&mut queue, 9), "abcababa");
        assert!(queue.is_empty());
    }

    #[test]
    fn shares_are_by_cost() {
        let mut queue = Flat::default();
        (0..3).for_each(|_| queue.push(&[1], ('a', 4)));
        (0..9).for_each(|_| queue.push(&[2], ('b', 1)));
        assert_eq!(take(&mut queue, 12), "abbbbabbbbab");
    }

    #[test]
    fn who_was_away_has_no_claim_and_no_debt() {
        let mut queue = Flat::default();
        (0..100).for_each(|_| queue.push(&[1], ('a', 1)));
        assert_eq!(take(&mut queue, 50).len(), 50);
        (0..50).for_each(|_| queue.push(&[2], ('b', 1)));
        // `b` starts where `a` is, it does not catch up with the 50; nor does `a` have to wait for them.
        assert_eq!(take(&mut queue, 6), "bababa");
    }

    #[test]
    fn a_flow_that_empties_and_returns_gains_nothing() {
        let mut queue = Flat::default();
        (0..4).for_each(|_| queue.push(&[1], ('a', 1)));
        let mut served = String::new();
        for _ in 0..4 {
            queue.push(&[2], ('b', 4));
            served += &take(&mut queue, 2);
        }
        assert_eq!(served, "abaaabbb");
    }

    #[test]
    fn a_client_with_many_connections_has_one_share() {
        let mut queue = Nested::default();
        for connection in 0..3 {
            (0..2).for_each(|_| queue.push(&[1, connection], (['x', 'y', 'z'][connection as usize], 1)));
        }
        (0..6).for_each(|_| queue.push(&[2, 9], ('b', 1)));
        assert_eq!(take(&mut queue, 12), "xbybzbxbybzb");
    }

    #[test]
    fn to_pass_is_to_push_and_pop() {
        let mut queues = [Nested::default(), Nested::default()];
        for number in 0..100_u64 {
            let path = [Key::from(number % 3), Key::from(number % 7)];
            let cost = Cost::from(number * number % 11);
            queues[0].push(&path, ('x', cost));
            assert_eq!(take(&mut queues[0], 1), "x");
            queues[1].pass(&path, cost);
        }
        let state = |queue: &Nested| {
            let mut flows: Vec<_> = queue.flows.iter().map(|(key, flow)| (*key, flow.tag, flow.turn)).collect();
            flows.sort_unstable();
            (flows, queue.virtual_time, queue.turns)
        };
        assert_eq!(state(&queues[0]), state(&queues[1]));
        for queue in &mut queues {
            for (client, name) in [(0, 'a'), (1, 'b'), (2, 'c')] {
                (0..3).for_each(|connection| queue.push(&[client, connection], (name, 5)));
            }
        }
        assert_eq!(take(&mut queues[0], 9), take(&mut queues[1], 9));
    }

    #[test]
    fn a_removed_flow_takes_what_waits_with_it() {
        let mut queue = Nested::default();
        queue.push(&[1, 1], ('a', 1));
        queue.push(&[1, 2], ('b', 1));
        queue.push(&[2, 3], ('c', 1));
        assert_eq!(queue.remove(&[1, 1]), 1);
        assert_eq!(queue.remove(&[1, 1]), 0, "once more changes nothing");
        assert_eq!(take(&mut queue, 1), "b");
        assert_eq!((queue.remove(&[1, 2]), queue.is_forgotten()), (0, false));
        assert_eq!((queue.remove(&[2, 3]), queue.is_forgotten()), (1, true));
        assert!(queue.is_empty() && take(&mut queue, 1).is_empty());
    }
}
