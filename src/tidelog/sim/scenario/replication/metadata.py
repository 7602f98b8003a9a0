"""The controller of a story, with the metadata log: what it decides is committed at once."""

import random
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tidelog.controller.controller import Controller
from tidelog.controller.decision import Decision
from tidelog.controller.failures import error_response
from tidelog.controller.fast_fence import BrokerProcess, DialOutcome
from tidelog.controller.invariants import check_epochs, check_invariants
from tidelog.core.config.node import NodeConfig
from tidelog.metadata.features import bootstrap_records
from tidelog.metadata.image import EMPTY_IMAGE, ClusterImage, Provenance
from tidelog.metadata.records import MetadataRecord, frame, unframe
from tidelog.wire.errors import ApiError

CLUSTER_ID: Final = "scenario"
CONTROLLER: Final = "C"

Tell = Callable[[str], None]


class Batch(NamedTuple):
    """Records that were decided together."""

    records: list[MetadataRecord]
    provenance: Provenance


class ControllerSeat:
    """Invariant: the controller's image is the replay of `batches`."""

    def __init__(self, config: NodeConfig, rng: random.Random, tell: Tell, now_s: float) -> None:
        self._tell = tell
        self._controller = Controller(config, CLUSTER_ID, rng)
        self._balance_at_s = now_s + config.leader_imbalance_check_interval_seconds
        self._unclean_at_s = now_s + config.unclean_leader_election_interval_ms / 1000
        self.batches: list[Batch] = []
        self._take(self._controller.activate(EMPTY_IMAGE, bootstrap_records(), now_s))

    @property
    def image(self) -> ClusterImage:
        return self._controller.image

    @property
    def next_offset(self) -> int:
        return self.image.provenance.offset + 1

    def send(self, request: Any, now_s: float) -> Any:
        """The answer; what was decided stands in the log by then (C1)."""
        try:
            return self._take(self._controller.decide(request, next_offset=self.next_offset, now_s=now_s))
        except ApiError as error:
            return error_response(request, error)

    def on_time(self, now_s: float, dial: Callable[[int], DialOutcome]) -> None:
        """What the controller does without being asked: fences, balances leaders, elects."""
        controller = self._controller
        for process in controller.fast_fence.dials(now_s):
            controller.fast_fence.dialled(process, dial(process.broker_id), now_s)
        while (fenced := controller.fence_stale_broker(next_offset=self.next_offset, now_s=now_s)) is not None:
            self._take(fenced)
        while (fenced := controller.fence_refused_broker(next_offset=self.next_offset, now_s=now_s)) is not None:
            self._take(fenced)
        if now_s >= self._balance_at_s:
            self._balance_at_s = now_s + controller.config.leader_imbalance_check_interval_seconds
            if controller.config.auto_leader_rebalance_enable:
                self._take(controller.balance_leaders(next_offset=self.next_offset, now_s=now_s))
        if now_s >= self._unclean_at_s:
            self._unclean_at_s = now_s + controller.config.unclean_leader_election_interval_ms / 1000
            self.elect_unclean_leaders(now_s)

    def elect_unclean_leaders(self, now_s: float) -> None:
        """By a timer, and after a change of configs."""
        self._take(self._controller.elect_unclean_leaders(next_offset=self.next_offset, now_s=now_s))

    # --- what the fast fence hears (C2); a broker's connection is known by its process

    def heard(self, broker_id: int, epoch: int) -> None:
        process = BrokerProcess(broker_id, epoch)
        self._controller.fast_fence.heard(process, process)

    def connection_lost(self, broker_id: int, epoch: int, now_s: float) -> None:
        self._controller.fast_fence.connection_lost(BrokerProcess(broker_id, epoch), now_s)

    def _take(self, decision: Decision[Any]) -> Any:
        # Through bytes, as everybody else sees them.
        records = [unframe(frame(record)) for record in decision.records]
        if records:
            before = self.image
            provenance = Provenance(self.next_offset + len(records) - 1, 1, 0)
            self._controller.replay(records, provenance)
            self.batches.append(Batch(records, provenance))
            check_invariants(self.image, self._controller.config)
            check_epochs(before, self.image)
        for event in decision.events:
            self._tell(f"{CONTROLLER}: {event.text()}")
        return decision.response
