"""Processes under measurement: starting them, and what the kernel says they cost."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
ATTEMPTS = 100


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def free_ports(count: int) -> int:
    """The first of so many in a row; what stood in the way the last time is told if there are none."""
    last: Exception | None = None
    for _ in range(ATTEMPTS):
        first = free_port()
        try:
            with ExitStack() as bound:
                for port in range(first, first + count):
                    bound.enter_context(socket.socket()).bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            # One behind the first is taken, or is past the last port that there is.
            last = error
        else:
            return first
    raise RuntimeError(f"no {count} free ports in a row after {ATTEMPTS} attempts") from last


@contextmanager
def cluster_up(data: Path, port: int, ui_port: int) -> Iterator[dict[str, str]]:
    """`tidelog up` for the length of a block: the fields of its line `ready`."""
    command = [sys.executable, "-m", "tidelog", "up", "--data", str(data)]
    with subprocess.Popen(
        [*command, "--port", str(port), "--ui-port", str(ui_port)],
        stdout=subprocess.PIPE,
        text=True,
        # Compiled code is kept, as where Tidelog is installed: without it a node takes twice as long to start.
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": ""},
    ) as up:
        try:
            assert up.stdout is not None
            word, *fields = up.stdout.readline().split() or [""]
            if word != "ready":
                raise RuntimeError("the cluster did not start")
            yield dict(field.split("=", 1) for field in fields)
        finally:
            up.terminate()


def cpu_seconds(pid: int) -> float:
    """User and system time so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6


def descendants(pid: int) -> list[int]:
    """A process and all that it started, directly or not."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended between the listing and the read
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def proportional_mb(pids: Iterable[int]) -> float:
    """Memory in MB (PSS): a page that several processes share counts once in the sum."""
    total_kib = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total_kib += int(line.split()[1])
    return total_kib * 1024 / 1e6


@contextmanager
def null_server() -> Iterator[tuple[str, int]]:
    """(bootstrap, pid) of a server that only acknowledges."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.null_server", str(port)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError("the null server did not start")
        yield f"127.0.0.1:{port}", process.pid
    finally:
        process.kill()
        process.wait()


def run_producer(bootstrap: str, topic: str, records: int, size: int) -> float:
    """Seconds from the first record to the last acknowledgement."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.producer", bootstrap, topic, str(records), str(size)],
        check=True,
        capture_output=True,
        text=True,
    )
    result = json.loads(done.stdout)
    if result["left"] or result["failed"]:
        raise RuntimeError(f"the producer lost records: {result}")
    return float(result["seconds"])
