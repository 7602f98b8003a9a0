"""P4: duplicates, gaps, zombies and expiry, across snapshots, restarts and truncation."""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tidelog.core.ids import TopicPartition
from tidelog.storage.memory import MemoryDisk
from tidelog.storage.producer_entry import BatchMetadata
from tidelog.storage.producer_state import DEFAULT_EXPIRATION_MS, ProducerStateManager
from tidelog.storage.validation import AppendOrigin
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.records.batch import MAX_SEQUENCE, BatchHeader, read_header
from tidelog.wire.records.control import EndTransactionMarker, encode_end_txn_marker

TP = TopicPartition("orders", 0)
DIR = "/data/orders-0"
NOW = 1_700_000_000_000
CLIENT = AppendOrigin.CLIENT
COORDINATOR = AppendOrigin.COORDINATOR


def header(
    producer_id: int,
    base_sequence: int,
    *,
    count: int = 1,
    epoch: int = 0,
    offset: int = 0,
    timestamp: int = NOW,
    transactional: bool = False,
) -> BatchHeader:
    return BatchHeader(
        base_offset=offset,
        batch_length=100,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=0x10 if transactional else 0,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=base_sequence,
        record_count=count,
    )


def new_disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_dirs(DIR)
    return disk


@dataclass
class Partition:
    """A log of headers and its producer state: append as a leader does, restart, truncate."""

    disk: MemoryDisk = field(default_factory=new_disk)
    log: list[tuple[BatchHeader, bytes | None]] = field(default_factory=list)
    start: int = 0
    end: int = 0
    now: int = NOW

    def __post_init__(self) -> None:
        self.producers = self._manager()

    def _manager(self) -> ProducerStateManager:
        return ProducerStateManager(self.disk, DIR, TP)

    def produce(
        self, batch: BatchHeader, origin: AppendOrigin = CLIENT, records: bytes | None = None
    ) -> BatchMetadata | None:
        duplicate = self.producers.check(batch, origin, records)
        if duplicate is None:
            stamped = batch._replace(base_offset=self.end)
            self._replay(stamped, records)
            self.log.append((stamped, records))
            self.end = stamped.next_offset
        return duplicate

    def end_txn(self, producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> None:
        marker = encode_end_txn_marker(
            EndTransactionMarker(commit, coordinator_epoch),
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp=self.now,
        )
        self.produce(read_header(marker), COORDINATOR, marker)

    def _replay(self, batch: BatchHeader, records: bytes | None) -> None:
        completed = self.producers.update_from_batch(batch, self.now, records)
        if completed is not None:
            self.producers.complete_txn(completed)

    def restart(self) -> int:
        self.producers = self._manager()
        replay_from = self.producers.load(self.start, self.end, self.now)
        self._replay_from(replay_from)
        return replay_from

    def truncate(self, offset: int) -> None:
        self.log = [(batch, records) for batch, records in self.log if batch.next_offset <= offset]
        self.end = self.log[-1][0].next_offset if self.log else self.start
        self._replay_from(self.producers.truncate_and_reload(self.start, self.end, self.now))

    def _replay_from(self, offset: int) -> None:
        for batch, records in self.log:
            if batch.base_offset >= offset:
                self._replay(batch, records)
        self.producers.advance_to(self.end)

    def refused(self, batch: BatchHeader, origin: AppendOrigin = CLIENT) -> ErrorCode:
        with pytest.raises(ApiError) as refusal:
            self.produce(batch, origin)
        assert "orders-0" in refusal.value.message
        return refusal.value.code


@pytest.mark.rule("P4")
def test_a_retry_of_any_of_the_last_five_batches_gets_its_first_offset() -> None:
    p = Partition()
    sequence = 0
    for count in (1, 3, 2, 5, 1, 4, 2):
        assert p.produce(header(7, sequence, count=count)) is None
        sequence += count
    assert p.end == 18
    for batch, _ in p.log[-5:]:
        duplicate = p.produce(batch)
        assert duplicate is not None
        assert (duplicate.first_offset, duplicate.last_offset) == (batch.base_offset, batch.last_offset)
        assert duplicate.timestamp == batch.max_timestamp
    assert p.end == 18
    for batch, _ in p.log[:2]:
        assert p.refused(batch) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.rule("P4")
@pytest.mark.parametrize("sequence", [4, 6, 100, 0, MAX_SEQUENCE])
def test_a_gap_or_a_step_back_is_out_of_order(sequence: int) -> None:
    p = Partition()
    p.produce(header(7, 0, count=5))
    assert p.refused(header(7, sequence)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert p.produce(header(7, 5)) is None


@pytest.mark.rule("P4")
def test_only_the_exact_range_is_a_duplicate() -> None:
    p = Partition()
    p.produce(header(7, 0, count=5))
    for base, count in ((0, 4), (0, 6), (1, 4), (2, 3)):
        assert p.refused(header(7, base, count=count)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.rule("P4")
def test_an_old_epoch_is_a_zombie_and_a_new_one_starts_at_sequence_0() -> None:
    p = Partition()
    p.produce(header(7, 0, epoch=3))
    assert p.refused(header(7, 1, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert p.refused(header(7, 1, epoch=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert p.produce(header(7, 0, epoch=4)) is None
    assert p.refused(header(7, 1, epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert p.refused(header(7, 0, epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert p.produce(header(7, 1, epoch=4)) is None


@pytest.mark.rule("P4")
@pytest.mark.parametrize("sequence", [0, 1, 12345, MAX_SEQUENCE])
def test_without_state_any_first_sequence_is_accepted(sequence: int) -> None:
    p = Partition()
    assert p.produce(header(7, sequence)) is None
    assert p.produce(header(7, (sequence + 1) % 2**31)) is None


@pytest.mark.rule("P4")
def test_sequences_wrap_within_a_batch_and_between_batches() -> None:
    p = Partition()
    wrapping = header(7, MAX_SEQUENCE - 1, count=4)
    p.produce(wrapping)
    assert p.produce(header(7, 2, count=2)) is None
    duplicate = p.produce(wrapping)
    assert duplicate == BatchMetadata(1, 3, 3, NOW)
    assert (duplicate.first_sequence, duplicate.first_offset) == (MAX_SEQUENCE - 1, 0)
    q = Partition()
    q.produce(header(7, MAX_SEQUENCE))
    assert q.refused(header(7, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert q.produce(header(7, 0)) is None


@pytest.mark.rule("P4")
def test_producers_do_not_see_each_other_and_others_are_not_looked_at() -> None:
    p = Partition()
    p.produce(header(7, 0))
    p.produce(header(8, 50))
    p.produce(header(-1, -1, epoch=-1))
    p.produce(header(-1, -1, epoch=-1))
    assert len(p.producers) == 2
    assert p.producers.map_end_offset == p.end == 4


@pytest.mark.rule("P4")
@pytest.mark.parametrize("synced", [True, False])
def test_five_batches_are_remembered_across_a_restart_with_a_snapshot(synced: bool) -> None:
    p = Partition()
    for sequence in range(8):
        p.produce(header(7, sequence))
    assert p.producers.take_snapshot(sync=synced) == 8
    assert p.restart() == 8
    for batch, _ in p.log[-5:]:
        duplicate = p.produce(batch)
        assert duplicate is not None
        assert duplicate.first_offset == batch.base_offset
    assert p.refused(p.log[2][0]) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert p.produce(header(7, 8)) is None


@pytest.mark.rule("P4")
def test_five_batches_are_remembered_across_a_restart_without_a_snapshot() -> None:
    p = Partition()
    for sequence in range(8):
        p.produce(header(7, sequence))
    assert p.restart() == 0
    for batch, _ in p.log[-5:]:
        assert p.produce(batch) is not None


@pytest.mark.rule("P4")
def test_truncated_batches_are_forgotten_and_may_come_again() -> None:
    p = Partition()
    for sequence in range(4):
        p.produce(header(7, sequence))
        p.producers.take_snapshot()
    assert p.producers.snapshot_offsets == [1, 2, 3, 4]
    p.truncate(2)
    assert p.producers.snapshot_offsets == [1, 2]
    assert not p.disk.exists(f"{DIR}/{3:020d}.snapshot")
    assert p.refused(header(7, 3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert p.produce(header(7, 2, count=3)) is None


@pytest.mark.rule("P4")
def test_a_producer_expires_by_silence_not_by_its_timestamps() -> None:
    p = Partition()
    p.produce(header(7, 0, timestamp=5))  # replays history: its timestamps are ancient
    p.produce(header(8, 0, timestamp=NOW + 10 * DEFAULT_EXPIRATION_MS))
    assert p.producers.remove_expired(NOW + DEFAULT_EXPIRATION_MS - 1) == 0
    p.now = NOW + 1
    p.produce(header(8, 1))
    assert p.producers.remove_expired(NOW + DEFAULT_EXPIRATION_MS) == 1
    assert p.producers.get(7) is None
    assert p.producers.get(8) is not None
    assert p.produce(header(7, 1000)) is None


@pytest.mark.rule("P4")
def test_who_expired_while_we_were_down_is_not_loaded() -> None:
    p = Partition()
    p.produce(header(7, 0))
    p.producers.take_snapshot()
    p.now += DEFAULT_EXPIRATION_MS - 1
    p.restart()
    assert len(p.producers) == 1
    p.now += 1
    p.restart()
    assert len(p.producers) == 0


def test_the_number_of_producers_is_bounded_by_forgetting_the_most_silent() -> None:
    manager = ProducerStateManager(new_disk(), DIR, TP, max_producers=3)
    written = ((1, True), (2, False), (3, False), (2, False), (4, False), (5, False))
    for offset, (producer_id, transactional) in enumerate(written):
        batch = header(producer_id, 0, offset=offset, transactional=transactional)
        manager.update_from_batch(batch, NOW)
    assert [entry.producer_id for entry in manager.entries()] == [1, 4, 5]
    assert manager.first_unstable_offset == 0


@pytest.mark.rule("P4")
def test_coordinators_are_checked_for_their_epoch_only() -> None:
    p = Partition()
    p.produce(header(7, -1, epoch=3, transactional=True), COORDINATOR)
    assert p.produce(header(7, -1, epoch=3, transactional=True), COORDINATOR) is None
    assert p.refused(header(7, -1, epoch=2), COORDINATOR) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_what_is_replicated_is_taken_as_it_is() -> None:
    p = Partition()
    p.produce(header(7, 5, epoch=3))
    for origin in (AppendOrigin.REPLICATION, AppendOrigin.RAFT_LEADER):
        assert p.produce(header(7, 99, epoch=1), origin) is None
    entry = p.producers.get(7)
    assert entry is not None
    assert (entry.producer_epoch, entry.last_sequence) == (1, 99)


def test_producer_state_survives_the_deletion_of_its_records() -> None:
    p = Partition()
    p.produce(header(7, 0, count=5))
    p.producers.take_snapshot()
    p.start = 5
    p.log.clear()
    p.producers.on_log_start_increment(5)
    assert p.refused(header(7, 9)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    p.restart()
    assert p.refused(header(7, 9)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert p.produce(header(7, 0, count=5)) is not None


def test_starting_over_forgets_everything() -> None:
    p = Partition()
    p.produce(header(7, 0, transactional=True))
    p.producers.take_snapshot()
    p.producers.truncate_fully_and_start_at(100)
    assert (len(p.producers), p.producers.map_end_offset) == (0, 100)
    assert p.producers.first_unstable_offset is None
    assert p.disk.list_dir(DIR) == []


def test_snapshots_are_taken_once_per_offset_and_removed_with_their_segments() -> None:
    p = Partition()
    for sequence in range(5):
        p.produce(header(7, sequence))
        assert p.producers.take_snapshot() == sequence + 1
        assert p.producers.take_snapshot() is None
    assert p.producers.take_snapshot(9) == 9
    with pytest.raises(ValueError, match="map that ends at 9"):
        p.producers.take_snapshot(8)
    p.producers.remove_snapshot(3)
    p.producers.remove_snapshot(77)
    assert p.producers.snapshot_offsets == [1, 2, 4, 5, 9]
    p.producers.remove_snapshots_before(2)
    assert p.producers.snapshot_offsets == [2, 4, 5, 9]
    p.producers.remove_stray_snapshots([0, 4])
    assert p.producers.snapshot_offsets == [4, 9]
    assert p.disk.list_dir(DIR) == [f"{4:020d}.snapshot", f"{9:020d}.snapshot"]


def test_a_snapshot_that_cannot_be_read_is_discarded_with_its_reason() -> None:
    p = Partition()
    p.produce(header(7, 0))
    p.producers.take_snapshot()
    p.produce(header(7, 1))
    p.producers.take_snapshot()
    p.disk.write_atomic(f"{DIR}/{2:020d}.snapshot", b"\0\x01rubbish that is no snapshot")
    assert p.restart() == 1
    assert p.producers.snapshot_offsets == [1]
    assert p.producers.discarded == [f"{2:020d}.snapshot: the CRC does not match"]
    assert p.produce(header(7, 1)) is not None


def test_snapshots_past_the_end_of_the_log_are_not_believed() -> None:
    p = Partition()
    p.produce(header(7, 0))
    p.produce(header(7, 1))
    p.producers.take_snapshot()
    p.log.pop()
    p.end = 1
    assert p.restart() == 0
    assert p.producers.snapshot_offsets == []
    assert p.produce(header(7, 1)) is None


SEQUENCES = st.sampled_from([0, 1, 2, 3, 4, 5, MAX_SEQUENCE - 1, MAX_SEQUENCE])


class ProducersAgainstAModel(RuleBasedStateMachine):
    """The map against a dumb twin that looks through the whole log each time."""

    @initialize()
    def begin(self) -> None:
        self.p = Partition()

    def _history(self, producer_id: int) -> list[BatchHeader]:
        """The producer's batches of its current epoch, the last five."""
        own = [batch for batch, _ in self.p.log if batch.producer_id == producer_id]
        current: list[BatchHeader] = []
        for batch in reversed(own):
            if batch.producer_epoch != own[-1].producer_epoch:
                break
            current.insert(0, batch)
        return current[-5:]

    def _expected(self, batch: BatchHeader) -> BatchHeader | ErrorCode | None:
        history = self._history(batch.producer_id)
        if not history:
            return None
        last = history[-1]
        if batch.producer_epoch == last.producer_epoch:
            for known in history:
                if (known.base_sequence, known.record_count) == (batch.base_sequence, batch.record_count):
                    return known
            follows = (last.base_sequence + last.record_count) % 2**31
            return None if batch.base_sequence == follows else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if batch.producer_epoch < last.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return None if batch.base_sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def _produce(self, batch: BatchHeader) -> None:
        expected = self._expected(batch)
        if isinstance(expected, ErrorCode):
            assert self.p.refused(batch) is expected
            return
        duplicate = self.p.produce(batch)
        if expected is None:
            assert duplicate is None
        else:
            assert duplicate is not None
            assert (duplicate.first_offset, duplicate.last_offset) == (expected.base_offset, expected.last_offset)

    @rule(pid=st.integers(1, 3), sequence=SEQUENCES, count=st.integers(1, 3), epoch=st.integers(0, 2))
    def produce_anything(self, pid: int, sequence: int, count: int, epoch: int) -> None:
        self._produce(header(pid, sequence, count=count, epoch=epoch))

    @rule(pid=st.integers(1, 3), counts=st.lists(st.integers(1, 3), max_size=7))
    def produce_on(self, pid: int, counts: list[int]) -> None:
        for count in counts:
            history = self._history(pid)
            sequence = (history[-1].base_sequence + history[-1].record_count) % 2**31 if history else 0
            epoch = history[-1].producer_epoch if history else 0
            self._produce(header(pid, sequence, count=count, epoch=epoch))

    @rule(back=st.integers(1, 9))
    def retry(self, back: int) -> None:
        if len(self.p.log) >= back:
            self._produce(self.p.log[-back][0]._replace(base_offset=0))

    @rule(sync=st.booleans())
    def snapshot(self, sync: bool) -> None:
        self.p.producers.take_snapshot(sync=sync)

    @rule()
    def restart(self) -> None:
        self.p.restart()

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        self.p.truncate(max(0, self.p.end - back))

    @invariant()
    def the_map_ends_where_the_log_does(self) -> None:
        if hasattr(self, "p"):
            assert self.p.producers.map_end_offset == self.p.end


@pytest.mark.rule("P4")
def test_the_map_agrees_with_a_model_that_reads_the_whole_log() -> None:
    run_state_machine_as_test(
        ProducersAgainstAModel,
        settings=settings(max_examples=60, stateful_step_count=40, deadline=None),
    )
