"""What a command on Spark prints: its progress and its result or error, and nothing of Java or Spark."""

import os
import pty
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tidelog.testing import Cluster

pytestmark = [pytest.mark.timeout(300)]

PIPELINE = """
[pipeline]
checkpoint = "checkpoint"
bootstrap = "127.0.0.1:1"
[sources.orders]
topics = ["orders"]
value = { format = "json", schema = "id INT, name STRING" }
[steps.named]
sql = "select id, nmae from orders"
[sinks.table]
from = "named"
format = "parquet"
path = "table"
[dead_letters]
path = "dead"
"""
STOPPED = """
from tidelog.jobs import jvm_output, session, workers
output = jvm_output.JvmOutput()
spark = session.start("stopped", "local[1]", None, output)
spark.sparkContext.parallelize(range(3), 1).map(abs).collect()
def daemons():
    children = spark.sparkContext._jvm.java.lang.ProcessHandle.current().children().toList()
    return sum("pyspark.daemon" in each.info().commandLine().orElse("") for each in children)
before = daemons()
workers.end_workers(spark)
print(before > 0, daemons())
session.stop(spark)
session.stop(spark)
output.kept_log(failed=False)
"""


def run(*command: str, env: dict[str, str] | None = None) -> tuple[int, str, list[str]]:
    """Its status, standard output, and the lines of its standard error, which are pipes."""
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=os.environ | (env or {}),
    )
    # A line each half minute is for people, and only a busy machine takes so long here.
    lines = [each for each in done.stderr.splitlines() if not each.endswith(" s so far")]
    return done.returncode, done.stdout, lines


def on_terminal(*command: str) -> tuple[int, str]:
    """Its status, and what a terminal gets from standard output and standard error."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, *command], stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL)
    os.close(theirs)
    found = b""
    with os.fdopen(ours, "rb", buffering=0) as screen:
        try:
            while piece := screen.read(65536):
                found += piece
        except OSError:
            # Linux says so when the other end is closed.
            assert process.wait(60) is not None
    return process.wait(60), found.decode()


READY = re.compile(r"(?P<name>[\w ]+): Spark is ready after \d+\.\d s, .+")


def test_a_mistake_in_sql_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(textwrap.dedent(PIPELINE))
    status, _, lines = run("-m", "tidelog", "pipeline", "run", str(tmp_path / "p.toml"), "--master", "local[1]")
    assert (status, lines[0]) == (1, "pipeline p: starting Spark")
    assert len(lines) == 2
    assert lines[1].startswith("tidelog: [UNRESOLVED_COLUMN.WITH_SUGGESTION]") and "`nmae`" in lines[1]


def test_a_pipe_gets_progress_and_no_warning(cluster: Cluster, tmp_path: Path) -> None:
    """Also not of the Java options that somebody has in the environment. Standard output has JSON alone."""
    cluster.create_topic("piped")
    status, out, lines = run(
        *("-m", "tidelog", "export", "piped", str(tmp_path / "out"), "--master", "local[1]", "--json"),
        *("--bootstrap", cluster.bootstrap),
        env={"JAVA_TOOL_OPTIONS": "-Dtidelog.test=1"},
    )
    assert status == 0 and out.startswith("{") and out.endswith("}\n")
    assert lines[0] == "tidelog export: starting Spark"
    assert READY.fullmatch(lines[1]) and lines[1].endswith("exporting piped")
    assert all(each.startswith("tidelog export: ") for each in lines)


def test_a_terminal_gets_progress_that_disappears_and_no_warning(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("seen")
    status, screen = on_terminal(
        *("-m", "tidelog", "export", "seen", str(tmp_path / "out"), "--master", "local[1]"),
        *("--bootstrap", cluster.bootstrap),
    )
    assert status == 0
    drawn, _, last = screen.rpartition("\r\x1b[K")
    assert last == f"0 new records in {tmp_path / 'out'}\r\n"
    shown = {re.sub(r"\d+", "N", each) for each in drawn.split("\r\x1b[K")}
    for each in shown:
        assert re.fullmatch(r"(. tidelog export: (starting Spark|exporting seen)(: N of N tasks)?, N s)?", each), each


def test_a_jvm_that_does_not_start_is_one_line_with_its_reason_and_a_log() -> None:
    status, _, lines = run(
        *("-m", "tidelog", "campaign", "--seeds", "0", "--master", "local[1]"), env={"SPARK_DRIVER_MEMORY": "1x"}
    )
    assert (status, lines[0]) == (1, "tidelog campaign: starting Spark")
    assert lines[-1].startswith("tidelog: Spark does not start on local[1]: Invalid maximum heap size")
    log = Path(lines[-2].removeprefix("Spark's log: "))
    assert "Invalid maximum heap size" in log.read_text()
    log.unlink()


def test_workers_have_ended_when_spark_stops() -> None:
    """Otherwise a worker may print a traceback about a closed connection, below a good result."""
    assert run("-c", STOPPED) == (0, "True 0\n", [])
