"""The follower's half: what it asks, what it appends, where it cuts, what it does not believe."""

import errno
from uuid import UUID

import pytest
from tests.unit.replication.replica_kit import (
    LOCAL,
    NOW,
    OTHER,
    TOPIC_ID,
    TP,
    ToyLeader,
    batch,
    catch_up,
    contents,
    exchange,
    fetch_of,
    follow,
    follower_of,
    new_disk,
    new_fetcher,
    open_log,
    pair,
    write,
)

from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import LeaderEpoch
from tidelog.replication.partition import Partition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchResponse
from tidelog.wire.records.batch import stamp

# --- what it asks ---


def test_a_fetch_tells_the_log_end_and_both_epochs_and_who_asks() -> None:
    _, partition = pair(epoch=4)
    write(partition.log, [(1, 2), (3, 1)])
    partition.log.update_high_watermark(1)
    fetcher = new_fetcher(max_wait_ms=500, min_bytes=1, partition_max_bytes=1000, response_max_bytes=9000)
    fetcher.assign(partition, LeaderEpoch(4), NOW)
    request = fetch_of(fetcher.build_request(0.0))
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (LOCAL, 11)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 9000)
    [asked] = request.topics[0].partitions
    assert request.topics[0].topic_id == TOPIC_ID
    assert (asked.fetch_offset, asked.current_leader_epoch, asked.last_fetched_epoch) == (3, 4, 3)
    assert (asked.log_start_offset, asked.partition_max_bytes) == (0, 1000)


def test_one_request_at_a_time_and_none_without_partitions() -> None:
    _, partition = pair()
    fetcher = new_fetcher()
    assert fetcher.build_request(0.0) is None
    assert fetcher.next_due_s(0.0) is None
    fetcher.assign(partition, LeaderEpoch(0), NOW)
    assert fetcher.build_request(0.0) is not None
    with pytest.raises(AssertionError):
        fetcher.build_request(0.0)


# --- appending ---


def test_the_leaders_bytes_are_appended_unchanged_with_its_epochs() -> None:
    theirs, partition = pair(epoch=5)
    write(theirs, [(0, 2), (3, 1), (5, 2)])
    leader, fetcher = ToyLeader({TP: theirs}, 5), new_fetcher()
    fetcher.assign(partition, LeaderEpoch(5), NOW)
    outcome = exchange(fetcher, leader)
    assert contents(partition.log) == contents(theirs)
    assert partition.log.epochs.entries == theirs.epochs.entries
    assert outcome.bytes_appended == theirs.size_bytes
    assert not outcome.problems


def test_a_batch_that_the_answer_cut_off_is_left_out() -> None:
    theirs, partition = pair()
    write(theirs, [(0, 3)])
    leader, fetcher = ToyLeader({TP: theirs}, 0), new_fetcher()
    fetcher.assign(partition, LeaderEpoch(0), NOW)
    request = fetch_of(fetcher.build_request(0.0))
    response = leader.fetch(request)
    data = response.responses[0].partitions[0]
    assert data.records is not None
    data.records = data.records[:-10]
    fetcher.on_response(request, response, 0.0, NOW)
    assert partition.log.log_end_offset == 2
    catch_up(fetcher, leader, partition)


@pytest.mark.parametrize("damage", ["crc", "offset", "old epoch", "epoch of the future", "half a batch", "noise"])
def test_what_does_not_continue_the_log_is_refused_and_asked_for_again(damage: str) -> None:
    theirs, partition = pair(epoch=3)
    write(theirs, [(2, 2)])
    leader, fetcher = ToyLeader({TP: theirs}, 3), new_fetcher()
    fetcher.assign(partition, LeaderEpoch(3), NOW)
    exchange(fetcher, leader)
    write(theirs, [(2, 2)])
    theirs.update_high_watermark(4)
    request = fetch_of(fetcher.build_request(0.0))
    response = leader.fetch(request)
    data = response.responses[0].partitions[0]
    assert data.records is not None
    records = bytearray(data.records)
    match damage:
        case "crc":
            records[-1] ^= 1
        case "offset":
            stamp(records, 1, 2)
        case "old epoch":
            stamp(records, 2, 1)
        case "epoch of the future":
            stamp(records, 2, 4)
        case "half a batch":
            records = records[:65]
        case _:
            records = bytearray(b"\x00" * 300)
    data.records = records
    outcome = fetcher.on_response(request, response, 0.0, NOW)
    assert partition.log.log_end_offset == 2
    assert partition.log.high_watermark == 0
    assert len(outcome.problems) == 1
    # Not at once; then the whole is told again, in a session without it in between.
    assert fetcher.build_request(0.0) is None
    due_s = fetcher.next_due_s(0.0)
    assert due_s is not None
    assert 0.0 < due_s <= 1.0
    exchange(fetcher, leader, due_s)
    assert contents(partition.log) == contents(theirs)


def test_a_hole_that_compaction_left_is_copied() -> None:
    theirs, partition = pair()
    theirs.append_as_follower(_stamped(0), NOW)
    theirs.append_as_follower(_stamped(9), NOW)
    leader, fetcher = ToyLeader({TP: theirs}, 0), new_fetcher()
    fetcher.assign(partition, LeaderEpoch(0), NOW)
    catch_up(fetcher, leader, partition)
    assert partition.log.log_end_offset == 10


def _stamped(offset: int, epoch: int = 0, count: int = 1) -> memoryview:
    made = batch(count)
    stamp(made, offset, epoch)
    return made


# --- answers that are not for this log any more ---


def _stale(change: str, partition: Partition) -> None:
    fetched = partition.log
    match change:
        case "leader epoch":
            follow(partition, 1)
        case "offset forward":
            fetched.append_as_follower(_stamped(0), NOW)
        case "offset back":
            fetched.truncate_to(0, NOW)
        case "offline":
            partition.go_offline("gone")
        case "deleted":
            fetched.abandon()


@pytest.mark.parametrize("change", ["leader epoch", "offset forward", "offset back", "offline", "deleted"])
def test_an_answer_is_ignored_when_the_replica_has_changed(change: str) -> None:
    theirs, partition = pair()
    write(theirs, [(0, 3)])
    theirs.update_high_watermark(3)
    fetcher = new_fetcher()
    if change == "offset back":
        partition.log.append_as_follower(_stamped(0), NOW)
    fetcher.assign(partition, LeaderEpoch(0), NOW)
    request = fetch_of(fetcher.build_request(0.0))
    response = ToyLeader({TP: theirs}, 0).fetch(request)
    _stale(change, partition)
    before = partition.log.log_end_offset
    fetcher.on_response(request, response, 0.0, NOW)
    assert (partition.log.log_end_offset, partition.log.high_watermark) == (before, 0)


def test_an_answer_is_ignored_after_a_new_assignment_and_another_session_begins() -> None:
    theirs, partition = pair()
    write(theirs, [(0, 3)])
    fetcher = new_fetcher()
    fetcher.assign(partition, LeaderEpoch(0), NOW)
    request = fetch_of(fetcher.build_request(0.0))
    response = ToyLeader({TP: theirs}, 0).fetch(request)
    follow(partition, 1)
    fetcher.assign(partition, LeaderEpoch(1), NOW)
    fetcher.on_response(request, response, 0.0, NOW)
    assert partition.log.log_end_offset == 0
    again = fetch_of(fetcher.build_request(0.0))
    assert again.session_epoch == 0
    assert again.topics[0].partitions[0].current_leader_epoch == 1


def test_an_answer_for_a_topic_made_again_under_the_name_is_ignored() -> None:
    theirs, partition = pair()
    write(theirs, [(0, 3)])
    fetcher = new_fetcher()
    fetcher.assign(partition, LeaderEpoch(0), NOW)
    request = fetch_of(fetcher.build_request(0.0))
    response = ToyLeader({TP: theirs}, 0).fetch(request)
    anew = UUID(int=8888)
    recreated = follower_of(open_log(new_disk(), topic_id=anew), 0, topic_id=anew)
    fetcher.assign(recreated, LeaderEpoch(0), NOW)
    fetcher.on_response(request, response, 0.0, NOW)
    assert recreated.log.log_end_offset == partition.log.log_end_offset == 0


def test_an_answer_to_a_request_that_was_given_up_is_ignored() -> None:
    theirs, partition = pair()
    write(theirs, [(0, 1)])
    leader, fetcher = ToyLeader({TP: theirs}, 0), new_fetcher()
    fetcher.assign(partition, LeaderEpoch(0), NOW)
    first = fetch_of(fetcher.build_request(0.0))
    fetcher.abandon(first)
    second = fetch_of(fetcher.build_request(0.0))
    fetcher.on_response(first, leader.fetch(first), 0.0, NOW)
    assert partition.log.log_end_offset == 0
    fetcher.on_response(second, leader.fetch(second), 0.0, NOW)
    assert partition.log.log_end_offset == 1


# --- the leader's offsets ---


@pytest.mark.rule("W3")
def test_the_high_watermark_is_the_leaders_clamped_to_the_log_and_may_go_back() -> None:
    theirs, partition = pair()
    write(theirs, [(0, 4)])
    theirs.update_high_watermark(4)
    one = theirs.size_bytes // 4
    leader, fetcher = ToyLeader({TP: theirs}, 0), new_fetcher(partition_max_bytes=2 * one)
    fetcher.assign(partition, LeaderEpoch(0), NOW)
    outcome = exchange(fetcher, leader)
    assert (partition.log.log_end_offset, partition.log.high_watermark) == (2, 2)
    assert outcome.high_watermark_moved == [partition]
    assert fetcher.max_lag() == 2
    exchange(fetcher, leader)
    assert (partition.log.log_end_offset, partition.log.high_watermark) == (4, 4)
    # A new leader knows less of what is committed for a while.
    theirs.update_high_watermark(1)
    exchange(fetcher, leader)
    assert partition.log.high_watermark == 1
    assert partition.log.log_end_offset == 4


def test_the_log_start_of_the_leader_raises_ours_but_not_beyond_the_high_watermark() -> None:
    theirs, partition = pair()
    write(theirs, [(0, 4)])
    leader, fetcher = ToyLeader({TP: theirs}, 0), new_fetcher()
    fetcher.assign(partition, LeaderEpoch(0), NOW)
    exchange(fetcher, leader)
    theirs.update_high_watermark(3)
    theirs.increment_log_start_offset(3)
    exchange(fetcher, leader)
    assert partition.log.log_start_offset == 3
    assert partition.log.high_watermark == 3
    assert partition.log.log_end_offset == 4


# --- errors ---


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        32000,
    ],
)
def test_an_error_backs_off_alone_longer_each_time_and_a_new_epoch_asks_at_once(code: int) -> None:
    logs = {tp: open_log(new_disk(), tp) for tp in (TP, OTHER)}
    followers = {tp: follower_of(open_log(new_disk(), tp), 0) for tp in logs}
    leader, fetcher = ToyLeader(logs, 0), new_fetcher(backoff_ms=100)
    for partition in followers.values():
        fetcher.assign(partition, LeaderEpoch(0), NOW)
    now_s, waits = 0.0, []
    for _ in range(5):
        request = fetch_of(fetcher.build_request(now_s))
        response = leader.fetch(request)
        for data in response.responses[0].partitions:
            if data.partition_index == 0:
                data.error_code = code
        assert len(fetcher.on_response(request, response, now_s, NOW).problems) == 1
        # The other one goes on, in the same session.
        request = fetch_of(fetcher.build_request(now_s))
        assert [topic.partitions for topic in request.forgotten_topics_data] == [[0]]
        fetcher.on_response(request, leader.fetch(request), now_s, NOW)
        fetcher.remove(OTHER)
        due_s = fetcher.next_due_s(now_s)
        assert due_s is not None
        waits.append(round(due_s - now_s, 6))
        fetcher.assign(followers[OTHER], LeaderEpoch(0), NOW)
        now_s = due_s
    assert waits == [0.02, 0.04, 0.08, 0.1, 0.1]
    follow(followers[TP], 1)
    fetcher.assign(followers[TP], LeaderEpoch(1), NOW)
    request = fetch_of(fetcher.build_request(now_s - 0.05))
    assert {asked.partition for asked in request.topics[0].partitions} == {0, 1} or request.session_epoch > 0


def test_after_a_broken_connection_everything_waits_and_a_full_session_begins() -> None:
    theirs, partition = pair()
    leader, fetcher = ToyLeader({TP: theirs}, 0), new_fetcher(backoff_ms=1000)
    fetcher.assign(partition, LeaderEpoch(0), NOW)
    exchange(fetcher, leader)
    request = fetch_of(fetcher.build_request(1.0))
    assert request.session_epoch == 1
    fetcher.on_failure(request, 1.0)
    assert fetcher.build_request(1.0) is None
    assert fetcher.next_due_s(1.0) == pytest.approx(1.02)
    request = fetch_of(fetcher.build_request(1.02))
    assert (request.session_epoch, len(request.topics)) == (0, 1)


@pytest.mark.rule("C10")
def test_our_own_failing_disk_takes_its_directory_offline_and_the_others_go_on() -> None:
    logs = {tp: open_log(new_disk(), tp) for tp in (TP, OTHER)}
    for log in logs.values():
        write(log, [(0, 2)])
    broken = new_disk()
    followers = {TP: follower_of(open_log(broken, TP), 0), OTHER: follower_of(open_log(new_disk(), OTHER), 0)}
    leader, fetcher = ToyLeader(logs, 0), new_fetcher()
    for partition in followers.values():
        fetcher.assign(partition, LeaderEpoch(0), NOW)
    broken.fault = lambda operation, path: errno.EIO if operation == "append" else None
    outcome = exchange(fetcher, leader)
    assert len(outcome.problems) == 1
    assert not followers[TP].log.directory.online
    assert followers[OTHER].log.log_end_offset == 2
    request = fetch_of(fetcher.build_request(5.0))
    assert [topic.partitions for topic in request.forgotten_topics_data] == [[0]]
    assert TP not in fetcher


def test_who_got_bytes_goes_to_the_end_of_the_next_full_request() -> None:
    logs = {tp: open_log(new_disk(), tp) for tp in (TP, OTHER)}
    write(logs[TP], [(0, 1)])
    leader, fetcher = ToyLeader(logs, 0), new_fetcher()
    for tp in logs:
        fetcher.assign(follower_of(open_log(new_disk(), tp), 0), LeaderEpoch(0), NOW)
    request = fetch_of(fetcher.build_request(0.0))
    response = leader.fetch(request)
    response.session_id = 0
    fetcher.on_response(request, response, 0.0, NOW)
    request = fetch_of(fetcher.build_request(0.0))
    assert [asked.partition for asked in request.topics[0].partitions] == [1, 0]


@pytest.mark.parametrize("code", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH])
def test_a_lost_session_is_begun_anew_at_once(code: ErrorCode) -> None:
    theirs, partition = pair()
    leader, fetcher = ToyLeader({TP: theirs}, 0), new_fetcher()
    fetcher.assign(partition, LeaderEpoch(0), NOW)
    exchange(fetcher, leader)
    request = fetch_of(fetcher.build_request(0.0))
    fetcher.on_response(request, FetchResponse(error_code=code), 0.0, NOW)
    request = fetch_of(fetcher.build_request(0.0))
    assert request.session_epoch == 0
    assert request.session_id == (0 if code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND else 77)
    write(theirs, [(0, 1)])
    fetcher.on_response(request, leader.fetch(request), 0.0, NOW)
    assert partition.log.log_end_offset == 1


# --- the throttle (C8) ---


def test_a_throttled_partition_is_left_out_while_over_the_rate_and_not_once_in_sync() -> None:
    config = TopicConfig(follower_replication_throttled_replicas=(f"0:{LOCAL}",))
    theirs = open_log(new_disk())
    write(theirs, [(0, 40)])
    theirs.update_high_watermark(40)
    partition = follower_of(open_log(new_disk(), config=config), 0)
    one = theirs.size_bytes // 40
    leader, fetcher = ToyLeader({TP: theirs}, 0), new_fetcher(rate=10 * one, partition_max_bytes=4 * one)
    fetcher.assign(partition, LeaderEpoch(0), NOW)
    now_s = 0.0
    while partition.log.log_end_offset < 40:
        request = fetcher.build_request(now_s)
        if request is None:
            due_s = fetcher.next_due_s(now_s)
            assert due_s is not None
            assert due_s > now_s
            now_s = due_s
            continue
        fetcher.on_response(request, leader.answer(request), now_s, NOW)
    # 40 batches at 10 a second, less the burst of half a second and the last answer.
    assert 3.0 <= now_s <= 4.1
    assert fetcher.build_request(now_s) is not None
