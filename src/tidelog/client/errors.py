"""What can go wrong between us and a broker, and which of it is worth another try."""

import errno
import re
from typing import Final

from tidelog.wire.errors import ApiError, ErrorCode


class ClientError(Exception):
    """A failure on our side of the connection; the message is one clear line."""


class ConnectionFailed(ClientError):
    """No connection, or it broke while a request was under way: whether the broker acted on it is not known."""


class ConnectionRefused(ConnectionFailed):
    """Nobody listens there: the host answered, and no process has the port. No request has been sent."""


class RequestTimedOut(ConnectionFailed):
    """No answer in time; the connection is closed, since every later answer would wait behind the missing one."""


class AuthenticationFailed(ClientError):
    """The broker does not take us for whom we say we are, or we do not take it: another try would end the same way."""


class Unsupported(ClientError):
    """The broker does not speak this API in a version that we speak."""


# A name with several addresses fails with one text for all of them, as both asyncio and uvloop write it.
_SEVERAL_ERRORS: Final = "Multiple exceptions: "
_ERRNO: Final = re.compile(r"\[Errno (-?\d+)\]")


def is_refused(error: OSError) -> bool:
    """Whether connecting failed because nobody listens: at the one address, or at every address of the name."""
    if isinstance(error, ConnectionRefusedError):
        return True
    text = str(error)
    numbers = _ERRNO.findall(text) if text.startswith(_SEVERAL_ERRORS) else []
    return bool(numbers) and all(int(number) == errno.ECONNREFUSED for number in numbers)


# Kafka's own list of errors that pass: leadership moves, coordinators load, replicas catch up.
RETRIABLE: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.CORRUPT_MESSAGE,
    }
)

# For who knows that a topic is there: a broker that says otherwise has not heard of it yet.
RETRIABLE_OF_KNOWN_TOPIC: Final = RETRIABLE | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

# The broker we asked is not the one to ask (any more): look again before the next try.
STALE_METADATA: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)

_WORDS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the topic or partition does not exist",
    ErrorCode.TOPIC_ALREADY_EXISTS: "a topic with this name already exists",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the broker that received the request does not lead the partition",
    ErrorCode.NOT_ENOUGH_REPLICAS: "too few replicas are in sync for acks=all",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the log does not contain the offset",
    ErrorCode.MESSAGE_TOO_LARGE: "the batch is larger than max.message.bytes of the topic",
    ErrorCode.REQUEST_TIMED_OUT: "the broker did not finish the request in time",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "the group has no coordinator",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the group's coordinator is still loading",
    ErrorCode.GROUP_ID_NOT_FOUND: "the group does not exist",
    ErrorCode.NON_EMPTY_GROUP: "the group still has members",
    ErrorCode.INVALID_REPLICATION_FACTOR: "the replication factor is larger than the number of brokers, or below 1",
    ErrorCode.INVALID_PARTITIONS: "the number of partitions is not allowed",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "the topic name is invalid",
    ErrorCode.INVALID_CONFIG: "a config value is not allowed",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "the assignment names a broker twice, an unknown one, or too few replicas",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "the preferred leader is not alive or not in sync",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "no replica that is eligible to lead is alive",
    ErrorCode.ELECTION_NOT_NEEDED: "the partition already has the requested leader",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "no reassignment of the partition is in progress",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "written, but too few replicas were in sync when it was replicated",
    ErrorCode.NOT_CONTROLLER: "no controller is active",
    ErrorCode.BROKER_NOT_AVAILABLE: "the broker is not available",
    ErrorCode.REPLICA_NOT_AVAILABLE: "the broker that received the request has no such replica",
    ErrorCode.KAFKA_STORAGE_ERROR: "the log directory of the replica has failed",
    ErrorCode.OFFSET_NOT_AVAILABLE: "the new leader has not yet committed a record in its epoch",
    ErrorCode.FENCED_LEADER_EPOCH: "the partition has a newer leader epoch than the request",
    ErrorCode.UNKNOWN_LEADER_EPOCH: "the broker that received the request does not know the newest leader epoch yet",
    ErrorCode.UNKNOWN_TOPIC_ID: "no topic has this id",
    ErrorCode.CORRUPT_MESSAGE: "the batch was damaged in transit or on disk",
    ErrorCode.NOT_COORDINATOR: "the broker that received the request does not coordinate the group",
    ErrorCode.UNKNOWN_MEMBER_ID: "the member is no longer in the group",
    ErrorCode.REBALANCE_IN_PROGRESS: "the group is being rebalanced",
    ErrorCode.ILLEGAL_GENERATION: "the group has been rebalanced since",
    ErrorCode.INVALID_GROUP_ID: "the group name is invalid",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "the group still reads the topic",
    ErrorCode.POLICY_VIOLATION: "the request is larger than the cluster allows",
    ErrorCode.UNSUPPORTED_VERSION: "the broker does not support that",
    ErrorCode.DUPLICATE_VOTER: "the node is already a voter",
    ErrorCode.VOTER_NOT_FOUND: "the node is not a voter",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "no such broker is registered",
}


def api_error(code: int, message: str | None = None) -> ApiError:
    """The error of an answer, in words: the broker's own if it sent any, else ours."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"error code {code}: {message or 'unknown to us'}")
    return ApiError(known, message or _WORDS.get(known, ""))


def raise_for(code: int, message: str | None = None, *, what: str = "") -> None:
    """Raises what an answer's error code says, naming once what it was about; 0 is success."""
    if code != ErrorCode.NONE:
        error = api_error(code, message)
        # Brokers send sentences; the code follows in parentheses.
        words = error.message.removesuffix(".")
        if what and what.lower() not in words.lower():
            words = f"{what}: {words}" if words else what
        raise ApiError(error.code, words)
