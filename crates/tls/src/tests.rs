//! Two channels over a pair of sockets that do not wait.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use iocurve_wire::nfs3::NFS_PROGRAM;
use iocurve_wire::record::write_record;
use iocurve_wire::rpc::{CallHeader, RPC_VERSION, Rejected, ReplyBody, ReplyHeader, auth_stat, opaque_auth};
use iocurve_wire::xdr::{Decode, Encode, Reader};

use crate::{Channel, ClientKeys, ClientTls, ServerTls, Wait};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests").join(name)
}

fn server() -> Channel {
    server_for(None)
}

/// A server whose clients must have a certificate of these authorities.
fn server_for(clients: Option<&Path>) -> Channel {
    Channel::server(&ServerTls::new(&file("certificate.pem"), &file("key.pem"), clients).unwrap()).unwrap()
}

fn client(keys: &ClientKeys<'_>, host: &str) -> Channel {
    Channel::client(&ClientTls::new(keys, host).unwrap(), 4).unwrap()
}

fn trusting() -> Channel {
    client(&ClientKeys { ca: Some(&file("certificate.pem")), ..ClientKeys::default() }, "127.0.0.1")
}

fn pair() -> (UnixStream, UnixStream) {
    let (one, other) = UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    other.set_nonblocking(true).unwrap();
    (one, other)
}

/// Lets both shake hands until the client has, or fails.
fn shake(client: &mut Channel, one: &mut UnixStream, server: &mut Channel, other: &mut UnixStream) -> io::Result<()> {
    for _ in 0..20 {
        let done = client.establish(one)?.is_none();
        let served = server.establish(other)?.is_none();
        if done && served {
            return Ok(());
        }
    }
    panic!("the handshake has no end");
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| ((at * 31) >> 3) as u8).collect()
}

/// Sends everything from one end to the other, in the sizes that the socket takes.
fn carry(
    (from, one): (&mut Channel, &mut UnixStream),
    (to, other): (&mut Channel, &mut UnixStream),
    sent: &[u8],
    step: usize,
) {
    let (mut at, mut received) = (0, Vec::new());
    while received.len() < sent.len() {
        // Heads of a few bytes precede payloads.
        let (head, rest) = sent[at..].split_at((sent.len() - at).min(100));
        match from.send(one, &[IoSlice::new(head), IoSlice::new(&[]), IoSlice::new(rest)]) {
            Ok(count) => at += count,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        let (mut first, mut second) = (vec![0; step], vec![0; 3 * step]);
        match to.receive(other, &mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)]) {
            Ok(count) => {
                first.extend_from_slice(&second);
                received.extend_from_slice(&first[..count]);
            }
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
    assert!(received == sent && at == sent.len());
}

#[test]
fn bytes_come_through_whatever_their_sizes_and_the_sockets() {
    let ((mut one, mut other), mut client, mut server) = (pair(), trusting(), server());
    shake(&mut client, &mut one, &mut server, &mut other).unwrap();
    for (count, step) in [(1, 1), (100, 7), (20_000, 1000), (3 << 20, 300_000), (700_001, 5000)] {
        carry((&mut client, &mut one), (&mut server, &mut other), &bytes(count), step);
        carry((&mut server, &mut other), (&mut client, &mut one), &bytes(count), step);
    }
    assert!(!client.has_opened() && !server.has_opened());
}

/// A connection that takes all that is sent, and gives it back.
struct Endless(Vec<u8>);

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = into.len().min(self.0.len());
        into[..count].copy_from_slice(&self.0[..count]);
        self.0.drain(..count);
        if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }
}

impl Write for Endless {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_is_sealed_in_several_parts_is_sent_once() {
    let ((mut one, mut other), mut client, mut server) = (pair(), trusting(), server());
    shake(&mut client, &mut one, &mut server, &mut other).unwrap();
    let (mut line, sent) = (Endless(Vec::new()), bytes(1_000_000));
    let (head, payload) = sent.split_at(76);
    assert_eq!(client.send(&mut line, &[IoSlice::new(head), IoSlice::new(payload)]).unwrap(), sent.len());
    let mut received = vec![0; 2_000_000];
    assert_eq!(server.receive(&mut line, &mut [IoSliceMut::new(&mut received)]).unwrap(), sent.len());
    assert!(received[..sent.len()] == sent);
}

#[test]
fn nothing_readable_is_on_the_wire() {
    let ((mut one, mut other), mut client, mut server) = (pair(), trusting(), server());
    shake(&mut client, &mut one, &mut server, &mut other).unwrap();
    let text = b"a text that no other may read";
    assert_eq!(client.send(&mut one, &[IoSlice::new(text)]).unwrap(), text.len());
    let mut wire = vec![0; 1000];
    let count = other.read(&mut wire).unwrap();
    assert!(count > text.len() && !wire.windows(8).any(|seen| text.windows(8).any(|part| part == seen)));
}

#[test]
fn dropped_bytes_are_those_that_follow() {
    let ((mut one, mut other), mut client, mut server) = (pair(), trusting(), server());
    shake(&mut client, &mut one, &mut server, &mut other).unwrap();
    let sent = bytes(50_000);
    assert_eq!(server.send(&mut other, &[IoSlice::new(&sent)]).unwrap(), sent.len());
    assert_eq!(client.discard(&mut one, 40_000).unwrap(), 40_000);
    let mut rest = vec![0; 20_000];
    assert_eq!(client.receive(&mut one, &mut [IoSliceMut::new(&mut rest)]).unwrap(), 10_000);
    assert_eq!(rest[..10_000], sent[40_000..]);
}

#[test]
fn a_client_knows_its_server_or_says_what_to_do() {
    let refused = |mut client: Channel| {
        let ((mut one, mut other), mut server) = (pair(), server());
        shake(&mut client, &mut one, &mut server, &mut other).unwrap_err().to_string()
    };
    let trusted = file("certificate.pem");
    let keys = ClientKeys { ca: Some(&trusted), ..ClientKeys::default() };
    assert!(refused(client(&keys, "192.0.2.1")).contains("its certificate is refused"));
    let other = file("other.pem");
    let keys = ClientKeys { ca: Some(&other), ..ClientKeys::default() };
    assert!(refused(client(&keys, "127.0.0.1")).contains("ca=FILE"));
    let ((mut one, mut end), mut server) = (pair(), server());
    let mut any = client(&ClientKeys { insecure: true, ..ClientKeys::default() }, "192.0.2.1");
    shake(&mut any, &mut one, &mut server, &mut end).unwrap();
    let nowhere = file("nowhere.pem");
    let missing = ClientTls::new(&ClientKeys { ca: Some(&nowhere), ..ClientKeys::default() }, "localhost");
    assert!(missing.unwrap_err().to_string().contains("nowhere.pem: no certificate"));
}

#[test]
fn a_server_that_wants_certificates_takes_those_it_trusts_and_says_what_it_refuses() {
    let (trusted, other) = (file("certificate.pem"), file("other.pem"));
    let own = std::env::temp_dir().join(format!("iocurve-tls-{}.pem", std::process::id()));
    let parts = ["certificate.pem", "key.pem"].map(|name| std::fs::read_to_string(file(name)).unwrap());
    std::fs::write(&own, parts.concat()).unwrap();
    let shown = |certificate, clients| {
        let ((mut one, mut end), mut server) = (pair(), server_for(Some(clients)));
        let mut client = client(&ClientKeys { ca: Some(&trusted), certificate, insecure: false }, "127.0.0.1");
        let served = shake(&mut client, &mut one, &mut server, &mut end);
        // A client's handshake is over before the server has checked its certificate.
        let mut into = [0; 10];
        let told = client.receive(&mut one, &mut [IoSliceMut::new(&mut into)]).unwrap_err();
        (served.is_ok(), told.kind(), told.to_string())
    };
    let (accepted, kind, _) = shown(Some(&own), &trusted);
    assert_eq!((accepted, kind), (true, io::ErrorKind::WouldBlock));
    let (accepted, _, told) = shown(None, &trusted);
    assert!(!accepted && told.contains("demands a certificate of its clients"), "{told}");
    let (accepted, _, told) = shown(Some(&own), &other);
    assert!(!accepted && told.contains("refuses this certificate (UnknownCA)"), "{told}");
    std::fs::remove_file(&own).unwrap();
    let missing = ServerTls::new(&trusted, &file("key.pem"), Some(&file("nowhere.pem")));
    assert!(missing.unwrap_err().to_string().contains("nowhere.pem: no certificate"));
}

#[test]
fn a_server_without_tls_is_named() {
    let (mut one, mut other) = pair();
    let mut client = trusting();
    assert_eq!(client.establish(&mut one).unwrap(), Some(Wait::Read));
    let mut question = [0; 100];
    assert_eq!(other.read(&mut question).unwrap(), 44);
    assert_eq!(question[28..36], [0, 0, 0, 7, 0, 0, 0, 0]);
    let mut reply = Vec::new();
    write_record(&mut reply, |writer| ReplyHeader::success(0x1075).encode(writer));
    other.write_all(&reply).unwrap();
    assert!(client.establish(&mut one).unwrap_err().to_string().contains("does not offer TLS"));
}

#[test]
fn only_null_calls_are_answered_without_tls() {
    let ((mut one, mut other), mut server) = (pair(), server());
    let call = |proc| CallHeader {
        xid: 5,
        rpcvers: RPC_VERSION,
        prog: NFS_PROGRAM,
        vers: 3,
        proc,
        cred: opaque_auth::NONE,
        verf: opaque_auth::NONE,
    };
    let mut calls = Vec::new();
    for proc in [0, 1] {
        write_record(&mut calls, |writer| call(proc).encode(writer));
    }
    one.write_all(&calls).unwrap();
    assert_eq!(server.establish(&mut other).unwrap(), Some(Wait::Read));
    let mut replies = [0; 100];
    let count = one.read(&mut replies).unwrap();
    assert_eq!(ReplyHeader::decode(&mut Reader::new(&replies[4..28])).unwrap(), ReplyHeader::success(5));
    let denied = ReplyHeader::decode(&mut Reader::new(&replies[32..count])).unwrap();
    assert_eq!(denied.body, ReplyBody::MSG_DENIED(Rejected::AUTH_ERROR(auth_stat::AUTH_TOOWEAK)));
    one.write_all(&[0x80, 0, 8, 0]).unwrap();
    assert!(server.establish(&mut other).is_err());
}

#[test]
fn fragments_without_a_byte_do_not_wait_for_ever() {
    let ((mut one, mut other), mut server) = (pair(), server());
    let refused = (0..10).any(|_| {
        one.write_all(&[0; 4096]).unwrap();
        server.establish(&mut other).is_err()
    });
    assert!(refused && server.bytes() < 32 << 10);
}

#[test]
fn a_peer_that_ends_is_an_end_and_one_that_breaks_a_record_an_error() {
    let ((mut one, mut other), mut client, mut server) = (pair(), trusting(), server());
    shake(&mut client, &mut one, &mut server, &mut other).unwrap();
    let mut into = [0; 10];
    one.write_all(&[23, 3, 3, 0, 20]).unwrap();
    let waits = server.receive(&mut other, &mut [IoSliceMut::new(&mut into)]).unwrap_err();
    assert_eq!(waits.kind(), io::ErrorKind::WouldBlock);
    one.write_all(&[0; 20]).unwrap();
    assert!(server.receive(&mut other, &mut [IoSliceMut::new(&mut into)]).is_err());
    // The alert says so to the client.
    let told = client.receive(&mut one, &mut [IoSliceMut::new(&mut into)]).unwrap_err();
    assert!(told.to_string().starts_with("TLS: "), "{told}");
    let ((mut one, other), mut client) = (pair(), trusting());
    drop(other);
    assert!(client.establish(&mut one).is_err());
}
