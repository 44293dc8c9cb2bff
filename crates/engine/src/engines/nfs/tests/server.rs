//! A small server of `NFSv3`.
// Results have the shape of the protocol, whatever their cost in a test.
#![allow(clippy::unnecessary_wraps, clippy::result_large_err)]

use iocurve_wire::mount3::{
    MOUNT_PROGRAM, MOUNTPROC3_EXPORT, MOUNTPROC3_MNT, dirpath, exportnode, exports, mountres3, mountres3_ok, mountstat3,
};
use iocurve_wire::nfs3::{
    COMMIT3args, COMMIT3res, COMMIT3resok, CREATE3args, CREATE3res, CREATE3resok, FSINFO3res, FSINFO3resok, Failed,
    LOOKUP3args, LOOKUP3res, LOOKUP3resok, READ3args, READ3res, READ3resok, READDIR3args, READDIR3res, READDIR3resok,
    REMOVE3args, REMOVE3res, REMOVE3resok, SETATTR3args, SETATTR3res, SETATTR3resok, WRITE3args, WRITE3res,
    WRITE3resok, dirlist3, diropargs3, entry3, ftype3, nfs_fh3, nfsproc3, nfsstat3, nfstime3, stable_how, wcc_data,
};
use iocurve_wire::rpc::CallHeader;
use iocurve_wire::xdr::{Decode, List, Reader, from_bytes, to_bytes};

use super::super::counting::attributes;
use super::scripted::{self, EXPORT, Files, Program, Reaction, Script, fragment, is_directory, marked, reply};

const ROOT: &[u8] = b"/";

/// A received call, for scripts and for later checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// Number of the connection, in the order of acceptance. Mounting uses number 0.
    pub connection: usize,
    pub xid: u32,
    pub procedure: nfsproc3,
}

/// The reaction of a script to a call of the NFS program.
#[derive(Debug, Clone, Default)]
pub(super) enum Act {
    #[default]
    Answer,
    /// Answers in fragments of this many bytes.
    Fragments(usize),
    /// A WRITE accepts at most this many bytes, a READ returns at most as many without reaching the end.
    AtMost(u32),
    Fail(nfsstat3),
    /// Answers each READDIR as the first one.
    ListAgain,
    /// Answers each READDIR with further names, and never with the end.
    ListOn,
    /// Says that what a WRITE wrote is not on stable storage.
    Unstable,
    /// Sends these bytes instead of a reply.
    Raw(Vec<u8>),
    Silence,
    /// Closes the connection without an answer.
    Close,
}

pub(super) type Server = scripted::Server<Shared>;

pub(super) struct Shared {
    files: Files,
    seen: Vec<Seen>,
    script: Script<Self>,
    call_bytes_max: u32,
    verifier: u8,
    ignored: Option<usize>,
}

impl Server {
    pub(super) fn with_call_bytes_max(self, bytes: u32) -> Self {
        self.lock().call_bytes_max = bytes;
        self
    }

    /// As after a restart: uncommitted data may be lost.
    pub(super) fn change_verifier(&self) {
        self.lock().verifier += 1;
    }

    /// Answers nothing on the connection with this number.
    pub(super) fn ignore(&self, connection: usize) {
        self.lock().ignored = Some(connection);
    }
}

impl Program for Shared {
    const VERSION: u32 = 3;

    type Seen = Seen;
    type Act = Act;

    fn new(script: Script<Self>) -> Self {
        Self { files: Files::new(), seen: Vec::new(), script, call_bytes_max: 1 << 20, verifier: 0, ignored: None }
    }

    fn files(&mut self) -> &mut Files {
        &mut self.files
    }

    /// Calls of READ, WRITE and COMMIT.
    fn seen(&self) -> &[Seen] {
        &self.seen
    }

    fn steps(record: &[u8]) -> Vec<&'static str> {
        let (header, procedure, _) = parse(record);
        vec![if header.prog == MOUNT_PROGRAM { "MNT" } else { procedure.name().trim_start_matches("NFSPROC3_") }]
    }

    fn act(&mut self, connection: usize, record: &[u8]) -> Act {
        let (header, procedure, _) = parse(record);
        if self.ignored == Some(connection) {
            return Act::Silence;
        }
        if header.prog == MOUNT_PROGRAM {
            return Act::Answer;
        }
        self.decide(Seen { connection, xid: header.xid, procedure })
    }

    fn react(&mut self, _connection: usize, record: &[u8], act: Act) -> Reaction {
        let (header, procedure, arguments) = parse(record);
        let mut answer = |at_most| {
            let results = if header.prog == MOUNT_PROGRAM {
                mount_results(header.proc, arguments)
            } else {
                self.results(procedure, arguments, at_most)
            };
            reply(header.xid, &results)
        };
        Reaction::Send(match act {
            Act::Answer => marked(&answer(None)),
            Act::Fragments(bytes) => fragments(&answer(None), bytes),
            Act::AtMost(bytes) => marked(&answer(Some(bytes))),
            Act::Fail(status) => {
                // The longest body that follows a failure, used for all of them, because the client does not read it.
                let failed = Failed { status, rest: wcc_data::default() };
                marked(&reply(header.xid, &to_bytes(&Err::<(), _>(failed))))
            }
            Act::ListAgain => marked(&reply(header.xid, &self.list(0))),
            Act::ListOn => {
                let READDIR3args { cookie, .. } = from_bytes(arguments).unwrap();
                marked(&reply(header.xid, &list_on(cookie)))
            }
            Act::Unstable => {
                let mut arguments: WRITE3args<'_> = from_bytes(arguments).unwrap();
                arguments.stable = stable_how::UNSTABLE;
                marked(&reply(header.xid, &to_bytes(&self.write(&arguments, None))))
            }
            Act::Raw(bytes) => bytes,
            Act::Silence => return Reaction::Silence,
            Act::Close => return Reaction::Close,
        })
    }
}

impl Shared {
    fn decide(&mut self, seen: Seen) -> Act {
        use nfsproc3::{NFSPROC3_COMMIT, NFSPROC3_READ, NFSPROC3_WRITE};
        if !matches!(seen.procedure, NFSPROC3_READ | NFSPROC3_WRITE | NFSPROC3_COMMIT) {
            return Act::Answer;
        }
        self.seen.push(seen);
        (self.script)(seen)
    }

    fn results(&mut self, procedure: nfsproc3, arguments: &[u8], at_most: Option<u32>) -> Vec<u8> {
        match procedure {
            nfsproc3::NFSPROC3_FSINFO => to_bytes(&self.fsinfo()),
            nfsproc3::NFSPROC3_LOOKUP => to_bytes(&self.lookup(&from_bytes(arguments).unwrap())),
            nfsproc3::NFSPROC3_CREATE => to_bytes(&self.create(&from_bytes(arguments).unwrap())),
            nfsproc3::NFSPROC3_REMOVE => to_bytes(&self.remove(&from_bytes(arguments).unwrap())),
            nfsproc3::NFSPROC3_SETATTR => to_bytes(&self.setattr(&from_bytes(arguments).unwrap())),
            nfsproc3::NFSPROC3_READ => self.read(&from_bytes(arguments).unwrap(), at_most),
            nfsproc3::NFSPROC3_WRITE => to_bytes(&self.write(&from_bytes(arguments).unwrap(), at_most)),
            nfsproc3::NFSPROC3_COMMIT => {
                let _: COMMIT3args = from_bytes(arguments).unwrap();
                let committed: COMMIT3res =
                    Ok(COMMIT3resok { file_wcc: wcc_data::default(), verf: [self.verifier; 8] });
                to_bytes(&committed)
            }
            nfsproc3::NFSPROC3_READDIR => {
                let arguments: READDIR3args = from_bytes(arguments).unwrap();
                self.list(arguments.cookie)
            }
            other => panic!("{} is not for tests", other.name()),
        }
    }

    fn fsinfo(&self) -> FSINFO3res {
        let bytes = self.call_bytes_max;
        Ok(FSINFO3resok {
            obj_attributes: None,
            rtmax: bytes,
            rtpref: bytes,
            rtmult: 1,
            wtmax: bytes,
            wtpref: bytes,
            wtmult: 1,
            dtpref: bytes,
            maxfilesize: u64::MAX,
            time_delta: nfstime3::default(),
            properties: 0,
        })
    }

    fn lookup(&self, arguments: &LOOKUP3args<'_>) -> LOOKUP3res {
        let name = full_name(&arguments.what);
        let (file_type, size) = match self.files.get(&name) {
            Some(content) => (ftype3::NF3REG, content.len()),
            None if is_directory(&self.files, &name) => (ftype3::NF3DIR, 0),
            None => return Err(Failed { status: nfsstat3::NFS3ERR_NOENT, rest: None }),
        };
        let obj_attributes = Some(attributes(file_type, size as u64));
        Ok(LOOKUP3resok { object: handle(&name), obj_attributes, dir_attributes: None })
    }

    fn create(&mut self, arguments: &CREATE3args<'_>) -> CREATE3res {
        let name = full_name(&arguments.r#where);
        if self.files.contains_key(&name) {
            return Err(Failed { status: nfsstat3::NFS3ERR_EXIST, rest: wcc_data::default() });
        }
        self.files.insert(name.clone(), Vec::new());
        Ok(CREATE3resok { obj: Some(handle(&name)), obj_attributes: None, dir_wcc: wcc_data::default() })
    }

    fn remove(&mut self, arguments: &REMOVE3args<'_>) -> REMOVE3res {
        match self.files.remove(&full_name(&arguments.object)) {
            Some(_) => Ok(REMOVE3resok { dir_wcc: wcc_data::default() }),
            None => Err(Failed { status: nfsstat3::NFS3ERR_NOENT, rest: wcc_data::default() }),
        }
    }

    fn setattr(&mut self, arguments: &SETATTR3args) -> SETATTR3res {
        let size = arguments.new_attributes.size.expect("only sizes are set");
        self.file(&arguments.object).resize(size as usize, 0);
        Ok(SETATTR3resok { obj_wcc: wcc_data::default() })
    }

    /// Two replies: one with each file's name, and one with the end alone.
    fn list(&self, cookie: u64) -> Vec<u8> {
        let is_end = cookie > 0;
        let names = self.files.keys().filter(|_| !is_end).enumerate();
        let entries = names.map(|(at, name)| entry3 { fileid: 1, name: name.as_bytes(), cookie: at as u64 + 1 });
        let reply = dirlist3 { entries: List(entries.collect()), eof: is_end };
        let listed: READDIR3res<'_> = Ok(READDIR3resok { dir_attributes: None, cookieverf: [0; 8], reply });
        to_bytes(&listed)
    }

    fn read(&mut self, arguments: &READ3args, at_most: Option<u32>) -> Vec<u8> {
        let content = self.file(&arguments.file);
        let file_attributes = Some(attributes(ftype3::NF3REG, content.len() as u64));
        let count = arguments.count.min(at_most.unwrap_or(u32::MAX));
        let (data, eof) = scripted::read(content, arguments.offset, count);
        let read: READ3res<'_> = Ok(READ3resok { file_attributes, count: data.len() as u32, eof, data });
        to_bytes(&read)
    }

    fn write(&mut self, arguments: &WRITE3args<'_>, at_most: Option<u32>) -> WRITE3res {
        let verf = [self.verifier; 8];
        let Some(content) = self.files.get_mut(&name_of(&arguments.file)) else {
            return Err(Failed { status: nfsstat3::NFS3ERR_STALE, rest: wcc_data::default() });
        };
        let count = arguments.count.min(at_most.unwrap_or(u32::MAX));
        scripted::write(content, arguments.offset, &arguments.data[..count as usize]);
        let file_wcc = wcc_data { before: None, after: Some(attributes(ftype3::NF3REG, content.len() as u64)) };
        let committed = arguments.stable;
        assert!(matches!(committed, stable_how::UNSTABLE | stable_how::DATA_SYNC | stable_how::FILE_SYNC));
        Ok(WRITE3resok { file_wcc, count, committed, verf })
    }

    fn file(&mut self, handle: &nfs_fh3) -> &mut Vec<u8> {
        self.files.get_mut(&name_of(handle)).expect("a file that is there")
    }
}

/// A hundred names behind a cookie, and more to come.
fn list_on(cookie: u64) -> Vec<u8> {
    let entries = (1..=100).map(|at| entry3 { fileid: 1, name: b"f", cookie: cookie + at });
    let reply = dirlist3 { entries: List(entries.collect()), eof: false };
    let listed: READDIR3res<'_> = Ok(READDIR3resok { dir_attributes: None, cookieverf: [0; 8], reply });
    to_bytes(&listed)
}

/// Header, procedure of the NFS program, and arguments of a call.
fn parse(record: &[u8]) -> (CallHeader<'_>, nfsproc3, &[u8]) {
    let mut reader = Reader::new(record);
    let header = CallHeader::decode(&mut reader).unwrap();
    let procedure = nfsproc3::from_u32(header.proc).expect("a procedure that the client uses");
    (header, procedure, reader.rest())
}

/// A record on the wire, in fragments of at most `bytes`.
fn fragments(record: &[u8], bytes: usize) -> Vec<u8> {
    let mut parts = record.chunks(bytes).peekable();
    let mut fragments = Vec::new();
    while let Some(part) = parts.next() {
        fragments.extend(fragment(part, parts.peek().is_none()));
    }
    fragments
}

fn mount_results(procedure: u32, arguments: &[u8]) -> Vec<u8> {
    match procedure {
        MOUNTPROC3_MNT => {
            let path: dirpath<'_> = from_bytes(arguments).unwrap();
            let mounted: mountres3 = if path == EXPORT.as_bytes() {
                Ok(mountres3_ok { fhandle: nfs_fh3::new(ROOT).unwrap(), auth_flavors: vec![1] })
            } else {
                Err(mountstat3::MNT3ERR_NOENT)
            };
            to_bytes(&mounted)
        }
        MOUNTPROC3_EXPORT => {
            let list: exports<'_> = List(vec![exportnode { ex_dir: EXPORT.as_bytes(), ex_groups: List(Vec::new()) }]);
            to_bytes(&list)
        }
        other => panic!("procedure {other} of MOUNT is not for tests"),
    }
}

fn full_name(what: &diropargs3<'_>) -> String {
    let name = String::from_utf8(what.name.to_vec()).unwrap();
    match what.dir.as_bytes() {
        ROOT => name,
        directory => format!("{}/{name}", String::from_utf8_lossy(directory)),
    }
}

fn name_of(handle: &nfs_fh3) -> String {
    String::from_utf8(handle.as_bytes().to_vec()).unwrap()
}

fn handle(name: &str) -> nfs_fh3 {
    nfs_fh3::new(name.as_bytes()).unwrap()
}
