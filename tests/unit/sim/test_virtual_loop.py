"""The virtual loop: time jumps, order is fixed, and asyncio's own tools work on it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from tidelog.sim.loop import Deadlock, Spinning, VirtualLoop, run


def test_time_jumps_and_nothing_waits() -> None:
    async def main() -> float:
        await asyncio.sleep(3600 * 24 * 400)
        return asyncio.get_running_loop().time()

    assert run(main()) == 3600 * 24 * 400


def test_timers_of_the_same_moment_run_in_the_order_they_were_set() -> None:
    loop = VirtualLoop()
    seen: list[int] = []
    for number in range(100):
        loop.call_later(1.0, seen.append, number)
    loop.run_for(2.0)
    assert seen == list(range(100))
    assert loop.time() == 2.0


def test_a_cancelled_timer_does_not_move_time() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        for _ in range(1000):
            loop.call_later(100, pytest.fail).cancel()
        await asyncio.sleep(1)
        return loop.time()

    assert run(main()) == 1


def test_waiting_for_nothing_is_a_deadlock() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock):
        run(main())


def test_timeouts_task_groups_and_locks_work() -> None:
    async def main() -> list[str]:
        trace: list[str] = []
        lock = asyncio.Lock()

        async def worker(name: str, delay: float) -> None:
            async with lock:
                await asyncio.sleep(delay)
                trace.append(f"{name}@{asyncio.get_running_loop().time():g}")

        async with asyncio.TaskGroup() as group:
            for index in range(3):
                group.create_task(worker(f"w{index}", 1 + index))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.sleep(50)
        trace.append(f"timeout@{asyncio.get_running_loop().time():g}")
        return trace

    assert run(main()) == ["w0@1", "w1@3", "w2@6", "timeout@11"]


def test_the_executor_runs_inline() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, lambda: 1 // 0)
        return await asyncio.to_thread(lambda: 42)

    assert run(main()) == 42


def test_run_cancels_what_is_left() -> None:
    seen: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            seen.append("cleaned")

    async def main() -> None:
        task = asyncio.create_task(forever())
        await asyncio.sleep(1)
        assert not task.done()

    run(main())
    assert seen == ["cleaned"]


def test_an_exception_in_a_callback_reaches_the_handler_and_not_the_loop() -> None:
    loop = VirtualLoop()
    seen: list[object] = []
    loop.set_exception_handler(lambda _, context: seen.append(context["exception"]))
    loop.call_soon(lambda: 1 // 0)
    loop.run_for(1)
    assert [type(error) for error in seen] == [ZeroDivisionError]


async def busy_story(trace: Callable[[str], None]) -> None:
    """Clients and a server with timers and sets of strings: enough for an accident of order to show."""
    loop = asyncio.get_running_loop()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            trace(f"{loop.time():.3f} server got {line!r}")
            await asyncio.sleep(len(line) % 3 * 0.1)
            writer.write(line.upper())
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "localhost", 9092)

    async def client(name: str) -> None:
        reader, writer = await asyncio.open_connection("localhost", 9092)
        for index in range(5):
            writer.write(f"{name}-{index}{'x' * index}\n".encode())
            trace(f"{loop.time():.3f} {name} got {await reader.readline()!r}")
            await asyncio.sleep(0.05)
        writer.close()
        await writer.wait_closed()
        trace(f"{loop.time():.3f} {name} closed")

    await asyncio.gather(*(client(f"client{number}") for number in range(4)))
    server.close()
    trace(f"{loop.time():.3f} {len(asyncio.all_tasks())} tasks")


def test_the_same_trace_twice() -> None:
    traces: list[list[str]] = []
    for _ in range(2):
        trace: list[str] = []
        run(busy_story(trace.append))
        traces.append(trace)
    assert traces[0] == traces[1]
    assert len(traces[0]) > 40


def test_the_same_trace_under_another_hash_seed() -> None:
    program = (
        f"import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('story', {__file__!r})\n"
        f"story = importlib.util.module_from_spec(spec); spec.loader.exec_module(story)\n"
        f"story.run(story.busy_story(print))\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert len(next(iter(outputs))) > 1000


async def turns_for_ever() -> None:
    while True:
        await asyncio.sleep(0)


def test_who_lets_no_time_pass_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.sim.loop.MOST_AT_ONCE", 1000)

    def spin() -> None:
        loop.call_later(0.0, spin)

    loop = VirtualLoop()
    loop.call_later(2.5, spin)
    with pytest.raises(
        Spinning, match=r"1000 callbacks at 2\.500000 s .*test_who_lets_no_time_pass\S*spin on 127\.0\.0\.1"
    ):
        loop.run_for(10)

    loop = VirtualLoop()
    with pytest.raises(Spinning, match=r"task the spinner \(turns_for_ever\) on 127\.0\.0\.1"):
        loop.run_until_complete(loop.create_task(turns_for_ever(), name="the spinner"))
    # Without a name: how many tasks there were before in this process is no part of a run.
    with pytest.raises(Spinning, match=r"the last was task \(turns_for_ever\) on 127\.0\.0\.1, the next is task \(t"):
        VirtualLoop().run_until_complete(turns_for_ever())


def test_much_may_happen_while_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.sim.loop.MOST_AT_ONCE", 1000)

    async def main() -> None:
        for _ in range(10):
            for _ in range(500):
                await asyncio.sleep(0)
            await asyncio.sleep(0.001)

    loop = VirtualLoop()
    run(main(), loop=loop)
    assert loop.steps > 5000
