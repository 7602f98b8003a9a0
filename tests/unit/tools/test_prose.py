"""tools/prose.py finds the words and sentences that it promises to find, and no code."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    sys.path.insert(0, str(TOOLS))
    try:
        spec = importlib.util.spec_from_file_location("prose", TOOLS / "prose.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(TOOLS))
    return module


def found(prose: ModuleType, path: Path) -> list[tuple[str, int, str]]:
    return [
        (hit.kind, hit.line, hit.pattern)
        for passage in prose.passages(path)
        for hit in prose.judged(passage, path.name)
    ]


def test_markdown_is_judged_without_its_code(prose: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# What is checked\n\nThe broker tells `who leads` to nobody.\n\n```console\n$ who\n```\n\n"
        "| a | somebody |\n|---|---|\n| [who](https://example.org/tell) | "
        + "b" * 201
        + " |\n\n"
        + "word " * 31
        + ".\n"
    )
    assert found(prose, page) == [
        ("docs", 3, "tell/told"),
        ("docs", 3, "nobody/somebody"),
        ("docs", 9, "nobody/somebody"),
        ("docs", 11, "who/whom"),
        ("docs", 11, "wide"),
        ("docs", 13, "long"),
    ]


def test_a_sentence_over_two_lines_is_one(prose: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("word " * 20 + "\n" + "word " * 11 + ". Next one is short.\n")
    assert found(prose, page) == [("docs", 1, "long")]


def test_python_is_judged_by_kind(prose: ModuleType, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""Stands at the top."""\n'
        "import typer\n\napp = typer.Typer()\n\n\n"
        "@app.command()\n"
        "def show() -> None:\n"
        '    """Shows what is there."""\n'
        "    # nobody reads\n"
        "    # this anew\n"
        '    raise ValueError(f"node {1} says that it leads")\n\n\n'
        "def test_who_leads() -> None:\n"
        '    key = "who.tells"\n'
    )
    assert sorted(found(prose, module), key=lambda hit: hit[1]) == [
        ("comments", 1, "stand"),
        ("messages", 9, "what is …"),
        ("comments", 10, "nobody/somebody"),
        ("comments", 10, "anew"),
        ("messages", 12, "say/said"),
        ("names", 15, "who/whom"),
    ]


def test_a_folder_is_worse_by_count_and_by_rate(
    prose: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = tmp_path / "limits.json"
    limits.write_text('{"docs": {"docs": [1000, 2, 1, 0]}}')
    monkeypatch.setattr(prose, "LIMITS", limits)

    def problems(words: int, hits: int, long: int = 0, wide: int = 0) -> list[str]:
        return list(prose.worse({("docs", "docs"): prose.Figures(words, hits, long, wide)}))

    assert problems(1000, 2, 1) == []
    assert problems(400, 2, 1) == [], "half the words and no more hits"
    assert problems(2000, 4) == [], "twice the words, the same rate"
    assert problems(1000, 3)[0].startswith("docs: docs: hits 3, the limit is 2")
    assert problems(1000, 2, 2)[0].startswith("docs: docs: long 2, the limit is 1")
    assert problems(1000, 0, 0, 1)[0].startswith("docs: docs: wide 1, the limit is 0")


def test_write_lowers_limits_and_raises_none(
    prose: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = tmp_path / "limits.json"
    limits.write_text('{"docs": {"docs": [1000, 2, 1, 0]}}')
    monkeypatch.setattr(prose, "LIMITS", limits)
    prose.write({("docs", "docs"): prose.Figures(1000, 5, 1, 0)}, raising=False)
    assert "[1000, 2, 1, 0]" in limits.read_text()
    prose.write({("docs", "docs"): prose.Figures(1000, 1, 1, 0)}, raising=False)
    assert "[1000, 1, 1, 0]" in limits.read_text()
    prose.write({("docs", "docs"): prose.Figures(1000, 5, 1, 0)}, raising=True)
    assert "[1000, 5, 1, 0]" in limits.read_text()
