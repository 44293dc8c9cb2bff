//! A queue with N servers, whose service time follows from the operation.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use iocurve_meter::Nanos;

use super::limits::Parallelism;

/// The times at which the servers are free again.
#[derive(Debug)]
pub(super) struct Servers {
    free_at: BinaryHeap<Reverse<Nanos>>,
    parallelism: Parallelism,
}

impl Servers {
    pub(super) fn new(parallelism: Parallelism) -> Self {
        let free_at = (0..parallelism.servers).map(|_| Reverse(0)).collect();
        Self { free_at, parallelism }
    }

    /// When the next server is free.
    pub(super) fn free_at(&self) -> Nanos {
        self.free_at.peek().map_or(0, |free_at| free_at.0)
    }

    /// Gives the next free server an operation at `start` and returns how long it takes.
    pub(super) fn occupy(&mut self, start: Nanos, is_write: bool, bytes: u64) -> Nanos {
        let service_ns = self.parallelism.takes(is_write, bytes);
        self.free_at.pop();
        self.free_at.push(Reverse(start + service_ns));
        service_ns
    }

    /// Changes the number of servers and the service time. Work that has begun is not affected.
    pub(super) fn set(&mut self, parallelism: Parallelism) {
        self.parallelism = parallelism;
        let servers = parallelism.servers as usize;
        while self.free_at.len() > servers {
            self.free_at.pop();
        }
        self.free_at.extend((self.free_at.len()..servers).map(|_| Reverse(0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves what arrives at these times and says when each one starts.
    fn starts(servers: &mut Servers, arrivals: &[Nanos]) -> Vec<Nanos> {
        let start = |arrival: &Nanos| {
            let start = servers.free_at().max(*arrival);
            servers.occupy(start, false, 4096);
            start
        };
        arrivals.iter().map(start).collect()
    }

    #[test]
    fn so_many_at_once_and_the_rest_in_turn() {
        let mut servers = Servers::new(Parallelism::new(2, 10));
        assert_eq!(starts(&mut servers, &[0, 0, 0, 5, 5, 100, 101, 102]), [0, 0, 10, 10, 20, 100, 101, 110]);
    }

    #[test]
    fn the_time_follows_from_the_operation() {
        let speed = Parallelism { per_kib_ns: 3, ..Parallelism::new(1, 10) };
        assert_eq!(Servers::new(speed).occupy(0, true, 2048), 16);
        let mut servers = Servers::new(Parallelism { write_service_ns: Some(50), write_per_kib_ns: Some(1), ..speed });
        assert_eq!([servers.occupy(0, false, 2048), servers.occupy(16, true, 2048)], [16, 52]);
        assert_eq!(servers.free_at(), 68);
    }

    #[test]
    fn other_servers_leave_what_has_begun() {
        let mut servers = Servers::new(Parallelism::new(2, 10));
        starts(&mut servers, &[0, 4]);
        servers.set(Parallelism::new(1, 3));
        assert_eq!(starts(&mut servers, &[5, 5]), [14, 17]);
        servers.set(Parallelism::new(3, 3));
        assert_eq!(starts(&mut servers, &[18, 18, 18]), [18, 18, 20]);
    }
}
