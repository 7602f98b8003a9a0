"""Producer ids, handed out from blocks that the controller allocates."""

import asyncio
from collections.abc import Awaitable, Callable

from tidelog.core.ids import ProducerId
from tidelog.wire.errors import ApiError, ErrorCode

# -> (first id, how many)
AllocateBlock = Callable[[], Awaitable[tuple[int, int]]]


class ProducerIds:
    """Invariant: an id in [next, end) was allocated to this broker and never handed out."""

    def __init__(self, allocate: AllocateBlock) -> None:
        self._allocate = allocate
        self._next = 0
        self._end = 0
        self._lock = asyncio.Lock()

    async def next_id(self) -> ProducerId:
        async with self._lock:
            if self._next >= self._end:
                try:
                    first, count = await self._allocate()
                except ApiError as error:
                    raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer ids yet: {error}") from error
                self._next, self._end = first, first + count
            taken = self._next
            self._next += 1
            return ProducerId(taken)
