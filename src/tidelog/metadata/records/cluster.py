"""Records about the cluster as a whole: configs, features, quotas, producer ids, metadata transactions."""

from tidelog.wire.schema import BOOL, FLOAT64, INT8, INT16, INT32, INT64, STRING, Array, f, message, struct


@message(api_key=4, versions="0-0", flexible="0+")
@struct
class ConfigRecord:
    """A config set, or taken away when the value is null."""

    resource_type: int = f(INT8)
    resource_name: str = f(STRING)
    name: str = f(STRING)
    value: str | None = f(STRING, nullable="0+")


@message(api_key=12, versions="0-0", flexible="0+")
@struct
class FeatureLevelRecord:
    """The finalized level of a feature; 0 takes it away."""

    name: str = f(STRING)
    feature_level: int = f(INT16)


@struct
class EntityData:
    entity_type: str = f(STRING)
    entity_name: str | None = f(STRING, nullable="0+")


@message(api_key=14, versions="0-0", flexible="0+")
@struct
class ClientQuotaRecord:
    entity: list[EntityData] = f(Array(EntityData))
    key: str = f(STRING)
    value: float = f(FLOAT64)
    remove: bool = f(BOOL)


@message(api_key=15, versions="0-0", flexible="0+")
@struct
class ProducerIdsRecord:
    """A block of producer ids was handed out; `next_producer_id` is the first id not yet given."""

    broker_id: int = f(INT32)
    broker_epoch: int = f(INT64, default=-1)
    next_producer_id: int = f(INT64)


@message(api_key=20, versions="0-0", flexible="0+")
@struct
class NoOpRecord:
    """Moves the end of the log and nothing else."""


@message(api_key=23, versions="0-0", flexible="0+")
@struct
class BeginTransactionRecord:
    """What follows, up to its end or abort, applies as one, however many batches it takes (KIP-868)."""

    name: str | None = f(STRING, nullable="0+", tag=0, default=None)


@message(api_key=24, versions="0-0", flexible="0+")
@struct
class EndTransactionRecord:
    """The transaction applies."""


@message(api_key=25, versions="0-0", flexible="0+")
@struct
class AbortTransactionRecord:
    """The transaction never happened."""

    reason: str | None = f(STRING, nullable="0+", tag=0, default=None)
