//! A server that misbehaves at one step of a conversation, whatever its version, and the rows of tables of such servers.
//!
//! Every row must end in order, or go on. An operation is counted once, and as successful only by a reply that the server gave well;
//! a loss is in the outcome, as an error with a name.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use iocurve_meter::{Clock, Nanos, SECOND};
use iocurve_wire::record::RECORD_MARK_BYTES;

use super::super::calls::Mountable;
use super::super::conversation::JUKEBOX_DELAY_NS;
use super::super::metadata::{NfsMetadataEngine, Opening};
use super::super::{layout, small_files};
use super::scripted::{self, Files, Program, READ, Reaction, Script, Server, WRITE, file, marked, pattern};
use crate::engines::buffers::Buffers;
use crate::engines::request::{Address, Engine, Request};
use crate::error::EngineError;
use crate::plan::{Layout, NfsMount, OperationKind};

const BLOCK: u32 = 4096;
const OPERATIONS: u64 = 12;
/// Time by which a held clock goes on at a look for a reply: less than it really takes, so that no timeout comes too early.
const REAL_NS: Nanos = 20_000;
/// Offset of the status of a reply, of either version, in its record.
const STATUS_AT: usize = 24;

/// Part of a run in which the server misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// A file is created and filled.
    Layout,
    /// Writes and reads.
    Load,
    /// The names in a directory are listed.
    List,
    /// A file is created, closed and removed.
    Metadata,
}

/// A reaction in the place of the right one.
#[derive(Debug, Clone)]
pub(crate) enum Misdeed<A> {
    /// One that the server knows.
    Act(A),
    /// A reply to a call that was never made.
    UnknownXid,
    /// The reply to the call before.
    ReplyBefore,
    /// The reply, twice.
    Twice,
    /// Half of the reply, and the connection is closed.
    Half,
    /// Half of the reply, and the connection is reset.
    HalfAndReset,
    /// The record goes on behind the reply.
    Longer,
    /// The record ends inside the reply.
    Shorter,
    /// A record longer than any reply.
    TooLong,
    Empty,
    /// The header, and then bytes that mean nothing.
    Garbage,
    /// A call in the place of a reply.
    Call,
    /// The server's RPC layer fails.
    SystemError,
    /// Words of the reply, counted from behind its header, are other words.
    Words(&'static [(usize, u32)]),
    Silence,
}

/// End of the part of the run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    /// Everything is done.
    GoesOn,
    /// Everything is done, and the server keeps something until the lease has expired.
    LeavesState,
    /// So many operations fail with this `errno`, the others succeed.
    Fails(usize, i32),
    /// The run ends, and its error has these words.
    Ends(&'static str),
    /// The run ends after the timeout, and its error has these words.
    TimesOut(&'static str),
}

/// A row: the part and the step (name of a procedure or of an operation) at which the server misbehaves, how often, and what follows.
pub(crate) type Row<A> = (Part, &'static str, Misdeed<A>, u32, Ending);

/// A server that misbehaves.
pub(crate) struct Misbehaving<P: Program> {
    program: P,
    misdeed: Option<(&'static str, Misdeed<P::Act>)>,
    /// Calls at which it will still misbehave.
    left: u32,
    reply_before: Vec<u8>,
    /// READs and WRITEs that had a good reply.
    good: u64,
}

impl<P: Program<Act: Clone + Send>> Program for Misbehaving<P> {
    const VERSION: u32 = P::VERSION;

    type Seen = P::Seen;
    type Act = P::Act;

    fn new(script: Script<Self>) -> Self {
        Self { program: P::new(script), misdeed: None, left: 0, reply_before: Vec::new(), good: 0 }
    }

    fn files(&mut self) -> &mut Files {
        self.program.files()
    }

    fn seen(&self) -> &[P::Seen] {
        self.program.seen()
    }

    fn steps(record: &[u8]) -> Vec<&'static str> {
        P::steps(record)
    }

    fn act(&mut self, connection: usize, record: &[u8]) -> P::Act {
        self.program.act(connection, record)
    }

    fn react(&mut self, connection: usize, record: &[u8], act: P::Act) -> Reaction {
        let steps = P::steps(record);
        let hit = self.misdeed.as_ref().filter(|(step, _)| self.left > 0 && steps.contains(step));
        let misdeed = hit.map(|(_, misdeed)| misdeed.clone());
        self.left -= u32::from(misdeed.is_some());
        let act = match &misdeed {
            Some(Misdeed::Silence) => return Reaction::Silence,
            Some(Misdeed::Act(act)) => act.clone(),
            _ => act,
        };
        let mut reaction = self.program.react(connection, record, act);
        let Reaction::Send(reply) = &mut reaction else { return reaction };
        let before = std::mem::replace(&mut self.reply_before, reply.clone());
        let is_well = matches!(misdeed, None | Some(Misdeed::Act(_) | Misdeed::Twice));
        let is_good = word(&reply[RECORD_MARK_BYTES..], STATUS_AT) == 0;
        self.good += u64::from(is_well && is_good && (steps.contains(&"READ") || steps.contains(&"WRITE")));
        match misdeed {
            None => reaction,
            Some(misdeed) => tamper(&reply[RECORD_MARK_BYTES..], &before, &misdeed),
        }
    }
}

/// The reaction in the place of a reply.
fn tamper<A>(reply: &[u8], before: &[u8], misdeed: &Misdeed<A>) -> Reaction {
    let with_words = |words: &[(usize, u32)]| {
        let mut changed = reply.to_vec();
        for (at, word) in words {
            // A refusal is shorter.
            if let Some(place) = changed.get_mut(at * 4..at * 4 + 4) {
                place.copy_from_slice(&word.to_be_bytes());
            }
        }
        marked(&changed)
    };
    let behind_header = |words: &[(usize, u32)]| {
        with_words(&words.iter().map(|(at, word)| (at + STATUS_AT / 4, *word)).collect::<Vec<_>>())
    };
    let half = marked(reply)[..RECORD_MARK_BYTES + reply.len() / 2].to_vec();
    Reaction::Send(match misdeed {
        Misdeed::Act(_) | Misdeed::Silence => marked(reply),
        Misdeed::UnknownXid => with_words(&[(0, word(reply, 0).wrapping_add(0x0100_0000))]),
        Misdeed::ReplyBefore => before.to_vec(),
        Misdeed::Twice => marked(reply).repeat(2),
        Misdeed::Half => return Reaction::SendAndClose(half),
        Misdeed::HalfAndReset => return Reaction::SendAndReset(half),
        Misdeed::Longer => marked(&[reply, &[0xa5; 8]].concat()),
        Misdeed::Shorter => marked(&reply[..STATUS_AT + 2]),
        Misdeed::TooLong => [&[0xff; 4], reply].concat(),
        Misdeed::Empty => marked(&[]),
        Misdeed::Garbage => marked(&[&reply[..STATUS_AT], &[0xa5; 60]].concat()),
        Misdeed::Call => with_words(&[(1, 0)]),
        Misdeed::SystemError => marked(&[&reply[..STATUS_AT - 4], &[0, 0, 0, 5]].concat()),
        Misdeed::Words(words) => behind_header(words),
    })
}

fn word(reply: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(reply[at..at + 4].try_into().unwrap())
}

/// Checks all rows of a table, several at a time: most of their time is waiting.
pub(crate) fn check_rows<P: Mountable, S: Program<Act: Clone + Send + Sync + Debug>>(
    rows: &[Row<S::Act>],
    check_server: fn(&mut S, &str),
) {
    thread::scope(|scope| {
        for rows in rows.chunks(rows.len().div_ceil(8)) {
            scope.spawn(move || rows.iter().for_each(|row| check_row::<P, S>(row, check_server)));
        }
    });
}

fn check_row<P: Mountable, S: Program<Act: Clone + Send + Debug>>(row: &Row<S::Act>, check_server: fn(&mut S, &str)) {
    let (part, step, misdeed, times, ending) = row.clone();
    let name = format!("{row:?}");
    let server =
        Server::<Misbehaving<S>>::answering().with_file("f", &pattern((OPERATIONS / 2) as usize * BLOCK as usize));
    {
        let mut shared = server.lock();
        (shared.misdeed, shared.left) = (Some((step, misdeed)), times);
    }
    let mut mount = server.mount();
    if let Ending::TimesOut(_) = ending {
        mount.timeout_ns = SECOND / 5;
    }
    let done = match part {
        Part::Layout => lay_out(&mount),
        Part::Load => load::<P, S>(&server, &mount, ending, &name),
        Part::List => list(&mount),
        Part::Metadata => metadata::<P>(&mount, ending, &name),
    };
    match (ending, done) {
        (Ending::GoesOn | Ending::LeavesState | Ending::Fails(..), Ok(())) => {
            assert!(times == u32::MAX || server.lock().left == 0, "{name}: the server has not misbehaved as often");
            if matches!(ending, Ending::GoesOn) {
                check_server(&mut server.lock().program, &name);
            }
        }
        (Ending::Ends(words) | Ending::TimesOut(words), Err(error)) => {
            let error = error.to_string();
            assert!(error.contains(words), "{name}: {error}");
        }
        (_, done) => panic!("{name}: {done:?}"),
    }
}

fn lay_out(mount: &NfsMount) -> Result<(), EngineError> {
    let bytes = u64::from(BLOCK) * 3;
    layout(mount, &[file("new", bytes, Layout::Fill)], 1, &|_| {}, &AtomicBool::new(false)).map(drop)
}

fn list(mount: &NfsMount) -> Result<(), EngineError> {
    let never = AtomicBool::new(false);
    let mut export = small_files(mount, &never)?;
    assert_eq!(export.names()?, ["f"]);
    Ok(())
}

/// Writes and reads back, one operation at a time: each completes once, and successes are the replies that were good.
fn load<P: Mountable, S: Program<Act: Clone + Send>>(
    server: &Server<Misbehaving<S>>,
    mount: &NfsMount,
    ending: Ending,
    name: &str,
) -> Result<(), EngineError> {
    let is_held = !matches!(ending, Ending::TimesOut(_));
    let clock = if is_held { Clock::manual() } else { Clock::new() };
    let mut client = scripted::Client::<P>::on(mount, 1, BLOCK as usize, clock)?;
    let (mut succeeded, mut errors) = (0, Vec::new());
    for number in 0..OPERATIONS {
        let (kind, at) = if number % 2 == 0 { (WRITE, number / 2) } else { (READ, number / 2) };
        let offset = at * u64::from(BLOCK);
        let content = pattern((number + 7) as usize * BLOCK as usize).split_off((number + 6) as usize * BLOCK as usize);
        if kind == WRITE {
            client.buffer(0, BLOCK as usize).copy_from_slice(&content);
        } else {
            client.buffer(0, BLOCK as usize).fill(0);
        }
        client.submit(0, kind, offset, BLOCK);
        match one_completion(&mut client, is_held)? {
            result if result == i64::from(BLOCK) => {
                succeeded += 1;
                let stored = server.content("f").unwrap()[offset as usize..][..BLOCK as usize].to_vec();
                assert!(client.buffer(0, BLOCK as usize) == stored, "{name}: operation {number}");
            }
            result => errors.push(-result),
        }
    }
    finish(&mut client, is_held)?;
    assert_eq!(succeeded, server.lock().good, "{name}: replies that were good");
    assert_eq!(errors, expected_errors(ending), "{name}");
    Ok(())
}

fn expected_errors(ending: Ending) -> Vec<i64> {
    if let Ending::Fails(count, errno) = ending { vec![i64::from(errno); count] } else { Vec::new() }
}

/// The result of the only operation in flight. While it waits for its time and not for the server, a held clock goes on.
fn one_completion<P: Mountable>(client: &mut scripted::Client<P>, is_held: bool) -> Result<i64, EngineError> {
    let mut done = Vec::new();
    loop {
        client.engine.reap(1, client.clock.now(), &mut done)?;
        if let [completion] = done[..] {
            // A second completion would be counted twice.
            client.engine.reap(0, client.clock.now(), &mut done)?;
            assert_eq!((done.len(), completion.slot), (1, 0));
            return Ok(completion.result);
        }
        if is_held {
            let is_waiting = client.engine.flight.calls.load(0).calls == 0;
            client.clock.advance(if is_waiting { JUKEBOX_DELAY_NS } else { REAL_NS });
        }
        thread::sleep(Duration::from_micros(20));
    }
}

/// Ends the load; a held clock goes on meanwhile.
fn finish<P: Mountable>(client: &mut scripted::Client<P>, is_held: bool) -> Result<(), EngineError> {
    let (clock, is_over) = (client.clock.clone(), AtomicBool::new(!is_held));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                clock.advance(REAL_NS);
                thread::sleep(Duration::from_micros(20));
            }
        });
        let finished = client.engine.finish();
        is_over.store(true, Ordering::Relaxed);
        finished
    })
}

fn metadata<P: Mountable>(mount: &NfsMount, ending: Ending, name: &str) -> Result<(), EngineError> {
    let (buffers, never) = (Buffers::new(1, BLOCK as usize), Arc::<AtomicBool>::default());
    // SAFETY: no operation uses a buffer.
    let slots = unsafe { buffers.slot_map() };
    let files = [file("new", 0, Layout::Create)];
    let clock = Clock::new();
    let opening = Opening { keep_open: true, tree: None };
    let mut engine = NfsMetadataEngine::<P>::connect(mount, &files, slots, 1, clock.clone(), never, opening)?;
    let mut errors = Vec::new();
    for kind in [OperationKind::Create, OperationKind::Close, OperationKind::Delete] {
        engine.submit(Request { slot: 0, kind, address: Address { file: 0, offset: 0, length: 0 } })?;
        let mut done = Vec::new();
        engine.reap(1, Nanos::MAX, &mut done)?;
        let [completion] = done[..] else { panic!("{kind:?}: {done:?}") };
        if completion.result != 0 {
            // The steps behind it would fail, too.
            errors.push(-completion.result);
            break;
        }
    }
    engine.finish()?;
    assert_eq!(errors, expected_errors(ending), "{name}");
    Ok(())
}
