//! Metadata operations on an export by any version of NFS, one call at a time on one connection. A connection that breaks is
//! established again, and its call sent again.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use iocurve_meter::{Clock, Nanos};

use super::calls::{Answer, Calls, Entry, Mountable, Object, granted};
use super::export::directory_parts;
use super::status::{EXIST, NOENT, errno, refused};
use crate::engines::buffers::SlotMap;
use crate::engines::local::Finished;
use crate::engines::metadata::check;
use crate::engines::request::{Completion, Engine, Request};
use crate::error::EngineError;
use crate::plan::{Durability, FilePlan, NfsMount, OperationKind};
use crate::tree::{Paths, TreeState};

/// Most bytes of one READ or WRITE, far below the longest reply that is accepted.
const CALL_BYTES_MAX: u32 = 512 << 10;

/// An open file of a version.
type OpenOf<'a, P> = <<P as Mountable>::Calls<'a> as Calls<'a, P>>::Open;

/// Performs each operation in `submit`. Handles of directories are looked up once, handles of files by operations.
#[expect(private_bounds, reason = "the versions are this module's")]
pub(crate) struct NfsMetadataEngine<'a, P: Mountable> {
    calls: P::Calls<'a>,
    stop: &'a AtomicBool,
    /// Names of each path, with one `/` between them.
    paths: Paths,
    directories: HashMap<String, P::Handle>,
    opened: HashMap<u32, OpenOf<'a, P>>,
    /// Open files with unstable data.
    unstable: BTreeSet<u32>,
    /// Write verifier of the server; another one means that it restarted.
    verifier: Option<[u8; 8]>,
    verifier_changed: bool,
    durability: Durability,
    keep_open: bool,
    slots: SlotMap,
    finished: Finished,
}

#[expect(private_bounds, reason = "the versions are this module's")]
impl<'a, P: Mountable> NfsMetadataEngine<'a, P> {
    /// Mounts the export. Files are looked up by the operations.
    pub(crate) fn connect(
        mount: &NfsMount,
        files: &[FilePlan],
        slots: SlotMap,
        clock: Clock,
        stop: &'a AtomicBool,
        keep_open: bool,
        tree: Option<&Arc<TreeState>>,
    ) -> Result<Self, EngineError> {
        let calls = P::Calls::mount(mount, stop)?;
        let paths = if let Some(tree) = tree {
            Paths::Tree(Arc::clone(tree))
        } else {
            let names = files.iter().map(|file| normal(&file.path)).collect::<Result<Vec<_>, _>>()?;
            Paths::listed(names.iter().map(String::as_str))?
        };
        Ok(Self {
            directories: HashMap::from([(String::new(), calls.root().clone())]),
            calls,
            stop,
            paths,
            opened: HashMap::new(),
            unstable: BTreeSet::new(),
            verifier: None,
            verifier_changed: false,
            durability: mount.durability,
            keep_open,
            finished: Finished::new(1, clock),
            slots,
        })
    }

    fn carry_out(&mut self, request: &Request) -> Answer<i64> {
        let file = request.address.file;
        match request.kind {
            OperationKind::Create => self.open_by(file, P::Calls::create_open),
            OperationKind::Open => self.open_by(file, P::Calls::open_file),
            OperationKind::Close => self.close(file),
            OperationKind::Getattr => done(self.on_object(file, P::Calls::get_attributes)),
            OperationKind::Setattr => done(self.on_object(file, P::Calls::set_times)),
            OperationKind::Access => {
                let may_read = granted!(self.on_object(file, P::Calls::may_read));
                Ok(Ok(if may_read { 0 } else { -i64::from(libc::EACCES) }))
            }
            OperationKind::Rename => self.rename(file, request.address.offset),
            OperationKind::Delete => self.delete(file),
            OperationKind::Mkdir => self.make_directory(file),
            OperationKind::Rmdir => {
                self.directories.remove(&*self.paths.text(file));
                let removed = self.on_entry(file, P::Calls::remove_directory)?;
                done(Ok(self.unless_repeated(removed, NOENT, ())))
            }
            OperationKind::Read => self.read(request),
            OperationKind::Write => self.write(request),
            _ => self.commit(file),
        }
    }

    /// Opens a file in one of two ways.
    fn open_by(
        &mut self,
        file: u32,
        call: impl FnOnce(&mut P::Calls<'a>, &Entry<'_, P::Handle>) -> Answer<OpenOf<'a, P>>,
    ) -> Answer<i64> {
        let open = granted!(self.on_entry(file, call));
        if !self.keep_open {
            return done(self.calls.close_file(open));
        }
        // If the file was open, this is the same open: they have the same owner.
        self.opened.insert(file, open);
        Ok(Ok(0))
    }

    fn close(&mut self, file: u32) -> Answer<i64> {
        if self.unstable.contains(&file) {
            granted!(self.commit(file));
        }
        match self.opened.remove(&file) {
            Some(open) => done(self.calls.close_file(open)),
            None => Ok(Ok(-i64::from(libc::EBADF))),
        }
    }

    fn rename(&mut self, file: u32, target: u64) -> Answer<i64> {
        let Some(target) = u32::try_from(target).ok().filter(|&target| (target as usize) < self.paths.count()) else {
            return Ok(Ok(-i64::from(libc::EINVAL)));
        };
        let from = granted!(self.directory(file));
        let to = granted!(self.directory(target));
        let (path, new_path) = (self.paths.text(file), self.paths.text(target));
        let from = Entry { directory: &from, name: last_name(&path) };
        let to = Entry { directory: &to, name: last_name(&new_path) };
        // RENAME would replace a file of that name.
        match self.calls.look_up(&to)? {
            Err(NOENT) => {}
            Err(status) => return Ok(Err(status)),
            Ok(_) => return Ok(Err(EXIST)),
        }
        let renamed = self.calls.rename(&from, &to)?;
        granted!(Ok::<_, EngineError>(self.unless_repeated(renamed, NOENT, ())));
        self.directories.remove(&*self.paths.text(file));
        Ok(Ok(0))
    }

    fn delete(&mut self, file: u32) -> Answer<i64> {
        self.unstable.remove(&file);
        if let Some(open) = self.opened.remove(&file) {
            granted!(self.calls.close_file(open));
        }
        let removed = self.on_entry(file, P::Calls::remove_file)?;
        done(Ok(self.unless_repeated(removed, NOENT, ())))
    }

    fn make_directory(&mut self, file: u32) -> Answer<i64> {
        let made = self.on_entry(file, P::Calls::make_directory)?;
        if let Some(handle) = granted!(Ok::<_, EngineError>(self.unless_repeated(made, EXIST, None))) {
            self.directories.insert(self.paths.text(file).into_owned(), handle);
        }
        Ok(Ok(0))
    }

    /// The answer to the last call; `done` instead of a status that says no more than that the call was executed before, if it was
    /// sent more than once: the reply was lost, and the server has not kept it.
    fn unless_repeated<T>(&self, answer: Result<T, u32>, executed: u32, done: T) -> Result<T, u32> {
        match answer {
            Err(status) if status == executed && self.calls.was_repeated() => Ok(done),
            answer => answer,
        }
    }

    fn read(&mut self, request: &Request) -> Answer<i64> {
        let limit = self.calls.limits().read.min(CALL_BYTES_MAX);
        let Some(open) = self.opened.get_mut(&request.address.file) else { return Ok(Ok(-i64::from(libc::EBADF))) };
        let (mut at, length) = (0, request.address.length);
        while at < length {
            let (offset, count) = (request.address.offset + u64::from(at), (length - at).min(limit));
            // SAFETY: the slot's buffer has room for the whole request, which was checked, and is this operation's.
            let place = unsafe {
                std::slice::from_raw_parts_mut(self.slots.slot(request.slot).add(at as usize), count as usize)
            };
            let (bytes, is_end) = granted!(self.calls.read(open, offset, place));
            at += bytes;
            if is_end || bytes == 0 {
                break;
            }
        }
        Ok(Ok(i64::from(at)))
    }

    fn write(&mut self, request: &Request) -> Answer<i64> {
        let file = request.address.file;
        let limit = self.calls.limits().write.min(CALL_BYTES_MAX);
        let (mut at, length) = (0, request.address.length);
        while at < length {
            let Some(open) = self.opened.get_mut(&file) else { return Ok(Ok(-i64::from(libc::EBADF))) };
            let (offset, count) = (request.address.offset + u64::from(at), (length - at).min(limit));
            // SAFETY: the slot's buffer holds the whole request, which was checked, and does not change before the
            // completion.
            let data =
                unsafe { std::slice::from_raw_parts(self.slots.slot(request.slot).add(at as usize), count as usize) };
            let written = granted!(self.calls.write(open, offset, data, self.durability));
            self.seen_verifier(written.verifier);
            if written.is_unstable {
                self.unstable.insert(file);
            }
            if written.bytes == 0 {
                break;
            }
            at += written.bytes.min(count);
        }
        Ok(Ok(i64::from(at)))
    }

    fn commit(&mut self, file: u32) -> Answer<i64> {
        let Some(open) = self.opened.get(&file) else { return Ok(Ok(-i64::from(libc::EBADF))) };
        let verifier = granted!(self.calls.commit(open));
        self.unstable.remove(&file);
        self.seen_verifier(verifier);
        Ok(Ok(0))
    }

    fn seen_verifier(&mut self, verifier: [u8; 8]) {
        self.verifier_changed |= self.verifier.is_some_and(|known| known != verifier);
        self.verifier = Some(verifier);
    }

    /// Makes a call on a file: by its open, or by its name.
    fn on_object<T>(
        &mut self,
        file: u32,
        call: impl FnOnce(&mut P::Calls<'a>, &Object<'_, P::Handle, OpenOf<'a, P>>) -> Answer<T>,
    ) -> Answer<T> {
        if let Some(open) = self.opened.get(&file) {
            return call(&mut self.calls, &Object::Open(open));
        }
        self.on_entry(file, |calls, Entry { directory, name }| call(calls, &Object::Entry(Entry { directory, name })))
    }

    fn on_entry<T>(
        &mut self,
        file: u32,
        call: impl FnOnce(&mut P::Calls<'a>, &Entry<'_, P::Handle>) -> Answer<T>,
    ) -> Answer<T> {
        let directory = granted!(self.directory(file));
        call(&mut self.calls, &Entry { directory: &directory, name: last_name(&self.paths.text(file)) })
    }

    /// Handle of the directory that a path is in; directories that are not known yet are looked up from the root on.
    fn directory(&mut self, file: u32) -> Answer<P::Handle> {
        let path = self.paths.text(file);
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        if let Some(handle) = self.directories.get(parent) {
            return Ok(Ok(handle.clone()));
        }
        let (mut directory, mut known) = (self.calls.root().clone(), String::new());
        for name in parent.split('/') {
            known = if known.is_empty() { name.to_owned() } else { format!("{known}/{name}") };
            if let Some(handle) = self.directories.get(&known) {
                directory = handle.clone();
                continue;
            }
            directory = granted!(self.calls.look_up(&Entry { directory: &directory, name }));
            self.directories.insert(known.clone(), directory.clone());
        }
        Ok(Ok(directory))
    }
}

impl<P: Mountable> Engine for NfsMetadataEngine<'_, P> {
    const SYNCHRONOUS: bool = true;
    const SEND_BATCH: usize = 1;

    fn submit(&mut self, request: Request) -> Result<(), EngineError> {
        check(&request, self.paths.count(), &self.slots)?;
        let result = match self.carry_out(&request) {
            Ok(Ok(result)) => result,
            Ok(Err(status)) => -i64::from(errno(status)),
            // A stopped call stays in flight: the loop gives it up, and the run counts as interrupted.
            Err(_) if self.stop.load(Ordering::Relaxed) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.finished.push(Completion { slot: request.slot, result });
        Ok(())
    }

    fn reap(&mut self, min: usize, deadline: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        self.finished.reap(min, deadline, done);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), EngineError> {
        while let Some(file) = self.unstable.pop_first() {
            if let Err(status) = self.commit(file)? {
                return Err(refused::<P>("commit", &self.paths.text(file), status));
            }
        }
        Ok(())
    }

    fn describe(&self) -> String {
        format!("metadata operations over {}, one call at a time, to {}", P::NAME, self.calls.rpc().server)
    }

    fn labels(&self) -> Vec<String> {
        self.verifier_changed.then(|| "write_verifier_changed".to_owned()).into_iter().collect()
    }
}

/// Closes the files that are still open, so that the server keeps nothing for them.
impl<P: Mountable> Drop for NfsMetadataEngine<'_, P> {
    fn drop(&mut self) {
        for (_, open) in self.opened.drain() {
            if self.calls.close_file(open).is_err() {
                return;
            }
        }
    }
}

/// Result of an operation that moves no data.
fn done(answer: Answer<()>) -> Answer<i64> {
    answer.map(|answer| answer.map(|()| 0))
}

/// The last name of a path.
fn last_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// A path as its names, one `/` between them.
fn normal(path: &str) -> Result<String, EngineError> {
    let (mut names, last) = directory_parts(path)?;
    names.push(last);
    Ok(names.join("/"))
}
