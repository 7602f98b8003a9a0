"""Parses the command of a button, and describes its effect in one sentence."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidelog.web.board import Board

VERBS: Final = ("kill", "stop", "start", "pause", "resume", "isolate", "slow", "heal")
MOST_SLOW_MS: Final = 60_000


class BadCommand(ValueError):
    """The request is not a valid command; the message is one line for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The command of a button."""

    verb: str
    node: int | None = None
    ms: int | None = None

    @classmethod
    def parse(cls, asked: Any) -> "Command":
        """Reads the body of a request."""
        if not isinstance(asked, dict) or asked.get("command") not in VERBS:
            raise BadCommand(f"unknown command: expected one of {', '.join(VERBS)}")
        verb = asked["command"]
        node, ms = asked.get("node"), asked.get("ms")
        if verb != "heal" and not _is_number(node, 0, 2**31):
            raise BadCommand(f"{verb} needs the id of a node")
        if verb == "slow" and not _is_number(ms, 0, MOST_SLOW_MS):
            raise BadCommand(f"slow needs a delay of 0 to {MOST_SLOW_MS} ms")
        return cls(verb=verb, node=None if verb == "heal" else node, ms=ms if verb == "slow" else None)

    def request(self) -> dict[str, Any]:
        """The request to the supervisor."""
        asked = {"command": self.verb, "node": self.node, "ms": self.ms}
        return {name: value for name, value in asked.items() if value is not None}


def _is_number(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The sentence and the numbers of the rules behind it."""

    text: str
    rules: tuple[str, ...]


def outcome(command: Command, board: Board) -> Outcome:
    """Describes the command's effect. Call it before the command runs: a killed node leads nothing."""
    text, rules = _SENTENCES[command.verb](command, board)
    return Outcome(text=text, rules=rules)


Sentence = tuple[str, tuple[str, ...]]


def _kill(command: Command, board: Board) -> Sentence:
    led = _led(board, command.node)
    if not led:
        return (
            f"Node {command.node} was killed. It led no partition, so nothing is elected. It leaves its ISRs at once.",
            ("C2", "I2"),
        )
    return (
        f"Node {command.node} was killed while it led {led}. Its port refuses connections, so the controller fences it "
        "at once. The first live ISR member of each partition becomes leader, in a new leader epoch.",
        ("C2", "C3", "E4"),
    )


def _stop(command: Command, board: Board) -> Sentence:
    led = _led(board, command.node)
    moved = f" It moved {led} to other leaders first." if led else " It led no partition."
    return f"Node {command.node} shut down cleanly.{moved} No acknowledged write is at risk.", ("C9",)


def _start(command: Command, _: Board) -> Sentence:
    return (
        f"Node {command.node} started and registered. Its replicas follow, truncate where they diverge from their "
        "leaders, and join the ISR when they have caught up.",
        ("E6", "E3", "I3"),
    )


def _pause(command: Command, board: Board) -> Sentence:
    led = _led(board, command.node)
    waits = f" It leads {led}; they stall until its session times out." if led else ""
    return (
        f"Node {command.node} is paused with its connections open. The high watermark of a partition cannot move while "
        f"this node is in its ISR.{waits}",
        ("W1", "I1", "C2"),
    )


def _resume(command: Command, _: Board) -> Sentence:
    return (
        f"Node {command.node} runs again. If another leader took over, this node's old epoch is fenced and it "
        "truncates records that were never committed.",
        ("E5", "E3"),
    )


def _isolate(command: Command, board: Board) -> Sentence:
    led = _led(board, command.node)
    leads = f" It still leads {led} for a while, but commits nothing alone." if led else ""
    return (
        f"Node {command.node} is cut off from the other nodes. Clients still reach it.{leads}",
        ("W1", "I1", "E5"),
    )


def _slow(command: Command, _: Board) -> Sentence:
    if not command.ms:
        return f"Node {command.node} sends to the other nodes without delay again.", ("I1",)
    return (
        f"Node {command.node} reaches the other nodes {command.ms} ms late. Writes with acks=all take that much longer "
        "where it is in the ISR. It stays in the ISR, because lag is measured in time and not in records.",
        ("W1", "I1"),
    )


def _heal(_: Command, __: Board) -> Sentence:
    return (
        "All nodes reach each other again. Followers truncate where they diverge from their leaders, catch up, and "
        "join the ISR again.",
        ("E3", "I3"),
    )


_SENTENCES: Final[Mapping[str, Callable[[Command, Board], Sentence]]] = {
    "kill": _kill,
    "stop": _stop,
    "start": _start,
    "pause": _pause,
    "resume": _resume,
    "isolate": _isolate,
    "slow": _slow,
    "heal": _heal,
}


def _led(board: Board, node: int | None) -> str:
    """The number of partitions that a node leads, in words; empty for none."""
    count = sum(partition.leader == node for partition in board.partitions)
    return "" if not count else "1 partition" if count == 1 else f"{count} partitions"
