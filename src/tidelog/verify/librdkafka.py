"""librdkafka, through confluent-kafka: an extra, since only this command and the tests need it."""

import logging
from typing import Any, Final

from tidelog.verify.workload import VerifyError, Workload

# librdkafka's codes for what the broker says before it writes anything, however often it was tried.
MESSAGE_TOO_LARGE: Final = 10
INVALID_RECORD: Final = 87
# The same, of a record that was tried once: an earlier try of it might have been written.
NOT_ENOUGH_REPLICAS: Final = 19

REFUSALS: Final = frozenset({MESSAGE_TOO_LARGE, INVALID_RECORD})
REFUSALS_OF_ONE_TRY: Final = REFUSALS | {NOT_ENOUGH_REPLICAS}

# What librdkafka would print: brokers that come and go are our doing, and what matters reaches us as errors.
_LOGGER: Final = logging.getLogger("tidelog.verify.librdkafka")
_LOGGER.addHandler(logging.NullHandler())
_LOGGER.propagate = False
_MESSAGE_TIMEOUT_MS: Final = 120_000


def load() -> Any:
    """The module, or one line that says how to get it."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise VerifyError("verify runs librdkafka: pip install 'tidelog[test]' (confluent-kafka)") from error
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
        "logger": _LOGGER,
        "reconnect.backoff.max.ms": 500,
        # A leader that is cut off goes on answering clients; they look elsewhere as soon as they ask.
        "topic.metadata.refresh.interval.ms": 1_000,
        "socket.timeout.ms": 10_000,
        "broker.address.ttl": 1_000,
    }
