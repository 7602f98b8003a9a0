"""Every advertised version of every key: one success and one error each, chosen byte by byte."""

from collections.abc import Iterator

import pytest
from tests.clients.admin_cases import ADMIN_CASES
from tests.clients.group_cases import GROUP_CASES
from tests.clients.record_cases import RECORD_CASES
from tests.clients.topic_cases import TOPIC_CASES
from tests.clients.version_world import SERVED, Cases, World, batch, produce_request
from tests.clients.wire_client import WireClient

from tidelog.core.ids import ZERO_UUID
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.registry import APIS


@pytest.fixture(scope="module")
def world(bootstrap: str) -> Iterator[World]:
    with WireClient(bootstrap) as client:
        found = World(client, "", ZERO_UUID)
        found.topic = found.new_topic()
        found.topic_id = found.id_of(found.topic)
        produced = client.call(produce_request(found.topic, found.topic_id, batch(b"a", b"b", b"c")), 9)
        assert produced.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        client.call(FindCoordinatorRequest(key="g"), 3)
        yield found


CASES: Cases = RECORD_CASES | TOPIC_CASES | GROUP_CASES | ADMIN_CASES
FIRST_ACCEPTED_PRODUCE = 3
# Requests in which nothing can be wrong: no field of these versions has a value that is refused.
CANNOT_FAIL = {(10, 0), (16, 0), (16, 1), (16, 2), (16, 3), (18, 0), (18, 1), (18, 2), (46, 0), (60, 0)}
# What one node alone cannot show: it has no broker to spare, nobody to make a voter, and must keep its only one.
CANNOT_SUCCEED = {(64, 0), (80, 0), (80, 1), (81, 0)}
VERSIONS = [
    pytest.param(key, version, id=f"{APIS[key].name}-v{version}")
    for key, (low, high) in SERVED.items()
    for version in range(max(low, FIRST_ACCEPTED_PRODUCE) if key == 0 else low, high + 1)
]


def test_what_is_advertised_is_what_is_tested(world: World) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    advertised = {
        entry.api_key: (entry.min_version, entry.max_version) for entry in world.client.call(request, 4).api_keys
    }
    assert advertised == SERVED
    assert set(CASES) == set(SERVED)


@pytest.mark.parametrize(("key", "version"), [case for case in VERSIONS if case.values not in CANNOT_SUCCEED])
def test_success(world: World, key: int, version: int) -> None:
    check = CASES[key][0]
    assert check is not None
    check(world, version)


@pytest.mark.parametrize(("key", "version"), [case for case in VERSIONS if case.values not in CANNOT_FAIL])
def test_error(world: World, key: int, version: int) -> None:
    check = CASES[key][1]
    assert check is not None
    check(world, version)


def test_produce_older_than_v3_is_advertised_and_refused(bootstrap: str, world: World) -> None:
    """Old librdkafka turns compression off when Produce is not advertised from 0."""
    frame = b"\0\0\0\1\0\0\0\7\xff\xff"  # key 0, version 1, correlation 7, no client id
    with WireClient(bootstrap) as client:
        client.socket.sendall(len(frame).to_bytes(4, "big") + frame)
        client.assert_closed()
