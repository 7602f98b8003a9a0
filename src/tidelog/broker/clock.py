"""The system's wall clock: the one place that reads it."""

import time


class SystemWallClock:
    """`core.ports.WallClock` of production."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000  # noqa: TID251 - this is the port
