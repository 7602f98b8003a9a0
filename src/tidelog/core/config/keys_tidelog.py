"""Our own keys: bounds that Kafka has no name for, and what we do beyond it."""

from typing import Final

from tidelog.core.config.rows import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LONG,
    LOW,
    MEDIUM,
    NOT_EMPTY,
    STRING,
    at_least,
    between,
    key,
    one_of,
)

# A row is its facts, then its words.
# fmt: off
BROKER: Final = (
    key("tidelog.request.frame.timeout.ms", LONG, 30000, HIGH, check=at_least(1),
        doc="Time to send a request after its first byte; then the connection is closed."),
    key("tidelog.request.max.elements", INT, 100000, HIGH, check=at_least(1),
        doc="Most array entries in one request, all arrays together; more closes the connection."),
    key("tidelog.request.max.tagged.fields", INT, 1000, HIGH, check=at_least(0),
        doc="Most unknown tagged fields in one request; more closes the connection."),
    key("tidelog.connection.max.inflight.requests", INT, 100, HIGH, check=at_least(1),
        doc="Unanswered requests of one connection before reading it pauses."),
    key("tidelog.connection.max.outbound.bytes", LONG, 16777216, HIGH, check=at_least(1),
        doc="Unsent response bytes of one connection before reading it pauses."),
    key("tidelog.decompression.max.bytes", INT, 134217728, MEDIUM, check=at_least(1),
        doc="Largest size a compressed batch may grow to when the broker must read it."),
    key("tidelog.open.files.max", INT, 4096, MEDIUM, check=at_least(16),
        doc="Most open log files; beyond that, the least recently used file is closed."),
    key("tidelog.node.log.max.bytes", LONG, 10485760, LOW, check=at_least(4096),
        doc="Size at which the node's own log file is rotated."),
    key("tidelog.node.log.files", INT, 5, LOW, check=at_least(1),
        doc="Rotated log files of the node that are kept."),
    key("tidelog.replication.events.enable", BOOLEAN, False, MEDIUM, update=CLUSTER_WIDE,
        doc="Publish replication events and samples of lag on __replication_events, for tidelog health. "
            "`tidelog up` sets it to true."),
    key("tidelog.replication.events.interval.ms", LONG, 1000, LOW, check=at_least(100), update=CLUSTER_WIDE,
        doc="How often a broker publishes its events, and a sample of the partitions it leads."),
    key("tidelog.replication.events.retention.ms", LONG, 604800000, LOW, check=at_least(1),
        doc="How long __replication_events keeps them; read when the topic is created."),
    key("tidelog.metrics.port", INT, 0, MEDIUM, check=between(0, 65535),
        doc="Port of http://…/metrics for Prometheus; 0 serves no metrics."),
    key("tidelog.metrics.host", STRING, "localhost", MEDIUM, check=NOT_EMPTY,
        doc="Address where metrics are served; 0.0.0.0 is every interface. Every client can read them."),
    key("tidelog.metrics.partitions.max", INT, 1000, LOW, check=at_least(0),
        doc="Most led partitions with metrics of their own; beyond that, only partitions in trouble have them."),
    key("tidelog.record.validation", STRING, "header", MEDIUM, check=one_of("header", "full"),
        update=CLUSTER_WIDE,
        doc="header checks batch headers and CRC; full also reads every record, as Kafka does."),
)

TOPIC: Final = (
    key("tidelog.record.validation", STRING, "header", MEDIUM, check=one_of("header", "full"),
        synonyms=("tidelog.record.validation",),
        doc="header checks batch headers and CRC; full also reads every record, as Kafka does."),
)
