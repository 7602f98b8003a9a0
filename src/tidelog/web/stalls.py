"""Finds high watermarks that stall below the end of their log."""

from typing import Final

from tidelog.web.board import Board, Partition, PartitionKey
from tidelog.web.explain import MOVES_AGAIN, STALLED, STALLED_BELOW_MIN_ISR
from tidelog.web.timeline import Timeline

# A commit takes milliseconds. A node with very many changes reports once a second.
STALL_MS: Final = 2_000


class Stalls:
    """Checks each partition when it changes, and the waiting ones as time passes."""

    def __init__(self) -> None:
        # Partitions with uncommitted records: their high watermark, and since when it has been there.
        self._waiting: dict[PartitionKey, tuple[int, int]] = {}

    def look(self, partition: Partition, now_ms: int) -> Partition:
        """Records the position of the high watermark. A partition whose high watermark moves is no longer stalled."""
        leading = partition.leading
        if leading is None or leading.high_watermark >= leading.log_end_offset:
            self._waiting.pop(partition.key, None)
            return _moving(partition) if leading is not None else partition
        known = self._waiting.get(partition.key)
        if known is None or known[0] != leading.high_watermark:
            self._waiting[partition.key] = leading.high_watermark, now_ms
            return _moving(partition)
        return partition

    def tick(self, board: Board, timeline: Timeline, now_ms: int) -> None:
        """Reports the partitions that have waited long enough."""
        for key, (high_watermark, since_ms) in list(self._waiting.items()):
            partition = board.partitions.get(key)
            if partition is None:
                del self._waiting[key]
            elif partition.stalled_ms is None and now_ms - since_ms >= STALL_MS:
                board.put_partition(partition._replace(stalled_ms=since_ms))
                below = partition.min_isr is not None and len(partition.isr) < partition.min_isr
                timeline.say(
                    f"{partition.name}: the high watermark stalls at {high_watermark}",
                    STALLED_BELOW_MIN_ISR if below else STALLED,
                    now_ms,
                    partition=partition.key,
                    cause=("stall", "below" if below else "behind"),
                )

    def copy(self) -> "Stalls":
        twin = Stalls()
        twin._waiting = dict(self._waiting)
        return twin


def _moving(partition: Partition) -> Partition:
    return partition if partition.stalled_ms is None else partition._replace(stalled_ms=None)


def moves_again(before: Partition | None, after: Partition, timeline: Timeline, now_ms: int) -> None:
    """Reports the end of a stall."""
    if before is not None and before.stalled_ms is not None and after.stalled_ms is None:
        waited_s = (now_ms - before.stalled_ms) / 1000
        timeline.say(
            f"{after.name}: the high watermark moves again, after {waited_s:.1f} s",
            MOVES_AGAIN,
            now_ms,
            partition=after.key,
            cause=("stall", "over"),
        )
