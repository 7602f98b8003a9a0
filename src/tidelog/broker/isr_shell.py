"""Runs the changes of in-sync sets: the timer that finds who fell behind (I2), one AlterPartition at a time (I5)."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from tidelog.broker.appends import WakeSoon
from tidelog.broker.broker import Broker
from tidelog.broker.periodic import Periodic
from tidelog.client.tasks import ended
from tidelog.core.events import EventSink
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

log = logging.getLogger("tidelog.replication")

FIRST_BACKOFF_S: Final = 0.05
MAX_BACKOFF_S: Final = 0.5


class IsrShell:
    """From `start` to `stop`. `broker_epoch` is this incarnation's own: what the metadata says may be a later one's."""

    def __init__(self, broker: Broker, broker_epoch: Callable[[], int], on_event: EventSink) -> None:
        self._broker = broker
        self._broker_epoch = broker_epoch
        self._waiting = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        self._timer: Periodic | None = None
        replicas = broker.replicas
        replicas.on_progress = WakeSoon(broker)
        replicas.context.on_event = on_event
        replicas.context.changes.on_waiting = self._waiting.set

    def start(self) -> None:
        loop = self._broker.loop
        self._sender = loop.create_task(self._send(), name="isr-changes")
        self._timer = Periodic(loop, "isr-check", self._interval_s(), self._check)

    async def stop(self) -> None:
        if self._timer is not None:
            await self._timer.stop()
            self._timer = None
        if self._sender is not None:
            self._sender.cancel()
            await ended([self._sender])
            self._sender = None

    def _interval_s(self) -> float:
        return max(0.001, self._broker.config.replica_lag_time_max_ms / 1000 / 2)

    async def _check(self) -> None:
        self._broker.replicas.check_isr(self._broker.loop.time())
        if self._timer is not None:
            self._timer.interval_s = self._interval_s()

    async def _send(self) -> None:
        """Sleeps until a partition proposes something; what waits while a request is under way goes with the next."""
        failures = 0
        while True:
            await self._waiting.wait()
            self._waiting.clear()
            request = self._broker.replicas.next_isr_request(self._broker_epoch())
            if request is None:
                continue
            # Whatever was offered meanwhile is looked at in the next round.
            again = await self._ask(request)
            self._waiting.set()
            if again:
                failures += 1
                await asyncio.sleep(min(FIRST_BACKOFF_S * 2 ** min(failures - 1, 10), MAX_BACKOFF_S))
            else:
                failures = 0

    async def _ask(self, request: AlterPartitionRequest) -> bool:
        """Whether something has to be asked again."""
        replicas = self._broker.replicas
        try:
            response: AlterPartitionResponse = await self._broker.controller.send(request)
        except Exception:
            # Whatever it was: without this task no in-sync set would ever change again.
            log.exception("AlterPartition for %d topics failed; retrying", len(request.topics))
            replicas.context.changes.on_failure()
            return True
        if response.error_code != ErrorCode.NONE:
            code = ErrorCode(response.error_code).name
            log.warning("AlterPartition for %d topics failed; retrying: %s", len(request.topics), code)
        return replicas.on_isr_response(response, self._broker.loop.time())
