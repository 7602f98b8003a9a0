"""Producer state beside the log: kept with each append, rebuilt when the log is opened or cut (P4)."""

from typing import TYPE_CHECKING

from tidelog.storage.producer_state import ProducerStateManager
from tidelog.storage.segment import Segment
from tidelog.storage.txn_index import AbortedTxn
from tidelog.wire.buffers import Buffer
from tidelog.wire.records.batch import BatchHeader

if TYPE_CHECKING:
    from tidelog.storage.log import Log


def update(
    producers: ProducerStateManager, segment: Segment, header: BatchHeader, records: Buffer | None, now_ms: int
) -> None:
    """After a batch of a producer was written to `segment`."""
    completed = producers.update_from_batch(header, now_ms, records)
    if completed is None:
        return
    if completed.is_aborted:
        index = segment.txn_index
        known = index.entries()
        # A replay meets aborts that the index of a trusted segment already holds.
        if not known or known[-1].last_offset < completed.last_offset:
            index.append(
                AbortedTxn(
                    completed.producer_id,
                    completed.first_offset,
                    completed.last_offset,
                    completed.last_stable_offset,
                )
            )
    producers.complete_txn(completed)


def load(log: "Log", now_ms: int, flushed: int | None) -> None:
    """A log just opened; `flushed` up to there before an unclean end, None after an orderly one."""
    log.producers.load(log.segments[0].base_offset, log.log_end_offset, now_ms)
    log.recovery_notes += [f"discarded {reason}" for reason in log.producers.discarded]
    _replay(log, now_ms)
    log.producers.remove_stray_snapshots([segment.base_offset for segment in log.segments])
    if flushed is not None:
        log.producers.distrust_syncs(flushed)


def rebuild(log: "Log", now_ms: int) -> None:
    """A log that lost its end."""
    log.producers.truncate_and_reload(log.segments[0].base_offset, log.log_end_offset, now_ms)
    _replay(log, now_ms)


def _replay(log: "Log", now_ms: int) -> None:
    """Brings the map to the log's end. Batches without a producer id are skipped by their header alone.

    Those below the log start count as long as they are there: a retry may still come of records that were deleted.
    """
    start = max(log.producers.map_end_offset, log.segments[0].base_offset)
    if start < log.log_end_offset:
        for segment in log.segments.from_offset(start):
            if segment.base_offset > start:
                # As the roll had done it: retention leaves nothing else to tell of the producers before it.
                log.producers.take_snapshot(segment.base_offset, sync=False)
            position = segment.position_of(start)
            if position is None:
                continue
            for found, header in segment.headers(position):
                if header.producer_id >= 0:
                    records = segment.log.pread(header.size_in_bytes, found) if header.is_control else None
                    update(log.producers, segment, header, records, now_ms)
    log.producers.advance_to(log.log_end_offset)


def aborted_transactions(log: "Log", start_offset: int, upper_bound: int) -> list[AbortedTxn]:
    found: list[AbortedTxn] = []
    for segment in log.segments.from_offset(start_offset):
        some, done = segment.txn_index.collect(start_offset, upper_bound)
        found += some
        if done:
            break
    return found
