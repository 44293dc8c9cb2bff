//! The calls of `NFSv4.1` outside a load: each is one COMPOUND.

use std::sync::atomic::AtomicBool;

use iocurve_meter::{Nanos, SECOND};
use iocurve_wire::nfs4::attributes::{FATTR4_LEASE_TIME, FATTR4_MAXREAD, FATTR4_MAXWRITE, bitmap4};
use iocurve_wire::nfs4::operations::{nfs_argop4, nfs_resop4};

use super::super::calls::{Answer, Calls, Entry, Mountable, granted};
use super::super::conversation::Conversation;
use super::super::names::NamedCall;
use super::super::protocol::{CallLimits, Found};
use super::super::status::NOTDIR;
use super::super::transport::mounter::{self, Mounter};
use super::super::transport::patience::LEAVE_NS;
use super::super::transport::rpc::Rpc;
use super::super::transport::socket::Socket;
use super::Nfs4;
use super::attributes::{attributes, get};
use super::client::{Client, OVERHEAD_BYTES, Registration};
use super::names::{self, Gathered};
use super::opens::{Handle, close, open_by_handle, put, take_handle};
use super::status::{NAME, refused};
use crate::error::EngineError;
use crate::plan::NfsMount;
use crate::tree::EntryKind;

impl Mountable for Nfs4 {
    type Calls<'a> = Nfs4Calls<'a>;
}

/// A mounted export.
pub(in super::super) struct Nfs4Calls<'a> {
    /// Absent only when a load has taken it over.
    connected: Option<Connected<'a>>,
    root: Handle,
    limits: CallLimits,
    lease_ns: Nanos,
    stop: &'a AtomicBool,
}

impl<'a> Calls<'a, Nfs4> for Nfs4Calls<'a> {
    /// Connects to the NFS program, makes a session and walks to the export. Neither portmapper nor MOUNT is asked.
    fn mount(mount: &NfsMount, stop: &'a AtomicBool) -> Result<Self, EngineError> {
        let rpc = Mounter { mount, stop }.connect_nfs4()?;
        let registration = Registration::new(mount.session_slots);
        let client = Client::new(&rpc.server, &rpc.credential, rpc.timeout_ns, registration, 1);
        let mut connected = Connected { rpc, client };
        connected.wait_for(Client::register)?;
        let limits = CallLimits { read: 0, write: 0 };
        let mut calls = Self { connected: Some(connected), root: Handle::default(), limits, lease_ns: 0, stop };
        let of = format!("{} of {}", mount.export, calls.rpc().server);
        calls.root = calls.walk_to(&mount.export)?.map_err(|status| refused("mount", &of, status))?;
        calls.read_limits()?.map_err(|status| refused("get the limits of", &mount.export, status))?;
        calls.limits.check(&calls.rpc().server)?;
        Ok(calls)
    }

    fn rpc(&self) -> &Rpc<'a> {
        &self.connected.as_ref().expect("a load has not begun").rpc
    }

    fn root(&self) -> &Handle {
        &self.root
    }

    fn limits(&self) -> CallLimits {
        self.limits
    }

    fn was_repeated(&self) -> bool {
        self.connected.as_ref().is_some_and(|connected| connected.client.was_repeated)
    }

    fn make(&mut self, call: &NamedCall<Handle>, data: &[u8], read: &mut Vec<u8>) -> Answer<Found<Nfs4>> {
        let registration = self.connected().client.registration.clone();
        names::with_operations(&registration, None, call, data, |operations| {
            let mut gathered = Gathered::new(call.procedure);
            let made = self.carry_out(operations, |result| {
                if let nfs_resop4::READ(Ok(found)) = &result {
                    read.extend_from_slice(found.data);
                }
                gathered.take(&result);
            })?;
            match made {
                Ok(()) => gathered.end().map(Ok).map_err(|why| self.rpc().invalid(why)),
                Err(status) => Ok(gathered.refused(status)),
            }
        })
    }

    fn close(&mut self, found: &Found<Nfs4>) -> Answer<()> {
        let (Some(handle), (stateid, _)) = (&found.handle, found.state) else { return Ok(Ok(())) };
        let closed = self.connected().wait_for(|client| close(client, handle, stateid))?;
        Ok(closed.map_err(|status| status as u32))
    }

    fn start(mut self, mount: &NfsMount, files: &[(String, Handle)]) -> Result<(Nfs4, Vec<Socket>), EngineError> {
        let mut opens = Vec::with_capacity(files.len());
        for (path, handle) in files {
            opens.push(Some(self.connected().wait_for(|client| open_by_handle(client, path, handle))?));
        }
        let stop = self.stop;
        let further = self.connected().connect_further(mount, stop)?;
        let first = self.connected().rpc.take_socket()?;
        let Connected { client, .. } = self.connected.take().expect("a load has not begun");
        let sockets = std::iter::once(first).chain(further).collect();
        Ok((Nfs4::new(client, opens, self.lease_ns, mount), sockets))
    }
}

/// A session that no load has taken over ends; if the server is gone, its lease ends it.
impl Drop for Nfs4Calls<'_> {
    fn drop(&mut self) {
        if let Some(connected) = &mut self.connected {
            connected.rpc.timeout_ns = connected.rpc.timeout_ns.min(LEAVE_NS);
            connected.client.timeout_ns = connected.rpc.timeout_ns;
            let _ = connected.wait_for(Client::unregister);
        }
    }
}

/// A client whose calls are waited for.
struct Connected<'a> {
    rpc: Rpc<'a>,
    client: Client,
}

impl Connected<'_> {
    /// Makes calls of the client, one after another.
    fn wait_for<'c, T, F>(&'c mut self, calls: impl FnOnce(&'c mut Client) -> F) -> Result<T, EngineError>
    where
        F: Future<Output = Result<T, EngineError>> + Send + 'c,
    {
        let line = self.client.line.clone();
        self.rpc.wait_for(Conversation::new(line, calls(&mut self.client)))
    }

    /// Connects `nconnect - 1` times more, and binds each connection to the session.
    fn connect_further(&mut self, mount: &NfsMount, stop: &AtomicBool) -> Result<Vec<Socket>, EngineError> {
        let (Rpc { route, server, .. }, client) = (&self.rpc, &mut self.client);
        let mut sockets = Vec::new();
        for _ in 1..mount.nconnect {
            let socket = mounter::connect(route, server, client.timeout_ns, stop)?;
            let mut rpc = Rpc::new(socket, route.clone(), server.clone(), client.timeout_ns, stop)
                .map_err(|source| EngineError::System { action: "watch a socket", source })?;
            rpc.program = NAME;
            rpc.wait_for(Conversation::new(client.line.clone(), client.bind(0)))?;
            sockets.push(rpc.take_socket()?);
        }
        Ok(sockets)
    }
}

impl<'a> Nfs4Calls<'a> {
    fn connected(&mut self) -> &mut Connected<'a> {
        self.connected.as_mut().expect("a load has not begun")
    }

    /// Handle of the export's root.
    fn walk_to(&mut self, export: &str) -> Answer<Handle> {
        let mut handle = Handle::default();
        let root = [nfs_argop4::PUTROOTFH(()), nfs_argop4::GETFH(())];
        granted!(self.carry_out(&root, |result| take_handle(&result, &mut handle)));
        for name in export.split('/').filter(|name| !name.is_empty()) {
            let node = granted!(self.find(&Entry { directory: &handle, name }));
            if node.kind != EntryKind::Directory {
                return Ok(Err(NOTDIR));
            }
            handle = node.handle;
        }
        Ok(Ok(handle))
    }

    /// Takes the smaller of the session's and the file system's limits.
    fn read_limits(&mut self) -> Answer<()> {
        let wanted = bitmap4::of(&[FATTR4_LEASE_TIME, FATTR4_MAXREAD, FATTR4_MAXWRITE]);
        let root = self.root.clone();
        let (mut read, mut write, mut lease_s) = (None, None, None);
        granted!(self.carry_out(&[put(&root), get(wanted)], |result| {
            if let Some(found) = attributes(&result) {
                (read, write, lease_s) = (found.maxread, found.maxwrite, found.lease_time);
            }
        }));
        let channel = self.connected().client.registration.channel;
        let limit = |attribute: Option<u64>, channel_bytes: u32| {
            u64::from(channel_bytes.saturating_sub(OVERHEAD_BYTES)).min(attribute.unwrap_or(u64::MAX)) as u32
        };
        self.limits = CallLimits {
            read: limit(read, channel.ca_maxresponsesize),
            write: limit(write, channel.ca_maxrequestsize),
        };
        self.lease_ns = Nanos::from(lease_s.unwrap_or(90).max(1)) * SECOND;
        Ok(Ok(()))
    }

    fn carry_out(&mut self, operations: &[nfs_argop4<'_>], each: impl FnMut(nfs_resop4<'_>) + Send) -> Answer<()> {
        let carried_out = self.connected().wait_for(|client| client.compound(operations, each))?;
        Ok(carried_out.map_err(|status| status as u32))
    }
}
