"""The numbered rules in one plain sentence each, for people who watch a story.

The full text, and all that depends on it, is `docs/internals/behaviours.md`; a test keeps the numbers the same.
"""

import re
from collections.abc import Iterable
from typing import Final

# As (W2) or (W2, I3), in a comment.
_CITED: Final = re.compile(r"\(([A-Z]\d+(?:, [A-Z]\d+)*)\)")

RULES: Final = {
    "P1": "A producer asks for 0, 1 or all acknowledgements; with 0 it never gets an answer.",
    "P2": "A write that asks for all is refused, unwritten, while too few replicas are in sync.",
    "P3": "A write that asks for all waits until the high watermark has passed it; the movement itself answers it.",
    "P4": "A partition knows the last batches of each idempotent producer, so a batch sent again is not written again.",
    "P5": "A batch is checked by its header before it is appended; records are opened only if the topic asks for it.",
    "P6": "Who does not lead says so to a producer, and where the leader is.",
    "F1": "Consumers read below the high watermark, followers up to the end of the leader's log.",
    "F2": "What a follower asks for next is all a leader ever learns of its progress.",
    "F3": "A fetch waits until there is enough to send, or a new high watermark, or its time is over; nothing polls.",
    "F4": "Batches are sent whole, the first one even if it is larger than every limit.",
    "F5": "A question of another leader epoch is refused; a log that diverges is told where, and gets no records.",
    "F6": "A follower below the leader's log begins anew at its start; one above its end truncates.",
    "F7": "Fetches of a session tell only what has changed since the last one.",
    "W1": "The high watermark is the smallest log end of all who count as in sync; if they are too few it stands.",
    "W2": "While a leader leads, its high watermark never goes back, whoever joins.",
    "W3": "A follower takes the high watermark from its leader's answers, as far as its own log reaches.",
    "W4": "The high watermark is written down now and then: after a crash the file is a lower bound.",
    "W5": "A new leader does not tell where the log ends for consumers before its high watermark reached its epoch.",
    "W6": "Durability comes from replicas: a write that asks for all does not wait for anybody's disk.",
    "I1": "To lag is a matter of time: who had everything a moment ago is in sync, however much was written since.",
    "I2": "The passing of time takes replicas out of the in-sync set, their fetches bring them back.",
    "I3": "A replica joins when its log reaches the high watermark and the start of the leader's epoch.",
    "I4": "The in-sync set is settled, about to grow or about to shrink; only one change is under way at a time.",
    "I5": "The leader proposes a new in-sync set, the controller decides; meanwhile the larger of both counts.",
    "E1": "Every log knows at which offset each leader epoch began.",
    "E2": "An epoch ends where the next one begins, or at the log's end if it is the latest.",
    "E3": "A follower truncates where its log leaves the leader's, never at its high watermark.",
    "E4": "A new leader truncates nothing: its epoch begins at the end of its log.",
    "E5": "A leader that was deposed and does not know it can commit nothing and mislead nobody.",
    "E6": "A broker that was restarted does not go on leading in the epoch it led before.",
    "C1": "What the controller decides is a record in the metadata log, and true once that is committed.",
    "C2": "A broker registers, starts fenced, and serves when it has caught up and for as long as it is heard of.",
    "C3": "The next leader is the first live replica of the in-sync set, then of the eligible ones, in assigned order.",
    "C4": "A proposed in-sync set is checked step by step, with an error of its own for each step.",
    "C5": "Who falls out of an in-sync set that is too small stays eligible: it still has everything committed.",
    "C6": "An unclean election is marked, and whoever gives up committed records for it names them.",
    "C7": "The first replica of the assignment leads again when somebody asks or the controller's timer looks.",
    "C8": "A reassignment is done when every new replica is in sync, and nobody leaves before that.",
    "C9": "A broker that stops in order hands its leadership on first.",
    "C10": "A failed directory takes only its own partitions offline.",
    "C11": "Replicas are spread over brokers and racks, and leaders with them.",
    "Q1": "A vote and its epoch are on disk before anybody hears of them: one vote in an epoch, whatever crashes.",
    "Q2": "A vote goes to a log at least as complete as one's own; before that a candidate asks whether it could win.",
    "Q3": "Followers pull. A leader announces its epoch, and resigns when it hears from no majority.",
    "Q4": "Committed is what a majority has on disk, from the leader's own epoch on.",
    "Q5": "An election begins after a silence of random length, or at once when the leader's port refuses.",
    "Q6": "A snapshot stands for the log before it, which can then be deleted.",
    "Q7": "Brokers that are no voters follow the log and never vote.",
    "Q8": "Voters come and go one at a time, so that two majorities always have somebody in common.",
    "O1": "Topics are described in Kafka's words, with who is eligible to lead.",
    "O2": "Every election and every change of an in-sync set is logged with its reason and the offsets.",
    "O3": "What a node measures has the names that Kafka's exporters give it.",
}


def cited(comments: Iterable[str]) -> list[str]:
    """The rules these lines name, each once, in the order they are named."""
    found = (name for numbers in _CITED.findall("\n".join(comments)) for name in numbers.split(", "))
    return list(dict.fromkeys(found))
