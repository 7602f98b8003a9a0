"""A leader-epoch-checkpoint that is missing or stale: the batches know better (E1)."""

import random
from collections.abc import Callable

import pytest

from tidelog.storage.log import Log
from tidelog.storage.memory import MemoryDisk

NOW = 1_700_000_000_000
FILE = "/data/orders-0/leader-epoch-checkpoint"
MakeBatch = Callable[..., memoryview]
MakeLog = Callable[..., Log]


def _filled(open_log: MakeLog, batch: MakeBatch) -> Log:
    log = open_log(segment_bytes=200)
    for epoch in (0, 0, 2, 2, 2, 5):
        log.append_as_leader(batch(1), epoch, NOW)
        if epoch == 2:
            log.roll(NOW)
    assert log.epochs.entries == [(0, 0), (2, 2), (5, 5)]
    return log


@pytest.mark.rule("E1")
@pytest.mark.parametrize("damage", [None, b"0\n1\n0 0\n", b"0\n1\n5 5\n", b"0\n1\n2 2\n"])
@pytest.mark.parametrize("end", ["clean", "crash"])
def test_epochs_are_read_from_the_batches_when_the_checkpoint_does_not_cover_them(
    open_log: MakeLog, batch: MakeBatch, disk: MemoryDisk, damage: bytes | None, end: str
) -> None:
    log = _filled(open_log, batch)
    recovery_point = log.log_end_offset
    if end == "clean":
        log.close(NOW)
    else:
        log.flush(NOW)
        disk.crash(random.Random(1))
    if damage is None:
        disk.remove(FILE)
    else:
        disk.write_atomic(FILE, damage)
    again = open_log(clean_shutdown=end == "clean", recovery_point=recovery_point, segment_bytes=200)
    assert again.epochs.entries == [(0, 0), (2, 2), (5, 5)]
    assert any("leader epochs" in note for note in again.recovery_notes)
    again.flush(NOW)
    again.close(NOW)
    assert disk.read_bytes(FILE) == b"0\n3\n0 0\n2 2\n5 5\n"


@pytest.mark.rule("E1")
def test_nothing_is_read_again_when_the_start_of_the_log_has_moved(
    open_log: MakeLog, batch: MakeBatch, disk: MemoryDisk
) -> None:
    log = _filled(open_log, batch)
    log.update_high_watermark(6)
    log.increment_log_start_offset(4)
    assert log.epochs.entries == [(2, 4), (5, 5)]
    log.close(NOW)
    again = open_log(clean_shutdown=True, recovery_point=6, log_start_offset=4, segment_bytes=200)
    assert again.epochs.entries == [(2, 4), (5, 5)]
    assert again.recovery_notes == []


@pytest.mark.rule("E1")
def test_a_hole_before_the_first_batch_is_no_missing_epoch(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log()
    log.append_as_follower(batch(1, base_offset=7, leader_epoch=3), NOW)
    log.close(NOW)
    again = open_log(clean_shutdown=True, recovery_point=8)
    assert again.epochs.entries == [(3, 7)]
    assert again.recovery_notes == []


@pytest.mark.rule("E1")
def test_of_what_is_deleted_the_checkpoint_need_not_tell(open_log: MakeLog, batch: MakeBatch) -> None:
    """Each start read the whole log for it, and told of a recovery after an orderly end."""
    log = _filled(open_log, batch)
    log.update_high_watermark(6)
    log.increment_log_start_offset(6)
    for _ in range(3):
        log.close(NOW)
        log = open_log(clean_shutdown=True, recovery_point=6, log_start_offset=6, segment_bytes=200)
        assert log.recovery_notes == []
    log.append_as_leader(batch(1), 7, NOW)
    assert log.epochs.entries == [(7, 6)]
