"""A compacted log tells those who copy it where its leader epochs began: a replica that was away is cut where it should
be, and does not keep what was never committed (E1, E2).
"""

import pytest
from tests.unit.replication.replica_kit import (
    NOW,
    TP,
    ToyLeader,
    contents,
    exchange,
    follow,
    follower_of,
    new_disk,
    new_fetcher,
    open_log,
)
from tests.unit.storage.cleaning import append, clean, pairs, seal

from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import LeaderEpoch
from tidelog.replication.partition import Partition
from tidelog.storage.log import Log

COMPACT = TopicConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0, segment_ms=10**12)

pytestmark = pytest.mark.rule("E1")


def catch_up(partition: Partition, leader: Log, epoch: int) -> None:
    follow(partition, epoch)
    fetcher = new_fetcher()
    fetcher.assign(partition, LeaderEpoch(epoch), NOW)
    toy = ToyLeader({TP: leader}, epoch)
    for _ in range(10):
        exchange(fetcher, toy)
    assert partition.log.log_end_offset == leader.log_end_offset


def commit(log: Log) -> None:
    log.update_high_watermark(log.log_end_offset)


@pytest.mark.parametrize("before", [0, 5], ids=["from the first offset on", "later on"])
def test_a_stale_replica_gives_up_what_was_never_committed(before: int) -> None:
    a = open_log(new_disk(), config=COMPACT)
    b = follower_of(open_log(new_disk(), config=COMPACT), 3)
    c = follower_of(open_log(new_disk(), config=COMPACT), 3)
    for n in range(before):
        append(a, (f"k{n}", "acknowledged"), epoch=3)
    if before:
        for each in (b, c):
            each.log.append_as_follower(memoryview(bytearray(contents(a))), NOW)
    # C leads, and is gone before anybody else has these.
    append(c.log, ("k0", "never committed"), epoch=3)
    append(c.log, ("phantom", "never committed"), epoch=3)
    # A leads, and of the first records of its epoch compaction leaves nothing. B copies what there is then.
    for n in range(4):
        append(a, ("x", str(n)), epoch=4)
    seal(a)
    clean(a)
    append(a, ("y", "0"), epoch=4)
    commit(a)
    catch_up(b, a, 4)
    assert b.log.end_offset_for_epoch(3) == a.end_offset_for_epoch(3)
    # B leads, C comes back.
    append(b.log, ("z", "0"), epoch=5)
    commit(b.log)
    catch_up(c, b.log, 5)
    assert pairs(c.log) == pairs(b.log)
    # Nor does it compact away what was acknowledged, in favour of what never was.
    seal(c.log)
    clean(c.log)
    assert [value for _, key, value in pairs(c.log) if key == "k0"] == ["acknowledged"] * min(before, 1)
