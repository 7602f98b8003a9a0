"""The Python of Spark's workers, compared with this program's."""

import logging
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tidelog.spark import interpreter
from tidelog.spark.interpreter import Python, difference

MINE = Python(executable="/env/bin/python", prefix="/env", version="3.11.7")


def other(version: str = "3.11.2", lacks: tuple[str, ...] = ()) -> Python:
    return Python(executable="/usr/bin/python3", prefix="/usr", version=version, lacks=lacks)


def test_another_python_fits_if_it_has_the_version_and_the_packages() -> None:
    assert difference(other(), MINE) is None


def test_the_same_environment_fits() -> None:
    assert difference(MINE, MINE) is None


def test_another_minor_version_is_reported_with_both() -> None:
    line = difference(other("3.13.1"), MINE)
    assert line is not None
    assert "Python 3.13.1 (/usr/bin/python3)" in line
    assert "this program runs Python 3.11.7 (/env/bin/python)" in line
    assert "PYSPARK_PYTHON" in line


def test_missing_packages_are_named() -> None:
    line = difference(other(lacks=("pyarrow", "tidelog")), MINE)
    assert line is not None and "it lacks pyarrow and tidelog" in line and "\n" not in line


def test_a_python_without_packages_is_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    venv.create(tmp_path, with_pip=False)
    with caplog.at_level(logging.INFO, logger="tidelog.spark"):
        interpreter.report(str(tmp_path / "bin" / "python"), needs=("json", "pyarrow"))
        [line] = caplog.messages
        assert str(tmp_path) in line and "it lacks pyarrow." in line
        interpreter.report(str(tmp_path / "bin" / "python"), needs=("json",))
        interpreter.report(sys.executable, needs=("nothing",))
        assert caplog.messages == [line]


def test_a_python_that_does_not_start_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    interpreter.report(str(tmp_path / "python"), needs=("json",))
    [line] = caplog.messages
    assert f"{str(tmp_path / 'python')!r}, which does not start" in line


@pytest.mark.parametrize("chosen", [None, "python3"])
def test_own_python_stays_unless_the_user_has_chosen_another(
    chosen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Context:
        pythonExec = "python3"  # noqa: N815 - Spark's name

    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if chosen is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", chosen)
    context = Context()
    with interpreter.own_python(context):  # type: ignore[arg-type]
        assert context.pythonExec == sys.executable
    assert context.pythonExec == (chosen or sys.executable)


def test_the_probe_runs_by_itself() -> None:
    """A Spark Connect server that lacks this package unpickles and runs it."""
    from pyspark import cloudpickle

    pickled = cloudpickle.dumps(interpreter._probe_source(("json", "no_such_package")))  # type: ignore[no-untyped-call]
    program = (
        "import pickle, sys\n"
        "source = pickle.loads(sys.stdin.buffer.read())\n"
        "[name] = source.schema(None).names\n"
        "assert not any(each.startswith('tidelog') for each in sys.modules)\n"
        "print(bytes.fromhex(name).decode())"
    )
    done = subprocess.run([sys.executable, "-c", program], input=pickled, check=True, capture_output=True)
    found = interpreter._parsed(done.stdout.decode(), ("json", "no_such_package"))
    assert (found.prefix, found.lacks) == (sys.prefix, ("no_such_package",))
