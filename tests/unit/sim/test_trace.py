"""The trace: every line as docs/trace.md has it, from every node, in the order of virtual time."""

import hashlib
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tidelog.core import events
from tidelog.core.event import Event
from tidelog.sim.campaign import Outcome, Settings, run_seed
from tidelog.sim.faults.kinds import KINDS
from tidelog.sim.faults.plan import PlannedFault
from tidelog.sim.trace import FORMAT

DOCUMENT = Path(__file__).parents[3] / "docs" / "trace.md"
ROW = re.compile(r"^\| `(\w+)` \| (`.*`) \|$", re.MULTILINE)
EVENTS: dict[str, type[Event]] = {
    each.kind: each for each in vars(events).values() if isinstance(each, type) and issubclass(each, Event)
}
# What a node under these faults has to tell of: elections, in-sync sets, fencing, logs.
TOLD = {
    "broker_fenced",
    "broker_registered",
    "broker_unfenced",
    "controller_activated",
    "following_started",
    "isr_change_proposed",
    "isr_changed",
    "leader_elected",
    "leadership_taken",
    "node_started",
    "quorum_leader_changed",
    "topic_created",
}


# Three brokers, and faults that make them elect and fence.
SEED = 0
SETTINGS = Settings(seconds=15.0, least_batches=0)
PLAN = [
    PlannedFault(number=number, at_s=at_s, kind=kind)
    for number, (at_s, kind) in enumerate(((1.0, "kill"), (6.0, "kill"), (11.0, "reset")))
]


@pytest.fixture(scope="module")
def written() -> tuple[list[str], Outcome]:
    told: list[str] = []
    outcome = run_seed(SEED, SETTINGS, plan=PLAN, sink=told.append)
    assert outcome.failure is None, outcome.failure.lines()
    assert outcome.counts["kill"] >= 1
    return told, outcome


@pytest.fixture
def lines(written: tuple[list[str], Outcome]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written[0]]


def documented() -> dict[str, list[str]]:
    section = DOCUMENT.read_text(encoding="utf-8").partition("## node")[2]
    return {kind: re.findall(r"`(\w+)`", names) for kind, names in ROW.findall(section)}


def test_every_line_says_when_who_and_what(lines: list[dict[str, Any]]) -> None:
    assert all(list(line)[:4] == ["t", "steps", "source", "event"] for line in lines)
    assert [line["t"] for line in lines] == sorted(line["t"] for line in lines)
    assert [line["steps"] for line in lines] == sorted(line["steps"] for line in lines)
    assert {line["source"] for line in lines} == {"run", "fault", "client", "metadata", "replica", "node"}
    text = DOCUMENT.read_text(encoding="utf-8")
    told = {line["event"] for line in lines} - KINDS.keys()
    assert [event for event in sorted(told) if f"`{event}`" not in text] == []


def test_the_first_line_says_what_was_run_and_the_last_that_it_ended(lines: list[dict[str, Any]]) -> None:
    first = lines[0]
    assert (first["event"], first["format"], first["seed"]) == ("seed", FORMAT, SEED)
    assert first["roles"].keys() == {str(line["node"]) for line in lines if line["source"] == "node"}
    assert lines[-1]["event"] == "end_of_run"


def test_the_hash_is_that_of_the_lines(written: tuple[list[str], Outcome]) -> None:
    told, outcome = written
    assert hashlib.sha256("".join(line + "\n" for line in told).encode()).hexdigest() == outcome.digest


def test_what_nodes_tell_has_the_fields_of_the_event_and_of_the_document(lines: list[dict[str, Any]]) -> None:
    table = documented()
    for kind, names in table.items():
        assert names == [field.name for field in fields(EVENTS[kind])], kind
    told = [line for line in lines if line["source"] == "node"]
    assert {line["event"] for line in told} >= TOLD
    for line in told:
        assert list(line)[4:] == ["node", *table[line["event"]]], line


def test_an_event_of_a_node_is_no_kind_of_fault() -> None:
    assert EVENTS.keys() & KINDS.keys() == set()


def test_replicas_are_followed_from_look_to_look(lines: list[dict[str, Any]]) -> None:
    moved = [line for line in lines if line["source"] == "replica" and line["topic"] == "orders"]
    last = {(line["node"], line["partition"]): line for line in moved}
    # Everybody has everything once the run has settled.
    ends = {(line["partition"], line["log_end_offset"], line["high_watermark"]) for line in last.values()}
    assert len(last) == 9
    assert len(ends) == 3 and all(end == mark for _, end, mark in ends)
    assert {line["role"] for line in moved} >= {"leader", "follower"}
    # What a client was told is in the logs.
    acknowledged = [line for line in lines if line["event"] == "acknowledged"]
    assert all(0 <= line["sent"] <= line["t"] for line in acknowledged)
    assert max(line["offset"] for line in acknowledged) < max(end for _, end, _ in ends)


def test_a_run_that_breaks_says_so_in_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidelog.sim.checks.liveness import Liveness

    monkeypatch.setattr(Liveness, "missing", lambda self: "somebody is late")
    written: list[str] = []
    settings = Settings(
        seconds=1.0, profiles=("time",), works=False, quiet_timeout_s=5.0, least_faults=0, least_batches=0
    )
    outcome = run_seed(3, settings, sink=written.append)
    assert outcome.failure is not None
    last = json.loads(written[-1])
    assert (last["source"], last["event"], last["invariant"]) == ("run", "broken", "Liveness")
    assert last["what"] == "somebody is late"
