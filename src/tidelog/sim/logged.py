"""What nodes log: nobody reads it by the thousand seeds, but an exception in it is one that nobody expected.

A node catches what goes wrong in one fetcher or one connection, logs it with its traceback, and goes on. Here that is
a bug that was found, unless a fault of the disk is the cause.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tidelog.sim.disk import ProcessGone
from tidelog.storage.memory import INJECTED

LOGGER: Final = logging.getLogger("tidelog")


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, ProcessGone) and INJECTED not in str(error):
            self.found.append(f"logged by {record.name}: {record.getMessage()}: {type(error).__name__}: {error}")


@contextmanager
def collected() -> Iterator[list[str]]:
    """Exceptions that are logged meanwhile, in words."""
    collector = _Collector()
    LOGGER.addHandler(collector)
    try:
        yield collector.found
    finally:
        LOGGER.removeHandler(collector)


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing that is logged meanwhile is shown, and below an error nothing is even put into words."""
    level, propagates = LOGGER.level, LOGGER.propagate
    # Without any, Python writes errors to stderr.
    nobody = logging.NullHandler()
    LOGGER.addHandler(nobody)
    LOGGER.setLevel(logging.ERROR)
    LOGGER.propagate = False
    try:
        yield
    finally:
        LOGGER.removeHandler(nobody)
        LOGGER.setLevel(level)
        LOGGER.propagate = propagates
