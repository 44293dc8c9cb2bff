//! Makes a number of calls of one kind with the NFS client's protocol, without sockets, clocks and servers, so that
//! instructions can be counted (`python -m bench.instructions client-read`):
//!
//! ```text
//! cargo build --release -p iocurve-engine --bin client_calls
//! valgrind --tool=callgrind target/release/client_calls read 20000
//! ```
//!
//! Two runs with different counts differ by what the additional calls cost.

use std::process::ExitCode;

use iocurve_engine::engines::nfs::counting::{KINDS, make_calls};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let count = arguments.get(1).and_then(|count| count.parse().ok()).unwrap_or(0);
    match arguments.first().map(String::as_str) {
        Some(kind) if count > 0 && KINDS.contains(&kind) => {
            println!("{} calls answered", make_calls(kind, count));
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("usage: client_calls {} COUNT", KINDS.join("|"));
            ExitCode::FAILURE
        }
    }
}
