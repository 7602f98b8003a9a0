"""Which partition of `__consumer_offsets` a group lives on. Clients never compute this, but Kafka's tools do."""


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 code units, in 32-bit two's complement."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(data[::2], data[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFF_FFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(group_id: str, partitions: int) -> int:
    """The group's partition; as in Kafka, the one hash that has no positive counterpart counts as 0."""
    hashed = java_string_hash(group_id)
    return (0 if hashed == -(1 << 31) else abs(hashed)) % partitions
