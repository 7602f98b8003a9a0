"""`scenario`: stories of replication, step by step, with a drawing of every replica after each."""

import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidelog.cli.options import Json, commands, example
from tidelog.cli.output import CommandFailed, print_json, print_table, progress

if TYPE_CHECKING:
    from tidelog.sim.scenario.library import Story
    from tidelog.sim.scenario.picture import Picture
    from tidelog.sim.scenario.runner import Moment

app = commands(
    "Show replication stories under simulation, step by step, with the rule behind each step.",
    "tidelog scenario list",
    "tidelog scenario run kip_101 --step",
)

_WIDTH: Final = 100
_PROMPT: Final = "-- Enter: next step, q: quit --"
_COLOURS: Final = {
    "step": "1;36",
    "command": "1",
    "rule": "1;35",
    "title": "1",
    "heading": "2",
    "leader": "1;32",
    "absent": "2",
    "moved": "1;36",
    "committed": "32",
    "uncommitted": "33",
}


@app.command("list", epilog=example("tidelog scenario list"))
def list_stories(as_json: Json = False) -> None:
    """List the stories with a summary of each."""
    from tidelog.sim.scenario.library import stories

    known = stories()
    if as_json:
        print_json([_head(story) for story in known])
    else:
        print_table(["STORY", "STEPS", "SUMMARY"], [[s.name, len(s.scenario.steps), s.gist] for s in known])


@app.command(
    epilog=example(
        "tidelog scenario run kip_101 --step", "tidelog scenario run quorum/election", "tidelog scenario run ./mine.txt"
    )
)
def run(
    name: Annotated[
        str, typer.Argument(metavar="NAME/FILE", help="Name of a story (see `tidelog scenario list`), or a file.")
    ],
    step: Annotated[bool, typer.Option("--step", help="On a terminal: wait for Enter after each step.")] = False,
    as_json: Json = False,
) -> None:
    """Run one story and print each step: its command, every replica afterwards, and the rules that explain it.

    In a drawing, `*` marks the leader, `+1` a change since the last step, and `@1` the first record of leader epoch 1.
    `|` is the high watermark of the replica: it knows that the records before it are committed.
    """
    story = _find(name)
    if as_json:
        print_json(_head(story) | {"steps": [_as_json(moment) for moment in _moments(story)]})
        return
    # Output that a terminal cannot show is no reason to fail.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    waits = step and sys.stdin.isatty() and sys.stdout.isatty()
    _tell(story, waits=waits)


def _find(name: str) -> "Story":
    from difflib import get_close_matches

    from tidelog.sim.scenario.library import find, read, stories
    from tidelog.sim.scenario.text import ScenarioError

    if (story := find(name)) is not None:
        return story
    path = Path(name)
    if not path.exists():
        names = [story.name for story in stories()]
        by_title = {each.rpartition("/")[2]: each for each in names} | {each: each for each in names}
        near = dict.fromkeys(by_title[each] for each in get_close_matches(name, by_title, n=3))
        hint = f"did you mean {' or '.join(near)}?" if near else "see `tidelog scenario list`"
        raise CommandFailed(f"no story and no file is called {name}: {hint}")
    try:
        return read(path, name)
    except ScenarioError as error:
        raise CommandFailed(str(error)) from error
    except OSError as error:
        raise CommandFailed(f"cannot read {name}: {error.strerror or error}") from error


def _moments(story: "Story") -> "Iterator[Moment]":
    """The steps as they go. A step whose result differs from the file ends the story."""
    from tidelog.sim.scenario.runner import walk
    from tidelog.sim.scenario.text import ScenarioError
    from tidelog.sim.scenario.worlds import WORLDS

    scenario = story.scenario
    # A new story has no results yet.
    tells = any(step.output for step in scenario.steps)
    number = 0
    try:
        for number, moment in enumerate(walk(scenario, WORLDS), 1):
            yield moment
            told = scenario.steps[number - 1].output
            if tells and told != moment.step.output:
                raise CommandFailed(f"{story.name}: the result of step {number} differs from the file")
    except CommandFailed:
        raise
    except ScenarioError as error:
        raise CommandFailed(f"{story.name}: {error}") from error
    except Exception as error:
        # An invariant broke, or the world does not know a command: the note names the line.
        where = next(iter(getattr(error, "__notes__", ())), f"in line {scenario.world.line}")
        raise CommandFailed(f"{story.name}: {where}: {type(error).__name__}: {error}") from error


# --- for people -------------------------------------------------------------------------------------------------------


def _tell(story: "Story", *, waits: bool) -> None:
    scenario = story.scenario
    print(_paint("title", story.name))
    _print_text(story.about)
    _print_rules(scenario.head)
    before: dict[str, Picture] = {}
    for number, moment in enumerate(_moments(story), 1):
        if waits and not _wait():
            return
        heading = f"--- step {number} of {len(scenario.steps)} "
        print("\n" + _paint("step", heading.ljust(_width(), "-")))
        before = _tell_step(moment, before)
    for _, lines in _paragraphs(scenario.tail):
        print()
        _print_text(" ".join(lines))


def _tell_step(moment: "Moment", before: "dict[str, Picture]") -> "dict[str, Picture]":
    from tidelog.sim.scenario.drawing import draw

    for is_comment, lines in _paragraphs(moment.step.source):
        if is_comment:
            _print_text(" ".join(lines))
            continue
        for line in lines:
            print(_paint("command", f"> {line}"))
    if moment.happened:
        print()
    for line in moment.happened:
        print(f"  {line}")
    pictures = {picture.name: picture for picture in moment.world.pictures()}
    for name, picture in pictures.items():
        print()
        for line in draw(picture, before.get(name), _paint):
            print(line)
    _print_rules(moment.step.source)
    return pictures


def _print_rules(comments: tuple[str, ...]) -> None:
    from tidelog.sim.scenario.rules import RULES, cited

    names = cited(comments)
    if names:
        print()
    for name in names:
        wrapped = textwrap.wrap(RULES[name], _width() - 5)
        print(_paint("rule", name.ljust(5)) + "\n     ".join(wrapped))


def _paragraphs(source: tuple[str, ...]) -> Iterator[tuple[bool, list[str]]]:
    """Comments without their marks, and commands, in the order of the file."""
    from itertools import groupby

    lines = [line for line in source if line.strip()]
    for is_comment, group in groupby(lines, lambda line: line.startswith("#")):
        yield is_comment, [line.lstrip("# ") if is_comment else line for line in group]


def _print_text(text: str) -> None:
    for line in textwrap.wrap(text, _width()):
        print(line)


def _width() -> int:
    from shutil import get_terminal_size

    return min(_WIDTH, max(20, get_terminal_size((_WIDTH, 24)).columns - 1))


def _paint(kind: str, text: str) -> str:
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{_COLOURS[kind]}m{text}\x1b[0m"


def _wait() -> bool:
    """False if that was enough."""
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    was = termios.tcgetattr(keyboard)
    try:
        # One key at a time, none forgotten; ctrl-C still ends the command.
        tty.setcbreak(keyboard, termios.TCSADRAIN)
        print("\n" + _PROMPT, end="", flush=True)
        while (key := os.read(keyboard, 1)) not in (b"\n", b"\r", b" ", b"q", b"Q", b"\x04", b""):
            pass
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, was)
        progress("")
    return key in (b"\n", b"\r", b" ")


# --- for programs -----------------------------------------------------------------------------------------------------


def _head(story: "Story") -> dict[str, Any]:
    scenario = story.scenario
    return {
        "story": story.name,
        "world": scenario.world.words[0],
        "about": story.about,
        "rules": list(scenario.rules),
        "length": len(scenario.steps),
    }


def _as_json(moment: "Moment") -> dict[str, Any]:
    from dataclasses import asdict

    from tidelog.sim.scenario.rules import RULES, cited

    parts = list(_paragraphs(moment.step.source))
    return {
        "comment": " ".join(line for is_comment, lines in parts if is_comment for line in lines),
        "commands": [line for is_comment, lines in parts if not is_comment for line in lines],
        "happened": list(moment.happened),
        "logs": [asdict(picture) for picture in moment.world.pictures()],
        "rules": {name: RULES[name] for name in cited(moment.step.source)},
    }
