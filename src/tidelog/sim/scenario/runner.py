"""Replays a scenario, and compares or rewrites it."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from tidelog.sim.scenario.picture import Picture
from tidelog.sim.scenario.text import Command, Scenario, ScenarioError, Step


class World(Protocol):
    """Carries out commands. It checks its own invariants after each, and raises what it finds broken."""

    def execute(self, command: Command) -> list[str]:
        """What the command led to, line by line; none of them empty. ScenarioError if the command makes no sense."""
        ...

    def conclude(self) -> list[str]:
        """What is to be told at the end of a step, after what each of its commands led to."""
        ...

    def pictures(self) -> list[Picture]:
        """Every replica as it is now, to be drawn."""
        ...


WorldFactory = Callable[[Command], World]


class Mismatch(Exception):
    """The story went another way than the file tells; the message is the difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The end of a step: `step` with the output that its commands really have, of which `happened` is less than the
    state that the world tells at the end, and the world as it is until the next step.
    """

    step: Step
    happened: tuple[str, ...]
    world: World


def walk(scenario: Scenario, worlds: Mapping[str, WorldFactory]) -> Iterator[Moment]:
    """The steps one by one, as they really go."""
    (name,) = scenario.world.words
    if name not in worlds:
        raise scenario.world.fail(f"unknown world {name}; the worlds are: {', '.join(sorted(worlds))}")
    world = worlds[name](scenario.world)
    for step in scenario.steps:
        happened: list[str] = []
        for command in step.commands:
            try:
                happened += world.execute(command)
            except ScenarioError:
                raise
            except Exception as error:
                error.add_note(f"in line {command.line}: {command.verb} {' '.join(command.words)}")
                error.add_note("\n".join(["so far in this step:", *happened]))
                raise
        lines = [*happened, *world.conclude()]
        assert all(lines), lines
        yield Moment(step=replace(step, output=tuple(lines)), happened=tuple(happened), world=world)


def replay(scenario: Scenario, worlds: Mapping[str, WorldFactory]) -> Scenario:
    """The scenario with the outputs that its commands really have."""
    return replace(scenario, steps=tuple(moment.step for moment in walk(scenario, worlds)))


def run_file(path: Path, worlds: Mapping[str, WorldFactory], *, rewrite: bool = False) -> bool:
    """Replays the file; Mismatch if it differs from what is there, or with `rewrite` writes it. Whether it differed."""
    told = path.read_text(encoding="utf-8")
    happened = replay(Scenario.parse(told), worlds).render()
    if happened == told:
        return False
    if not rewrite:
        difference = difflib.unified_diff(
            told.splitlines(), happened.splitlines(), "told", "happened", n=6, lineterm=""
        )
        raise Mismatch(f"{path}\n" + "\n".join(difference))
    path.write_text(happened, encoding="utf-8")
    return True
