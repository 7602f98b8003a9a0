"""Commands that are printed for copying work as printed, with or without an activated environment."""

import os
import sys
from pathlib import Path

import pytest

from tidelog.cli.program import program


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in an environment that is not activated."""
    path = tmp_path / "my env" / "bin" / "tidelog"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(path), "demo"])
    monkeypatch.setenv("PATH", os.defpath)
    return path


def test_without_the_path_the_program_is_named_by_its_path(installed: Path) -> None:
    assert program() == f"'{installed}'"


def test_on_the_path_the_program_is_named_tidelog(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(installed.parent))
    assert program() == "tidelog"


def test_another_program_on_the_path_is_not_the_one_that_runs(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other" / "tidelog"
    other.parent.mkdir()
    other.write_bytes(installed.read_bytes())
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    assert program() == f"'{installed}'"


def test_a_module_is_named_with_its_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/tidelog/__main__.py"])
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    assert program() == "/usr/bin/python3 -m tidelog"
