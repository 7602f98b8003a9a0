"""Who is the active controller, asked of whoever of the nodes answers first."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tidelog.client.addresses import Address
from tidelog.client.client import Client
from tidelog.client.connection import ConnectionSettings
from tidelog.client.errors import ClientError
from tidelog.client.quorum import describe_quorum
from tidelog.wire.errors import ApiError

# `status` is for people who wait: a cluster without a controller is told as such before they wonder.
ASK_TIMEOUT_S: Final = 1.0
_SETTINGS: Final = ConnectionSettings(
    client_id="tidelog-supervisor", connect_timeout_s=ASK_TIMEOUT_S, request_timeout_s=ASK_TIMEOUT_S
)


@dataclass(frozen=True, slots=True)
class ActiveController:
    """The leader of the metadata quorum and its epoch."""

    id: int
    epoch: int


async def active_controller(ports: Iterable[int], *, timeout_s: float = ASK_TIMEOUT_S) -> ActiveController | None:
    """The leader that the first to answer names; None when nobody knows one in time."""
    asking = [asyncio.create_task(_ask(port)) for port in ports]
    if not asking:
        return None
    try:
        for answer in asyncio.as_completed(asking, timeout=timeout_s):
            found = await answer
            if found is not None:
                return found
    except TimeoutError:
        return None
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    return None


async def _ask(port: int) -> ActiveController | None:
    try:
        async with Client([Address("127.0.0.1", port)], settings=_SETTINGS, retry_timeout_s=0) as client:
            found = await describe_quorum(client)
    except (ApiError, ClientError):
        return None
    return ActiveController(found.leader_id, found.leader_epoch) if found.leader_id >= 0 else None
