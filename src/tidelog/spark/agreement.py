"""What the brokers say together of topics, where the word of one is not enough.

A broker that is cut off from the cluster, and that clients still reach, goes on telling what it knew: of a topic made
since it has not heard, of one made anew it tells the old id. Taken at its word a partition would be gone, and begun
from its beginning when the broker is back.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from tidelog.client.addresses import Address
from tidelog.client.client import Client, one_line
from tidelog.client.errors import ClientError, ConnectionFailed, raise_for
from tidelog.core.ids import ZERO_UUID, TopicPartition
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

log = logging.getLogger("tidelog.spark")

# For all of them to say the same. A broker is fenced after `broker.session.timeout.ms`.
AGREED_WITHIN_S: Final = 30.0
# For one broker: one that does not answer is not to take the time in which the others could be asked again.
_PATIENCE_S: Final = 5.0


async def agreed(client: Client, topics: Iterable[str]) -> dict[TopicPartition, UUID]:
    """The partitions of these topics that there are, with the ids of their topics, as the brokers say together.

    ApiError, worth another try, while they do not. From then on the client asks those whose word counted.
    """
    names = sorted(topics)
    answers = await _ask_all(client, names)
    nodes = by_node(answers)
    trusted = believed({node: answers[address] for node, address in nodes.items()})
    found = together({node: answers[nodes[node]] for node in trusted}, names)
    # Whose word does not count, and who did not answer.
    client.avoid(_addresses(client, answers) - {nodes[node] for node in trusted})
    # Leaders as the others knew them are forgotten.
    await client.refresh(names)
    return found


async def _ask_all(client: Client, names: list[str]) -> dict[Address, MetadataResponse]:
    """Every broker that anybody names, as many as the cluster has."""
    # No topic is made on the way: a broker that is cut off would wait for the controller.
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
    )
    answers: dict[Address, MetadataResponse] = {}
    failures: list[str] = []

    async def ask(address: Address) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                answer = await (await client.at(address)).request(request, MetadataResponse)
                raise_for(answer.error_code, what="Metadata")
        except TimeoutError:
            failures.append(f"{address} does not answer")
        except (ApiError, ClientError) as error:
            failures.append(one_line(error))
        else:
            answers[address] = answer

    asked: set[Address] = set()
    while to_ask := _addresses(client, answers) - asked:
        asked |= to_ask
        await asyncio.gather(*map(ask, sorted(to_ask, key=str)))
    for failure in failures:
        log.info("asking all brokers: %s", failure)
    if not answers:
        raise ConnectionFailed("; ".join(failures))
    return answers


def _addresses(client: Client, answers: Mapping[Address, MetadataResponse]) -> set[Address]:
    named = {Address(broker.host, broker.port) for answer in answers.values() for broker in answer.brokers}
    return {*client.bootstrap, *client.metadata.brokers.values(), *named}


def by_node(answers: Mapping[Address, MetadataResponse]) -> dict[int, Address]:
    """Where each broker answered. An answer does not say whose it is: it is that of whoever is named with the address.

    A bootstrap server that nobody names (another listener, a balancer) has helped to find the others and no more.
    """
    found: dict[int, Address] = {}
    for answer in answers.values():
        for broker in answer.brokers:
            address = Address(broker.host, broker.port)
            if address in answers:
                found.setdefault(broker.node_id, address)
    return found


def believed(answers: Mapping[int, MetadataResponse]) -> list[int]:
    """Whose word counts: the brokers that most of the answers name.

    The cluster fences who is cut off from it, and its brokers name it no more; it names itself, and them too. Until it
    is fenced it counts with the others, who have to agree with it. They must be more than half of those that are named
    so often: one broker that is left of three may be the one that is cut off.
    """
    named = Counter(broker.node_id for answer in answers.values() for broker in answer.brokers)
    most = max(named.values(), default=0)
    there = sorted(node for node, times in named.items() if times == most)
    trusted = [node for node in there if node in answers]
    if 2 * len(trusted) <= len(there):
        raise ApiError(
            ErrorCode.NETWORK_EXCEPTION,
            f"of the brokers {_listed(there)} only {_listed(trusted) or 'none'} answered: too few to agree on which "
            f"topics exist",
        )
    return trusted


def together(answers: Mapping[int, MetadataResponse], names: Iterable[str]) -> dict[TopicPartition, UUID]:
    """What all of them say alike. ApiError, worth another try, if they differ."""
    found: dict[TopicPartition, UUID] = {}
    for name in names:
        said = {node: _partitions_of(answer, name) for node, answer in answers.items()}
        first = next(iter(said.values()))
        # A broker that is too old for topic ids says nothing of them.
        ids = {topic_id for each in said.values() for topic_id in each.values()} - {ZERO_UUID}
        if len(ids) > 1 or any(each.keys() != first.keys() for each in said.values()):
            raise ApiError(
                ErrorCode.NETWORK_EXCEPTION,
                f"the brokers {_listed(said)} disagree about topic {name}: one may be partitioned from the others",
            )
        found |= dict.fromkeys(first, next(iter(ids), ZERO_UUID))
    return found


def _partitions_of(answer: MetadataResponse, name: str) -> dict[TopicPartition, UUID]:
    for topic in answer.topics:
        if topic.name == name and topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise_for(topic.error_code, what=f"topic {name!r}")
            return {TopicPartition(name, each.partition_index): topic.topic_id for each in topic.partitions}
    return {}


def _listed(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(nodes)))
