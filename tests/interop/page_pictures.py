"""Takes pictures of the page: `python -m tests.interop.page_pictures DIR [STATE...]`.

Each state in each view, at four widths, light and dark, without a cluster. Check them after every change of the
page. The pictures of the documentation come from a real cluster: TIDELOG_SCREENSHOTS=docs/images in test_page.py.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright
from tests.interop.page_states import STATES, serve_states
from tests.interop.page_views import SCHEMES, SIZES, VIEWS, close_view, open_state, show_view
from tests.interop.registries import ensure_debian
from tests.unit.web.test_trace import LINES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.page_pictures", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("states", nargs="*", default=[*STATES, "trace"], metavar="STATE")
    parser.add_argument("--views", default=",".join(VIEWS))
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    chromium = ensure_debian("chromium", "chromium")
    arguments = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    shown = [state for state in options.states if state != "trace"]
    with serve_states([json.dumps(line) for line in LINES], shown) as served, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page()
        for state in options.states:
            open_state(page, served.urls[state])
            for size in SIZES:
                page.set_viewport_size(size)
                for view in options.views.split(","):
                    if not show_view(page, view):
                        continue
                    for scheme in SCHEMES:
                        page.emulate_media(color_scheme=scheme)
                        page.screenshot(path=options.directory / f"{state}-{view}-{size['width']}-{scheme}.png")
                    close_view(page)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
