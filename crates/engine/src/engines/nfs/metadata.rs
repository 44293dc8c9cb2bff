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
use super::names::{Cursor, ListedPage, NamedCall, Procedure, WHOLE_BYTES_MAX};
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
    /// A copy works on its target: it opens, reads or writes, and closes either in turn.
    on_target: bool,
    /// Bytes of a whole file that were moved, or entries that were listed.
    moved: u64,
    /// Bytes that a copy has read and not written yet.
    held: u32,
    /// A whole file is being closed, after this error or 0.
    closes: Option<i64>,
    /// The position of the next page of entries.
    cursor: Cursor,
}

impl Operation {
    fn new(request: Request) -> Self {
        Self {
            request,
            step: Step::Data,
            is_fresh: false,
            on_target: false,
            moved: 0,
            held: 0,
            closes: None,
            cursor: Cursor::default(),
        }
    }
}

/// The call of an operation that is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Looks up a directory of the path: that many bytes of it.
    Directory { bytes: usize, of_target: bool },
    /// Looks up the file itself, for a call by its handle.
    Object,
    /// Finds or creates the file that one call then reads or writes.
    Whole,
    /// Looks up the file that was created.
    Created,
    /// Looks up the new name, which must be free.
    Target,
    /// Reads, writes or flushes.
    Data,
    /// Commits the open file of this number, which is being closed.
    Commit { number: u32 },
    /// Closes the open file of this number, and is then done, or removes it.
    Close { number: u32 },
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
            operations: vec![Operation::new(request); depth as usize],
            moved: Vec::new(),
            finished: Vec::new(),
        })
    }

    // -- the steps of an operation -----------------------------------------------------------------------------------

    /// Makes the first call of an operation, or the next one towards it: it starts over with each directory found.
    fn start(&mut self, slot: u32) -> Result<(), EngineError> {
        let Operation { request, .. } = self.operations[slot as usize];
        let file = self.file(slot);
        match request.kind {
            OperationKind::Close => self.close(slot, file),
            OperationKind::Readdir | OperationKind::Readdirplus => {
                self.list(slot);
                Ok(())
            }
            kind if kind.moves_data() || kind.is_flush() => self.move_data(request),
            OperationKind::Copy if self.is_on_target(slot) => {
                let Some((directory, name)) = self.second_place(slot) else { return Ok(()) };
                self.operate_whole(slot, directory, name);
                Ok(())
            }
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
            kind if kind.moves_whole_files() => self.operate_whole(slot, directory, name),
            OperationKind::Lookup => self.call(slot, Procedure::LookUp, directory, name),
            OperationKind::Readlink => self.on_object(slot, Procedure::Readlink, directory, name),
            OperationKind::Link if P::FINDS_BY_NAME => self.link(slot, directory, name),
            OperationKind::Link => self.on_object(slot, Procedure::Link, directory, name),
            OperationKind::Symlink => self.symlink(slot, &name),
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
            return self.on_handle(slot, procedure, handle);
        }
        // LOOKUP replies with the attributes.
        if P::FINDS_BY_NAME || procedure == Procedure::Getattr {
            return self.call(slot, procedure, directory, name);
        }
        self.call_as(slot, Step::Object, Procedure::LookUp, directory, name);
    }

    fn on_handle(&mut self, slot: u32, procedure: Procedure, handle: P::Handle) {
        match procedure {
            Procedure::Link => self.link(slot, handle, Vec::new()),
            procedure => self.call(slot, procedure, handle, Vec::new()),
        }
    }

    /// The place of the second name of an operation; `None` if a call looks a directory up first, or if there is no such name.
    fn second_place(&mut self, slot: u32) -> Option<(P::Handle, Vec<u8>)> {
        let target = u32::try_from(self.operations[slot as usize].request.address.offset).ok();
        let Some(target) = target.filter(|&target| self.paths.has(target)) else {
            self.complete(slot, -i64::from(libc::EINVAL));
            return None;
        };
        self.place(slot, target, true)
    }

    fn look_target_up(&mut self, slot: u32) {
        let Some((directory, name)) = self.second_place(slot) else { return };
        self.call_as(slot, Step::Target, Procedure::LookUp, directory, name);
    }

    /// Links an object, which `name` leads to in a directory, or which `directory` is itself.
    fn link(&mut self, slot: u32, directory: P::Handle, name: Vec<u8>) {
        let Some((new_directory, new_name)) = self.second_place(slot) else { return };
        self.call_to(slot, Procedure::Link, (directory, name), (new_directory, new_name));
    }

    /// Creates a symbolic link to a name of the same directory.
    fn symlink(&mut self, slot: u32, to: &[u8]) {
        let Some((directory, name)) = self.second_place(slot) else { return };
        self.call_to(slot, Procedure::Symlink, (directory, name), (P::Handle::default(), to.to_vec()));
    }

    /// Lists a directory from where the last page has ended.
    fn list(&mut self, slot: u32) {
        let Operation { request, cursor, .. } = self.operations[slot as usize];
        let path = self.paths.text(request.address.file).into_owned();
        let Some(directory) = self.walk_to(slot, &path, false) else { return };
        let procedure =
            if request.kind == OperationKind::Readdir { Procedure::Readdir } else { Procedure::Readdirplus };
        self.operations[slot as usize].step = Step::Last(procedure);
        let call = self.load.flight.calls.open_named(slot, |call| {
            (call.procedure, call.directory, call.cursor) = (procedure, directory, cursor);
            call.name.clear();
        });
        self.load.dispatch(call);
    }

    /// Takes up a page of entries, and asks for the next one.
    fn listed(&mut self, slot: u32, page: ListedPage) {
        let operation = &mut self.operations[slot as usize];
        operation.moved += u64::from(page.entries);
        if page.is_end {
            let entries = operation.moved;
            return self.complete(slot, entries as i64);
        }
        // A page without an entry would be requested without end.
        match page.last.filter(|&last| last != operation.cursor) {
            Some(last) => {
                operation.cursor = last;
                self.list(slot);
            }
            None => self.complete(slot, -i64::from(libc::EIO)),
        }
    }

    // -- whole files -------------------------------------------------------------------------------------------------

    /// Returns `true` if an operation moves a whole file in one call.
    fn is_small(&self, slot: u32) -> bool {
        let length = self.operations[slot as usize].request.address.length;
        let limit = |kind| self.load.flight.call_bytes_max(kind);
        let most = limit(OperationKind::Read).min(limit(OperationKind::Write)).min(WHOLE_BYTES_MAX);
        length as usize <= self.slots.stride() && length <= most
    }

    /// Returns `true` if the file that an operation works on is written.
    fn writes_whole(&self, slot: u32) -> bool {
        let Operation { request, on_target, .. } = self.operations[slot as usize];
        request.kind == OperationKind::WriteFile || on_target
    }

    fn operate_whole(&mut self, slot: u32, directory: P::Handle, name: Vec<u8>) {
        let writes = self.writes_whole(slot);
        if self.is_small(slot) {
            if P::FINDS_BY_NAME {
                return self.move_whole(slot, directory, name);
            }
            let procedure = if writes { Procedure::CreateEmpty } else { Procedure::LookUp };
            return self.call_as(slot, Step::Whole, procedure, directory, name);
        }
        let file = self.file(slot);
        self.opened.entry(file).or_insert(Opened { file: None, users: 0 }).users += 1;
        self.call(slot, if writes { Procedure::CreateEmpty } else { Procedure::OpenToRead }, directory, name);
    }

    /// Reads or writes a whole file by one call.
    fn move_whole(&mut self, slot: u32, directory: P::Handle, name: Vec<u8>) {
        let Operation { request, held, on_target, .. } = self.operations[slot as usize];
        let length = if on_target { held } else { request.address.length };
        let procedure = if self.writes_whole(slot) { Procedure::WriteWhole } else { Procedure::ReadWhole };
        self.operations[slot as usize].step = Step::Last(procedure);
        let call = self.load.flight.calls.open_named(slot, |call| {
            (call.procedure, call.directory, call.name, call.length) = (procedure, directory, name, length);
        });
        self.load.dispatch(call);
    }

    /// A whole file was read or written by one call.
    fn moved_whole(&mut self, slot: u32, found: &Found<P>) -> Result<(), EngineError> {
        let bytes = found.moved.len() as u64;
        if let (Some(status), Some(handle)) = (found.failed, &found.handle) {
            // The call has opened the file; it is closed before the operation fails.
            let number = self.free.pop().unwrap_or_else(|| self.load.flight.protocol.files() as u32);
            self.load.flight.set_file(number, &self.paths.text(self.file(slot)), handle, found.state);
            self.operations[slot as usize].closes = Some(-i64::from(errno(status)));
            self.close_on_server(slot, number);
            return Ok(());
        }
        let operation = &mut self.operations[slot as usize];
        if operation.request.kind == OperationKind::Copy && !operation.on_target {
            (operation.held, operation.on_target) = (bytes as u32, true);
            return self.start(slot);
        }
        self.complete(slot, bytes as i64);
        Ok(())
    }

    /// Moves the next part of a whole file that is open, or closes it.
    fn move_part(&mut self, slot: u32) -> Result<(), EngineError> {
        let Operation { request, moved, held, on_target, .. } = self.operations[slot as usize];
        let stride = self.slots.stride() as u64;
        let is_copy = request.kind == OperationKind::Copy;
        let length = if is_copy && on_target {
            held
        } else if is_copy {
            stride as u32
        } else {
            u64::from(request.address.length).saturating_sub(moved).min(stride) as u32
        };
        let writes = self.writes_whole(slot);
        if length == 0 {
            return self.close_whole(slot, 0);
        }
        let kind = if writes { OperationKind::Write } else { OperationKind::Read };
        let address = Address { file: self.file(slot), offset: moved, length };
        self.move_data(Request { slot, kind, address })
    }

    /// A part of a whole file was moved.
    fn moved_part(&mut self, slot: u32, result: i64) -> Result<(), EngineError> {
        if result < 0 {
            return self.close_whole(slot, result);
        }
        let operation = &mut self.operations[slot as usize];
        let is_copy = operation.request.kind == OperationKind::Copy;
        if is_copy && !operation.on_target {
            (operation.held, operation.on_target) = (result as u32, true);
            // The target is open from the second part on.
            let target = operation.request.address.offset as u32;
            let is_open = self.opened.get(&target).is_some_and(|opened| opened.file.is_some());
            return if is_open { self.move_part(slot) } else { self.start(slot) };
        }
        operation.moved += result as u64;
        if is_copy {
            operation.on_target = false;
        } else if result == 0 {
            return self.close_whole(slot, 0);
        }
        self.move_part(slot)
    }

    /// Closes what an operation has opened; it ends with an error or the bytes moved.
    fn close_whole(&mut self, slot: u32, error: i64) -> Result<(), EngineError> {
        let Operation { request, closes, .. } = self.operations[slot as usize];
        self.operations[slot as usize].closes = Some(closes.filter(|&error| error != 0).unwrap_or(error));
        let Address { file, offset, .. } = request.address;
        let files = [offset as u32, file];
        let candidates = if request.kind == OperationKind::Copy { &files[..] } else { &files[1..] };
        let open = candidates.iter().find(|file| self.opened.contains_key(file));
        if let Some(&file) = open {
            return self.close(slot, file);
        }
        self.complete(slot, 0);
        Ok(())
    }

    fn rename(&mut self, slot: u32) {
        let target = self.operations[slot as usize].request.address.offset as u32;
        let Some((directory, name)) = self.place(slot, self.file(slot), false) else { return };
        let Some((new_directory, new_name)) = self.place(slot, target, true) else { return };
        self.call_to(slot, Procedure::Rename, (directory, name), (new_directory, new_name));
    }

    /// Removes a file; an open file is closed first.
    fn delete(&mut self, slot: u32, directory: P::Handle, name: Vec<u8>) {
        if let Some(Opened { file: Some((number, _)), .. }) = self.opened.remove(&self.file(slot)) {
            self.load.flight.commits.take(number);
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
        if self.load.flight.commits.take(number) {
            let address = Address { file: number, offset: 0, length: 0 };
            self.operations[slot as usize].step = Step::Commit { number };
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
        if self.operations[slot as usize].closes.is_some() {
            return self.close_whole(slot, 0).unwrap_or_else(|_| self.complete(slot, -i64::from(libc::EIO)));
        }
        self.complete(slot, 0);
    }

    fn close_on_server(&mut self, slot: u32, number: u32) {
        self.operations[slot as usize].step = Step::Close { number };
        let call = self.load.flight.calls.open_named(slot, |call| {
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

    /// Makes the last call of an operation on two names.
    fn call_to(&mut self, slot: u32, procedure: Procedure, from: (P::Handle, Vec<u8>), to: (P::Handle, Vec<u8>)) {
        self.operations[slot as usize].step = Step::Last(procedure);
        let ((directory, name), (new_directory, new_name)) = (from, to);
        let call = NamedCall { procedure, directory, name, new_directory, new_name, ..NamedCall::default() };
        let call = self.load.flight.calls.open_named(slot, |place| *place = call);
        self.load.dispatch(call);
    }

    fn call_as(&mut self, slot: u32, step: Step, procedure: Procedure, directory: P::Handle, name: Vec<u8>) {
        self.operations[slot as usize].step = step;
        let call = self.load.flight.calls.open_named(slot, |call| {
            (call.procedure, call.directory, call.name) = (procedure, directory, name);
        });
        self.load.dispatch(call);
    }

    /// Handle of the directory of a path, and the last name of the path; `None` if a call looks a directory up first.
    fn place(&mut self, slot: u32, file: u32, of_target: bool) -> Option<(P::Handle, Vec<u8>)> {
        let mut path = self.paths.text(file).into_owned();
        let Some(end) = path.rfind('/') else {
            return Some((self.root.clone(), path.into_bytes()));
        };
        let directory = self.walk_to(slot, &path[..end], of_target)?;
        path.drain(..=end);
        Some((directory, path.into_bytes()))
    }

    /// Handle of a directory; `None` if a call looks it up first, or a directory above.
    fn walk_to(&mut self, slot: u32, path: &str, of_target: bool) -> Option<P::Handle> {
        if let Some(directory) = self.directories.get(path) {
            return Some(directory.clone());
        }
        // The first that is not known.
        let (mut directory, mut start) = (&self.root, 0);
        let bytes = loop {
            let end = path[start..].find('/').map_or(path.len(), |at| start + at);
            match self.directories.get(&path[..end]) {
                Some(known) => (directory, start) = (known, end + 1),
                None => break end,
            }
        };
        let (directory, name) = (directory.clone(), path.as_bytes()[start..bytes].to_vec());
        self.call_as(slot, Step::Directory { bytes, of_target }, Procedure::LookUp, directory, name);
        None
    }

    // -- replies -----------------------------------------------------------------------------------------------------

    /// Goes on with the operations whose calls have completed.
    fn advance(&mut self) -> Result<(), EngineError> {
        let mut moved = std::mem::take(&mut self.moved);
        for Completion { slot, result } in moved.drain(..) {
            let Operation { request, step, .. } = self.operations[slot as usize];
            let is_whole = request.kind.moves_whole_files();
            match step {
                Step::Commit { number } if result >= 0 => self.closed_by(slot, number),
                // The file is closed, and the operation has failed.
                Step::Commit { number } if is_whole => {
                    self.operations[slot as usize].closes = Some(result);
                    self.closed_by(slot, number);
                }
                _ if is_whole => self.moved_part(slot, result)?,
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
        let Operation { request, step, is_fresh, .. } = self.operations[slot as usize];
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
            (Step::Close { .. }, Err(status)) if P::judge(status) == Judgement::Recover => Ok(Found::<P>::default()),
            (_, result) => result,
        };
        match result {
            Ok(found) => self.succeeded(slot, step, found),
            Err(STALE | BADHANDLE) if !is_fresh && !matches!(step, Step::Close { .. }) => self.start_afresh(slot),
            Err(status) => self.failed(slot, status),
        }
    }

    fn succeeded(&mut self, slot: u32, step: Step, found: Found<P>) -> Result<(), EngineError> {
        let request = self.operations[slot as usize].request;
        if let Step::Last(Procedure::ReadWhole | Procedure::WriteWhole) = step {
            return self.moved_whole(slot, &found);
        }
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
                    OperationKind::Readlink => Procedure::Readlink,
                    OperationKind::Link => Procedure::Link,
                    _ => Procedure::Access,
                };
                self.on_handle(slot, procedure, handle);
            }
            (Step::Whole, Some(handle)) => self.move_whole(slot, handle, Vec::new()),
            (Step::Whole, None) => {
                if let Some((directory, name)) = self.place(slot, self.file(slot), self.is_on_target(slot)) {
                    self.call_as(slot, Step::Whole, Procedure::LookUp, directory, name);
                }
            }
            (
                Step::Created
                | Step::Last(Procedure::Create | Procedure::CreateEmpty | Procedure::Open | Procedure::OpenToRead),
                Some(handle),
            ) => {
                return self.opened(slot, handle, found.state);
            }
            (Step::Last(Procedure::Readdir | Procedure::Readdirplus), _) => match found.listed {
                Some(page) => self.listed(slot, page),
                None => self.complete(slot, -i64::from(libc::EIO)),
            },
            (Step::Last(Procedure::Create | Procedure::CreateEmpty), None) => {
                if let Some((directory, name)) = self.place(slot, self.file(slot), self.is_on_target(slot)) {
                    self.call_as(slot, Step::Created, Procedure::LookUp, directory, name);
                }
            }
            (Step::Close { number }, _) => return self.closed(slot, number),
            (Step::Last(Procedure::Getattr), Some(handle)) if found.size.is_none() => {
                self.call(slot, Procedure::Getattr, handle, Vec::new());
            }
            (Step::Last(Procedure::Getattr), _) if self.paths.is_verified() => {
                self.complete(slot, found.size.unwrap_or(0) as i64);
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
        if self.operations[slot as usize].request.kind.moves_whole_files() {
            return self.move_part(slot);
        }
        if self.keep_open {
            self.complete(slot, 0);
            return Ok(());
        }
        self.close(slot, file)
    }

    /// A file was closed on the server.
    fn closed(&mut self, slot: u32, number: u32) -> Result<(), EngineError> {
        let Operation { request, closes, .. } = self.operations[slot as usize];
        self.release(number);
        if request.kind == OperationKind::Delete {
            return self.start(slot);
        }
        if closes.is_some() {
            return self.close_whole(slot, 0);
        }
        self.complete(slot, 0);
        Ok(())
    }

    /// Looks directories up again: another client has replaced one.
    fn start_afresh(&mut self, slot: u32) -> Result<(), EngineError> {
        let Operation { request, .. } = self.operations[slot as usize];
        self.forget_directories(request.address.file);
        if let OperationKind::Rename | OperationKind::Link | OperationKind::Symlink | OperationKind::Copy = request.kind
        {
            self.forget_directories(request.address.offset as u32);
        }
        self.give_up_opening(slot);
        self.operations[slot as usize].is_fresh = true;
        self.start(slot)
    }

    fn forget_directories(&mut self, file: u32) {
        let path = self.paths.text(file);
        self.directories.remove(&*path);
        let ends = path.match_indices('/').map(|(at, _)| at);
        ends.for_each(|end| drop(self.directories.remove(&path[..end])));
    }

    fn failed(&mut self, slot: u32, status: u32) -> Result<(), EngineError> {
        self.give_up_opening(slot);
        let error = -i64::from(errno(status));
        if self.operations[slot as usize].request.kind.moves_whole_files() {
            return self.close_whole(slot, error);
        }
        self.complete(slot, error);
        Ok(())
    }

    /// An operation that was to open a file does not use it.
    fn give_up_opening(&mut self, slot: u32) {
        let Operation { step, .. } = self.operations[slot as usize];
        let opens = matches!(
            step,
            Step::Created
                | Step::Last(Procedure::Create | Procedure::CreateEmpty | Procedure::Open | Procedure::OpenToRead)
        );
        let file = self.file(slot);
        if let Entry::Occupied(mut opened) = self.opened.entry(file)
            && opens
        {
            opened.get_mut().users -= 1;
            if opened.get().users == 0 && opened.get().file.is_none() {
                opened.remove();
            }
        }
    }

    fn complete(&mut self, slot: u32, result: i64) {
        let Operation { moved, closes, .. } = self.operations[slot as usize];
        let result = match closes {
            Some(0) if result == 0 => moved as i64,
            None | Some(0) => result,
            Some(error) => error,
        };
        self.finished.push(Completion { slot, result });
    }

    fn is_on_target(&self, slot: u32) -> bool {
        self.operations[slot as usize].on_target
    }

    /// The file that an operation works on now.
    fn file(&self, slot: u32) -> u32 {
        let Operation { request, on_target, .. } = self.operations[slot as usize];
        if on_target { request.address.offset as u32 } else { request.address.file }
    }
}

impl<P: Mountable> Engine for NfsMetadataEngine<P> {
    const WALKS: bool = true;

    fn submit(&mut self, request: Request) -> Result<(), EngineError> {
        check(&request, &self.paths, &self.slots)?;
        let Some(operation) = self.operations.get_mut(request.slot as usize) else {
            return Err(EngineError::Plan(format!("slot {} is beyond the depth", request.slot)));
        };
        *operation = Operation::new(request);
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

    fn idle(&mut self) -> Result<(), EngineError> {
        self.load.idle()
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
        Procedure::Create | Procedure::Mkdir | Procedure::Link | Procedure::Symlink => EXIST,
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
