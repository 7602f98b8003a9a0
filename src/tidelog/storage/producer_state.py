"""The producers of one partition: duplicates, gaps, zombies, and transactions that are open (P4).

The log is the truth: this map is what replaying it gives, and a snapshot file only saves the replay. So nothing
here is changed before the batch is in the log (`check`, append, `update_from_batch`).
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final

from tidelog.core.ids import TopicPartition
from tidelog.storage.open_txns import CompletedTxn, OpenTransactions
from tidelog.storage.ports import Disk
from tidelog.storage.producer_entry import BatchMetadata, ProducerEntry
from tidelog.storage.producer_snapshot import CorruptSnapshot, decode_snapshot, encode_snapshot
from tidelog.storage.segment import SNAPSHOT_SUFFIX, file_name
from tidelog.storage.validation import MAX_MARKER_BYTES, AppendOrigin
from tidelog.wire.buffers import Buffer
from tidelog.wire.errors import ApiError, ErrorCode, WireError
from tidelog.wire.records.batch import BatchHeader
from tidelog.wire.records.control import EndTransactionMarker, parse_end_txn_marker
from tidelog.wire.records.plain import decode_batch

DEFAULT_EXPIRATION_MS: Final = 86_400_000
# Kafka bounds producers by expiry alone; a client that asks for a new id per record would then own our memory.
# Beyond this many on one partition the one silent for longest is forgotten, unless it is in a transaction.
MAX_PRODUCERS: Final = 100_000


class ProducerStateManager:
    """Invariant: the map is the replay of every batch below `map_end_offset`, less who expired.

    `producers` is in the order in which they last wrote.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        *,
        producer_id_expiration_ms: int = DEFAULT_EXPIRATION_MS,
        max_producers: int = MAX_PRODUCERS,
    ) -> None:
        self.disk = disk
        self.dir = directory
        self.topic_partition = topic_partition
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.map_end_offset = 0
        # Snapshots the last load could not use, with the reason: for whoever tells people about recovery.
        self.discarded: list[str] = []
        self._max_producers = max_producers
        self._producers: dict[int, ProducerEntry] = {}
        self._txns = OpenTransactions()
        self._snapshots: list[int] = []
        # Those written by rolls, and not durable yet, each with a number of its own: one may be made a second time.
        self._unsynced: dict[int, int] = {}
        self._written = 0

    # -- asking

    def __len__(self) -> int:
        return len(self._producers)

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._producers.get(producer_id)

    def entries(self) -> list[ProducerEntry]:
        """All producers, by id."""
        return sorted(self._producers.values(), key=lambda entry: entry.producer_id)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the last stable offset must stop, if a transaction holds it back."""
        return self._txns.first_unstable_offset

    @property
    def snapshot_offsets(self) -> list[int]:
        """Offsets of the snapshot files, ascending."""
        return list(self._snapshots)

    # -- appending

    def check(self, header: BatchHeader, origin: AppendOrigin, records: Buffer | None = None) -> BatchMetadata | None:
        """Before the append: the earlier append this batch repeats, or None if it is new; ApiError if it may not be.

        `records`, the batch itself, is needed for control batches only.
        """
        if header.producer_id < 0 or origin in (AppendOrigin.REPLICATION, AppendOrigin.RAFT_LEADER):
            return None
        # Read before the append in any case: a marker that makes no sense must not get into the log.
        try:
            marker = _marker(header, records) if header.is_control else None
        except WireError as error:
            raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from error
        entry = self._producers.get(header.producer_id)
        if entry is None:
            # Never seen, expired, or its records are gone: any first sequence is accepted.
            return None
        if origin is AppendOrigin.CLIENT:
            duplicate = entry.find_duplicate(header)
            if duplicate is not None:
                return duplicate
        if header.producer_epoch < entry.producer_epoch:
            raise self._refusal(ErrorCode.INVALID_PRODUCER_EPOCH, header, entry)
        if header.is_control:
            if marker is not None and marker.coordinator_epoch < entry.coordinator_epoch:
                raise self._refusal(ErrorCode.TRANSACTION_COORDINATOR_FENCED, header, entry)
            return None
        if origin is AppendOrigin.CLIENT:
            new_epoch = header.producer_epoch != entry.producer_epoch
            if header.base_sequence != 0 if new_epoch else not entry.follows(header.base_sequence):
                raise self._refusal(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, header, entry)
        if entry.current_txn_first_offset is not None and not header.is_transactional:
            raise self._refusal(ErrorCode.INVALID_TXN_STATE, header, entry)
        return None

    def update_from_batch(self, header: BatchHeader, now_ms: int, records: Buffer | None = None) -> CompletedTxn | None:
        """After the append, and for each batch of a replay. The header carries the offsets the log assigned.

        A transaction that ends is returned: put an abort into the transaction index, then call `complete_txn`.
        """
        completed: CompletedTxn | None = None
        if header.producer_id >= 0:
            if header.is_control:
                completed = self._end_txn(header, now_ms, records)
            else:
                self._add_batch(header, now_ms)
        self.map_end_offset = header.next_offset
        return completed

    def complete_txn(self, txn: CompletedTxn) -> None:
        """Let the last stable offset pass the transaction once the high watermark has."""
        self._txns.complete(txn)

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        self._txns.forget_decided_below(high_watermark)

    def advance_to(self, offset: int) -> None:
        """There is no batch of a producer between the end of the map and `offset`."""
        self.map_end_offset = max(self.map_end_offset, offset)

    def remove_expired(self, now_ms: int) -> int:
        """Forget who has been silent too long and is in no transaction; how many."""
        expired = [entry for entry in self._producers.values() if self._is_expired(entry, now_ms)]
        for entry in expired:
            del self._producers[entry.producer_id]
        return len(expired)

    # -- loading, truncating

    def load(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> int:
        """Start from the newest usable snapshot; batches from the returned offset on must be replayed."""
        self._clear()
        self.discarded = []
        self._snapshots = self._list_snapshots()
        self._remove(offset for offset in self.snapshot_offsets if offset > log_end_offset)
        self.map_end_offset = log_start_offset
        while self._snapshots:
            newest = self._snapshots[-1]
            try:
                entries = decode_snapshot(self.disk.read_bytes(self._path(newest)))
            except CorruptSnapshot as error:
                self.discarded.append(f"{file_name(newest, SNAPSHOT_SUFFIX)}: {error}")
                self._remove((newest,))
                continue
            self._take_over(entries, now_ms)
            # Up to the log start only the newest is of use: it may know producers whose records are gone, and a crash
            # may leave nobody but it to tell of them (newer ones are then distrusted).
            self._remove([offset for offset in self._snapshots if offset <= log_start_offset][:-1])
            self.map_end_offset = max(newest, log_start_offset)
            break
        return self.map_end_offset

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> int:
        """After the log lost its end: as `load`. Nothing is reloaded if the map ends where the log does."""
        if log_end_offset == self.map_end_offset:
            self._remove(offset for offset in self.snapshot_offsets if offset > log_end_offset)
            self.on_log_start_increment(log_start_offset)
            return log_end_offset
        return self.load(log_start_offset, log_end_offset, now_ms)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """The log begins anew: nothing that was known holds."""
        self._clear()
        self._remove(self.snapshot_offsets)
        self.map_end_offset = offset

    def on_log_start_increment(self, log_start_offset: int) -> None:
        """Producers stay known after their records are gone; decided transactions below the start do not."""
        self._txns.forget_decided_below(log_start_offset)
        self.advance_to(log_start_offset)

    # -- snapshots

    def take_snapshot(self, offset: int | None = None, *, sync: bool = True) -> int | None:
        """Save the map as of its end (or of a later `offset` before which nothing more was appended).

        None if that snapshot exists. Without `sync` a power cut may lose or tear the file until `snapshot_syncs` are
        done: its CRC tells, and the next load replays more. Right for a roll; a clean shutdown syncs.
        """
        if offset is not None:
            if offset < self.map_end_offset:
                raise ValueError(f"snapshot at {offset} of a map that ends at {self.map_end_offset}")
            self.map_end_offset = offset
        if self._snapshots and self._snapshots[-1] >= self.map_end_offset:
            return None
        data = encode_snapshot(self.entries())
        path = self._path(self.map_end_offset)
        if sync:
            self.disk.write_atomic(path, data)
        else:
            file = self.disk.open(path, create=True)
            try:
                file.truncate(0)
                file.append(data)
            finally:
                file.close()
            self._written += 1
            self._unsynced[self.map_end_offset] = self._written
        insort(self._snapshots, self.map_end_offset)
        return self.map_end_offset

    def snapshot_syncs(self) -> list[Callable[[], None]]:
        """The fsyncs of snapshots that rolls have written, for any thread: batches before them may be deleted one day,
        and then nothing else tells of their producers.
        """
        return [partial(self._sync_snapshot, offset, number) for offset, number in list(self._unsynced.items())]

    def distrust_syncs(self, recovery_point: int) -> None:
        """The snapshots here are of a process that may not have lived to sync them: a flush up to the recovery point
        did those before it.

        Nor may it have succeeded in that, so that what is not of this process is written over with itself: as recovery
        does with the log, and for the same reason.
        """
        for offset in self._snapshots[bisect_left(self._snapshots, recovery_point) :]:
            if offset not in self._unsynced:
                self._write_again(self._path(offset))
            self._written += 1
            self._unsynced[offset] = self._written

    def _write_again(self, path: str) -> None:
        data = self.disk.read_bytes(path)
        file = self.disk.open(path)
        try:
            file.pwrite(data, 0)
        finally:
            file.close()

    def _sync_snapshot(self, offset: int, number: int) -> None:
        file = self.disk.open(self._path(offset))
        try:
            file.fsync()
        finally:
            file.close()
        if self._unsynced.get(offset) == number:
            self._unsynced.pop(offset, None)

    def remove_snapshot(self, offset: int) -> None:
        """The one at `offset`, if there is one: its segment is deleted."""
        if offset in self._snapshots:
            self._remove((offset,))

    def remove_snapshots_before(self, offset: int) -> None:
        self._remove(self._snapshots[: bisect_left(self._snapshots, offset)])

    def remove_stray_snapshots(self, segment_base_offsets: Collection[int]) -> None:
        """Keep those of segments, and the newest of all: a clean shutdown wrote it at the end of the log."""
        kept = set(segment_base_offsets)
        self._remove(offset for offset in self.snapshot_offsets[:-1] if offset not in kept)

    # -- inside

    def _add_batch(self, header: BatchHeader, now_ms: int) -> None:
        entry = self._touch(header.producer_id, now_ms)
        entry.move_to_epoch(header.producer_epoch)
        entry.remember(
            BatchMetadata(header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp)
        )
        entry.last_timestamp = header.max_timestamp
        if header.is_transactional and entry.current_txn_first_offset is None:
            entry.current_txn_first_offset = header.base_offset
            self._txns.begin(header.producer_id, header.base_offset)

    def _end_txn(self, header: BatchHeader, now_ms: int, records: Buffer | None) -> CompletedTxn | None:
        marker = _marker(header, records)
        if marker is None:
            return None
        entry = self._touch(header.producer_id, now_ms)
        completed: CompletedTxn | None = None
        # A marker without data before it (all of it elsewhere, or compacted away) decides nothing here.
        if entry.current_txn_first_offset is not None:
            completed = CompletedTxn(
                header.producer_id,
                entry.current_txn_first_offset,
                header.last_offset,
                self._txns.last_stable_offset_after(header.producer_id, header.last_offset),
                not marker.committed,
            )
        entry.move_to_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        entry.current_txn_first_offset = None
        return completed

    def _touch(self, producer_id: int, now_ms: int) -> ProducerEntry:
        """The producer's entry, moved to the end of the order."""
        entry = self._producers.pop(producer_id, None)
        if entry is None:
            entry = ProducerEntry(producer_id)
            if len(self._producers) >= self._max_producers:
                self._forget_one()
        self._producers[producer_id] = entry
        entry.last_seen_ms = now_ms
        return entry

    def _forget_one(self) -> None:
        for producer_id, entry in self._producers.items():
            if entry.current_txn_first_offset is None:
                del self._producers[producer_id]
                return

    def _take_over(self, entries: Iterable[ProducerEntry], now_ms: int) -> None:
        live = [entry for entry in entries if not self._is_expired(entry, now_ms)]
        live.sort(key=lambda entry: (entry.last_seen_ms, entry.producer_id))
        for entry in live:
            entry.last_seen_ms = min(entry.last_seen_ms, now_ms)
            self._producers[entry.producer_id] = entry
            if entry.current_txn_first_offset is not None:
                self._txns.begin(entry.producer_id, entry.current_txn_first_offset)

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        silent_ms = now_ms - entry.last_seen_ms
        return entry.current_txn_first_offset is None and silent_ms >= self.producer_id_expiration_ms

    def _clear(self) -> None:
        self._producers.clear()
        self._txns.clear()

    def _list_snapshots(self) -> list[int]:
        stems = (
            name.removesuffix(SNAPSHOT_SUFFIX)
            for name in self.disk.list_dir(self.dir)
            if name.endswith(SNAPSHOT_SUFFIX)
        )
        return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())

    def _remove(self, offsets: Iterable[int]) -> None:
        """Durably: a snapshot that came back after a crash could lie about a log that was cut and grew again."""
        gone = set(offsets)
        for offset in sorted(gone):
            self.disk.remove(self._path(offset))
            self._unsynced.pop(offset, None)
        if gone:
            self.disk.fsync_dir(self.dir)
            self._snapshots = [offset for offset in self._snapshots if offset not in gone]

    def _path(self, offset: int) -> str:
        return f"{self.dir}/{file_name(offset, SNAPSHOT_SUFFIX)}"

    def _refusal(self, code: ErrorCode, header: BatchHeader, entry: ProducerEntry) -> ApiError:
        return ApiError(
            code,
            f"{self.topic_partition}: batch of producer {header.producer_id} with epoch {header.producer_epoch} and "
            f"sequences {header.base_sequence} to {header.last_sequence}; known: {entry}",
        )


def _marker(header: BatchHeader, records: Buffer | None) -> EndTransactionMarker | None:
    """The marker in a control batch; None if compaction has emptied it."""
    if header.record_count == 0:
        return None
    if records is None:
        raise ValueError(f"control batch at {header.base_offset} without its records")
    _, decoded = decode_batch(records, MAX_MARKER_BYTES, verify_crc=False)
    if not decoded:
        raise WireError(f"control batch at {header.base_offset} has no marker")
    return parse_end_txn_marker(decoded[0])
