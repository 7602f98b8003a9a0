"""Tables, links, CI jobs and the picture of the first pages are checked against their sources."""

import re
import struct
from pathlib import Path

import pytest
from benchmarks.first_screen_table import RESULTS, Results, render, replace_table
from tests.guide.pages import GUIDE, README, File, steps

from tidelog.cli.app import app

ROOT = README.parent
PAGES = [README, ROOT / "examples" / "README.md", *sorted((ROOT / "examples").glob("*/README.md"))]
PICTURE = ROOT / "docs" / "images" / "leader-killed.png"
MOST_BYTES = 1_000_000
FEWEST_FRAMES = 20
# Left out of the README's table, for they are steps of others.
DETAILS = {"random-uuid"}


def test_the_measured_table_shows_the_measured_values() -> None:
    text = README.read_text()
    assert replace_table(text, render(Results.from_json(RESULTS.read_text()))) == text


def test_a_table_without_markers_is_not_replaced() -> None:
    with pytest.raises(ValueError, match="markers"):
        replace_table("# Tidelog\n", "| a |\n")


def test_every_published_figure_has_a_source() -> None:
    text = README.read_text()
    sources = dict(re.findall(r"^\[([\w-]+)\]: (https://\S+)$", text, re.MULTILINE))
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if ", published |" in line]
    cells = [cell for row in rows for cell in row[1:]]
    assert len(rows) == 2 and len(cells) == 8
    for cell in cells:
        figures, linked = re.findall(r"\d[\d.]*", cell), re.findall(r"\[[^]]*\]\[([\w-]+)\]", cell)
        assert (not figures and cell == "-") or (linked and set(linked) <= set(sources)), cell


def test_every_command_is_in_the_table_and_exists() -> None:
    table = README.read_text().partition("## Commands")[2].partition("\n## ")[0]
    first_cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    named = {
        words.removeprefix("tidelog ").split()[0] for cell in first_cells for words in re.findall("`([^`]+)`", cell)
    }
    commands = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    groups = {group.name for group in app.registered_groups}
    assert named == {str(name).replace("_", "-") for name in commands | groups} - DETAILS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize(
    ("name", "shown_as"), [("github-actions.yml", ".github/workflows/tests.yml"), ("gitlab-ci.yml", ".gitlab-ci.yml")]
)
def test_the_guide_shows_the_ci_jobs_of_the_example(name: str, shown_as: str) -> None:
    job = (ROOT / "examples" / "testing-your-app" / "ci" / name).read_text()
    assert File(shown_as, job) in list(steps(GUIDE / "testing.md"))


def test_the_picture_moves_and_is_small() -> None:
    content = PICTURE.read_bytes()
    assert len(content) < MOST_BYTES
    place = content.index(b"acTL")
    (frames,) = struct.unpack_from(">I", content, place + 4)
    assert frames >= FEWEST_FRAMES
