"""Applies the reports of nodes and supervisor to a board (rows as in `broker/watch_changes.py`). No I/O, no clock."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from tidelog.web.board import Board, NodeRow, Partition, Replica
from tidelog.web.explain import DROPPED, HEALED, ISOLATED, NODE_STATES, SLOWED
from tidelog.web.stalls import Stalls, moves_again
from tidelog.web.timeline import Timeline

MOST_DELETED: Final = 10_000


class Watching:
    """The only writer of a live board: `node_line`, `node_lost`, `supervisor_line`, `tick`."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self._timeline = Timeline(board)
        self._stalls = Stalls()
        # Deleted topics: a node that lags still reports them.
        self._deleted: dict[str, None] = {}

    # --- reports of a node ---

    def node_line(self, told: Mapping[str, Any], *, first: bool, now_ms: int) -> None:
        """Applies one line. The first line of a connection holds everything that the node has."""
        node = int(told["node"])
        self._at(now_ms)
        self.board.put_node(replace(self.board.node(node), heard=True))
        if first:
            self._forget_replicas(node, {(row[0], row[1]) for row in told.get("replicas", ())})
        for topic_id in told.get("deleted", ()):
            self._delete(topic_id)
        for row in told.get("metadata", ()):
            self._metadata(row)
        for row in told.get("brokers", ()):
            self._broker(*row)
        if "quorum" in told:
            self._quorum(node, told["quorum"])
        for row in told.get("replicas", ()):
            self._replica(node, row, now_ms)
        for topic, number in told.get("gone", ()):
            self._drop_replica(node, (topic, number))
        if "dropped" in told:
            self._timeline.say(f"node {node} skipped {told['dropped']} events", DROPPED, now_ms, node=node)
        for event in told.get("events", ()):
            self._timeline.event(event, node, event["time"], event["text"])

    def node_lost(self, node: int, now_ms: int) -> None:
        """The connection ended. The last known offsets stay on the board."""
        self._at(now_ms)
        self.board.put_node(replace(self.board.node(node), heard=False, quorum_role="", quorum_leader=-1))

    def _metadata(self, row: Sequence[Any]) -> None:
        topic, topic_id, number, leader, leader_epoch, partition_epoch, replicas, isr, elr, recovering = row
        if topic_id in self._deleted:
            return
        known = self.board.partitions.get((topic, number))
        if known is None or known.topic_id not in ("", topic_id):
            known = Partition(topic=topic, number=number)
        # Another node has reported this metadata already.
        if partition_epoch <= known.partition_epoch:
            return
        same_leader = known.leader == leader and known.leader_epoch == leader_epoch
        self.board.put_partition(
            known._replace(
                topic_id=topic_id,
                leader=leader,
                leader_epoch=leader_epoch,
                partition_epoch=partition_epoch,
                replicas=tuple(replicas),
                isr=tuple(isr),
                elr=tuple(elr),
                recovering=recovering,
                asked_isr=known.asked_isr if same_leader else None,
            )
        )

    def _delete(self, topic_id: str) -> None:
        self._deleted[topic_id] = None
        if len(self._deleted) > MOST_DELETED:
            del self._deleted[next(iter(self._deleted))]
        for key in [each.key for each in self.board.partitions if each.topic_id == topic_id]:
            self.board.remove_partition(key)

    def _broker(self, broker: int, epoch: int, standing: str) -> None:
        known = self.board.node(broker)
        if epoch >= known.broker_epoch:
            self.board.put_node(replace(known, broker_epoch=epoch, standing=standing))

    def _quorum(self, node: int, row: Sequence[Any]) -> None:
        role, epoch, leader, end, high_watermark, votes = row
        self.board.put_node(
            replace(
                self.board.node(node),
                quorum_role=role,
                quorum_epoch=epoch,
                quorum_leader=leader,
                metadata_end=end,
                metadata_high_watermark=high_watermark,
                votes=votes,
            )
        )

    def _replica(self, node: int, row: Sequence[Any], now_ms: int) -> None:
        topic, number, role, epoch, start, high_watermark, stable, end, min_isr, asked = row
        known = self.board.partitions.get((topic, number)) or Partition(topic=topic, number=number)
        replica = Replica(
            role=role,
            leader_epoch=epoch,
            log_start_offset=start,
            high_watermark=high_watermark,
            last_stable_offset=stable,
            log_end_offset=end,
        )
        changed: dict[str, Any] = {"held": {**known.held, node: replica}}
        if role == "leader" and epoch >= known.leader_epoch:
            # Its report is newer than the metadata of nodes that have not replayed the election yet.
            changed |= {
                "leader": node,
                "leader_epoch": epoch,
                "min_isr": min_isr,
                "asked_isr": None if asked is None else tuple(asked),
            }
        partition = self._stalls.look(known._replace(**changed), now_ms)
        moves_again(known, partition, self._timeline, now_ms)
        self.board.put_partition(partition)

    def _forget_replicas(self, node: int, but: set[tuple[str, int]]) -> None:
        for partition in [each for each in self.board.partitions if node in each.held and each.key not in but]:
            self._drop_replica(node, partition.key)

    def _drop_replica(self, node: int, key: tuple[str, int]) -> None:
        partition = self.board.partitions.get(key)
        if partition is not None:
            held = {each: replica for each, replica in partition.held.items() if each != node}
            self.board.put_partition(partition._replace(held=held))

    # --- reports of the supervisor ---

    def supervisor_line(self, status: Mapping[str, Any], now_ms: int) -> None:
        self._at(now_ms)
        for told in status["nodes"]:
            before = self.board.nodes.get(told["id"])
            links = told["links"]
            after = replace(
                before or NodeRow(id=told["id"]),
                state=told["state"],
                roles=tuple(told["roles"]),
                port=told["port"],
                pid=told["pid"],
                deaf=tuple(links["deaf"]),
                mute=tuple(links["mute"]),
                delay_ms=links["delay_ms"],
            )
            self.board.put_node(after)
            # The state at the time the page opens is not an event.
            if before is not None and before.state != "unknown":
                self._tell_node(before, after, now_ms)

    def _tell_node(self, before: NodeRow, after: NodeRow, now_ms: int) -> None:
        node = after.id
        if after.state != before.state:
            # A resumed node was not started.
            goes_on = before.state == "paused" and after.state in ("starting", "running")
            words = "is resumed" if goes_on else f"is {after.state}"
            self._timeline.say(f"node {node} {words}", NODE_STATES[after.state], now_ms, node=node)
        if (after.deaf, after.mute) != (before.deaf, before.mute):
            if after.deaf or after.mute:
                self._timeline.say(_cut_off(after), ISOLATED, now_ms, node=node)
            else:
                self._timeline.say(f"node {node} reaches the other nodes again", HEALED, now_ms, node=node)
        if after.delay_ms != before.delay_ms:
            late = (
                f"node {node} sends with {after.delay_ms} ms delay"
                if after.delay_ms
                else f"node {node} sends without delay again"
            )
            self._timeline.say(late, SLOWED if after.delay_ms else HEALED, now_ms, node=node)

    # --- passing time ---

    def page_closed(self) -> None:
        """Forgets everything but the timeline. The next page reads the state again, and that is not an event."""
        for partition in list(self.board.partitions):
            self.board.remove_partition(partition.key)
        for node in list(self.board.nodes):
            self.board.put_node(NodeRow(id=node.id))
        self._stalls = Stalls()

    def tick(self, now_ms: int) -> None:
        self._at(now_ms)
        self._stalls.tick(self.board, self._timeline, now_ms)

    def _at(self, now_ms: int) -> None:
        self.board.now_ms = max(self.board.now_ms, now_ms)


def _cut_off(node: NodeRow) -> str:
    if sorted(node.deaf) == sorted(node.mute):
        return f"node {node.id} is cut off from {_nodes(node.deaf)}"
    ways = [
        f"{verb} {_nodes(others)}"
        for verb, others in (("receives nothing from", node.deaf), ("cannot reach", node.mute))
        if others
    ]
    return f"node {node.id} {' and '.join(ways)}"


def _nodes(ids: Sequence[int]) -> str:
    return f"node{'' if len(ids) == 1 else 's'} {', '.join(map(str, ids))}"
