//! Reaching an export: ports, MOUNT, limits, and one call at a time for everything that is not load.

use std::fmt::Display;
use std::io;
use std::net::ToSocketAddrs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iocurve_meter::{Nanos, SECOND};
use iocurve_wire::mount3::{
    MOUNT_PROGRAM, MOUNT_V3, MOUNTPROC3_EXPORT, MOUNTPROC3_MNT, dirpath, exports, mountres3, mountstat3,
};
use iocurve_wire::nfs3::{
    CREATE3args, CREATE3res, FSINFO3args, FSINFO3res, Failed, GETATTR3args, GETATTR3res, LOOKUP3args, LOOKUP3res,
    NFS_PORT, NFS_PROGRAM, NFS_V3, REMOVE3args, REMOVE3res, SETATTR3args, SETATTR3res, createhow3, diropargs3, fattr3,
    ftype3, nfs_fh3, nfsproc3, nfsstat3, sattr3,
};
use iocurve_wire::portmap::{IPPROTO_TCP, PMAP_PORT, PMAP_PROG, PMAP_VERS, PMAPPROC_GETPORT, mapping};
use iocurve_wire::record::{Progress, Reassembler, RecordTooLong, write_record};
use iocurve_wire::rpc::{
    Accepted, CallHeader, RPC_VERSION, Rejected, ReplyBody, ReplyHeader, auth_flavor, authsys_parms, opaque_auth,
};
use iocurve_wire::xdr::{Decode, Encode, Reader, to_bytes};

use crate::error::EngineError;
use crate::plan::NfsMount;

use super::flight::{CallLimits, JUKEBOX_DELAY_NS};
use super::socket::{DONTWAIT, Route, Socket, check_source, not_now};
use super::status;

/// Longest reply taken here; a list of exports is the longest there is.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// Most bytes of one call, whatever the server would take.
const CALL_BYTES_MAX: u32 = 16 << 20;
/// A server that takes less in one call is not one to measure.
const CALL_BYTES_MIN: u32 = 512;
/// Permissions of new files.
const FILE_MODE: u32 = 0o644;
/// Most exports named in a message.
const EXPORTS_NAMED_MAX: usize = 8;
/// How soon a stop is noticed while waiting.
const STOP_CHECK_NS: Nanos = 50_000_000;

/// An export that was reached.
pub(super) struct Session<'a> {
    rpc: Rpc<'a>,
    root: nfs_fh3,
    /// Limits of READ and WRITE.
    pub limits: CallLimits,
    /// The encoded credential of all calls.
    pub credential: Vec<u8>,
}

impl<'a> Session<'a> {
    /// Asks for ports where the mount names none, mounts the export and connects to the NFS program.
    pub(super) fn open(mount: &NfsMount, stop: &'a AtomicBool) -> Result<Self, EngineError> {
        if mount.version != 3 {
            return Err(EngineError::Plan(format!("NFS version {} is not spoken here; use version 3", mount.version)));
        }
        if let Some(source) = mount.source {
            check_source(source).map_err(|error| {
                EngineError::Connection(format!(
                    "connections cannot come from {source}: {error}; name an address of this machine, as `ip address` lists them"
                ))
            })?;
        }
        let mounted = Mounter { mount, stop }.mount()?;
        let mut rpc = Mounter { mount, stop }.connect_nfs()?;
        rpc.credential = auth_sys(mount);
        let limits = limits(&mut rpc, &mounted, &mount.export)?;
        let credential = rpc.credential.clone();
        Ok(Self { rpc, root: mounted, limits, credential })
    }

    /// `host:port` of the NFS program.
    pub(super) fn server(&self) -> String {
        self.rpc.server.clone()
    }

    /// The way to the NFS program.
    pub(super) fn route(&self) -> Route {
        self.rpc.route
    }

    /// The connection, for other uses; nothing is under way on it.
    pub(super) fn into_socket(self) -> Socket {
        self.rpc.socket
    }

    /// Looks a regular file up; `None` if it does not exist.
    pub(super) fn find(&mut self, path: &str) -> Result<Option<(nfs_fh3, fattr3)>, EngineError> {
        let (directory, name) = self.directory_of(path)?;
        let Some((handle, attributes)) = self.lookup(directory, name, path)? else { return Ok(None) };
        if attributes.file_type != ftype3::NF3REG {
            return Err(EngineError::Target(format!("{path} on {} is not a regular file", self.rpc.server)));
        }
        Ok(Some((handle, attributes)))
    }

    /// Creates an empty file; fails if there is something of this name.
    pub(super) fn create(&mut self, path: &str) -> Result<nfs_fh3, EngineError> {
        let (dir, name) = self.directory_of(path)?;
        let how = createhow3::GUARDED(sattr3 { mode: Some(FILE_MODE), ..sattr3::default() });
        let arguments = CREATE3args { r#where: diropargs3 { dir, name: name.as_bytes() }, how };
        let created: CREATE3res = self.rpc.nfs(nfsproc3::NFSPROC3_CREATE, &arguments)?;
        match created.map_err(|failed| refused("create", path, &failed))?.obj {
            Some(handle) => Ok(handle),
            None => self.find(path)?.map(|(handle, _)| handle).ok_or_else(|| missing(path)),
        }
    }

    /// Sets a file's length.
    pub(super) fn set_size(&mut self, object: nfs_fh3, path: &str, size: u64) -> Result<(), EngineError> {
        let new_attributes = sattr3 { size: Some(size), ..sattr3::default() };
        let arguments = SETATTR3args { object, new_attributes, guard: None };
        let set: SETATTR3res = self.rpc.nfs(nfsproc3::NFSPROC3_SETATTR, &arguments)?;
        set.map(drop).map_err(|failed| refused("set the length of", path, &failed))
    }

    /// Removes a file; one that is not there is removed already.
    pub(super) fn remove(&mut self, path: &str) -> Result<(), EngineError> {
        let (dir, name) = self.directory_of(path)?;
        let arguments = REMOVE3args { object: diropargs3 { dir, name: name.as_bytes() } };
        let removed: REMOVE3res = self.rpc.nfs(nfsproc3::NFSPROC3_REMOVE, &arguments)?;
        match removed {
            Err(failed) if failed.status != nfsstat3::NFS3ERR_NOENT => Err(refused("remove", path, &failed)),
            _ => Ok(()),
        }
    }

    /// Handle of the directory that a path lies in, and the path's last part.
    fn directory_of<'p>(&mut self, path: &'p str) -> Result<(nfs_fh3, &'p str), EngineError> {
        let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        let Some(name) = parts.pop() else {
            return Err(EngineError::Target(format!("{path:?} names no file in the export")));
        };
        if parts.contains(&"..") || name == ".." {
            return Err(EngineError::Target(format!(
                "{path}: .. is not taken in paths of an export; name the file directly"
            )));
        }
        let mut directory = self.root;
        for part in parts {
            let found = self.lookup(directory, part, path)?;
            let Some((handle, attributes)) = found else {
                return Err(EngineError::Target(format!(
                    "{path}: the directory {part} does not exist; create it first"
                )));
            };
            if attributes.file_type != ftype3::NF3DIR {
                return Err(EngineError::Target(format!("{path}: {part} is not a directory")));
            }
            directory = handle;
        }
        Ok((directory, name))
    }

    fn lookup(&mut self, dir: nfs_fh3, name: &str, path: &str) -> Result<Option<(nfs_fh3, fattr3)>, EngineError> {
        let arguments = LOOKUP3args { what: diropargs3 { dir, name: name.as_bytes() } };
        let found: LOOKUP3res = self.rpc.nfs(nfsproc3::NFSPROC3_LOOKUP, &arguments)?;
        match found {
            Ok(found) => {
                let attributes = match found.obj_attributes {
                    Some(attributes) => attributes,
                    None => self.attributes(found.object, path)?,
                };
                Ok(Some((found.object, attributes)))
            }
            Err(failed) if failed.status == nfsstat3::NFS3ERR_NOENT => Ok(None),
            Err(failed) => Err(refused("look up", path, &failed)),
        }
    }

    fn attributes(&mut self, object: nfs_fh3, path: &str) -> Result<fattr3, EngineError> {
        let attributes: GETATTR3res = self.rpc.nfs(nfsproc3::NFSPROC3_GETATTR, &GETATTR3args { object })?;
        attributes.map(|found| found.obj_attributes).map_err(|failed| refused("get the attributes of", path, &failed))
    }
}

/// A file that has to be there is not.
pub(super) fn missing(path: &str) -> EngineError {
    EngineError::Target(format!("{path} does not exist on the export, and this job does not create it; check the path"))
}

/// Connects to a server's NFS program.
pub(super) fn connect(
    route: &Route,
    server: &str,
    timeout_ns: Nanos,
    stop: &AtomicBool,
) -> Result<Socket, EngineError> {
    let connected = connect_one(route, &Patience::new(timeout_ns, stop));
    connected.map_err(|error| unreachable_error("NFS", server, &error, timeout_ns))
}

/// Nanoseconds in seconds, for messages.
pub(super) fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / SECOND as f64
}

fn refused<T>(action: &'static str, path: &str, failed: &Failed<T>) -> EngineError {
    status::refused(action, path, failed.status as u32)
}

fn limits(rpc: &mut Rpc<'_>, root: &nfs_fh3, export: &str) -> Result<CallLimits, EngineError> {
    let info: FSINFO3res = rpc.nfs(nfsproc3::NFSPROC3_FSINFO, &FSINFO3args { fsroot: *root })?;
    let info = info.map_err(|failed| refused("get the limits of", export, &failed))?;
    if info.rtmax.min(info.wtmax) < CALL_BYTES_MIN {
        return Err(EngineError::Connection(format!(
            "NFS server {} takes only {} bytes in a READ and {} in a WRITE; at least {CALL_BYTES_MIN} are needed",
            rpc.server, info.rtmax, info.wtmax
        )));
    }
    Ok(CallLimits { read: info.rtmax.min(CALL_BYTES_MAX), write: info.wtmax.min(CALL_BYTES_MAX) })
}

fn auth_sys(mount: &NfsMount) -> Vec<u8> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let machinename = &name.trim().as_bytes()[..name.trim().len().min(255)];
    // Two sessions count their calls alike; a server that remembers calls must not take one's for the other's.
    let stamp = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u32);
    let body = to_bytes(&authsys_parms { stamp, machinename, uid: mount.uid, gid: mount.gid, gids: Vec::new() });
    to_bytes(&opaque_auth { flavor: auth_flavor::AUTH_SYS, body: &body })
}

/// The steps before the NFS program is talked to.
struct Mounter<'m, 'a> {
    mount: &'m NfsMount,
    stop: &'a AtomicBool,
}

impl<'a> Mounter<'_, 'a> {
    fn mount(&self) -> Result<nfs_fh3, EngineError> {
        let port = match self.mount.mount_port {
            Some(port) => port,
            None => self.ask_port("MOUNT", MOUNT_PROGRAM, MOUNT_V3, "mountport")?,
        };
        let mut rpc = self.connect("MOUNT", port)?;
        rpc.credential = auth_sys(self.mount);
        let path: dirpath<'_> = self.mount.export.as_bytes();
        let mounted: mountres3 = rpc.call(MOUNT_PROGRAM, MOUNT_V3, MOUNTPROC3_MNT, &path)?;
        match mounted {
            Ok(mounted) => Ok(mounted.fhandle),
            Err(status) => Err(EngineError::Nfs {
                action: "mount",
                path: format!("{} of {}", self.mount.export, self.mount.host),
                status: status.name(),
                hint: mount_hint(status, &mut rpc),
            }),
        }
    }

    fn connect_nfs(&self) -> Result<Rpc<'a>, EngineError> {
        let port = match self.mount.port {
            Some(port) => port,
            // A server behind a firewall may have no portmapper to ask, but the port that everybody uses.
            None => self.ask_port("NFS", NFS_PROGRAM, NFS_V3, "nfsport").unwrap_or(NFS_PORT),
        };
        self.connect("NFS", port)
    }

    fn ask_port(&self, program: &str, prog: u32, vers: u32, option: &str) -> Result<u16, EngineError> {
        let host = &self.mount.host;
        let mut rpc = self.reach(PMAP_PORT)?.map_err(|error| {
            let export = &self.mount.export;
            EngineError::Connection(format!(
                "the portmapper of {host} (port {PMAP_PORT}) cannot be asked for the port of {program}: {error}; is the server \
                 running? If it has no portmapper, name the ports: nfs://{host}{export}?nfsport=…&mountport=…"
            ))
        })?;
        let question = mapping { prog, vers, prot: IPPROTO_TCP, port: 0 };
        let port: u32 = rpc.call(PMAP_PROG, PMAP_VERS, PMAPPROC_GETPORT, &question)?;
        u16::try_from(port).ok().filter(|port| *port != 0).ok_or_else(|| {
            EngineError::Connection(format!(
                "the portmapper of {host} knows no {program} version {vers} over TCP: does the server serve NFSv3? If so, name \
                 its port with {option}"
            ))
        })
    }

    fn connect(&self, program: &str, port: u16) -> Result<Rpc<'a>, EngineError> {
        let timeout_ns = self.mount.timeout_ns;
        self.reach(port)?.map_err(|error| unreachable_error(program, &self.server(port), &error, timeout_ns))
    }

    /// Connects to the first of the host's addresses that answers.
    fn reach(&self, port: u16) -> Result<io::Result<Rpc<'a>>, EngineError> {
        let NfsMount { host, timeout_ns, source, .. } = self.mount;
        let addresses = (host.trim_start_matches('[').trim_end_matches(']'), port)
            .to_socket_addrs()
            .map_err(|error| EngineError::Connection(format!("the host name {host} cannot be resolved: {error}")))?;
        let source_text = source.map(|source| source.to_string()).unwrap_or_default();
        let mut result = Err(io::Error::other(format!(
            "its addresses are not of the family of {source_text}, which connections are to come from"
        )));
        for peer in addresses.filter(|peer| source.is_none_or(|source| source.is_ipv4() == peer.is_ipv4())) {
            let (route, patience) = (Route { peer, source: *source }, Patience::new(*timeout_ns, self.stop));
            result = connect_one(&route, &patience)
                .map(|socket| Rpc::new(socket, route, self.server(port), *timeout_ns, self.stop));
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

fn connect_one(route: &Route, patience: &Patience<'_>) -> io::Result<Socket> {
    let socket = Socket::start(route).map_err(|error| match (route.source, error.kind()) {
        (Some(source), io::ErrorKind::InvalidInput) => io::Error::other(format!("no way leads there from {source}")),
        _ => error,
    })?;
    while !socket.wait(true, STOP_CHECK_NS)? {
        patience.check()?;
    }
    socket.connected()?;
    Ok(socket)
}

fn unreachable_error(program: &str, server: &str, error: &io::Error, timeout_ns: Nanos) -> EngineError {
    EngineError::Connection(match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("{program} server {server} refused the connection: is the server running, and is this its port?")
        }
        io::ErrorKind::TimedOut => format!(
            "{program} server {server} did not answer within {:.1} s: is the address right, and does a firewall allow it?",
            seconds(timeout_ns)
        ),
        _ => format!("{program} server {server} cannot be reached: {error}"),
    })
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

/// What the server exports, in words; `None` if it does not say.
fn exported(rpc: &mut Rpc<'_>) -> Option<String> {
    let results = rpc.transact(MOUNT_PROGRAM, MOUNT_V3, MOUNTPROC3_EXPORT, &()).ok()?;
    let list = exports::decode(&mut Reader::new(results)).ok()?;
    let mut names: Vec<String> =
        list.0.iter().take(EXPORTS_NAMED_MAX).map(|node| String::from_utf8_lossy(node.ex_dir).into_owned()).collect();
    if list.0.len() > EXPORTS_NAMED_MAX {
        names.push("…".to_owned());
    }
    Some(if names.is_empty() { "nothing".to_owned() } else { names.join(", ") })
}

/// How long to wait, and whether to go on.
struct Patience<'a> {
    end: Instant,
    stop: &'a AtomicBool,
}

impl<'a> Patience<'a> {
    fn new(timeout_ns: Nanos, stop: &'a AtomicBool) -> Self {
        // A timeout beyond the clock's range is as good as a day.
        let now = Instant::now();
        let end = now.checked_add(Duration::from_nanos(timeout_ns)).unwrap_or(now + Duration::from_secs(86_400));
        Self { end, stop }
    }

    fn check(&self) -> io::Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("stopped"));
        }
        if Instant::now() >= self.end { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

/// One call at a time on one connection.
struct Rpc<'a> {
    socket: Socket,
    route: Route,
    server: String,
    timeout_ns: Nanos,
    stop: &'a AtomicBool,
    credential: Vec<u8>,
    xid: u32,
    reply: Vec<u8>,
}

impl<'a> Rpc<'a> {
    fn new(socket: Socket, route: Route, server: String, timeout_ns: Nanos, stop: &'a AtomicBool) -> Self {
        let credential = to_bytes(&opaque_auth::NONE);
        // Not the xids of a former program with this address, which the server may remember.
        let xid = std::process::id().wrapping_shl(16) ^ Instant::now().elapsed().subsec_nanos();
        Self { socket, route, server, timeout_ns, stop, credential, xid, reply: Vec::new() }
    }

    /// A call to the NFS program; `NFS3ERR_JUKEBOX` is asked again until the timeout.
    fn nfs<T, F>(&mut self, procedure: nfsproc3, arguments: &impl Encode) -> Result<Result<T, Failed<F>>, EngineError>
    where
        Result<T, Failed<F>>: for<'r> Decode<'r>,
    {
        let started = Instant::now();
        loop {
            let result: Result<T, Failed<F>> = self.call(NFS_PROGRAM, NFS_V3, procedure as u32, arguments)?;
            match result {
                Err(failed)
                    if failed.status == nfsstat3::NFS3ERR_JUKEBOX
                        && started.elapsed() < Duration::from_nanos(self.timeout_ns)
                        && !self.stop.load(Ordering::Relaxed) =>
                {
                    std::thread::sleep(Duration::from_nanos(JUKEBOX_DELAY_NS));
                }
                result => return Ok(result),
            }
        }
    }

    /// A call whose results hold no reference to the reply.
    fn call<R: for<'r> Decode<'r>>(
        &mut self,
        program: u32,
        version: u32,
        procedure: u32,
        arguments: &(impl Encode + ?Sized),
    ) -> Result<R, EngineError> {
        let server = self.server.clone();
        let results = self.transact(program, version, procedure, arguments)?;
        R::decode(&mut Reader::new(results)).map_err(|error| senseless(&server, &error))
    }

    /// Sends a call and returns the results in its reply.
    fn transact(
        &mut self,
        program: u32,
        version: u32,
        procedure: u32,
        arguments: &(impl Encode + ?Sized),
    ) -> Result<&[u8], EngineError> {
        self.xid = self.xid.wrapping_add(1);
        let call = self.encode(program, version, procedure, arguments);
        self.exchange(&call).map_err(|error| self.broken(&error))?;
        let mut reader = Reader::new(&self.reply);
        let header = ReplyHeader::decode(&mut reader).map_err(|error| senseless(&self.server, &error))?;
        if header.xid != self.xid {
            return Err(senseless(&self.server, &"it answers another call"));
        }
        match header.body {
            ReplyBody::MSG_ACCEPTED(accepted) if accepted.stat == Accepted::SUCCESS(()) => Ok(reader.rest()),
            ReplyBody::MSG_ACCEPTED(accepted) => Err(self.not_served(program, version, &accepted.stat)),
            ReplyBody::MSG_DENIED(Rejected::AUTH_ERROR(_)) => Err(EngineError::Connection(format!(
                "server {} refuses AUTH_SYS credentials from this client: check its exports, and whether it wants a \
                 privileged port (option insecure)",
                self.server
            ))),
            ReplyBody::MSG_DENIED(denied) => Err(senseless(&self.server, &format!("it denies the call: {denied:?}"))),
        }
    }

    fn encode(&self, prog: u32, vers: u32, proc: u32, arguments: &(impl Encode + ?Sized)) -> Vec<u8> {
        let mut call = Vec::new();
        let mut credential = Reader::new(&self.credential);
        let cred = opaque_auth::decode(&mut credential).expect("a credential made here");
        let header =
            CallHeader { xid: self.xid, rpcvers: RPC_VERSION, prog, vers, proc, cred, verf: opaque_auth::NONE };
        write_record(&mut call, |writer| {
            header.encode(writer);
            arguments.encode(writer);
        });
        call
    }

    /// Sends a record and receives one.
    fn exchange(&mut self, call: &[u8]) -> io::Result<()> {
        let patience = Patience::new(self.timeout_ns, self.stop);
        let mut sent = 0;
        while sent < call.len() {
            sent += self.retry(true, &patience, |socket| socket.send(&call[sent..]))?;
        }
        self.receive_record(&patience)
    }

    /// Receives no byte beyond the record.
    fn receive_record(&mut self, patience: &Patience<'_>) -> io::Result<()> {
        let mut records = Reassembler::new(REPLY_BYTES_MAX);
        let mut received = Vec::new();
        loop {
            let mut input = &received[..];
            let missing = match records.advance(&mut input).map_err(too_long)? {
                Progress::Record(record) => {
                    self.reply.clear();
                    self.reply.extend_from_slice(record);
                    return Ok(());
                }
                Progress::NeedBytes { missing } => missing,
                Progress::Partial { arrived, length } => length - arrived.len(),
                Progress::Body(_) => unreachable!("no record is taken over"),
            };
            let taken = received.len() - input.len();
            received.drain(..taken);
            let start = received.len();
            received.resize(start + missing, 0);
            self.receive(&mut received[start..], patience)?;
        }
    }

    fn receive(&self, into: &mut [u8], patience: &Patience<'_>) -> io::Result<()> {
        let mut received = 0;
        while received < into.len() {
            match self.retry(false, patience, |socket| socket.receive(&mut into[received..], DONTWAIT))? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => received += bytes,
            }
        }
        Ok(())
    }

    /// Repeats what would have to wait, until it has not.
    fn retry(
        &self,
        write: bool,
        patience: &Patience<'_>,
        mut attempt: impl FnMut(&Socket) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            match attempt(&self.socket) {
                Err(error) if not_now(&error) => {}
                result => return result,
            }
            if !self.socket.wait(write, STOP_CHECK_NS)? {
                patience.check()?;
            }
        }
    }

    fn broken(&self, error: &io::Error) -> EngineError {
        let server = &self.server;
        EngineError::Connection(match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                format!("server {server} closed the connection without an answer: is this the port of an NFSv3 server?")
            }
            io::ErrorKind::TimedOut => {
                format!("server {server} did not answer within {:.1} s", seconds(self.timeout_ns))
            }
            _ => format!("server {server}: {error}"),
        })
    }

    fn not_served(&self, program: u32, version: u32, stat: &Accepted) -> EngineError {
        let name = match program {
            NFS_PROGRAM => "NFS",
            MOUNT_PROGRAM => "MOUNT",
            _ => "portmapper",
        };
        EngineError::Connection(match stat {
            Accepted::PROG_UNAVAIL(()) | Accepted::PROG_MISMATCH(_) => {
                format!("server {} does not serve {name} version {version} on this port; check the port", self.server)
            }
            _ => format!("server {} could not carry out a call to {name}: {stat:?}", self.server),
        })
    }
}

fn too_long(_: RecordTooLong) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "its reply is longer than any that was asked for")
}

fn senseless(server: &str, why: &dyn Display) -> EngineError {
    EngineError::Connection(format!("the reply of server {server} makes no sense ({why}); is it an NFSv3 server?"))
}
