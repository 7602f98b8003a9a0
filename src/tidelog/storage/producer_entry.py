"""What a partition remembers of one producer (P4)."""

from typing import Final, NamedTuple

from tidelog.wire.records.batch import MAX_SEQUENCE, NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, BatchHeader

# As many requests as an idempotent producer may have in flight: any of them may be retried.
BATCHES_REMEMBERED: Final = 5
NO_COORDINATOR_EPOCH: Final = -1


class BatchMetadata(NamedTuple):
    """A batch that was appended, as much of it as tells a retry from new data and answers it."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """Invariant: `batches` are of `producer_epoch`, in the order of the log, at most `BATCHES_REMEMBERED`."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_seen_ms",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        *,
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        last_timestamp: int = NO_TIMESTAMP,
        last_seen_ms: int = 0,
        current_txn_first_offset: int | None = None,
        batches: tuple[BatchMetadata, ...] = (),
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        # When this replica last appended for the producer. Record timestamps are the client's and may lie
        # in any past or future, so expiry does not go by them (Kafka's does).
        self.last_seen_ms = last_seen_ms
        self.current_txn_first_offset = current_txn_first_offset
        self.batches = list(batches)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """The remembered batch with exactly this epoch and sequence range."""
        if header.producer_epoch != self.producer_epoch:
            return None
        last_sequence = header.last_sequence
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == header.base_sequence:
                return batch
        return None

    def follows(self, base_sequence: int) -> bool:
        """Whether a batch of the current epoch that starts there leaves no gap."""
        last = self.last_sequence
        return base_sequence == (0 if last == NO_SEQUENCE else (last + 1) & MAX_SEQUENCE)

    def remember(self, batch: BatchMetadata) -> None:
        if len(self.batches) == BATCHES_REMEMBERED:
            del self.batches[0]
        self.batches.append(batch)

    def move_to_epoch(self, producer_epoch: int) -> None:
        """Sequences start over with an epoch: what was remembered of another says nothing any more."""
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch

    def __repr__(self) -> str:
        return (
            f"ProducerEntry({self.producer_id}, epoch {self.producer_epoch}, last sequence {self.last_sequence}, "
            f"transaction from {self.current_txn_first_offset}, {self.batches})"
        )
