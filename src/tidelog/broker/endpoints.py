"""Where a client reaches a broker: the endpoint of the listener that the client itself came by."""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.metadata.image import ClusterImage


class Endpoint(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


def endpoint_of(image: ClusterImage, node_id: int, listener_name: str) -> Endpoint | None:
    """None for a broker that is not registered, or has no such listener."""
    broker = image.brokers.get(node_id)
    if broker is None:
        return None
    endpoint = broker.listener(listener_name)
    return None if endpoint is None else Endpoint(node_id, endpoint.host, endpoint.port, broker.rack)


def live_endpoints(
    image: ClusterImage, listener_name: str, also: Callable[[int], bool] = lambda node_id: False
) -> list[Endpoint]:
    """The brokers a client may be sent to: registered and not fenced, and those of `also`."""
    found = []
    for node_id in sorted(image.brokers):
        if image.brokers[node_id].fenced and not also(node_id):
            continue
        endpoint = endpoint_of(image, node_id, listener_name)
        if endpoint is not None:
            found.append(endpoint)
    return found


def endpoints_to_name(
    image: ClusterImage, own_id: int, listener_name: str, also: Callable[[int], bool] = lambda node_id: False
) -> list[Endpoint]:
    """The live ones; when there are none, the broker that is asked, fenced as it is.

    A client that hears of no broker at all forgets those it knew (librdkafka does) and has nobody left to ask.
    """
    found = live_endpoints(image, listener_name, also)
    own = endpoint_of(image, own_id, listener_name)
    return found or ([own] if own is not None else [])
