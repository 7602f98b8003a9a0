"""A power cut at every step of a cleaning, and of the recovery after it: the old log or the new one, never less."""

import random
from collections.abc import Callable
from functools import partial

import pytest
from tests.unit.storage.cleaning import NOW, append, clean, pairs, seal

from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import TopicPartition
from tidelog.storage.directory import LogDirectory
from tidelog.storage.log import Log
from tidelog.storage.memory import MemoryDisk

CONFIG = TopicConfig(
    cleanup_policy=("compact",),
    segment_bytes=700,
    segment_ms=10**12,
    index_interval_bytes=100,
    delete_retention_ms=0,
    file_delete_delay_ms=0,
)
SEEDS = range(2)


class PowerCut(Exception):
    """No program lives to see it."""


class World:
    """One disk, and what its recovery-point checkpoint says."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.disk.make_dirs("/data")
        self.disk.fsync_dir("/")
        self.recovery_point = 0

    def open(self) -> Log:
        directory = LogDirectory("/data")
        log = Log.open(
            self.disk,
            "/data/t-0",
            TopicPartition("t", 0),
            CONFIG,
            recovery_point=self.recovery_point,
            clean_shutdown=False,
            now_ms=NOW,
            directory=directory,
        )

        def checkpoint() -> None:
            self.recovery_point = log.recovery_point

        directory.checkpoint_recovery_points = checkpoint
        log.update_high_watermark(log.log_end_offset)
        return log

    def cut_power_at(self, step: int, work: Callable[[], object]) -> bool:
        """Whether the work was still under way at that step."""
        steps = 0

        def fault(operation: str, path: str) -> None:
            nonlocal steps
            if operation in ("stat", "pread", "list_dir", "read_bytes", "open"):
                return
            if steps == step:
                raise PowerCut(f"{operation} {path}")
            steps += 1

        self.disk.fault = fault
        try:
            work()
        except PowerCut:
            return True
        finally:
            self.disk.fault = None
        return False


def _filled() -> tuple[World, Log]:
    """Several segments, small ones among them; keys that change, vanish and stay; a cleaning already behind it."""
    world = World()
    log = world.open()
    for number in range(14):
        append(log, (f"k{number % 4}", str(number)), (f"once{number}" if number % 5 == 0 else "k9", str(number)))
        if number in (3, 5):
            log.roll(NOW)
    append(log, ("k1", None))
    seal(log)
    clean(log)
    for number in range(14, 20):
        append(log, (f"k{number % 3}", str(number)))
    append(log, ("k2", None))
    seal(log)
    append(log, ("open", "1"))
    log.flush(NOW)
    return world, log


def _newest(log: Log) -> dict[str, str]:
    newest = {key: value for _, key, value in pairs(log)}
    return {key: value for key, value in newest.items() if value is not None}


def _check(log: Log, expected: dict[str, str], end: int) -> None:
    assert log.log_end_offset == end
    assert _newest(log) == expected
    offsets = [offset for offset, _, _ in pairs(log)]
    assert offsets == sorted(set(offsets))
    for number in range(len(log.segments) - 1):
        last = log.segments[number].last_offset()
        assert last is not None
        assert last + 1 == log.segments[number + 1].base_offset


@pytest.mark.parametrize("lose_entries", [False, True])
def test_every_step(lose_entries: bool) -> None:
    step = 0
    while True:
        for seed in SEEDS:
            world, log = _filled()
            expected, end = _newest(log), log.log_end_offset
            if not world.cut_power_at(step, partial(clean, log, NOW + 1)):
                assert step > 20
                return
            world.disk.crash(random.Random(seed), lose_entries=lose_entries)
            again = world.open()
            _check(again, expected, end)
            clean(again, NOW + 2)
            again.delete_old_segments(NOW + 2)
            again.remove_deleted_files(NOW + 2)
            _check(again, expected, end)
            left = world.disk.list_dir("/data/t-0")
            assert not [name for name in left if name.endswith((".cleaned", ".swap", ".deleted"))]
        step += 1


@pytest.mark.parametrize("seed", range(6))
def test_every_step_of_the_recovery_after_every_step_of_a_swap(seed: int) -> None:
    rng = random.Random(seed)
    step = 0
    while True:
        world, log = _filled()
        expected, end = _newest(log), log.log_end_offset
        if not world.cut_power_at(step, partial(clean, log, NOW + 1)):
            return
        world.disk.crash(rng, lose_entries=True)
        recovery_step = 0
        while world.cut_power_at(recovery_step, world.open):
            world.disk.crash(rng, lose_entries=True)
            recovery_step += 1
        _check(world.open(), expected, end)
        step += 1


def test_a_failing_disk_takes_the_directory_offline_and_loses_nothing() -> None:
    step = 0
    failed = 0
    while True:
        world, log = _filled()
        expected, end = _newest(log), log.log_end_offset
        steps = 0

        def fault(operation: str, path: str, world: World = world, step: int = step) -> int | None:
            nonlocal steps
            steps += 1
            return 5 if steps > step and operation not in ("stat", "list_dir") else None

        world.disk.fault = fault
        try:
            clean(log, NOW + 1)
        except OSError:
            failed += 1
        else:
            break
        finally:
            world.disk.fault = None
        _check(world.open(), expected, end)
        step += 3
    assert failed > 5
