"""From committed batches to published images: what every node runs over the metadata log.

Batches come in order; each becomes one (image, delta). A metadata transaction (KIP-868) may span batches: what stands
between its begin and its end becomes visible at the end, all of it, or after an abort never.
"""

from collections.abc import Iterable

from tidelog.metadata.compare import compare
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, ClusterImage, Provenance
from tidelog.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
)
from tidelog.metadata.replay import ReplayError, apply_records


class MetadataLoader:
    """Holds the committed image. Invariant: `image` never shows half a transaction."""

    def __init__(self, image: ClusterImage = EMPTY_IMAGE) -> None:
        self.image = image
        # The records of an open transaction, None outside of one. Bounded by what its writer may put into one.
        self._transaction: list[MetadataRecord] | None = None

    @property
    def in_transaction(self) -> bool:
        return self._transaction is not None

    def load_snapshot(self, records: Iterable[MetadataRecord], provenance: Provenance) -> MetadataDelta:
        """Replaces everything by a snapshot; the delta tells what that changes."""
        previous = self.image
        self._transaction = None
        self.image, delta = apply_records(EMPTY_IMAGE, records, provenance)
        return delta if previous is EMPTY_IMAGE else compare(previous, self.image)

    def load_batch(self, records: Iterable[MetadataRecord], provenance: Provenance) -> MetadataDelta:
        """Takes the next batch; the delta is empty while a transaction is open."""
        if provenance.offset <= self.image.provenance.offset:
            raise ReplayError(f"batch ending at {provenance.offset} after one ending at {self.image.provenance.offset}")
        visible: list[MetadataRecord] = []
        for record in records:
            if isinstance(record, BeginTransactionRecord):
                self._begin(provenance)
            elif isinstance(record, EndTransactionRecord):
                visible.extend(self._finish(provenance))
            elif isinstance(record, AbortTransactionRecord):
                self._finish(provenance)
            elif self._transaction is None:
                visible.append(record)
            else:
                self._transaction.append(record)
        self.image, delta = apply_records(self.image, visible, provenance)
        return delta

    def _begin(self, provenance: Provenance) -> None:
        if self._transaction is not None:
            raise ReplayError(f"a metadata transaction begins inside another at or before offset {provenance.offset}")
        self._transaction = []

    def _finish(self, provenance: Provenance) -> list[MetadataRecord]:
        if self._transaction is None:
            raise ReplayError(f"a metadata transaction ends that never began, at or before offset {provenance.offset}")
        records, self._transaction = self._transaction, None
        return records
