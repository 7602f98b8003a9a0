"""What went through a broker since it started: numbers that only grow (`kafka.server:type=BrokerTopicMetrics`)."""

from dataclasses import dataclass


@dataclass(slots=True)
class Traffic:
    """Of clients and coordinators. What followers copy is not in it: it was counted where it came in."""

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
