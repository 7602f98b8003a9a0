"""ListGroups (16), versions 0 to 5: the groups of this coordinator, by state (v4) and type (v5) if asked."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


def handle(broker: Broker, ctx: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    return broker.groups.list_groups(request)
