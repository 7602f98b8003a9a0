"""The end of a node's log, with the lines about internal topics folded into one.

Fifty partitions of `__consumer_offsets` write more lines than a test does; what the test did would scroll away.
"""

import re
from pathlib import Path
from typing import Final

from tidelog.cluster.process import last_lines
from tidelog.core.ids import METADATA_TOPIC
from tidelog.metadata.names import INTERNAL_TOPICS

# A whole start of three brokers with all their internal partitions is 40 KB.
_READ_BYTES: Final = 256 * 1024
# The metadata log is the cluster's own history, and has one partition. Warnings are never folded.
_FOLDED: Final = re.compile(
    r"\[[^]]*\] (?:DEBUG|INFO) .*?\b(" + "|".join(sorted(INTERNAL_TOPICS - {METADATA_TOPIC})) + r")\b"
)


def last_lines_folded(path: Path, count: int) -> str:
    return fold(last_lines(path, _READ_BYTES, tail_bytes=_READ_BYTES), count)


def fold(text: str, count: int) -> str:
    """The last `count` lines that are not about internal topics, below one line for those that are."""
    kept: list[str] = []
    folded: dict[str, int] = {}
    for line in text.splitlines():
        found = _FOLDED.match(line)
        if found is None:
            kept.append(line)
        else:
            folded[found[1]] = folded.get(found[1], 0) + 1
    if not folded:
        return "\n".join(kept[-count:])
    number = sum(folded.values())
    words = (
        f"({number} lines about {', '.join(sorted(folded))} are left out; Cluster.log(node, internal=True) has them)"
    )
    return "\n".join([words, *kept[-count:]])
