"""Blocking work runs elsewhere and is bounded; log lines are one line each and bounded on disk."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.broker.clock import SystemWallClock
from tidelog.broker.logging_setup import LOG_FILE, configure_logging
from tidelog.broker.offload import InlineOffload, ThreadOffload
from tidelog.core.ports import Offload, WallClock


def test_threads_run_the_work_and_hand_back_errors() -> None:
    async def story() -> None:
        threaded = ThreadOffload(workers=2)
        offload: Offload = threaded
        assert await offload(threading.current_thread) is not threading.main_thread()
        assert await offload(int, "12", base=3) == 5
        with pytest.raises(ZeroDivisionError):
            await offload(lambda: 1 // 0)
        threaded.close()

    asyncio.run(story())


def test_only_so_much_work_is_queued() -> None:
    async def story() -> None:
        offload = ThreadOffload(workers=1, max_queued=3)
        gate = threading.Event()
        tasks = [asyncio.ensure_future(offload(gate.wait)) for _ in range(20)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert offload.queued == 3
        gate.set()
        assert await asyncio.gather(*tasks) == [True] * 20
        assert offload.queued == 0
        offload.close()

    asyncio.run(story())


def test_inline_runs_here() -> None:
    async def story() -> None:
        offload: Offload = InlineOffload()
        assert await offload(threading.current_thread) is threading.current_thread()

    asyncio.run(story())


def test_the_wall_clock_tells_milliseconds() -> None:
    clock: WallClock = SystemWallClock()
    assert clock.now_ms() > 1_700_000_000_000


@pytest.fixture
def log_dir(tmp_path: Path) -> Iterator[Path]:
    undo = configure_logging(str(tmp_path / "data"), max_bytes=2000, backups=2)
    yield tmp_path / "data"
    undo()


def test_a_log_line_is_one_line_in_kafkas_form(log_dir: Path) -> None:
    logging.getLogger("tidelog.network").warning("client %s", "evil\n[2030-01-01] ERROR forged\x1b[31m")
    (line,) = (log_dir / LOG_FILE).read_text().splitlines()
    assert line.endswith("WARNING client evil\\n[2030-01-01] ERROR forged\\x1b[31m (tidelog.network)")
    assert line.startswith("[20")


def test_a_traceback_follows_indented(log_dir: Path) -> None:
    try:
        raise KeyError("why")
    except KeyError:
        logging.getLogger("tidelog.network").exception("a bug")
    first, *rest = (log_dir / LOG_FILE).read_text().splitlines()
    assert "ERROR a bug (tidelog.network)" in first
    assert rest
    assert all(line.startswith("  ") for line in rest)


def test_the_log_is_bounded_on_disk(log_dir: Path) -> None:
    for number in range(1000):
        logging.getLogger("tidelog.network").info("line %d", number)
    files = sorted(path.name for path in log_dir.iterdir())
    assert files == [LOG_FILE, f"{LOG_FILE}.1", f"{LOG_FILE}.2"]
    assert sum(path.stat().st_size for path in log_dir.iterdir()) <= 3 * 2000


def test_levels_are_honoured(tmp_path: Path) -> None:
    undo = configure_logging(str(tmp_path), level="ERROR")
    logging.getLogger("tidelog.x").warning("not this")
    logging.getLogger("tidelog.x").error("but this")
    undo()
    assert "not this" not in (tmp_path / LOG_FILE).read_text()
    assert "but this" in (tmp_path / LOG_FILE).read_text()
