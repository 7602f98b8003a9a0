"""Pages of the guide, taken apart into what a reader would do.

    ```console            commands after `$ `, and below each what it prints; `…` stands for anything.
    ```python title="x.py" (or any other language with a title): a file that the reader writes.

A block that cannot be run has `<!-- not run: why -->` in the line above. With the reason "needs a package index" it
runs in the interop tests, which have one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
README = Path(__file__).parents[2] / "README.md"

_FENCE = re.compile(r"^```(?P<language>\w+)?(?P<more>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_NOT_RUN = re.compile(r"<!-- not run: (?P<why>.+) -->\n$")
_NEEDS_INDEX = "needs a package index"
_CONTINUED = "\\"
ANYTHING = "…"


@dataclass(frozen=True, slots=True)
class File:
    """What the reader is told to write."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """What the reader runs. `shown`: what it prints, "" when the page does not show it."""

    line: int
    text: str
    shown: str
    needs_index: bool = False

    @property
    def fails(self) -> bool:
        """A page shows a refusal as the reader sees it: the one line of the error."""
        return self.shown.startswith("tidelog: ")


def steps(page: Path, *, with_index: bool = False) -> Iterator[File | Command]:
    """In the order of the page. Commands that need a package index are left out unless there is one."""
    text = page.read_text()
    for block in _FENCE.finditer(text):
        not_run = _NOT_RUN.search(text[: block.start()])
        needs_index = not_run is not None and not_run["why"] == _NEEDS_INDEX
        if not_run is not None and not (needs_index and with_index):
            continue
        title = _TITLE.search(block["more"])
        if block["language"] == "console":
            for command in _commands(block["body"], text.count("\n", 0, block.start("body")) + 1):
                yield replace(command, needs_index=needs_index)
        elif title is not None:
            yield File(title[1], block["body"])


def _commands(body: str, line: int) -> Iterator[Command]:
    command: list[str] = []
    shown: list[str] = []
    began = line
    for number, text in enumerate(body.splitlines(), line):
        if text.startswith("$ "):
            if command:
                yield Command(began, "\n".join(command), "\n".join(shown).strip())
            command, shown, began = [text[2:]], [], number
        elif command and command[-1].endswith(_CONTINUED) and not shown:
            command.append(text)
        else:
            assert command, f"line {number} is shown before any command"
            shown.append(text)
    if command:
        yield Command(began, "\n".join(command), "\n".join(shown).strip())


def matches(shown: str, printed: str) -> bool:
    """Whether the page tells the truth. How much space there is between words does not count."""
    wanted = [re.escape(part) for part in _tidy(shown).split(ANYTHING)]
    return re.fullmatch(".*?".join(wanted), _tidy(printed), re.DOTALL) is not None


def _tidy(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())
