"""A trace played forward and back: the same step is the same state, whichever way it was reached."""

import json
from typing import Any

import pytest

from tidelog.sim.campaign import Settings, run_seed
from tidelog.sim.faults.plan import PlannedFault
from tidelog.web import trace as trace_module
from tidelog.web.trace import BadTrace, Playback

SEED = {"t": 0.0, "steps": 0, "source": "run", "event": "seed", "format": 1, "seed": 7, "profiles": ["all"]}
SEED |= {"roles": {"1": "broker,controller", "2": "broker", "3": "broker"}, "seconds": 9}


def moved(t: float, node: int, role: str, epoch: int, hw: int, end: int) -> dict[str, Any]:
    offsets = {"leader_epoch": epoch, "log_start_offset": 0, "log_end_offset": end, "high_watermark": hw}
    where = {"node": node, "topic": "orders", "partition": 0, "role": role}
    return {"t": t, "steps": 1, "source": "replica", "event": "moved", **where, **offsets}


def decided(t: float, event: str, **fields: Any) -> dict[str, Any]:
    return {"t": t, "steps": 1, "source": "metadata", "event": event, "topic": "orders", "partition": 0, **fields}


LINES = [
    SEED,
    decided(0.1, "leader", leader=1, epoch=0, replicas=[1, 2, 3], isr=[1, 2, 3], elr=[]),
    *(moved(0.2, node, "leader" if node == 1 else "follower", 0, 0, 0) for node in (1, 2, 3)),
    *(moved(0.3 + end / 100, 1, "leader", 0, end - 1, end) for end in range(1, 20)),
    {"t": 1.0, "steps": 1, "source": "fault", "event": "power_cut", "number": 4, "lasts_s": 3.5, "node": 1},
    {"t": 1.0, "steps": 1, "source": "fault", "event": "exit", "node": 1, "end": "power cut", "error": None},
    decided(1.1, "leader", leader=2, epoch=1, replicas=[1, 2, 3], isr=[2, 3], elr=[]),
    moved(1.2, 2, "leader", 1, 19, 19),
    {"t": 4.5, "steps": 1, "source": "fault", "event": "end", "number": 4},
    {
        "t": 4.6,
        "steps": 1,
        "source": "client",
        "event": "committed",
        "group": "g",
        "topic": "orders",
        "partition": 0,
        "offset": 3,
    },
    {"t": 4.7, "steps": 1, "source": "somebody new", "event": "whatever"},
]


def playback() -> Playback:
    return Playback(json.dumps(line) for line in LINES)


def shown(frame: dict[str, Any]) -> dict[str, Any]:
    """Without the numbers by which a board counts its changes."""
    return {name: value for name, value in frame.items() if name != "version"}


def test_every_step_is_the_same_whichever_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_module, "EVERY", 4)
    trace = playback()
    forward = [shown(trace.frame(step)) for step in range(len(trace) + 1)]
    assert [shown(trace.frame(step)) for step in reversed(range(len(trace) + 1))] == forward[::-1]
    for step in (17, 3, len(trace), 0, 11):
        assert shown(trace.frame(step)) == forward[step]


def test_every_line_of_a_simulation_can_be_played() -> None:
    """A line about a snapshot names no partition, unlike other lines about metadata."""
    lines: list[str] = []
    plan = [
        PlannedFault(number=number, at_s=1.0 + number, kind=kind) for number, kind in enumerate(("kill", "power_cut"))
    ]
    run_seed(3, Settings(seconds=6.0, least_batches=0), plan=plan, sink=lines.append)
    events = {json.loads(line)["event"] for line in lines}
    assert {"snapshot_written", "group_rebalanced", "churn", "unknown"} <= events, events
    last = json.loads(lines[-1])["t"]
    fetched = {"t": last, "steps": 1, "source": "metadata", "event": "snapshot_fetched", "node": 2, "end_offset": 9}
    trace = Playback([*lines, json.dumps(fetched)])
    for step in range(0, len(trace), 97):
        trace.frame(step)
    told = [entry["text"] for entry in trace.frame(len(trace))["timeline"]]
    assert any("snapshot fetched" in text for text in told), told


def test_what_a_step_shows() -> None:
    trace = playback()
    assert trace.frame(0)["words"] == "before the first line" and "partitions" not in trace.frame(0)
    before = trace.frame(trace.step_at(0.9))
    assert before["partitions"][0][2:4] == [1, 0] and {node["state"] for node in before["nodes"]} == {"running"}
    after = trace.frame(trace.step_at(1.15))
    assert after["partitions"][0][2:4] == [2, 1]
    assert next(node for node in after["nodes"] if node["id"] == 1)["state"] == "killed"
    assert "node 1 power cut: for 3.5 s" in [entry["text"] for entry in after["timeline"]]
    last = trace.frame(10_000)
    assert last["step"] == len(trace) and last["groups"][0]["offsets"] == [["orders", 0, 3, None]]
    assert "power cut has ended" in [entry["text"] for entry in last["timeline"]]


def test_where_to_stop() -> None:
    summary = playback().summary()
    assert summary["steps"] == len(LINES) and summary["seed"] == 7 and summary["seconds"] == 4.7
    assert [step for step, *_ in summary["notable"]] == [1, 2, 25, 26, 27, 29]


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([], "empty"),
        (["{"], "line 1 is not JSON"),
        (["[]"], "line 1 is not a line of a trace"),
        (["[" * 100_000], "line 1 is not JSON: nested too deeply"),
        ([json.dumps(SEED | {"t": "soon"})], "line 1 is not a line of a trace"),
        ([json.dumps(SEED | {"t": float("nan")})], "line 1 is not a line of a trace"),
        ([json.dumps(SEED | {"event": ["seed"]})], "line 1 is not a line of a trace"),
        ([json.dumps(LINES[1])], "seed"),
        ([json.dumps(SEED | {"format": 2})], "format 2"),
    ],
)
def test_a_file_without_a_trace_is_refused(lines: list[str], complaint: str) -> None:
    with pytest.raises(BadTrace, match=complaint):
        Playback(lines)


def test_a_line_with_a_missing_field_is_named() -> None:
    trace = Playback([json.dumps(SEED), json.dumps({"t": 1, "source": "replica", "event": "moved", "topic": "x"})])
    with pytest.raises(BadTrace, match="line 2"):
        trace.frame(2)
