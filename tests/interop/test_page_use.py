"""How the page is used: by keyboard, on a phone, without the token, and with its glossary. No cluster runs."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, ViewportSize, expect
from tests.interop.page_states import Served, serve_states
from tests.interop.page_views import open_state

PHONE = ViewportSize(width=390, height=844)
FOCUSED = "document.activeElement.closest('dialog')?.id ?? document.activeElement.localName"
BOXES = """() => [...document.querySelectorAll("header, .node, .panel, .tabs, .cell, #entries li")]
  .filter((each) => each.checkVisibility()).map((each) => each.getBoundingClientRect())
  .map(({ x, y, width, height }) => [x, y, width, height].map(Math.round))"""
# The character before each line break of a name.
BREAKS = """(name) => {
  const range = document.createRange();
  const breaks = [];
  let before = null;
  const walker = document.createTreeWalker(name, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    for (let at = 0; at < node.length; at += 1) {
      range.setStart(node, at);
      range.setEnd(node, at + 1);
      const { top } = range.getBoundingClientRect();
      if (before && Math.abs(top - before.top) > 3) breaks.push(before.letter);
      before = { top, letter: node.data[at] };
    }
  }
  return breaks;
}"""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve_states([], ["healthy", "stalled", "killed", "thousand"]) as served:
        yield served


def counted(page: Page, where: str) -> tuple[int, int]:
    """The number of rows that a list claims to show, and the number of all."""
    words = page.locator(where).inner_text().replace("\u202f", "")
    numbers = [int(number) for number in re.findall(r"\d+", words)]
    assert re.fullmatch(r"\d+|showing \d+ of \d+", words), words
    return numbers[0], numbers[-1]


@pytest.mark.quick
def test_terms_open_the_glossary_and_the_focus_returns(page: Page, served: Served) -> None:
    open_state(page, served.urls["stalled"])
    glossary = page.locator("#glossary")
    term = page.locator("#legend .term", has_text="LSO")
    term.focus()
    page.keyboard.press("Enter")
    expect(glossary).to_be_visible()
    expect(page.locator("#term-lso")).to_be_focused()
    expect(page.locator("#term-lso")).to_be_in_viewport()
    for _ in range(6):
        page.keyboard.press("Tab")
        assert page.evaluate(FOCUSED) in ("glossary", "body")
    page.keyboard.press("Escape")
    expect(glossary).to_be_hidden()
    expect(term).to_be_focused()

    page.keyboard.press("?")
    expect(glossary).to_be_visible()
    for words in (
        "HW",
        "LEO",
        "ISR",
        "ELR",
        "LSO",
        "Fenced",
        "Epoch",
        "Metadata quorum",
        "min ISR",
        "Under-replicated",
    ):
        expect(glossary.locator("dt", has_text=words).first).to_be_attached()
    page.get_by_role("button", name="Close the glossary").click()
    expect(term).to_be_focused()

    # The terms of a detail and of an explanation, too; each has an entry.
    page.locator(".cell").first.click()
    page.locator("#entries summary").first.click()
    expect(page.locator("#entries .term").first).to_be_visible()
    page.locator("#detail .term", has_text="min ISR").click()
    expect(page.locator("#term-min-isr")).to_be_focused()
    page.keyboard.press("Escape")
    used = page.locator(".term").evaluate_all("(terms) => [...new Set(terms.map((each) => each.dataset.term))]")
    known = page.locator(".terms > div").evaluate_all(
        "(entries) => entries.map((each) => each.id.replace('term-', ''))"
    )
    assert {"hw", "leo", "isr", "elr", "lso", "fenced", "epoch", "quorum"} <= set(used) <= set(known)


def test_without_the_token_buttons_are_drawn_disabled_and_explain_why(page: Page, served: Served) -> None:
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    open_state(page, served.urls["healthy"].partition("#")[0])
    tip = page.locator("#no-token")
    expect(page.locator("#read-only")).to_be_visible()
    buttons = page.locator(".node .buttons button:visible, .heal, #open-trace")
    assert buttons.count() == 3 * 4 + 2
    for button in buttons.all():
        expect(button).to_have_attribute("aria-disabled", "true")
        expect(button).to_have_attribute("aria-describedby", "no-token")
        assert button.evaluate("(button) => getComputedStyle(button).opacity") < "0.7"
    kill = page.get_by_role("button", name="kill node 2")
    kill.focus()
    expect(tip).to_be_visible()
    expect(tip).to_contain_text("tidelog status")
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.locator("h1").hover()
    page.get_by_role("button", name="pause node 1").hover()
    expect(tip).to_be_visible()
    kill.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#outcome")).to_contain_text("read-only")
    page.locator("#trace-file").focus()
    expect(tip).to_be_visible()
    assert sent == []

    # The token in the address makes the buttons work, without another visit.
    page.evaluate("(token) => { location.hash = token; }", served.urls["healthy"].partition("#")[2])
    expect(page.locator("#read-only")).to_be_hidden()
    expect(kill).not_to_have_attribute("aria-disabled", "true")
    kill.click()
    expect(page.locator("#outcome")).to_contain_text("Node 2 was killed")


def test_messages_move_nothing(page: Page, served: Served) -> None:
    open_state(page, served.urls["healthy"])
    expect(page.locator("#entries li")).to_have_count(1)
    before = page.evaluate(BOXES)
    page.get_by_role("button", name="kill node 2").click()
    expect(page.locator("#outcome .rule").first).to_be_visible()
    assert page.evaluate(BOXES) == before
    # Its terms open the glossary, and the message stays.
    page.locator("#outcome .term").first.click()
    page.keyboard.press("Escape")
    expect(page.locator("#outcome")).to_be_visible()
    page.get_by_role("button", name="Close this message").click()
    expect(page.locator("#outcome")).to_be_hidden()
    assert page.evaluate(BOXES) == before


@pytest.mark.parametrize("state", ["healthy", "killed", "thousand"])
def test_counts_agree_with_their_lists(page: Page, served: Served, state: str) -> None:
    open_state(page, served.urls[state])
    partitions = page.locator("#figures dd").first
    expect(partitions).not_to_have_text("")
    for shown in (False, True):
        listed, total = counted(page, "#count")
        page.locator("#rows").focus()
        page.keyboard.press("End")
        last = page.locator(".cell.selected")
        assert int(last.get_attribute("aria-posinset") or 0) == listed
        assert int(partitions.inner_text().replace("\u202f", "")) == total
        page.keyboard.press("Escape")
        for view, rows in (
            ("timeline", "#entries li"),
            ("groups", "#group-list details"),
            ("topics", "#topic-list details"),
        ):
            page.locator(f"#tab-{view}").click()
            expect(page.locator(f"#{view}")).to_be_visible()
            assert counted(page, f"#{view}-count")[0] == page.locator(rows).count(), view
        internal = page.locator("#topic-list", has_text="__consumer_offsets")
        expect(internal).to_have_count(1 if shown else 0)
        assert (listed == total) is shown
        if not shown:
            page.locator("#fold-topics").click()
            expect(page.locator("#fold-partitions")).to_have_attribute("aria-expanded", "true")
            # The choice is kept for the next visit.
            page.reload()
            expect(page.locator(".node").first).to_be_visible()
            expect(page.locator("#count")).not_to_contain_text("showing")


def test_internal_topics_are_one_line_of_the_timeline(page: Page, served: Served) -> None:
    open_state(page, served.urls["killed"])
    expect(page.locator("#entries li")).to_have_count(4)
    expect(page.locator("#fold-timeline")).to_contain_text("Show 2 events of internal topics")
    page.keyboard.press("i")
    expect(page.locator("#entries li")).to_have_count(6)
    expect(page.locator("#entries")).to_contain_text("__consumer_offsets")


@pytest.mark.quick
def test_on_a_phone_every_tab_fills_the_screen(page: Page, served: Served) -> None:
    page.set_viewport_size(PHONE)
    open_state(page, served.urls["killed"])
    names = ["partitions", "nodes", "timeline", "groups", "topics"]
    page.locator("#tab-partitions").focus()
    for name in names:
        tab, panel = page.locator(f"#tab-{name}"), page.locator(f"#{name}")
        expect(tab).to_be_focused()
        expect(tab).to_have_attribute("aria-selected", "true")
        expect(panel).to_have_attribute("role", "tabpanel")
        expect(panel).to_have_attribute("aria-labelledby", f"tab-{name}")
        box = panel.bounding_box()
        assert box is not None and box["y"] + box["height"] == pytest.approx(PHONE["height"], abs=1)
        assert box["height"] > 0.8 * PHONE["height"] and box["width"] == PHONE["width"]
        assert [each for each in names if page.locator(f"#{each}").is_visible()] == [name]
        page.keyboard.press("ArrowRight")
    expect(page.locator("#tab-partitions")).to_be_focused()
    # Beside everything else of a wide screen, only three views are tabs.
    page.set_viewport_size(ViewportSize(width=1440, height=900))
    expect(page.locator("[role=tab]:visible")).to_have_count(3)
    expect(page.locator("[role=tabpanel]")).to_have_count(3)
    expect(page.locator("#partitions")).not_to_have_attribute("role", "tabpanel")


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_configs_open_below_their_topic_and_break_between_words(page: Page, served: Served, width: int) -> None:
    page.set_viewport_size(ViewportSize(width=width, height=800))
    open_state(page, served.urls["thousand"])
    page.locator("#tab-topics").click()
    topic = page.locator("#topic-list details").nth(9)
    summary = topic.locator("summary")
    summary.click()
    expect(topic.locator(".config").first).to_be_visible()
    row, configs = summary.bounding_box(), topic.locator(".configs").bounding_box()
    assert row is not None and configs is not None
    assert configs["y"] == pytest.approx(row["y"] + row["height"], abs=2)
    expect(summary).to_be_in_viewport()
    expect(topic.locator(".config").first).to_be_in_viewport()
    for name in topic.locator(".config-name").all():
        assert set(name.evaluate(BREAKS)) <= {".", "_"}
