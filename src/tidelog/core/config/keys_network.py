"""Listeners, sockets, and the bounds on connections and requests."""

from typing import Final

from tidelog.core.config.rows import (
    CLUSTER_WIDE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MAX_INT,
    MEDIUM,
    STRING,
    at_least,
    key,
    limited,
    one_of,
)

# A row is its facts, then its words.
# fmt: off
HONOURED: Final = (
    key("listeners", LIST, "PLAINTEXT://:9092", HIGH,
        doc="NAME://host:port, comma-separated; no host is every interface, port 0 a free one."),
    key("advertised.listeners", LIST, None, HIGH,
        doc="What clients are told to connect to; the listeners themselves when not set."),
    key("listener.security.protocol.map", STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", LOW,
        doc="Which security protocol each listener name speaks; only PLAINTEXT so far."),
    key("inter.broker.listener.name", STRING, None, MEDIUM,
        doc="Listener that brokers use among themselves."),
    key("socket.request.max.bytes", INT, 104857600, HIGH, check=at_least(1),
        doc="Largest request; a longer frame closes the connection."),
    key("socket.receive.buffer.bytes", INT, 102400, HIGH,
        doc="SO_RCVBUF of client sockets; -1 leaves it to the system."),
    key("socket.send.buffer.bytes", INT, 102400, HIGH,
        doc="SO_SNDBUF of client sockets; -1 leaves it to the system."),
    key("socket.listen.backlog.size", INT, 50, MEDIUM, check=at_least(1),
        doc="Connections the system may hold before they are accepted."),
    key("connections.max.idle.ms", LONG, 600000, MEDIUM,
        doc="A connection silent for this long is closed; negative never."),
    key("max.connections", INT, MAX_INT, MEDIUM, check=at_least(0), update=CLUSTER_WIDE,
        doc="Most connections of this broker at one time."),
    key("max.connections.per.ip", INT, MAX_INT, MEDIUM, check=at_least(0), update=CLUSTER_WIDE,
        doc="Most connections from one address."),
    key("max.connections.per.ip.overrides", STRING, "", MEDIUM, update=CLUSTER_WIDE,
        doc="Other limits for named addresses, as host:count, comma-separated."),
    key("queued.max.request.bytes", LONG, -1, MEDIUM,
        doc="Bytes of waiting requests before it stops reading; -1 is no limit of its own."),
    key("max.request.partition.size.limit", INT, 2000, MEDIUM, check=at_least(1),
        doc="Most partitions in one answer to DescribeTopicPartitions."),
    key("max.incremental.fetch.session.cache.slots", INT, 1000, MEDIUM, check=at_least(0),
        doc="Fetch sessions kept at one time."),
    key("fetch.max.bytes", INT, 57671680, MEDIUM, check=at_least(1024),
        doc="Most bytes in one answer to a fetch."),
)

LIMITED: Final = (
    *limited(
        "requests are served when they arrive; tidelog.connection.max.inflight.requests bounds those that wait",
        key("queued.max.requests", INT, 500, HIGH, check=at_least(1),
            doc="Requests waiting in the broker before it stops reading sockets."),
    ),
    *limited(
        "authentication, authorization and TLS are not built yet",
        key("security.inter.broker.protocol", STRING, "PLAINTEXT", MEDIUM,
            check=one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
            doc="Protocol among brokers when inter.broker.listener.name is not set."),
        key("early.start.listeners", LIST, None, HIGH,
            doc="Listeners that open before the authorizer is ready."),
    ),
    *limited(
        "replication between brokers is not built yet",
        key("socket.connection.setup.timeout.ms", LONG, 10000, MEDIUM,
            doc="How long the node waits for its own outgoing connections."),
        key("socket.connection.setup.timeout.max.ms", LONG, 30000, MEDIUM,
            doc="Upper end of that wait after repeated failures."),
        key("request.timeout.ms", INT, 30000, HIGH,
            doc="How long the broker waits for answers to its own requests."),
    ),
    *limited(
        "quotas are not built yet",
        key("max.connection.creation.rate", INT, MAX_INT, MEDIUM, check=at_least(0), update=CLUSTER_WIDE,
            doc="New connections per second."),
    ),
    *limited(
        "a finished request leaves the purgatory at once",
        key("fetch.purgatory.purge.interval.requests", INT, 1000, MEDIUM,
            doc="When finished fetches are swept from the purgatory."),
        key("producer.purgatory.purge.interval.requests", INT, 1000, MEDIUM,
            doc="When finished produce requests are swept from the purgatory."),
        key("delete.records.purgatory.purge.interval.requests", INT, 1, MEDIUM,
            doc="When finished DeleteRecords requests are swept from the purgatory."),
        key("share.fetch.purgatory.purge.interval.requests", INT, 1000, MEDIUM,
            doc="When finished share fetches are swept from the purgatory."),
    ),
)
