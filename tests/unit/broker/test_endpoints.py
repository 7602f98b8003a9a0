"""Which brokers a client hears of."""

from uuid import UUID

from tidelog.broker.endpoints import endpoint_of, endpoints_to_name, live_endpoints
from tidelog.metadata.image import BrokerRegistration, ClusterImage, EndpointInfo


def image(**fenced: bool) -> ClusterImage:
    """Brokers by name, `b1=True` for one that is fenced."""
    brokers = {
        int(name[1:]): BrokerRegistration(
            broker_id=int(name[1:]),
            epoch=7,
            incarnation_id=UUID(int=1),
            listeners=(EndpointInfo("PLAINTEXT", "127.0.0.1", 9091 + int(name[1:]), 0),),
            fenced=each,
        )
        for name, each in fenced.items()
    }
    return ClusterImage(brokers=brokers)


def ids(found: list[tuple[int, str, int, str | None]]) -> list[int]:
    return [each[0] for each in found]


def test_a_client_hears_of_brokers_that_are_not_fenced() -> None:
    seen = image(b1=False, b2=True, b3=False)
    assert ids([*live_endpoints(seen, "PLAINTEXT")]) == [1, 3]
    assert ids([*live_endpoints(seen, "PLAINTEXT", lambda node_id: node_id == 2)]) == [1, 2, 3]
    assert ids([*endpoints_to_name(seen, 2, "PLAINTEXT")]) == [1, 3]


def test_the_broker_that_is_asked_names_itself_when_all_are_fenced() -> None:
    assert ids([*endpoints_to_name(image(b1=True, b2=True), 2, "PLAINTEXT")]) == [2]


def test_nobody_is_named_without_such_a_listener_or_registration() -> None:
    assert endpoints_to_name(image(b1=True), 1, "SSL") == []
    assert endpoints_to_name(image(), 1, "PLAINTEXT") == []
    assert endpoint_of(image(b1=False), 2, "PLAINTEXT") is None
