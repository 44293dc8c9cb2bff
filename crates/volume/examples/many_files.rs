//! Fills a volume with files, in this process and without sockets, and prints as JSON the memory that they take and the CPU time of calls
//! among them. `python -m bench.many_files` runs it for several numbers of files.
//!
//! ```text
//! cargo build --release -p iocurve-volume --example many_files
//! target/release/examples/many_files FILES FILE_BYTES FILES_PER_DIRECTORY CALLS [--directory PATH] [OPERATION…]
//! ```
//!
//! `CALLS` calls of each operation go to files all over the volume. Under callgrind, two runs with different `CALLS` differ by the
//! instructions of the additional calls, among them those that make the call.

use std::path::PathBuf;

use iocurve_volume::fuzzing::Fed;
use iocurve_wire::nfs3::{
    CREATE3args, CREATE3res, GETATTR3args, MKDIR3args, NFS_PROGRAM, NFS_V3, READDIRPLUS3args, READDIRPLUS3res,
    RENAME3args, WRITE3args, cookieverf3, createhow3, diropargs3, nfs_fh3, nfsproc3, sattr3, stable_how,
};
use iocurve_wire::rpc::{CallHeader, ReplyHeader, auth_flavor, authsys_parms, opaque_auth};
use iocurve_wire::xdr::{Decode, Encode, Reader, from_bytes, to_bytes};

/// Calls that arrive together.
const CALLS_PER_TURN: usize = 32;
const OPERATIONS: [&str; 7] = ["lookup", "getattr", "list", "create", "write", "rename", "remove"];
const USAGE: &str = "many_files FILES FILE_BYTES FILES_PER_DIRECTORY CALLS [--directory PATH] [OPERATION…]";

struct Volume {
    fed: Fed,
    xid: u32,
    directories: Vec<nfs_fh3>,
    files: usize,
    files_per_directory: usize,
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let directory = arguments.iter().position(|word| word == "--directory").map(|at| {
        arguments.remove(at);
        PathBuf::from(arguments.remove(at))
    });
    let numbers: Vec<usize> = arguments.iter().take(4).map(|word| word.parse().expect(USAGE)).collect();
    let &[files, file_bytes, files_per_directory, calls] = &numbers[..] else { panic!("{USAGE}") };
    let asked: Vec<&str> = arguments.iter().skip(4).map(String::as_str).collect();
    assert!(asked.iter().all(|operation| OPERATIONS.contains(operation)), "{USAGE}");

    let fed = Fed::large(directory.as_deref(), true);
    let mut volume = Volume { fed, xid: 0, directories: Vec::new(), files, files_per_directory };
    let step = (files / calls).max(1);
    let empty_bytes = resident_bytes();
    let sample = volume.fill(file_bytes, step);
    let bytes_per_file = (resident_bytes() - empty_bytes) / files as f64;
    println!(r#"{{"files": {files}, "file_bytes": {file_bytes}, "bytes_per_file": {bytes_per_file:.1}}}"#);

    let is_asked = |operation| asked.is_empty() || asked.contains(&operation);
    let renamed = if is_asked("rename") { "g" } else { "f" };
    for operation in OPERATIONS.into_iter().filter(|operation| is_asked(operation)) {
        let old = |number: usize| number % sample.len() * step;
        // The new files have the numbers behind those that the volume was filled with.
        let next = |number: usize| files + number;
        let mut turns: Vec<Vec<u8>> = Vec::new();
        for number in 0..calls {
            let call = match operation {
                "lookup" => volume.name_call(nfsproc3::NFSPROC3_LOOKUP, old(number), "f"),
                "getattr" => {
                    let object = sample[number * 7 % sample.len()];
                    volume.record(nfsproc3::NFSPROC3_GETATTR, &GETATTR3args { object })
                }
                "create" => volume.create_call(next(number)),
                "write" => volume.write_call(sample[number % sample.len()], file_bytes.max(1)),
                "rename" => volume.rename_call(old(number)),
                "remove" => volume.name_call(nfsproc3::NFSPROC3_REMOVE, old(number), renamed),
                _ => break,
            };
            if number % CALLS_PER_TURN == 0 {
                turns.push(Vec::new());
            }
            turns.last_mut().expect("pushed").extend(call);
        }
        let (began, mut replies) = (cpu_ns(), Vec::with_capacity(turns.len()));
        let done = if operation == "list" {
            volume.list()
        } else {
            replies.extend(turns.iter().map(|turn| answer(&mut volume.fed, turn)));
            calls
        };
        let cpu_ns = (cpu_ns() - began) / done as f64;
        for status in replies.iter().flat_map(|replies| records(replies)).map(|reply| &reply[24..28]) {
            assert_eq!(status, [0; 4], "{operation}");
        }
        println!(r#"{{"operation": "{operation}", "files": {files}, "done": {done}, "cpu_ns": {cpu_ns:.1}}}"#);
    }
}

fn answer(volume: &mut Fed, calls: &[u8]) -> Vec<u8> {
    volume.feed(calls, usize::MAX).expect("answers")
}

impl Volume {
    /// Makes all files, and returns the handles of every `step`-th.
    fn fill(&mut self, file_bytes: usize, step: usize) -> Vec<nfs_fh3> {
        let root = self.fed.root();
        for number in 0..self.files.div_ceil(self.files_per_directory) {
            let name = format!("d{number}");
            let what = diropargs3 { dir: root, name: name.as_bytes() };
            let call =
                self.record(nfsproc3::NFSPROC3_MKDIR, &MKDIR3args { r#where: what, attributes: sattr3::default() });
            self.directories.extend(created(&self.fed.feed(&call, usize::MAX).expect("an answer")));
        }
        let mut sample = Vec::new();
        for first in (0..self.files).step_by(CALLS_PER_TURN) {
            let numbers = first..self.files.min(first + CALLS_PER_TURN);
            let calls: Vec<u8> = numbers.clone().flat_map(|number| self.create_call(number)).collect();
            let made = created(&self.fed.feed(&calls, usize::MAX).expect("answers"));
            assert_eq!(made.len(), numbers.len());
            if file_bytes > 0 {
                let calls: Vec<u8> = made.iter().flat_map(|file| self.write_call(*file, file_bytes)).collect();
                self.fed.feed(&calls, usize::MAX).expect("answers");
            }
            sample.extend(numbers.zip(made).filter(|(number, _)| number % step == 0).map(|(_, file)| file));
        }
        sample
    }

    /// Lists all directories with attributes, and returns the number of entries.
    fn list(&mut self) -> usize {
        let mut entries = 0;
        for number in 0..self.directories.len() {
            let (mut cookie, mut cookieverf) = (0, cookieverf3::default());
            loop {
                let (dir, maxcount) = (self.directories[number], 64 << 10);
                let arguments = READDIRPLUS3args { dir, cookie, cookieverf, dircount: maxcount, maxcount };
                let call = self.record(nfsproc3::NFSPROC3_READDIRPLUS, &arguments);
                let reply = answer(&mut self.fed, &call);
                let mut reader = Reader::new(&reply[4..]);
                ReplyHeader::decode(&mut reader).expect("a reply");
                let listed: READDIRPLUS3res<'_> = from_bytes(reader.rest()).expect("a listing");
                let listed = listed.expect("a directory");
                cookieverf = listed.cookieverf;
                cookie = listed.reply.entries.0.last().map_or(cookie, |entry| entry.cookie);
                entries += listed.reply.entries.0.len();
                if listed.reply.eof {
                    break;
                }
            }
        }
        entries
    }

    fn place(&self, number: usize) -> nfs_fh3 {
        self.directories[number / self.files_per_directory % self.directories.len()]
    }

    fn create_call(&mut self, number: usize) -> Vec<u8> {
        let name = format!("f{number}");
        let how = createhow3::UNCHECKED(sattr3::default());
        let what = diropargs3 { dir: self.place(number), name: name.as_bytes() };
        self.record(nfsproc3::NFSPROC3_CREATE, &CREATE3args { r#where: what, how })
    }

    fn write_call(&mut self, file: nfs_fh3, bytes: usize) -> Vec<u8> {
        let data = vec![7; bytes];
        let (count, stable) = (bytes as u32, stable_how::UNSTABLE);
        self.record(nfsproc3::NFSPROC3_WRITE, &WRITE3args { file, offset: 0, count, stable, data: &data })
    }

    fn name_call(&mut self, procedure: nfsproc3, number: usize, prefix: &str) -> Vec<u8> {
        let name = format!("{prefix}{number}");
        self.record(procedure, &diropargs3 { dir: self.place(number), name: name.as_bytes() })
    }

    fn rename_call(&mut self, number: usize) -> Vec<u8> {
        let (old, new, dir) = (format!("f{number}"), format!("g{number}"), self.place(number));
        let name = |name| diropargs3 { dir, name };
        self.record(nfsproc3::NFSPROC3_RENAME, &RENAME3args { from: name(old.as_bytes()), to: name(new.as_bytes()) })
    }

    fn record(&mut self, procedure: nfsproc3, arguments: &impl Encode) -> Vec<u8> {
        self.xid += 1;
        let body = to_bytes(&authsys_parms { stamp: 0, machinename: b"client", uid: 0, gid: 0, gids: vec![] });
        let cred = opaque_auth { flavor: auth_flavor::AUTH_SYS, body: &body };
        let (prog, vers, proc) = (NFS_PROGRAM, NFS_V3, procedure as u32);
        let header = CallHeader { xid: self.xid, rpcvers: 2, prog, vers, proc, cred, verf: opaque_auth::NONE };
        let call = [to_bytes(&header), to_bytes(arguments)].concat();
        [&(1 << 31 | call.len() as u32).to_be_bytes(), call.as_slice()].concat()
    }
}

/// The handles in replies to CREATE and MKDIR.
fn created(replies: &[u8]) -> Vec<nfs_fh3> {
    let made = records(replies).map(|reply| {
        let mut reader = Reader::new(reply);
        ReplyHeader::decode(&mut reader).expect("a reply");
        let made: CREATE3res = from_bytes(reader.rest()).expect("a result of CREATE");
        made.expect("a new file").obj.expect("its handle")
    });
    made.collect()
}

/// The records in what the volume sent.
fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (mark, after) = rest.split_first_chunk()?;
        let (record, next) = after.split_at((u32::from_be_bytes(*mark) & 0x7fff_ffff) as usize);
        rest = next;
        Some(record)
    })
}

/// CPU time of this thread.
fn cpu_ns() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: f64 = status.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("pages");
    pages * 4096.0
}
