"""Work that every node does when it starts, done once before nodes are forked: the same code compiled in each of them
costs a third of their start.
"""

from typing import Any, Final

from tidelog.broker.__main__ import parse_arguments
from tidelog.metadata.records.brokers import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from tidelog.metadata.records.cluster import ConfigRecord, FeatureLevelRecord
from tidelog.quorum.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from tidelog.wire.codec import reader_for, writer_for
from tidelog.wire.registry import APIS
from tidelog.wire.schema import spec_of

# Requests between the nodes of a new cluster until all brokers are unfenced, and those of a readiness probe.
_REQUESTS: Final = frozenset(
    {
        "ApiVersions",
        "BeginQuorumEpoch",
        "BrokerHeartbeat",
        "BrokerRegistration",
        "CreateTopics",
        "Fetch",
        "Metadata",
        "Vote",
    }
)
_RECORDS: Final[tuple[type[Any], ...]] = (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    KRaftVersionRecord,
    RegisterBrokerRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)


def warm_up() -> None:
    """Compiles readers and writers, and has the command line and Python's regular expressions ready."""
    parse_arguments(["--config", "server.properties"])
    for api in APIS.values():
        if api.name in _REQUESTS:
            _compile(api.request, api.max_version)
            _compile(api.response, api.max_version)
    for record in _RECORDS:
        _compile(record, spec_of(record).versions.high)
    # Always written at version 0, see `Member.become_leader`.
    _compile(LeaderChangeMessage, 0)


def _compile(message: type[Any], version: int) -> None:
    reader_for(message, version)
    writer_for(message, version)
