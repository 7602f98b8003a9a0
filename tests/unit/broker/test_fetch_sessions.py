"""Incremental fetch sessions (KIP-227)."""

import random
from uuid import UUID

import pytest

from tidelog.broker.fetch_sessions import EVICT_AFTER_S, FetchSession, FetchSessions, SessionFetch
from tidelog.core.ids import TopicIdPartition
from tidelog.replication.fetch_session import SHORTEST_WALK_S
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from tidelog.wire.schema import changed

pytestmark = pytest.mark.rule("F7")
ORDERS, PAYMENTS = UUID(int=1000), UUID(int=1001)
NAMES = {ORDERS: "orders", PAYMENTS: "payments"}


def name_of(topic_id: UUID) -> str:
    return NAMES.get(topic_id, "")


def request(session_id: int, epoch: int, *topics: tuple[UUID, int, int], forget: UUID | None = None) -> FetchRequest:
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=partition, fetch_offset=offset)])
            for topic_id, partition, offset in topics
        ],
        forgotten_topics_data=[ForgottenTopic(topic_id=forget, partitions=[0])] if forget else [],
    )


def opened(sessions: FetchSessions, now: float = 0.0) -> FetchSession:
    session, _ = sessions.begin(request(0, 0, (ORDERS, 0, 5), (PAYMENTS, 0, 9)), name_of, True, now)
    assert session is not None
    return session


@pytest.fixture
def sessions() -> FetchSessions:
    return FetchSessions(2, random.Random(1))


def test_a_session_remembers_what_was_asked(sessions: FetchSessions) -> None:
    session = opened(sessions)
    again, wanted = sessions.begin(request(session.session_id, 1, (ORDERS, 0, 7)), name_of, True, 1.0)
    assert again is session
    assert [(item.topic, item.ask.fetch_offset) for item in wanted] == [("orders", 7), ("payments", 9)]
    _, wanted = sessions.begin(request(session.session_id, 2, forget=ORDERS), name_of, True, 2.0)
    assert [item.topic for item in wanted] == ["payments"]


def test_an_unknown_session_and_a_wrong_epoch_are_refused(sessions: FetchSessions) -> None:
    session = opened(sessions)
    with pytest.raises(ApiError) as error:
        sessions.begin(request(session.session_id + 1, 1), name_of, True, 0.0)
    assert error.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    for epoch in (2, 7):
        with pytest.raises(ApiError) as error:
            sessions.begin(request(session.session_id, epoch), name_of, True, 0.0)
        assert error.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    with pytest.raises(ApiError) as error:
        sessions.begin(request(session.session_id, 1), name_of, False, 0.0)
    assert error.value.code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_the_final_epoch_closes_and_the_initial_one_begins_anew(sessions: FetchSessions) -> None:
    session = opened(sessions)
    closed, wanted = sessions.begin(request(session.session_id, -1, (ORDERS, 0, 1)), name_of, True, 0.0)
    assert closed is None
    assert len(wanted) == 1
    assert len(sessions) == 0
    first = opened(sessions)
    second, _ = sessions.begin(request(first.session_id, 0, (ORDERS, 0, 1)), name_of, True, 0.0)
    assert second is not None
    assert second.session_id != first.session_id
    assert len(sessions) == 1


def test_a_full_table_serves_newcomers_without_a_session(sessions: FetchSessions) -> None:
    first, second = opened(sessions), opened(sessions)
    refused, wanted = sessions.begin(request(0, 0, (ORDERS, 0, 1)), name_of, True, 1.0)
    assert refused is None
    assert len(wanted) == 1
    sessions.begin(request(first.session_id, 1), name_of, True, EVICT_AFTER_S + 1)
    taken, _ = sessions.begin(request(0, 0, (ORDERS, 0, 1)), name_of, True, EVICT_AFTER_S + 2)
    assert taken is not None
    with pytest.raises(ApiError):
        sessions.begin(request(second.session_id, 1), name_of, True, EVICT_AFTER_S + 2)
    assert len(sessions) == 2


def test_an_incremental_answer_carries_news_only(sessions: FetchSessions) -> None:
    item = next(iter(opened(sessions).wanted.values()))
    quiet = PartitionData(high_watermark=5, last_stable_offset=5, log_start_offset=0, records=b"")
    assert item.news(quiet)
    assert not item.news(quiet)
    assert item.news(PartitionData(high_watermark=6, last_stable_offset=5, log_start_offset=0, records=b""))
    assert item.news(PartitionData(high_watermark=6, last_stable_offset=5, log_start_offset=0, records=b"data"))
    failed = PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, high_watermark=-1, records=b"")
    assert item.news(failed)
    assert item.news(PartitionData(high_watermark=6, last_stable_offset=5, log_start_offset=0, records=b""))


def test_offsets_that_came_with_a_divergence_are_told_again(sessions: FetchSessions) -> None:
    """A follower that is told to cut uses nothing else of the answer, and then there may be nothing to fetch."""
    item = next(iter(opened(sessions).wanted.values()))
    told = PartitionData(high_watermark=10, last_stable_offset=10, log_start_offset=0, records=b"")
    assert item.news(changed(told, diverging_epoch=EpochEndOffset(epoch=0, end_offset=10)))
    assert item.news(told)
    assert not item.news(told)


def test_a_topic_that_is_made_while_the_session_runs_is_forgotten_by_its_id(sessions: FetchSessions) -> None:
    late = UUID(int=2000)
    session, wanted = sessions.begin(request(0, 0, (late, 0, 0)), name_of, True, 0.0)
    assert session is not None
    assert wanted[0].topic == ""
    NAMES[late] = "late"
    try:
        _, wanted = sessions.begin(request(session.session_id, 1, (late, 0, 3)), name_of, True, 0.0)
        assert [(item.topic, item.ask.fetch_offset) for item in wanted] == [("late", 3)]
        _, wanted = sessions.begin(request(session.session_id, 2, forget=late), name_of, True, 0.0)
        assert wanted == []
    finally:
        del NAMES[late]


def test_a_follower_takes_the_place_of_a_consumer_and_of_no_follower(sessions: FetchSessions) -> None:
    first, second = opened(sessions, 0.0), opened(sessions, 1.0)
    ask = request(0, 0, (ORDERS, 0, 5))
    ask.replica_state = ReplicaState(replica_id=2, replica_epoch=1)
    followers = [sessions.begin(ask, name_of, True, 2.0)[0] for _ in range(2)]
    assert None not in followers
    for gone in (first, second):
        with pytest.raises(ApiError, match="no fetch session"):
            sessions.begin(request(gone.session_id, 1), name_of, True, 2.0)
    assert sessions.begin(ask, name_of, True, 2.0)[0] is None
    assert len(sessions) == 2
    assert sessions.begin(ask, name_of, True, 2.0 + EVICT_AFTER_S)[0] is not None


# --- what is settled


def settled(sessions: FetchSessions, *, replica_id: int = 2) -> FetchSession:
    """Of a follower, by default, with nothing to tell of both partitions."""
    first = request(0, 0, (ORDERS, 0, 5), (PAYMENTS, 0, 9))
    first.replica_state = ReplicaState(replica_id=replica_id, replica_epoch=1)
    session, wanted = sessions.begin(first, name_of, True, 0.0)
    assert session is not None
    for item in wanted:
        session.settle(item, settled=True)
    return session


def looked_at(sessions: FetchSessions, session: FetchSession, *asks: tuple[UUID, int, int], now: float) -> list[str]:
    _, wanted = sessions.begin(request(session.session_id, session.epoch, *asks), name_of, True, now)
    return [item.topic for item in wanted]


def test_a_followers_settled_partition_is_looked_at_when_stirred_when_asked_and_from_time_to_time(
    sessions: FetchSessions,
) -> None:
    session = settled(sessions)
    assert looked_at(sessions, session, now=0.1) == []
    assert sessions.stir([TopicIdPartition(PAYMENTS, 0)]) == [SessionFetch(session.session_id)]
    assert looked_at(sessions, session, now=0.1) == ["payments"]
    # As long as there is something to tell.
    assert looked_at(sessions, session, now=0.2) == ["payments"]
    assert looked_at(sessions, session, (ORDERS, 0, 6), now=0.2) == ["payments", "orders"]
    for item in list(session.unsettled.values()):
        session.settle(item, settled=True)
    assert looked_at(sessions, session, now=SHORTEST_WALK_S) == ["orders", "payments"]
    assert looked_at(sessions, session, now=SHORTEST_WALK_S) == []


def test_nothing_is_stirred_that_nobody_follows(sessions: FetchSessions) -> None:
    session = settled(sessions)
    assert sessions.stir([TopicIdPartition(PAYMENTS, 1), TopicIdPartition(UUID(int=5), 0)]) == []
    assert looked_at(sessions, session, (ORDERS, 0, 7), now=0.1) == ["orders"]
    _, wanted = sessions.begin(request(session.session_id, session.epoch, forget=ORDERS), name_of, True, 0.1)
    assert wanted == []
    assert sessions.stir([TopicIdPartition(ORDERS, 0)]) == []
    sessions.close(session.session_id)
    assert sessions.stir([TopicIdPartition(PAYMENTS, 0)]) == []


def test_a_consumer_looks_at_everything(sessions: FetchSessions) -> None:
    session = settled(sessions, replica_id=-1)
    assert looked_at(sessions, session, now=0.1) == ["orders", "payments"]
    assert sessions.stir([TopicIdPartition(PAYMENTS, 0)]) == []


def test_the_session_of_a_follower_that_is_gone_is_not_stirred_for_ever() -> None:
    """One that restarts knows nothing of its session: each life would leave one for every append to go through."""
    sessions = FetchSessions(100, random.Random(1))
    settled(sessions)
    assert len(sessions) == 1
    first = request(0, 0, (ORDERS, 0, 5))
    first.replica_state = ReplicaState(replica_id=2, replica_epoch=7)
    second, _ = sessions.begin(first, name_of, True, EVICT_AFTER_S - 1)
    assert len(sessions) == 2
    third, _ = sessions.begin(first, name_of, True, EVICT_AFTER_S)
    assert second is not None
    assert third is not None
    keys = [SessionFetch(each.session_id) for each in (second, third)]
    assert (len(sessions), sessions.stir([TopicIdPartition(ORDERS, 0)])) == (2, keys)


@pytest.mark.rule("I1")
def test_a_follower_is_looked_at_several_times_in_its_lag_time() -> None:
    """An idle partition tells by it that its follower was caught up; else the next record would find it late."""
    sessions = FetchSessions(2, random.Random(1))
    first = request(0, 0, *((ORDERS, number, 5) for number in range(4000)))
    first.replica_state = ReplicaState(replica_id=2, replica_epoch=1)
    session, wanted = sessions.begin(first, name_of, True, 0.0)
    assert session is not None
    for item in wanted:
        session.settle(item, settled=True)
    for now, lag_s, looked_at in ((2.0, 30.0, 0), (2.0, 10.0, 0), (2.6, 10.0, 4000), (3.0, 2.0, 0), (3.2, 2.0, 4000)):
        _, wanted = sessions.begin(request(session.session_id, session.epoch), name_of, True, now, lag_s)
        assert len(wanted) == looked_at, (now, lag_s)
