//! The embedded NFS volume: a server of NFS versions 3 and 4.1 with a service level.
//!
//! [`Volume::start`] binds one TCP port that answers the NFS, MOUNT and port mapper programs.
//!
//! # Rooms
//!
//! Each room uses only rooms below it.
//!
//! | room | holds | does not know |
//! | --- | --- | --- |
//! | `volume` | start, change, stop; configuration and errors | sockets, protocols |
//! | `server` | one thread per core, sockets, and the framing of a connection's bytes into calls | procedures |
//! | `programs` | from the bytes of a call to those of its reply, one function per procedure; `turn` is what a procedure gets | sockets, threads, connections |
//! | `served` | the exports, their rules (which clients may use one, and as whom), who calls, the directories above the exports | programs |
//! | `stats` | counters | what counts |
//! | `qos` | when an operation is admitted and answered: pure decisions, with time as an argument | clocks |
//! | `memory` | the memory that all connections hold together, and its limit | what holds it |
//! | `pending` | operations that wait, and the timers of a thread | limits |
//! | `nfs4_state` | clients, sessions, opens and locks of NFSv4.1 | stores, the encoding of calls |
//! | `store` | files in memory or in a directory, permissions, quotas, injected faults | RPC, connections, limits |
//! | `reply` | the replies of a turn gathered into one send; replies kept for repeated calls; sending by reference | everything else |
//!
//! # From a call to its reply
//!
//! `server::reactor` gives a connection its turn when epoll reports it. `server::session` receives, lets `server::incoming` answer
//! every complete record, and sends the batch by `server::outgoing`. `programs::dispatch` finds the program: `programs::nfs3_data`
//! for READ, WRITE, COMMIT and GETATTR, which carry the load and allocate nothing, `programs::nfs3` for all other procedures. A
//! procedure resolves the handle to an export (`served`), asks its files (`store`), and appends to the batch (`reply`). Under limits
//! the export's throttle (`qos`) decides when the reply leaves; until then the operation is `pending`.
//!
//! # Adding an NFS procedure
//!
//! 1. `wire::nfs3` (or a module for another version): arguments and result.
//! 2. `programs::nfs3`: a function, and its line in `answer`. If carrying it out twice gives another result, also a line in
//!    `is_non_idempotent`.
//! 3. `store`: only if no method of `Store` does the work: a method, in `memory` and in `directory`, and a line in `faulty`, with a
//!    check in `store::tests` that runs on both.
//! 4. The fuzz target `calls`: its arguments.
//!
//! An operation of NFSv4.1 is a function in `programs::nfs4`, and its line in `programs::nfs4::compound`.
//!
//! Another program or version is a variant of `programs::call::Program`, a file in `programs`, and a line in
//! `programs::dispatch::answer_call`. It gets its caller from `Turn::admit` or `Call::admit`, which check the rules of the export, and
//! maps `served::rules::Refusal` to its own status.

mod memory;
mod nfs4_state;
mod pending;
mod programs;
mod qos;
mod reply;
mod served;
mod server;
mod stats;
mod store;
mod volume;

pub use qos::{
    Bucket, Burst, Cap, Distribution, Kind, Latency, Level, Limits, Parallelism, Quantity, Scope, ServerCache,
};
pub use served::rules::{ClientRule, ExportRules, Network, Squash};
pub use server::fuzzing;
pub use stats::{CallStats, ClientStats, ConnectionStats, ExportStats, IoStats, Nfs4Stats, Stats};
pub use store::faulty::{FaultKind, FaultRate, FaultRecord, FaultStats, Faults};
pub use volume::{ExportConfig, StoreConfig, TlsFiles, Volume, VolumeConfig, VolumeError};
