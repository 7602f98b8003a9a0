"""Directories of killed processes are removed after a day, and no others."""

import os
from pathlib import Path

import pytest

from tidelog.cluster.directory_lock import DirectoryLock
from tidelog.cluster.layout import ClusterDir
from tidelog.testing import leftovers

AGE_S = leftovers.KEPT_S + 60


def left_behind(parent: Path, name: str = "tidelog-killed", *, age_s: float = AGE_S) -> Path:
    """As a killed process leaves it: marked, with data, the lock free."""
    directory = parent / name
    (directory / "node-1").mkdir(parents=True)
    (directory / "node-1" / "data").write_text("records")
    leftovers.mark(directory)
    before_s = (directory / leftovers.MARK).stat().st_mtime - age_s
    os.utime(directory / leftovers.MARK, (before_s, before_s))
    return directory


def test_old_data_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    directory = left_behind(tmp_path)
    assert leftovers.remove_old(tmp_path) == [directory]
    assert not directory.exists()


def test_data_of_today_is_kept(tmp_path: Path) -> None:
    directory = left_behind(tmp_path, age_s=60)
    assert leftovers.remove_old(tmp_path) == []
    assert (directory / "node-1" / "data").exists()


def test_data_of_a_running_cluster_is_kept(tmp_path: Path) -> None:
    directory = left_behind(tmp_path)
    lock = DirectoryLock.take(ClusterDir(directory).lock_file)
    assert leftovers.remove_old(tmp_path) == []
    lock.release()
    assert leftovers.remove_old(tmp_path) == [directory]


def test_data_that_a_failed_test_keeps_is_never_removed(tmp_path: Path) -> None:
    directory = left_behind(tmp_path)
    leftovers.unmark(directory)
    assert leftovers.remove_old(tmp_path) == []
    assert directory.exists()


def test_other_directories_and_links_are_left_alone(tmp_path: Path) -> None:
    other = left_behind(tmp_path, "other-killed")
    elsewhere = left_behind(tmp_path / "elsewhere", "data")
    link = tmp_path / "tidelog-link"
    link.symlink_to(elsewhere)
    (tmp_path / "tidelog-file").write_text("not a directory")
    assert leftovers.remove_old(tmp_path) == []
    assert other.exists() and elsewhere.exists() and link.is_symlink()


def test_directories_of_other_users_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = left_behind(tmp_path)
    monkeypatch.setattr(os, "getuid", lambda: directory.stat().st_uid + 1)
    assert leftovers.remove_old(tmp_path) == []


def test_one_start_removes_a_few_and_the_next_one_goes_on(tmp_path: Path) -> None:
    directories = [left_behind(tmp_path, f"tidelog-{number:02}") for number in range(12)]
    assert leftovers.remove_old(tmp_path) == directories[:10]
    assert leftovers.remove_old(tmp_path) == directories[10:]
