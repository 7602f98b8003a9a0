"""Where a follower cuts its log, and when it begins anew: diverging epochs, offsets out of range, damage."""

import pytest
from tests.unit.replication.replica_kit import (
    NOW,
    OTHER,
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

from tidelog.core.events import CommittedRecordsLost, LogTruncated
from tidelog.core.ids import LeaderEpoch, TopicPartition
from tidelog.replication.roles import Offline
from tidelog.storage.log import Log
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.list_offsets import ListOffsetsRequest

# --- truncation (E3) ---


@pytest.mark.rule("E3")
def test_kip_101_a_restarted_follower_keeps_what_lies_above_its_own_high_watermark() -> None:
    """It has the committed record 1, but its checkpointed HW is 0: cutting there would lose it if it were elected."""
    theirs, partition = pair()
    write(theirs, [(0, 2)])
    leader, fetcher = ToyLeader({TP: theirs}, 0), new_fetcher()
    fetcher.assign(partition, LeaderEpoch(0), NOW)
    catch_up(fetcher, leader, partition)
    assert partition.log.high_watermark == 0
    again = new_fetcher()
    follow(partition, 1)
    theirs.assign_epoch_start(1, 2)
    again.assign(partition, LeaderEpoch(1), NOW)
    exchange(again, ToyLeader({TP: theirs}, 1))
    assert partition.log.log_end_offset == 2


@pytest.mark.rule("E3")
def test_kip_101_a_deposed_leader_cuts_what_was_never_committed() -> None:
    theirs, partition = pair(epoch=1)
    write(theirs, [(0, 3), (1, 2)])
    write(partition.log, [(0, 5)])
    theirs.update_high_watermark(5)
    leader, fetcher = ToyLeader({TP: theirs}, 1), new_fetcher()
    fetcher.assign(partition, LeaderEpoch(1), NOW)
    outcome = exchange(fetcher, leader)
    # Not the high watermark of that answer: below it this log may still hold others than the committed records.
    assert partition.log.high_watermark == 0
    [event] = outcome.events
    assert isinstance(event, LogTruncated)
    assert (event.old_end_offset, event.new_end_offset) == (5, 3)
    assert not isinstance(event, CommittedRecordsLost)
    catch_up(fetcher, leader, partition)


@pytest.mark.rule("E3")
def test_kip_279_several_leader_changes_take_several_rounds() -> None:
    """Both have epochs the other never saw; the answer's epoch counts, not only its offset."""
    theirs, partition = pair(epoch=9)
    write(theirs, [(0, 2), (3, 2), (6, 4), (9, 1)])
    write(partition.log, [(0, 2), (2, 2), (5, 2), (8, 5)])
    leader, fetcher = ToyLeader({TP: theirs}, 9), new_fetcher()
    fetcher.assign(partition, LeaderEpoch(9), NOW)
    ends = []
    while True:
        outcome = exchange(fetcher, leader)
        ends.append(partition.log.log_end_offset)
        if outcome.bytes_appended:
            break
    # Epoch 8 goes (theirs below it is 6, ours below that is 5), then 5 (theirs is 3, ours is 2), then 2.
    assert ends == [6, 4, 2, 9]
    assert contents(partition.log) == contents(theirs)
    assert partition.log.epochs.entries == theirs.epochs.entries


@pytest.mark.rule("E3")
def test_an_epoch_that_was_opened_and_never_written_in_goes_without_a_cut() -> None:
    theirs, partition = pair(epoch=3)
    write(theirs, [(0, 2), (3, 1)])
    write(partition.log, [(0, 2)])
    partition.log.assign_epoch_start(2, 2)
    leader, fetcher = ToyLeader({TP: theirs}, 3), new_fetcher()
    fetcher.assign(partition, LeaderEpoch(3), NOW)
    assert exchange(fetcher, leader).events == []
    assert partition.log.epochs.entries == [(0, 0)]
    catch_up(fetcher, leader, partition)


@pytest.mark.rule("E3")
def test_a_log_that_knows_no_epochs_starts_from_its_high_watermark() -> None:
    theirs, partition = pair()
    write(theirs, [(0, 4)])
    write(partition.log, [(0, 5)])
    partition.log.update_high_watermark(2)
    partition.log.epochs.clear()
    fetcher = new_fetcher()
    [event] = fetcher.assign(partition, LeaderEpoch(0), NOW)
    assert isinstance(event, LogTruncated)
    assert partition.log.log_end_offset == 2
    catch_up(fetcher, ToyLeader({TP: theirs}, 0), partition)


@pytest.mark.rule("E3")
def test_a_log_that_claims_an_epoch_after_its_leaders_is_cut_there() -> None:
    """No CRC covers the epochs in headers. A leader knows nothing of such a one, and could only say: out of range."""
    theirs, partition = pair(epoch=4)
    write(theirs, [(0, 6), (4, 2)])
    write(partition.log, [(0, 3), (8, 1), (9, 1)])
    fetcher = new_fetcher()
    [event] = fetcher.assign(partition, LeaderEpoch(4), NOW)
    assert isinstance(event, LogTruncated)
    assert (event.old_end_offset, event.new_end_offset, "epoch 8" in event.reason) == (5, 3, True)
    catch_up(fetcher, ToyLeader({TP: theirs}, 4), partition)


@pytest.mark.rule("E3", "C6")
def test_a_cut_below_the_high_watermark_says_so_and_lowers_it() -> None:
    """Only an unclean election can ask for that: the leader lost what was committed."""
    theirs, partition = pair(epoch=1)
    write(theirs, [(0, 1), (1, 1)])
    write(partition.log, [(0, 3)])
    partition.log.update_high_watermark(3)
    leader, fetcher = ToyLeader({TP: theirs}, 1), new_fetcher()
    fetcher.assign(partition, LeaderEpoch(1), NOW)
    [event] = exchange(fetcher, leader).events
    assert isinstance(event, CommittedRecordsLost)
    assert (event.first_lost_offset, event.last_lost_offset, event.leader_epochs) == (1, 2, (0,))
    assert "from 3 to 1" in event.text()
    assert partition.log.high_watermark == 1


def test_a_divergence_that_is_none_is_not_followed_for_ever() -> None:
    theirs, partition = pair()
    write(theirs, [(0, 2)])
    leader, fetcher = ToyLeader({TP: theirs}, 0), new_fetcher()
    fetcher.assign(partition, LeaderEpoch(0), NOW)
    exchange(fetcher, leader)
    for epoch, end in ((0, 2), (0, 99), (7, 1)):
        request = fetch_of(fetcher.build_request(0.0))
        response = leader.fetch(request)
        diverging = response.responses[0].partitions[0].diverging_epoch
        diverging.epoch, diverging.end_offset = epoch, end
        outcome = fetcher.on_response(request, response, -5.0, NOW)
        assert len(outcome.problems) == 1
        assert partition.log.log_end_offset == 2


# --- out of range (F6) ---


@pytest.mark.rule("F6")
def test_a_follower_below_the_leaders_log_start_begins_its_log_anew_there() -> None:
    theirs, partition = pair()
    write(theirs, [(0, 6)])
    theirs.update_high_watermark(6)
    theirs.increment_log_start_offset(4)
    write(partition.log, [(0, 2)])
    leader, fetcher = ToyLeader({TP: theirs}, 0), new_fetcher()
    fetcher.assign(partition, LeaderEpoch(0), NOW)
    exchange(fetcher, leader)
    asked = [fetcher.build_request(0.0)]
    assert isinstance(asked[0], ListOffsetsRequest)
    fetcher.abandon(asked[0])
    exchange(fetcher, leader)
    [event] = exchange(fetcher, leader).events
    assert isinstance(event, LogTruncated)
    assert (event.old_end_offset, event.new_end_offset) == (2, 4)
    assert (partition.log.log_start_offset, partition.log.log_end_offset, partition.log.high_watermark) == (4, 4, 4)
    exchange(fetcher, leader)
    assert partition.log.log_end_offset == 6


@pytest.mark.rule("F6")
def test_a_log_start_inside_a_batch_is_copied_with_the_whole_batch() -> None:
    theirs, partition = pair()
    theirs.append_as_leader(batch(10), 0, NOW)
    theirs.update_high_watermark(10)
    theirs.increment_log_start_offset(4)
    leader, fetcher = ToyLeader({TP: theirs}, 0), new_fetcher()
    fetcher.assign(partition, LeaderEpoch(0), NOW)
    for _ in range(4):
        exchange(fetcher, leader)
    assert (partition.log.log_start_offset, partition.log.log_end_offset, partition.log.high_watermark) == (4, 10, 10)
    assert contents(partition.log) == contents(theirs)


@pytest.mark.rule("F6")
def test_a_follower_beyond_the_leaders_end_cuts_to_it() -> None:
    theirs, partition = pair()
    write(theirs, [(0, 2)])
    # Without epochs the leader cannot tell where the two diverge, only that this is not its log.
    write(partition.log, [(0, 5)])
    partition.log.update_high_watermark(5)
    partition.log.epochs.clear()
    leader, fetcher = ToyLeader({TP: theirs}, 0), new_fetcher()
    fetcher.assign(partition, LeaderEpoch(0), NOW)
    exchange(fetcher, leader)
    [event] = exchange(fetcher, leader).events
    assert "ends at 2" in event.text()
    assert partition.log.log_end_offset == 2
    assert isinstance(fetcher.build_request(0.0), FetchRequest)


@pytest.mark.rule("F6")
@pytest.mark.parametrize("has_records", [False, True])
def test_a_log_cut_below_its_own_start_begins_where_the_leaders_does(has_records: bool) -> None:
    """It began at 4; after an unclean election the leader has 0 and 1. From 2 on it would lack both, in the ISR."""
    theirs, partition = pair()
    write(theirs, [(0, 2), (2, 1)])
    partition.log.truncate_fully_and_start_at(4, NOW)
    if has_records:
        write(partition.log, [(0, 1)])
    follow(partition, 2)
    leader, fetcher = ToyLeader({TP: theirs}, 2), new_fetcher()
    fetcher.assign(partition, LeaderEpoch(2), NOW)
    catch_up(fetcher, leader, partition)
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (0, 3)
    assert contents(partition.log) == contents(theirs)


@pytest.mark.rule("F6")
def test_offsets_that_explain_nothing_are_asked_again_later_and_stale_ones_ignored() -> None:
    theirs, partition = pair()
    write(theirs, [(0, 3)])
    write(partition.log, [(0, 1)])
    leader, fetcher = ToyLeader({TP: theirs}, 0), new_fetcher()
    fetcher.assign(partition, LeaderEpoch(0), NOW)
    request = fetch_of(fetcher.build_request(0.0))
    response = leader.fetch(request)
    response.responses[0].partitions[0].error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    fetcher.on_response(request, response, 0.0, NOW)
    exchange(fetcher, leader)
    assert len(exchange(fetcher, leader).problems) == 1
    assert partition.log.log_end_offset == 1
    assert fetcher.build_request(0.0) is None
    exchange(fetcher, leader, 1.0)
    assert partition.log.log_end_offset == 3
    # The role changes while offsets are asked for: the answer is nobody's.
    theirs.truncate_to(1, NOW)
    request = fetch_of(fetcher.build_request(1.0))
    response = leader.fetch(request)
    response.responses[0].partitions[0].error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    fetcher.on_response(request, response, 1.0, NOW)
    offsets = fetcher.build_request(1.0)
    assert isinstance(offsets, ListOffsetsRequest)
    answer = leader.offsets(offsets)
    follow(partition, 1)
    fetcher.on_response(offsets, answer, 1.0, NOW)
    assert partition.log.log_end_offset == 3


# --- a log that cannot be cut ---


def rotten(disk: MemoryDisk, tp: TopicPartition, epochs: list[tuple[int, int]]) -> Log:
    """Batches of which the second says nothing any more of where the third begins."""
    log = open_log(disk, tp)
    write(log, epochs)
    log.segments.active.log.pwrite(bytes(4), len(batch(1, b"0")) + 8)
    return log


@pytest.mark.rule("E3")
@pytest.mark.parametrize("out_of_range", [False, True])
def test_a_log_that_is_damaged_where_it_has_to_be_cut_goes_offline_and_the_others_go_on(out_of_range: bool) -> None:
    logs = {tp: open_log(new_disk(), tp) for tp in (TP, OTHER)}
    write(logs[TP], [(0, 2), (2, 1)])
    write(logs[OTHER], [(2, 2)])
    damaged = follower_of(rotten(new_disk(), TP, [(0, 2), (1, 2)]), 2)
    whole = follower_of(open_log(new_disk(), OTHER), 2)
    leader, fetcher = ToyLeader(logs, 2), new_fetcher()
    for partition in (damaged, whole):
        fetcher.assign(partition, LeaderEpoch(2), NOW)
    request = fetch_of(fetcher.build_request(0.0))
    response = leader.fetch(request)
    if out_of_range:
        response.responses[0].partitions[0].error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    outcome = fetcher.on_response(request, response, 0.0, NOW)
    assert whole.log.log_end_offset == 2
    if out_of_range:
        outcome = exchange(fetcher, leader)
    assert len(outcome.problems) == 1
    assert isinstance(damaged.role, Offline)
    # Nothing was cut, and nothing is appended behind what nobody else has.
    assert damaged.log.log_end_offset == 4
    fetch_of(fetcher.build_request(5.0))
    assert TP not in fetcher
    assert OTHER in fetcher


@pytest.mark.rule("E3")
@pytest.mark.parametrize("knows_epochs", [True, False])
def test_a_log_that_is_damaged_where_a_new_epoch_has_it_cut_is_not_followed_with(knows_epochs: bool) -> None:
    damaged = follower_of(rotten(new_disk(), TP, [(0, 2), (7, 2)]), 2)
    if not knows_epochs:
        damaged.log.epochs.clear()
        damaged.log.update_high_watermark(2)
    fetcher = new_fetcher()
    assert fetcher.assign(damaged, LeaderEpoch(2), NOW) == []
    assert isinstance(damaged.role, Offline)
    assert TP not in fetcher
