"""What `pip install` brings: the page, and the stories, files of `tests/scenarios` that the package only links to."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(300)
def test_a_wheel_has_the_stories_and_can_tell_them(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
    built = subprocess.run([*pip, "--wheel-dir", str(tmp_path), str(ROOT)], check=False, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    files = sorted((tmp_path / "installed" / "tidelog" / "sim" / "scenario" / "stories").glob("*/*"))
    told = {f"{path.parent.name}/{path.name}": path.read_text() for path in files}
    assert told == {
        f"{path.parent.name}/{path.name}": path.read_text() for path in (ROOT / "tests" / "scenarios").glob("*/*.txt")
    }

    page = {path.name for path in (tmp_path / "installed" / "tidelog" / "web" / "static").iterdir()}
    assert page == {path.name for path in (ROOT / "src" / "tidelog" / "web" / "static").iterdir()}

    command = [sys.executable, "-m", "tidelog", "scenario", "run", "kip_101"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    shown = subprocess.run(command, env=environment, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert "step 6 of 6" in shown.stdout
