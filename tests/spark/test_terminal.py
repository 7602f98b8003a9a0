"""What a command on Spark leaves on the terminal: one line where something is wrong, none where all is well."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = [pytest.mark.timeout(300)]

# Java says this of itself before Spark begins.
_JAVAS = "WARNING: Using incubator modules: jdk.incubator.vector"

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
from tidelog.jobs import session, workers
spark = session.start("stopped", "local[1]")
spark.sparkContext.parallelize(range(3), 1).map(abs).collect()
def daemons():
    children = spark.sparkContext._jvm.java.lang.ProcessHandle.current().children().toList()
    return sum("pyspark.daemon" in each.info().commandLine().orElse("") for each in children)
before = daemons()
workers.end_workers(spark)
print(before > 0, daemons())
session.stop(spark)
session.stop(spark)
"""


def told(*command: str) -> tuple[str, list[str]]:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=240, check=False)
    return done.stdout, [line for line in done.stderr.splitlines() if line != _JAVAS]


def test_a_mistake_in_sql_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(textwrap.dedent(PIPELINE))
    _, lines = told("-m", "tidelog", "pipeline", "run", str(tmp_path / "p.toml"), "--master", "local[1]")
    assert len(lines) == 1
    assert lines[0].startswith("tidelog: [UNRESOLVED_COLUMN.WITH_SUGGESTION]") and "`nmae`" in lines[0]


def test_workers_have_ended_when_spark_stops() -> None:
    """Those that had not told of the connections that Spark closed, now and then: a traceback below a good result."""
    out, lines = told("-c", STOPPED)
    assert (out, lines) == ("True 0\n", [])
