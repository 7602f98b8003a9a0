"""What a topic may be called, and which names metrics could not tell apart."""

import re
from typing import Final

from tidelog.core.ids import METADATA_TOPIC

MAX_NAME_LENGTH: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")

GROUP_OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
SHARE_GROUP_STATE_TOPIC: Final = "__share_group_state"
REPLICATION_EVENTS_TOPIC: Final = "__replication_events"
INTERNAL_TOPICS: Final = frozenset(
    {
        GROUP_OFFSETS_TOPIC,
        TRANSACTION_STATE_TOPIC,
        SHARE_GROUP_STATE_TOPIC,
        METADATA_TOPIC,
        REPLICATION_EVENTS_TOPIC,
    }
)


def is_internal(topic: str) -> bool:
    """Topics of the cluster itself: clients may read them, but neither write nor create them."""
    return topic in INTERNAL_TOPICS


def why_illegal(name: str) -> str | None:
    """Why a topic cannot have this name, or None when it can."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def collision_form(name: str) -> str | None:
    """The form under which this name could be confused with another (metrics print '.' as '_'), None if it cannot."""
    return name.replace(".", "_") if "." in name or "_" in name else None
