//! One connection: it asks for TLS or answers that, shakes hands, and then seals what is sent and opens what is received.

use std::cell::Cell;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem;

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{AlertDescription, CertificateError, CommonState, Error};

use crate::keys::{ALPN, ClientTls, ServerTls};
use crate::opening;

/// Most bytes of one record.
const RECORD_BYTES: usize = 16 << 10;
/// Bytes that a record may be longer than its content (RFC 8446 §5.2).
const RECORD_OVERHEAD: usize = 5 + 256;
/// Most bytes of one read from the connection.
const READ_BYTES: usize = 256 << 10;
/// Bytes that are sealed before they are sent.
const SEAL_BYTES: usize = 256 << 10;
/// Bytes of one read before TLS, and during the handshake.
const OPENING_BYTES: usize = 4 << 10;

thread_local! {
    /// Memory for one read, behind a record in part.
    static INPUT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    /// Memory for sealed bytes.
    static OUTPUT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The event that a connection waits for before it can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Bytes from the peer.
    Read,
    /// Room to send.
    Write,
}

enum Side {
    Client(Box<UnbufferedClientConnection>),
    Server(Box<UnbufferedServerConnection>),
}

impl fmt::Debug for Side {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if matches!(self, Self::Client(_)) { "Client" } else { "Server" })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The client has sent its question.
    Asking,
    /// The server waits for the first call, or a handshake.
    Greeting,
    Handshake,
    Open,
}

/// A connection with TLS.
#[derive(Debug)]
pub struct Channel {
    side: Side,
    stage: Stage,
    /// Received bytes that are not opened: a record in part.
    sealed: Vec<u8>,
    /// Opened bytes for which there was no room, of which the first `opened_taken` are taken.
    opened: Vec<u8>,
    opened_taken: usize,
    output: Output,
    /// Bytes that are sealed in `output` and not reported as sent: the connection has not taken all of them.
    withheld: usize,
    has_ended: bool,
}

/// Bytes that the connection has not taken: `memory[sent..end]`.
#[derive(Debug, Default)]
struct Output {
    memory: Vec<u8>,
    sent: usize,
    end: usize,
}

/// The next need of rustls.
enum Step {
    Again,
    Input,
    /// The handshake is over, and `content` is sealed.
    Ready,
    Ended,
}

impl Channel {
    /// A client's side, which asks with the NULL procedure of an NFS `version`.
    pub fn client(tls: &ClientTls, version: u32) -> io::Result<Self> {
        let connection =
            UnbufferedClientConnection::new(tls.config.clone(), tls.name.clone()).map_err(|error| explained(&error))?;
        let mut channel = Self::new(Side::Client(Box::new(connection)), Stage::Asking);
        let mut question = Vec::new();
        opening::ask(&mut question, version);
        channel.output.append(&question);
        Ok(channel)
    }

    /// A server's side.
    pub fn server(tls: &ServerTls) -> io::Result<Self> {
        let connection = UnbufferedServerConnection::new(tls.0.clone()).map_err(|error| explained(&error))?;
        Ok(Self::new(Side::Server(Box::new(connection)), Stage::Greeting))
    }

    fn new(side: Side, stage: Stage) -> Self {
        let (sealed, opened, output) = (Vec::new(), Vec::new(), Output::default());
        Self { side, stage, sealed, opened, opened_taken: 0, output, withheld: 0, has_ended: false }
    }

    /// Goes on with the handshake; `None` once the connection can be used.
    pub fn establish(&mut self, connection: &mut (impl Read + Write)) -> io::Result<Option<Wait>> {
        loop {
            match self.flush(connection) {
                Err(error) if is_temporary(&error) => return Ok(Some(Wait::Write)),
                flushed => flushed?,
            }
            if self.stage == Stage::Open {
                return Ok(None);
            }
            let held = self.sealed.len();
            self.sealed.resize(held + OPENING_BYTES, 0);
            let read = connection.read(&mut self.sealed[held..]);
            self.sealed.truncate(held + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) if self.stage == Stage::Asking => return Err(opening::not_offered()),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => self.open_stage(connection)?,
                Err(error) if is_temporary(&error) => return Ok(Some(Wait::Read)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes received bytes as the stage has it.
    fn open_stage(&mut self, connection: &mut impl Write) -> io::Result<()> {
        if self.stage == Stage::Greeting && self.sealed.first() == Some(&opening::HANDSHAKE) {
            self.stage = Stage::Handshake;
        }
        match self.stage {
            Stage::Asking => {
                if opening::take_record(&mut self.sealed, opening::check_offer)?.transpose()?.is_none() {
                    return Ok(());
                }
                self.stage = Stage::Handshake;
            }
            Stage::Greeting => {
                let mut replies = Vec::new();
                while self.stage == Stage::Greeting
                    && let Some(answered) =
                        opening::take_record(&mut self.sealed, |call| opening::answer(call, &mut replies))?
                {
                    if answered? {
                        self.stage = Stage::Handshake;
                    }
                }
                self.output.append(&replies);
                return Ok(());
            }
            Stage::Handshake | Stage::Open => {}
        }
        // The alert that tells the peer why the connection ends is sent if it can be sent now.
        self.advance_sealed(&[]).inspect_err(|_| drop(self.flush(connection)))
    }

    /// Lets rustls take the bytes that were received before, and seals `content` if there is any.
    fn advance_sealed(&mut self, content: &[u8]) -> io::Result<()> {
        let (mut sealed, mut opened) = (mem::take(&mut self.sealed), mem::take(&mut self.opened));
        let advanced = self.advance(&mut sealed, &mut |bytes| opened.extend_from_slice(bytes), content);
        sealed.drain(..*advanced.as_ref().unwrap_or(&0));
        (self.sealed, self.opened) = (sealed, opened);
        advanced.map(drop)
    }

    /// Lets rustls take bytes; returns how many. Opened bytes go to `opened`, handshakes and sealed `content` to `output`.
    fn advance(&mut self, input: &mut [u8], opened: &mut dyn FnMut(&[u8]), content: &[u8]) -> io::Result<usize> {
        let (mut taken, mut failed) = (0, None);
        loop {
            let (rest, output) = (&mut input[taken..], &mut self.output);
            let (discard, step) = match &mut self.side {
                Side::Client(client) => step(client.process_tls_records(rest), output, opened, content),
                Side::Server(server) => step(server.process_tls_records(rest), output, opened, content),
            };
            taken += discard;
            let step = step.unwrap_or_else(|error| {
                failed.get_or_insert(error);
                Step::Again
            });
            if let Some(error) = &failed {
                // It goes on for the alert that tells the peer, and no further.
                if self.state().wants_write() {
                    continue;
                }
                return Err(explained(error));
            }
            match step {
                Step::Again => {}
                Step::Input => return Ok(taken),
                Step::Ended => {
                    self.has_ended = true;
                    return Ok(taken);
                }
                Step::Ready => {
                    self.finish_handshake()?;
                    return Ok(taken);
                }
            }
        }
    }

    /// Notes that the handshake is over, if it is.
    fn finish_handshake(&mut self) -> io::Result<()> {
        if self.stage == Stage::Open || self.state().is_handshaking() {
            return Ok(());
        }
        if matches!(self.side, Side::Client(_)) && self.state().alpn_protocol() != Some(ALPN) {
            return Err(io::Error::other(
                "its TLS is not for RPC: it does not name the protocol sunrpc (RFC 9289 §8.2)",
            ));
        }
        self.stage = Stage::Open;
        Ok(())
    }

    fn state(&self) -> &CommonState {
        match &self.side {
            Side::Client(client) => client,
            Side::Server(server) => server,
        }
    }

    /// Receives into the pieces in order and returns how many bytes came; 0 when the peer has ended the stream. Fewer than there is
    /// room for are all that have arrived.
    pub fn receive(&mut self, connection: &mut (impl Read + Write), into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if self.stage != Stage::Open && self.establish(connection)?.is_some() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut room = Room::new(into);
        room.put(&self.opened[self.opened_taken..]);
        self.opened_taken += room.filled;
        if self.opened_taken == self.opened.len() {
            (self.opened, self.opened_taken) = (Vec::new(), 0);
        }
        while room.left() > 0 && !self.has_ended {
            match self.receive_once(connection, &mut room) {
                Ok(true) => {}
                Ok(false) if room.filled > 0 || self.has_ended => break,
                Ok(false) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(error) if is_temporary(&error) && room.filled > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(room.filled)
    }

    /// Reads once, and opens the records that are complete; returns whether more may be there.
    fn receive_once(&mut self, connection: &mut (impl Read + Write), room: &mut Room<'_, '_>) -> io::Result<bool> {
        let held = self.sealed.len();
        let most = room.left().clamp(RECORD_BYTES + RECORD_OVERHEAD, READ_BYTES);
        let mut input = INPUT.take();
        if input.len() < held + most {
            input.resize(held + READ_BYTES, 0);
        }
        let read = connection.read(&mut input[held..held + most]);
        let Ok(count @ 1..) = read else {
            INPUT.set(input);
            self.has_ended = read? == 0;
            return Ok(false);
        };
        input[..held].copy_from_slice(&self.sealed);
        let mut opened = mem::take(&mut self.opened);
        let put = &mut |bytes: &[u8]| opened.extend_from_slice(&bytes[room.put(bytes)..]);
        let advanced = self.advance(&mut input[..held + count], put, &[]);
        self.opened = opened;
        self.sealed.clear();
        if let Ok(taken) = advanced {
            self.sealed.extend_from_slice(&input[taken..held + count]);
        }
        INPUT.set(input);
        advanced.inspect_err(|_| drop(self.flush(connection)))?;
        Ok(count == most)
    }

    /// Receives up to `bytes` bytes and drops them.
    pub fn discard(&mut self, connection: &mut (impl Read + Write), bytes: usize) -> io::Result<usize> {
        let mut dropped = [0; RECORD_BYTES];
        let mut count = 0;
        while count < bytes {
            let most = dropped.len().min(bytes - count);
            match self.receive(connection, &mut [IoSliceMut::new(&mut dropped[..most])]) {
                Ok(0) => break,
                Ok(received) => count += received,
                Err(error) if is_temporary(&error) && count > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    /// Sends from the pieces in order and returns how many bytes the connection has taken, sealed. After fewer than all, the next call
    /// must begin with the bytes that follow: some of them may be sealed already.
    pub fn send(&mut self, connection: &mut (impl Read + Write), from: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.stage != Stage::Open && self.establish(connection)?.is_some() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut pieces = Pieces::new(from);
        pieces.skip(self.withheld);
        let mut sent = 0;
        loop {
            match self.flush(connection) {
                Err(error) if is_temporary(&error) && sent > 0 => return Ok(sent),
                flushed => flushed?,
            }
            sent += mem::take(&mut self.withheld);
            if pieces.is_empty() {
                return Ok(sent);
            }
            self.seal(&mut pieces)?;
        }
    }

    /// Seals the next bytes of the pieces.
    fn seal(&mut self, pieces: &mut Pieces<'_>) -> io::Result<()> {
        let mut gathered = [0; RECORD_BYTES];
        while self.withheld < SEAL_BYTES {
            let content = pieces.next(SEAL_BYTES - self.withheld, &mut gathered);
            if content.is_empty() {
                break;
            }
            self.advance_sealed(content)?;
            self.withheld += content.len();
        }
        Ok(())
    }

    /// Sends sealed bytes; fails with `WouldBlock` if the connection does not take all of them.
    pub fn flush(&mut self, connection: &mut impl Write) -> io::Result<()> {
        self.output.send(connection)
    }

    /// True if bytes are there that need not be received.
    pub fn has_opened(&self) -> bool {
        !self.opened.is_empty()
    }

    /// Bytes of memory that it holds, next to the keys.
    pub fn bytes(&self) -> usize {
        self.sealed.capacity() + self.opened.capacity() + self.output.memory.capacity()
    }
}

impl Output {
    /// Makes room for `bytes`, which then are at its end.
    fn room(&mut self, bytes: usize) -> &mut [u8] {
        if self.memory.is_empty() {
            self.memory = OUTPUT.take();
        }
        if self.memory.len() < self.end + bytes {
            self.memory.resize(self.end + bytes, 0);
        }
        &mut self.memory[self.end..]
    }

    fn append(&mut self, bytes: &[u8]) {
        self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }

    fn send(&mut self, connection: &mut impl Write) -> io::Result<()> {
        while self.sent < self.end {
            match connection.write(&self.memory[self.sent..self.end]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.keep_only_rest();
                    return Err(error);
                }
            }
        }
        (self.sent, self.end) = (0, 0);
        if !self.memory.is_empty() {
            OUTPUT.set(mem::take(&mut self.memory));
        }
        Ok(())
    }

    /// Gives memory back of which little is used: a slow peer should not hold it.
    fn keep_only_rest(&mut self) {
        let rest = self.sent..self.end;
        if rest.len() < self.memory.len() / 2 {
            let kept = self.memory[rest].to_vec();
            OUTPUT.set(mem::replace(&mut self.memory, kept));
            (self.sent, self.end) = (0, self.memory.len());
        }
    }
}

/// Does what rustls asks for. Returns the bytes of the input that it has taken.
fn step<D>(
    status: UnbufferedStatus<'_, '_, D>,
    output: &mut Output,
    opened: &mut dyn FnMut(&[u8]),
    content: &[u8],
) -> (usize, Result<Step, Error>) {
    let UnbufferedStatus { mut discard, state } = status;
    let step = state.and_then(|state| match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let record = record?;
                discard += record.discard;
                opened(record.payload);
            }
            Ok(Step::Again)
        }
        ConnectionState::EncodeTlsData(mut data) => {
            if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
                let encoded = data.encode(output.room(size.required_size));
                output.end += encoded.map_err(|error| Error::General(error.to_string()))?;
            }
            Ok(Step::Again)
        }
        // They are in `output`, which is sent in order.
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Ok(Step::Again)
        }
        ConnectionState::BlockedHandshake => Ok(Step::Input),
        ConnectionState::WriteTraffic(mut traffic) => {
            if !content.is_empty() {
                let records = content.len().div_ceil(RECORD_BYTES);
                let room = output.room(content.len() + records * RECORD_OVERHEAD);
                let sealed = traffic.encrypt(content, room);
                output.end += sealed.map_err(|error: EncryptError| Error::General(error.to_string()))?;
            }
            Ok(Step::Ready)
        }
        _ => Ok(Step::Ended),
    });
    (discard, step)
}

/// The pieces that are received into.
struct Room<'a, 'b> {
    into: &'a mut [IoSliceMut<'b>],
    /// The first piece that is not full, and the bytes that it has.
    piece: usize,
    at: usize,
    bytes: usize,
    filled: usize,
}

impl<'a, 'b> Room<'a, 'b> {
    fn new(into: &'a mut [IoSliceMut<'b>]) -> Self {
        let bytes = into.iter().map(|piece| piece.len()).sum();
        Self { into, piece: 0, at: 0, bytes, filled: 0 }
    }

    fn left(&self) -> usize {
        self.bytes - self.filled
    }

    /// Copies as many of the bytes as there is room for; returns how many.
    fn put(&mut self, bytes: &[u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() && self.piece < self.into.len() {
            let piece = &mut self.into[self.piece][self.at..];
            let count = piece.len().min(bytes.len() - done);
            piece[..count].copy_from_slice(&bytes[done..done + count]);
            (done, self.at) = (done + count, self.at + count);
            if self.at == self.into[self.piece].len() {
                (self.piece, self.at) = (self.piece + 1, 0);
            }
        }
        self.filled += done;
        done
    }
}

/// The pieces that are sent from, without the bytes that were taken.
struct Pieces<'a> {
    from: &'a [IoSlice<'a>],
    /// Bytes of the first piece that are taken.
    at: usize,
}

impl<'a> Pieces<'a> {
    fn new(from: &'a [IoSlice<'a>]) -> Self {
        let mut pieces = Self { from, at: 0 };
        pieces.skip(0);
        pieces
    }

    fn is_empty(&self) -> bool {
        self.from.is_empty()
    }

    fn skip(&mut self, bytes: usize) {
        self.at += bytes;
        while let Some(first) = self.from.first()
            && self.at >= first.len()
        {
            self.at -= first.len();
            self.from = &self.from[1..];
        }
    }

    /// Takes the next bytes, at most `most`: whole records where they lie, or the bytes that fit one record, copied to `gathered`.
    fn next<'g>(&mut self, most: usize, gathered: &'g mut [u8; RECORD_BYTES]) -> &'g [u8]
    where
        'a: 'g,
    {
        let Some(first) = self.from.first() else { return &[] };
        let first: &'a [u8] = &first[self.at..];
        let whole = first.len().min(most) / RECORD_BYTES * RECORD_BYTES;
        if whole > 0 {
            self.skip(whole);
            return &first[..whole];
        }
        let mut filled = 0;
        while let Some(piece) = self.from.first()
            && filled < RECORD_BYTES.min(most)
        {
            let piece = &piece[self.at..];
            let count = piece.len().min(RECORD_BYTES.min(most) - filled);
            gathered[filled..filled + count].copy_from_slice(&piece[..count]);
            filled += count;
            self.skip(count);
        }
        &gathered[..filled]
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// The error of a connection, with what to do.
fn explained(error: &Error) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        match error {
            Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
                "TLS: no authority that is trusted here has signed its certificate; name one with ca=FILE".to_owned()
            }
            Error::InvalidCertificate(reason) => format!("TLS: its certificate is refused: {reason}"),
            Error::AlertReceived(AlertDescription::CertificateRequired) => {
                "TLS: the server demands a certificate of its clients; name a PEM file with one and its key with \
                 certificate=FILE"
                    .to_owned()
            }
            Error::AlertReceived(
                reason @ (AlertDescription::UnknownCA
                | AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::DecryptError
                | AlertDescription::AccessDenied),
            ) => format!(
                "TLS: the server refuses this certificate ({reason:?}); name one that it accepts with certificate=FILE"
            ),
            _ => format!("TLS: {error}"),
        },
    )
}
