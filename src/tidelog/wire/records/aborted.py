"""Which batches of an answer a reader of committed data leaves out."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from tidelog.wire.records.batch import BatchHeader
from tidelog.wire.records.control import ControlRecordType, parse_control_type
from tidelog.wire.records.plain import Record


class Aborted(Protocol):
    """A transaction that was aborted, as an answer to Fetch names it."""

    @property
    def producer_id(self) -> int: ...

    @property
    def first_offset(self) -> int: ...


class AbortedTransactions:
    """Follows the transactions that an answer names through its batches, which are shown to it in order."""

    def __init__(self, transactions: Iterable[Aborted]) -> None:
        self._pending = sorted(((txn.first_offset, txn.producer_id) for txn in transactions), reverse=True)
        self._open: set[int] = set()

    def covers(self, header: BatchHeader) -> bool:
        """Whether the data batch belongs to one of them."""
        self._begin_up_to(header.last_offset)
        return header.is_transactional and header.producer_id in self._open

    def see_marker(self, header: BatchHeader, records: Sequence[Record]) -> None:
        """A control batch and its records: the marker of an abort ends what it aborts."""
        # An answer may hold the marker alone: what it ends has to be begun, or it would cover what comes next.
        self._begin_up_to(header.last_offset)
        if records and parse_control_type(records[0].key) is ControlRecordType.ABORT:
            self._open.discard(header.producer_id)

    def _begin_up_to(self, offset: int) -> None:
        while self._pending and self._pending[-1][0] <= offset:
            self._open.add(self._pending.pop()[1])
