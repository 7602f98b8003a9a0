"""Commands of the README and the guide run as written, and print the text that the pages show."""

import sys
from pathlib import Path

import pytest
from tests.guide.pages import GUIDE, README, Command, File, matches, steps
from tests.guide.reader import reader, why_not

WITH_SPARK = {"spark.md"}
PAGES = [page for page in (README, *sorted(GUIDE.glob("*.md"))) if page.name not in WITH_SPARK and any(steps(page))]


OURS = Path(sys.executable).parents[1]


def follow(page: Path, folder: Path, environment: Path = OURS, *, active: bool = True) -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with reader(folder, environment, active=active) as shell:
        for step in steps(page):
            if isinstance(step, File):
                write(step, folder)
            else:
                check(page, step, *shell.run(step.text))


def write(file: File, folder: Path) -> None:
    (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
    (folder / file.name).write_text(file.text)


def check(page: Path, command: Command, status: int, printed: str) -> None:
    where = f"{page.name}:{command.line}: $ {command.text}"
    assert (status != 0) == command.fails, f"{where}\nended with status {status}:\n{printed}"
    assert not command.shown or matches(command.shown, printed), f"{where}\nprinted:\n{printed}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_work_as_shown(page: Path, tmp_path: Path) -> None:
    # The guide is written for an active environment, the README for none.
    follow(page, tmp_path, active=page != README)


@pytest.mark.interop
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", sorted(WITH_SPARK))
def test_the_commands_of_a_page_on_spark_work_as_shown(page: str, tmp_path: Path) -> None:
    follow(GUIDE / page, tmp_path)


def test_pages_are_taken_apart(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        'Write\n\n```toml title="a/b.toml"\nx = 1\n```\n\n```console\n$ one \\\n    --two\nshown\n\n$ three\n```\n'
        "<!-- not run: no such host -->\n```console\n$ four\n```\n\n```console\n$ five\ntidelog: no\n```\n"
        "<!-- not run: needs a package index -->\n```console\n$ six\n```\n"
    )
    assert list(steps(page)) == [
        File("a/b.toml", "x = 1\n"),
        Command(8, "one \\\n    --two", "shown"),
        Command(12, "three", ""),
        Command(20, "five", "tidelog: no"),
    ]
    assert list(steps(page, with_index=True))[-1] == Command(25, "six", "", needs_index=True)
    assert [step.fails for step in steps(page) if isinstance(step, Command)] == [False, False, True]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a  b", "a\tb  \n\n", True),
        ("a … c", "a b\nb c", True),
        ("a … c", "a b", False),
        ("a", "a\nb", False),
        ("a\n…", "a\nb\nc", True),
        ("1.2", "1x2", False),
    ],
)
def test_output_is_compared_up_to_spaces_and_ellipses(shown: str, printed: str, same: bool) -> None:
    assert matches(shown, printed) is same
