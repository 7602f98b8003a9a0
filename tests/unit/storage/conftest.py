"""Batches and logs as storage tests need them."""

import random
from collections.abc import Callable, Sequence

import pytest

from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import TopicPartition
from tidelog.storage.log import Log
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.records.plain import Record, encode_batch

NOW = 1_700_000_000_000

MakeBatch = Callable[..., memoryview]
MakeLog = Callable[..., Log]


@pytest.fixture(scope="session")
def batch() -> MakeBatch:
    """A writable batch as a producer sends it: `batch(3)`, `batch(timestamps=[…])`, `batch(producer_id=7, …)`."""

    def make(
        count: int = 1, *, timestamps: Sequence[int] | None = None, value_size: int = 10, **header: int
    ) -> memoryview:
        stamps = timestamps if timestamps is not None else [NOW] * count
        records = [
            Record(timestamp=stamp, key=b"k%d" % number, value=bytes(value_size)) for number, stamp in enumerate(stamps)
        ]
        return memoryview(bytearray(encode_batch(records, **header)))  # type: ignore[arg-type]

    return make


@pytest.fixture
def disk() -> MemoryDisk:
    made = MemoryDisk()
    made.make_dirs("/data")
    made.fsync_dir("/")
    return made


@pytest.fixture
def open_log(disk: MemoryDisk) -> MakeLog:
    """Opens `/data/orders-0` on the in-memory disk; keywords beside Log.open's own are config values."""

    def make(
        *,
        clean_shutdown: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        high_watermark: int = 0,
        **config: object,
    ) -> Log:
        return Log.open(
            disk,
            "/data/orders-0",
            TopicPartition("orders", 0),
            TopicConfig(**config),  # type: ignore[arg-type]
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            high_watermark=high_watermark,
            clean_shutdown=clean_shutdown,
            now_ms=NOW,
            rng=random.Random(7),
        )

    return make
