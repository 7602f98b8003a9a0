"""Switches recording on and off: `tidelog.replication.events.enable` may change while the broker runs.

While it is off, no task, queue or connection exists.
"""

import asyncio
import random
from collections.abc import Callable

from tidelog.broker.broker import Broker
from tidelog.broker.replication_events import ReplicationEvents
from tidelog.client.addresses import Address
from tidelog.client.tasks import ended
from tidelog.core.config.node import NodeConfig
from tidelog.core.events import Event, EventSink


class Recording:
    """Of one broker. `beside` puts it behind a sink; `start` is called once the broker has joined, `stop` at its end.

    Invariant: `_events` exists exactly while recording is enabled and the broker has not stopped.
    """

    def __init__(self, broker: Broker, *, address: Callable[[], Address | None], rng: random.Random) -> None:
        self._broker = broker
        self._address = address
        self._rng = rng
        self._events: ReplicationEvents | None = None
        self._closing: list[asyncio.Task[None]] = []
        self._has_joined = False
        self._has_stopped = False
        self.apply_config(broker.config)

    def beside(self, sink: EventSink) -> EventSink:
        """A sink that passes every event on, and records it while recording is on."""

        def both(event: Event) -> None:
            sink(event)
            if self._events is not None:
                self._events.take(event)

        return both

    def start(self) -> None:
        self._has_joined = True
        if self._events is not None:
            self._events.start()

    def apply_config(self, config: NodeConfig) -> None:
        """Expects the broker to have this config already."""
        wanted = config.tidelog_replication_events_enable and not self._has_stopped
        if wanted and self._events is None:
            # A generator of its own: what recording draws must not shift what the rest of the node draws.
            rng = random.Random(self._rng.getrandbits(64))
            self._events = ReplicationEvents(self._broker, address=self._address, rng=rng)
            if self._has_joined:
                self._events.take_leaderships()
                self._events.start()
        elif wanted and self._events is not None:
            self._events.apply_config(config)
        elif self._events is not None:
            events, self._events = self._events, None
            self._closing = [each for each in self._closing if not each.done()]
            self._closing.append(self._broker.loop.create_task(events.stop(), name="recording ends"))

    async def stop(self) -> None:
        self._has_stopped = True
        events, self._events = self._events, None
        if events is not None:
            await events.stop()
        await ended(self._closing)
