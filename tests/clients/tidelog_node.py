"""A single Tidelog node for tests that kill it and read its files."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tidelog.testing import Cluster


class TidelogNode:
    def __init__(self, directory: Path, config: Mapping[str, str]) -> None:
        self._directory = directory / "cluster"
        self._cluster = Cluster(brokers=1, data=self._directory, config=config)

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    @property
    def log_dir(self) -> Path:
        return self._directory / "node-1" / "data"

    def kill(self, node: int) -> None:
        self._cluster.kill(node)

    def stop(self, node: int) -> None:
        self._cluster.stop(node)

    def start(self, node: int) -> None:
        self._cluster.start(node)

    def __enter__(self) -> Self:
        self._cluster.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.__exit__(kind, error, trace)
