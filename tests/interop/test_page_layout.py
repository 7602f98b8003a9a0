"""The layout of the page in every state, view, width and colour scheme.

The states come from boards that are filled by hand (page_states.py), so one browser checks hundreds of combinations in
seconds. `python -m tests.interop.page_pictures DIR` takes the pictures of the same combinations.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Page
from tests.interop.page_states import STATES, Served, serve_states
from tests.interop.page_views import SCHEMES, SIZES, VIEWS, close_view, open_state, show_view
from tests.unit.web.test_trace import LINES

AUDIT: Final = (Path(__file__).parent / "page_audit.js").read_text("utf-8")


# `.ci/run` takes the state in which most is drawn.
PLAYED = [pytest.param(state, marks=pytest.mark.quick if state == "killed" else ()) for state in (*STATES, "trace")]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve_states([json.dumps(line) for line in LINES]) as served:
        yield served


@pytest.mark.parametrize("state", PLAYED)
def test_nothing_overflows_overlaps_or_is_cut_off(page: Page, served: Served, state: str) -> None:
    open_state(page, served.urls[state])
    found: dict[str, list[str]] = {}
    for size in SIZES:
        page.set_viewport_size(size)
        for view in VIEWS:
            # Messages and the glossary are the same in every state.
            if (view in ("message", "glossary") and state != "stalled") or not show_view(page, view):
                continue
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme)
                if problems := page.evaluate(AUDIT):
                    found[f"{size['width']} px, {scheme}, {view}"] = problems
            close_view(page)
    assert not found, json.dumps(found, indent=1, ensure_ascii=False)


@pytest.mark.quick
def test_the_audit_finds_each_kind_of_fault(page: Page, served: Served) -> None:
    open_state(page, served.urls["healthy"])
    faults = {
        "leaves the screen": "#count { position: relative; left: 2000px; }",
        "is too narrow": "#tab-groups { width: 20px; overflow: hidden; flex: none; }",
        "is too low": ".panel-head h2 { height: 3px; overflow: hidden; }",
        '" overlap': ".head .insync { margin-left: -60px; }",
        "overlap in": ".node { margin-right: -40px; }",
        "shows 0 px": "#rows { flex: none; height: 0; }",
        "px wide": "body { width: 3000px; }",
    }
    assert page.evaluate(AUDIT) == []
    for words, rule in faults.items():
        page.evaluate(
            "(rule) => { const s = new CSSStyleSheet(); s.replaceSync(rule); document.adoptedStyleSheets = [s]; }", rule
        )
        problems = page.evaluate(AUDIT)
        assert any(words in problem for problem in problems), (words, problems)
    page.evaluate("document.adoptedStyleSheets = []")
