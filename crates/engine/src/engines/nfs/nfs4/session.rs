//! A mounted export of `NFSv4.1`: looks up, opens, creates and removes files.

use std::sync::atomic::AtomicBool;

use iocurve_meter::{Nanos, SECOND};
use iocurve_wire::nfs4::attributes::{
    Attributes, FATTR4_LEASE_TIME, FATTR4_MAXREAD, FATTR4_MAXWRITE, FATTR4_SIZE, FATTR4_TYPE, bitmap4, fattr4,
};
use iocurve_wire::nfs4::operations::{
    CLOSE4args, GETATTR4args, LOOKUP4args, OPEN4args, PUTFH4args, REMOVE4args, SETATTR4args, createhow4, nfs_argop4,
    nfs_resop4, open_claim4, openflag4, share,
};
use iocurve_wire::nfs4::{nfs_fh4, nfs_ftype4, nfsstat4, owner_name4, state_owner4, stateid4};
use iocurve_wire::xdr::{from_bytes, to_bytes};

use super::super::mounter::{self, Mounter};
use super::super::protocol::{self, CallLimits, Session as _, directory_parts};
use super::super::rpc::Rpc;
use super::super::socket::{Route, Socket};
use super::client::{Client, Failed, OVERHEAD_BYTES};
use super::{Nfs4, status};
use crate::error::EngineError;
use crate::plan::NfsMount;

/// Servers with a lower limit are refused.
const CALL_BYTES_MIN: u32 = 512;
/// Permissions of new files.
pub(super) const FILE_MODE: u32 = 0o644;

/// A file handle.
pub(super) type Handle = Vec<u8>;

/// A mounted export.
pub(in super::super) struct Session<'a> {
    /// Absent only when a load has taken it over.
    client: Option<Client<'a>>,
    pub(super) root: Handle,
    limits: CallLimits,
    lease_ns: Nanos,
    stop: &'a AtomicBool,
}

/// A file that is open for a load.
#[derive(Debug, Clone)]
pub(in super::super) struct Open {
    pub path: String,
    pub handle: Handle,
    pub stateid: stateid4,
    /// `share_access` of the open.
    pub access: u32,
}

impl<'a> protocol::Session<'a, Nfs4> for Session<'a> {
    /// Connects to the NFS program, makes a session and walks to the export. Neither portmapper nor MOUNT is asked.
    fn open(mount: &NfsMount, stop: &'a AtomicBool) -> Result<Self, EngineError> {
        let rpc = Mounter { mount, stop }.connect_nfs4()?;
        let client = Client::register(rpc, mount.session_slots, mount.timeout_ns)?;
        let limits = CallLimits { read: 0, write: 0 };
        let mut session = Self { client: Some(client), root: Vec::new(), limits, lease_ns: 0, stop };
        session.root = session.walk_to(&mount.export)?;
        session.read_limits(&mount.export)?;
        Ok(session)
    }

    fn server(&self) -> &str {
        &self.client.as_ref().expect("a load has not begun").rpc.server
    }

    fn route(&self) -> Route {
        self.client.as_ref().expect("a load has not begun").rpc.route
    }

    fn limits(&self) -> CallLimits {
        self.limits
    }

    fn find(&mut self, path: &str) -> Result<Option<(Handle, u64)>, EngineError> {
        let (directory, name) = self.directory_of(path)?;
        let Some((handle, file_type, size)) = self.lookup(&directory, name, path)? else { return Ok(None) };
        if file_type != nfs_ftype4::NF4REG {
            return Err(EngineError::Target(format!("{path} on {} is not a regular file", self.server())));
        }
        Ok(Some((handle, size)))
    }

    fn create(&mut self, path: &str) -> Result<Handle, EngineError> {
        let (directory, name) = self.directory_of(path)?;
        let mode = to_bytes(&Attributes { mode: Some(FILE_MODE), ..Attributes::default() });
        let attributes: fattr4<'_> = from_bytes(&mode).expect("attributes that were made here");
        let how = openflag4::OPEN4_CREATE(createhow4::GUARDED4(attributes));
        let claim = open_claim4::CLAIM_NULL(name.as_bytes());
        let opened = open(self.client(), &directory, share::OPEN4_SHARE_ACCESS_BOTH, how, claim)?;
        if self.client().was_repeated
            && opened.as_ref().is_err_and(|status| *status == nfsstat4::NFS4ERR_EXIST)
            && let Some((handle, 0)) = self.find(path)?
        {
            // The server executed the call before it restarted, and lost the answer.
            return Ok(handle);
        }
        let (stateid, handle) = opened.map_err(|status| status::refused("create", path, status as u32))?;
        close(self.client(), &handle, stateid)?;
        Ok(handle)
    }

    fn set_size(&mut self, object: &Handle, path: &str, size: u64) -> Result<(), EngineError> {
        let size = to_bytes(&Attributes { size: Some(size), ..Attributes::default() });
        let obj_attributes = from_bytes(&size).expect("attributes that were made here");
        let set = SETATTR4args { stateid: stateid4::ANONYMOUS, obj_attributes };
        let done = self.client().compound(&[put(object), nfs_argop4::SETATTR(set)], |_| {})?;
        done.map_err(|failed| status::refused("set the length of", path, failed.status as u32))
    }

    fn exists(&mut self, path: &str) -> Result<bool, EngineError> {
        let mut directory = self.root.clone();
        for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
            match self.lookup(&directory, part, path)? {
                Some((handle, ..)) => directory = handle,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn remove(&mut self, path: &str) -> Result<(), EngineError> {
        if !self.exists(path)? {
            return Ok(());
        }
        let (directory, name) = self.directory_of(path)?;
        let remove = nfs_argop4::REMOVE(REMOVE4args { target: name.as_bytes() });
        match self.client().compound(&[put(&directory), remove], |_| {})? {
            Err(failed) if !matches!(failed.status, nfsstat4::NFS4ERR_NOENT | nfsstat4::NFS4ERR_NOTEMPTY) => {
                Err(status::refused("remove", path, failed.status as u32))
            }
            _ => Ok(()),
        }
    }

    fn start(mut self, mount: &NfsMount, files: &[(String, Handle)]) -> Result<(Nfs4, Vec<Socket>), EngineError> {
        let mut opens = Vec::with_capacity(files.len());
        for (path, handle) in files {
            opens.push(open_by_handle(self.client(), path, handle)?);
        }
        let client = self.client.take().expect("a load has not begun");
        let Client { rpc, registration, next_sequence, .. } = client;
        let sockets = connect_further(rpc, registration.session, mount, self.stop)?;
        Ok((Nfs4::new(sockets.0, registration, next_sequence, opens, self.lease_ns, mount), sockets.1))
    }
}

impl Session<'_> {
    fn walk_to(&mut self, export: &str) -> Result<Handle, EngineError> {
        let root = [nfs_argop4::PUTROOTFH(()), nfs_argop4::GETFH(())];
        let mut handle = Vec::new();
        let of = format!("{export} of {}", self.server());
        let found = self.client().compound(&root, |result| take_handle(&result, &mut handle))?;
        found.map_err(|failed| status::refused("mount", &of, failed.status as u32))?;
        for part in export.split('/').filter(|part| !part.is_empty()) {
            match self.lookup(&handle, part, &of)? {
                Some((next, nfs_ftype4::NF4DIR, _)) => handle = next,
                Some(_) => return Err(status::refused("mount", &of, nfsstat4::NFS4ERR_NOTDIR as u32)),
                None => return Err(status::refused("mount", &of, nfsstat4::NFS4ERR_NOENT as u32)),
            }
        }
        Ok(handle)
    }

    /// Takes the smaller of the session's and the file system's limits.
    fn read_limits(&mut self, export: &str) -> Result<(), EngineError> {
        let wanted = bitmap4::of(&[FATTR4_LEASE_TIME, FATTR4_MAXREAD, FATTR4_MAXWRITE]);
        let root = self.root.clone();
        let (mut read, mut write, mut lease_s) = (None, None, None);
        let asked = self.client().compound(&[put(&root), get(wanted)], |result| {
            if let Some(found) = attributes(&result) {
                (read, write, lease_s) = (found.maxread, found.maxwrite, found.lease_time);
            }
        })?;
        asked.map_err(|failed| status::refused("get the limits of", export, failed.status as u32))?;
        let channel = self.client().registration.channel;
        let limit = |attribute: Option<u64>, channel_bytes: u32| {
            u64::from(channel_bytes.saturating_sub(OVERHEAD_BYTES)).min(attribute.unwrap_or(u64::MAX)) as u32
        };
        self.limits = CallLimits {
            read: limit(read, channel.ca_maxresponsesize),
            write: limit(write, channel.ca_maxrequestsize),
        };
        self.lease_ns = Nanos::from(lease_s.unwrap_or(90).max(1)) * SECOND;
        if self.limits.read.min(self.limits.write) < CALL_BYTES_MIN {
            return Err(EngineError::Connection(format!(
                "NFS server {} accepts only {} bytes in a READ and {} in a WRITE; at least {CALL_BYTES_MIN} are needed",
                self.server(),
                self.limits.read,
                self.limits.write
            )));
        }
        Ok(())
    }

    /// Handle of the directory of a path, and the last part of the path.
    pub(super) fn directory_of<'p>(&mut self, path: &'p str) -> Result<(Handle, &'p str), EngineError> {
        let (parts, name) = directory_parts(path)?;
        let mut directory = self.root.clone();
        for part in parts {
            let Some((handle, file_type, _)) = self.lookup(&directory, part, path)? else {
                return Err(protocol::missing_directory(path, part));
            };
            if file_type != nfs_ftype4::NF4DIR {
                return Err(protocol::not_a_directory(path, part));
            }
            directory = handle;
        }
        Ok((directory, name))
    }

    fn lookup(
        &mut self,
        directory: &Handle,
        name: &str,
        path: &str,
    ) -> Result<Option<(Handle, nfs_ftype4, u64)>, EngineError> {
        let wanted = bitmap4::of(&[FATTR4_TYPE, FATTR4_SIZE]);
        let lookup = nfs_argop4::LOOKUP(LOOKUP4args { objname: name.as_bytes() });
        let (mut handle, mut found) = (Vec::new(), None);
        let looked_up =
            self.client().compound(&[put(directory), lookup, nfs_argop4::GETFH(()), get(wanted)], |result| {
                take_handle(&result, &mut handle);
                found = found.or_else(|| attributes(&result).and_then(|found| Some((found.file_type?, found.size?))));
            })?;
        match (looked_up, found) {
            (Ok(()), Some((file_type, size))) => Ok(Some((handle, file_type, size))),
            (Ok(()), None) => Err(self.client().rpc.invalid(&"it lacks type and size of a file")),
            (Err(Failed { status: nfsstat4::NFS4ERR_NOENT, .. }), _) => Ok(None),
            (Err(failed), _) => Err(status::refused("look up", path, failed.status as u32)),
        }
    }
}

impl<'a> Session<'a> {
    pub(super) fn client(&mut self) -> &mut Client<'a> {
        self.client.as_mut().expect("a load has not begun")
    }
}

/// A session that no load has taken over ends; if the server is gone, its lease ends it.
impl Drop for Session<'_> {
    fn drop(&mut self) {
        if let Some(client) = &mut self.client {
            let _ = client.unregister();
        }
    }
}

/// Opens a file for reading and writing, or for reading only where writing is refused.
pub(super) fn open_by_handle(client: &mut Client<'_>, path: &str, handle: &Handle) -> Result<Open, EngineError> {
    let opened = open_either_way(client, path, handle, openflag4::OPEN4_NOCREATE(()), open_claim4::CLAIM_FH(()))?;
    opened.map_err(|status| status::refused("open", path, status as u32))
}

/// Opens what `claim` names, beginning at `current`, for reading and writing, or for reading only where writing is refused.
pub(super) fn open_either_way(
    client: &mut Client<'_>,
    path: &str,
    current: &Handle,
    how: openflag4<'_>,
    claim: open_claim4<'_>,
) -> Result<Result<Open, nfsstat4>, EngineError> {
    use nfsstat4::{NFS4ERR_ACCESS, NFS4ERR_PERM, NFS4ERR_ROFS};
    let mut attempt = |access| {
        let opened = open(client, current, access, how, claim)?;
        Ok::<_, EngineError>(opened.map(|(stateid, handle)| Open { path: path.to_owned(), handle, stateid, access }))
    };
    match attempt(share::OPEN4_SHARE_ACCESS_BOTH)? {
        Err(NFS4ERR_ACCESS | NFS4ERR_PERM | NFS4ERR_ROFS) => attempt(share::OPEN4_SHARE_ACCESS_READ),
        opened => Ok(opened),
    }
}

/// Opens a file again after a restart of the server, under its earlier open.
pub(super) fn reclaim(client: &mut Client<'_>, open_before: &Open) -> Result<Result<stateid4, nfsstat4>, EngineError> {
    let Open { handle, access, .. } = open_before;
    let opened = open(client, handle, *access, openflag4::OPEN4_NOCREATE(()), open_claim4::CLAIM_PREVIOUS(0))?;
    Ok(opened.map(|(stateid, _)| stateid))
}

/// Closes a file; a state that the server has forgotten is closed, too.
pub(super) fn close(client: &mut Client<'_>, handle: &Handle, open_stateid: stateid4) -> Result<(), EngineError> {
    let close = nfs_argop4::CLOSE(CLOSE4args { seqid: 0, open_stateid });
    client.compound(&[put(handle), close], |_| {}).map(drop)
}

/// Connects `nconnect - 1` times more, and binds each connection to the session. Returns the credential of all calls.
pub(super) fn connect_further(
    first: Rpc<'_>,
    session: [u8; 16],
    mount: &NfsMount,
    stop: &AtomicBool,
) -> Result<(Vec<u8>, Vec<Socket>), EngineError> {
    let Rpc { socket, route, server, credential, .. } = first;
    let mut sockets = vec![socket];
    for _ in 1..mount.nconnect {
        let socket = mounter::connect(&route, &server, mount.timeout_ns, stop)?;
        let mut rpc = Rpc::new(socket, route, server.clone(), mount.timeout_ns, stop);
        rpc.program = "NFSv4.1";
        rpc.credential.clone_from(&credential);
        Client::bind(&mut rpc, session)?;
        sockets.push(rpc.socket);
    }
    Ok((credential, sockets))
}

fn open(
    client: &mut Client<'_>,
    current: &Handle,
    access: u32,
    openhow: openflag4<'_>,
    claim: open_claim4<'_>,
) -> Result<Result<(stateid4, Handle), nfsstat4>, EngineError> {
    let owner = client.registration.owner().to_owned();
    let clientid = client.registration.clientid;
    let open = nfs_argop4::OPEN(OPEN4args {
        seqid: 0,
        share_access: access | share::OPEN4_SHARE_ACCESS_WANT_NO_DELEG,
        share_deny: share::OPEN4_SHARE_DENY_NONE,
        owner: state_owner4 { clientid, owner: owner_name4(&owner) },
        openhow,
        claim,
    });
    let (mut handle, mut stateid) = (Vec::new(), None);
    let opened = client.compound(&[put(current), open, nfs_argop4::GETFH(())], |result| {
        take_handle(&result, &mut handle);
        if let nfs_resop4::OPEN(Ok(opened)) = result {
            stateid = Some(opened.stateid);
        }
    })?;
    match (opened, stateid) {
        // The current state of an open, whatever its number (§8.2.2): calls may overtake each other.
        (Ok(()), Some(stateid)) => Ok(Ok((stateid4 { seqid: 0, ..stateid }, handle))),
        (Ok(()), None) => Err(client.rpc.invalid(&"it has no state of the open")),
        (Err(failed), _) => Ok(Err(failed.status)),
    }
}

pub(super) fn put(handle: &Handle) -> nfs_argop4<'_> {
    nfs_argop4::PUTFH(PUTFH4args { object: nfs_fh4(handle) })
}

pub(super) fn get(attr_request: bitmap4) -> nfs_argop4<'static> {
    nfs_argop4::GETATTR(GETATTR4args { attr_request })
}

pub(super) fn take_handle(result: &nfs_resop4<'_>, handle: &mut Handle) {
    if let nfs_resop4::GETFH(Ok(found)) = result {
        found.object.0.clone_into(handle);
    }
}

pub(super) fn attributes<'a>(result: &nfs_resop4<'a>) -> Option<Attributes<'a>> {
    match result {
        nfs_resop4::GETATTR(Ok(found)) => found.obj_attributes.values().ok(),
        _ => None,
    }
}
