"""Why an event or a fault happens, in a sentence, with the numbers of the rules behind it.

The rules stand in docs/internals/behaviours.md; the words of an event are its own (`core/events.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Reason:
    """`kind` sorts the timeline: election, isr, stall, fault, truncation, quorum, node, topic, group."""

    kind: str
    why: str
    rules: tuple[str, ...] = ()
    severity: str = "info"


Told = Mapping[str, Any]


def _elected(told: Told) -> Reason:
    if told["leader"] < 0:
        return Reason(
            "election",
            "Nobody that is in the ISR or the ELR is alive, and an unclean leader is not allowed: the partition waits.",
            ("C3", "C5"),
            "error",
        )
    return Reason(
        "election",
        "The first member of the ISR in assignment order whose broker is alive leads, in an epoch one higher.",
        ("C3",),
    )


def _isr_changed(told: Told) -> Reason:
    if len(told["new_isr"]) < len(told["old_isr"]):
        return Reason(
            "isr",
            "A replica whose broker is fenced, or that has not had everything for replica.lag.time.max.ms, leaves: the "
            "high watermark no longer waits for it.",
            ("I1", "I2"),
            "warning",
        )
    return Reason(
        "isr",
        "A follower joins when it has reached the high watermark and the start of the leader's epoch; from then on "
        "nothing is committed without it.",
        ("I3",),
    )


def _quorum(told: Told) -> Reason:
    if told["leader"] < 0:
        return Reason("quorum", "Without a leader of the metadata quorum nothing is decided.", ("Q5",), "warning")
    return Reason("quorum", "A majority of the voters chose the log that is at least as complete.", ("Q2", "Q3"))


_EVENTS: Final[Mapping[str, Reason | Callable[[Told], Reason]]] = {
    "leader_elected": _elected,
    "unclean_leader_elected": Reason(
        "election",
        "Nobody eligible is alive, and the topic allows any replica to lead: what only the others had is lost.",
        ("C3", "C6"),
        "error",
    ),
    "leadership_taken": Reason(
        "election", "A new leader truncates nothing: its epoch begins at the end of its log.", ("E4",)
    ),
    "unclean_leader_started": Reason(
        "election",
        "Offsets from here on are given anew, and the ISR does not grow until it has recovered.",
        ("C6",),
        "error",
    ),
    "isr_changed": _isr_changed,
    "isr_change_refused": Reason(
        "isr",
        "The controller decides by the newest metadata; until that arrives here the larger set counts.",
        ("I5", "C4"),
        "warning",
    ),
    "log_truncated": Reason(
        "truncation",
        "A follower cuts its log where it differs from the leader's, never at its high watermark: what is cut was "
        "never committed.",
        ("E3",),
        "warning",
    ),
    "committed_records_lost": Reason(
        "truncation",
        "After an unclean election even committed records give way to the new leader's log.",
        ("C6",),
        "error",
    ),
    "log_recovered": Reason(
        "node", "No write waits for the disk: after a crash the log ends with its last whole batch.", ("W4", "W6")
    ),
    "log_directory_offline": Reason(
        "fault", "A failed directory takes only its own partitions offline; their leadership moves.", ("C10",), "error"
    ),
    "broker_registered": Reason(
        "node", "Every process of a broker gets a broker epoch of its own and starts fenced.", ("C2",)
    ),
    "broker_fenced": Reason(
        "node",
        "A broker whose connections broke and that refuses new ones is fenced at once, one that is only silent after "
        "broker.session.timeout.ms.",
        ("C2",),
        "warning",
    ),
    "broker_unfenced": Reason(
        "node", "It has replayed the metadata as far as its own registration: it may lead.", ("C2",)
    ),
    "broker_shutting_down": Reason(
        "node", "A controlled shutdown moves leadership away before the broker stops.", ("C9",)
    ),
    "quorum_leader_changed": _quorum,
    "controller_activated": Reason(
        "quorum", "The leader of the quorum decides alone; it answers after commit.", ("C1",)
    ),
    "controller_resigned": Reason("quorum", "A leader without a majority resigns.", ("Q3",), "warning"),
    "group_rebalanced": Reason(
        "group", "Members came or went: the partitions are shared out anew, under a generation one higher."
    ),
    "group_member_removed": Reason(
        "group", "Its partitions go to the others; what it commits from now on is refused.", severity="warning"
    ),
    "topic_created": Reason("topic", "Replicas are spread over the brokers, leaders are balanced.", ("C11",)),
    "topic_deleted": Reason("topic", "Its logs are removed everywhere.", ("C1",)),
}


def reason_of(event: Told) -> Reason | None:
    """Why; None of events that are not for the timeline."""
    found = _EVENTS.get(event["event"])
    return found(event) if callable(found) else found


STALLED: Final = Reason(
    "stall",
    "Nothing is committed before every member of the ISR has it: one of them is behind, and leaves the ISR only after "
    "replica.lag.time.max.ms.",
    ("W1", "I1"),
    "warning",
)
STALLED_BELOW_MIN_ISR: Final = Reason(
    "stall",
    "The ISR is below min.insync.replicas: the high watermark stands still, and acks=all is refused.",
    ("W1", "P2"),
    "error",
)
MOVES_AGAIN: Final = Reason("stall", "Everyone in the ISR has it: it is committed.", ("W1",))

DROPPED: Final = Reason("node", "They came faster than they were read here: a broker waits for nobody who watches.")

# Of a node's process, as its supervisor tells it.
NODE_STATES: Final[Mapping[str, Reason]] = {
    "starting": Reason("node", "A new process never goes on leading in the epoch of the one before it.", ("E6", "C2")),
    "running": Reason(
        "node", "It serves: its followers' logs are compared with their leaders', then it catches up.", ("E3", "I3")
    ),
    "paused": Reason(
        "fault",
        "Its connections stay open and silent: the ISR shrinks by time, the broker is fenced when its session ends.",
        ("I1", "C2"),
        "warning",
    ),
    "stopping": Reason("node", "It gives leadership away first.", ("C9",)),
    "stopped": Reason("node", "It has left in order: its logs are flushed and marked clean.", ("C9", "C5")),
    "killed": Reason(
        "fault",
        "No flush and no goodbye: its connections are refused, so the controller fences it at once.",
        ("C2", "C3"),
        "error",
    ),
    "crashed": Reason("fault", "The process ended by itself.", ("C2",), "error"),
}
ISOLATED: Final = Reason(
    "fault",
    "Bytes between it and others stop silently: it leaves ISRs by time, and what it leads goes to others.",
    ("I1", "C2", "E5"),
    "warning",
)
SLOWED: Final = Reason(
    "fault",
    "Lag is time and not a count: a late follower stays in the ISR while it has everything from time to time.",
    ("I1",),
    "warning",
)
HEALED: Final = Reason(
    "fault", "Logs are compared by epochs, cut where they differ, and followers catch up.", ("E3", "I3")
)
