"""The guide as a site: no page is left out, no link leads nowhere."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_link_leads_somewhere(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "site" / "guide" / "first-ten-minutes.html").exists()


def test_every_decision_is_listed() -> None:
    decisions = ROOT / "docs" / "decisions"
    listed = (decisions / "index.md").read_text()
    assert [each.name for each in sorted(decisions.glob("0*.md")) if f"]({each.name})" not in listed] == []


def test_every_subsystem_is_drawn() -> None:
    pages = sorted((ROOT / "docs" / "internals").glob("*.md"))
    assert [page.name for page in pages if "─►" not in page.read_text()] == ["behaviours.md"]
