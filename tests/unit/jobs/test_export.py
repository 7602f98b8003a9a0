"""What an export keeps in its directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.jobs.drivers import Jvm, StillThere, birth
from tidelog.jobs.export.folder import COMMIT_LOG, JVM, BadFolder, ExportFolder, Identity, committed_files

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
    with pytest.raises(BadFolder, match="nobody can tell"):
        folder.sweep()


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
    with pytest.raises(BadFolder, match=r"thesis\.txt is in it"), ExportFolder(tmp_path / "mine").held(ORDERS, HERE):
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
