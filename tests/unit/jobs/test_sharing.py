"""Whether executors see what the driver writes, with an executor that does not."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError

from tidelog.jobs import sharing
from tidelog.jobs.sharing import NotShared, require_shared


def session(run: Callable[[Callable[[int], Any]], list[Any]], master: str = "spark://host:7077") -> Any:
    def parallelize(numbers: range, slices: int) -> Any:
        return SimpleNamespace(map=lambda task: SimpleNamespace(collect=lambda: run(task)))

    return SimpleNamespace(
        sparkContext=SimpleNamespace(master=master, defaultParallelism=2, parallelize=parallelize),
    )


@pytest.fixture(autouse=True)
def only_hdfs_is_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def file_system(spark: Any, path: str) -> tuple[Any, Any]:
        scheme = "hdfs" if path.startswith("hdfs:") else "file"
        uri = SimpleNamespace(getScheme=lambda: scheme)

        def made(text: str) -> Any:
            return SimpleNamespace(toUri=lambda: SimpleNamespace(getPath=lambda: text.removeprefix("file:")))

        return SimpleNamespace(getUri=lambda: uri), made

    monkeypatch.setattr(sharing, "file_system", file_system)


def test_what_all_of_them_see_is_left_as_it_was(tmp_path: Path) -> None:
    asked: list[Any] = []

    def here(task: Callable[[int], Any]) -> list[Any]:
        asked.extend(each.name[:16] for each in (tmp_path / "table").iterdir())
        return [task(0)]

    require_shared(session(here), [str(tmp_path / "table"), f"file:{tmp_path / 'table'}", "hdfs://names/table"])
    assert asked == [".tidelog-shared-"]
    assert list((tmp_path / "table").iterdir()) == []


def test_an_executor_with_a_disk_of_its_own_is_named(tmp_path: Path) -> None:
    def elsewhere(task: Callable[[int], Any]) -> list[Any]:
        [mark] = tmp_path.iterdir()
        mark.rename(tmp_path.parent / mark.name)
        try:
            return [task(0)]
        finally:
            (tmp_path.parent / mark.name).rename(mark)

    with pytest.raises(NotShared, match=f"^{tmp_path} is another directory for the executor on "):
        require_shared(session(elsewhere), [str(tmp_path)])
    assert list(tmp_path.iterdir()) == []


def test_executors_of_a_local_master_are_not_asked(tmp_path: Path) -> None:
    require_shared(session(lambda task: pytest.fail("it was asked"), "local[*]"), [str(tmp_path / "table")])
    assert not (tmp_path / "table").exists()


def test_a_path_that_nobody_can_open_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_file_system(spark: Any, path: str) -> tuple[Any, Any]:
        raise PySparkRuntimeError(f"java.lang.ClassNotFoundException: Class of {path} not found")

    monkeypatch.setattr(sharing, "file_system", no_file_system)
    with pytest.raises(NotShared, match=r"^s3a://bucket/x cannot be opened: java\.lang\.ClassNotFoundException: Class"):
        require_shared(session(lambda task: []), ["s3a://bucket/x"])
