"""Any sequence of appends, rolls, cuts, crashes and restarts, against a list of batches."""

import random
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.soak import rounds

from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import TopicPartition
from tidelog.storage.directory import LogDirectory
from tidelog.storage.log import Log
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.records.plain import Record, encode_batch

NOW = 1_700_000_000_000
CONFIG = TopicConfig(segment_bytes=900, index_interval_bytes=150, file_delete_delay_ms=0, segment_ms=10**12)

timestamp_lists = st.lists(st.integers(NOW - 50, NOW + 50), min_size=1, max_size=4)


@dataclass(frozen=True)
class ModelBatch:
    base: int
    data: bytes
    epoch: int
    timestamps: tuple[int, ...]

    @property
    def end(self) -> int:
        return self.base + len(self.timestamps)


class LogMachine(RuleBasedStateMachine):
    """The model: batches in order, the log start, what a checkpoint on disk says."""

    @initialize()
    def start(self) -> None:
        self.disk = MemoryDisk()
        self.disk.make_dirs("/data")
        self.disk.fsync_dir("/")
        self.batches: list[ModelBatch] = []
        self.log_start = 0
        self.end = 0
        self.epoch = 0
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

    def _encode(self, timestamps: list[int], base: int = 0) -> bytes:
        records = [Record(timestamp=at, key=b"k", value=b"v" * (at % 40)) for at in timestamps]
        return encode_batch(records, base_offset=base, leader_epoch=self.epoch)

    @rule(timestamps=timestamp_lists)
    def append_as_leader(self, timestamps: list[int]) -> None:
        data = memoryview(bytearray(self._encode(timestamps)))
        info = self.log.append_as_leader(data, self.epoch, NOW)
        assert (info.first_offset, info.last_offset) == (self.end, self.end + len(timestamps) - 1)
        self.batches.append(ModelBatch(self.end, bytes(data), self.epoch, tuple(timestamps)))
        self.end += len(timestamps)

    @rule(groups=st.lists(timestamp_lists, min_size=1, max_size=12))
    def append_as_follower(self, groups: list[list[int]]) -> None:
        fetched = bytearray()
        for timestamps in groups:
            data = self._encode(timestamps, self.end)
            fetched += data
            self.batches.append(ModelBatch(self.end, data, self.epoch, tuple(timestamps)))
            self.end += len(timestamps)
        self.log.append_as_follower(memoryview(fetched), NOW)

    @rule()
    def new_leader_epoch(self) -> None:
        self.epoch += 1
        self.log.assign_epoch_start(self.epoch, self.log.log_end_offset)

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW)

    @rule()
    def flush(self) -> None:
        self.log.flush(NOW)
        assert self.log.recovery_point == self.end

    @rule()
    def checkpoint(self) -> None:
        self._checkpoint()

    @precondition(lambda self: self.end > 0)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.end))
        self.log.truncate_to(offset, NOW)
        if offset < self.log_start:
            self.batches, self.log_start, self.end = [], offset, offset
        else:
            self.batches = [batch for batch in self.batches if batch.end <= offset]
            self._expect_end_after_cut(offset)
        self.epoch += 1

    def _expect_end_after_cut(self, offset: int) -> None:
        """The end of the last whole batch kept; the log knows better only if nothing was kept."""
        if self.batches:
            self.end = max(self.batches[-1].end, self.log_start)
        elif self.end > offset:
            self.end = self.log.log_end_offset
            assert self.log_start <= self.end <= offset

    @rule(ahead=st.integers(0, 5))
    def truncate_fully(self, ahead: int) -> None:
        self.end += ahead
        self.log.truncate_fully_and_start_at(self.end, NOW)
        self.batches, self.log_start = [], self.end

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.log.update_high_watermark(self.end)
        offset = data.draw(st.integers(self.log_start, self.end))
        self.log.increment_log_start_offset(offset)
        self.log_start = max(self.log_start, offset)
        self.log.delete_old_segments(NOW)
        self.batches = [batch for batch in self.batches if batch.end > self.log_start]

    @rule()
    def restart_cleanly(self) -> None:
        self.log.close(NOW)
        assert self.log.recovery_point == self.end
        self._checkpoint()
        self._open(clean=True)
        assert not self.log.recovery_notes

    @rule(seed=st.integers(0, 2**32), lose_entries=st.booleans())
    def crash(self, seed: int, lose_entries: bool) -> None:
        self.disk.crash(random.Random(seed), lose_entries=lose_entries)
        self._open(clean=False)
        self._keep_a_prefix()

    @rule()
    def kill(self) -> None:
        """The process dies, the machine lives: everything written is there."""
        end = self.end
        self._open(clean=False)
        assert self.log.log_end_offset == end

    def _keep_a_prefix(self) -> None:
        """Everything flushed is there, and what is there is a prefix."""
        end = self.log.log_end_offset
        promised = self.checkpointed_recovery_point
        assert promised <= end <= max(self.end, self.log_start)
        kept = [batch for batch in self.batches if batch.end <= end]
        assert end in (self.log_start, *(batch.end for batch in self.batches)) or end == self.end
        self.batches, self.end = kept, end
        self.epoch += 1

    # -- what must hold after every step

    @invariant()
    def offsets_agree(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.log_start, self.end)
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
        assert log.recovery_point <= log.log_end_offset

    @invariant()
    def everything_reads_back(self) -> None:
        read = bytearray()
        offset = self.log_start
        while offset < self.end:
            part = self.log.read(offset, 400, upper_bound=self.end, min_one=True).read()
            assert part, f"nothing at {offset}, the log ends at {self.end}"
            read += part
            offset = _end_of(part)
        expected = b"".join(batch.data for batch in self.batches if batch.end > self.log_start)
        assert bytes(read) == expected

    @invariant()
    def epochs_follow_the_batches(self) -> None:
        for batch in self.batches:
            assert self.log.epochs.epoch_for_offset(max(batch.base, self.log_start)) == batch.epoch

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def read_anywhere(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.log_start, self.end))
        bound = data.draw(st.integers(self.log_start, self.end + 1))
        limit = data.draw(st.integers(0, 2000))
        min_one = data.draw(st.booleans())
        got = self.log.read(offset, limit, upper_bound=bound, min_one=min_one).read()
        readable = [batch for batch in self.batches if batch.end > offset and batch.end <= bound]
        whole = b"".join(batch.data for batch in readable)
        assert whole.startswith(got)
        if readable and min_one:
            assert got
        sizes = {0}
        for batch in readable:
            sizes.add(max(sizes) + len(batch.data))
        assert len(got) in sizes
        assert len(got) <= limit or (min_one and len(got) == len(readable[0].data))
        if not min_one and readable and len(readable[0].data) > limit:
            assert not got

    @rule(timestamp=st.integers(NOW - 60, NOW + 60))
    def find_by_time(self, timestamp: int) -> None:
        records = [
            (batch.base + number, at, batch.epoch)
            for batch in self.batches
            for number, at in enumerate(batch.timestamps)
            if batch.base + number >= self.log_start
        ]
        expected = next((record for record in records if record[1] >= timestamp), None)
        assert self.log.offset_for_timestamp(timestamp) == expected
        latest = max(records, key=lambda record: (record[1], -record[0]), default=None)
        found = self.log.offset_for_max_timestamp()
        assert found == latest

    @rule(epoch=st.integers(-1, 12))
    def ask_for_an_epoch(self, epoch: int) -> None:
        starts = [(entry.epoch, entry.start_offset) for entry in self.log.epochs.entries]
        assert starts == sorted(starts)
        assert self.log.end_offset_for_epoch(epoch) == _dumb_end_offset(starts, epoch, self.end)


def _end_of(part: bytes) -> int:
    from tidelog.wire.records.batch import iter_headers

    end = 0
    for _, header in iter_headers(part):
        end = header.next_offset
    return end


def _dumb_end_offset(starts: list[tuple[int, int]], asked: int, log_end: int) -> tuple[int, int]:
    if not starts or asked == -1 or asked > starts[-1][0]:
        return -1, -1
    if asked == starts[-1][0]:
        return asked, log_end
    after = [start for epoch, start in starts if epoch > asked]
    known = [epoch for epoch, _ in starts if epoch <= asked]
    return (max(known) if known else asked), after[0]


LogMachine.TestCase.settings = settings(
    max_examples=rounds(60, 1500), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.soak
@pytest.mark.rule("E1")
@pytest.mark.rule("E4")
class TestLogMachine(LogMachine.TestCase):  # type: ignore[misc, valid-type]
    """Nothing flushed is lost; what is there is a prefix; reads, times and epochs are right."""
