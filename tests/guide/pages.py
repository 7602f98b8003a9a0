"""Pages of the guide, taken apart into what a reader would do.

    ```console            commands after `$ `, and below each what it prints; `…` stands for anything.
    ```python title="x.py" (or any other language with a title): a file that the reader writes.

A block that cannot be run has `<!-- not run: why -->` in the line above.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
README = Path(__file__).parents[2] / "README.md"

_FENCE = re.compile(r"^```(?P<language>\w+)?(?P<more>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_NOT_RUN = re.compile(r"<!-- not run: .+ -->\n$")
_CONTINUED = "\\"
ANYTHING = "…"


@dataclass(frozen=True, slots=True)
class File:
    """What the reader is told to write."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """What the reader is told to run. `shown`: what it prints, "" when the page does not say."""

    line: int
    text: str
    shown: str

    @property
    def fails(self) -> bool:
        """A page shows a refusal as the reader sees it: the one line of the error."""
        return self.shown.startswith("tidelog: ")


def steps(page: Path) -> Iterator[File | Command]:
    text = page.read_text()
    for block in _FENCE.finditer(text):
        if _NOT_RUN.search(text[: block.start()]):
            continue
        title = _TITLE.search(block["more"])
        if block["language"] == "console":
            yield from _commands(block["body"], text.count("\n", 0, block.start("body")) + 1)
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
