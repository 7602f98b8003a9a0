"""`tidelog.spark.register` under Spark Connect, from an environment that is not activated."""

import os
import subprocess
import sysconfig
import textwrap
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clients.waiting import wait_until
from tests.interop.registries import NO_ANSWER, RegistryUnreachable, skip_unreachable
from tests.spark.standalone import SPARK_HOME, free_port, listens
from tests.spark.test_source import numbered, write

from tidelog.testing import Cluster

pytestmark = [pytest.mark.timeout(600)]

# What pyspark[connect] adds to PySpark.
PACKAGES = ("grpcio", "grpcio-status", "googleapis-common-protos", "pandas<3", "zstandard")
SCRIPT = """
import sys
from pyspark.sql import SparkSession
import tidelog.spark

remote, bootstrap, topic = sys.argv[1:]
spark = SparkSession.builder.remote(remote).getOrCreate()
tidelog.spark.register(spark)
options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
print(spark.read.format("tidelog").options(**options).load().count())
"""


@pytest.fixture(scope="session")
def connect_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with this one's packages and those of Spark Connect."""
    folder = tmp_path_factory.mktemp("connect")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "-q", *PACKAGES]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=400)
    if done.returncode != 0 and NO_ANSWER.search(done.stderr):
        skip_unreachable(RegistryUnreachable("PyPI does not answer"))
    assert done.returncode == 0, done.stderr
    [packages] = folder.glob("lib/python*/site-packages")
    # Editable installations are `.pth` files, which Python reads in directories added this way only.
    site = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    (packages / "tidelog-tests.pth").write_text(site)
    return python


@pytest.fixture
def elsewhere(tmp_path: Path) -> dict[str, str]:
    """Another python3 comes first in PATH, and it has no packages."""
    venv.create(tmp_path / "other", with_pip=False)
    kept = {name: os.environ[name] for name in ("JAVA_HOME", "HOME") if name in os.environ}
    return {"PATH": f"{tmp_path / 'other' / 'bin'}:/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1", **kept}


def run(
    python: Path, environment: dict[str, str], folder: Path, remote: str, bootstrap: str
) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    return subprocess.run(
        [str(python), "-W", "ignore", str(script), remote, bootstrap, "orders"],
        env=environment,
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_local_connect_server_runs_the_python_of_the_script(
    connect_python: Path, elsewhere: dict[str, str], tmp_path: Path
) -> None:
    with Cluster(brokers=1) as cluster:
        cluster.create_topic("orders", config={"retention.ms": "-1"})
        write(cluster.bootstrap, "orders", numbered(0, 20))
        done = run(connect_python, elsewhere, tmp_path, "local[1]", cluster.bootstrap)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == ["20"]


@pytest.fixture
def server(elsewhere: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """A Spark Connect server that was started with the other Python."""
    port = free_port()
    settings = {"spark.connect.grpc.binding.port": str(port), "spark.ui.enabled": "false"}
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[1]"]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=elsewhere, cwd=tmp_path, stdout=log, stderr=log)
        try:
            wait_until(lambda: listens(port), "a Spark Connect server", 120)
            yield f"sc://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def test_the_python_of_another_server_is_reported(
    connect_python: Path, elsewhere: dict[str, str], server: str, tmp_path: Path
) -> None:
    done = run(connect_python, elsewhere, tmp_path, server, "127.0.0.1:1")
    [line] = [line for line in done.stderr.splitlines() if line.startswith("Spark's Python workers run Python")]
    assert str(tmp_path / "other") in line
    assert "it lacks pyarrow and tidelog. Set PYSPARK_PYTHON" in line
