//! A new session after the server has lost or ended one: opens are kept, reclaimed or repeated (RFC 8881 §8.4).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use iocurve_meter::Nanos;
use iocurve_wire::nfs4::nfsstat4;
use iocurve_wire::nfs4::operations::{FREE_STATEID4args, TEST_STATEID4args, nfs_argop4, nfs_resop4};

use super::super::protocol::Recovered;
use super::super::status::refused;
use super::super::transport::mounter;
use super::super::transport::socket::Route;
use super::Nfs4;
use super::client::{Client, Kept, Registration, connect_further, rpc_on};
use super::opens::{Open, open_by_handle, reclaim};
use crate::error::EngineError;
use crate::plan::NfsMount;

/// Pause between two attempts.
const PAUSE_NS: Nanos = 200_000_000;

/// Input of a recovery, which runs on a separate thread from the load's loop.
pub(super) struct Recovery {
    pub mount: NfsMount,
    pub route: Route,
    pub server: String,
    pub credential: Vec<u8>,
    pub registration: Registration,
    pub opens: Vec<Option<Open>>,
    pub lease_ns: Nanos,
}

impl Recovery {
    /// Repeats attempts until one succeeds, or the server has not been reached for the mount's timeout.
    pub(super) fn run(mut self, cancel: &Arc<AtomicBool>) -> Result<Recovered<Nfs4>, EngineError> {
        let started = Instant::now();
        loop {
            match self.attempt(cancel) {
                Err(EngineError::Connection(_))
                    if started.elapsed() < Duration::from_nanos(self.mount.timeout_ns)
                        && !cancel.load(Ordering::Relaxed) =>
                {
                    thread::sleep(Duration::from_nanos(PAUSE_NS));
                }
                result => return result,
            }
        }
    }

    fn attempt(&mut self, cancel: &AtomicBool) -> Result<Recovered<Nfs4>, EngineError> {
        let timeout_ns = self.mount.timeout_ns;
        let socket = mounter::connect(&self.route, &self.server, timeout_ns, cancel)?;
        let rpc = rpc_on(socket, self.route.clone(), &self.server, &self.credential, timeout_ns, cancel);
        let mut client = Client::resume(rpc, self.registration.clone(), 1);
        let restored = client.restore(&mut self.opens);
        // Another attempt continues with what the server has counted in this one.
        self.registration = client.registration.clone();
        restored?;
        let Client { rpc, registration, next_sequence, .. } = client;
        let session = registration.session;
        let (credential, sockets) = connect_further(rpc, session, &self.mount, cancel)?;
        let opens = self.opens.clone();
        let protocol = Nfs4::new(credential, registration, next_sequence, opens, self.lease_ns, &self.mount);
        Ok(Recovered { protocol, sockets })
    }
}

impl Client<'_> {
    /// Replaces a lost session by a new one, in which the files are open as before.
    pub(super) fn restore(&mut self, opens: &mut [Option<Open>]) -> Result<(), EngineError> {
        match self.renew()? {
            Kept::ClientId => restore_revoked(self, opens),
            Kept::Nothing => restore_all(self, opens),
        }
    }
}

/// Opens again the files whose state the server has revoked.
fn restore_revoked(client: &mut Client<'_>, opens: &mut [Option<Open>]) -> Result<(), EngineError> {
    for open in opens.iter_mut().flatten() {
        let test = nfs_argop4::TEST_STATEID(TEST_STATEID4args { ts_stateids: vec![open.stateid] });
        let mut state = nfsstat4::NFS4ERR_BAD_STATEID;
        let tested = client.compound(&[test], |result| {
            if let nfs_resop4::TEST_STATEID(Ok(tested)) = result {
                state = tested.tsr_status_codes.first().copied().unwrap_or(state);
            }
        })?;
        if tested.is_ok() && state == nfsstat4::NFS4_OK {
            continue;
        }
        // The server keeps a revoked state until the client knows of it.
        let free = nfs_argop4::FREE_STATEID(FREE_STATEID4args { fsa_stateid: open.stateid });
        let _ = client.compound(&[free], |_| {})?;
        *open = open_by_handle(client, &open.path, &open.handle)?;
    }
    Ok(())
}

/// Reclaims all opens, and opens again those that the server does not let be reclaimed.
fn restore_all(client: &mut Client<'_>, opens: &mut [Option<Open>]) -> Result<(), EngineError> {
    use nfsstat4::{NFS4ERR_NO_GRACE, NFS4ERR_NOTSUPP, NFS4ERR_RECLAIM_BAD, NFS4ERR_RECLAIM_CONFLICT};
    let mut lost = Vec::new();
    for open in opens.iter_mut().flatten() {
        match reclaim(client, open)? {
            Ok(stateid) => open.stateid = stateid,
            Err(NFS4ERR_NO_GRACE | NFS4ERR_RECLAIM_BAD | NFS4ERR_RECLAIM_CONFLICT | NFS4ERR_NOTSUPP) => {
                lost.push(open);
            }
            Err(status) => return Err(refused::<Nfs4>("reclaim", &open.path, status as u32)),
        }
    }
    client.reclaim_complete()?;
    for open in lost {
        *open = open_by_handle(client, &open.path, &open.handle)?;
    }
    Ok(())
}
