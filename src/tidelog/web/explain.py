"""Explains each event and fault in one sentence, with the numbers of the rules behind it.

docs/internals/behaviours.md defines the rules. `core/events.py` defines the text of each event.
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
            "No member of the ISR or the ELR is alive, and the topic does not allow an unclean leader. The partition "
            "is offline until one of them returns.",
            ("C3", "C5"),
            "error",
        )
    return Reason(
        "election",
        "The controller picks the first live ISR member in assignment order and raises the leader epoch by one.",
        ("C3",),
    )


def _isr_changed(told: Told) -> Reason:
    if len(told["new_isr"]) < len(told["old_isr"]):
        return Reason(
            "isr",
            "A replica leaves the ISR when its broker is fenced, or when it has lagged for replica.lag.time.max.ms. "
            "The high watermark no longer waits for it.",
            ("I1", "I2"),
            "warning",
        )
    return Reason(
        "isr",
        "A follower joins the ISR when it has reached the high watermark and the start of the leader epoch. From then "
        "on, a record is committed only after this follower has it.",
        ("I3",),
    )


def _quorum(told: Told) -> Reason:
    if told["leader"] < 0:
        return Reason(
            "quorum", "Without a quorum leader no metadata changes: no election, no new topic.", ("Q5",), "warning"
        )
    return Reason("quorum", "A majority of the voters elected a node whose metadata log is complete.", ("Q2", "Q3"))


_EVENTS: Final[Mapping[str, Reason | Callable[[Told], Reason]]] = {
    "leader_elected": _elected,
    "unclean_leader_elected": Reason(
        "election",
        "No eligible replica is alive, and the topic allows an unclean leader. Records that it lacks are lost.",
        ("C3", "C6"),
        "error",
    ),
    "leadership_taken": Reason(
        "election", "A new leader truncates nothing. Its epoch begins at its log end offset.", ("E4",)
    ),
    "unclean_leader_started": Reason(
        "election",
        "New records reuse offsets from here on. The ISR does not grow until this leader has recovered.",
        ("C6",),
        "error",
    ),
    "isr_changed": _isr_changed,
    "isr_change_refused": Reason(
        "isr",
        "The controller decides on newer metadata. Until that metadata arrives, this leader uses the larger ISR.",
        ("I5", "C4"),
        "warning",
    ),
    "log_truncated": Reason(
        "truncation",
        "A follower truncates its log where it diverges from the leader's log, never below its high watermark. The "
        "removed records were never committed.",
        ("E3",),
        "warning",
    ),
    "committed_records_lost": Reason(
        "truncation",
        "After an unclean election the new leader's log wins, even over committed records.",
        ("C6",),
        "error",
    ),
    "log_recovered": Reason(
        "node",
        "Writes do not wait for the disk. After a crash the log ends with its last complete batch.",
        ("W4", "W6"),
    ),
    "log_directory_offline": Reason(
        "fault",
        "A failed log directory takes only its own partitions offline. Other replicas become their leaders.",
        ("C10",),
        "error",
    ),
    "broker_registered": Reason(
        "node", "Each broker process gets a new broker epoch when it registers, and starts fenced.", ("C2",)
    ),
    "broker_fenced": Reason(
        "node",
        "A broker that refuses connections is fenced at once. A broker that is only silent is fenced after "
        "broker.session.timeout.ms.",
        ("C2",),
        "warning",
    ),
    "broker_unfenced": Reason(
        "node", "The broker has replayed the metadata log up to its own registration. It may lead again.", ("C2",)
    ),
    "broker_shutting_down": Reason(
        "node", "A controlled shutdown moves leadership to other brokers before the broker stops.", ("C9",)
    ),
    "quorum_leader_changed": _quorum,
    "controller_activated": Reason(
        "quorum",
        "The quorum leader is the active controller. It answers a request after its decision commits.",
        ("C1",),
    ),
    "controller_resigned": Reason(
        "quorum", "A quorum leader that cannot reach a majority resigns.", ("Q3",), "warning"
    ),
    "group_rebalanced": Reason(
        "group", "Members joined or left. The group assigns its partitions again, in a new generation."
    ),
    "group_member_removed": Reason(
        "group",
        "The other members take its partitions. Offset commits from this member are rejected.",
        severity="warning",
    ),
    "topic_created": Reason("topic", "The controller spreads replicas and leaders evenly over the brokers.", ("C11",)),
    "topic_deleted": Reason("topic", "Every broker removes its logs of this topic.", ("C1",)),
}


def reason_of(event: Told) -> Reason | None:
    """Explains an event, or returns None for an event that the timeline leaves out."""
    found = _EVENTS.get(event["event"])
    return found(event) if callable(found) else found


STALLED: Final = Reason(
    "stall",
    "A record is committed only after every ISR member has it. One member lags, and leaves the ISR only after "
    "replica.lag.time.max.ms.",
    ("W1", "I1"),
    "warning",
)
STALLED_BELOW_MIN_ISR: Final = Reason(
    "stall",
    "The ISR is smaller than min.insync.replicas. The high watermark cannot move, and acks=all writes are refused.",
    ("W1", "P2"),
    "error",
)
MOVES_AGAIN: Final = Reason("stall", "Every ISR member has the records, so they are committed.", ("W1",))

DROPPED: Final = Reason(
    "node", "The node produced events faster than this page reads them. A broker does not wait for its watchers."
)

# By the state of the node's process, which the supervisor reports.
NODE_STATES: Final[Mapping[str, Reason]] = {
    "starting": Reason("node", "A new process never leads in an epoch that its predecessor led.", ("E6", "C2")),
    "running": Reason(
        "node",
        "The node serves requests. Its replicas compare their logs with their leaders' logs and then catch up.",
        ("E3", "I3"),
    ),
    "paused": Reason(
        "fault",
        "Its connections stay open but silent. The ISR shrinks after the lag time, and the controller fences the "
        "broker when its session times out.",
        ("I1", "C2"),
        "warning",
    ),
    "stopping": Reason("node", "The node moves leadership to other brokers before it stops.", ("C9",)),
    "stopped": Reason("node", "The shutdown was clean: the logs are flushed and marked clean.", ("C9", "C5")),
    "killed": Reason(
        "fault",
        "The process ended without a flush. Its port refuses connections, so the controller fences it at once.",
        ("C2", "C3"),
        "error",
    ),
    "crashed": Reason("fault", "The process ended unexpectedly. Its log file shows the reason.", ("C2",), "error"),
}
ISOLATED: Final = Reason(
    "fault",
    "The network between this node and the others drops every byte. Its replicas leave their ISRs after the lag time, "
    "and other brokers take over its leaderships.",
    ("I1", "C2", "E5"),
    "warning",
)
SLOWED: Final = Reason(
    "fault",
    "Lag is measured in time, not in records. A slow follower stays in the ISR if it catches up now and then.",
    ("I1",),
    "warning",
)
HEALED: Final = Reason(
    "fault", "Followers compare leader epochs, truncate where their logs diverge, and catch up.", ("E3", "I3")
)
