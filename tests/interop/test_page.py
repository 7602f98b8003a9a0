"""The live page of a real cluster in a browser: a killed leader, a paused follower, a trace, a lost quorum.

TIDELOG_SCREENSHOTS=docs/images takes the pictures of the documentation.
"""

import itertools
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Page, ViewportSize, expect
from tests.cluster.commands import Commands, foreground_up
from tests.cluster.ports import consecutive_ports

WIDE = ViewportSize(width=1440, height=900)
PHONE = ViewportSize(width=390, height=844)
PICTURES = os.environ.get("TIDELOG_SCREENSHOTS")
# Visible cells and two rows beyond them.
MOST_DRAWN = 120
PICTURE_MS = 4000
LAYOUT = """() => [...document.querySelectorAll(".bar, .nodes, .node, .node dl, .partitions, .rows, .detail, .tabs")]
  .map((each) => each.getBoundingClientRect())
  .map(({ x, y, width, height }) => [x, y, width, height].map(Math.round))"""
WIDTHS = "(tracks) => tracks.map((track) => [...track.children].map((bar) => [bar.style.left, bar.style.width]))"


class Load:
    """Writes a few records to all partitions of a topic, again and again while the block runs."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        command = [sys.executable, "-m", "tidelog", "produce", topic, "--key-separator", ":", "--bootstrap", bootstrap]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._process.communicate(timeout=60)

    def _write(self) -> None:
        assert self._process.stdin is not None
        for number in itertools.count():
            self._process.stdin.write("".join(f"{number}-{key}:{key}\n" for key in range(15)))
            self._process.stdin.flush()
            if self._over.wait(0.05):
                return


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Commands, str]]:
    """Commands for three brokers with fifty partitions under load, and the address of their page."""
    port = consecutive_ports(4)
    tidelog = Commands(f"127.0.0.1:{port}")
    with foreground_up(tmp_path_factory.mktemp("page") / "data", "--port", str(port), ui_port=port + 3) as (_, ready):
        tidelog.run_process("topics", "create", "orders", "--partitions", "30", "--config", "min.insync.replicas=2")
        tidelog.run_process("topics", "create", "payments", "--partitions", "20")
        with Load(ready["bootstrap"], "orders"), Load(ready["bootstrap"], "payments"):
            tidelog.run_process("consume", "orders", "--group", "billing", "--from-beginning", "--max", "1200")
            yield tidelog, ready["ui"]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "3.jsonl"
    Commands("127.0.0.1:1").run_process("sim", "--replay", "3", "--minutes", "0.3", "--trace", str(path))
    return path


def picture(page: Page, name: str) -> None:
    if PICTURES is not None:
        # Lets the bars and rates fill.
        page.wait_for_timeout(PICTURE_MS)
        path = Path(PICTURES) / f"page-{name}.png"
        page.screenshot(path=path)
        # A third of the size; rare colours stay.
        Image.open(path).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE).save(path, optimize=True)


def show(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.locator("#connection-text")).to_have_text("live")
    expect(page.locator(".node.running")).to_have_count(3)


def row(page: Page, name: str) -> tuple[str, str]:
    """The leader and the epoch in the row of a partition."""
    cell = page.locator(".cell", has=page.get_by_text(name, exact=True))
    epoch = re.search(r"epoch (\d+)", cell.inner_text())
    assert epoch is not None
    return cell.locator(".chip.leader").inner_text(), epoch[1]


@pytest.mark.quick
def test_a_leader_killed_by_its_button(page: Page, cluster: tuple[Commands, str]) -> None:
    show(page, cluster[1])
    cell = page.locator(".cell", has=page.get_by_text("orders-0", exact=True))
    expect(cell).to_contain_text("ISR 3/3 min 2")
    expect(cell.locator(".track .committed")).to_have_count(3)
    expect(cell.locator(".rate")).to_contain_text("/s")
    leader, epoch = row(page, "orders-0")

    cell.click()
    layout = page.evaluate(LAYOUT)
    expect(page.locator("#detail h2")).to_have_text("orders-0")
    page.get_by_role("button", name=f"kill node {leader}").click()
    expect(page.locator("#outcome")).to_contain_text("becomes leader, in a new leader epoch")
    expect(page.locator("#outcome .rule").first).to_have_text("C2")
    expect(cell.locator(".chip.leader")).not_to_have_text(leader)
    expect(cell).to_contain_text(f"epoch {int(epoch) + 1}")
    expect(cell).to_contain_text("ISR 2/3")
    expect(cell.locator(".line.stale .chip.out")).to_have_text(leader)
    expect(page.locator("#entries")).to_contain_text(f"node {leader} is killed")
    expect(page.locator("#entries .of-election").first).to_be_visible()
    expect(cell.locator(".line.stale .figure")).to_contain_text("−")
    # Neither the message nor the fault moves anything.
    assert page.evaluate(LAYOUT) == layout
    entry = page.locator("#entries li", has_text=f"node {leader} is killed")
    entry.locator("summary").click()
    expect(entry.locator(".why")).to_contain_text("fences it at once")
    picture(page, "killed-light")
    entry.locator(".rule").first.click()
    expect(page.locator("#rule")).to_contain_text("Rule C2")
    page.keyboard.press("Escape")

    page.get_by_role("button", name=f"start node {leader}").click()
    expect(page.locator("#outcome")).to_contain_text("started and registered", timeout=20_000)
    expect(cell).to_contain_text("ISR 3/3")
    expect(cell.locator(".line.stale")).to_have_count(0)


def test_a_paused_follower_holds_the_high_watermark(page: Page, cluster: tuple[Commands, str]) -> None:
    page.emulate_media(color_scheme="dark")
    show(page, cluster[1])
    expect(page.locator(".cell .rate").first).to_contain_text("/s")
    # Prefer a node without leaderships: then only its followers are missing.
    follower = page.locator(".node", has_text=re.compile(r"leads\s*0 of"))
    node = follower.locator(".node-id").inner_text() if follower.count() == 1 else "2"
    page.get_by_role("button", name=f"pause node {node}").click()
    expect(page.locator("#outcome")).to_contain_text("The high watermark of a partition cannot move")
    stalled = page.locator(".cell.stalled")
    expect(stalled.first).to_be_visible()
    expect(stalled.locator(".track .uncommitted:visible").first).to_be_visible()
    expect(page.locator("#entries .of-stall")).to_contain_text("the high watermark stalls at")
    stalled.first.click()
    expect(page.locator("#detail .status")).to_contain_text("HW stalled")
    picture(page, "stalled-dark")
    page.get_by_role("button", name=f"resume node {node}").click()
    expect(page.locator("#entries")).to_contain_text("the high watermark moves again")
    expect(page.locator(".cell.stalled")).to_have_count(0)


def test_a_wrong_token_changes_nothing(page: Page, cluster: tuple[Commands, str], complaints: list[str]) -> None:
    show(page, cluster[1].partition("#")[0] + "#token=guessed")
    expect(page.locator("#read-only")).to_be_visible()
    pause = page.get_by_role("button", name="pause node 1")
    expect(pause).to_have_attribute("aria-disabled", "true")
    pause.click(force=True)
    expect(page.locator("#outcome")).to_contain_text("its address lacks the cluster’s token")
    answers = page.evaluate(
        """async () => (await fetch("/api/command", {
             method: "POST", headers: { "X-Tidelog-Token": "guessed" }, body: '{"command": "pause", "node": 1}',
           })).status"""
    )
    assert answers == 401 and "401" in complaints.pop()
    expect(page.locator(".node.running")).to_have_count(3)


@pytest.mark.quick
def test_keys_and_names(page: Page, cluster: tuple[Commands, str]) -> None:
    show(page, cluster[1])
    # Also without a selection.
    page.keyboard.press("j")
    expect(page.locator("#detail h2")).to_have_text("orders-0")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#detail h2")).to_have_text("orders-1")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("pay 19")
    expect(page.locator(".cell")).to_have_count(1)
    page.keyboard.press("Escape")
    page.locator("#rows").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#detail h2")).to_have_text("payments-19")
    expect(page.locator("#rows")).to_have_attribute("aria-activedescendant", re.compile("^p-"))
    page.keyboard.press("Escape")
    expect(page.locator("#detail")).to_be_hidden()
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.keyboard.press("?")
    expect(page.locator("#glossary")).to_contain_text("move through the partitions")
    page.keyboard.press("Escape")
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, canvas, [role]:not([role=status])")]
             .filter((each) => !(each.getAttribute("aria-label") || each.getAttribute("aria-hidden")
               || each.textContent.trim() || each.labels?.length || each.getAttribute("aria-live")))
             .map((each) => each.outerHTML)"""
    )
    assert nameless == []
    page.get_by_role("tab", name="Topics").click()
    page.locator("#topics summary", has_text="orders").click()
    expect(page.locator("#topics .own")).to_contain_text("min.insync.replicas")
    page.get_by_role("tab", name="Groups").click()
    expect(page.locator("#groups summary")).to_contain_text("billing")
    expect(page.locator("#groups .behind")).to_contain_text("lag")


def test_a_trace_forward_and_back(page: Page, cluster: tuple[Commands, str], trace: Path) -> None:
    show(page, cluster[1])
    page.set_input_files("#trace-file", trace)
    where = page.locator("#play-where")
    expect(where).to_contain_text("line 0 of")
    expect(page.locator("#play-words")).to_have_text("before the first line")
    for _ in range(12):
        before = where.inner_text()
        page.get_by_label("Next event").click()
        expect(where).not_to_have_text(before)
    there, words = where.inner_text(), page.locator("#play-words").inner_text()
    bars = page.locator("#rows .track").evaluate_all(WIDTHS)
    page.keyboard.press("ArrowRight")
    expect(where).not_to_have_text(there)
    page.keyboard.press("ArrowLeft")
    expect(where).to_have_text(there)
    expect(page.locator("#play-words")).to_have_text(words)
    assert page.locator("#rows .track").evaluate_all(WIDTHS) == bars
    page.keyboard.press("Home")
    expect(where).to_contain_text("line 0 of")
    expect(page.locator(".cell")).to_have_count(0)
    page.locator("#play-speed").select_option("16")
    page.locator("#play-toggle").click()
    expect(page.locator("#entries .of-fault").first).to_be_visible(timeout=20_000)
    page.locator("#play-toggle").click()
    page.locator("#play-slider").fill(str(int(page.locator("#play-slider").get_attribute("max") or "0") // 2))
    expect(page.locator(".cell").first).to_be_visible()
    if PICTURES is not None:
        for _ in range(60):
            if page.locator(".cell.stalled").count() > 0:
                break
            page.get_by_label("Next event").click()
            page.wait_for_timeout(200)
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(PHONE)
    picture(page, "trace-phone-dark")
    page.get_by_role("button", name="Back to the cluster").click()
    expect(page.locator("#connection-text")).to_have_text("live")


def test_a_phone_in_the_dark(page: Page, cluster: tuple[Commands, str]) -> None:
    page.set_viewport_size(PHONE)
    page.emulate_media(color_scheme="dark")
    show(page, cluster[1])
    expect(page.locator(".cell").first).to_be_visible()
    for name in ("Nodes", "Timeline", "Groups", "Topics", "Partitions"):
        page.get_by_role("tab", name=name).click()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than the screen"
        expect(page.locator(f"#{name.lower()}")).to_be_visible()
    page.set_viewport_size(WIDE)


def test_without_a_quorum_nothing_is_called_in_sync(page: Page, complaints: list[str], tmp_path: Path) -> None:
    port = consecutive_ports(4)
    data = tmp_path / "data"
    tidelog = Commands(f"127.0.0.1:{port}")
    with foreground_up(data, "--port", str(port), ui_port=port + 3) as (_, ready):
        tidelog.run_process("topics", "create", "orders", "--replica-assignment", "2:1:3")
        show(page, ready["ui"])
        cell, figures = page.locator(".cell"), page.locator("#figures")
        expect(cell).to_contain_text("ISR 3/3")
        expect(page.locator("#figures .fine")).to_be_visible()
        # Two of three voters: no majority is left to elect a leader.
        tidelog.run_process("chaos", "pause", "3", "--data", str(data))
        tidelog.run_process("chaos", "kill", "2", "--data", str(data))
        expect(cell).to_have_class(re.compile("unheard"))
        expect(cell).to_have_attribute("aria-label", re.compile("leader does not respond"))
        expect(figures).to_contain_text("✕ no quorum leader")
        tidelog.run_process("chaos", "kill", "1", "--data", str(data))
        tidelog.run_process("chaos", "kill", "3", "--data", str(data))
        expect(figures).to_contain_text("no node answers")
        expect(page.locator("#figures .fine")).to_be_hidden()
        # A quorum needs two voters.
        page.get_by_role("button", name="start node 1").click()
        for node in ("2", "3"):
            tidelog.run_process("chaos", "start", node, "--data", str(data))
        expect(cell).to_contain_text("ISR 3/3")
        expect(page.locator("#figures .fine")).to_be_visible()
        # Ends the page's server, too.
        tidelog.run_process("down", "--data", str(data))
    expect(page.locator("#connection-text")).to_have_text("not connected")
    page.get_by_role("tab", name="Topics").click()
    page.locator("#topics summary", has_text="orders").click()
    expect(page.locator("#topics .configs")).to_contain_text("the page's server does not answer")
    page.set_input_files("#trace-file", {"name": "1.jsonl", "mimeType": "text/plain", "buffer": b"{}"})
    expect(page.locator("#outcome")).to_contain_text("the page's server does not answer")
    # The browser reports failed requests; the page itself must not fail.
    page.goto("about:blank")
    assert all(each.startswith("Failed to load resource: net::ERR_") for each in complaints)
    complaints.clear()


def test_a_long_axis_has_a_break(page: Page, cluster: tuple[Commands, str]) -> None:
    show(page, cluster[1])
    short, broken, ends = page.evaluate(
        """async () => {
             const { axisOf } = await import("/static/axis.js");
             const short = axisOf([0], [40, 50]), long = axisOf([0, 100], [999_990, 1_000_000]);
             return [[short.brokenAt, short.at(25)], [long.brokenAt, long.at(999_990) < 0.95, long.at(500_000) < 0.2],
                     [long.at(0), long.at(1_000_000), axisOf([7], [7]).at(7)]];
           }"""
    )
    assert short == [None, 0.5] and broken == [0.2, True, True] and ends == [0, 1, 0]


def test_a_thousand_partitions(page: Page, cluster: tuple[Commands, str]) -> None:
    tidelog, url = cluster
    tidelog.run_process("topics", "create", "events", "--partitions", "1000")
    show(page, url)
    expect(page.locator("#count")).to_contain_text("showing 1\u202f050 of", timeout=20_000)
    assert page.locator(".cell").count() < MOST_DRAWN
    page.locator("#rows").focus()
    page.keyboard.press("End")
    expect(page.locator(".cell.selected .name")).to_have_text("payments-19")
    page.locator("#filter").fill("events-99")
    expect(page.locator("#count")).to_contain_text("showing 11 of")
    page.locator("#filter").fill("")
    page.keyboard.press("Escape")
    page.locator("#rows").evaluate("(rows) => { rows.scrollTop = 0; }")
    # The longest frame of a second without writes to the new topic.
    busy = page.evaluate(
        """async () => {
             let longest = 0, last = performance.now();
             for (let i = 0; i < 60; i++) {
               await new Promise(requestAnimationFrame);
               const now = performance.now();
               longest = Math.max(longest, now - last);
               last = now;
             }
             return longest;
           }"""
    )
    assert busy < 1000, f"a frame took {busy} ms"
