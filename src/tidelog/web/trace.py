"""Plays a trace of `tidelog sim` (docs/trace.md): one state of the board for each line, forward and back."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from tidelog.web.board import Board, NodeRow, Partition, Replica
from tidelog.web.explain import NODE_STATES, Reason
from tidelog.web.stalls import Stalls, moves_again
from tidelog.web.timeline import Timeline
from tidelog.web.words import in_words

FORMAT: Final = 1
MOST_BYTES: Final = 64 * 1024 * 1024
# One state is kept every so many lines; a step back replays at most that many.
EVERY: Final = 512
# Events of faults that had no effect, or none yet.
_NOTHING_STRUCK: Final = ("skipped", "armed", "missed", "asked")


class BadTrace(ValueError):
    """The file is not a trace, or has an unknown format."""


class Folding:
    """Applies the lines of a trace to a board, one `line` at a time."""

    def __init__(self) -> None:
        self.board = Board()
        self._timeline = Timeline(self.board)
        self._stalls = Stalls()
        self._groups: dict[str, dict[tuple[str, int], int]] = {}
        # The kinds of faults by number: the end of a fault names only its number.
        self._faults: dict[int, str] = {}

    def copy(self) -> "Folding":
        twin = Folding()
        twin.board = self.board.copy()
        twin._timeline = self._timeline.copy(twin.board)
        twin._stalls = self._stalls.copy()
        twin._faults = dict(self._faults)
        twin._groups = {group: dict(offsets) for group, offsets in self._groups.items()}
        return twin

    def line(self, told: Mapping[str, Any]) -> None:
        now_ms = round(told["t"] * 1000)
        self.board.now_ms = now_ms
        self._stalls.tick(self.board, self._timeline, now_ms)
        source = told["source"]
        if source == "node":
            self._node(told, now_ms)
        elif source == "replica":
            self._replica(told, now_ms)
        elif source == "metadata" and "partition" in told:
            self._metadata(told)
        elif told["event"] == "snapshot_fetched":
            # It covers all metadata, so it has no partition. Written snapshots are too frequent to list.
            self._timeline.say(in_words(told), Reason("quorum", "", ("Q6",)), now_ms, node=told.get("node"))
        elif source == "fault":
            self._fault(told, now_ms)
        elif source == "run":
            self._run(told, now_ms)
        elif told["event"] == "committed":
            self._committed(told)

    def _run(self, told: Mapping[str, Any], now_ms: int) -> None:
        for node, roles in told.get("roles", {}).items():
            self.board.put_node(NodeRow(id=int(node), roles=tuple(roles.split(",")), state="running", heard=True))
        severity = "error" if told["event"] == "broken" else "info"
        text = in_words(told) if told["event"] in ("broken", "seed") else f"run: {in_words(told)}"
        self._timeline.say(text, Reason("node", "", (), severity), now_ms)

    def _node(self, told: Mapping[str, Any], now_ms: int) -> None:
        node, event = told["node"], told["event"]
        row = self.board.node(node)
        if event == "quorum_leader_changed":
            role = "leader" if told["leader"] == node else "follower"
            self.board.put_node(
                replace(row, quorum_leader=told["leader"], quorum_epoch=told["epoch"], quorum_role=role)
            )
        elif event in ("broker_fenced", "broker_unfenced", "broker_registered"):
            standing = "unfenced" if event == "broker_unfenced" else "fenced"
            broker = self.board.node(told["broker_id"])
            self.board.put_node(replace(broker, standing=standing, broker_epoch=told["broker_epoch"]))
        elif event == "topic_deleted":
            for key in [each.key for each in self.board.partitions if each.topic == told["topic"]]:
                self.board.remove_partition(key)
        self._timeline.event(told, node, now_ms, in_words(told))

    def _fault(self, told: Mapping[str, Any], now_ms: int) -> None:
        event = told["event"]
        if event in ("exit", "start"):
            state = "running" if event == "start" else "stopped" if told["end"] == "returned" else "killed"
            row = self.board.node(told["node"])
            self.board.put_node(replace(row, state=state, heard=event == "start", quorum_role=""))
            words = "starts" if event == "start" else f"ends: {told['end']}"
            self._timeline.say(f"node {told['node']} {words}", NODE_STATES[state], now_ms, node=told["node"])
        elif event == "end":
            kind = self._faults.pop(told["number"], f"fault {told['number']}")
            self._timeline.say(f"{kind} has ended", Reason("fault", ""), now_ms)
        elif event not in _NOTHING_STRUCK:
            if "number" in told:
                self._faults[told["number"]] = event.replace("_", " ")
            self._timeline.say(in_words(told), Reason("fault", "", (), "warning"), now_ms, node=told.get("node"))

    def _metadata(self, told: Mapping[str, Any]) -> None:
        known = self._partition(told)
        replicas = tuple(told["replicas"])
        # A node outside the assignment has no replica.
        held = {node: replica for node, replica in known.held.items() if node in replicas}
        changed = known._replace(replicas=replicas, isr=tuple(told["isr"]), elr=tuple(told["elr"]), held=held)
        if "leader" in told:
            changed = changed._replace(
                leader=told["leader"], leader_epoch=told["epoch"], recovering=told["event"] == "unclean"
            )
        self.board.put_partition(changed)

    def _replica(self, told: Mapping[str, Any], now_ms: int) -> None:
        known = self._partition(told)
        replica = Replica(
            role=told["role"] or "none",
            leader_epoch=told["leader_epoch"],
            log_start_offset=told["log_start_offset"],
            high_watermark=told["high_watermark"],
            last_stable_offset=told["high_watermark"],
            log_end_offset=told["log_end_offset"],
        )
        partition = self._stalls.look(known._replace(held={**known.held, told["node"]: replica}), now_ms)
        moves_again(known, partition, self._timeline, now_ms)
        self.board.put_partition(partition)

    def _committed(self, told: Mapping[str, Any]) -> None:
        offsets = self._groups.setdefault(told["group"], {})
        offsets[told["topic"], told["partition"]] = told["offset"]
        self.board.put_groups(
            {
                group: {
                    "id": group,
                    "state": "",
                    "members": None,
                    "offsets": [[*key, offset, None] for key, offset in sorted(each.items())],
                }
                for group, each in self._groups.items()
            }
        )

    def _partition(self, told: Mapping[str, Any]) -> Partition:
        key = told["topic"], told["partition"]
        return self.board.partitions.get(key) or Partition(topic=key[0], number=key[1])


class Playback:
    """A whole trace. Step 0 is the state before the first line, step `len` the state after the last."""

    def __init__(self, lines: Iterable[bytes | str]) -> None:
        self._lines: list[dict[str, Any]] = []
        for number, line in enumerate(lines, 1):
            if line.strip():
                self._lines.append(_parsed(line, number))
        if not self._lines:
            raise BadTrace("the trace is empty")
        first = self._lines[0]
        if (first["source"], first["event"]) != ("run", "seed"):
            raise BadTrace("this is not a trace of `tidelog sim`: the first line does not name the seed")
        if first.get("format") != FORMAT:
            raise BadTrace(f"the trace has format {first.get('format')}, but this version reads format {FORMAT}")
        self._kept: dict[int, Folding] = {0: Folding()}
        # The last requested state; the next step continues from it.
        self._at, self._folding = 0, Folding()

    def __len__(self) -> int:
        return len(self._lines)

    def summary(self) -> dict[str, Any]:
        """The data of the slider: the time and kind of each notable step."""
        notable = [
            [step, line["t"], line["source"], line["event"]]
            for step, line in enumerate(self._lines, 1)
            if is_notable(line)
        ]
        first = self._lines[0]
        return {
            "steps": len(self),
            "seed": first.get("seed"),
            "profiles": first.get("profiles", []),
            "seconds": self._lines[-1]["t"],
            "notable": notable,
        }

    def frame(self, step: int) -> dict[str, Any]:
        """The state after `step` lines, and the last of these lines."""
        step = min(max(step, 0), len(self))
        self._go_to(step)
        line = self._lines[step - 1] if step else None
        return {
            **self._folding.board.changes(0),
            "step": step,
            "line": line,
            "words": "before the first line" if line is None else in_words(line),
        }

    def step_at(self, seconds: float) -> int:
        """The last step up to this time."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._lines[middle]["t"] <= seconds:
                low = middle + 1
            else:
                high = middle
        return low

    def _go_to(self, step: int) -> None:
        nearest = max(kept for kept in self._kept if kept <= step)
        if not nearest <= self._at <= step:
            self._at, self._folding = nearest, self._kept[nearest].copy()
        while self._at < step:
            try:
                self._folding.line(self._lines[self._at])
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise BadTrace(f"line {self._at + 1} is not a line of a trace: {error!r}") from error
            self._at += 1
            if self._at % EVERY == 0 and self._at not in self._kept:
                self._kept[self._at] = self._folding.copy()


def _parsed(line: bytes | str, number: int) -> dict[str, Any]:
    try:
        told = json.loads(line)
    except ValueError as error:
        raise BadTrace(f"line {number} is not JSON: {error}") from error
    except RecursionError as error:
        raise BadTrace(f"line {number} is not JSON: nested too deeply") from error
    if not isinstance(told, dict) or not {"t", "source", "event"} <= told.keys():
        raise BadTrace(f"line {number} is not a line of a trace: t, source or event is missing")
    if type(told["t"]) not in (int, float) or not math.isfinite(told["t"]):
        raise BadTrace(f"line {number} is not a line of a trace: t must be a number of seconds")
    if not isinstance(told["source"], str) or not isinstance(told["event"], str):
        raise BadTrace(f"line {number} is not a line of a trace: source and event must be strings")
    return told


def is_notable(line: Mapping[str, Any]) -> bool:
    """Whether the player stops at this line. It skips moving offsets and records that are read."""
    if line["source"] in ("metadata", "run"):
        return True
    if line["source"] == "fault":
        return line["event"] not in _NOTHING_STRUCK
    return line["source"] == "node" and line["event"] not in (
        "following_started",
        "logs_loading",
        "isr_change_proposed",
    )
