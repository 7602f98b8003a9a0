"""What a decision asks of the shell around it: answer a request, set a timer, tell of something, append records.

A request is known here by a `token` the shell made up. JoinGroup and SyncGroup are answered long after they came, by
whatever completes them; a token is answered exactly once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from tidelog.coordinator.member import Member, Token
from tidelog.coordinator.offsets_records import KeyValue
from tidelog.core.event import Event
from tidelog.wire.errors import ErrorCode

# Any response class of wire.messages; the shell hands it to whoever asked.
Response = object
Refusal = Callable[[ErrorCode], Response]


class TimerKind(Enum):
    HEARTBEAT = "heartbeat"  # a member's session, or a new member's wait for its first generation
    JOIN = "join"  # a group's join phase
    SYNC = "sync"  # a group's sync phase
    EXPIRATION = "expiration"  # the shard's next look for expired offsets


class TimerKey(NamedTuple):
    kind: TimerKind
    group_id: str = ""
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class Respond:
    token: Token
    response: Response


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Starts the timer of this key, in place of one that runs under it."""

    key: TimerKey
    delay_ms: int


@dataclass(frozen=True, slots=True)
class CancelTimer:
    key: TimerKey


@dataclass(frozen=True, slots=True)
class Tell:
    """For whoever listens to the node."""

    event: Event


Effect = Respond | StartTimer | CancelTimer | Tell


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the token to answer, and what the request header and the connection tell."""

    token: Token
    api_version: int
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Once committed, this response; if not, the refusal made from the error."""

    token: Token
    response: Response
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class AssignmentStored:
    """Once committed, the generation's members get their assignments and the group is Stable."""

    group_id: str
    generation_id: int
    assignments: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class StaticMemberStored:
    """Once committed, a static member that came back under a new id hears of the generation it is part of."""

    group_id: str
    generation_id: int
    before: Member
    new_member_id: str
    leader_before: str | None
    api_version: int
    token: Token


@dataclass(frozen=True, slots=True)
class GroupDeleted:
    """Once committed, the group is gone; until then it is Dead."""

    group_id: str
    empty_since_ms: int | None


@dataclass(frozen=True, slots=True)
class AnswerWhenSettled:
    """A reader that wants to see the writes before it: answered when they are committed or refused."""

    token: Token
    answer: Callable[[], Response]
    refusal: Refusal


Outcome = Answer | AssignmentStored | StaticMemberStored | GroupDeleted | AnswerWhenSettled


@dataclass(frozen=True, slots=True)
class Append:
    """Records that go into the log as one batch. The shell settles tickets in the order they were given out."""

    ticket: int
    records: tuple[KeyValue, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """Effects to carry out at once, in order, and at most one batch to append."""

    effects: tuple[Effect, ...] = ()
    append: Append | None = None


@dataclass(slots=True)
class Turn:
    """A decision in the making. Invariant: outcomes only wait for records of the same turn."""

    now_ms: int
    effects: list[Effect] = field(default_factory=list)
    records: list[KeyValue] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)

    def respond(self, token: Token, response: Response) -> None:
        self.effects.append(Respond(token, response))

    def start_timer(self, key: TimerKey, delay_ms: int) -> None:
        self.effects.append(StartTimer(key, delay_ms))

    def cancel_timer(self, key: TimerKey) -> None:
        self.effects.append(CancelTimer(key))

    def tell(self, event: Event) -> None:
        self.effects.append(Tell(event))

    def respond_when_stored(self, token: Token, response: Response, refusal: Refusal) -> None:
        """Answers once this turn's records are committed; at once when it has none."""
        if self.records:
            self.outcomes.append(Answer(token, response, refusal))
        else:
            self.respond(token, response)
