"""What a button did, in one sentence, for the cluster as it stood when it was pressed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidelog.web.board import Board

VERBS: Final = ("kill", "stop", "start", "pause", "resume", "isolate", "slow", "heal")
MOST_SLOW_MS: Final = 60_000


class BadCommand(ValueError):
    """What was asked for makes no sense; one line for whoever asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A button that was pressed."""

    verb: str
    node: int | None = None
    ms: int | None = None

    @classmethod
    def parse(cls, asked: Any) -> "Command":
        """From the body of a request."""
        if not isinstance(asked, dict) or asked.get("command") not in VERBS:
            raise BadCommand(f"a command is one of {', '.join(VERBS)}")
        verb = asked["command"]
        node, ms = asked.get("node"), asked.get("ms")
        if verb != "heal" and not _is_number(node, 0, 2**31):
            raise BadCommand(f"{verb} wants the id of a node")
        if verb == "slow" and not _is_number(ms, 0, MOST_SLOW_MS):
            raise BadCommand(f"slow wants 0 to {MOST_SLOW_MS} ms")
        return cls(verb=verb, node=None if verb == "heal" else node, ms=ms if verb == "slow" else None)

    def request(self) -> dict[str, Any]:
        """For the supervisor."""
        asked = {"command": self.verb, "node": self.node, "ms": self.ms}
        return {name: value for name, value in asked.items() if value is not None}


def _is_number(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The sentence and the rules it stands on."""

    text: str
    rules: tuple[str, ...]


def outcome(command: Command, board: Board) -> Outcome:
    text, rules = _SENTENCES[command.verb](command, board)
    return Outcome(text=text, rules=rules)


Sentence = tuple[str, tuple[str, ...]]


def _kill(command: Command, board: Board) -> Sentence:
    led = _led(board, command.node)
    if not led:
        return (
            f"Node {command.node} was killed; it led nothing, so only ISRs shrink, without waiting for the lag time.",
            ("C2", "I2"),
        )
    return (
        f"Node {command.node} was killed: its connections are refused, the controller fences it at once, and what it "
        f"led ({led}) goes to the first living member of each ISR in assignment order, where there is one, in a new "
        "leader epoch.",
        ("C2", "C3", "E4"),
    )


def _stop(command: Command, board: Board) -> Sentence:
    led = _led(board, command.node)
    given = f"it gave what it led ({led}) away before it went" if led else "it led nothing"
    return f"Node {command.node} stopped in order: {given}, and no acknowledged write failed for it.", ("C9",)


def _start(command: Command, _: Board) -> Sentence:
    return (
        f"Node {command.node} registered as a new process; it follows, cuts what differs from the leaders' logs, and "
        "joins the ISR when it has caught up to the high watermark and the start of the epoch.",
        ("E6", "E3", "I3"),
    )


def _pause(command: Command, board: Board) -> Sentence:
    led = _led(board, command.node)
    waits = f", and what it leads ({led}) waits until its session ends" if led else ""
    return (
        f"Node {command.node} is frozen with its connections open: while it is in an ISR the high watermark of that "
        f"partition stands still{waits}.",
        ("W1", "I1", "C2"),
    )


def _resume(command: Command, _: Board) -> Sentence:
    return (
        f"Node {command.node} goes on; if it was deposed meanwhile, its epoch is refused everywhere and it cuts what "
        "was never committed.",
        ("E5", "E3"),
    )


def _isolate(command: Command, board: Board) -> Sentence:
    led = _led(board, command.node)
    leads = f"; what it leads ({led}) it leads on for a while, but alone it commits nothing" if led else ""
    return (
        f"Node {command.node} and the others do not hear each other any more, while clients still reach it{leads}.",
        ("W1", "I1", "E5"),
    )


def _slow(command: Command, _: Board) -> Sentence:
    if not command.ms:
        return f"What node {command.node} says arrives in time again.", ("I1",)
    return (
        f"What node {command.node} says to the others arrives {command.ms} ms late: acks=all waits that much longer "
        "where it is in the ISR, and it stays there, since lag is a time and not a count.",
        ("W1", "I1"),
    )


def _heal(_: Command, __: Board) -> Sentence:
    return (
        "All nodes hear each other: followers compare epochs with their leaders, cut what differs, and join again when "
        "they have caught up.",
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
    """How much a node leads, in words; empty for nothing."""
    count = sum(partition.leader == node for partition in board.partitions)
    return "" if not count else "1 partition" if count == 1 else f"{count} partitions"
