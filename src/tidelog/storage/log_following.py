"""What a follower may append: batches as their leader stamped them, that go on where its own log ends."""

from typing import TYPE_CHECKING

from tidelog.storage.validation import check_batches
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.records.batch import BatchHeader

if TYPE_CHECKING:
    from tidelog.storage.log import Log


def batches_to_append(log: "Log", records: memoryview, leader_epoch: int | None) -> list[tuple[int, BatchHeader]]:
    """Positions and headers, if the bytes are whole, undamaged and follow on this log; ApiError says what is wrong.

    Holes between batches are the leader's: its compaction made them. With `leader_epoch` the epochs in the headers,
    which no CRC covers, have to be between this log's latest and the leader's own, and a cut last batch is left out.
    """
    batches = check_batches(records, partial_tail=leader_epoch is not None)
    expected, epoch = log.log_end_offset, log.latest_epoch
    for _, header in batches:
        if header.base_offset < expected or header.last_offset_delta < 0:
            raise ApiError(
                ErrorCode.INVALID_RECORD,
                f"{log.topic_partition}: a batch at offset {header.base_offset}, but the next offset is {expected}",
            )
        expected = header.base_offset + header.last_offset_delta + 1
        if leader_epoch is not None:
            if not epoch <= header.partition_leader_epoch <= leader_epoch or header.partition_leader_epoch < 0:
                raise ApiError(
                    ErrorCode.INVALID_RECORD,
                    f"{log.topic_partition}: a batch of epoch {header.partition_leader_epoch} at offset "
                    f"{header.base_offset}, between epoch {epoch} of this log and {leader_epoch} of its leader",
                )
            epoch = header.partition_leader_epoch
    return batches
