"""What `python -m build` makes, where nothing else is installed: `pip install tidelog` alone gives a real cluster."""

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.cluster.ports import consecutive_ports
from tests.guide.pages import GUIDE, Command, steps
from tests.guide.reader import reader
from tests.guide.test_guide import check
from tests.interop.registries import NO_ANSWER, RegistryUnreachable, ensure_debian, skip_unreachable

ROOT = Path(__file__).parents[2]
SECONDS = 240
# What only `tidelog[spark]` and `tidelog[test]` bring.
EXTRAS = ("numba", "numpy", "pyarrow", "pyspark", "confluent_kafka", "pytest")
pytestmark = pytest.mark.timeout(3 * SECONDS)


def run(*command: str | Path, status: int = 0, **environment: str) -> str:
    """Without what makes this checkout importable."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(word) for word in command],
        env=clean | environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == status, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def pip(python: Path, *arguments: str | Path) -> None:
    try:
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments)
    except AssertionError as error:
        if NO_ANSWER.search(str(error)):
            raise RegistryUnreachable("the package index does not answer") from error
        raise


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """By way of an sdist, as a release is made."""
    directory = tmp_path_factory.mktemp("build")
    run(sys.executable, "-m", "venv", directory / "venv")
    python = directory / "venv" / "bin" / "python"
    try:
        pip(python, "build", "hatchling")
    except RegistryUnreachable as error:
        skip_unreachable(error)
    run(python, "-m", "build", "--no-isolation", "--outdir", directory / "dist", ROOT)
    (found,) = (directory / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of programs of a fresh environment."""
    directory = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", directory)
    try:
        pip(directory / "bin" / "python", wheel)
    except RegistryUnreachable as error:
        skip_unreachable(error)
    yield directory / "bin"


@pytest.mark.quick
def test_a_wheel_has_all_its_files(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    source = ROOT / "src"
    wanted = {
        str(path.relative_to(source)) for path in (source / "tidelog").rglob("*") if path.suffix in (".py", ".typed")
    }
    wanted |= {
        str(path.relative_to(source)) for path in (source / "tidelog" / "web" / "static").rglob("*") if path.is_file()
    }
    assert wanted - packed == set()
    assert any(name.startswith("tidelog/sim/scenario/stories/") for name in packed)


@pytest.mark.quick
def test_an_install_without_extras_runs_a_cluster(installed: Path, tmp_path: Path) -> None:
    python, tidelog = installed / "python", installed / "tidelog"
    found = run(python, "-c", f"import importlib.util as u; print([n for n in {EXTRAS} if u.find_spec(n)])")
    assert found == "[]\n"
    assert run(tidelog, "--version") == run(python, "-m", "tidelog", "--version")
    data, port = tmp_path / "data", consecutive_ports(3)
    ready = run(tidelog, "up", "--detach", "--data", data, "--port", str(port), "--ui-port", "0")
    try:
        bootstrap = f"127.0.0.1:{port}"
        run(tidelog, "topics", "create", "orders", "--replication-factor", "3", TIDELOG_BOOTSTRAP=bootstrap)
        (topic,) = json.loads(run(tidelog, "topics", "describe", "orders", "--json", TIDELOG_BOOTSTRAP=bootstrap))
        assert sorted(topic["partitions"][0]["isr"]) == [1, 2, 3]
        url = dict(part.split("=", 1) for part in ready.split()[1:])["metrics"]
        with urlopen(url, timeout=SECONDS) as answer:
            assert b"tidelog_build_info" in answer.read()
    finally:
        run(tidelog, "down", "--data", data)


def test_the_first_ten_minutes_without_an_active_environment(installed: Path, tmp_path: Path) -> None:
    """The rule of the installation page: write the path of each command."""
    page = GUIDE / "first-ten-minutes.md"
    with reader(tmp_path, installed.parent, active=False) as shell:
        for step in steps(page):
            assert isinstance(step, Command)
            command = re.sub(r"(^|\| )tidelog ", r"\1.venv/bin/tidelog ", step.text, flags=re.MULTILINE)
            check(page, step, *shell.run(command))


@pytest.mark.parametrize(("command", "extra"), [("verify", "test"), ("campaign", "spark")])
def test_what_needs_an_extra_says_which(installed: Path, command: str, extra: str) -> None:
    ended = subprocess.run([installed / "tidelog", command], capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and f"tidelog[{extra}]" in ended.stderr and ended.stderr.count("\n") == 1


def test_systemd_takes_the_unit(installed: Path, tmp_path: Path) -> None:
    try:
        analyze = ensure_debian("systemd-analyze", "systemd")
    except RegistryUnreachable as error:
        skip_unreachable(error)
    unit = tmp_path / "tidelog.service"
    text = (ROOT / "packaging" / "tidelog.service").read_text()
    unit.write_text(
        text.replace("/opt/tidelog/bin/tidelog", str(installed / "tidelog")).replace("=tidelog\n", "=root\n")
    )
    done = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, timeout=SECONDS, check=False)
    complaints = [line for line in done.stderr.splitlines() if "tidelog.service" in line]
    assert (done.returncode, complaints) == (0, []), done.stderr
