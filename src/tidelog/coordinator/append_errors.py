"""What a failed append to `__consumer_offsets` means to the client that waits for it."""

from typing import Final

from tidelog.wire.errors import ErrorCode

_TO_CLIENT: Final = {
    # The partition cannot take writes now: look the coordinator up again and retry.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    # Another broker leads it, or this one lost the disk below it.
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    # Retrying the same bytes would fail again.
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

# The log was not touched: what waits for the records is answered and nothing has to be undone. After any other error
# the records may be in the log and may yet be committed, so only the log can say what is true.
NOTHING_APPENDED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
    }
)


def error_for_client(append_error: ErrorCode) -> ErrorCode:
    return _TO_CLIENT.get(append_error, append_error)


def error_for_offset_fetch(append_error: ErrorCode) -> ErrorCode:
    """OffsetFetch answers NOT_COORDINATOR where others answer COORDINATOR_NOT_AVAILABLE: consumers before 3.9 know
    only that one, and it makes them look the coordinator up again."""
    error = error_for_client(append_error)
    return ErrorCode.NOT_COORDINATOR if error is ErrorCode.COORDINATOR_NOT_AVAILABLE else error
