"""Which Java will do for Spark, what is said where none does, and when `make setup` installs one."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tools.java import see_to_java

from tidelog.jobs.java import PACKAGE, major_version, why_no_java

MISSING = "Spark needs Java 17 or newer, there is none: apt-get install -y openjdk-17-jre-headless"


def java_that_says(folder: Path, text: str) -> dict[str, str]:
    """An environment whose only program is a Java of that version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    program.chmod(0o755)
    return {"PATH": str(program.parent)}


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ('openjdk version "17.0.12" 2024-07-16', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("no such thing", None),
    ],
)
def test_versions_as_java_tells_them(told: str, version: int | None) -> None:
    assert major_version(told) == version


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ('openjdk version "17.0.12"', None),
        ('openjdk version "21"', None),
        ('openjdk version "11.0.2"', "is Java 11: "),
        ("what?", "has no readable version: "),
    ],
)
def test_only_17_and_newer_will_do(tmp_path: Path, told: str, words: str | None) -> None:
    found = why_no_java(java_that_says(tmp_path, told))
    assert (found is None) == (words is None)
    if words is not None:
        assert found is not None
        assert words in found
        assert "\n" not in found


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    path = java_that_says(tmp_path / "path", 'openjdk version "17.0.12"')
    java_that_says(tmp_path / "home", 'openjdk version "11.0.2"')
    assert "is Java 11" in (why_no_java(path | {"JAVA_HOME": str(tmp_path / "home")}) or "")
    assert f"JAVA_HOME={tmp_path}/none has none" in (why_no_java(path | {"JAVA_HOME": f"{tmp_path}/none"}) or "")
    assert "there is none" in (why_no_java({"PATH": str(tmp_path)}) or "")


class Ran:
    """Commands that were run, and how the last of them ended."""

    def __init__(self, status: int = 0) -> None:
        self.commands: list[list[str]] = []
        self._status = status

    def __call__(self, command: Sequence[str]) -> int:
        self.commands.append(list(command))
        return self._status


def test_nothing_is_done_where_there_is_a_java() -> None:
    ran = Ran()
    assert see_to_java(ran, missing=None, may_install=True) is None
    assert ran.commands == []


def test_it_is_installed_where_that_may_be_done() -> None:
    ran = Ran()
    assert see_to_java(ran, missing=MISSING, may_install=True) is None
    assert [command[1] for command in ran.commands] == ["update", "install"]
    assert ran.commands[-1][-1] == PACKAGE


def test_else_the_line_to_run_is_said_and_what_is_left_out() -> None:
    ran = Ran()
    said = see_to_java(ran, missing=MISSING, may_install=False)
    assert ran.commands == []
    assert said is not None
    assert said.startswith(MISSING)
    assert "tests/spark" in said


def test_an_installation_that_fails_is_said_and_is_not_the_end() -> None:
    ran = Ran(100)
    said = see_to_java(ran, missing=MISSING, may_install=True)
    assert len(ran.commands) == 1
    assert said is not None
    assert said.startswith("apt-get update -q ended with 100. Spark needs Java 17")
