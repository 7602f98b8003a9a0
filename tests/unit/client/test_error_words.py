"""Errors that a command can end with are told in words, not in a code alone."""

import pytest

from tidelog.client.client import one_line
from tidelog.client.errors import RETRIABLE, api_error, raise_for
from tidelog.wire.errors import ApiError, ErrorCode

# Of APIs that no command calls, or that a client never gets to see.
SILENT = {
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
}
ADMIN = {
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ErrorCode.VOTER_NOT_FOUND,
    ErrorCode.DUPLICATE_VOTER,
}


@pytest.mark.parametrize("code", sorted((RETRIABLE | ADMIN) - SILENT), ids=lambda code: code.name)
def test_an_error_has_words(code: ErrorCode) -> None:
    error = api_error(code)
    assert error.message and error.message[0].islower() and not error.message.endswith(".")
    assert one_line(error) == f"{error.message} ({code.name})"


@pytest.mark.parametrize(
    ("what", "message", "words"),
    [
        ("orders-0", "orders-0 has 2 in-sync replicas, 3 are needed", "orders-0 has 2 in-sync replicas, 3 are needed"),
        ("topic 'orders'", "Topic 'orders' already exists.", "Topic 'orders' already exists"),
        ("topic 'orders'", "The topic is unknown.", "topic 'orders': The topic is unknown"),
        ("", "Written.", "Written"),
    ],
)
def test_an_error_names_its_subject_once(what: str, message: str, words: str) -> None:
    with pytest.raises(ApiError) as caught:
        raise_for(ErrorCode.NOT_ENOUGH_REPLICAS, message, what=what)
    assert caught.value.message == words


def test_a_brokers_own_words_come_first() -> None:
    assert api_error(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "broker 4 is fenced").message == "broker 4 is fenced"
