"""A member of a consumer group that polls in a thread of its own, as an application would."""

import threading
from collections.abc import Mapping
from concurrent.futures import Future

from tests.clients.adapters.base import Client, Committed, Consumer, ConsumerOptions, Partition, Record

# Long enough for kafka-python, which begins a rebalance anew when one poll is too short for it.
POLL_SECONDS = 0.25
STOP_SECONDS = 30.0


class Member:
    """Clients are not thread-safe, so every call to the consumer is made by the thread that polls it."""

    def __init__(self, client: Client, bootstrap: str, options: ConsumerOptions, topics: tuple[str, ...]) -> None:
        self._client = client
        self._bootstrap = bootstrap
        self._options = options
        self._topics = topics
        self._stopping = threading.Event()
        self._commits: list[tuple[Mapping[Partition, Committed], Future[None]]] = []
        self.records: list[Record] = []
        self.assigned: frozenset[Partition] = frozenset()
        self.revoked_ever: frozenset[Partition] = frozenset()
        self.assignments = 0
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            consumer = self._client.consumer(self._bootstrap, self._watched())
            consumer.subscribe(*self._topics)
            try:
                while not self._stopping.is_set():
                    self.records += consumer.poll(POLL_SECONDS)
                    self.assigned = consumer.assignment()
                    self._commit_asked(consumer)
            finally:
                consumer.close()
        except BaseException as error:
            self.failure = error
            raise

    def _watched(self) -> ConsumerOptions:
        options = self._options
        return ConsumerOptions(
            group=options.group,
            reset=options.reset,
            instance_id=options.instance_id,
            assignor=options.assignor,
            session_timeout_ms=options.session_timeout_ms,
            heartbeat_ms=options.heartbeat_ms,
            on_assigned=self._on_assigned,
            on_revoked=self._on_revoked,
        )

    def _on_assigned(self, partitions: frozenset[Partition]) -> None:
        self.assignments += 1

    def _on_revoked(self, partitions: frozenset[Partition]) -> None:
        self.revoked_ever |= partitions

    def _commit_asked(self, consumer: Consumer) -> None:
        while self._commits:
            offsets, done = self._commits.pop(0)
            try:
                consumer.commit(offsets)
            except Exception as error:  # noqa: BLE001 - handed to whoever asked
                done.set_exception(error)
            else:
                done.set_result(None)

    def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        done: Future[None] = Future()
        self._commits.append((offsets, done))
        done.result(STOP_SECONDS)

    def leave(self) -> None:
        """Closes the consumer: a dynamic member leaves its group, a static one does not."""
        self._stopping.set()
        self._thread.join(STOP_SECONDS)
        assert not self._thread.is_alive(), "the consumer does not close"
        if self.failure is not None:
            raise self.failure


def shared_out(members: list[Member], partitions: frozenset[Partition]) -> bool:
    """Whether the members have all partitions among them, each one once and nobody none."""
    for member in members:
        if member.failure is not None:
            raise AssertionError("a member failed") from member.failure
    held = [partition for member in members for partition in member.assigned]
    enough = len(partitions) >= len(members)
    return sorted(held) == sorted(partitions) and (not enough or all(member.assigned for member in members))
