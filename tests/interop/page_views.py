"""The views of the page that tests and pictures go through."""

from typing import Final, Literal

from playwright.sync_api import Page, ViewportSize, expect
from tests.interop.page_states import CONFIGS

SIZES: Final = (
    ViewportSize(width=390, height=844),
    ViewportSize(width=1024, height=768),
    ViewportSize(width=1440, height=900),
    ViewportSize(width=1920, height=1080),
)
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
VIEWS: Final = ("partitions", "detail", "nodes", "timeline", "groups", "topics", "message", "glossary")
NARROW: Final = 900
_SETTLED: Final = (
    "() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 100))"
)


def open_state(page: Page, url: str) -> None:
    page.route("**/configs", lambda route: route.fulfill(json=CONFIGS))
    page.goto(url)
    expect(page.locator("#connection:is(.live, .trace)")).to_be_visible()
    if page.locator("#player").is_visible():
        page.keyboard.press("End")
    expect(page.locator(".node").first).to_be_attached()


def show_view(page: Page, view: str) -> bool:
    """Opens a view and its first row; False where this width or state lacks the view."""
    size = page.viewport_size
    assert size is not None
    narrow = size["width"] < NARROW
    tab = {"detail": "partitions", "message": "nodes", "glossary": "timeline"}.get(view, view)
    if view == "nodes" and not narrow:
        return False
    if narrow or tab in ("timeline", "groups", "topics"):
        page.locator(f"#tab-{tab}").click()
    opened = {"detail": ".cell", "message": ".node .buttons button:not(:disabled)"}.get(view, f"#{view} summary")
    found = page.locator(f"{opened}:visible")
    if view in ("detail", "message", "timeline", "groups", "topics"):
        if found.count() == 0:
            return view not in ("detail", "message")
        if view in ("detail", "message") or found.first.evaluate("(summary) => !summary.parentElement.open"):
            found.first.click()
    if view == "glossary":
        page.keyboard.press("?")
    if view == "message":
        expect(page.locator("#outcome .rule, #outcome.error").first).to_be_visible()
    page.evaluate(_SETTLED)
    return True


def close_view(page: Page) -> None:
    """Closes a dialog, then the partition, then the message."""
    for _ in range(3):
        page.keyboard.press("Escape")
