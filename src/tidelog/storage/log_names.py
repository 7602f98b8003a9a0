"""Names of partition directories, as Kafka gives them."""

from typing import Final

from tidelog.core.ids import TopicPartition

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
_MAX_NAME: Final = 255


def partition_of(name: str) -> TopicPartition | None:
    """The partition a directory name stands for; None for anything else that lives in a log directory."""
    if name.endswith((DELETE_SUFFIX, STRAY_SUFFIX)):
        return None
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not number.isascii() or not number.isdigit() or str(int(number)) != number:
        return None
    return TopicPartition(topic, int(number))


def set_aside_name(topic_partition: TopicPartition, unique: str, suffix: str) -> str:
    """`orders-0.<unique>-delete`, the topic cut where the file system's limit demands it."""
    tail = f".{unique}{suffix}"
    return f"{topic_partition}"[: _MAX_NAME - len(tail)] + tail
