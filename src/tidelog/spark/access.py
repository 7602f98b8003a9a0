"""How a query reaches its cluster. Pure; it travels to tasks with the options."""

from dataclasses import dataclass, field
from typing import Final

from tidelog.client.connection import ConnectionSettings
from tidelog.spark.errors import OptionError
from tidelog.spark.kafka_settings import KafkaSettings

# Kafka's clients take nine minutes. A worker has a connection for each cluster and task at once, and Spark ends idle
# workers after one minute.
DEFAULT_IDLE_S: Final = 60.0
DEFAULT_METADATA_AGE_S: Final = 300.0
# Twice what is waited for one answer, as in Kafka's clients: when a broker that hangs is fenced, another one leads.
DEFAULT_QUESTION_TIMEOUT_S: Final = 60.0
DEFAULT_CLIENT_ID: Final = "tidelog-spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """A worker shares connections between tasks that have the same of this."""

    bootstrap: str
    connection: ConnectionSettings = field(default_factory=lambda: ConnectionSettings(client_id=DEFAULT_CLIENT_ID))
    idle_s: float = DEFAULT_IDLE_S
    metadata_age_s: float = DEFAULT_METADATA_AGE_S
    # How long one question is retried.
    question_timeout_s: float = DEFAULT_QUESTION_TIMEOUT_S


def cluster_access(kafka: KafkaSettings, question_timeout_s: float = DEFAULT_QUESTION_TIMEOUT_S) -> ClusterAccess:
    bootstrap = kafka.text("bootstrap.servers")
    if bootstrap is None:
        raise OptionError("kafka.bootstrap.servers is missing: for example 127.0.0.1:9092")
    # The table allows one value, and it is what we do.
    kafka.text("client.dns.lookup")
    defaults = ConnectionSettings()
    idle_s = kafka.seconds("connections.max.idle.ms", DEFAULT_IDLE_S)
    return ClusterAccess(
        bootstrap=bootstrap,
        connection=ConnectionSettings(
            client_id=kafka.text("client.id") or DEFAULT_CLIENT_ID,
            connect_timeout_s=kafka.seconds("socket.connection.setup.timeout.ms", defaults.connect_timeout_s),
            request_timeout_s=kafka.seconds("request.timeout.ms", defaults.request_timeout_s),
            security=kafka.security(),
        ),
        idle_s=idle_s if idle_s >= 0 else float("inf"),
        question_timeout_s=question_timeout_s,
        metadata_age_s=kafka.seconds("metadata.max.age.ms", DEFAULT_METADATA_AGE_S),
    )
