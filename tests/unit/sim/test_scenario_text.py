"""Scenario files: what is read, what survives a rewrite, what is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.sim.scenario.picture import Picture
from tidelog.sim.scenario.runner import Mismatch, replay, run_file
from tidelog.sim.scenario.text import Command, Scenario, ScenarioError

STORY = """\
# A counter.
world counter start=3
rules: Q1 W2

# It counts,
#   and this comment stays as it is.
add 4
add 1
----
7
8

show
----

# The end.
"""


class Counter:
    """A world of one number."""

    def __init__(self, world: Command) -> None:
        self._value = int(world.options.get("start", "0"))

    def execute(self, command: Command) -> list[str]:
        if command.verb == "show":
            return []
        if command.verb == "break":
            raise AssertionError("an invariant is broken")
        if command.verb != "add" or not all(word.isdecimal() for word in command.words):
            raise command.fail("unknown command")
        self._value += sum(map(int, command.words))
        return [str(self._value)]

    def conclude(self) -> list[str]:
        return []

    def pictures(self) -> list[Picture]:
        return []


WORLDS = {"counter": Counter}


def test_a_file_is_read_into_its_parts() -> None:
    scenario = Scenario.parse(STORY)
    assert scenario.world == Command(2, "world", ("counter",), {"start": "3"})
    assert scenario.rules == ("Q1", "W2")
    assert [[command.verb for command in step.commands] for step in scenario.steps] == [["add", "add"], ["show"]]
    assert [step.output for step in scenario.steps] == [("7", "8"), ()]
    assert scenario.steps[0].commands[1].line == 8
    assert scenario.render() == STORY


def test_a_story_that_goes_as_told_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "story.txt"
    file.write_text(STORY)
    assert run_file(file, WORLDS) is False
    assert run_file(file, WORLDS, rewrite=True) is False
    assert file.read_text() == STORY


def test_another_outcome_is_a_difference_and_a_rewrite_keeps_everything_else(tmp_path: Path) -> None:
    file = tmp_path / "story.txt"
    file.write_text(STORY.replace("7\n8", "7\n9"))
    with pytest.raises(Mismatch, match=r"-9\n\+8"):
        run_file(file, WORLDS)
    assert run_file(file, WORLDS, rewrite=True) is True
    assert file.read_text() == STORY


def test_a_broken_invariant_is_never_written_down(tmp_path: Path) -> None:
    file = tmp_path / "story.txt"
    file.write_text(STORY.replace("add 1\n", "break\n"))
    with pytest.raises(AssertionError, match="an invariant is broken") as broken:
        run_file(file, WORLDS, rewrite=True)
    assert "in line 8: break" in "\n".join(broken.value.__notes__)
    assert "break" in file.read_text() and "7\n8" in file.read_text()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: the first line must name the world"),
        ("# only a comment\n", "line 2: the first line must name the world"),
        ("add 1\n----\n", "line 1: the first line must name the world"),
        ("world\n", "line 1: world: one name"),
        ("world counter\n\n----\n", "line 3: ---- without a command"),
        ("world counter\n\nadd 1\n", "line 3: no ---- after the command"),
        ("world nowhere\n\nadd 1\n----\n", "line 1: world: unknown world nowhere; the worlds are: counter"),
        ("world counter\n\nsub 1\n----\n", "line 3: sub: unknown command"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        replay(Scenario.parse(text), WORLDS)
    assert str(refused.value).startswith(problem)


LINES = st.lists(st.sampled_from(["# a comment", "", "add 1", "show", "----", "7", "  "]), max_size=12)


@given(LINES)
def test_rendering_gives_back_what_was_parsed(lines: list[str]) -> None:
    text = "\n".join(["world counter", *lines]) + "\n"
    try:
        scenario = Scenario.parse(text)
    except ScenarioError:
        return
    assert scenario.render() == text
    assert Scenario.parse(scenario.render()) == scenario
