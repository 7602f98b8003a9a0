"""What the supervisor tells a person: one line and an exit status."""


class ClusterError(Exception):
    """The cluster cannot do what was asked; the message is one clear line."""

    def __init__(self, message: str, *, status: int = 1) -> None:
        super().__init__(message)
        self.message = message
        # Exit status of a command that ends with this: 2 for what the user asked wrongly, 1 for what failed.
        self.status = status


class BadRequest(ClusterError):
    """What was asked makes no sense, whatever the state of the cluster."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=2)


class BadConfig(BadRequest, ValueError):
    """A config key that no broker knows, or a value that none takes; nothing was created."""
