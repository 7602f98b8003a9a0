"""Any sequence of appends, cleanings, cuts, crashes and restarts of a compacted log, against a list of records."""

import random
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.soak import rounds
from tests.unit.storage.cleaning import NOW, batches, clean

from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import TopicPartition
from tidelog.storage.cleaner import CleanerConfig, LogCleaner
from tidelog.storage.cleaner_offset_map import BYTES_PER_KEY
from tidelog.storage.directory import LogDirectory
from tidelog.storage.log import Log
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.records.attributes import Codec
from tidelog.wire.records.plain import Record, encode_batch

CONFIG = TopicConfig(
    cleanup_policy=("compact",),
    segment_bytes=600,
    segment_ms=10**12,
    index_interval_bytes=120,
    delete_retention_ms=100,
    file_delete_delay_ms=0,
)
KEYS = [b"a", b"b", b"c", b"d"]

entries = st.lists(
    st.tuples(st.sampled_from(KEYS), st.none() | st.binary(max_size=20), st.integers(NOW - 50, NOW + 50)),
    min_size=1,
    max_size=4,
)


class Row(NamedTuple):
    offset: int
    key: bytes
    value: bytes | None
    timestamp: int


class CompactedLogMachine(RuleBasedStateMachine):
    """The model: every record appended and not cut. What is read must be enough of it, and nothing else."""

    @initialize(keys_at_once=st.integers(1, 6))
    def start(self, keys_at_once: int) -> None:
        self.disk = MemoryDisk()
        self.disk.make_dirs("/data")
        self.disk.fsync_dir("/")
        self.cleaner = LogCleaner(
            CleanerConfig(
                dedupe_buffer_size=BYTES_PER_KEY * keys_at_once, io_buffer_load_factor=1.0, io_buffer_size=100
            )
        )
        self.rows: list[Row] = []
        self.now_ms = NOW
        self.log_start = 0
        self.end = 0
        self.cleaned_to = 0
        self.sequence = 0
        self.producer_epoch = 0
        self.last_of_producer = -1
        self.checkpointed_recovery_point = 0
        self._open(clean=False)

    def _open(self, *, clean: bool) -> None:
        self.directory = LogDirectory("/data")
        self.directory.checkpoint_recovery_points = self._checkpoint
        self.log = Log.open(
            self.disk,
            "/data/t-0",
            TopicPartition("t", 0),
            CONFIG,
            log_start_offset=self.log_start,
            recovery_point=self.checkpointed_recovery_point,
            clean_shutdown=clean,
            now_ms=NOW,
            directory=self.directory,
        )

    def _checkpoint(self) -> None:
        self.checkpointed_recovery_point = self.log.recovery_point

    @rule(
        batch=entries,
        codec=st.sampled_from([Codec.NONE, Codec.GZIP]),
        idempotent=st.booleans(),
        roll=st.booleans(),
    )
    def append(
        self,
        batch: list[tuple[bytes, bytes | None, int]],
        codec: Codec,
        idempotent: bool,
        roll: bool,
    ) -> None:
        records = [Record(timestamp=at, key=key, value=value) for key, value, at in batch]
        producer = (
            {"producer_id": 7, "producer_epoch": self.producer_epoch, "base_sequence": self.sequence}
            if idempotent
            else {}
        )
        self.log.append_as_leader(memoryview(bytearray(encode_batch(records, codec=codec, **producer))), 0, NOW)  # type: ignore[arg-type]
        if idempotent:
            self.sequence += len(batch)
            self.last_of_producer = self.end
        self.rows += [Row(self.end + number, *entry) for number, entry in enumerate(batch)]
        self.end += len(batch)
        if roll:
            self.log.roll(NOW)

    @rule()
    def commit(self) -> None:
        self.log.flush(NOW)
        self.log.update_high_watermark(self.end)

    @rule(rounds=st.integers(1, 4), waited_ms=st.sampled_from([0, 60, 200]))
    def clean(self, rounds: int, waited_ms: int) -> None:
        self.now_ms += waited_ms
        for _ in range(rounds):
            bound = self.cleaner.inspect(self.log, self.now_ms).first_uncleanable_offset
            end = clean(self.log, self.now_ms, self.cleaner)
            assert end <= max(bound, self.cleaned_to, self.log_start)
            self.cleaned_to = max(self.cleaned_to, end)
        self.log.delete_old_segments(NOW)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.log_start, self.log.high_watermark))
        self.log.increment_log_start_offset(offset)
        self.log_start = max(self.log_start, offset)
        self.log.delete_old_segments(NOW)
        self.rows = [row for row in self.rows if row.offset >= self.log_start]

    @precondition(lambda self: self.end > 0)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.log_start, self.end))
        self.log.truncate_to(offset, NOW)
        self._end_is_now(self.log.log_end_offset)
        assert self.log.log_end_offset <= offset
        if self.log.log_end_offset < self.cleaned_to:
            # Records that replaced others are gone, and those they replaced with them: an unclean election.
            self.rows = self._read()
            self.cleaned_to = self.log.log_end_offset

    @rule()
    def restart_cleanly(self) -> None:
        high_watermark, first_dirty = self.log.high_watermark, self.log.first_dirty_offset
        self.log.close(NOW)
        self._checkpoint()
        self._open(clean=True)
        assert not self.log.recovery_notes
        self.log.first_dirty_offset = first_dirty
        self.log.update_high_watermark(high_watermark)

    @rule(seed=st.integers(0, 2**32), lose_entries=st.booleans())
    def crash(self, seed: int, lose_entries: bool) -> None:
        promised = self.checkpointed_recovery_point
        self.disk.crash(random.Random(seed), lose_entries=lose_entries)
        self._open(clean=False)
        assert self.log.log_end_offset >= promised
        self._end_is_now(self.log.log_end_offset)

    @rule()
    def kill(self) -> None:
        self._open(clean=False)
        assert self.log.log_end_offset == self.end

    def _end_is_now(self, end: int) -> None:
        if end < self.end:
            self.end = end
            self.rows = [row for row in self.rows if row.offset < end]
            # What of the producer's batches is left, nobody counts: it starts over.
            self.producer_epoch += 1
            self.sequence = 0

    # -- what must hold after every step

    def _read(self) -> list[Row]:
        return [
            Row(record.offset, record.key or b"", record.value, record.timestamp)
            for _, some in batches(self.log)
            for record in some
            if record.offset >= self.log_start
        ]

    @invariant()
    def enough_is_there_and_nothing_else(self) -> None:
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.log_start, self.end)
        read = self._read()
        known = set(self.rows)
        assert [row for row in read if row not in known] == []
        assert [row.offset for row in read] == sorted({row.offset for row in read})
        # Above the cleaned point nothing is touched.
        assert [row for row in read if row.offset >= self.cleaned_to] == [
            row for row in self.rows if row.offset >= self.cleaned_to
        ]
        newest, left = {row.key: row for row in self.rows}, {row.key: row for row in read}
        for key, row in newest.items():
            # Once a delete marker is gone, so is all it deleted.
            assert left.get(key) == row or (row.value is None and key not in left)

    @invariant()
    def segments_join(self) -> None:
        segments = list(self.log.segments)
        for segment, following in pairwise(segments):
            last = segment.last_offset()
            assert (segment.base_offset if last is None else last + 1) == following.base_offset

    @precondition(lambda self: self.end > self.log_start)
    @rule(data=st.data())
    def read_from_anywhere(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.log_start, self.end - 1))
        ends = [header.last_offset for header, _ in batches(self.log)]
        part = batches(self.log, offset)
        assert [header.last_offset for header, _ in part] == [end for end in ends if end >= offset]

    @invariant()
    def the_producer_is_known(self) -> None:
        entry = self.log.producers.get(7)
        # Who has no record left that was not deleted may be forgotten by a restart.
        if self.sequence and (entry is not None or self.last_of_producer >= self.log_start):
            assert entry is not None
            assert (entry.producer_epoch, entry.last_sequence) == (self.producer_epoch, self.sequence - 1)

    @rule(timestamp=st.integers(NOW - 60, NOW + 60))
    def find_by_time(self, timestamp: int) -> None:
        read = self._read()
        first = next((row for row in read if row.timestamp >= timestamp), None)
        found = self.log.offset_for_timestamp(timestamp)
        assert (found and (found.offset, found.timestamp)) == (first and (first.offset, first.timestamp))
        latest = max(read, key=lambda row: (row.timestamp, -row.offset), default=None)
        found = self.log.offset_for_max_timestamp()
        assert (found and (found.offset, found.timestamp)) == (latest and (latest.offset, latest.timestamp))


CompactedLogMachine.TestCase.settings = settings(
    max_examples=rounds(60, 1500), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.soak
class TestCompactedLogMachine(CompactedLogMachine.TestCase):  # type: ignore[misc, valid-type]
    """The newest value of every key is there, offsets never change, and nothing above the cleaned point is touched."""
