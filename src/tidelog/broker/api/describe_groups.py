"""DescribeGroups (15), versions 0 to 6: state, protocol and members of groups."""

from tidelog.broker.broker import Broker
from tidelog.broker.dispatch import RequestContext
from tidelog.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse


def handle(broker: Broker, ctx: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    return broker.groups.describe_groups(ctx, request)
