//! ONC RPC version 2 (RFC 5531): calls, replies, `AUTH_NONE` and `AUTH_SYS`.

use crate::xdr::{Decode, Encode, Reader, Writer, XdrError, xdr_enum, xdr_struct, xdr_union};

/// The only version of the protocol.
pub const RPC_VERSION: u32 = 2;

/// Longest body of a credential or verifier (RFC 5531 §8.2).
pub const AUTH_BODY_BYTES_MAX: usize = 400;

/// Most supplementary groups in `AUTH_SYS` (RFC 5531 App. A).
pub const AUTH_SYS_GIDS_MAX: usize = 16;

/// Flavors of credentials and verifiers (RFC 5531 §8.2); others are carried as numbers.
pub mod auth_flavor {
    /// No authentication.
    pub const AUTH_NONE: u32 = 0;
    /// A Unix user as the client states it.
    pub const AUTH_SYS: u32 = 1;
    /// The question whether a server offers TLS (RFC 9289 §4.1).
    pub const AUTH_TLS: u32 = 7;
}

/// A credential or verifier (RFC 5531 §8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(non_camel_case_types)] // the RFC's name
pub struct opaque_auth<'a> {
    /// Format of the body.
    pub flavor: u32,
    /// At most [`AUTH_BODY_BYTES_MAX`] bytes.
    pub body: &'a [u8],
}

impl opaque_auth<'_> {
    /// `AUTH_NONE`.
    pub const NONE: Self = Self { flavor: auth_flavor::AUTH_NONE, body: &[] };
}

impl Encode for opaque_auth<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.flavor);
        writer.opaque(self.body);
    }
}

impl<'a> Decode<'a> for opaque_auth<'a> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        Ok(Self { flavor: reader.u32()?, body: reader.opaque(AUTH_BODY_BYTES_MAX)? })
    }
}

xdr_struct! {
    /// Body of an `AUTH_SYS` credential (RFC 5531 App. A).
    #[allow(non_camel_case_types)] // the RFC's name
    authsys_parms<'a> {
        /// Arbitrary number of the client's choice.
        stamp: u32,
        /// Name of the client's machine.
        machinename: &'a [u8],
        /// Effective user.
        uid: u32,
        /// Effective group.
        gid: u32,
        /// Other groups, at most [`AUTH_SYS_GIDS_MAX`].
        gids: Vec<u32>,
    }
}

/// Matches a reply to its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Xid(pub u32);

/// A procedure of a version of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Procedure {
    /// Program number.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// Number of the procedure in that version.
    pub number: u32,
}

/// Opens a call; the procedure's arguments follow (RFC 5531 §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallHeader<'a> {
    /// Matches the reply to the call.
    pub xid: u32,
    /// Protocol version; only [`RPC_VERSION`] is answered with results.
    pub rpcvers: u32,
    /// Program number.
    pub prog: u32,
    /// Program version.
    pub vers: u32,
    /// Procedure number.
    pub proc: u32,
    /// Identity of the caller.
    pub cred: opaque_auth<'a>,
    /// Proof of the identity.
    pub verf: opaque_auth<'a>,
}

const CALL: u32 = 0;
const REPLY: u32 = 1;

impl Encode for CallHeader<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        for word in [self.xid, CALL, self.rpcvers, self.prog, self.vers, self.proc] {
            writer.u32(word);
        }
        self.cred.encode(writer);
        self.verf.encode(writer);
    }
}

impl<'a> Decode<'a> for CallHeader<'a> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        let [xid, value, rpcvers, prog, vers, proc] = reader.words()?;
        if value != CALL {
            return Err(XdrError::BadValue { what: "call", value });
        }
        let (cred, verf) = (opaque_auth::decode(reader)?, opaque_auth::decode(reader)?);
        Ok(Self { xid, rpcvers, prog, vers, proc, cred, verf })
    }
}

/// Opens a reply; if it is `Accepted` with [`Accepted::SUCCESS`], the procedure's results follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyHeader<'a> {
    /// Of the call that it answers.
    pub xid: u32,
    /// Outcome of the call.
    pub body: ReplyBody<'a>,
}

impl ReplyHeader<'_> {
    /// Results follow.
    pub const fn success(xid: u32) -> Self {
        Self::accepted(xid, Accepted::SUCCESS(()))
    }

    /// The call was understood, with this outcome.
    pub const fn accepted(xid: u32, stat: Accepted) -> Self {
        Self { xid, body: ReplyBody::MSG_ACCEPTED(AcceptedReply { verf: opaque_auth::NONE, stat }) }
    }

    /// The call was refused.
    pub const fn denied(xid: u32, reason: Rejected) -> Self {
        Self { xid, body: ReplyBody::MSG_DENIED(reason) }
    }
}

impl Encode for ReplyHeader<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.xid);
        writer.u32(REPLY);
        self.body.encode(writer);
    }
}

impl<'a> Decode<'a> for ReplyHeader<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        let xid = reader.u32()?;
        match reader.u32()? {
            REPLY => Ok(Self { xid, body: ReplyBody::decode(reader)? }),
            value => Err(XdrError::BadValue { what: "reply", value }),
        }
    }
}

xdr_union! {
    /// Outcome of a call (`reply_body`).
    #[allow(non_camel_case_types)] // the RFC's names
    ReplyBody<'a> {
        /// The call was understood.
        0 => MSG_ACCEPTED(AcceptedReply<'a>),
        /// The call was refused before that.
        1 => MSG_DENIED(Rejected),
    }

    /// Outcome of an accepted call (`accept_stat`).
    #[allow(non_camel_case_types)] // the RFC's names
    Accepted {
        /// Results follow.
        0 => SUCCESS(()),
        /// The program is not served here.
        1 => PROG_UNAVAIL(()),
        /// The program is served in other versions.
        2 => PROG_MISMATCH(mismatch_info),
        /// The program has no such procedure.
        3 => PROC_UNAVAIL(()),
        /// The arguments cannot be decoded.
        4 => GARBAGE_ARGS(()),
        /// The server failed.
        5 => SYSTEM_ERR(()),
    }

    /// Reason of a refusal (`rejected_reply`).
    #[allow(non_camel_case_types)] // the RFC's names
    Rejected {
        /// The RPC version is not [`RPC_VERSION`].
        0 => RPC_MISMATCH(mismatch_info),
        /// The credential or verifier was refused.
        1 => AUTH_ERROR(auth_stat),
    }
}

xdr_struct! {
    /// Answer to a call that was understood (`accepted_reply`).
    AcceptedReply<'a> {
        /// Proof of who answers.
        verf: opaque_auth<'a>,
        /// Outcome.
        stat: Accepted,
    }

    /// Versions that are served.
    #[allow(non_camel_case_types)] // the RFC's name
    mismatch_info {
        /// Lowest.
        low: u32,
        /// Highest.
        high: u32,
    }
}

xdr_enum! {
    /// Reasons to refuse a credential or verifier (RFC 5531 §9).
    #[allow(non_camel_case_types)] // the RFC's names
    auth_stat {
        /// No failure.
        AUTH_OK = 0,
        /// Bad credential.
        AUTH_BADCRED = 1,
        /// The client must begin a new session.
        AUTH_REJECTEDCRED = 2,
        /// Bad verifier.
        AUTH_BADVERF = 3,
        /// Verifier expired or replayed.
        AUTH_REJECTEDVERF = 4,
        /// Rejected for security reasons.
        AUTH_TOOWEAK = 5,
        /// Bogus response verifier.
        AUTH_INVALIDRESP = 6,
        /// Reason unknown.
        AUTH_FAILED = 7,
    }
}

#[cfg(test)]
impl<'a> crate::sample::Sample<'a> for opaque_auth<'a> {
    fn sample(entropy: &mut crate::sample::Entropy<'a>) -> Self {
        Self { flavor: u32::sample(entropy), body: <&[u8]>::sample(entropy) }
    }
}
