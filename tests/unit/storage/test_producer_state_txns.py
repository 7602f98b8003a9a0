"""Transactions as a partition sees them: what holds the last stable offset back, and what was aborted."""

import struct

import pytest

from tidelog.core.ids import TopicPartition
from tidelog.storage.memory import MemoryDisk
from tidelog.storage.open_txns import CompletedTxn
from tidelog.storage.producer_state import DEFAULT_EXPIRATION_MS, ProducerStateManager
from tidelog.storage.txn_index import AbortedTxn, CorruptTxnIndex, TransactionIndex
from tidelog.storage.validation import AppendOrigin
from tidelog.wire.errors import ApiError, ErrorCode, WireError
from tidelog.wire.records.attributes import CONTROL_MASK
from tidelog.wire.records.batch import read_header
from tidelog.wire.records.control import EndTransactionMarker, encode_end_txn_marker
from tidelog.wire.records.plain import Record, encode_batch

DIR = "/data/orders-0"
NOW = 1_700_000_000_000


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_dirs(DIR)
    return disk


@pytest.fixture
def producers(disk: MemoryDisk) -> ProducerStateManager:
    return ProducerStateManager(disk, DIR, TopicPartition("orders", 0))


def data(producer_id: int, offset: int, sequence: int, *, transactional: bool = True, epoch: int = 0) -> bytes:
    return encode_batch(
        [Record(timestamp=NOW, value=b"v")],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )


def marker(producer_id: int, offset: int, *, commit: bool = True, epoch: int = 0, coordinator_epoch: int = 0) -> bytes:
    return encode_end_txn_marker(
        EndTransactionMarker(commit, coordinator_epoch),
        producer_id=producer_id,
        producer_epoch=epoch,
        timestamp=NOW,
        base_offset=offset,
    )


def append(producers: ProducerStateManager, batch: bytes) -> CompletedTxn | None:
    return producers.update_from_batch(read_header(batch), NOW, batch)


def unstable(producers: ProducerStateManager) -> int | None:
    return producers.first_unstable_offset


def refused(producers: ProducerStateManager, batch: bytes, origin: AppendOrigin) -> ErrorCode:
    with pytest.raises(ApiError) as refusal:
        producers.check(read_header(batch), origin, batch)
    return refusal.value.code


def test_a_transaction_holds_back_until_its_marker_is_replicated(producers: ProducerStateManager) -> None:
    append(producers, data(1, 0, 0, transactional=False))
    assert unstable(producers) is None
    append(producers, data(1, 1, 1))
    append(producers, data(1, 2, 2))
    assert unstable(producers) == 1
    completed = append(producers, marker(1, 3))
    assert completed == CompletedTxn(1, 1, 3, 4, is_aborted=False)
    assert unstable(producers) == 1
    producers.complete_txn(completed)
    producers.on_high_watermark_updated(3)
    assert unstable(producers) == 1
    producers.on_high_watermark_updated(4)
    assert unstable(producers) is None


def test_overlapping_transactions_and_the_stable_offset_of_an_abort(producers: ProducerStateManager) -> None:
    append(producers, data(1, 0, 0))
    append(producers, data(2, 1, 0))
    aborted = append(producers, marker(1, 2, commit=False))
    assert aborted == CompletedTxn(1, 0, 2, 1, is_aborted=True)
    producers.complete_txn(aborted)
    producers.on_high_watermark_updated(3)
    assert unstable(producers) == 1
    committed = append(producers, marker(2, 3))
    assert committed is not None
    assert committed.last_stable_offset == 4


def test_a_marker_without_data_decides_nothing_but_its_epoch_counts(producers: ProducerStateManager) -> None:
    assert append(producers, marker(1, 0, epoch=5, coordinator_epoch=2)) is None
    entry = producers.get(1)
    assert entry is not None
    assert (entry.producer_epoch, entry.coordinator_epoch, entry.last_sequence) == (5, 2, -1)
    assert refused(producers, data(1, 0, 0, epoch=4), AppendOrigin.CLIENT) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(producers, data(1, 0, 3, epoch=5), AppendOrigin.CLIENT) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(read_header(data(1, 0, 0, epoch=5)), AppendOrigin.CLIENT) is None


def test_a_fenced_coordinator_and_a_write_outside_the_transaction(producers: ProducerStateManager) -> None:
    append(producers, marker(1, 0, coordinator_epoch=3))
    append(producers, data(1, 1, 0))
    late = marker(1, 2, coordinator_epoch=2)
    assert refused(producers, late, AppendOrigin.COORDINATOR) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    outside = data(1, 2, 1, transactional=False)
    assert refused(producers, outside, AppendOrigin.CLIENT) is ErrorCode.INVALID_TXN_STATE


def test_markers_that_make_no_sense_are_found_before_the_append(producers: ProducerStateManager) -> None:
    nonsense = encode_batch([Record(key=b"?")], producer_id=1, producer_epoch=0, is_control=True)
    assert refused(producers, nonsense, AppendOrigin.COORDINATOR) is ErrorCode.INVALID_RECORD
    with pytest.raises(WireError):
        append(producers, nonsense)
    with pytest.raises(ValueError, match="without its records"):
        producers.update_from_batch(read_header(marker(1, 0)), NOW)


def test_an_emptied_control_batch_is_no_marker(producers: ProducerStateManager) -> None:
    emptied = read_header(encode_batch([], base_offset=4, last_offset_delta=0, producer_id=1, is_control=True))
    assert emptied.attributes & CONTROL_MASK
    assert producers.update_from_batch(emptied, NOW) is None
    assert producers.map_end_offset == 5
    assert len(producers) == 0


def test_control_batches_of_no_producer_are_only_counted(producers: ProducerStateManager) -> None:
    leader_change = encode_batch([Record(key=b"\0\0\0\x02")], base_offset=3, is_control=True)
    assert append(producers, leader_change) is None
    assert producers.map_end_offset == 4


def test_an_open_transaction_survives_restart_and_expiry(disk: MemoryDisk, producers: ProducerStateManager) -> None:
    append(producers, data(1, 0, 0))
    append(producers, data(2, 1, 0))
    producers.take_snapshot()
    again = ProducerStateManager(disk, DIR, producers.topic_partition)
    much_later = NOW + 10 * DEFAULT_EXPIRATION_MS
    assert again.load(0, 2, much_later) == 2
    assert unstable(again) == 0
    assert again.remove_expired(much_later) == 0
    completed = append(again, marker(1, 2))
    assert completed == CompletedTxn(1, 0, 2, 1, is_aborted=False)


def test_a_transaction_is_completed_once(producers: ProducerStateManager) -> None:
    append(producers, data(1, 0, 0))
    completed = append(producers, marker(1, 1))
    assert completed is not None
    producers.complete_txn(completed)
    with pytest.raises(ValueError, match="not begun"):
        producers.complete_txn(completed)


ENTRIES = [AbortedTxn(1, 0, 10, 5), AbortedTxn(2, 5, 20, 12), AbortedTxn(1, 12, 30, 31)]


@pytest.fixture
def index(disk: MemoryDisk) -> TransactionIndex:
    return TransactionIndex(disk, f"{DIR}/{0:020d}.txnindex", 0)


def test_no_file_until_there_is_an_abort(disk: MemoryDisk, index: TransactionIndex) -> None:
    assert index.entries() == []
    assert index.collect(0, 100) == ([], False)
    index.reset()
    index.truncate_to(0)
    index.flush()
    index.close()
    assert disk.list_dir(DIR) == []


def test_entries_are_kafkas_34_bytes_and_come_back(disk: MemoryDisk, index: TransactionIndex) -> None:
    for txn in ENTRIES:
        index.append(txn)
    index.flush()
    assert disk.read_bytes(index.path)[:34] == struct.pack(">hqqqq", 0, 1, 0, 10, 5)
    again = TransactionIndex(disk, index.path, 0)
    assert len(again) == 3
    assert again.entries() == ENTRIES
    with pytest.raises(ValueError, match="ends at 30"):
        again.append(AbortedTxn(9, 1, 30, 31))


@pytest.mark.parametrize(
    ("start", "upper", "found", "complete"),
    [
        (0, 5, [0], True),
        (0, 6, [0, 1], True),
        (11, 12, [1], True),
        (11, 13, [1, 2], True),
        (21, 40, [2], False),
        (31, 40, [], False),
    ],
)
def test_a_search_ends_where_no_later_abort_can_matter(
    index: TransactionIndex, start: int, upper: int, found: list[int], complete: bool
) -> None:
    for txn in ENTRIES:
        index.append(txn)
    assert index.collect(start, upper) == ([ENTRIES[n] for n in found], complete)


def test_truncation_and_reset(disk: MemoryDisk, index: TransactionIndex) -> None:
    for txn in ENTRIES:
        index.append(txn)
    index.truncate_to(20)
    assert index.entries() == ENTRIES[:1]
    index.append(ENTRIES[1])
    index.reset()
    assert (len(index), disk.file_size(index.path)) == (0, 0)
    index.append(ENTRIES[0])
    assert index.entries() == ENTRIES[:1]


@pytest.mark.parametrize(
    "damaged",
    [
        b"?" * 33,
        struct.pack(">hqqqq", 1, 1, 0, 10, 5),
        struct.pack(">hqqqq", 0, 1, 0, 10, 5) * 2,
        struct.pack(">hqqqq", 0, 1, 11, 10, 5),
    ],
)
def test_a_damaged_index_is_found(disk: MemoryDisk, damaged: bytes) -> None:
    path = f"{DIR}/{0:020d}.txnindex"
    disk.write_atomic(path, damaged)
    with pytest.raises(CorruptTxnIndex):
        TransactionIndex(disk, path, 0).collect(0, 100)


def test_entries_below_the_segment_do_not_belong_to_it(disk: MemoryDisk) -> None:
    path = f"{DIR}/{50:020d}.txnindex"
    disk.write_atomic(path, struct.pack(">hqqqq", 0, 1, 0, 49, 50))
    with pytest.raises(CorruptTxnIndex):
        TransactionIndex(disk, path, 50).entries()
