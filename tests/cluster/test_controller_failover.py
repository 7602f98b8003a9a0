"""Real processes: the active controller is killed while topics are created, again and again."""

import asyncio
import itertools
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

import pytest
from tests.soak import rounds

from tidelog.client.addresses import Address
from tidelog.client.client import Client
from tidelog.client.connection import Connection, ConnectionSettings
from tidelog.client.errors import ClientError
from tidelog.client.quorum import describe_quorum
from tidelog.client.topics import TopicDescription, describe_topics
from tidelog.testing import Cluster
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

_SETTINGS = ConnectionSettings(client_id="failover-test", connect_timeout_s=2.0, request_timeout_s=20.0)
_PACE_S = 0.05
# What creating may be answered while controllers come and go: nothing was acknowledged then.
_PASSING = {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_CONTROLLER,
    # A broker that was just killed and fenced cannot be given a replica.
    ErrorCode.INVALID_REPLICATION_FACTOR,
}


@dataclass
class History:
    """What was acknowledged, and when."""

    acknowledged: dict[str, UUID] = field(default_factory=dict)
    exists_already: set[str] = field(default_factory=set)
    asked: int = 0
    refused: int = 0


def _addresses(cluster: Cluster) -> list[Address]:
    return list(Client(cluster.bootstrap).bootstrap)


async def _create(connection: Connection, name: str, timeout_ms: int = 15_000) -> tuple[ErrorCode, UUID, str | None]:
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=2)
    answer = await connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms), CreateTopicsResponse)
    (result,) = answer.topics
    return ErrorCode(result.error_code), result.topic_id, result.error_message


async def _keep_creating(history: History, address: Address, prefix: str, stop: asyncio.Event) -> None:
    """Through one broker, whatever happens to it; one name after the other, never the same twice."""
    connection: Connection | None = None
    for number in itertools.count():
        if stop.is_set():
            break
        # What is looked at is the controller, not how fast a disk makes logs.
        await asyncio.sleep(_PACE_S)
        name = f"{prefix}-{number}"
        history.asked += 1
        try:
            if connection is None or connection.closed:
                connection = await Connection.open(address, _SETTINGS)
            code, topic_id, _ = await _create(connection, name)
        except ClientError:
            # Killed: whether it was created, nobody knows.
            history.refused += 1
            await asyncio.sleep(0.05)
            continue
        if code is ErrorCode.NONE:
            history.acknowledged[name] = topic_id
        elif code is ErrorCode.TOPIC_ALREADY_EXISTS:
            # The first try was decided and its answer lost; the broker tried again.
            history.exists_already.add(name)
        else:
            assert code in _PASSING, code
            history.refused += 1
    if connection is not None:
        await connection.close()


@asynccontextmanager
async def _creating(cluster: Cluster) -> AsyncIterator[History]:
    history, stop = History(), asyncio.Event()
    tasks = [
        asyncio.create_task(_keep_creating(history, address, f"by-{number}", stop))
        for number, address in enumerate(_addresses(cluster), 1)
    ]
    try:
        yield history
    finally:
        stop.set()
        await asyncio.gather(*tasks)


async def _active(client: Client) -> tuple[int, int]:
    quorum = await describe_quorum(client)
    return quorum.leader_id, quorum.leader_epoch


async def _first_accepted_s(address: Address, name: str) -> float:
    """How long until a controller accepts, as a client of a broker that lives sees it."""
    loop = asyncio.get_running_loop()
    before = loop.time()
    connection = await Connection.open(address, _SETTINGS)
    try:
        for number in itertools.count():
            code, _, message = await _create(connection, f"{name}-{number}")
            # Decided by a controller that lost its office over it, and asked for again: names are used once.
            if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                return loop.time() - before
            assert code in _PASSING, (code, message)
    finally:
        await connection.close()
    raise AssertionError


async def _seen(address: Address, names: list[str]) -> dict[str, TopicDescription]:
    """As this broker knows them, once it has heard of all of them."""
    async with Client([address], settings=_SETTINGS) as client, asyncio.timeout(60):
        while True:
            try:
                return {topic.name: topic for topic in await describe_topics(client, names)}
            except ApiError as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                await asyncio.sleep(0.05)


@pytest.mark.soak
@pytest.mark.rule("C1", "Q5")
def test_the_active_controller_is_killed_while_topics_are_created() -> None:
    kills = rounds(4, 50)

    async def story(cluster: Cluster) -> None:
        waits: list[float] = []
        epochs: list[int] = []
        by_id = dict(enumerate(_addresses(cluster), 1))
        async with Client(cluster.bootstrap, settings=_SETTINGS) as client, _creating(cluster) as history:
            for number in range(kills):
                before = len(history.acknowledged)
                controller, epoch = await _active(client)
                epochs.append(epoch)
                alive = next(address for node, address in by_id.items() if node != controller)
                await asyncio.to_thread(cluster.kill, controller)
                waits.append(await _first_accepted_s(alive, f"after-{number}"))
                await asyncio.to_thread(cluster.start, controller)
                assert len(history.acknowledged) > before
        assert epochs == sorted(set(epochs)), "every kill is a new epoch, and none goes back"
        for address in by_id.values():
            await _check(address, history)
        median, worst = statistics.median(waits), max(waits)
        print(
            f"{kills} kills: {len(history.acknowledged)} topics acknowledged of {history.asked} asked, "
            f"{history.refused} refused or unknown; next accepted after {median:.3f} s (median), {worst:.3f} s (worst)"
        )

    with Cluster(brokers=3) as cluster:
        asyncio.run(story(cluster))


async def _check(address: Address, history: History) -> None:
    """Everything acknowledged is there, under the id that was told."""
    names = sorted(history.acknowledged)
    for at in range(0, len(names), 500):
        found = await _seen(address, names[at : at + 500])
        for name in names[at : at + 500]:
            assert found[name].topic_id == history.acknowledged[name], name
            assert len(found[name].partitions) == 2


@pytest.mark.rule("Q4")
def test_one_of_three_says_clearly_that_nobody_decides_and_decides_when_another_is_back() -> None:
    async def story(cluster: Cluster) -> None:
        by_id = dict(enumerate(_addresses(cluster), 1))
        for node in (2, 3):
            await asyncio.to_thread(cluster.kill, node)
        connection = await Connection.open(by_id[1], _SETTINGS)
        code, _, message = await _create(connection, "nobody-decides", timeout_ms=1500)
        assert code is ErrorCode.REQUEST_TIMED_OUT
        assert message is not None and ("controller" in message or "metadata quorum" in message), message
        await asyncio.to_thread(cluster.start, 2)
        code, _, message = await _create(connection, "decided")
        assert code is ErrorCode.NONE, message
        await connection.close()

    with Cluster(brokers=3) as cluster:
        asyncio.run(story(cluster))
