"""Why a quorum member does not start or cannot go on."""


class QuorumError(Exception):
    """What is on disk forbids to join; the message is one line for an operator."""


class BatchTooLarge(Exception):
    """Records that do not fit into one batch; nothing was written."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"{size} bytes of records exceed {limit} bytes, the limit of one metadata batch")


class NotLeader(Exception):
    """Only the leader of the current epoch appends."""
