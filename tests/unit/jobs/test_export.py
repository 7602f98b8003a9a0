"""What an export keeps in its directory."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidelog.jobs.drivers import Jvm, StillThere, birth
from tidelog.jobs.export import job
from tidelog.jobs.export.folder import (
    COMMIT_LOG,
    IDENTITY,
    JVM,
    MANIFEST,
    BadFolder,
    ExportFolder,
    Identity,
    committed_files,
)
from tidelog.jobs.export.job import merging

HERE = Jvm(os.getpid(), birth(os.getpid()))
ORDERS = Identity(topic="orders", mode="days", text=False)


def entry(*paths: str) -> str:
    return "\n".join(["v1", *(f'{{"path":"file://{path}","size":1,"action":"add"}}' for path in paths)])


def test_a_compacted_entry_of_the_commit_log_holds_all_before_it(tmp_path: Path) -> None:
    log = tmp_path / COMMIT_LOG
    assert committed_files(log) == set()
    log.mkdir()
    (log / "8").write_text(entry("/a/day=1/old"))
    (log / "9.compact").write_text(entry("/a/day=1/one%20two", "/a/day=1/three"))
    (log / "10").write_text(entry("/a/day=2/four"))
    (log / ".10.crc").write_bytes(b"\0\xff")
    assert committed_files(log) == {"day=1/one two", "day=1/three", "day=2/four"}


def test_files_that_do_not_count_go_and_no_others(tmp_path: Path) -> None:
    folder, day = ExportFolder(tmp_path), tmp_path / "day=1"
    day.mkdir()
    files = [day / "one.parquet", day / "orphan.parquet"]
    for file in files:
        file.touch()
    (tmp_path / COMMIT_LOG).mkdir()
    # Written before the directory was moved here.
    (tmp_path / COMMIT_LOG / "0").write_text(entry("/elsewhere/day=1/one.parquet"))
    (folder.checkpoint / "commits").mkdir(parents=True)
    (folder.checkpoint / "commits" / "0").touch()
    assert folder.sweep() == 1
    assert [file.exists() for file in files] == [True, False]
    (tmp_path / COMMIT_LOG / "0").unlink()
    with pytest.raises(BadFolder, match="lists the files that belong"):
        folder.sweep()


def test_files_that_executors_have_written_elsewhere_are_missed(tmp_path: Path) -> None:
    folder = ExportFolder(tmp_path)
    (tmp_path / COMMIT_LOG).mkdir()
    (tmp_path / COMMIT_LOG / "0").write_text(entry(f"{tmp_path}/day=1/one.parquet", f"{tmp_path}/day=1/two.parquet"))
    (tmp_path / "day=1").mkdir()
    for name in ("one", "two"):
        with pytest.raises(BadFolder, match=rf"of 2 files were written .* day=1/{name}\.parquet: executors"):
            folder.require(folder.committed())
        (tmp_path / "day=1" / f"{name}.parquet").touch()
    folder.require(folder.committed())


def test_a_directory_belongs_to_one_export(tmp_path: Path) -> None:
    folder = ExportFolder(tmp_path / "orders")
    with (
        folder.held(ORDERS, HERE),
        pytest.raises(BadFolder, match="is running"),
        ExportFolder(folder.path).held(ORDERS, HERE),
    ):
        pass
    with folder.held(ORDERS, HERE):
        pass
    with (
        pytest.raises(BadFolder, match="another kind"),
        folder.held(Identity(topic="x", mode="days", text=False), HERE),
    ):
        pass
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(BadFolder, match=r"it contains thesis\.txt"), ExportFolder(tmp_path / "mine").held(ORDERS, HERE):
        pass


def test_a_table_counts_once_the_manifest_names_it(tmp_path: Path) -> None:
    folder = ExportFolder(tmp_path)
    tables = []
    for batch in range(3):
        table = folder.next_table(batch)
        table.mkdir()
        # A try before this one was killed.
        assert not folder.next_table(batch).exists()
        table.mkdir()
        folder.publish(table, batch, rows=batch)
        tables.append(table)
        assert folder.current() == table
        assert (tmp_path / "current").resolve() == table
    assert [table.exists() for table in tables] == [False, True, True]
    assert folder.manifest() == {"table": "table-000002", "batch": 2, "rows": 2}


def test_the_link_follows_the_manifest_of_a_run_that_was_killed_between_the_two(tmp_path: Path) -> None:
    folder = ExportFolder(tmp_path)
    for batch in range(2):
        folder.next_table(batch).mkdir()
        folder.publish(folder.next_table(batch), batch, rows=1)
    (tmp_path / "current").unlink()
    (tmp_path / "current").symlink_to("table-000000")
    merging(cast(SparkSession, None), folder)(cast(DataFrame, None), 1)
    assert (tmp_path / "current").resolve() == tmp_path / "table-000001"


@pytest.mark.parametrize("mode", ["days", "latest"])
def test_a_checkpoint_that_begins_anew_is_refused(tmp_path: Path, mode: str) -> None:
    """Spark, or the manifest, would take its first batches for those that were written, and leave them out."""
    folder, identity = ExportFolder(tmp_path), Identity(topic="orders", mode=mode, text=False)
    (folder.checkpoint / "offsets").mkdir(parents=True)
    (folder.checkpoint / "offsets" / "10").touch()
    if mode == "days":
        (tmp_path / COMMIT_LOG).mkdir()
        (tmp_path / COMMIT_LOG / "9.compact").write_text(entry())
    else:
        (tmp_path / MANIFEST).write_text('{"table": "table-000009", "batch": 9, "rows": 1}')
    (tmp_path / IDENTITY).write_text(json.dumps(asdict(identity)))
    with folder.held(identity, HERE):
        pass
    (folder.checkpoint / "offsets" / "10").unlink()
    with pytest.raises(BadFolder, match="has batches up to 9: the position in"), folder.held(identity, HERE):
        pass


def test_the_jvm_of_a_killed_export_is_waited_for_before_anything_is_swept(tmp_path: Path) -> None:
    """It may be about to commit the files that it has written."""
    other = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    theirs = Jvm(other.pid, birth(other.pid))
    with pytest.raises(KeyboardInterrupt), ExportFolder(tmp_path).held(ORDERS, theirs):
        raise KeyboardInterrupt
    with pytest.raises(StillThere, match=str(other.pid)):
        theirs.wait_until_gone(patience_s=0)
    assert other.stdin is not None
    other.stdin.close()
    with ExportFolder(tmp_path).held(ORDERS, HERE):
        assert birth(other.pid) == ""
    assert not (tmp_path / JVM).exists()
    other.wait()


def test_only_what_is_committed_is_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of a transaction that was aborted would become rows for ever."""

    def source(spark: object, options: dict[str, str], topic: str, *, text: bool) -> DataFrame:
        raise LookupError(options["kafka.isolation.level"])

    monkeypatch.setattr(job, "jvm_of", lambda spark: HERE)
    monkeypatch.setattr(job, "require_shared", lambda spark, paths: None)
    monkeypatch.setattr(job, "_source", source)
    with pytest.raises(LookupError, match="read_committed"):
        job.export(cast(SparkSession, None), "host:1", "orders", tmp_path)
