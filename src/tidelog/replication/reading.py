"""What a fetch finds in a partition's log: slices not yet read, and the offsets the reader is told."""

from dataclasses import dataclass
from typing import Final

from tidelog.core.ids import Offset
from tidelog.storage.log import Log
from tidelog.storage.log_types import LogSlice
from tidelog.storage.txn_index import AbortedTxn
from tidelog.wire.errors import ApiError, ErrorCode

READ_COMMITTED: Final = 1
NOTHING: Final = LogSlice(None, 0, 0, 0)


@dataclass(slots=True)
class Read:
    """What a fetch of one partition found: where the bytes are, and the offsets the reader is told."""

    slice: LogSlice
    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset
    aborted: list[AbortedTxn] | None
    diverging_epoch: tuple[int, int] | None

    def take_offsets(self, log: Log) -> None:
        """As they are now."""
        self.high_watermark = Offset(log.high_watermark)
        self.last_stable_offset = Offset(log.last_stable_offset)
        self.log_start_offset = Offset(log.log_start_offset)


def found(
    log: Log,
    records: LogSlice,
    *,
    aborted: list[AbortedTxn] | None = None,
    diverging_epoch: tuple[int, int] | None = None,
) -> Read:
    # `last_stable_offset` is never beyond the high watermark.
    return Read(
        records,
        Offset(log.high_watermark),
        Offset(log.last_stable_offset),
        Offset(log.log_start_offset),
        aborted,
        diverging_epoch,
    )


def for_consumer(log: Log, fetch_offset: int, max_bytes: int, isolation_level: int, *, min_one: bool) -> Read:
    """Below the high watermark, or below the last stable offset with the aborts of what is read (F1)."""
    if isolation_level != READ_COMMITTED:
        return found(log, log.read(fetch_offset, max_bytes, upper_bound=log.high_watermark, min_one=min_one))
    upper = min(log.last_stable_offset, log.high_watermark)
    records = log.read(fetch_offset, max_bytes, upper_bound=upper, min_one=min_one)
    # Of what the slice can hold, and no more: a reader far behind is not told of a whole log's aborts.
    aborted = log.aborted_transactions(fetch_offset, min(upper, log.end_of(records))) if records.size else []
    return found(log, records, aborted=aborted)


def diverging(log: Log, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
    """Where the reader's log leaves this one, as far as one round tells (F5); None where it does not."""
    epoch, end_offset = log.end_offset_for_epoch(last_fetched_epoch)
    if epoch == -1 and end_offset == -1:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{log.topic_partition}: epoch {last_fetched_epoch} of the last fetched record is not in this leader's log",
        )
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return epoch, end_offset
    return None
