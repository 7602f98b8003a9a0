"""What executors are sent."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

from tidelog.spark import shipping


def test_the_package_is_made_once_and_can_be_used_where_it_is_unpacked(tmp_path: Path) -> None:
    archive = shipping.package_archive(tmp_path / "cache")
    stamp = archive.stat().st_mtime_ns
    assert shipping.package_archive(tmp_path / "cache") == archive
    assert archive.stat().st_mtime_ns == stamp
    assert [each.name for each in (tmp_path / "cache").iterdir()] == [archive.name]
    with tarfile.open(archive) as tar:
        names = tar.getnames()
        tar.extractall(tmp_path / "unpacked", filter="data")
    assert "tidelog/spark/reading.py" in names
    # Compiled by Numba, and nothing that Python makes for itself.
    assert not [name for name in names if name.endswith(".pyc")]
    source = tmp_path / "unpacked" / "tidelog" / "kernel" / "native.py"
    assert source.stat().st_mtime_ns // 1_000_000 == Path(_kernel()).stat().st_mtime_ns // 1_000_000
    code = "import tidelog.spark.options as o; print(o.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "unpacked")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.startswith(str(tmp_path / "unpacked"))


def _kernel() -> str:
    import tidelog.kernel.native

    return tidelog.kernel.native.__file__


def test_all_that_the_tasks_import_is_sent() -> None:
    """Whoever adds a library to what runs on executors has to send it."""
    code = (
        "import sys, importlib.metadata as m\n"
        "import tidelog.spark.source, tidelog.kernel, tidelog.jobs.pipeline.decoding\n"
        "tops = {name.partition('.')[0] for name in sys.modules}\n"
        "owners = m.packages_distributions()\n"
        "print(*sorted({d.lower() for top in tops for d in owners.get(top, [])}))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    # Setuptools puts itself into every Python that it is installed in.
    where_spark_is = {"pyspark", "py4j", "pyarrow", "setuptools", "tidelog"}
    # Numba takes these where they are, for its settings and the colours of its errors, and does without.
    taken_if_there = {"colorama", "pyyaml"}
    assert set(done.stdout.split()) - where_spark_is - taken_if_there <= set(shipping.LIBRARIES)


def test_a_local_master_needs_nothing_sent() -> None:
    assert shipping.is_local("local") and shipping.is_local("local[*]")
    for master in ("local-cluster[1,1,512]", "spark://a:1", "yarn"):
        assert not shipping.is_local(master)
