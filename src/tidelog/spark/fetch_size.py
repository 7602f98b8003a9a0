"""How many bytes a fetch asks for, so that brokers send little beyond the range of a task (S8). Pure."""

from dataclasses import dataclass
from typing import Final

# A broker sends at least one batch, whatever is asked for.
LEAST_BYTES: Final = 4 * 1024
# Without a record seen, and never more than this in the first fetch.
FIRST_BYTES: Final = 64 * 1024
_GUESSED_RECORD_BYTES: Final = 1024
# Each fetch asks for at most so many times the one before: a query that stops after some rows has not asked for much.
_GROWTH: Final = 16
# Records differ in size, and another round trip costs more than some bytes too many.
_MARGIN: Final = 1.05


@dataclass(slots=True)
class FetchSize:
    """Of one range. `most` limits every fetch; `bytes_per_offset` is what was seen last, and 0 before that."""

    most: int
    bytes_per_offset: float = 0.0
    _asked: int = 0
    # What growth allows; 0 is no limit.
    _limit: int = 0

    def ask(self, offsets: int) -> int:
        """For a range with so many `offsets` left."""
        if self.bytes_per_offset == 0:
            wanted = min(offsets * _GUESSED_RECORD_BYTES, FIRST_BYTES)
        else:
            wanted = int(offsets * self.bytes_per_offset * _MARGIN)
        if self._limit:
            wanted = min(wanted, self._limit)
        self._asked = min(max(wanted, LEAST_BYTES), self.most)
        return self._asked

    def received(self, size: int, offsets: int) -> None:
        """Batches of `size` bytes that reach over so many `offsets`; holes of compaction count."""
        if size > 0 and offsets > 0:
            self.bytes_per_offset = size / offsets
            self._limit = _GROWTH * max(self._asked, size)
