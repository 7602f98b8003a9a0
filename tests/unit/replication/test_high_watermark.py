"""Where a leader's high watermark may stand (W1, W2), and what a follower's fetch tells (F2)."""

from dataclasses import replace

import pytest
from tests.unit.replication.leader_kit import LAG_S, NOW, Led, batch, broker, brokers, epoch_of, registration

from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import DIR_LOST, BrokerId
from tidelog.wire.errors import ApiError, ErrorCode

MIN_2 = replace(TopicConfig(), min_insync_replicas=2)


@pytest.mark.rule("W1")
@pytest.mark.parametrize(
    ("isr", "ends", "high_watermark"),
    [
        ((1, 2, 3), {}, 0),
        ((1, 2, 3), {2: 9}, 0),
        ((1, 2, 3), {2: 9, 3: 4}, 4),
        ((1, 2, 3), {2: 10, 3: 10}, 10),
        ((1, 2), {2: 7}, 7),
        ((1, 2), {2: 10, 3: 1}, 10),  # broker 3 lags and never was in sync in this epoch
        ((1,), {2: 0, 3: 0}, 10),
    ],
)
def test_the_smallest_end_of_those_that_count(isr: tuple[int, ...], ends: dict[int, int], high_watermark: int) -> None:
    led = Led(isr=isr)
    led.write(10)
    for replica, end in ends.items():
        led.fetch(replica, end)
    assert led.high_watermark == high_watermark


@pytest.mark.rule("W1")
def test_who_is_about_to_join_is_waited_for() -> None:
    led = Led(isr=(1, 2))
    led.write(10)
    led.fetch(2)
    led.fetch(3, 10)  # caught up: it is proposed, and counts
    assert led.maximal_isr == {1, 2, 3}
    led.proposed()
    led.answer(ErrorCode.INELIGIBLE_REPLICA)
    assert led.maximal_isr == {1, 2}
    # Not in the set, but it had everything a moment ago and nothing speaks against it.
    led.write(5)
    led.fetch(2)
    assert led.high_watermark == 10
    led.now_s += LAG_S + 0.1
    led.fetch(2)
    assert led.high_watermark == 15


@pytest.mark.rule("W1")
@pytest.mark.parametrize(
    "change",
    [
        {"fenced": True},
        {"in_controlled_shutdown": True},
        {"epoch": epoch_of(3) + 100},
    ],
)
def test_who_cannot_join_is_not_waited_for(change: dict[str, object]) -> None:
    led = Led(isr=(1, 2))
    led.write(10)
    led.fetch(2)
    led.fetch(3, 10)
    led.proposed()
    led.answer(ErrorCode.INELIGIBLE_REPLICA)
    led.context.brokers = {**brokers(1, 2), 3: broker(3, **change)}
    led.write(5)
    led.fetch(2)
    assert led.high_watermark == 15


@pytest.mark.rule("W1")
def test_a_replica_without_its_directory_is_not_waited_for() -> None:
    led = Led(isr=(1, 2))
    led.write(10)
    led.fetch(2)
    led.fetch(3, 10)
    led.proposed()
    led.answer(ErrorCode.INELIGIBLE_REPLICA)
    role = led.partition.require_leader()
    role.directories = {**role.directories, BrokerId(3): DIR_LOST}
    led.write(5)
    led.fetch(2)
    assert led.high_watermark == 15


@pytest.mark.rule("W1")
def test_it_stands_still_below_the_minimum() -> None:
    led = Led(MIN_2, isr=(1, 2))
    led.write(3)
    led.fetch(2)
    assert led.high_watermark == 3
    led.apply(isr=(1,), partition_epoch=1)
    led.write(3)
    led.fetch(2)
    led.fetch(3)
    assert (led.isr, led.high_watermark) == ({1}, 3)
    # An expansion on its way does not make the set larger yet.
    assert led.maximal_isr == {1, 2}
    led.accept()
    assert (led.isr, led.high_watermark) == ({1, 2}, 6)


@pytest.mark.rule("W1")
def test_metadata_that_shrinks_the_set_lets_it_go_on() -> None:
    led = Led()
    led.write(3)
    led.fetch(2)
    assert led.high_watermark == 0
    led.context.brokers = {**brokers(1, 2), 3: broker(3, fenced=True)}
    changed = led.partition.apply(registration(isr=(1, 2), partition_epoch=1), led.now_s)
    assert changed.high_watermark_moved
    assert led.high_watermark == 3


@pytest.mark.rule("W2")
def test_a_joining_replica_does_not_lower_it() -> None:
    led = Led(isr=(1, 2))
    led.write(10)
    led.fetch(2)
    assert led.high_watermark == 10
    led.apply(isr=(1, 2, 3), partition_epoch=1)
    led.fetch(3, 4)
    led.fetch(2, 2)
    assert led.high_watermark == 10


@pytest.mark.rule("W2")
def test_a_new_epoch_forgets_where_followers_stood() -> None:
    """Another leader may have come and gone unseen, and cut their logs: their old ends would commit what they lack."""
    led = Led()
    led.write(5)
    led.fetch(2)
    led.apply(leader_epoch=7, partition_epoch=2)
    led.fetch(3, leader_epoch=7)
    assert led.high_watermark == 0
    led.fetch(2, 3)
    assert led.high_watermark == 3


@pytest.mark.rule("F2")
def test_the_fetch_offset_is_the_followers_end() -> None:
    led = Led()
    led.write(5)
    read = led.fetch(2, 3, log_start=1)
    state = led.partition.require_leader().followers[BrokerId(2)]
    assert (state.log_end_offset, state.log_start_offset, state.broker_epoch) == (3, 1, 12)
    assert read.slice.size == 2 * len(batch())


@pytest.mark.rule("F1")
def test_a_follower_reads_to_the_end_of_the_log() -> None:
    led = Led()
    led.write(5)
    assert led.fetch(2, 0).slice.size == 5 * len(batch())
    assert led.high_watermark == 0


@pytest.mark.rule("F2")
@pytest.mark.parametrize(
    ("fetch", "code"),
    [
        ({"offset": 6}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"offset": 5, "leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"offset": 5, "leader_epoch": 6}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"offset": 5, "broker_epoch": 11}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"offset": 5, "last_epoch": 9}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_a_refused_fetch_teaches_nothing(fetch: dict[str, int], code: ErrorCode) -> None:
    led = Led(isr=(1, 2))
    led.write(5)
    before = replace(led.partition.require_leader().followers[BrokerId(2)])
    with pytest.raises(ApiError) as error:
        led.fetch(2, **fetch)
    assert error.value.code is code
    assert led.partition.require_leader().followers[BrokerId(2)] == before
    assert led.high_watermark == 0


@pytest.mark.rule("F2", "F5")
def test_a_diverging_fetch_teaches_nothing() -> None:
    led = Led(isr=(1, 2))
    led.write(5)
    led.apply(leader_epoch=8, isr=(1, 2), partition_epoch=1)
    led.write(1)
    before = replace(led.partition.require_leader().followers[BrokerId(2)])
    read = led.fetch(2, 6, last_epoch=6)
    assert (read.diverging_epoch, read.slice.size) == ((5, 5), 0)
    assert led.partition.require_leader().followers[BrokerId(2)] == before


@pytest.mark.rule("F2")
@pytest.mark.parametrize(
    "fetch",
    [
        pytest.param({"broker_epoch": 99}, id="a registration that this leader has not heard of"),
        pytest.param({"broker_epoch": -1}, id="no broker epoch"),
        pytest.param({"leader_epoch": -1}, id="no leader epoch"),
    ],
)
def test_a_fetch_of_unknown_origin_is_served_and_not_believed(fetch: dict[str, int]) -> None:
    led = Led(isr=(1, 2))
    led.write(5)
    assert led.fetch(2, 3, **fetch).slice.size == 2 * len(batch())
    assert led.partition.require_leader().followers[BrokerId(2)].log_end_offset == -1


@pytest.mark.rule("F5")
@pytest.mark.parametrize(
    ("leader_epoch", "code"), [(5, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
)
def test_who_is_no_replica_is_refused(leader_epoch: int, code: ErrorCode) -> None:
    led = Led(replicas=(1, 2), isr=(1, 2))
    with pytest.raises(ApiError) as error:
        led.fetch(3, leader_epoch=leader_epoch)
    assert error.value.code is code


@pytest.mark.rule("P3")
def test_acknowledged_is_one_behind_the_last_offset() -> None:
    led = Led(isr=(1, 2))
    info = led.partition.append_as_leader(batch(b"a", b"b"), -1, NOW, led.now_s)
    epoch = led.partition.leader_epoch
    led.fetch(2, 1)
    assert led.partition.acknowledged(epoch, info.last_offset + 1) is None
    led.fetch(2, 2)
    assert led.partition.acknowledged(epoch, info.last_offset + 1) is ErrorCode.NONE


@pytest.mark.rule("P4")
def test_a_retried_batch_is_not_committed_by_being_known() -> None:
    led = Led(isr=(1, 2))
    for _ in range(2):
        records = batch(b"once", producer_id=5, producer_epoch=0, base_sequence=0)
        info = led.partition.append_as_leader(records, -1, NOW, led.now_s)
        assert led.partition.acknowledged(led.partition.leader_epoch, info.last_offset + 1) is None
    assert (info.duplicate, led.log.log_end_offset) == (True, 1)
    led.fetch(2)
    assert led.partition.acknowledged(led.partition.leader_epoch, info.last_offset + 1) is ErrorCode.NONE
