"""The cluster as its records say it is: immutable, and shared between versions wherever nothing changed.

A new image copies only what its records touch (one topic's table, one resource's configs), so that a node may hold the
committed image, the active controller one a few records ahead of it, and both be cheap at 10,000 partitions.
Mappings are never changed after they stand in an image; `delta.ImageBuilder` makes new ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import UUID

from tidelog.core.ids import DIR_UNASSIGNED, NO_LEADER, TopicPartition
from tidelog.metadata.persistent_map import PersistentMap, spread_text, spread_uuid

EMPTY: Final[Mapping[Any, Any]] = MappingProxyType({})


def nothing() -> Mapping[Any, Any]:
    """The one empty mapping, as a default of fields (Python 3.11 takes a mapping proxy for mutable)."""
    return EMPTY


class ResourceType(IntEnum):
    """Kinds of resources that have configs, with the protocol's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """What a config belongs to. The empty name stands for the default of its kind (all brokers)."""

    type: ResourceType
    name: str


class LeaderRecoveryState(IntEnum):
    """Whether the leader came from an unclean election and has not yet said that it has recovered (rule C6)."""

    RECOVERED = 0
    RECOVERING = 1


class PartitionRegistration(NamedTuple):
    """One partition as the controller decided it. A tuple because a failing broker makes thousands of them at once.

    Invariants: `directories` stands in the order of `replicas`; leader is -1 or in the ISR; ISR and ELR are disjoint
    parts of `replicas`; both epochs only grow.
    """

    replicas: tuple[int, ...]
    directories: tuple[UUID, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    leader: int = NO_LEADER
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    leader_epoch: int = 0
    partition_epoch: int = 0

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0]

    def directory_of(self, broker_id: int) -> UUID:
        """Where the replica on `broker_id` lies; ValueError when there is none."""
        return self.directories[self.replicas.index(broker_id)] if self.directories else DIR_UNASSIGNED


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic: its name, its id, its partitions by index in order."""

    name: str
    topic_id: UUID
    partitions: Mapping[int, PartitionRegistration]


@dataclass(frozen=True, slots=True)
class EndpointInfo:
    """Where a node listens."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class VersionRange(NamedTuple):
    """The levels of a feature that a node supports."""

    min: int
    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """A broker as it last registered, and what changed since."""

    broker_id: int
    epoch: int
    incarnation_id: UUID
    listeners: tuple[EndpointInfo, ...]
    supported_features: Mapping[str, VersionRange] = field(default_factory=nothing)
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[UUID, ...] = ()
    cordoned_log_dirs: tuple[UUID, ...] | None = None

    @property
    def active(self) -> bool:
        """May hold new replicas' leadership: unfenced and not on its way out."""
        return not self.fenced and not self.in_controlled_shutdown

    def listener(self, name: str) -> EndpointInfo | None:
        return next((endpoint for endpoint in self.listeners if endpoint.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRegistration:
    """A controller as it last registered."""

    controller_id: int
    incarnation_id: UUID
    listeners: tuple[EndpointInfo, ...]
    supported_features: Mapping[str, VersionRange] = field(default_factory=nothing)
    zk_migration_ready: bool = False


class Provenance(NamedTuple):
    """The last record an image contains. Nothing at all: offset and epoch -1."""

    offset: int = -1
    epoch: int = -1
    timestamp: int = -1


# A client quota's entity, as sorted (type, name) pairs; a None name is the default of its type.
QuotaEntity = tuple[tuple[str, str | None], ...]


NO_TOPICS_BY_NAME: Final[PersistentMap[str, TopicImage]] = PersistentMap(spread_text)
NO_TOPICS_BY_ID: Final[PersistentMap[UUID, TopicImage]] = PersistentMap(spread_uuid)
NO_COLLISIONS: Final[PersistentMap[str, tuple[str, ...]]] = PersistentMap(spread_text)
NO_CONFIGS: Final[PersistentMap[ConfigResource, Mapping[str, str]]] = PersistentMap(
    lambda resource: spread_text(resource.name)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    """Everything the metadata log says, up to `provenance`."""

    provenance: Provenance = Provenance()
    topics_by_name: PersistentMap[str, TopicImage] = field(default_factory=lambda: NO_TOPICS_BY_NAME)
    topics_by_id: PersistentMap[UUID, TopicImage] = field(default_factory=lambda: NO_TOPICS_BY_ID)
    # Names that hold '.' or '_', by the form in which metrics would confuse them (every '.' a '_').
    colliding_names: PersistentMap[str, tuple[str, ...]] = field(default_factory=lambda: NO_COLLISIONS)
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=nothing)
    controllers: Mapping[int, ControllerRegistration] = field(default_factory=nothing)
    configs_by_resource: PersistentMap[ConfigResource, Mapping[str, str]] = field(default_factory=lambda: NO_CONFIGS)
    features: Mapping[str, int] = field(default_factory=nothing)
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=nothing)
    next_producer_id: int = 0

    def topic(self, name: str) -> TopicImage | None:
        return self.topics_by_name.get(name)

    def topic_by_id(self, topic_id: UUID) -> TopicImage | None:
        return self.topics_by_id.get(topic_id)

    def partition(self, tp: TopicPartition) -> PartitionRegistration | None:
        topic = self.topics_by_name.get(tp.topic)
        return None if topic is None else topic.partitions.get(tp.partition)

    def broker(self, broker_id: int) -> BrokerRegistration | None:
        return self.brokers.get(broker_id)

    def configs(self, resource: ConfigResource) -> Mapping[str, str]:
        """What is set for exactly this resource; defaults and inheritance are the config package's."""
        return self.configs_by_resource.get(resource, EMPTY)

    def topic_configs(self, name: str) -> Mapping[str, str]:
        return self.configs(ConfigResource(ResourceType.TOPIC, name))

    def broker_configs(self, broker_id: int | None) -> Mapping[str, str]:
        """The dynamic configs of one broker, or with None those of all."""
        return self.configs(ConfigResource(ResourceType.BROKER, "" if broker_id is None else str(broker_id)))

    @property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics_by_id.values())


EMPTY_IMAGE: Final = ClusterImage()
