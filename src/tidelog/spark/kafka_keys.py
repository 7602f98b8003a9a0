"""The `kafka.*` options: every key of Kafka's consumer and producer, and what the source and the sink do with it (S10).

Pure. This table decides what is refused, `tools/spark_options.py` writes it into docs/spark-options.md, and the tests
compare it with what the source and the sink read, and with Kafka's own list of keys.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

_INT: Final = 2**31 - 1
_LONG: Final = 2**63 - 1


class Use(Enum):
    HONOURED = "honoured"
    IGNORED = "ignored"
    REFUSED = "refused"


class Side(Enum):
    SOURCE = "source"
    SINK = "sink"


@dataclass(frozen=True, slots=True)
class Rule:
    """`note` is what a key does, or why it is ignored or refused."""

    use: Use
    note: str


class Value(Protocol):
    """What a key takes. Read with the type that Kafka gives the key, also where the key is ignored."""

    def accepts(self, text: str) -> bool: ...

    def __str__(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Whole:
    low: int = 0
    high: int = _INT

    def accepts(self, text: str) -> bool:
        try:
            return self.low <= int(text) <= self.high
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"a whole number from {self.low} to {self.high}"


@dataclass(frozen=True, slots=True)
class Choice:
    names: tuple[str, ...]

    def accepts(self, text: str) -> bool:
        return text.lower() in (name.lower() for name in self.names)

    def __str__(self) -> str:
        return " or ".join(self.names) if len(self.names) < 3 else f"one of {', '.join(self.names)}"


class Text:
    def accepts(self, text: str) -> bool:
        return True

    def __str__(self) -> str:
        return "text"


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    value: Value
    rules: Mapping[Side, Rule]


TEXT: Final = Text()
FLAG: Final = Choice(("true", "false"))
TIME_MS: Final = Whole()
LONG_MS: Final = Whole(high=_LONG)
WAIT_MS: Final = Whole(low=1)


def _honoured(note: str) -> Rule:
    return Rule(Use.HONOURED, note)


def _ignored(note: str) -> Rule:
    return Rule(Use.IGNORED, note)


def _refused(note: str) -> Rule:
    return Rule(Use.REFUSED, note)


def _both(rule: Rule, **keys: Value) -> Iterator[Key]:
    yield from _two(rule, rule, **keys)


def _two(source: Rule, sink: Rule, **keys: Value) -> Iterator[Key]:
    for name, value in keys.items():
        yield Key(name.replace("_", "."), value, {Side.SOURCE: source, Side.SINK: sink})


def _source(rule: Rule, **keys: Value) -> Iterator[Key]:
    yield from _two(rule, _ignored("a consumer's key; the sink reads nothing"), **keys)


def _sink(rule: Rule, **keys: Value) -> Iterator[Key]:
    yield from _two(_ignored("a producer's key; the source writes nothing"), rule, **keys)


_NO_GROUP: Final = _ignored("the source joins no consumer group")
_OUR_RETRIES: Final = _ignored("retries start after 20 ms and back off to 1 s")
_NO_METRICS: Final = _ignored("there are no client metrics; Spark reports the progress of queries")
_JAVA: Final = _refused("it names Java classes, and the workers are Python processes")
_BYTES: Final = _refused("keys and values are bytes; cast the columns instead")
_KERBEROS: Final = _refused("GSSAPI (Kerberos) is not supported; use SCRAM-SHA-512 or PLAIN")
_OAUTH: Final = _refused("OAUTHBEARER is not supported; use SCRAM-SHA-512 or PLAIN")
_OPENSSL: Final = _ignored("it names an algorithm of Java; TLS comes from OpenSSL")
_NO_TRANSACTIONS: Final = _refused("the sink has no transactions; rows are written at least once")
_PEM_PASSWORD: Final = _honoured("refused with PEM stores, the only supported ones")


def _prefixed(prefix: str, names: str) -> dict[str, Value]:
    return {prefix + name: TEXT for name in names.split()}


_OAUTH_LOGIN: Final = _prefixed(
    "sasl_login_",
    "connect_timeout_ms read_timeout_ms refresh_buffer_seconds refresh_min_period_seconds refresh_window_factor "
    "refresh_window_jitter retry_backoff_max_ms retry_backoff_ms",
)
_OAUTH_ASSERTION: Final = _prefixed(
    "sasl_oauthbearer_assertion_",
    "algorithm claim_aud claim_exp_seconds claim_iss claim_jti_include claim_nbf_seconds claim_sub file "
    "private_key_file private_key_passphrase template_file",
)
_OAUTH_KEYS: Final = _prefixed(
    "sasl_oauthbearer_jwks_endpoint_", "refresh_ms retry_backoff_max_ms retry_backoff_ms url"
) | _prefixed("sasl_oauthbearer_jwt_", "retriever_class validator_class")
_OAUTH_TOKENS: Final = _prefixed(
    "sasl_oauthbearer_",
    "client_credentials_client_id client_credentials_client_secret clock_skew_seconds expected_audience "
    "expected_issuer header_urlencode scope scope_claim_name sub_claim_name token_endpoint_url",
)

_ALL: Final[tuple[Key, ...]] = (
    # Connections.
    *_both(_honoured("the brokers that are asked first (required)"), bootstrap_servers=TEXT),
    *_both(_honoured("the name in the brokers' logs and quotas (`tidelog-spark`)"), client_id=TEXT),
    *_both(_honoured("how long a connection may take (10000)"), socket_connection_setup_timeout_ms=Whole(1, _LONG)),
    *_both(_honoured("how long one answer may take (30000)"), request_timeout_ms=WAIT_MS),
    *_both(
        _honoured("how long a task's worker keeps an unused connection (60000); -1 is for ever"),
        connections_max_idle_ms=Whole(-1, _LONG),
    ),
    *_both(_honoured("how old the metadata of a task's worker may be (300000)"), metadata_max_age_ms=LONG_MS),
    *_both(
        _honoured("only `use_all_dns_ips` is supported: all addresses of a name are tried"),
        client_dns_lookup=Choice(("use_all_dns_ips",)),
    ),
    *_both(_ignored("the connection timeout does not grow"), socket_connection_setup_timeout_max_ms=LONG_MS),
    *_both(
        _OUR_RETRIES,
        reconnect_backoff_ms=LONG_MS,
        reconnect_backoff_max_ms=LONG_MS,
        retry_backoff_ms=LONG_MS,
        retry_backoff_max_ms=LONG_MS,
    ),
    *_both(
        _ignored("the operating system sizes the buffers of sockets"),
        receive_buffer_bytes=Whole(-1),
        send_buffer_bytes=Whole(-1),
    ),
    *_both(
        _ignored("bootstrap servers are always asked when no known broker answers"),
        metadata_recovery_strategy=Choice(("rebootstrap", "none")),
        metadata_recovery_rebootstrap_trigger_ms=LONG_MS,
    ),
    # Reading.
    *_source(
        _honoured("`read_uncommitted` (default) or `read_committed`"),
        isolation_level=Choice(("read_committed", "read_uncommitted")),
    ),
    *_source(
        _honoured("the most that one fetch asks of a partition: up to 8 MiB by default, 64 MiB at most"),
        max_partition_fetch_bytes=Whole(1),
    ),
    *_source(_honoured("the most that one fetch asks for; a task reads one partition"), fetch_max_bytes=Whole(1)),
    *_source(_honoured("how long a broker may hold a fetch that finds no records (500)"), fetch_max_wait_ms=TIME_MS),
    *_source(
        _honoured("how long one question of the driver to the brokers is retried (60000)"),
        default_api_timeout_ms=WAIT_MS,
    ),
    *_source(_honoured("whether `subscribePattern` skips internal topics (`true`)"), exclude_internal_topics=FLAG),
    *_source(_ignored("a task knows the range that it reads and does not wait for more"), fetch_min_bytes=TIME_MS),
    *_source(_ignored("the CRC of each batch is always checked"), check_crcs=FLAG),
    *_source(_ignored("tasks read from the leader"), client_rack=TEXT),
    *_source(_ignored("the source never creates a topic"), allow_auto_create_topics=FLAG),
    *_source(_ignored("`maxOffsetsPerTrigger` limits a micro-batch"), max_poll_records=Whole(1)),
    *_source(_ignored("offsets are not committed; the checkpoint has them"), auto_commit_interval_ms=TIME_MS),
    *_source(
        _NO_GROUP,
        group_id=TEXT,
        group_instance_id=TEXT,
        group_protocol=Choice(("classic", "consumer")),
        group_remote_assignor=TEXT,
        heartbeat_interval_ms=TIME_MS,
        max_poll_interval_ms=WAIT_MS,
        partition_assignment_strategy=TEXT,
        session_timeout_ms=TIME_MS,
        share_acknowledgement_mode=Choice(("implicit", "explicit")),
        share_acquire_mode=Choice(("batch_optimized", "record_limit")),
    ),
    *_source(
        _refused("a query starts at startingOffsets and continues at its checkpoint"),
        auto_offset_reset=TEXT,
    ),
    *_source(_refused("offsets are kept in the checkpoint and not committed"), enable_auto_commit=FLAG),
    *_source(_BYTES, key_deserializer=TEXT, value_deserializer=TEXT),
    # Writing.
    *_sink(_honoured("`all` (default), `1` or `0`"), acks=Choice(("all", "-1", "1", "0"))),
    *_sink(
        _honoured("`none` (default), `gzip`, `snappy`, `lz4` or `zstd`"),
        compression_type=Choice(("none", "gzip", "snappy", "lz4", "zstd")),
    ),
    *_sink(_honoured("the level of gzip: 1 to 9, or -1"), compression_gzip_level=Choice(("-1", *"123456789"))),
    *_sink(_honoured("the level of lz4 (9)"), compression_lz4_level=Whole(1, 17)),
    *_sink(_honoured("the level of zstd (3)"), compression_zstd_level=Whole(-131072, 22)),
    *_sink(_honoured("the size of a batch (524288)"), batch_size=Whole(1)),
    *_sink(_honoured("how long a batch is sent again until it is acknowledged (120000)"), delivery_timeout_ms=WAIT_MS),
    *_sink(_honoured("how long a task waits for a topic that does not exist yet (60000)"), max_block_ms=LONG_MS),
    *_sink(
        _honoured("`true` by default with `acks=all`; a batch that is sent again is stored once"),
        enable_idempotence=FLAG,
    ),
    *_sink(
        _honoured("only `false` is supported: rows with a key go to the partition of the key"),
        partitioner_ignore_keys=Choice(("false",)),
    ),
    *_sink(
        _ignored("eight batches are in flight, and one for each partition, which keeps the order"),
        max_in_flight_requests_per_connection=Whole(1),
    ),
    *_sink(_ignored("a batch is sent when it is full or the task ends"), linger_ms=LONG_MS),
    *_sink(_ignored("the task holds a batch for each partition and eight in flight"), buffer_memory=LONG_MS),
    *_sink(_ignored("`max.message.bytes` of the topic decides"), max_request_size=TIME_MS),
    *_sink(_ignored("`kafka.delivery.timeout.ms` limits the retries"), retries=TIME_MS),
    *_sink(_ignored("a task keeps the metadata of the topics that it writes"), metadata_max_idle_ms=Whole(5000, _LONG)),
    *_sink(
        _ignored("rows without a key fill a batch of one partition and continue with the next"),
        partitioner_adaptive_partitioning_enable=FLAG,
        partitioner_availability_timeout_ms=LONG_MS,
    ),
    *_sink(_NO_TRANSACTIONS, transactional_id=TEXT, transaction_two_phase_commit_enable=FLAG),
    *_sink(_ignored("the sink has no transactions"), transaction_timeout_ms=TIME_MS),
    *_sink(_JAVA, partitioner_class=TEXT),
    *_sink(_BYTES, key_serializer=TEXT, value_serializer=TEXT),
    # Plugins and metrics.
    *_both(_JAVA, interceptor_classes=TEXT, config_providers=TEXT, metric_reporters=TEXT),
    *_both(
        _NO_METRICS,
        enable_metrics_push=FLAG,
        metrics_num_samples=Whole(1),
        metrics_recording_level=Choice(("INFO", "DEBUG", "TRACE")),
        metrics_sample_window_ms=LONG_MS,
    ),
    # Security. `client/security.py` checks values, and refuses combinations.
    *_both(
        _honoured("`PLAINTEXT` (default), `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`"),
        security_protocol=Choice(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    ),
    *_both(_honoured("`PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`"), sasl_mechanism=TEXT),
    *_both(_honoured("the login module of the mechanism with `username` and `password`"), sasl_jaas_config=TEXT),
    *_both(_honoured("trusted certificates: a PEM file on every machine"), ssl_truststore_location=TEXT),
    *_both(_honoured("trusted certificates as PEM text"), ssl_truststore_certificates=TEXT),
    *_both(_honoured("`PEM` is required with a store"), ssl_truststore_type=TEXT, ssl_keystore_type=TEXT),
    *_both(_PEM_PASSWORD, ssl_truststore_password=TEXT, ssl_keystore_password=TEXT),
    *_both(_honoured("the client's key and certificates: a PEM file on every machine"), ssl_keystore_location=TEXT),
    *_both(_honoured("the client's private key as PEM text"), ssl_keystore_key=TEXT),
    *_both(_honoured("the client's certificates as PEM text"), ssl_keystore_certificate_chain=TEXT),
    *_both(_honoured("the password of the private key"), ssl_key_password=TEXT),
    *_both(_honoured("`TLSv1.2`, `TLSv1.3` or both (default)"), ssl_enabled_protocols=TEXT),
    *_both(_honoured("`https` (default), or empty: names are not checked"), ssl_endpoint_identification_algorithm=TEXT),
    *_both(_ignored("`ssl.enabled.protocols` decides"), ssl_protocol=TEXT),
    *_both(
        _OPENSSL, ssl_keymanager_algorithm=TEXT, ssl_trustmanager_algorithm=TEXT, ssl_secure_random_implementation=TEXT
    ),
    *_both(_refused("the cipher suites are OpenSSL's"), ssl_cipher_suites=TEXT),
    *_both(
        _JAVA,
        sasl_client_callback_handler_class=TEXT,
        sasl_login_callback_handler_class=TEXT,
        sasl_login_class=TEXT,
        security_providers=TEXT,
        ssl_engine_factory_class=TEXT,
        ssl_provider=TEXT,
    ),
    *_both(
        _KERBEROS,
        sasl_kerberos_kinit_cmd=TEXT,
        sasl_kerberos_min_time_before_relogin=TEXT,
        sasl_kerberos_service_name=TEXT,
        sasl_kerberos_ticket_renew_jitter=TEXT,
        sasl_kerberos_ticket_renew_window_factor=TEXT,
    ),
    *_both(_OAUTH, **_OAUTH_LOGIN, **_OAUTH_ASSERTION, **_OAUTH_KEYS, **_OAUTH_TOKENS),
)


def _by_name(keys: Iterable[Key]) -> dict[str, Key]:
    found: dict[str, Key] = {}
    for key in keys:
        assert key.name not in found, f"{key.name} is in the table twice"
        found[key.name] = key
    return found


KEYS: Final[Mapping[str, Key]] = _by_name(_ALL)
