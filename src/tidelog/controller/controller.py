"""The active controller: one door for decisions, one for replay.

`image` holds everything decided, committed or not: the next decision must see the one before it (rule C1). On losing
leadership the shell takes it back to the committed image with `resign`.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from tidelog.controller.alter_partition import alter_partition
from tidelog.controller.assign_directories import assign_replicas_to_dirs
from tidelog.controller.broker_changes import unfinished
from tidelog.controller.brokers import fence, register_broker, unregister_broker
from tidelog.controller.configs import incremental_alter_configs, minimum_record
from tidelog.controller.create_partitions import create_partitions
from tidelog.controller.decision import Decision, Situation
from tidelog.controller.elect_leaders import balance_leaders, elect_leaders, elect_unclean_leaders
from tidelog.controller.election_events import election_events
from tidelog.controller.fast_fence import BrokerProcess, FastFence
from tidelog.controller.features import update_features
from tidelog.controller.heartbeats import heartbeat
from tidelog.controller.producer_ids import allocate_producer_ids
from tidelog.controller.reassignments import alter_partition_reassignments, list_partition_reassignments
from tidelog.controller.sessions import BrokerSessions
from tidelog.controller.topic_configs import TopicDescriptions
from tidelog.controller.topics import create_topics, delete_topics
from tidelog.core.config.key import ConfigError
from tidelog.core.config.node import NodeConfig
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.features import bootstrap_records
from tidelog.metadata.image import EMPTY_IMAGE, ClusterImage, Provenance
from tidelog.metadata.records import MetadataRecord
from tidelog.metadata.replay import apply_records
from tidelog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tidelog.wire.messages.alter_partition import AlterPartitionRequest
from tidelog.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from tidelog.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.wire.messages.broker_registration import BrokerRegistrationRequest
from tidelog.wire.messages.create_partitions import CreatePartitionsRequest
from tidelog.wire.messages.create_topics import CreateTopicsRequest
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest
from tidelog.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tidelog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tidelog.wire.messages.unregister_broker import UnregisterBrokerRequest
from tidelog.wire.messages.update_features import UpdateFeaturesRequest


class Controller:
    """Decides on requests. `local_broker_id` is the broker in the same process, if there is one."""

    def __init__(
        self, config: NodeConfig, cluster_id: str, rng: random.Random, *, local_broker_id: int | None = None
    ) -> None:
        self._static_config = config
        self._config = config
        self._described = TopicDescriptions(config)
        self._cluster_id = cluster_id
        self._rng = rng
        self._local_broker_id = local_broker_id
        self.image: ClusterImage = EMPTY_IMAGE
        self.sessions = BrokerSessions(config.broker_session_timeout_ms / 1000)
        self.fast_fence = FastFence()

    @property
    def config(self) -> NodeConfig:
        """The node's, with the dynamic values of the image."""
        return self._config

    # --- coming to power and losing it ---

    def activate(self, image: ClusterImage, bootstrap: Sequence[MetadataRecord], now_s: float) -> Decision[None]:
        """Takes over at the committed image; a cluster without any feature level is new and gets its first records.

        Those are `bootstrap`, or our own if formatting left none.
        """
        self._take(image)
        self.sessions.clear()
        self.fast_fence.clear()
        # Whoever was alive gets a full session. The local broker's earlier process is known to be dead (its directories
        # are locked by this one): nobody waits for its session, but it is fenced when that ends.
        elsewhere: list[BrokerProcess] = []
        for broker in image.brokers.values():
            if broker.fenced:
                continue
            if broker.broker_id == self._local_broker_id:
                self.sessions.expect(broker.broker_id, now_s)
            else:
                self.sessions.touch(broker.broker_id, now_s)
                elsewhere.append(BrokerProcess(broker.broker_id, broker.epoch))
        self.fast_fence.took_over(elsewhere, now_s)
        if image.features:
            left = unfinished(self._situation(image.provenance.offset + 1, now_s))
            return Decision(
                response=None,
                records=[each.record for each in left],
                atomic=False,
                events=election_events(left, "a new active controller"),
            )
        # With ELR every controller must count by the same minimum, so it stands in the log and not in each one's file.
        minimum = minimum_record("", str(self._static_config.min_insync_replicas))
        return Decision(response=None, records=[*(bootstrap or bootstrap_records()), minimum])

    def resign(self, committed: ClusterImage) -> None:
        """Forgets what was decided and not committed."""
        self._take(committed)
        self.sessions.clear()
        self.fast_fence.clear()

    # --- decide ---

    def decide(self, request: Any, *, next_offset: int, now_s: float) -> Decision[Any]:
        """What to do about a request. ApiError refuses it as a whole (see `failures`)."""
        return _DECISIONS[type(request)](self, self._situation(next_offset, now_s), request)

    def fence_stale_broker(self, *, next_offset: int, now_s: float) -> Decision[None] | None:
        """Fences the broker that has been silent longest, if that is too long. One broker per decision (C2)."""
        for broker_id in self.sessions.expired(now_s):
            self.sessions.forget(broker_id)
            broker = self.image.brokers.get(broker_id)
            if broker is not None and not broker.fenced:
                timeout_ms = self._config.broker_session_timeout_ms
                return fence(self._situation(next_offset, now_s), broker, f"no heartbeat for {timeout_ms} ms")
        return None

    def fence_refused_broker(self, *, next_offset: int, now_s: float) -> Decision[None] | None:
        """Fences a broker that is known to be gone. One broker per decision (C2, `fast_fence`)."""
        unfenced = {broker.broker_id: broker.epoch for broker in self.image.brokers.values() if not broker.fenced}
        broker_id = self.fast_fence.to_fence(unfenced, now_s)
        if broker_id is None:
            return None
        self.sessions.forget(broker_id)
        reason = "its connection closed and its listener refuses connections"
        return fence(self._situation(next_offset, now_s), self.image.brokers[broker_id], reason)

    def balance_leaders(self, *, next_offset: int, now_s: float) -> Decision[bool]:
        """For the timer of `auto.leader.rebalance.enable` (C7). True: call again at once."""
        return balance_leaders(self._situation(next_offset, now_s))

    def elect_unclean_leaders(self, *, next_offset: int, now_s: float) -> Decision[bool]:
        """For a timer, and after a change of `unclean.leader.election.enable` (C6). True: call again at once."""
        return elect_unclean_leaders(self._situation(next_offset, now_s))

    # --- replay ---

    def replay(self, records: Sequence[MetadataRecord], provenance: Provenance) -> MetadataDelta:
        """The only way state changes."""
        image, delta = apply_records(self.image, records, provenance)
        self._take(image)
        for broker_id, broker in delta.brokers.items():
            if broker.after is None or broker.after.fenced:
                self.sessions.forget(broker_id)
                self.fast_fence.forget(broker_id)
        return delta

    def _situation(self, next_offset: int, now_s: float) -> Situation:
        return Situation(
            image=self.image,
            config=self._config,
            described=self._described,
            rng=self._rng,
            next_offset=next_offset,
            now_s=now_s,
        )

    def _take(self, image: ClusterImage) -> None:
        if image.broker_configs(None) is not self.image.broker_configs(None):
            self._config = self._with_dynamic(image)
            self._described = TopicDescriptions(self._config)
        self.image = image

    def _with_dynamic(self, image: ClusterImage) -> NodeConfig:
        """The cluster-wide values in force. The broker, which applies them too, is who warns of those it cannot use."""
        try:
            return self._static_config.with_dynamic(cluster=image.broker_configs(None), broker={})[0]
        except ConfigError:
            # They were checked against each other when they were set; this node's file has changed since then.
            return self._static_config

    # --- decisions that need more than the situation ---

    def _register_broker(self, situation: Situation, request: BrokerRegistrationRequest) -> Decision[Any]:
        known = situation.image.brokers.get(request.broker_id)
        # The local broker needs no connection.
        connected = known is not None and (
            known.broker_id == self._local_broker_id
            or self.fast_fence.is_connected(BrokerProcess(known.broker_id, known.epoch))
        )
        return register_broker(situation, request, self._cluster_id, self.sessions, predecessor_connected=connected)

    def _heartbeat(self, situation: Situation, request: BrokerHeartbeatRequest) -> Decision[Any]:
        decision = heartbeat(situation, request, self.sessions)
        self.fast_fence.alive(request.broker_id)
        return decision


_DECISIONS: Final[dict[type, Callable[[Controller, Situation, Any], Decision[Any]]]] = {
    CreateTopicsRequest: lambda _, situation, request: create_topics(situation, request),
    DeleteTopicsRequest: lambda _, situation, request: delete_topics(situation, request),
    CreatePartitionsRequest: lambda _, situation, request: create_partitions(situation, request),
    IncrementalAlterConfigsRequest: lambda _, situation, request: incremental_alter_configs(situation, request),
    UpdateFeaturesRequest: lambda _, situation, request: update_features(situation, request),
    AllocateProducerIdsRequest: lambda _, situation, request: allocate_producer_ids(situation, request),
    AlterPartitionRequest: lambda _, situation, request: alter_partition(situation, request),
    ElectLeadersRequest: lambda _, situation, request: elect_leaders(situation, request),
    AlterPartitionReassignmentsRequest: lambda _, situation, request: alter_partition_reassignments(situation, request),
    ListPartitionReassignmentsRequest: lambda _, situation, request: list_partition_reassignments(situation, request),
    AssignReplicasToDirsRequest: lambda _, situation, request: assign_replicas_to_dirs(situation, request),
    UnregisterBrokerRequest: lambda _, situation, request: unregister_broker(situation, request),
    BrokerRegistrationRequest: Controller._register_broker,
    BrokerHeartbeatRequest: Controller._heartbeat,
}
