"""Consumer groups as the page shows them. The browser computes their lag from the offsets of the partitions."""

from typing import Any, Final

from tidelog.client.client import Client
from tidelog.client.groups import committed_offsets, describe_group, list_groups

# The page shows this many: each group costs two requests.
MOST_GROUPS: Final = 50


async def look(client: Client) -> tuple[dict[str, dict[str, Any]], int]:
    """The first groups by id, and the number of all groups. Raises ApiError or ClientError without an answer."""
    listed = await list_groups(client)
    return {group.group_id: await _group(client, group.group_id) for group in listed[:MOST_GROUPS]}, len(listed)


async def _group(client: Client, group: str) -> dict[str, Any]:
    described = await describe_group(client, group)
    committed = await committed_offsets(client, group)
    readers = {tp: member.client_id for member in described.members for tp in member.partitions}
    return {
        "id": group,
        "state": described.state,
        "members": len(described.members),
        "offsets": [
            [tp.topic, tp.partition, committed[tp].offset if tp in committed else None, readers.get(tp)]
            for tp in sorted({*committed, *readers})
        ],
    }
