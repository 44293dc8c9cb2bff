//! Idle connections cost nothing. This test is alone in its process, since it counts the wake-ups of the process's threads.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::net::TcpStream;
use std::time::{Duration, Instant};

use iocurve_volume::{Volume, VolumeConfig};

/// Counts how often the volume's threads have gone to sleep, which is how often they had been woken.
fn sleeps() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let of_volume = tasks
        .filter(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("volume-")));
    let status = of_volume.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let count = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.map_or(0, |count| count.trim().parse::<u64>().unwrap())
    };
    status.map(count).sum()
}

#[test]
fn a_thousand_idle_connections_wake_nobody() {
    let volume = Volume::start(&VolumeConfig::default()).unwrap();
    let mut connections = Vec::new();
    for accepted in (0..=1000).step_by(100).skip(1) {
        // No more at once than a listener queues: what it drops comes again after a second.
        connections.extend((0..100).map(|_| TcpStream::connect(volume.address()).unwrap()));
        let patience = Instant::now() + Duration::from_secs(20);
        while volume.stats().calls.connections_accepted < accepted {
            assert!(Instant::now() < patience, "not all connections are accepted");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    // Connections may still be on their way to the thread that serves them.
    std::thread::sleep(Duration::from_millis(300));
    let before = sleeps();
    std::thread::sleep(Duration::from_millis(500));
    assert!(sleeps() - before <= 2, "{} times awake", sleeps() - before);
    drop(connections);
}
