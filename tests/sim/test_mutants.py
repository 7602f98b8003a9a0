"""The old bugs in tests/mutants can be brought back: each patch says what it is and fits the source as it is now."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PATCHES = sorted((ROOT / "tests" / "mutants").glob("*.patch"))


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_a_mutant_applies(patch: Path) -> None:
    head = patch.read_text().split("\n\n", 1)[0]
    assert [line.split(": ", 1)[0] for line in head.splitlines()] == ["bug", "change", "expects"]
    checked = subprocess.run(
        ["git", "apply", "--check", str(patch)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
