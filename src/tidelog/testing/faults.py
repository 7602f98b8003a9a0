"""Faults beside a test: one node at a time, round and round, until the test is over."""

import random
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final

from tidelog.testing.cluster import Cluster

SLOW_MS: Final = 200

# What a kind does to a node; `Cluster.restore` undoes it.
KINDS: Final[dict[str, Callable[[Cluster, int], None]]] = {
    "kill": lambda cluster, node: cluster.kill(node),
    "stop": lambda cluster, node: cluster.stop(node),
    "pause": lambda cluster, node: cluster.pause(node),
    "isolate": lambda cluster, node: cluster.isolate(node),
    "slow": lambda cluster, node: cluster.slow(node, ms=SLOW_MS),
}


class Faults:
    """For the length of a `with` block. The first strikes at once; after the block the cluster is whole again.

    One node at a time, so that a majority of controllers runs, and a topic with three replicas of which two must be in
    sync takes writes. `history` tells what was done to whom.
    """

    def __init__(
        self,
        cluster: Cluster,
        kinds: Sequence[str],
        *,
        hold_s: float = 1.0,
        pause_s: float = 1.0,
        seed: int = 0,
    ) -> None:
        if not kinds or not set(kinds) <= KINDS.keys():
            raise ValueError(f"unknown faults: {', '.join(kinds) or 'none given'}; choose from {', '.join(KINDS)}")
        self.history: list[str] = []
        self._cluster = cluster
        self._kinds = tuple(kinds)
        self._hold_s = hold_s
        self._pause_s = pause_s
        self._rng = random.Random(seed)
        self._is_over = threading.Event()
        self._has_struck = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="tidelog-faults", daemon=True)

    def __enter__(self) -> "Faults":
        self._thread.start()
        self._has_struck.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                fault, node = self._kinds[len(self.history) % len(self._kinds)], self._rng.choice(self._cluster.nodes)
                self.history.append(f"{fault} {node}")
                KINDS[fault](self._cluster, node)
                self._has_struck.set()
                self._is_over.wait(self._hold_s)
                self._cluster.restore()
                self._is_over.wait(self._pause_s)
        except Exception as error:  # noqa: BLE001 - whoever ends the block is told
            self._failure = error
        finally:
            self._has_struck.set()
