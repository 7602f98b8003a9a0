"""librdkafka, through confluent-kafka: an extra, since only this command and the tests need it."""

from types import TracebackType
from typing import Any, Final

from tidelog.verify.librdkafka_security import security_config
from tidelog.verify.workload import VerifyError, Workload

# librdkafka's codes for what the broker says before it writes anything, however often it was tried.
MESSAGE_TOO_LARGE: Final = 10
INVALID_RECORD: Final = 87
# The same, of a record that was tried once: an earlier try of it might have been written.
NOT_ENOUGH_REPLICAS: Final = 19

REFUSALS: Final = frozenset({MESSAGE_TOO_LARGE, INVALID_RECORD})
REFUSALS_OF_ONE_TRY: Final = REFUSALS | {NOT_ENOUGH_REPLICAS}

# Only emergencies; they are kept in a queue that nobody empties instead of on the user's terminal.
_LOG_LEVEL: Final = 0
_MESSAGE_TIMEOUT_MS: Final = 120_000


def load() -> Any:
    """The module, or one line that says how to get it."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise VerifyError("confluent-kafka is missing: pip install 'tidelog[test]'") from error
    return confluent_kafka


def producer_config(workload: Workload) -> dict[str, Any]:
    return {
        **_common(workload),
        "acks": workload.acks,
        "enable.idempotence": workload.idempotent,
        "batch.size": workload.batch_bytes,
        "linger.ms": 5,
        # Longer than any fault lasts: a record that times out is neither lost nor there, and proves nothing.
        "message.timeout.ms": _MESSAGE_TIMEOUT_MS,
        # How long a leader may wait for its ISR before it says so; the retry then finds the new leader.
        "request.timeout.ms": 5_000,
        "retry.backoff.max.ms": 500,
    }


def probe_config(workload: Workload) -> dict[str, Any]:
    """A producer that tries once, so that a refusal is one."""
    config = producer_config(workload)
    return {**config, "enable.idempotence": False, "retries": 0, "message.timeout.ms": 20_000}


def consumer_config(workload: Workload) -> dict[str, Any]:
    return {
        **_common(workload),
        # librdkafka wants a name even where no group is joined.
        "group.id": f"{workload.topic}-unused",
        "enable.auto.commit": False,
        # A reader that lost its place says so instead of quietly beginning elsewhere.
        "auto.offset.reset": "error",
        "isolation.level": "read_uncommitted",
        "check.crcs": True,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 100,
    }


def _common(workload: Workload) -> dict[str, Any]:
    return {
        "bootstrap.servers": workload.bootstrap,
        **security_config(workload.security),
        "log_level": _LOG_LEVEL,
        "log.queue": True,
        "reconnect.backoff.max.ms": 500,
        # A leader that is cut off goes on answering clients; they look elsewhere as soon as they ask.
        "topic.metadata.refresh.interval.ms": 1_000,
        "socket.timeout.ms": 10_000,
        "broker.address.ttl": 1_000,
    }


class FatalErrors:
    """Keeps what a fatal error comes out as, as in `with fatal: producer.poll(0)`.

    confluent-kafka calls back into Python while the exception of a fatal error is already set. What is raised then
    may be a SystemError, or an object that is no exception and that no `except` clause matches.
    """

    def __init__(self, kafka: Any) -> None:
        self._kafka_exception = kafka.KafkaException
        self.count = 0
        self.last: str | None = None

    def __enter__(self) -> None:
        self._failed = False

    def __exit__(self, kind: Any, error: object, trace: TracebackType | None) -> bool:
        if kind is None:
            return False
        if issubclass(kind, BaseException) and not issubclass(kind, (self._kafka_exception, SystemError)):
            return False
        self._failed = True
        self.count += 1
        self.last = str(error)
        return True

    @property
    def failed(self) -> bool:
        """Whether the block that ended last ended with one."""
        return self._failed
