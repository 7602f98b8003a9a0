"""Wall clocks of simulated nodes: each may be wrong in its own way."""

import asyncio
from typing import Final

START_MS: Final = 1_700_000_000_000
"""What an honest clock shows when virtual time is 0."""


class SimClock:
    """`core.ports.WallClock`: skewed by `skew_ms`, `drift` seconds faster per second, and set wrong by `jump`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, skew_ms: int = 0, drift: float = 0.0) -> None:
        self._loop = loop
        self._since_s = 0.0
        self._base_ms = float(START_MS + skew_ms)
        self._drift = drift

    def now_ms(self) -> int:
        return int(self._exact_ms())

    def jump(self, ms: int) -> None:
        """Somebody sets the clock: forward, or back for a negative number."""
        self._base_ms += ms

    def set_drift(self, drift: float) -> None:
        """From now on; what has accumulated stays."""
        self._base_ms, self._since_s = self._exact_ms(), self._loop.time()
        self._drift = drift

    def correct(self) -> None:
        """As a time daemon does at last: honest again."""
        self._base_ms, self._since_s, self._drift = float(START_MS), 0.0, 0.0

    def _exact_ms(self) -> float:
        return self._base_ms + (self._loop.time() - self._since_s) * 1000 * (1 + self._drift)
