"""Tells the controller in which directories this broker's replicas lie, one AssignReplicasToDirs at a time (C10)."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from tidelog.broker.broker import Broker
from tidelog.client.tasks import ended
from tidelog.core.ids import TopicPartition
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import ClusterImage
from tidelog.replication.directories import ReplicaDirectories
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

log = logging.getLogger("tidelog.replication")

# Also after an answer: what it decided is metadata that may be on its way still.
FIRST_BACKOFF_S: Final = 0.1
MAX_BACKOFF_S: Final = 2.0


class DirectoryShell:
    """From `start` to `stop`. Nothing is said before the broker `has_roles`: until then it has not made its logs."""

    def __init__(
        self,
        broker: Broker,
        broker_epoch: Callable[[], int],
        has_roles: Callable[[], bool],
        directory_ids: Mapping[str, UUID],
    ) -> None:
        self._broker = broker
        self._broker_epoch = broker_epoch
        self._has_roles = has_roles
        self._directories = ReplicaDirectories(broker.node_id, broker.replicas, directory_ids)
        self._waiting = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._sender = self._broker.loop.create_task(self._send(), name="replica-directories")
        self.look_at_all()

    async def stop(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
            await ended([self._sender])
            self._sender = None

    def look_at_all(self) -> None:
        """A directory failed, or the broker has just taken its roles."""
        if self._has_roles():
            self._directories.look_at_all(self._broker.image)
            self._wake()

    def on_metadata(self, image: ClusterImage, delta: MetadataDelta) -> None:
        """To be told after the broker: its logs have been made by then."""
        if not self._has_roles():
            return
        if self._broker.node_id in delta.brokers:
            self.look_at_all()
            return
        for topic_id, topic in delta.topics.items():
            for index, registration in topic.partitions.items():
                self._directories.look(image, TopicPartition(topic.after.name, index), topic_id, registration)
        for deleted in delta.deleted_topics:
            self._directories.forget(deleted)
        self._wake()

    def _wake(self) -> None:
        if len(self._directories):
            self._waiting.set()

    async def _send(self) -> None:
        backoff_s = FIRST_BACKOFF_S
        while True:
            if not len(self._directories):
                backoff_s = FIRST_BACKOFF_S
                self._waiting.clear()
                await self._waiting.wait()
            request = self._directories.next_request(self._broker_epoch())
            if request is None:
                continue
            await self._ask(request)
            await asyncio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, MAX_BACKOFF_S)

    async def _ask(self, request: AssignReplicasToDirsRequest) -> None:
        try:
            response: AssignReplicasToDirsResponse = await self._broker.controller.send(request)
        except Exception:
            # Whatever it was: without this task the controller would never hear of a directory again.
            log.exception("AssignReplicasToDirs failed; retrying")
            return
        if response.error_code != ErrorCode.NONE:
            code = ErrorCode(response.error_code).name
            log.warning("reporting the directories of %d replicas failed; retrying: %s", len(self._directories), code)
