"""The commands of `world quorum`.

world quorum nodes=1,2,3 [voters=1,2] [seed=1] [kraft=1] [flush=manual] [segment-bytes=…] [retention-bytes=…]
                 [fetch-bytes=…]

start [1 2]          processes start (all that are down)
kill 1 [silent]      the process ends, its files stay as they are; silent: nobody's connection tells
crash 1 [silent]     power fails: everything that was not synced is gone
stop 1               an orderly end
tick 150ms           time passes, no message arrives
run 2s [verbose]     time passes, every message arrives at once; messages are told only if verbose
deliver [1->2] [Vote] every message now on its way, or those of a link or a kind
settle               messages arrive until none is on its way; no time passes
drop, duplicate      as deliver; at least one of link and kind
delay 50ms [1->2] [Vote]
cut 1 2, cut 1->2, cut 1    both ways, one way, from everyone
heal
append 1 a=1 b=2     one batch of records at the leader
flush 1              only with flush=manual
snapshot 1           of everything the member has applied
add-voter 4, remove-voter 1    asked of the leader
state [1 2], log 1, inflight
"""

import re
from collections.abc import Callable
from typing import Final

from tidelog.quorum.errors import NotLeader, QuorumError
from tidelog.quorum.metadata_log import MetadataLogConfig
from tidelog.quorum.raft_config import RaftConfig
from tidelog.sim.scenario.arguments import NothingSurvives, duration_s, ids
from tidelog.sim.scenario.picture import Picture
from tidelog.sim.scenario.quorum.cluster import ClusterConfig, QuorumCluster
from tidelog.sim.scenario.quorum.network import Packet
from tidelog.sim.scenario.quorum.observer import described
from tidelog.sim.scenario.quorum.pictures import picture, words
from tidelog.sim.scenario.text import Command

_LINK: Final = re.compile(r"(\d+)->(\d+)")
_TRAFFIC: Final = re.compile(r"(lost )?\d+->\d+ |\d+: connection to ")


class QuorumWorld:
    """See the module."""

    def __init__(self, world: Command) -> None:
        options = dict(world.options)
        nodes = ids(options.pop("nodes", "1,2,3"))
        log = MetadataLogConfig(
            segment_bytes=int(options.pop("segment-bytes", 1 << 20)),
            retention_bytes=int(options.pop("retention-bytes", 100 << 20)),
        )
        fetch_bytes = int(options.pop("fetch-bytes", 1 << 20))
        config = ClusterConfig(
            nodes=nodes,
            voters=ids(options.pop("voters", ",".join(map(str, nodes)))),
            seed=int(options.pop("seed", "1")),
            voters_in_log=options.pop("kraft", "0") == "1",
            auto_flush=options.pop("flush", "auto") == "auto",
            raft=RaftConfig(fetch_max_bytes=fetch_bytes, fetch_snapshot_max_bytes=fetch_bytes),
            log=log,
        )
        if options:
            raise world.fail(f"unknown options: {', '.join(options)}")
        self._lines: list[str] = []
        self._cluster = QuorumCluster(config, self._lines.append)
        self._verbs: dict[str, Callable[[Command], None]] = {
            "start": self._start,
            "kill": self._kill,
            "crash": self._crash,
            "stop": self._stop,
            "tick": self._tick,
            "run": self._run,
            "deliver": self._deliver,
            "settle": self._settle,
            "drop": self._drop,
            "duplicate": self._duplicate,
            "delay": self._delay,
            "cut": self._cut,
            "heal": self._heal,
            "append": self._append,
            "flush": self._flush,
            "snapshot": self._snapshot,
            "add-voter": self._add_voter,
            "remove-voter": self._remove_voter,
            "state": self._state,
            "log": self._log,
            "inflight": self._inflight,
        }

    def execute(self, command: Command) -> list[str]:
        verb = self._verbs.get(command.verb)
        if verb is None:
            raise command.fail(f"unknown command; the commands are: {', '.join(sorted(self._verbs))}")
        self._lines.clear()
        try:
            verb(command)
        except (NotLeader, QuorumError) as refusal:
            self._lines.append(f"refused: {refusal}")
        return [] if "quiet" in command.words else list(self._lines)

    def conclude(self) -> list[str]:
        """Stories of the quorum ask for its `state` where they want it."""
        return []

    def pictures(self) -> list[Picture]:
        return [picture(self._cluster.members.values())]

    # --- processes ---

    def _start(self, command: Command) -> None:
        down = [node for node, member in self._cluster.members.items() if member.raft is None]
        for node in self._nodes(command) or down:
            self._cluster.start(node)

    def _kill(self, command: Command) -> None:
        self._cluster.kill(self._node(command), silent="silent" in command.words)

    def _crash(self, command: Command) -> None:
        self._cluster.crash(self._node(command), NothingSurvives(), silent="silent" in command.words)

    def _stop(self, command: Command) -> None:
        self._cluster.resign(self._node(command))

    # --- time and messages ---

    def _tick(self, command: Command) -> None:
        self._cluster.advance(self._cluster.now_s + duration_s(command))

    def _run(self, command: Command) -> None:
        self._cluster.run_for(duration_s(command))
        if "verbose" not in command.words:
            self._lines[:] = [line for line in self._lines if not _TRAFFIC.match(line)]

    def _settle(self, command: Command) -> None:
        self._cluster.settle()

    def _deliver(self, command: Command) -> None:
        for packet in self._chosen(command):
            if packet in self._cluster.network.packets:
                self._cluster.deliver(packet)

    def _drop(self, command: Command) -> None:
        for packet in self._chosen(command):
            self._cluster.drop(packet)
            self._lines.append(f"lost {packet}")

    def _duplicate(self, command: Command) -> None:
        for packet in self._chosen(command):
            self._lines.append(f"{self._cluster.network.duplicate(packet)}")

    def _delay(self, command: Command) -> None:
        for packet in self._chosen(command):
            packet.not_before_s = self._cluster.now_s + duration_s(command)

    def _chosen(self, command: Command) -> list[Packet]:
        links = [(int(link[1]), int(link[2])) for word in command.words if (link := _LINK.fullmatch(word))]
        kinds = [word for word in command.words if word[0].isupper()]
        if command.verb != "deliver" and not (links or kinds):
            raise command.fail("name the messages by a link (1->2) or by a kind (Vote)")
        chosen = [
            packet
            for packet in self._cluster.network.packets
            if (not links or (packet.source, packet.target) in links)
            and (not kinds or packet.kind in kinds)
            and packet.not_before_s <= self._cluster.now_s
        ]
        if not chosen:
            raise command.fail("no such message is in flight")
        return chosen

    def _cut(self, command: Command) -> None:
        pairs: list[tuple[int, int]] = []
        for word in command.words:
            if link := _LINK.fullmatch(word):
                pairs.append((int(link[1]), int(link[2])))
        nodes = self._nodes(command)
        if len(nodes) == 1:
            others = [other for other in self._cluster.members if other != nodes[0]]
            pairs += [pair for other in others for pair in ((nodes[0], other), (other, nodes[0]))]
        pairs += [(one, other) for one in nodes for other in nodes if one != other]
        self._cluster.cut(pairs)

    def _heal(self, command: Command) -> None:
        self._cluster.network.cuts.clear()

    # --- the user's side ---

    def _append(self, command: Command) -> None:
        self._cluster.append(self._node(command), [f"{key}={value}" for key, value in command.options.items()])

    def _flush(self, command: Command) -> None:
        node = self._node(command)
        self._cluster.begin_flush(node)
        self._cluster.end_flush(node)

    def _snapshot(self, command: Command) -> None:
        self._cluster.snapshot(self._node(command))

    def _add_voter(self, command: Command) -> None:
        self._cluster.add_voter(*self._two_nodes(command))

    def _remove_voter(self, command: Command) -> None:
        self._cluster.remove_voter(*self._two_nodes(command))

    # --- looking ---

    def _state(self, command: Command) -> None:
        for node in self._nodes(command) or self._cluster.members:
            self._lines.append(described(self._cluster.members[node]))

    def _log(self, command: Command) -> None:
        member = self._cluster.members[self._node(command)]
        if member.raft is None:
            raise command.fail(f"{member.id} is down")
        log = member.raft.log
        for batch, content in member.batches(log.log_start_offset, log.log_end_offset):
            self._lines.append(f"{batch.base_offset}..{batch.last_offset}@{batch.epoch} {' '.join(words(content))}")

    def _inflight(self, command: Command) -> None:
        self._lines += [str(packet) for packet in self._cluster.network.packets] or ["nothing"]

    # --- arguments ---

    def _nodes(self, command: Command) -> list[int]:
        nodes = [int(word) for word in command.words if word.isdecimal()]
        if unknown := [node for node in nodes if node not in self._cluster.members]:
            raise command.fail(f"node {unknown[0]} does not exist")
        return nodes

    def _node(self, command: Command) -> int:
        nodes = self._nodes(command)
        if len(nodes) != 1:
            raise command.fail("one node is needed")
        return nodes[0]

    def _two_nodes(self, command: Command) -> tuple[int, int]:
        nodes = self._nodes(command)
        if len(nodes) != 2:
            raise command.fail("name two nodes: the receiver of the request, and the voter")
        return nodes[0], nodes[1]
