"""The stories that come with the package: the files of `tests/scenarios`, which `stories/` links to."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.sim.scenario.text import Scenario, ScenarioError

DIRECTORY: Final = Path(__file__).parent / "stories"
_SUFFIX: Final = ".txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """`name` is world/title for those of the package, the path of any other."""

    name: str
    scenario: Scenario

    @property
    def about(self) -> str:
        """What it says of itself before the first command."""
        return " ".join(line.lstrip("# ") for line in self.scenario.head if line.startswith("#"))

    @property
    def gist(self) -> str:
        """The first sentence of it."""
        first, dot, _ = self.about.partition(". ")
        return first + dot.strip()


def stories() -> list[Story]:
    """All of the package's, by name."""
    return [read(path, f"{path.parent.name}/{path.stem}") for path in sorted(DIRECTORY.glob(f"*/*{_SUFFIX}"))]


def find(name: str) -> Story | None:
    """By its whole name, or by its title if no other has that."""
    known = stories()
    found = [story for story in known if story.name == name] or [
        story for story in known if story.name.rpartition("/")[2] == name
    ]
    return found[0] if len(found) == 1 else None


def read(path: Path, name: str) -> Story:
    """ScenarioError, which names the file, if it is none; OSError if it cannot be read."""
    try:
        return Story(name=name, scenario=Scenario.parse(path.read_text(encoding="utf-8")))
    except (ScenarioError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{name}: {error}") from error
