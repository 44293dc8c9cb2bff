//! Calls of `NFSv4.1` on names, in a load: each is one COMPOUND.

use std::sync::LazyLock;

use iocurve_wire::client_fast::{Malformed, Unparsed};
use iocurve_wire::nfs4::attributes::{Attributes, bitmap4, fattr4};
use iocurve_wire::nfs4::operations::{
    ACCESS4args, CLOSE4args, CREATE4args, LINK4args, LOOKUP4args, OPEN4args, READ4args, READDIR4args, REMOVE4args,
    RENAME4args, SETATTR4args, WRITE4args, access, createhow4, createtype4, nfs_argop4, nfs_resop4, open_claim4,
    openflag4, share,
};
use iocurve_wire::nfs4::{nfsstat4, owner_name4, settime4, stable_how4, state_owner4, stateid4};
use iocurve_wire::xdr::{Decode, Reader, to_bytes};

use super::super::names::{
    Cursor, Details, ENTRIES_BYTES, FILE_MODE, LIST_BYTES, ListedPage, Named, NamedCall, Procedure,
};
use super::attributes::{
    CREATED, Encoded, FACTS, LISTED, MADE_DIRECTORY, STAT, attributes, get, listed, made_here, object,
};
use super::client::Registration;
use super::opens::{Handle, Open, put};

/// State of an open and its `share_access`.
pub(super) type OpenState = (stateid4, u32);
type Found = Named<Handle, OpenState>;

const MALFORMED: Unparsed = Unparsed::Malformed(Malformed::NotOfOperations);

static UNSET: Encoded = LazyLock::new(|| to_bytes(&Attributes::default()));
static EMPTIED: Encoded =
    LazyLock::new(|| to_bytes(&Attributes { mode: Some(FILE_MODE), size: Some(0), ..Attributes::default() }));
static TOUCHED: Encoded = LazyLock::new(|| {
    let now = Some(settime4::SET_TO_SERVER_TIME4(()));
    to_bytes(&Attributes { time_access_set: now, time_modify_set: now, ..Attributes::default() })
});

/// Gives the operations of a call to `make`; `open` is the file that the call closes.
pub(super) fn with_operations<R>(
    registration: &Registration,
    open: Option<&Open>,
    call: &NamedCall<Handle>,
    data: &[u8],
    make: impl FnOnce(&[nfs_argop4<'_>]) -> R,
) -> R {
    let (name, new_name) = (&*call.name, &*call.new_name);
    let opening = |access, openhow| {
        nfs_argop4::OPEN(OPEN4args {
            seqid: 0,
            share_access: access | share::OPEN4_SHARE_ACCESS_WANT_NO_DELEG,
            share_deny: share::OPEN4_SHARE_DENY_NONE,
            owner: state_owner4 { clientid: registration.clientid, owner: owner_name4(registration.owner()) },
            openhow,
            claim: open_claim4::CLAIM_NULL(name),
        })
    };
    let open_by_name = |access, openhow| [put(&call.directory), opening(access, openhow), nfs_argop4::GETFH(())];
    // The handle is for a file that stays open, as the operation in the middle failed.
    let opened_for = |open, operation| {
        let close = nfs_argop4::CLOSE(CLOSE4args { seqid: 0, open_stateid: stateid4::CURRENT });
        [put(&call.directory), open, nfs_argop4::GETFH(()), operation, close]
    };
    let create_empty = || openflag4::OPEN4_CREATE(createhow4::UNCHECKED4(made_here(&EMPTIED)));
    match call.procedure {
        Procedure::LookUp => on_object(call, nfs_argop4::GETFH(()), make),
        Procedure::Find if name.is_empty() => make(&[put(&call.directory), get(FACTS)]),
        Procedure::Find => make(&[put(&call.directory), look_up(name), nfs_argop4::GETFH(()), get(FACTS)]),
        Procedure::Create => {
            let how = openflag4::OPEN4_CREATE(createhow4::UNCHECKED4(made_here(&CREATED)));
            make(&open_by_name(share::OPEN4_SHARE_ACCESS_BOTH, how))
        }
        Procedure::CreateNew => {
            let how = openflag4::OPEN4_CREATE(createhow4::GUARDED4(made_here(&CREATED)));
            make(&open_by_name(share::OPEN4_SHARE_ACCESS_BOTH, how))
        }
        Procedure::CreateEmpty => make(&open_by_name(share::OPEN4_SHARE_ACCESS_BOTH, create_empty())),
        Procedure::ReadWhole => {
            let read = |stateid| nfs_argop4::READ(READ4args { stateid, offset: 0, count: call.length });
            if name.is_empty() {
                return make(&[put(&call.directory), read(stateid4::ANONYMOUS)]);
            }
            let open = opening(share::OPEN4_SHARE_ACCESS_READ, openflag4::OPEN4_NOCREATE(()));
            make(&opened_for(open, read(stateid4::CURRENT)))
        }
        Procedure::WriteWhole => {
            let stable = stable_how4::FILE_SYNC;
            let write = |stateid| nfs_argop4::WRITE(WRITE4args { stateid, offset: 0, stable, data });
            if name.is_empty() {
                return make(&[put(&call.directory), write(stateid4::ANONYMOUS)]);
            }
            let open = opening(share::OPEN4_SHARE_ACCESS_WRITE, create_empty());
            make(&opened_for(open, write(stateid4::CURRENT)))
        }
        Procedure::Link => {
            let link = nfs_argop4::LINK(LINK4args { newname: new_name });
            let (file, save, target) = (put(&call.directory), nfs_argop4::SAVEFH(()), put(&call.new_directory));
            if name.is_empty() {
                return make(&[file, save, target, link]);
            }
            make(&[file, look_up(name), save, target, link])
        }
        Procedure::Symlink => {
            let objtype = createtype4::NF4LNK(new_name);
            let create = CREATE4args { objtype, objname: name, createattrs: made_here(&UNSET) };
            make(&[put(&call.directory), nfs_argop4::CREATE(create)])
        }
        Procedure::Readlink => on_object(call, nfs_argop4::READLINK(()), make),
        Procedure::Readdir | Procedure::Readdirplus | Procedure::ListNames | Procedure::List => {
            let wants_names = matches!(call.procedure, Procedure::Readdir | Procedure::ListNames);
            let attr_request = if wants_names { bitmap4::of(&[]) } else { LISTED };
            let Cursor { cookie, verifier: cookieverf } = call.cursor;
            let maxcount = if call.procedure == Procedure::List { LIST_BYTES } else { ENTRIES_BYTES };
            let list = READDIR4args { cookie, cookieverf, dircount: ENTRIES_BYTES, maxcount, attr_request };
            make(&[put(&call.directory), nfs_argop4::READDIR(list)])
        }
        Procedure::Open => make(&open_by_name(share::OPEN4_SHARE_ACCESS_BOTH, openflag4::OPEN4_NOCREATE(()))),
        Procedure::OpenToRead => make(&open_by_name(share::OPEN4_SHARE_ACCESS_READ, openflag4::OPEN4_NOCREATE(()))),
        Procedure::Close => {
            let Some(open) = open else { unreachable!("only an open file is closed") };
            let close = nfs_argop4::CLOSE(CLOSE4args { seqid: 0, open_stateid: open.stateid });
            make(&[put(&open.handle), close])
        }
        Procedure::Getattr => on_object(call, get(STAT), make),
        Procedure::Setattr => on_object(call, set(made_here(&TOUCHED)), make),
        Procedure::SetSize => {
            let size = to_bytes(&Attributes { size: Some(call.size), ..Attributes::default() });
            make(&[put(&call.directory), set(made_here(&size))])
        }
        Procedure::Access => on_object(call, nfs_argop4::ACCESS(ACCESS4args { access: access::ACCESS3_READ }), make),
        // REMOVE takes directories as well.
        Procedure::Remove | Procedure::Rmdir => {
            make(&[put(&call.directory), nfs_argop4::REMOVE(REMOVE4args { target: name })])
        }
        Procedure::Mkdir => {
            let objtype = createtype4::NF4DIR(());
            let create = CREATE4args { objtype, objname: name, createattrs: made_here(&MADE_DIRECTORY) };
            make(&[put(&call.directory), nfs_argop4::CREATE(create), nfs_argop4::GETFH(())])
        }
        Procedure::Rename => {
            let rename = nfs_argop4::RENAME(RENAME4args { oldname: name, newname: new_name });
            make(&[put(&call.directory), nfs_argop4::SAVEFH(()), put(&call.new_directory), rename])
        }
    }
}

/// Carries an operation out on the object of a call.
fn on_object<R>(call: &NamedCall<Handle>, operation: nfs_argop4<'_>, make: impl FnOnce(&[nfs_argop4<'_>]) -> R) -> R {
    if call.name.is_empty() {
        return make(&[put(&call.directory), operation]);
    }
    make(&[put(&call.directory), look_up(&call.name), operation])
}

fn look_up(name: &[u8]) -> nfs_argop4<'_> {
    nfs_argop4::LOOKUP(LOOKUP4args { objname: name })
}

fn set(obj_attributes: fattr4<'_>) -> nfs_argop4<'_> {
    nfs_argop4::SETATTR(SETATTR4args { stateid: stateid4::ANONYMOUS, obj_attributes })
}

/// Parses the results behind SEQUENCE: the first that failed is the last one.
pub(super) fn parse(procedure: Procedure, results: &[u8]) -> Result<Result<Found, u32>, Unparsed> {
    let mut reader = Reader::new(results);
    let mut gathered = Gathered::new(procedure);
    while !reader.rest().is_empty() {
        let mut start = Reader::new(reader.rest());
        start.u32().map_err(|_| MALFORMED)?;
        let status = nfsstat4::decode(&mut start).map_err(|_| MALFORMED)?;
        if status != nfsstat4::NFS4_OK {
            return Ok(gathered.refused(status as u32));
        }
        let result = nfs_resop4::decode(&mut reader).map_err(|_| MALFORMED)?;
        gathered.take(&result);
        if let nfs_resop4::READ(Ok(read)) = result {
            let at = read.data.as_ptr().addr() - results.as_ptr().addr();
            gathered.found.moved = at..at + read.data.len();
        }
    }
    gathered.end().map(Ok)
}

/// The results of a call's operations, one after another.
pub(super) struct Gathered {
    procedure: Procedure,
    found: Found,
    is_complete: bool,
    is_open: bool,
    is_less_stable: bool,
}

impl Gathered {
    pub(super) fn new(procedure: Procedure) -> Self {
        let found = Found::default();
        Self { procedure, found, is_complete: false, is_open: false, is_less_stable: false }
    }

    /// Takes up the result of an operation.
    pub(super) fn take(&mut self, result: &nfs_resop4<'_>) {
        let Self { procedure, found, .. } = self;
        match result {
            nfs_resop4::GETFH(Ok(result)) => {
                found.handle = Some(result.object.0.into());
                self.is_complete |= matches!(
                    procedure,
                    Procedure::LookUp
                        | Procedure::Create
                        | Procedure::CreateEmpty
                        | Procedure::CreateNew
                        | Procedure::Open
                        | Procedure::OpenToRead
                        | Procedure::Mkdir
                );
            }
            // The current state of an open, whatever its number (§8.2.2): calls may overtake each other.
            nfs_resop4::OPEN(Ok(opened)) => {
                found.state = (stateid4 { seqid: 0, ..opened.stateid }, accesses(*procedure));
                self.is_open = true;
            }
            nfs_resop4::GETATTR(Ok(_)) => {
                let attributes = attributes(result);
                found.size = attributes.as_ref().and_then(|attributes| attributes.size);
                if *procedure == Procedure::Find {
                    found.details = attributes.as_ref().and_then(object);
                }
                self.is_complete = true;
            }
            nfs_resop4::ACCESS(Ok(checked)) => {
                found.may_read = checked.access & access::ACCESS3_READ != 0;
                self.is_complete = true;
            }
            // A read by its handle has no other result.
            nfs_resop4::READ(Ok(_)) => self.is_complete |= !self.is_open,
            nfs_resop4::WRITE(Ok(written)) => {
                self.is_less_stable = written.committed != stable_how4::FILE_SYNC;
                found.moved = 0..written.count as usize;
                self.is_complete |= !self.is_open;
            }
            nfs_resop4::READDIR(Ok(list)) => {
                let entries = &list.reply.entries.0;
                let names = entries.iter().map(|entry| (entry.name, entry.cookie));
                found.listed = Some(ListedPage::of(names, list.cookieverf, list.reply.eof));
                if matches!(procedure, Procedure::ListNames | Procedure::List) {
                    found.details = Some(Box::new(Details::Entries(entries.iter().map(listed).collect())));
                }
                self.is_complete = true;
            }
            nfs_resop4::CREATE(_) => self.is_complete = *procedure == Procedure::Symlink,
            nfs_resop4::CLOSE(_)
            | nfs_resop4::SETATTR(_)
            | nfs_resop4::REMOVE(_)
            | nfs_resop4::RENAME(_)
            | nfs_resop4::LINK(_)
            | nfs_resop4::READLINK(_) => self.is_complete = true,
            _ => {}
        }
    }

    /// The call was refused. A file that the same call has opened is still open.
    pub(super) fn refused(self, status: u32) -> Result<Found, u32> {
        let is_left = self.is_open && matches!(self.procedure, Procedure::ReadWhole | Procedure::WriteWhole);
        if is_left { Ok(Found { failed: Some(status), ..self.found }) } else { Err(status) }
    }

    /// All operations have succeeded.
    pub(super) fn end(self) -> Result<Found, Unparsed> {
        match self {
            Self { is_less_stable: true, .. } => Err(Unparsed::Malformed(Malformed::LessStable)),
            Self { is_complete: false, .. } => Err(MALFORMED),
            Self { found, .. } => Ok(found),
        }
    }
}

fn accesses(procedure: Procedure) -> u32 {
    match procedure {
        Procedure::OpenToRead | Procedure::ReadWhole => share::OPEN4_SHARE_ACCESS_READ,
        Procedure::WriteWhole => share::OPEN4_SHARE_ACCESS_WRITE,
        _ => share::OPEN4_SHARE_ACCESS_BOTH,
    }
}
