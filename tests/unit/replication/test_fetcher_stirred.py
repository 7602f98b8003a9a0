"""Thousands of partitions are followed of which few move: what a request is made from; nothing is forgotten."""

from tests.unit.replication.replica_kit import (
    NOW,
    TP,
    ToyLeader,
    exchange,
    follow,
    follower_of,
    new_disk,
    new_fetcher,
    open_log,
    write,
)

from tidelog.core.ids import LeaderEpoch, TopicPartition
from tidelog.replication.fetch_session import SHORTEST_WALK_S, walk_interval_s
from tidelog.replication.fetcher import Fetcher
from tidelog.replication.partition import Partition
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse

OTHERS = [TopicPartition("orders", number) for number in range(1, 4)]


class TerseLeader(ToyLeader):
    """Answers with what has records only, once the session has begun."""

    def fetch(self, request: FetchRequest) -> FetchResponse:
        response = super().fetch(request)
        if request.session_epoch > 0:
            for topic in response.responses:
                topic.partitions = [data for data in topic.partitions if data.records]
        return response


def followed() -> tuple[ToyLeader, Fetcher, dict[TopicPartition, Partition]]:
    """Four partitions, each with a record, caught up, and the session knows it."""
    logs = {tp: open_log(new_disk(), tp) for tp in (TP, *OTHERS)}
    followers = {tp: follower_of(open_log(new_disk(), tp), 0) for tp in logs}
    leader, fetcher = TerseLeader(logs, 0), new_fetcher()
    for tp, partition in followers.items():
        write(logs[tp], [(0, 1)])
        logs[tp].update_high_watermark(1)
        fetcher.assign(partition, LeaderEpoch(0), NOW)
    for _ in range(3):
        exchange(fetcher, leader)
    assert all(partition.log.log_end_offset == 1 for partition in followers.values())
    return leader, fetcher, followers


def named(fetcher: Fetcher, now_s: float = 0.0) -> tuple[list[int], list[int]]:
    """What the next request names and forgets; it is lost on the way, and the session with it goes on all the same."""
    request = fetcher.build_request(now_s)
    assert isinstance(request, FetchRequest)
    fetcher.in_flight = None
    asked = [ask.partition for topic in request.topics for ask in topic.partitions]
    return asked, [number for topic in request.forgotten_topics_data for number in topic.partitions]


def test_only_what_was_answered_is_looked_at_again() -> None:
    leader, fetcher, followers = followed()
    # Behind its back: nothing of the kind happens by an answer, so it is not seen before the walk.
    write(followers[OTHERS[0]].log, [(0, 1)])
    write(leader.logs[OTHERS[1]], [(0, 2)])
    exchange(fetcher, leader)
    assert followers[OTHERS[1]].log.log_end_offset == 3
    assert named(fetcher) == ([2], [])
    assert named(fetcher, SHORTEST_WALK_S) == ([1], [])


def test_a_new_epoch_is_named_at_once_and_what_is_not_followed_forgotten() -> None:
    _, fetcher, followers = followed()
    follow(followers[OTHERS[0]], 1)
    fetcher.assign(followers[OTHERS[0]], LeaderEpoch(1), NOW)
    fetcher.remove(OTHERS[1])
    assert named(fetcher) == ([1], [2])
    assert named(fetcher) == ([], [])
    # Followed again, and gone again before anybody asked: the leader knows nothing of it.
    fetcher.assign(followers[OTHERS[1]], LeaderEpoch(0), NOW)
    fetcher.remove(OTHERS[1])
    assert named(fetcher) == ([], [])


def test_a_role_that_changed_before_the_assignment_is_found_by_the_walk() -> None:
    _, fetcher, followers = followed()
    follow(followers[OTHERS[2]], 5)
    assert named(fetcher, SHORTEST_WALK_S) == ([], [3])
    assert OTHERS[2] not in fetcher


def test_after_a_lost_session_everything_is_named() -> None:
    _, fetcher, _ = followed()
    request = fetcher.build_request(0.0)
    assert request is not None
    fetcher.on_failure(request, 0.0)
    assert named(fetcher, 1.0) == ([0, 1, 2, 3], [])


def test_walks_take_a_bounded_part_of_the_time_and_come_before_anybody_is_late() -> None:
    assert [walk_interval_s(partitions) for partitions in (1, 400, 3000, 100_000)] == [0.4, 0.4, 3.0, 5.0]
