"""From the committed metadata log to images: what the publisher asks of the quorum."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from tidelog.broker.metadata_publisher import MetadataPublisher


class Log:
    log_start_offset = 0
    latest_snapshot = None


class Raft:
    """A log that is due for a snapshot."""

    high_watermark = 0
    log = Log()

    def is_snapshot_due(self, last_snapshot_ms: int, now_ms: int) -> bool:
        return True


class Quorum:
    """Takes work and does not begin with it, as a loop that has other things to do first."""

    failure = None

    def __init__(self) -> None:
        self.raft = Raft()
        self.work: list[Coroutine[Any, Any, None]] = []

    def watch(self, watcher: Callable[[], None]) -> None: ...

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self.work.append(work)


class Clock:
    def now_ms(self) -> int:
        return 0


@pytest.fixture
def quorum() -> Iterator[Quorum]:
    made = Quorum()
    yield made
    for work in made.work:
        work.close()


@pytest.mark.rule("Q6")
def test_a_snapshot_is_begun_once_however_often_it_is_found_due(quorum: Quorum) -> None:
    async def offload(*_: Any) -> None: ...

    publisher = MetadataPublisher(quorum, offload=offload, wall_clock=Clock())  # type: ignore[arg-type]
    publisher.advance()
    publisher.advance()
    assert len(quorum.work) == 1
