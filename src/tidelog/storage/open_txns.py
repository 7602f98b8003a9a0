"""Which transactions hold the last stable offset back.

A transaction is *ongoing* from its first record to its marker, then *unreplicated* until the high watermark has
passed the marker: before that a reader of committed data must not see past its first record either.
"""

from typing import NamedTuple


class CompletedTxn(NamedTuple):
    """A transaction whose marker was appended. `last_stable_offset` is what it is once this one no longer counts."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    is_aborted: bool


class OpenTransactions:
    """Invariant: keys are first offsets; a producer has at most one ongoing transaction."""

    __slots__ = ("_first_unstable", "_ongoing", "_unreplicated")

    def __init__(self) -> None:
        self._ongoing: dict[int, int] = {}
        self._unreplicated: dict[int, int] = {}
        self._first_unstable: int | None = None

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset whose fate a reader of committed data cannot know yet."""
        return self._first_unstable

    @property
    def first_undecided_offset(self) -> int | None:
        """The same without regard to replication."""
        return min(self._ongoing, default=None)

    def __len__(self) -> int:
        return len(self._ongoing) + len(self._unreplicated)

    def begin(self, producer_id: int, first_offset: int) -> None:
        self._ongoing[first_offset] = producer_id
        self._recompute()

    def last_stable_offset_after(self, producer_id: int, marker_offset: int) -> int:
        """The first offset of the oldest transaction of others, else just past the marker."""
        others = (offset for offset, owner in self._ongoing.items() if owner != producer_id)
        return min(others, default=marker_offset + 1)

    def complete(self, txn: CompletedTxn) -> None:
        """Only after an abort is in the transaction index: the last stable offset may pass it from here on."""
        if self._ongoing.pop(txn.first_offset, None) is None:
            raise ValueError(f"{txn} completes a transaction that was not begun")
        self._unreplicated[txn.first_offset] = txn.last_offset
        self._recompute()

    def forget_decided_below(self, offset: int) -> None:
        """Markers below the high watermark (or the log start) are settled."""
        if not self._unreplicated:
            return
        self._unreplicated = {first: last for first, last in self._unreplicated.items() if last >= offset}
        self._recompute()

    def clear(self) -> None:
        self._ongoing.clear()
        self._unreplicated.clear()
        self._first_unstable = None

    def _recompute(self) -> None:
        self._first_unstable = min((*self._ongoing, *self._unreplicated), default=None)
