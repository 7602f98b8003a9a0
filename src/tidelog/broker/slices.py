"""Long work on the event loop, a slice at a time."""

import asyncio
from collections.abc import Generator
from typing import Final, TypeVar

T = TypeVar("T")

# Short beside what a request takes: who is served meanwhile does not notice.
SLICE_S: Final = 0.002


async def in_slices(steps: Generator[None, None, T], slice_s: float = SLICE_S) -> T:
    """Runs `steps` to its end and returns its result; after each slice the others have their turn."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + slice_s
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        if loop.time() >= deadline_s:
            await asyncio.sleep(0)
            deadline_s = loop.time() + slice_s
