"""The guide tells the truth: what its pages say is done, as written, and what they show is what is printed."""

from pathlib import Path

import pytest
from tests.guide.pages import GUIDE, README, Command, File, matches, steps
from tests.guide.reader import reader, why_not

WITH_SPARK = {"spark.md"}
PAGES = [page for page in (README, *sorted(GUIDE.glob("*.md"))) if page.name not in WITH_SPARK and any(steps(page))]


def follow(page: Path, folder: Path) -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with reader(folder) as shell:
        for step in steps(page):
            if isinstance(step, File):
                (folder / step.name).parent.mkdir(parents=True, exist_ok=True)
                (folder / step.name).write_text(step.text)
                continue
            status, printed = shell.run(step.text)
            where = f"{page.name}:{step.line}: $ {step.text}"
            assert (status != 0) == step.fails, f"{where}\nended with status {status}:\n{printed}"
            assert not step.shown or matches(step.shown, printed), f"{where}\nprinted:\n{printed}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    follow(page, tmp_path)


@pytest.mark.interop
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", sorted(WITH_SPARK))
def test_a_page_on_spark_does_what_it_says(page: str, tmp_path: Path) -> None:
    follow(GUIDE / page, tmp_path)


def test_pages_are_taken_apart(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        'Write\n\n```toml title="a/b.toml"\nx = 1\n```\n\n```console\n$ one \\\n    --two\nshown\n\n$ three\n```\n'
        "<!-- not run: no such host -->\n```console\n$ four\n```\n\n```console\n$ five\ntidelog: no\n```\n"
    )
    assert list(steps(page)) == [
        File("a/b.toml", "x = 1\n"),
        Command(8, "one \\\n    --two", "shown"),
        Command(12, "three", ""),
        Command(20, "five", "tidelog: no"),
    ]
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
def test_what_is_shown_is_compared(shown: str, printed: str, same: bool) -> None:
    assert matches(shown, printed) is same
