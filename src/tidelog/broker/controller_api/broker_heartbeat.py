"""BrokerHeartbeat (63), versions 0 to 2: a broker's session, and its connection as a sign of life (C2).

The last connection that carried heartbeats of a broker tells by its end that the process may be gone, unless it is this
node that ended it.
"""

from functools import partial

from tidelog.broker.controller_api import decided
from tidelog.broker.controller_api.services import ControllerServices
from tidelog.broker.dispatch import ClientConnection, RequestContext
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


async def handle(
    services: ControllerServices, ctx: RequestContext, request: BrokerHeartbeatRequest
) -> BrokerHeartbeatResponse:
    response: BrokerHeartbeatResponse = await decided.handle(services, ctx, request)
    if response.error_code == ErrorCode.NONE and services.controller is not None:
        services.controller.heartbeat_heard(ctx.connection, request.broker_id, request.broker_epoch)
        if ctx.connection not in services.heartbeat_connections:
            services.heartbeat_connections.add(ctx.connection)
            # Also if it ended while the heartbeat was decided: then it is called back at once.
            ctx.connection.on_close(partial(_gone, services, ctx.connection))
    return response


def _gone(services: ControllerServices, connection: ClientConnection) -> None:
    services.heartbeat_connections.discard(connection)
    assert services.controller is not None
    if connection.ended_by_peer:
        services.controller.connection_lost(connection)
    else:
        services.controller.connection_closed(connection)
