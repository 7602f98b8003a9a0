"""What the stories run against: a Tidelog node, or the reference they were written by.

TIDELOG_CLIENT_BOOTSTRAP=HOST:PORT  a cluster that is already there
TIDELOG_CLIENT_TARGET=apache        Apache Kafka, started from its own jars
neither                             Tidelog
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

# A session time-out a test can wait for, and no pause for members that are not coming.
STORY_CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "4",
}


class Target(Protocol):
    """One node whose data outlives it."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def log_dir(self) -> Path: ...

    def kill(self, node: int) -> None: ...

    def stop(self, node: int) -> None: ...

    def start(self, node: int) -> None: ...


def is_reference() -> bool:
    return os.environ.get("TIDELOG_CLIENT_TARGET") == "apache"


@contextmanager
def one_node(directory: Path, config: Mapping[str, str] | None = None) -> Iterator[Target]:
    """A node of its own for a test that breaks it or reads its files."""
    settings = {**STORY_CONFIG, **(config or {})}
    if is_reference():
        from tests.interop.apache_kafka import ApacheKafka

        with ApacheKafka(directory, settings) as kafka:
            yield kafka
    else:
        from tests.clients.tidelog_node import TidelogNode

        with TidelogNode(directory, settings) as tidelog:
            yield tidelog


@contextmanager
def shared_bootstrap(directory: Path) -> Iterator[str]:
    """The address all stories of a worker share."""
    named = os.environ.get("TIDELOG_CLIENT_BOOTSTRAP")
    if named:
        yield named
        return
    with one_node(directory) as node:
        yield node.bootstrap
