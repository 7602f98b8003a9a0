"""Topics, leadership and replicas."""

from typing import Final

from tidelog.core.config.rows import (
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LONG,
    LOW,
    MAX_LONG,
    MEDIUM,
    STRING,
    at_least,
    key,
    limited,
)

# A row is its facts, then its words.
# fmt: off
HONOURED: Final = (
    key("num.partitions", INT, 1, MEDIUM, check=at_least(1),
        doc="Partitions of a topic that is created without a number."),
    key("default.replication.factor", INT, 1, MEDIUM,
        doc="Replicas of a topic that is created without a number."),
    key("min.insync.replicas", INT, 1, HIGH, check=at_least(1), update=CLUSTER_WIDE,
        doc="In-sync replicas that acks=all needs."),
    key("auto.create.topics.enable", BOOLEAN, True, HIGH,
        doc="Create a topic when a client asks for its metadata and allows it."),
    key("delete.topic.enable", BOOLEAN, True, HIGH,
        doc="Allow topics to be deleted."),
    key("unclean.leader.election.enable", BOOLEAN, False, HIGH, update=CLUSTER_WIDE,
        doc="Let a replica outside the in-sync set become leader, which can lose records."),
    key("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, HIGH,
        doc="How often high watermarks are stored."),
    key("auto.leader.rebalance.enable", BOOLEAN, True, HIGH,
        doc="Periodically move leadership back to preferred replicas."),
    key("unclean.leader.election.interval.ms", LONG, 300000, MEDIUM, check=at_least(1), internal=True,
        doc="How often the controller searches for partitions that need an unclean election."),
    key("leader.imbalance.check.interval.seconds", LONG, 300, HIGH, check=at_least(1),
        doc="How often leadership balance is checked."),
    key("replica.fetch.backoff.ms", INT, 1000, MEDIUM, check=at_least(0),
        doc="Pause of a follower after a failed fetch."),
    key("replica.fetch.max.bytes", INT, 1048576, MEDIUM, check=at_least(0),
        doc="Bytes that a follower requests per partition."),
    key("replica.fetch.min.bytes", INT, 1, HIGH,
        doc="Bytes that a follower's fetch waits for."),
    key("replica.fetch.response.max.bytes", INT, 10485760, MEDIUM, check=at_least(0),
        doc="Most bytes of one answer to a follower."),
    key("replica.fetch.wait.max.ms", INT, 500, HIGH,
        doc="How long a follower's fetch may wait."),
    key("replica.lag.time.max.ms", LONG, 30000, HIGH,
        doc="Lag after which a follower leaves the in-sync set."),
    key("replica.socket.receive.buffer.bytes", INT, 65536, HIGH,
        doc="SO_RCVBUF of a follower's connection to its leader."),
    key("replica.socket.timeout.ms", INT, 30000, HIGH,
        doc="How long a follower waits for its leader's answer."),
    key("leader.replication.throttled.rate", LONG, MAX_LONG, MEDIUM, check=at_least(0),
        update=CLUSTER_WIDE,
        doc="Bytes per second a leader sends to throttled followers."),
    key("follower.replication.throttled.rate", LONG, MAX_LONG, MEDIUM, check=at_least(0),
        update=CLUSTER_WIDE,
        doc="Bytes per second a throttled follower fetches."),
)

LIMITED: Final = (
    *limited(
        "there is one fetcher per leader, and a second one for partitions far behind",
        key("num.replica.fetchers", INT, 1, HIGH, check=at_least(1), update=CLUSTER_WIDE,
            doc="Fetchers per source broker."),
    ),
    *limited(
        "moving partitions between log directories is not built yet",
        key("replica.alter.log.dirs.io.max.bytes.per.second", LONG, MAX_LONG, MEDIUM, check=at_least(0),
            update=CLUSTER_WIDE,
            doc="Bytes per second when moving partitions between directories."),
    ),
    *limited(
        "it belongs to the Java broker",
        key("replica.selector.class", STRING, None, MEDIUM,
            doc="Java class that picks the replica a consumer reads from."),
        key("create.topic.policy.class.name", CLASS, None, LOW,
            doc="Java class that may refuse new topics."),
        key("alter.config.policy.class.name", CLASS, None, LOW,
            doc="Java class that may refuse config changes."),
    ),
)
