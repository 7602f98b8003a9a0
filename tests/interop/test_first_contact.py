"""Pages for new users, followed in a clean checkout; the CI jobs of the example, run in an empty environment."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.guide.pages import GUIDE, README, Command, steps
from tests.interop.checkouts import ROOT, follow_in_a_checkout, make_checkout, run
from tests.interop.registries import RegistryUnreachable, skip_unreachable

EXAMPLE = ROOT / "examples" / "testing-your-app"
RELEASING = ROOT / "docs" / "releasing.md"
FAILING_TEST = "def test_fails(tidelog_shared_cluster):\n    assert False\n"
NODES = {"node-1", "node-2", "node-3"}
pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("page", [README, GUIDE / "installation.md", RELEASING], ids=lambda page: page.name)
def test_a_page_is_followed_in_a_clean_checkout(page: Path, tmp_path: Path) -> None:
    try:
        follow_in_a_checkout(page, make_checkout(tmp_path))
    except RegistryUnreachable as error:
        skip_unreachable(error)


def test_the_readme_of_the_example_is_followed_in_a_clean_checkout(tmp_path: Path) -> None:
    commands = [step.text for step in steps(EXAMPLE / "README.md", with_index=True) if isinstance(step, Command)]
    try:
        # One shell for all of them: the first one changes its directory.
        status, printed = run("\n".join(commands), make_checkout(tmp_path))
    except RegistryUnreachable as error:
        skip_unreachable(error)
    assert status == 0 and "3 passed" in printed, printed


def github() -> tuple[list[str], dict[str, str], Path]:
    """The commands of the job, its variables, and the directory that it keeps."""
    job: dict[str, Any] = yaml.safe_load((EXAMPLE / "ci" / "github-actions.yml").read_text())["jobs"]["tests"]
    (upload,) = (step for step in job["steps"] if "upload-artifact" in step.get("uses", ""))
    assert upload["if"] == "failure()"
    return [step["run"] for step in job["steps"] if "run" in step], job["env"], Path(upload["with"]["path"])


def gitlab() -> tuple[list[str], dict[str, str], Path]:
    job: dict[str, Any] = yaml.safe_load((EXAMPLE / "ci" / "gitlab-ci.yml").read_text())["tests"]
    assert job["artifacts"]["when"] == "on_failure"
    (kept,) = job["artifacts"]["paths"]
    return job["script"], job["variables"], Path(kept)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    checkout = make_checkout(tmp_path_factory.mktemp("wheel"))
    try:
        status, printed = run("make wheel", checkout)
    except RegistryUnreachable as error:
        skip_unreachable(error)
    assert status == 0, printed
    (found,) = (checkout / "dist").glob("*.whl")
    return found


@pytest.mark.parametrize("snippet", [pytest.param(github, marks=pytest.mark.quick), gitlab])
def test_a_ci_job_runs_the_tests_and_keeps_clusters_of_failed_ones(snippet: Any, wheel: Path, tmp_path: Path) -> None:
    commands, environment, kept = snippet()
    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    (project / "wheels").mkdir()
    shutil.copy(wheel, project / "wheels")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    programs = tmp_path / "venv" / "bin"
    printed = ""
    for command in commands:
        try:
            status, printed = run(command, project, programs, **environment)
        except RegistryUnreachable as error:
            skip_unreachable(error)
        assert status == 0, f"$ {command}\n{printed}"
    assert "3 passed" in printed
    assert list((project / kept).iterdir()) == []

    (project / "test_fails.py").write_text(FAILING_TEST)
    status, printed = run(f"{commands[-1]} test_fails.py", project, programs, **environment)
    assert status == 1 and "1 failed" in printed, printed
    (cluster,) = (project / kept).iterdir()
    assert {log.parent.name for log in cluster.glob("*/console.log")} == NODES
