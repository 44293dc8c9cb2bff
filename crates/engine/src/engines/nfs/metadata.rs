//! Metadata operations on an export by any version of NFS, and the reads and writes of the files that they open: an operation
//! is one call after another, and the calls of all operations are in flight together, on the connections of a load.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use iocurve_meter::{Clock, Nanos};

use super::calls::{Calls, Mountable};
use super::export::{Export, directory_parts};
use super::load::NfsEngine;
use super::load::flight::Answered;
use super::names::{NamedCall, Procedure};
use super::protocol::{Found, Judgement};
use super::status::{ACCES, BADHANDLE, EXIST, NOENT, PERM, ROFS, STALE, errno};
use crate::engines::buffers::SlotMap;
use crate::engines::metadata::check;
use crate::engines::request::{Address, Completion, Engine, Request};
use crate::error::EngineError;
use crate::outcome::ConnectionOutcome;
use crate::plan::{FilePlan, NfsMount, OperationKind};
use crate::tree::{Paths, TreeState};

/// How files are opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opening<'a> {
    /// An open lasts until the operation that closes the file, or else is part of the operation.
    pub(crate) keep_open: bool,
    /// The tree that the files are in.
    pub(crate) tree: Option<&'a Arc<TreeState>>,
}

/// Performs metadata operations, and reads and writes of files that operations have opened. Handles of directories are looked
/// up once.
#[expect(private_bounds, reason = "the versions are this module's")]
pub(crate) struct NfsMetadataEngine<P: Mountable> {
    load: NfsEngine<P>,
    root: P::Handle,
    /// Names of each path, with one `/` between them.
    paths: Paths,
    directories: HashMap<String, P::Handle>,
    opened: HashMap<u32, Opened<P::Handle>>,
    /// Numbers of files that are open no longer.
    free: Vec<u32>,
    keep_open: bool,
    slots: SlotMap,
    /// By slot.
    operations: Vec<Operation>,
    /// Data calls that have completed.
    moved: Vec<Completion>,
    finished: Vec<Completion>,
}

/// A file that is open, or is being opened.
#[derive(Debug)]
struct Opened<H> {
    /// Number of the file in the load, and its handle; `None` until the server has answered.
    file: Option<(u32, H)>,
    users: u32,
}

#[derive(Debug, Clone, Copy)]
struct Operation {
    request: Request,
    step: Step,
    /// Directories were looked up again, for the handle known of one was stale.
    is_fresh: bool,
}

/// The call of an operation that is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Looks up a directory of the path: that many bytes of it.
    Directory { bytes: usize, of_target: bool },
    /// Looks up the file itself, for a call by its handle.
    Object,
    /// Looks up the file that was created.
    Created,
    /// Looks up the new name, which must be free.
    Target,
    /// Reads, writes or flushes.
    Data,
    /// Commits a file that is being closed.
    Commit,
    /// Closes a file, and is then done, or removes it.
    Close,
    /// The last call.
    Last(Procedure),
}

#[expect(private_bounds, reason = "the versions are this module's")]
impl<P: Mountable> NfsMetadataEngine<P> {
    /// Mounts the export. Files are looked up by the operations.
    pub(crate) fn connect(
        mount: &NfsMount,
        files: &[FilePlan],
        slots: SlotMap,
        depth: u32,
        clock: Clock,
        stop: Arc<AtomicBool>,
        opening: Opening<'_>,
    ) -> Result<Self, EngineError> {
        let paths = if let Some(tree) = opening.tree {
            Paths::Tree(Arc::clone(tree))
        } else {
            let names = files.iter().map(|file| normal(&file.path)).collect::<Result<Vec<_>, _>>()?;
            Paths::listed(names.iter().map(String::as_str))?
        };
        let watched = Arc::clone(&stop);
        let export = Export::<P>::mount(mount, &watched)?;
        let root = export.calls.root().clone();
        let load = NfsEngine::with_handles(export, mount, Vec::new(), slots.clone(), depth, clock, stop)?;
        let address = Address { file: 0, offset: 0, length: 0 };
        let request = Request { slot: 0, kind: OperationKind::Getattr, address };
        Ok(Self {
            load,
            root,
            paths,
            directories: HashMap::new(),
            opened: HashMap::new(),
            free: Vec::new(),
            keep_open: opening.keep_open,
            slots,
            operations: vec![Operation { request, step: Step::Data, is_fresh: false }; depth as usize],
            moved: Vec::new(),
            finished: Vec::new(),
        })
    }

    // -- the steps of an operation -----------------------------------------------------------------------------------

    /// Makes the first call of an operation, or the next one towards it: it starts over with each directory found.
    fn start(&mut self, slot: u32) -> Result<(), EngineError> {
        let Operation { request, .. } = self.operations[slot as usize];
        let file = request.address.file;
        match request.kind {
            OperationKind::Close => self.close(slot, file),
            kind if kind.moves_data() || kind.is_flush() => self.move_data(request),
            kind => {
                let Some((directory, name)) = self.place(slot, file, false) else { return Ok(()) };
                self.operate(slot, kind, directory, name);
                Ok(())
            }
        }
    }

    /// Makes the first call on a name in a directory.
    fn operate(&mut self, slot: u32, kind: OperationKind, directory: P::Handle, name: Vec<u8>) {
        let file = self.file(slot);
        match kind {
            OperationKind::Create | OperationKind::Open => {
                self.opened.entry(file).or_insert(Opened { file: None, users: 0 }).users += 1;
                let creates = kind == OperationKind::Create;
                self.call(slot, if creates { Procedure::Create } else { Procedure::Open }, directory, name);
            }
            OperationKind::Getattr => self.on_object(slot, Procedure::Getattr, directory, name),
            OperationKind::Setattr => self.on_object(slot, Procedure::Setattr, directory, name),
            OperationKind::Access => self.on_object(slot, Procedure::Access, directory, name),
            // RENAME would replace a file of the new name.
            OperationKind::Rename => self.look_target_up(slot),
            OperationKind::Delete => self.delete(slot, directory, name),
            OperationKind::Mkdir => self.call(slot, Procedure::Mkdir, directory, name),
            _ => {
                self.directories.remove(&*self.paths.text(file));
                self.call(slot, Procedure::Rmdir, directory, name);
            }
        }
    }

    /// Makes a call on a file: by its handle if it is open, else by its name.
    fn on_object(&mut self, slot: u32, procedure: Procedure, directory: P::Handle, name: Vec<u8>) {
        if let Some(Opened { file: Some((_, handle)), .. }) = self.opened.get(&self.file(slot)) {
            let handle = handle.clone();
            return self.call(slot, procedure, handle, Vec::new());
        }
        // LOOKUP replies with the attributes.
        if P::FINDS_BY_NAME || procedure == Procedure::Getattr {
            return self.call(slot, procedure, directory, name);
        }
        self.call_as(slot, Step::Object, Procedure::LookUp, directory, name);
    }

    fn look_target_up(&mut self, slot: u32) {
        let target = u32::try_from(self.operations[slot as usize].request.address.offset).ok();
        let Some(target) = target.filter(|&target| (target as usize) < self.paths.count()) else {
            return self.complete(slot, -i64::from(libc::EINVAL));
        };
        let Some((directory, name)) = self.place(slot, target, true) else { return };
        self.call_as(slot, Step::Target, Procedure::LookUp, directory, name);
    }

    fn rename(&mut self, slot: u32) {
        let target = self.operations[slot as usize].request.address.offset as u32;
        let Some((directory, name)) = self.place(slot, self.file(slot), false) else { return };
        let Some((new_directory, new_name)) = self.place(slot, target, true) else { return };
        self.operations[slot as usize].step = Step::Last(Procedure::Rename);
        let procedure = Procedure::Rename;
        let call = NamedCall { procedure, directory, name, new_directory, new_name, file: 0 };
        let call = self.load.flight.open_named(slot, |place| *place = call);
        self.load.dispatch(call);
    }

    /// Removes a file; an open file is closed first.
    fn delete(&mut self, slot: u32, directory: P::Handle, name: Vec<u8>) {
        if let Some(Opened { file: Some((number, _)), .. }) = self.opened.remove(&self.file(slot)) {
            self.load.flight.take_unstable(number);
            if P::CLOSES {
                return self.close_on_server(slot, number);
            }
            self.release(number);
        }
        self.call(slot, Procedure::Remove, directory, name);
    }

    fn close(&mut self, slot: u32, file: u32) -> Result<(), EngineError> {
        let Entry::Occupied(mut opened) = self.opened.entry(file) else {
            self.complete(slot, -i64::from(libc::EBADF));
            return Ok(());
        };
        opened.get_mut().users -= 1;
        if opened.get().users > 0 {
            self.complete(slot, 0);
            return Ok(());
        }
        let Some((number, _)) = opened.remove().file else {
            self.complete(slot, -i64::from(libc::EBADF));
            return Ok(());
        };
        if self.load.flight.take_unstable(number) {
            let address = Address { file: number, offset: 0, length: 0 };
            self.operations[slot as usize].step = Step::Commit;
            // The number is needed once more, to close.
            self.operations[slot as usize].request.address.offset = u64::from(number);
            return self.load.submit(Request { slot, kind: OperationKind::Fsync, address });
        }
        self.closed_by(slot, number);
        Ok(())
    }

    /// Closes a file whose data are on stable storage.
    fn closed_by(&mut self, slot: u32, number: u32) {
        if P::CLOSES {
            return self.close_on_server(slot, number);
        }
        self.release(number);
        self.complete(slot, 0);
    }

    fn close_on_server(&mut self, slot: u32, number: u32) {
        let operation = &mut self.operations[slot as usize];
        operation.step = Step::Close;
        operation.request.address.offset = u64::from(number);
        let call = self.load.flight.open_named(slot, |call| {
            call.procedure = Procedure::Close;
            call.file = number;
        });
        self.load.dispatch(call);
    }

    /// Gives the number of a closed file back.
    fn release(&mut self, number: u32) {
        self.load.flight.protocol.close_file(number);
        self.free.push(number);
    }

    fn move_data(&mut self, request: Request) -> Result<(), EngineError> {
        let Some(Opened { file: Some((number, _)), .. }) = self.opened.get(&request.address.file) else {
            self.complete(request.slot, -i64::from(libc::EBADF));
            return Ok(());
        };
        self.operations[request.slot as usize].step = Step::Data;
        self.load.submit(Request { address: Address { file: *number, ..request.address }, ..request })
    }

    // -- calls -------------------------------------------------------------------------------------------------------

    /// Makes the last call of an operation.
    fn call(&mut self, slot: u32, procedure: Procedure, directory: P::Handle, name: Vec<u8>) {
        self.call_as(slot, Step::Last(procedure), procedure, directory, name);
    }

    fn call_as(&mut self, slot: u32, step: Step, procedure: Procedure, directory: P::Handle, name: Vec<u8>) {
        self.operations[slot as usize].step = step;
        let call = self.load.flight.open_named(slot, |call| {
            (call.procedure, call.directory, call.name) = (procedure, directory, name);
        });
        self.load.dispatch(call);
    }

    /// Handle of the directory of a path, and the last name of the path; `None` if a call looks a directory up first.
    fn place(&mut self, slot: u32, file: u32, of_target: bool) -> Option<(P::Handle, Vec<u8>)> {
        let path = self.paths.text(file);
        let Some((parent, name)) = path.rsplit_once('/') else {
            return Some((self.root.clone(), path.as_bytes().to_vec()));
        };
        if let Some(directory) = self.directories.get(parent) {
            return Some((directory.clone(), name.as_bytes().to_vec()));
        }
        // The first that is not known.
        let (mut directory, mut start) = (&self.root, 0);
        let bytes = loop {
            let end = parent[start..].find('/').map_or(parent.len(), |at| start + at);
            match self.directories.get(&parent[..end]) {
                Some(known) => (directory, start) = (known, end + 1),
                None => break end,
            }
        };
        let (directory, name) = (directory.clone(), parent.as_bytes()[start..bytes].to_vec());
        self.call_as(slot, Step::Directory { bytes, of_target }, Procedure::LookUp, directory, name);
        None
    }

    // -- replies -----------------------------------------------------------------------------------------------------

    /// Goes on with the operations whose calls have completed.
    fn advance(&mut self) -> Result<(), EngineError> {
        let mut moved = std::mem::take(&mut self.moved);
        for Completion { slot, result } in moved.drain(..) {
            let Operation { request, step, .. } = self.operations[slot as usize];
            match step {
                Step::Commit if result >= 0 => self.closed_by(slot, request.address.offset as u32),
                _ => self.complete(slot, result),
            }
        }
        self.moved = moved;
        while let Some(answered) = self.load.flight.answered.pop_front() {
            self.answered(answered)?;
        }
        Ok(())
    }

    fn answered(&mut self, answered: Answered<P>) -> Result<(), EngineError> {
        let Answered { slot, result, was_repeated } = answered;
        let Operation { request, step, is_fresh } = self.operations[slot as usize];
        let result = match (step, result) {
            (Step::Target, Err(NOENT)) => {
                self.rename(slot);
                return Ok(());
            }
            (Step::Target, Ok(_)) => Err(EXIST),
            (Step::Last(Procedure::Open), Err(ACCES | PERM | ROFS)) if P::CLOSES => {
                if let Some((directory, name)) = self.place(slot, request.address.file, false) {
                    self.call(slot, Procedure::OpenToRead, directory, name);
                }
                return Ok(());
            }
            (Step::Last(procedure), Err(status)) if was_repeated && status == executed(procedure) => {
                Ok(Found::<P>::default())
            }
            // A state that the server has forgotten is closed, too.
            (Step::Close, Err(status)) if P::judge(status) == Judgement::Recover => Ok(Found::<P>::default()),
            (_, result) => result,
        };
        match result {
            Ok(found) => self.succeeded(slot, step, found),
            Err(STALE | BADHANDLE) if !is_fresh && step != Step::Close => self.start_afresh(slot),
            Err(status) => {
                self.failed(slot, status);
                Ok(())
            }
        }
    }

    fn succeeded(&mut self, slot: u32, step: Step, found: Found<P>) -> Result<(), EngineError> {
        let request = self.operations[slot as usize].request;
        match (step, found.handle) {
            (Step::Directory { bytes, of_target }, Some(handle)) => {
                let file = if of_target { request.address.offset as u32 } else { request.address.file };
                let path = self.paths.text(file)[..bytes].to_owned();
                self.directories.insert(path, handle);
                return self.start(slot);
            }
            (Step::Object, Some(handle)) => {
                let procedure = match request.kind {
                    OperationKind::Setattr => Procedure::Setattr,
                    OperationKind::Getattr => Procedure::Getattr,
                    _ => Procedure::Access,
                };
                self.call(slot, procedure, handle, Vec::new());
            }
            (Step::Created | Step::Last(Procedure::Create | Procedure::Open | Procedure::OpenToRead), Some(handle)) => {
                return self.opened(slot, handle, found.state);
            }
            (Step::Last(Procedure::Create), None) => {
                if let Some((directory, name)) = self.place(slot, request.address.file, false) {
                    self.call_as(slot, Step::Created, Procedure::LookUp, directory, name);
                }
            }
            (Step::Close, _) => return self.closed(slot),
            (Step::Last(Procedure::Getattr), Some(handle)) if !found.has_attributes => {
                self.call(slot, Procedure::Getattr, handle, Vec::new());
            }
            (Step::Last(Procedure::Mkdir), Some(handle)) => {
                self.directories.insert(self.paths.text(request.address.file).into_owned(), handle);
                self.complete(slot, 0);
            }
            (Step::Last(Procedure::Rename), _) => {
                self.directories.remove(&*self.paths.text(request.address.file));
                self.complete(slot, 0);
            }
            (Step::Last(Procedure::Access), _) if !found.may_read => self.complete(slot, -i64::from(libc::EACCES)),
            (Step::Directory { .. } | Step::Object | Step::Created, None) => {
                self.complete(slot, -i64::from(libc::EIO));
            }
            _ => self.complete(slot, 0),
        }
        Ok(())
    }

    /// A file was opened on the server.
    fn opened(&mut self, slot: u32, handle: P::Handle, state: P::State) -> Result<(), EngineError> {
        let file = self.file(slot);
        let Some(opened) = self.opened.get_mut(&file) else {
            self.complete(slot, -i64::from(libc::EBADF));
            return Ok(());
        };
        // If the file was open, this is the same open: they have the same owner.
        if opened.file.is_none() {
            let number = self.free.pop().unwrap_or_else(|| self.load.flight.protocol.files() as u32);
            self.load.flight.set_file(number, &self.paths.text(file), &handle, state);
            opened.file = Some((number, handle));
        }
        if self.keep_open {
            self.complete(slot, 0);
            return Ok(());
        }
        self.close(slot, file)
    }

    /// A file was closed on the server.
    fn closed(&mut self, slot: u32) -> Result<(), EngineError> {
        let request = self.operations[slot as usize].request;
        self.release(request.address.offset as u32);
        if request.kind == OperationKind::Delete {
            return self.start(slot);
        }
        self.complete(slot, 0);
        Ok(())
    }

    /// Looks directories up again: another client has replaced one.
    fn start_afresh(&mut self, slot: u32) -> Result<(), EngineError> {
        let Operation { request, .. } = self.operations[slot as usize];
        self.forget_directories(request.address.file);
        if request.kind == OperationKind::Rename {
            self.forget_directories(request.address.offset as u32);
        }
        self.give_up_opening(slot);
        self.operations[slot as usize].is_fresh = true;
        self.start(slot)
    }

    fn forget_directories(&mut self, file: u32) {
        let path = self.paths.text(file);
        let ends = path.match_indices('/').map(|(at, _)| at);
        ends.for_each(|end| drop(self.directories.remove(&path[..end])));
    }

    fn failed(&mut self, slot: u32, status: u32) {
        self.give_up_opening(slot);
        self.complete(slot, -i64::from(errno(status)));
    }

    /// An operation that was to open a file does not use it.
    fn give_up_opening(&mut self, slot: u32) {
        let Operation { request, step, .. } = self.operations[slot as usize];
        let opens =
            matches!(step, Step::Created | Step::Last(Procedure::Create | Procedure::Open | Procedure::OpenToRead));
        if let Entry::Occupied(mut opened) = self.opened.entry(request.address.file)
            && opens
        {
            opened.get_mut().users -= 1;
            if opened.get().users == 0 && opened.get().file.is_none() {
                opened.remove();
            }
        }
    }

    fn complete(&mut self, slot: u32, result: i64) {
        self.finished.push(Completion { slot, result });
    }

    fn file(&self, slot: u32) -> u32 {
        self.operations[slot as usize].request.address.file
    }
}

impl<P: Mountable> Engine for NfsMetadataEngine<P> {
    const WALKS: bool = true;

    fn submit(&mut self, request: Request) -> Result<(), EngineError> {
        check(&request, self.paths.count(), &self.slots)?;
        let Some(operation) = self.operations.get_mut(request.slot as usize) else {
            return Err(EngineError::Plan(format!("slot {} is beyond the depth", request.slot)));
        };
        *operation = Operation { request, step: Step::Data, is_fresh: false };
        self.start(request.slot)
    }

    fn send(&mut self) -> Result<(), EngineError> {
        self.load.flush()
    }

    fn reap(&mut self, min: usize, deadline: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        let wanted = done.len() + min;
        self.load.flush()?;
        done.append(&mut self.finished);
        loop {
            let now = self.load.now();
            self.load.round(now, if done.len() >= wanted { now } else { deadline }, &mut self.moved)?;
            self.advance()?;
            self.load.flush()?;
            done.append(&mut self.finished);
            if done.len() >= wanted || now >= deadline || self.load.stopped() {
                return Ok(());
            }
        }
    }

    fn finish(&mut self) -> Result<(), EngineError> {
        self.load.finish()
    }

    fn describe(&self) -> String {
        format!("metadata operations over {}", self.load.describe())
    }

    fn labels(&self) -> Vec<String> {
        self.load.labels()
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        self.load.counters()
    }

    fn connections(&self) -> Vec<ConnectionOutcome> {
        self.load.connections()
    }

    fn reconnects(&self) -> u64 {
        self.load.reconnects()
    }
}

/// The status that says no more of a call than that it was executed before.
fn executed(procedure: Procedure) -> u32 {
    match procedure {
        // Servers keep to UNCHECKED, or not.
        Procedure::Create | Procedure::Mkdir => EXIST,
        Procedure::Remove | Procedure::Rmdir | Procedure::Rename => NOENT,
        _ => 0,
    }
}

/// A path as its names, one `/` between them.
fn normal(path: &str) -> Result<String, EngineError> {
    let (mut names, last) = directory_parts(path)?;
    names.push(last);
    Ok(names.join("/"))
}
