"""Ctrl-C at a terminal reaches every process of a run; the one that was asked ends it, in silence."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "tidelog", "sim", "--seeds", "0..999", "--processes", "2"]


def _workers(pid: int) -> list[int]:
    """Of a process, those that are in the middle of their imports."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if "crc32c" in Path(f"/proc/{child}/maps").read_text()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the workers in /proc")
def test_an_interrupt_ends_all_processes_without_a_trace() -> None:
    process = subprocess.Popen(
        COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while len(_workers(process.pid)) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=90)
    assert process.returncode not in (0, 1)
    assert "Traceback" not in told and "KeyboardInterrupt" not in told, told
