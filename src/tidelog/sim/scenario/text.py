"""The format of a scenario file.

    # What the story is about.
    world quorum nodes=1,2,3
    rules: Q1 Q2

    # Why the next step does what it does.
    tick 150ms
    deliver 1->2
    ----
    what came of these commands, up to the next empty line

Comments and empty lines are the author's and survive a rewrite; what stands below `----` is the world's.
"""

from dataclasses import dataclass
from typing import Final

SEPARATOR: Final = "----"
_WORLD: Final = "world"
_RULES: Final = "rules:"
_COMMENT: Final = "#"


class ScenarioError(Exception):
    """The file, or a command in it, makes no sense. One line."""


@dataclass(frozen=True, slots=True)
class Command:
    """`verb word word key=value`, and the line of the file it stands in."""

    line: int
    verb: str
    words: tuple[str, ...]
    options: dict[str, str]

    @classmethod
    def parse(cls, text: str, line: int) -> "Command":
        verb, *rest = text.split()
        words = tuple(word for word in rest if "=" not in word)
        options = dict(word.split("=", 1) for word in rest if "=" in word)
        return cls(line, verb, words, options)

    def fail(self, problem: str) -> ScenarioError:
        return ScenarioError(f"line {self.line}: {self.verb}: {problem}")


@dataclass(frozen=True, slots=True)
class Step:
    """Commands and what they led to. `source` is all of it above the separator, verbatim."""

    source: tuple[str, ...]
    commands: tuple[Command, ...]
    output: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Invariant: `parse(scenario.render()) == scenario`."""

    head: tuple[str, ...]
    world: Command
    rules: tuple[str, ...]
    steps: tuple[Step, ...]
    tail: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Scenario":
        lines = text.splitlines()
        head_end, world, rules = _head(lines)
        steps: list[Step] = []
        source: list[str] = []
        commands: list[Command] = []
        at = head_end
        while at < len(lines):
            line = lines[at]
            at += 1
            if line != SEPARATOR:
                source.append(line)
                if line.strip() and not line.startswith(_COMMENT):
                    commands.append(Command.parse(line, at))
                continue
            if not commands:
                raise ScenarioError(f"line {at}: {SEPARATOR} without a command before it")
            end = next((i for i in range(at, len(lines)) if not lines[i]), len(lines))
            steps.append(Step(tuple(source), tuple(commands), tuple(lines[at:end])))
            at, source, commands = end, [], []
        if commands:
            raise ScenarioError(f"line {commands[0].line}: no {SEPARATOR} after the command")
        return cls(tuple(lines[:head_end]), world, rules, tuple(steps), tuple(source))

    def render(self) -> str:
        lines = [*self.head]
        for step in self.steps:
            lines += [*step.source, SEPARATOR, *step.output]
        return "\n".join([*lines, *self.tail]) + "\n"


def _head(lines: list[str]) -> tuple[int, Command, tuple[str, ...]]:
    """Everything up to the `world` line, and the `rules:` line if it follows at once."""
    at = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith(_COMMENT)), len(lines))
    if at == len(lines) or lines[at].split()[0] != _WORLD:
        raise ScenarioError(f"line {at + 1}: the first line must name the world: {_WORLD} NAME")
    world = Command.parse(lines[at], at + 1)
    if len(world.words) != 1:
        raise world.fail("one name of a world is needed")
    at += 1
    if at < len(lines) and lines[at].startswith(_RULES):
        return at + 1, world, tuple(lines[at].removeprefix(_RULES).split())
    return at, world, ()
