//! Reasons why a server cannot be used, with messages for the user.

use std::io;
use std::net::IpAddr;

use iocurve_meter::{Nanos, SECOND};
use iocurve_tls::TlsError;
use iocurve_wire::client_fast::{Malformed, Unparsed};
use iocurve_wire::rpc::{Accepted, Rejected};
use iocurve_wire::xdr::XdrError;
use thiserror::Error;

/// A server could not be reached, did not answer, or answered what it must not.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum ConnectionError {
    #[error(
        "cannot use the local address {address}: {source}; name an address of this machine, as `ip address` lists them"
    )]
    LocalAddress { address: IpAddr, source: io::Error },
    #[error("the host name {host} cannot be resolved: {source}")]
    HostName { host: String, source: io::Error },
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    #[error(
        "the portmapper of {host} (port {portmapper}) does not tell the port of {program}: {source}; is the server running? \
         If it has no portmapper, name the ports: nfs://{host}{export}?nfsport=…&mountport=…"
    )]
    NoPortmapper { host: String, export: String, portmapper: u16, program: &'static str, source: io::Error },
    #[error(
        "the portmapper of {host} knows no {program} version {version} over TCP: does the server serve NFSv3? If so, name its \
         port with {option}"
    )]
    NotRegistered { host: String, program: &'static str, version: u32, option: &'static str },
    #[error("{program} server {server} {}", unreachable(source, *timeout_ns))]
    Unreachable { program: &'static str, server: String, timeout_ns: Nanos, source: io::Error },
    #[error("server {server}{}", broken(source, program, *timeout_ns))]
    Broken { program: &'static str, server: String, timeout_ns: Nanos, source: io::Error },
    #[error("the connection to server {server} is given up")]
    GivenUp { server: String },
    #[error("server {server} refuses calls that are not encrypted: add tls to the URL (nfs://…?tls)")]
    NotEncrypted { server: String },
    #[error(
        "server {server} refuses AUTH_SYS credentials from this client: check its exports, and whether it wants a privileged \
         port (option insecure)"
    )]
    CredentialRefused { server: String },
    #[error("server {server} does not serve {program} version {version} on this port; check the port")]
    NotServed { server: String, program: &'static str, version: u32 },
    #[error("server {server} could not perform a call to {program}: {stat:?}")]
    NotPerformed { server: String, program: &'static str, stat: Accepted },
    #[error("invalid reply from server {server} ({why}); is it an {program} server?")]
    InvalidReply { server: String, program: &'static str, why: InvalidReply },
    #[error("NFS server {server}: {count} replies were invalid (the last one: {last}); is it an {program} server?")]
    InvalidReplies { server: String, program: &'static str, count: u32, last: Malformed },
    #[error(
        "NFS server {server} accepts only {read} bytes in a READ and {write} in a WRITE; at least {least} are needed"
    )]
    LowLimits { server: String, read: u32, write: u32, least: u32 },
    #[error(
        "NFS server {server} has ended the session while files were prepared ({status}): has it restarted? Run again"
    )]
    SessionEnded { server: String, status: &'static str },
    #[error("NFS server {server} restarted {times} times while files were laid out and may have lost data")]
    Restarts { server: String, times: u32 },
    #[error(
        "NFS server {server} has not answered for {:.1} s{}; gave up, as the timeout is {:.1} s: is the server still running \
         and reachable?",
        seconds(*silent_ns),
        last_error.as_ref().map(|error| format!(" (last error: {error})")).unwrap_or_default(),
        seconds(*timeout_ns)
    )]
    Silent { server: String, silent_ns: Nanos, timeout_ns: Nanos, last_error: Option<String> },
    #[error("{operations} operations of {job} did not complete within {seconds} s after the end of the run")]
    NotDrained { operations: usize, job: String, seconds: u64 },
}

impl ConnectionError {
    pub(crate) fn invalid(server: &str, program: &'static str, why: impl Into<InvalidReply>) -> Self {
        Self::InvalidReply { server: server.to_owned(), program, why: why.into() }
    }
}

/// The reason why a reply makes no sense: its message is a clause about "it", the reply.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum InvalidReply {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error(transparent)]
    Unparsed(#[from] Unparsed),
    #[error(transparent)]
    Undecoded(#[from] XdrError),
    #[error("it answers another call")]
    AnotherCall,
    #[error("it denies the call: {0:?}")]
    Denied(Rejected),
}

fn unreachable(error: &io::Error, timeout_ns: Nanos) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "refused the connection: is the server running, and is this its port?".to_owned()
        }
        io::ErrorKind::TimedOut => format!(
            "did not answer within {:.1} s: is the address right, and does a firewall allow it?",
            seconds(timeout_ns)
        ),
        _ => format!("cannot be reached: {error}"),
    }
}

fn broken(error: &io::Error, program: &str, timeout_ns: Nanos) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            format!(" closed the connection without an answer: is this the port of an {program} server?")
        }
        io::ErrorKind::TimedOut => format!(" did not answer within {:.1} s", seconds(timeout_ns)),
        _ => format!(": {error}"),
    }
}

fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / SECOND as f64
}
