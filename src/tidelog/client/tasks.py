"""Waiting for tasks, for this package and those above it."""

import asyncio
from collections.abc import Iterable
from typing import Any


async def ended(tasks: Iterable["asyncio.Future[Any]"]) -> None:
    """Until every one has ended, in whatever way; nobody is told how.

    The same on every Python: how often `gather` lets others run before it returns, if all it waits for has ended
    already, depends on the version, and a simulation would count it.
    """
    running = []
    for task in tasks:
        if not task.done():
            running.append(task)
        elif not task.cancelled():
            # Looked at, so that nobody complains of an error that was never retrieved.
            task.exception()
    if running:
        await asyncio.gather(*running, return_exceptions=True)
