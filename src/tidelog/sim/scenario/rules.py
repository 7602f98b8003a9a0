"""The numbered rules in one plain sentence each, for readers of a story.

`docs/internals/behaviours.md` has the full text; a test keeps the numbers equal.
"""

import re
from collections.abc import Iterable
from typing import Final

# As (W2) or (W2, I3), in a comment.
_CITED: Final = re.compile(r"\(([A-Z]\d+(?:, [A-Z]\d+)*)\)")

RULES: Final = {
    "P1": "A producer requests 0, 1 or all acknowledgements; with 0 it never gets a response.",
    "P2": "The leader rejects an acks=all write, without writing it, while the ISR is below min.insync.replicas.",
    "P3": "An acks=all write waits until the high watermark passes it; the high watermark's advance completes it.",
    "P4": "A partition remembers the last batches of each idempotent producer, so a retried batch is not "
    "written twice.",
    "P5": "The leader checks a batch by its header before the append; it decodes records only if the topic needs it.",
    "P6": "A broker that does not lead the partition rejects the write and returns the leader's address.",
    "F1": "Consumers read below the high watermark, followers up to the end of the leader's log.",
    "F2": "A leader learns a follower's progress only from the offset that the follower fetches next.",
    "F3": "A fetch waits for enough bytes, a new high watermark, or its time limit; nothing polls.",
    "F4": "Batches are sent whole; the first one is sent even if it exceeds every limit.",
    "F5": "A fetch with another leader epoch is rejected; a diverging follower gets the divergence point and "
    "no records.",
    "F6": "A follower below the leader's log restarts at the leader's log start; a follower above its end truncates.",
    "F7": "In a fetch session, requests and responses contain only changed partitions.",
    "W1": "The high watermark is the smallest log end of all in-sync replicas; it stops while they are too few.",
    "W2": "A leader's high watermark never decreases, even when a replica joins the ISR.",
    "W3": "A follower takes the high watermark from the leader's responses, up to the end of its own log.",
    "W4": "The high watermark is checkpointed now and then; after a crash the checkpoint is a lower bound.",
    "W5": "A new leader returns no latest offset to consumers until its high watermark reaches its epoch.",
    "W6": "Durability comes from replicas: an acks=all write waits for no disk flush.",
    "I1": "Lag is a matter of time: a replica that recently had every record is in sync, however many were "
    "written since.",
    "I2": "A timer removes replicas from the in-sync set; their fetches bring them back.",
    "I3": "A replica joins when its log reaches the high watermark and the start of the leader's epoch.",
    "I4": "The in-sync set is committed, expanding or shrinking; only one change is in flight at a time.",
    "I5": "The leader proposes a new in-sync set and the controller decides; until then the larger of both counts.",
    "E1": "Every log stores the offset at which each leader epoch begins.",
    "E2": "An epoch ends where the next one begins; the latest epoch ends at the log's end.",
    "E3": "A follower truncates where its log diverges from the leader's, never at its high watermark.",
    "E4": "A new leader truncates nothing: its epoch begins at the end of its log.",
    "E5": "A deposed leader that does not know it yet can commit nothing and mislead no client.",
    "E6": "A restarted broker does not resume leadership in the epoch that it led before.",
    "C1": "A controller decision is a record in the metadata log; it takes effect when the record is committed.",
    "C2": "A broker registers fenced; it is unfenced once it has caught up, and while its heartbeats arrive.",
    "C3": "The next leader is the first live replica of the in-sync set, then of the eligible ones, in assigned order.",
    "C4": "The controller checks a proposed in-sync set step by step; each step has its own error.",
    "C5": "A replica that leaves an in-sync set that is too small stays eligible: it has every committed record.",
    "C6": "An unclean election is marked, and a replica that gives up committed records for it logs their offsets.",
    "C7": "The preferred leader leads again on request, or when the controller's timer runs.",
    "C8": "A reassignment completes when every new replica is in sync; no old replica leaves before that.",
    "C9": "A broker in a controlled shutdown hands over its leadership first.",
    "C10": "A failed directory takes only its own partitions offline.",
    "C11": "Replicas and leaders are spread over brokers and racks.",
    "Q1": "A node stores its vote and epoch before it sends them: one vote per epoch, even after a crash.",
    "Q2": "A voter votes only for a log at least as complete as its own; a candidate first checks that it could win.",
    "Q3": "Followers pull. A leader announces its epoch, and resigns when no majority fetches from it.",
    "Q4": "A record is committed when a majority has it on disk, from the leader's own epoch on.",
    "Q5": "An election begins after a random timeout, or at once when the leader's port refuses connections.",
    "Q6": "A snapshot replaces the log before it, which may then be deleted.",
    "Q7": "Brokers that are not voters follow the log and never vote.",
    "Q8": "Voters join and leave one at a time, so any two majorities share a voter.",
    "O1": "Topics are described in Kafka's words, including the replicas that are eligible to lead.",
    "O2": "Every election and every ISR change is logged with its reason and its offsets.",
    "O3": "Metrics have the names that Kafka's exporters use.",
}


def cited(comments: Iterable[str]) -> list[str]:
    """The rules these lines name, each once, in the order they are named."""
    found = (name for numbers in _CITED.findall("\n".join(comments)) for name in numbers.split(", "))
    return list(dict.fromkeys(found))
