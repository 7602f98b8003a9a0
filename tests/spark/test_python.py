"""`python script.py` from a virtual environment that is not activated: the Python workers of Spark run its Python."""

import os
import subprocess
import sys
import textwrap
import venv
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest
from tests.soak import full_length
from tests.spark.test_source import numbered, write

from tidelog.testing import Cluster

# A second JVM. Both launchers start the same program.
LONG = (pytest.mark.soak, pytest.mark.skipif(not full_length(), reason="another JVM: make soak"))
pytestmark = [pytest.mark.timeout(300)]

SCRIPT = """
import sys
from pyspark.sql import SparkSession
import tidelog.spark

bootstrap, topic, checkpoint = sys.argv[1:]
builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()

def prefix(_):
    import sys
    return sys.prefix

# As in a notebook: the session is in use before `register`.
print(spark.sparkContext.parallelize([0], 1).map(prefix).first())
tidelog.spark.register(spark)
print(spark.sparkContext.parallelize([0], 1).map(prefix).first())
options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
print(spark.read.format("tidelog").options(**options).load().count())
copied = spark.readStream.format("tidelog").options(**options).load().select("value").writeStream.format("tidelog")
copied = copied.options(**options, topic=topic + "-copy", checkpointLocation=checkpoint)
copied.trigger(availableNow=True).start().awaitTermination()
options["subscribe"] = topic + "-copy"
print(spark.read.format("tidelog").options(**options).load().count())
"""


@pytest.fixture
def elsewhere(tmp_path: Path) -> dict[str, str]:
    """An environment with another python3 in PATH, which has no packages."""
    venv.create(tmp_path / "other", with_pip=False)
    kept = {name: os.environ[name] for name in ("JAVA_HOME", "HOME") if name in os.environ}
    return {"PATH": f"{tmp_path / 'other' / 'bin'}:/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1", **kept}


def run(command: list[str], environment: dict[str, str], folder: Path) -> list[str]:
    done = subprocess.run(
        command, env=environment, cwd=folder, check=False, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("launcher", ["python", pytest.param("spark-submit", marks=LONG)])
def test_a_script_runs_without_activation(
    cluster: Cluster, topic: Callable[..., str], tmp_path: Path, elsewhere: dict[str, str], launcher: str
) -> None:
    name = topic()
    write(cluster.bootstrap, name, numbered(0, 20))
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    command = [sys.executable]
    if launcher == "spark-submit":
        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[1]"]
        elsewhere |= {"PYSPARK_DRIVER_PYTHON": sys.executable}
    arguments = [str(script), cluster.bootstrap, name, str(tmp_path / "checkpoint")]
    out = run([*command, *arguments], elsewhere, tmp_path)
    assert out == [str(tmp_path / "other"), sys.prefix, "20", "20"]
