"""Ctrl-C in a blocking call: the work in the other thread ends before the caller goes on."""

import asyncio
import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from tidelog.testing.loop_thread import LoopThread


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    # A worker of pytest-xdist may have another handler.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = LoopThread("test")
    yield thread
    thread.close()
    signal.signal(signal.SIGINT, before)


async def ctrl_c() -> None:
    main = threading.main_thread().ident
    assert main is not None
    # Not before the caller waits: pytest itself must not be interrupted.
    while sys._current_frames()[main].f_code.co_name != "wait":
        await asyncio.sleep(0.001)
    signal.pthread_kill(main, signal.SIGINT)


def test_interrupted_work_has_cleaned_up_when_the_call_returns(thread: LoopThread) -> None:
    cleaned_up = []

    async def work() -> None:
        try:
            await ctrl_c()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            cleaned_up.append(True)

    with pytest.raises(KeyboardInterrupt):
        thread.call(work())
    assert cleaned_up == [True]


def test_work_that_must_not_be_cancelled_is_hurried_instead(thread: LoopThread) -> None:
    hurry = asyncio.Event()
    ended = []

    async def work() -> None:
        await ctrl_c()
        await hurry.wait()
        ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        thread.call(work(), on_interrupt=hurry.set)
    assert ended == [True]
