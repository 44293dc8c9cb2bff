//! The calls of `NFSv3` outside a load.

use std::sync::atomic::AtomicBool;

use iocurve_wire::client_fast::Unparsed;
use iocurve_wire::nfs3::{FSINFO3args, FSINFO3res, nfs_fh3, nfsproc3};
use iocurve_wire::xdr::Encode;

use super::super::calls::{Answer, Calls, Mountable, granted};
use super::super::conversation::{Conversation, Line, encode};
use super::super::names::{NamedCall, Procedure};
use super::super::protocol::{CallLimits, Found, Protocol};
use super::super::status::refused;
use super::super::transport::mounter::{self, Mounter};
use super::super::transport::rpc::Rpc;
use super::super::transport::socket::Socket;
use super::{Nfs3, names};
use crate::error::{ConnectionError, EngineError};
use crate::plan::NfsMount;

/// Most bytes of one call, whatever the server's limit.
const CALL_BYTES_MAX: u32 = 16 << 20;

impl Mountable for Nfs3 {
    type Calls<'a> = Nfs3Calls<'a>;
}

/// A mounted export.
pub(in super::super) struct Nfs3Calls<'a> {
    rpc: Rpc<'a>,
    root: nfs_fh3,
    limits: CallLimits,
    stop: &'a AtomicBool,
}

impl<'a> Calls<'a, Nfs3> for Nfs3Calls<'a> {
    /// Queries ports that the mount does not name, mounts the export and connects to the NFS program.
    fn mount(mount: &NfsMount, stop: &'a AtomicBool) -> Result<Self, EngineError> {
        let root = Mounter { mount, stop }.mount()?;
        let mut rpc = Mounter { mount, stop }.connect_nfs()?;
        let limits = limits(&mut rpc, root)?;
        let limits = limits.map_err(|status| refused::<Nfs3>("get the limits of", &mount.export, status))?;
        Ok(Self { limits: limits.check(&rpc.server)?, rpc, root, stop })
    }

    fn rpc(&self) -> &Rpc<'a> {
        &self.rpc
    }

    fn root(&self) -> &nfs_fh3 {
        &self.root
    }

    fn limits(&self) -> CallLimits {
        self.limits
    }

    fn was_repeated(&self) -> bool {
        self.rpc.was_repeated
    }

    fn make(&mut self, call: &NamedCall<nfs_fh3>, data: &[u8], read: &mut Vec<u8>) -> Answer<Found<Nfs3>> {
        names::with_arguments(call, data, |procedure, arguments| {
            patiently(&mut self.rpc, procedure, arguments, |results| {
                let found = names::parse(call.procedure, results)?;
                if let (Ok(found), Procedure::ReadWhole) = (&found, call.procedure) {
                    read.extend_from_slice(&results[found.moved.clone()]);
                }
                Ok(found)
            })
        })
    }

    /// Servers keep no state of opens.
    fn close(&mut self, _found: &Found<Nfs3>) -> Answer<()> {
        Ok(Ok(()))
    }

    fn start(mut self, mount: &NfsMount, files: &[(String, nfs_fh3)]) -> Result<(Nfs3, Vec<Socket>), EngineError> {
        let mut sockets = vec![self.rpc.take_socket()?];
        let Rpc { route, server, credential, .. } = self.rpc;
        for _ in 1..mount.nconnect {
            sockets.push(mounter::connect(&route, &server, mount.timeout_ns, self.stop)?);
        }
        let handles: Vec<nfs_fh3> = files.iter().map(|(_, handle)| *handle).collect();
        Ok((Nfs3::new(&credential, &handles, mount.durability), sockets))
    }
}

/// Makes a call, and repeats it while the server asks for patience.
fn patiently<T: Send>(
    rpc: &mut Rpc<'_>,
    procedure: nfsproc3,
    arguments: &dyn Encode,
    mut parse: impl FnMut(&[u8]) -> Result<Result<T, u32>, Unparsed> + Send,
) -> Answer<T> {
    let (line, server, timeout_ns) = (Line::default(), rpc.server.clone(), rpc.timeout_ns);
    let record = encode(&rpc.credential, procedure.into(), arguments);
    let calls = Conversation::new(line.clone(), async move {
        let started = line.now();
        loop {
            let results = line.ask(0, record.clone()).await?.bytes;
            let parsed = parse(&results).map_err(|why| ConnectionError::invalid(&server, Nfs3::NAME, why))?;
            let patience_ns = parsed.as_ref().err().and_then(|status| Nfs3::judge(*status).patience_ns(timeout_ns));
            if !line.waits_to_repeat(started, patience_ns).await {
                return Ok(parsed);
            }
        }
    });
    rpc.wait_for(calls)
}

fn limits(rpc: &mut Rpc<'_>, fsroot: nfs_fh3) -> Answer<CallLimits> {
    let info = granted!(patiently(rpc, nfsproc3::NFSPROC3_FSINFO, &FSINFO3args { fsroot }, |results| {
        let info: FSINFO3res = names::parsed(results)?;
        Ok(info.map_err(|failed| failed.status as u32))
    }));
    Ok(Ok(CallLimits { read: info.rtmax.min(CALL_BYTES_MAX), write: info.wtmax.min(CALL_BYTES_MAX) }))
}
