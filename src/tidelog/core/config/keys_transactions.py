"""Producer ids and transactions."""

from typing import Final

from tidelog.core.config.rows import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LOW,
    SHORT,
    at_least,
    key,
    limited,
)

# A row is its facts, then its words.
# fmt: off
HONOURED: Final = (
    key("producer.id.expiration.ms", INT, 86400000, LOW, check=at_least(1), update=CLUSTER_WIDE,
        doc="How long an idempotent producer is remembered after its last batch."),
    key("producer.id.expiration.check.interval.ms", INT, 600000, LOW, check=at_least(1), internal=True,
        doc="How often expired producers are removed."),
)

LIMITED: Final = (
    *limited(
        "transactions are not built yet",
        key("add.partitions.to.txn.retry.backoff.ms", INT, 20, HIGH, check=at_least(1),
            doc="First pause before a partition is verified again."),
        key("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, HIGH, check=at_least(0),
            doc="Longest pause before a partition is verified again."),
        key("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10000, LOW,
            check=at_least(1),
            doc="How often timed-out transactions are aborted."),
        key("transaction.max.timeout.ms", INT, 900000, HIGH, check=at_least(1),
            doc="Longest timeout that a transaction may request."),
        key("transaction.partition.verification.enable", BOOLEAN, True, LOW, update=CLUSTER_WIDE,
            doc="Check that a partition belongs to the transaction before a write."),
        key("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3600000, LOW,
            check=at_least(1),
            doc="How often expired transactional ids are removed."),
        key("transaction.state.log.load.buffer.size", INT, 5242880, HIGH, check=at_least(1),
            doc="Bytes per read while transaction state is loaded."),
        key("transaction.state.log.min.isr", INT, 2, HIGH, check=at_least(1), only=("1", "2"),
            doc="In-sync replicas __transaction_state needs."),
        key("transaction.state.log.num.partitions", INT, 50, HIGH, check=at_least(1),
            doc="Partitions of __transaction_state."),
        key("transaction.state.log.replication.factor", SHORT, 3, HIGH, check=at_least(1), only=("1", "3"),
            doc="Replicas of __transaction_state."),
        key("transaction.state.log.segment.bytes", INT, 104857600, HIGH, check=at_least(1),
            doc="Segment size of __transaction_state."),
        key("transaction.two.phase.commit.enable", BOOLEAN, False, LOW,
            doc="Allow transactions that an outside coordinator ends."),
        key("transactional.id.expiration.ms", INT, 604800000, HIGH, check=at_least(1),
            doc="How long an idle transactional id is remembered."),
    ),
)
