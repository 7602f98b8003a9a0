"""Every explanation names existing rules and explains an existing event."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tidelog.core import events
from tidelog.web import explain
from tidelog.web.app import STATIC
from tidelog.web.board import Board, Partition
from tidelog.web.commands import VERBS, BadCommand, Command, outcome

RULES = set(json.loads((STATIC / "rules.json").read_text()))


def kinds(kind: type[events.Event]) -> Iterator[str]:
    for each in kind.__subclasses__():
        yield each.kind
        yield from kinds(each)


def reasons() -> Iterator[explain.Reason]:
    told = {"leader": 1, "old_isr": [1, 2], "new_isr": [1]}
    for event in explain._EVENTS:
        for more in ({}, {"leader": -1, "new_isr": [1, 2, 3]}):
            found = explain.reason_of({"event": event, **told, **more})
            assert found is not None
            yield found
    yield from explain.NODE_STATES.values()
    yield from (value for value in vars(explain).values() if isinstance(value, explain.Reason))


def test_reasons_name_rules_that_exist() -> None:
    for reason in reasons():
        assert reason.why.endswith(".") and set(reason.rules) <= RULES, reason


def test_explained_events_exist() -> None:
    assert set(explain._EVENTS) <= set(kinds(events.Event))
    assert explain.reason_of({"event": "following_started"}) is None


@pytest.mark.parametrize("verb", VERBS)
def test_every_button_has_a_sentence_and_a_rule(verb: str) -> None:
    board = Board()
    board.put_partition(Partition(topic="orders", number=0, leader=1))
    for node in (1, 2):
        told = outcome(Command.parse({"command": verb, "node": node, "ms": 200}), board)
        assert told.text.endswith(".") and told.rules and set(told.rules) <= RULES


def test_the_effect_of_a_kill_counts_the_leaderships() -> None:
    board = Board()
    for number in range(3):
        board.put_partition(Partition(topic="orders", number=number, leader=1 + number // 2))
    assert "while it led 2 partitions" in outcome(Command(verb="kill", node=1), board).text
    assert "while it led 1 partition." in outcome(Command(verb="kill", node=2), board).text
    assert "led no partition" in outcome(Command(verb="kill", node=3), board).text


@pytest.mark.parametrize(
    "asked",
    [
        None,
        [],
        {},
        {"command": "down"},
        {"command": "kill"},
        {"command": "kill", "node": "1"},
        {"command": "kill", "node": True},
        {"command": "slow", "node": 1},
        {"command": "slow", "node": 1, "ms": -1},
        {"command": "slow", "node": 1, "ms": 1e9},
    ],
)
def test_what_makes_no_sense_is_refused(asked: Any) -> None:
    with pytest.raises(BadCommand):
        Command.parse(asked)
