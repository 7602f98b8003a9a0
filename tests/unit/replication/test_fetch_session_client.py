"""Incremental fetch sessions from the reader's side, against the broker's own table of sessions."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.core.ids import TopicIdPartition
from tidelog.replication.fetch_session import MAX_EPOCH, IncrementalFetches
from tidelog.wire.errors import ApiError
from tidelog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

KEYS = [TopicIdPartition(UUID(int=topic), number) for topic in (100, 200) for number in range(3)]


def asks(offsets: dict[TopicIdPartition, int]) -> dict[TopicIdPartition, FetchPartition]:
    return {key: FetchPartition(partition=key.partition, fetch_offset=offset) for key, offset in offsets.items()}


def answer(keys: list[TopicIdPartition], session_id: int, error: int = 0) -> FetchResponse:
    topics: dict[UUID, FetchableTopicResponse] = {}
    for key in keys:
        topics.setdefault(key.topic_id, FetchableTopicResponse(topic_id=key.topic_id)).partitions.append(
            PartitionData(partition_index=key.partition)
        )
    return FetchResponse(error_code=error, session_id=session_id, responses=list(topics.values()))


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(KEYS), st.integers(0, 3), min_size=1),
            st.sampled_from(["answered", "answered", "lost", "evicted", "gone before"]),
        ),
        max_size=12,
    ),
    st.randoms(use_true_random=False),
)
def test_the_leader_always_reads_what_the_follower_wants(
    rounds: list[tuple[dict[TopicIdPartition, int], str]], rng: object
) -> None:
    session, table = IncrementalFetches(), FetchSessions(10, rng)  # type: ignore[arg-type]
    before: dict[TopicIdPartition, int] = {}
    for offsets, fate in rounds:
        request = FetchRequest()
        if fate == "gone before":
            table.close(session._session_id)
        # Of an incremental one only what changed is looked at.
        changed = {key: offset for key, offset in offsets.items() if before.get(key) != offset}
        session.fill(request, asks(changed if session.is_incremental else offsets), before.keys() - offsets.keys())
        before = offsets
        try:
            held, wanted = table.begin(request, lambda topic_id: "t", True, 0.0)
        except ApiError as error:
            assert session.accept(FetchResponse(error_code=error.code)) is not None
            request = FetchRequest()
            session.fill(request, asks(offsets))
            held, wanted = table.begin(request, lambda topic_id: "t", True, 0.0)
        assert {
            TopicIdPartition(item.topic_id, item.ask.partition): item.ask.fetch_offset for item in wanted
        } == offsets
        if fate == "lost":
            session.restart()
            continue
        session_id = 0 if fate == "evicted" or held is None else held.session_id
        assert session.accept(answer(list(offsets), session_id)) is None


def test_an_incremental_request_names_what_changed_and_what_is_no_longer_wanted() -> None:
    session = IncrementalFetches()
    first = FetchRequest()
    session.fill(first, asks({KEYS[0]: 0, KEYS[1]: 0, KEYS[3]: 0}))
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert session.accept(answer([KEYS[0], KEYS[1], KEYS[3]], 5)) is None
    second = FetchRequest()
    # Also what the leader was never asked for may be called gone.
    session.fill(second, asks({KEYS[0]: 0, KEYS[1]: 7, KEYS[2]: 0}), [KEYS[3], KEYS[4]])
    assert (second.session_id, second.session_epoch) == (5, 1)
    assert [(topic.topic_id, [p.partition for p in topic.partitions]) for topic in second.topics] == [
        (UUID(int=100), [1, 2])
    ]
    assert [(t.topic_id, t.partitions) for t in second.forgotten_topics_data] == [(UUID(int=200), [0])]
    # An unchanged partition that has no news is not in the answer.
    assert session.accept(answer([KEYS[1]], 5)) is None


def test_answers_of_partitions_that_were_not_asked_for_are_not_used() -> None:
    session = IncrementalFetches()
    session.fill(FetchRequest(), asks({KEYS[0]: 0, KEYS[1]: 0}))
    assert session.accept(answer([KEYS[0]], 5)) is not None
    session.fill(FetchRequest(), asks({KEYS[0]: 0}))
    assert session.accept(answer([KEYS[0]], 5)) is None
    session.fill(FetchRequest(), asks({KEYS[0]: 0}))
    assert session.accept(answer([KEYS[4]], 5)) is not None
    again = FetchRequest()
    session.fill(again, asks({KEYS[0]: 0}))
    assert (again.session_id, again.session_epoch, len(again.topics)) == (5, 0, 1)


def test_epochs_wrap_to_one() -> None:
    session = IncrementalFetches()
    session.fill(FetchRequest(), asks({KEYS[0]: 0}))
    session.accept(answer([KEYS[0]], 5))
    session._epoch = MAX_EPOCH
    session.accept(answer([], 5))
    request = FetchRequest()
    session.fill(request, asks({KEYS[0]: 0}))
    assert request.session_epoch == 1
