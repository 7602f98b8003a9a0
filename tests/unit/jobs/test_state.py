"""What others see of a run, however it ended (L2)."""

import json
import os
import subprocess
import sys
import urllib.request
from dataclasses import asdict
from pathlib import Path

import pytest

from tidelog.cli.app import run
from tidelog.jobs.drivers import birth
from tidelog.jobs.pipeline.metrics import exposition, served
from tidelog.jobs.pipeline.state import DIED, RUNNING, Busy, QueryState, RunState, StateFolder

HOLDER = """
import sys
from pathlib import Path
from tidelog.jobs.pipeline.state import StateFolder
with StateFolder(Path(sys.argv[1])).held():
    print("held", flush=True)
    sys.stdin.read()
"""


def running(pid: int) -> RunState:
    query = QueryState(name="table", sink="out", batch_id=3, rows=10, rows_per_second=20.5, batch_ms=488)
    query.total_rows, query.total_batches, query.backlog = 40, 4, {"clicks": 7}
    query.late_rows = 3
    return RunState(name='a "b"', file="a.toml", master="local[2]", pid=pid, state=RUNNING, queries=[query])


def test_a_killed_run_is_seen_as_such_and_leaves_the_lock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = StateFolder(tmp_path)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        folder.write(running(holder.pid))
        assert folder.read()["state"] == RUNNING
        with pytest.raises(Busy, match=f"in use by process {holder.pid}"), folder.held():
            pass
        assert run(["pipeline", "status", str(tmp_path)]) == 0
        shown = capsys.readouterr().out.splitlines()
        assert shown[0] == f'a "b" running, process {holder.pid} on local[2]'
        assert shown[2].split() == ["table", "3", "40", "20", "488", "clicks", "7", "0", "3", "out"]
    finally:
        holder.kill()
        holder.communicate()
    assert folder.read()["state"] == DIED
    assert run(["pipeline", "status", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == DIED
    with folder.held():
        pass


def test_the_jvm_of_a_killed_run_is_waited_for(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    other = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    state = running(1)
    state.jvm_pid, state.jvm_born = other.pid, birth(other.pid)
    assert state.jvm_born
    folder.write(state)
    assert other.stdin is not None
    other.stdin.close()
    # Nobody has waited for it yet: as a zombie it does no harm.
    with folder.held():
        assert birth(other.pid) == ""
    other.wait()
    assert birth(os.getpid()) != ""


def test_a_state_that_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    """Nobody can tell whose JVM may still write to the checkpoint."""
    (tmp_path / "pipeline.json").write_text("")
    with (
        pytest.raises(Busy, match=r"pipeline\.json is not a pipeline's state file.*remove the file"),
        StateFolder(tmp_path).held(),
    ):
        pass


def test_numbers_for_prometheus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = asdict(running(1))
    text = exposition(state)
    for line in (
        'tidelog_pipeline_up{pipeline="a \\"b\\""} 1',
        'tidelog_pipeline_rows_per_second{pipeline="a \\"b\\"",query="table"} 20.5',
        'tidelog_pipeline_batch_duration_seconds{pipeline="a \\"b\\"",query="table"} 0.488',
        'tidelog_pipeline_rows_total{pipeline="a \\"b\\"",query="table"} 40',
        'tidelog_pipeline_backlog_records{pipeline="a \\"b\\"",query="table",source="clicks"} 7',
        'tidelog_pipeline_late_rows_total{pipeline="a \\"b\\"",query="table"} 3',
    ):
        assert line in text.splitlines()
    with served(0, lambda: state) as port, urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        assert answer.read().decode() == text
    # As a version wrote it that did not count them.
    del state["queries"][0]["late_rows"]
    assert 'tidelog_pipeline_late_rows_total{pipeline="a \\"b\\"",query="table"} 0' in exposition(state).splitlines()
    StateFolder(tmp_path).write(running(1))
    assert run(["pipeline", "status", str(tmp_path), "--prometheus"]) == 0
    assert 'tidelog_pipeline_up{pipeline="a \\"b\\""} 0' in capsys.readouterr().out
