"""The README's table as text, and the processes behind its memory figures."""

import os
import subprocess
import sys

from benchmarks.first_screen_table import BEGIN, END, Measured, Results, render, replace_table
from benchmarks.processes import descendants, proportional_mb

ABOUT = {"cores": "2", "python": "3.11.7", "java": "17", "kafka": "4.3.1", "librdkafka": "2.16.0"}
RESULTS = Results(
    machine=ABOUT,
    tidelog=Measured(
        start_s=[0.8, 0.9, 7.0], memory_mb=[105.4, 104.6, 106], failover_s=[0.2, 0.3, 0.25], lost=[0, 0, 0]
    ),
    kafka=Measured(start_s=[5.1, 5.2, 5.3], memory_mb=[1164, 1163, 1165], failover_s=[10.6, 11, 13], lost=[0, 1, 1]),
    mock=Measured(start_s=[0.004, 0.005, 0.003], memory_mb=[2.6, 2.6, 2.6]),
)
# Starts a process of its own, prints its id, and waits for the end of its input.
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"])
print(child.pid, flush=True)
child.wait()
"""


def test_cells_are_medians_with_three_digits_at_most() -> None:
    cells = {row.split(" | ")[0].strip("| "): row.strip("| ").split(" | ")[1:] for row in render(RESULTS).splitlines()}
    assert cells["start to the first acknowledged write"] == ["0.9 s", "5.2 s", "4 ms"]
    assert cells["memory of all processes, idle (PSS)"] == ["105 MB", "1,160 MB", "3 MB"]
    assert cells["`kill -9` of a leader to the next acknowledged write"] == ["0.25 s", "11 s", "-"]
    assert cells["acknowledged records lost by the kill"] == ["0", "2", "-"]


def test_results_survive_their_file() -> None:
    assert Results.from_json(RESULTS.to_json()) == RESULTS


def test_a_new_table_replaces_the_old_one_only() -> None:
    assert replace_table(f"a\n{BEGIN}old\n{END}b\n", "new\n") == f"a\n{BEGIN}new\n{END}b\n"


def test_memory_is_that_of_a_process_and_all_its_descendants() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None and parent.stdin is not None
        child = int(parent.stdout.readline())
        assert descendants(parent.pid) == [parent.pid, child]
        assert {parent.pid, child} < set(descendants(os.getpid()))
        assert proportional_mb([parent.pid, child]) > proportional_mb([parent.pid]) > 0
        parent.stdin.close()
