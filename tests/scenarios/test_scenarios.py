"""Replays every scenario file. `pytest tests/scenarios --rewrite-scenarios` writes what happened into them instead:
only commit such a change if you understand what caused it.
"""

from pathlib import Path

import pytest

from tidelog.sim.scenario.rules import cited
from tidelog.sim.scenario.runner import run_file
from tidelog.sim.scenario.text import Scenario
from tidelog.sim.scenario.worlds import WORLDS

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*/*.txt"))


def stories() -> list[object]:
    """Each file with a mark for each rule its `rules:` line names."""
    return [
        pytest.param(
            path,
            id=f"{path.parent.name}/{path.stem}",
            marks=[pytest.mark.rule(name) for name in Scenario.parse(path.read_text(encoding="utf-8")).rules],
        )
        for path in FILES
    ]


@pytest.mark.parametrize("path", stories())
def test_story_goes_as_told(path: Path, rewrite_scenarios: bool) -> None:
    run_file(path, WORLDS, rewrite=rewrite_scenarios)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_rule_in_the_head_is_explained_in_the_story(path: Path) -> None:
    """The `rules:` line is no claim: a comment says where the rule is at work."""
    scenario = Scenario.parse(path.read_text(encoding="utf-8"))
    lines = [*scenario.head, *(line for step in scenario.steps for line in step.source), *scenario.tail]
    explained = cited(line for line in lines if line.startswith("#"))
    assert scenario.rules, "no rules: line"
    assert [name for name in scenario.rules if name not in explained] == []
