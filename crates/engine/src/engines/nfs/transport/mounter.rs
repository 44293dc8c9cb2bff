//! Connecting to an export: ports, MOUNT, and the connection to the NFS program.

use std::io;
use std::net::ToSocketAddrs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use iocurve_meter::Nanos;
use iocurve_tls::{ClientKeys, ClientTls};
use iocurve_wire::mount3::{
    MOUNT_PROGRAM, MOUNT_V3, MOUNTPROC3_EXPORT, MOUNTPROC3_MNT, dirpath, exports, mountres3, mountstat3,
};
use iocurve_wire::nfs3::{NFS_PORT, NFS_PROGRAM, NFS_V3, nfs_fh3};
use iocurve_wire::portmap::{IPPROTO_TCP, PMAP_PORT, PMAP_PROG, PMAP_VERS, PMAPPROC_GETPORT, mapping};
use iocurve_wire::rpc::{Procedure, auth_flavor, authsys_parms, opaque_auth};
use iocurve_wire::xdr::to_bytes;

use super::patience::{Patience, connect_one};
use super::rpc::Rpc;
use super::socket::{Route, Socket};
use crate::error::{ConnectionError, EngineError};
use crate::plan::NfsMount;

/// Most exports named in a message.
const EXPORTS_NAMED_MAX: usize = 8;

/// Finds ports, mounts the export and connects to the NFS program.
pub(in crate::engines::nfs) struct Mounter<'m, 'a> {
    pub(in crate::engines::nfs) mount: &'m NfsMount,
    pub(in crate::engines::nfs) stop: &'a AtomicBool,
}

impl<'a> Mounter<'_, 'a> {
    pub(in crate::engines::nfs) fn mount(&self) -> Result<nfs_fh3, EngineError> {
        let port = match self.mount.mount_port {
            Some(port) => port,
            None => self.ask_port("MOUNT", MOUNT_PROGRAM, MOUNT_V3, "mountport")?,
        };
        let mut rpc = self.connect("MOUNT", port)?;
        rpc.credential = auth_sys(self.mount);
        let path: dirpath<'_> = self.mount.export.as_bytes();
        let results = rpc.call(of_mount(MOUNTPROC3_MNT), &path)?;
        match rpc.parsed::<mountres3>(&results)? {
            Ok(mounted) => Ok(mounted.fhandle),
            Err(status) => Err(EngineError::Nfs {
                action: "mount",
                path: format!("{} of {}", self.mount.export, self.mount.host),
                status: status.name(),
                hint: mount_hint(status, &mut rpc),
            }),
        }
    }

    pub(in crate::engines::nfs) fn connect_nfs(&self) -> Result<Rpc<'a>, EngineError> {
        let port = match self.mount.port {
            Some(port) => port,
            // A server behind a firewall may block its portmapper; then the standard port is used.
            None => self.ask_port("NFS", NFS_PROGRAM, NFS_V3, "nfsport").unwrap_or(NFS_PORT),
        };
        let mut rpc = self.connect("NFS", port)?;
        rpc.credential = auth_sys(self.mount);
        Ok(rpc)
    }

    /// Connects to the NFS program of version 4, which has a fixed port and no MOUNT.
    pub(in crate::engines::nfs) fn connect_nfs4(&self) -> Result<Rpc<'a>, EngineError> {
        let mut rpc = self.connect("NFS", self.mount.port.unwrap_or(NFS_PORT))?;
        rpc.program = "NFSv4.1";
        rpc.credential = auth_sys(self.mount);
        Ok(rpc)
    }

    fn ask_port(&self, program: &'static str, prog: u32, vers: u32, option: &'static str) -> Result<u16, EngineError> {
        let host = &self.mount.host;
        let mut rpc = self.reach(PMAP_PORT, None)?.map_err(|source| {
            let (host, export) = (host.clone(), self.mount.export.clone());
            ConnectionError::NoPortmapper { host, export, portmapper: PMAP_PORT, program, source }
        })?;
        let question = mapping { prog, vers, prot: IPPROTO_TCP, port: 0 };
        let get_port = Procedure { program: PMAP_PROG, version: PMAP_VERS, number: PMAPPROC_GETPORT };
        let results = rpc.call(get_port, &question)?;
        let port: u32 = rpc.parsed(&results)?;
        u16::try_from(port)
            .ok()
            .filter(|port| *port != 0)
            .ok_or_else(|| ConnectionError::NotRegistered { host: host.clone(), program, version: vers, option }.into())
    }

    fn connect(&self, program: &'static str, port: u16) -> Result<Rpc<'a>, EngineError> {
        let timeout_ns = self.mount.timeout_ns;
        let tls = self.tls()?.map(|tls| (tls, self.mount.version));
        self.reach(port, tls.as_ref())?
            .map_err(|source| unreachable_error(program, &self.server(port), source, timeout_ns))
    }

    /// Reads the keys, if the mount demands TLS.
    fn tls(&self) -> Result<Option<Arc<ClientTls>>, EngineError> {
        let Some(tls) = &self.mount.tls else { return Ok(None) };
        let (ca, certificate) = (tls.ca.as_deref().map(Path::new), tls.certificate.as_deref().map(Path::new));
        let keys = ClientKeys { ca, certificate, insecure: tls.insecure };
        let read = ClientTls::new(&keys, &self.mount.host);
        read.map(|tls| Some(Arc::new(tls))).map_err(|error| ConnectionError::Tls(error).into())
    }

    /// Connects to the first of the host's addresses that answers.
    fn reach(&self, port: u16, tls: Option<&(Arc<ClientTls>, u32)>) -> Result<io::Result<Rpc<'a>>, EngineError> {
        let NfsMount { host, timeout_ns, source, .. } = self.mount;
        let addresses = (host.trim_start_matches('[').trim_end_matches(']'), port)
            .to_socket_addrs()
            .map_err(|source| ConnectionError::HostName { host: host.clone(), source })?;
        let source_text = source.map(|source| source.to_string()).unwrap_or_default();
        let mut result =
            Err(io::Error::other(format!("its addresses are not of the family of the local address {source_text}")));
        for peer in addresses.filter(|peer| source.is_none_or(|source| source.is_ipv4() == peer.is_ipv4())) {
            let route = Route { peer, source: *source, tls: tls.cloned() };
            let patience = Patience::new(peer, *timeout_ns, self.stop);
            result = connect_one(&route, &patience)
                .and_then(|socket| Rpc::new(socket, route, self.server(port), *timeout_ns, self.stop));
            if result.is_ok() {
                break;
            }
        }
        Ok(result)
    }

    fn server(&self, port: u16) -> String {
        let host = &self.mount.host;
        if host.contains(':') && !host.starts_with('[') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

/// Connects to a server's NFS program.
pub(in crate::engines::nfs) fn connect(
    route: &Route,
    server: &str,
    timeout_ns: Nanos,
    stop: &AtomicBool,
) -> Result<Socket, EngineError> {
    let connected = connect_one(route, &Patience::new(route.peer, timeout_ns, stop));
    connected.map_err(|source| unreachable_error("NFS", server, source, timeout_ns))
}

fn unreachable_error(program: &'static str, server: &str, source: io::Error, timeout_ns: Nanos) -> EngineError {
    ConnectionError::Unreachable { program, server: server.to_owned(), timeout_ns, source }.into()
}

fn auth_sys(mount: &NfsMount) -> Vec<u8> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let machinename = &name.trim().as_bytes()[..name.trim().len().min(255)];
    // Two sessions number their calls alike; a server with a duplicate request cache must not confuse them.
    let stamp = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u32);
    let body = to_bytes(&authsys_parms { stamp, machinename, uid: mount.uid, gid: mount.gid, gids: Vec::new() });
    to_bytes(&opaque_auth { flavor: auth_flavor::AUTH_SYS, body: &body })
}

fn of_mount(number: u32) -> Procedure {
    Procedure { program: MOUNT_PROGRAM, version: MOUNT_V3, number }
}

fn mount_hint(status: mountstat3, rpc: &mut Rpc<'_>) -> String {
    let exports = exported(rpc).map(|names| format!("; it exports {names}")).unwrap_or_default();
    match status {
        mountstat3::MNT3ERR_ACCES | mountstat3::MNT3ERR_PERM => format!(
            "{exports}; check that this client may mount it, and whether the server wants a privileged port (option insecure)"
        ),
        _ => exports,
    }
}

/// Text that lists the server's exports; `None` if it does not list them.
fn exported(rpc: &mut Rpc<'_>) -> Option<String> {
    let results = rpc.call(of_mount(MOUNTPROC3_EXPORT), &()).ok()?;
    let list = rpc.parsed::<exports<'_>>(&results).ok()?;
    let mut names: Vec<String> =
        list.0.iter().take(EXPORTS_NAMED_MAX).map(|node| String::from_utf8_lossy(node.ex_dir).into_owned()).collect();
    if list.0.len() > EXPORTS_NAMED_MAX {
        names.push("…".to_owned());
    }
    Some(if names.is_empty() { "nothing".to_owned() } else { names.join(", ") })
}
