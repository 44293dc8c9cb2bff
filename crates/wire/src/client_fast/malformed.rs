//! Reasons why a reply is not one of the protocol, or not that of its call.

use thiserror::Error;

/// The reason why a reply is invalid: its message is a clause about "it", the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Malformed {
    #[error("it is not a reply message")]
    NotAReply,
    #[error("its reply_stat is neither accepted nor denied")]
    ReplyStat,
    #[error("its verifier is longer than 400 bytes")]
    LongVerifier,
    #[error("its reject_stat is unknown")]
    RejectStat,
    #[error("a record is longer than any reply")]
    LongRecord,
    #[error("the record is longer than its reply")]
    RecordGoesOn,
    #[error("the record ends inside its reply")]
    RecordEnds,
    #[error("a boolean in it is neither 0 nor 1")]
    Boolean,
    #[error("it answers no call that was made")]
    UnknownXid,
    #[error("it is too long for its call")]
    TooLong,
    #[error("its count is not the length of its payload")]
    Count,
    #[error("its payload does not fill the record")]
    Payload,
    #[error("it has more data than requested")]
    MoreThanRequested,
    #[error("it wrote more than requested")]
    WroteMore,
    #[error("a WRITE is less stable than requested, so its data may be lost")]
    LessStable,
    #[error("its tag is not that of the call")]
    Tag,
    #[error("its session, slot or sequence id is not that of the call")]
    Sequence,
    #[error("its status is not that of its last operation")]
    Status,
    #[error("it has the result of another operation")]
    AnotherOperation,
    #[error("it has not a result for each operation")]
    ResultMissing,
    #[error("it has results behind one that failed")]
    ResultBehindFailure,
    #[error("it has more results than the call has operations")]
    TooManyResults,
    #[error("it lacks results")]
    ResultsMissing,
    #[error("it lacks the result of its operation")]
    OperationMissing,
    #[error("it has not the results of its procedure")]
    NotOfProcedure,
    #[error("it has not the results of its operations")]
    NotOfOperations,
    #[error("it lacks the result of a READDIR")]
    ListMissing,
    #[error("it lacks type and size of a file")]
    TypeMissing,
    #[error("it lacks attributes of a file")]
    AttributesMissing,
    #[error("it has no handle of the object")]
    HandleMissing,
    #[error("it has no state of the open")]
    StateMissing,
    #[error("it has no client id")]
    ClientIdMissing,
    #[error("it has no session")]
    SessionMissing,
    #[error("it has the session of another call")]
    AnotherSession,
    #[error("it binds the connection to another session")]
    BoundElsewhere,
    #[error("its session has no slot, or takes too few operations in a call")]
    SessionTooSmall,
    #[error("a list of a directory has neither an entry nor an end")]
    ListWithoutEnd,
    #[error("a list of a directory comes back to where it was")]
    ListAgain,
}
