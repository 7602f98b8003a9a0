"""ElectLeaders: preferred replicas lead again, or partitions without a leader get one at the price of records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from tidelog.client.client import Client
from tidelog.client.errors import api_error, raise_for
from tidelog.core.ids import TopicPartition
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

_TIMEOUT_MS: Final = 20_000


class ElectionType(IntEnum):
    """Kafka's numbers for what an election may do."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionResult:
    """What came of one partition; `error` is None where a leader was elected."""

    tp: TopicPartition
    error: ApiError | None = None

    @property
    def not_needed(self) -> bool:
        """The right replica leads already."""
        return self.error is not None and self.error.code is ErrorCode.ELECTION_NOT_NEEDED


async def elect_leaders(
    client: Client, election: ElectionType, partitions: Mapping[str, Sequence[int]] | None = None
) -> list[ElectionResult]:
    """Elects for these partitions, or for all (then those that need no election are left out)."""
    asked = None
    if partitions is not None:
        asked = [TopicPartitions(topic=topic, partitions=list(indexes)) for topic, indexes in partitions.items()]
    request = ElectLeadersRequest(election_type=election, topic_partitions=asked, timeout_ms=_TIMEOUT_MS)

    async def attempt() -> list[ElectionResult]:
        answer = await (await client.controller()).request(request, ElectLeadersResponse)
        raise_for(answer.error_code, what="election")
        return [
            ElectionResult(
                tp=TopicPartition(topic.topic, result.partition_id),
                error=api_error(result.error_code, result.error_message) if result.error_code else None,
            )
            for topic in answer.replica_election_results
            for result in topic.partition_result
        ]

    return sorted(await client.retrying(attempt), key=lambda result: result.tp)
