"""What a follower does to its log: append the leader's bytes, take its offsets, cut where the two diverge.

The caller (`fetcher`) has made sure that the answer is for the log as it is now; nothing here awaits in between.
"""

from dataclasses import dataclass
from typing import Final

from tidelog.core.events import CommittedRecordsLost, LogTruncated
from tidelog.core.ids import LeaderEpoch
from tidelog.replication.partition import Partition
from tidelog.storage.checkpoints import EpochEntry
from tidelog.storage.epoch_cache import UNDEFINED_EPOCH
from tidelog.storage.log import Log
from tidelog.storage.log_types import AppendInfo
from tidelog.storage.segment import CorruptSegment
from tidelog.wire.buffers import Buffer
from tidelog.wire.errors import ApiError, ErrorCode, WireError
from tidelog.wire.records.batch import BATCH_OVERHEAD, read_header

NOTHING_CUT: Final = None


@dataclass(frozen=True, slots=True)
class LeaderOffsets:
    """What a leader's answer says of its log."""

    high_watermark: int
    log_start_offset: int


def append_as_follower(partition: Partition, records: Buffer, leader_epoch: LeaderEpoch, now_ms: int) -> AppendInfo:
    """The batches as they are, in one append. ApiError if they are damaged or do not go on where this log ends."""
    data, log = memoryview(records), partition.log
    if len(data) < BATCH_OVERHEAD:
        raise ApiError(
            ErrorCode.CORRUPT_MESSAGE, f"{partition.topic_partition}: {len(data)} bytes hold no complete batch header"
        )
    try:
        first = read_header(data)
    except WireError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{partition.topic_partition}: {error}") from error
    if first.size_in_bytes > len(data):
        raise ApiError(
            ErrorCode.CORRUPT_MESSAGE,
            f"{partition.topic_partition}: {len(data)} bytes of a batch of {first.size_in_bytes}",
        )
    if first.base_offset < log.log_end_offset <= first.last_offset and log.log_end_offset == log.log_start_offset:
        return _append_from_inside_a_batch(log, data, first.base_offset, leader_epoch, now_ms)
    return log.append_as_follower(data, now_ms, leader_epoch=leader_epoch)


def _append_from_inside_a_batch(
    log: Log, data: memoryview, base_offset: int, leader_epoch: LeaderEpoch, now_ms: int
) -> AppendInfo:
    """DeleteRecords left the leader's log start inside a batch, and an empty follower begins there (F4, F6)."""
    start = log.log_start_offset
    log.truncate_fully_and_start_at(base_offset, now_ms)
    info = log.append_as_follower(data, now_ms, leader_epoch=leader_epoch)
    log.raise_log_start_offset(start)
    return info


def follow_offsets(partition: Partition, leader: LeaderOffsets) -> bool:
    """The leader's high watermark, clamped to this log (W3), and its log start. Whether the high watermark moved."""
    log = partition.log
    before = log.high_watermark
    if leader.high_watermark != before:
        log.update_high_watermark(leader.high_watermark)
    if leader.log_start_offset > log.log_start_offset:
        # Written down before the next fetch tells the leader of it, with those of other partitions (`Fetcher`).
        log.raise_log_start_offset(min(leader.log_start_offset, log.high_watermark))
    return log.high_watermark != before


def begin(partition: Partition, leader_epoch: LeaderEpoch, now_ms: int) -> LogTruncated | None:
    """Before the first fetch of a new leader epoch. Only a log that knows no epochs has to trust its HW (E3).

    Nobody wrote in an epoch after the leader's: such a one was read from a damaged header, and the leader, who knows
    nothing of it, could not tell where to cut.
    """
    log = partition.log
    damaged = next((entry for entry in log.epochs.entries if entry.epoch > leader_epoch), None)
    if damaged is not None:
        reason = f"the log has epoch {damaged.epoch}, above the leader's epoch {leader_epoch}: the log is damaged"
        return cut(partition, damaged.start_offset, reason, now_ms)
    if log.latest_epoch != UNDEFINED_EPOCH or log.high_watermark == log.log_end_offset:
        return NOTHING_CUT
    return cut(
        partition, log.high_watermark, "the log has no leader epochs, so it is cut at its high watermark", now_ms
    )


def cut_to_divergence(
    partition: Partition, leader_id: int, epoch: int, end_offset: int, now_ms: int
) -> LogTruncated | None:
    """The leader's largest epoch not above our latest is `epoch`, and ends at `end_offset` there (E3).

    What we have of later epochs it never had, nor what we have of `epoch` beyond that end. If we do not know `epoch`
    ourselves, the end of our largest below it may still be too far: the next fetch asks about that one.
    """
    log = partition.log
    own = log.end_offset_for_epoch(epoch)
    if own.epoch == UNDEFINED_EPOCH:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"{partition.topic_partition}: leader {leader_id} reports a divergence in epoch {epoch}, later than "
            "every epoch of this log",
        )
    offset = min(own.start_offset, end_offset) if own.epoch == epoch else own.start_offset
    before = (log.log_end_offset, log.latest_epoch)
    reason = (
        f"leader {leader_id} has epoch {epoch} up to offset {end_offset} and this log has no later epoch "
        "in common with it"
    )
    event = cut(partition, offset, reason, now_ms)
    if (log.log_end_offset, log.latest_epoch) == before:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"{partition.topic_partition}: leader {leader_id} diverges in epoch {epoch} at offset {end_offset}, "
            f"where this log, of epoch {before[1]} up to offset {before[0]}, does not",
        )
    return event


def cut(partition: Partition, offset: int, reason: str, now_ms: int) -> LogTruncated | None:
    """Cuts at `offset`; None if there was nothing behind it.

    Where the log is damaged nobody can tell where a batch begins, nor what its producers wrote. Such a replica goes
    offline by itself: it must not go on behind records that its leader does not have, and others have to go on.
    """
    log = partition.log
    before = _Ends.of(log)
    try:
        was_cut = log.truncate_to(offset, now_ms)
    except CorruptSegment as error:
        partition.go_offline(f"its log is damaged at the offset of the truncation: {error}")
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{partition.topic_partition} goes offline: {error}") from error
    return _truncated(partition, before, reason) if was_cut else NOTHING_CUT


def start_anew(partition: Partition, leader_id: int, log_start_offset: int, now_ms: int) -> LogTruncated:
    """Nothing of ours joins the leader's log, which begins behind our end, or before a log that is empty (F6).

    No epoch is noted for the new start: an empty log has nothing that could diverge.
    """
    log = partition.log
    before = _Ends.of(log)
    log.truncate_fully_and_start_at(log_start_offset, now_ms)
    reason = f"the log of leader {leader_id} begins at {log_start_offset}, and this log does not connect to it"
    return _truncated(partition, before, reason)


@dataclass(frozen=True, slots=True)
class _Ends:
    """Of a log before it was cut."""

    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    epochs: tuple[EpochEntry, ...]

    @classmethod
    def of(cls, log: Log) -> "_Ends":
        return cls(log.log_start_offset, log.log_end_offset, log.high_watermark, tuple(log.epochs.entries))

    def epochs_of(self, first_offset: int, end_offset: int) -> tuple[int, ...]:
        """Those in which these offsets were written."""
        ends = (*(entry.start_offset for entry in self.epochs[1:]), self.log_end_offset)
        spans = zip(self.epochs, ends, strict=False)
        return tuple(entry.epoch for entry, end in spans if entry.start_offset < end_offset and end > first_offset)


def _truncated(partition: Partition, before: _Ends, reason: str) -> LogTruncated:
    """What is told of a cut; below the high watermark it lost what was committed, and an operator wants to know (C6).

    No clean leader lacks a committed record, so an unclean election did it, or a power cut of all who had it (W6).
    """
    topic, number = partition.topic_partition
    end = partition.log.log_end_offset
    first_lost = max(end, before.log_start_offset)
    if first_lost >= before.high_watermark:
        return LogTruncated(
            topic=topic, partition=number, old_end_offset=before.log_end_offset, new_end_offset=end, reason=reason
        )
    return CommittedRecordsLost(
        topic=topic,
        partition=number,
        old_end_offset=before.log_end_offset,
        new_end_offset=end,
        reason=reason,
        first_lost_offset=first_lost,
        last_lost_offset=before.high_watermark - 1,
        leader_epochs=before.epochs_of(first_lost, before.high_watermark),
    )
