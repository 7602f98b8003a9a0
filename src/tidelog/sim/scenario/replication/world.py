"""The commands of `world replication`.

world replication brokers=1,2,3 [seed=1] [loss=expected] [replica.lag.time.max.ms=… and other broker configs]

All brokers run from the start. What brokers say to the controller, and what it decides, arrives at once unless it is
held back; a fetch is sent when the story says so. `loss=expected` lets records acknowledged with acks=all be lost.
A command that ends with `quiet` is not told about.

topic orders replicas=1,2,3 [min.insync.replicas=2 …]    one partition; other topic configs by name
produce 1 orders-0 a b acks=all|1|0 [timeout=30s] [producer=7 sequence=0 [epoch=0]]   one batch; 0..100 are 101 values
fetch 2 [3]            their next question to their leaders, and the answer
ask 2                  the question only: `deliver` brings it, and then its answer
read 1 orders-0 [offset=0]         what a consumer gets from a leader
latest 1 orders-0                  ListOffsets, as a consumer
tick 30s               time passes, with timers and heartbeats, without fetches
run 2s                 time passes, and everybody fetches
settle [verbose]       everybody fetches until nothing moves; no time passes, fetches are told only if verbose
deliver 2->1, drop 2->1            what is on its way on a link; C is the controller
cut 1, cut 1 2, cut 1 C            from everyone; from each other
heal, heal 1, heal 1 2             everything; what is cut of a node; what is cut between nodes
hold 1 metadata|AlterPartition, release 1        what does not arrive by itself
apply 1                the metadata that is held back is applied
kill 1, power-cut 1, start 1       the process ends, files stay; what was not synced is gone; a new process
shutdown 1             a controlled shutdown
elect preferred|unclean orders-0
reassign orders-0 replicas=2,3,4, reassign orders-0 cancel
config orders min.insync.replicas=1
delete-records 1 orders-0 offset=3
above-hw 2 orders-0    what a replica has above its high watermark: what a cut there would take
"""

import re
from collections.abc import Callable
from typing import Any, Final

from tidelog.core.config.node import NodeConfig
from tidelog.core.ids import TopicPartition
from tidelog.metadata.image import ResourceType
from tidelog.replication.partition import Partition
from tidelog.sim.scenario.arguments import duration_s, ids, seconds
from tidelog.sim.scenario.picture import Picture
from tidelog.sim.scenario.replication import invariants
from tidelog.sim.scenario.replication.cluster import ALTER_PARTITION, METADATA, ReplicationCluster
from tidelog.sim.scenario.replication.looking import entries, look
from tidelog.sim.scenario.replication.messages import Node, Packet
from tidelog.sim.scenario.replication.metadata import CONTROLLER
from tidelog.sim.scenario.replication.pictures import pictures
from tidelog.sim.scenario.replication.process import Write
from tidelog.sim.scenario.replication.table import table
from tidelog.sim.scenario.replication.values import shortened, values
from tidelog.sim.scenario.text import Command
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.records.plain import iter_batches

_LINK: Final = re.compile(r"(\w+)->(\w+)")
_PARTITION: Final = re.compile(r"([a-z]+)-(\d+)")
_FETCHES: Final = re.compile(r"(lost: )?\d+->\d+ ")
_ACKS: Final = {"all": -1, "1": 1, "0": 0}
_ELECTIONS: Final = {"preferred": 0, "unclean": 1}
_PRODUCE_TIMEOUT: Final = "30s"
_ENOUGH_BYTES: Final = 1 << 20


class ReplicationWorld:
    """See the module."""

    def __init__(self, world: Command) -> None:
        options = dict(world.options)
        brokers = ids(options.pop("brokers", "1,2,3"))
        seed = int(options.pop("seed", "1"))
        self._kept = invariants.AcknowledgedIsKept(options.pop("loss", "") == "expected")
        self._invariants: list[invariants.Invariant] = [
            invariants.HighWatermarkHolds(),
            invariants.OneLeaderPerEpoch(),
            invariants.LogsMatch(),
            self._kept,
        ]
        if unknown := [key for key in options if "." not in key]:
            raise world.fail(f"unknown options: {', '.join(unknown)}")
        self._lines: list[str] = []
        configs = {broker_id: _config(broker_id, options) for broker_id in brokers}
        self._cluster = ReplicationCluster(configs, seed, self._lines.append, self._kept.on_ack)
        for broker_id in brokers:
            self._cluster.start(broker_id)
        self._verbs: dict[str, Callable[[Command], None]] = {
            "topic": self._topic,
            "produce": self._produce,
            "fetch": self._fetch,
            "ask": self._ask,
            "read": self._read,
            "latest": self._latest,
            "tick": self._tick,
            "run": self._run,
            "settle": self._settle,
            "deliver": self._deliver,
            "drop": self._drop,
            "cut": self._cut,
            "heal": self._heal,
            "hold": self._hold,
            "release": self._release,
            "apply": self._apply,
            "kill": self._kill,
            "power-cut": self._power_cut,
            "start": self._start,
            "shutdown": self._shut_down,
            "elect": self._elect,
            "reassign": self._reassign,
            "config": self._config,
            "delete-records": self._delete_records,
            "above-hw": self._above_high_watermark,
        }

    def execute(self, command: Command) -> list[str]:
        verb = self._verbs.get(command.verb)
        if verb is None:
            raise command.fail(f"unknown command; the commands are: {', '.join(sorted(self._verbs))}")
        self._lines.clear()
        verb(command)
        views = look(self._cluster)
        for invariant in self._invariants:
            invariant.check(views)
        self._lines += self._kept.lost
        self._kept.lost.clear()
        return [] if "quiet" in command.words else list(self._lines)

    def conclude(self) -> list[str]:
        return table(look(self._cluster))

    def pictures(self) -> list[Picture]:
        return pictures(look(self._cluster))

    # --- topics, producers, consumers ---

    def _topic(self, command: Command) -> None:
        [name] = command.words
        configs = dict(command.options)
        replicas = ids(configs.pop("replicas"))
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        [result] = self._cluster.ask_controller(CreateTopicsRequest(topics=[topic])).topics
        if result.error_code != ErrorCode.NONE:
            raise command.fail(f"{ErrorCode(result.error_code).name}: {result.error_message}")
        self._lines.clear()

    def _produce(self, command: Command) -> None:
        broker_id, topic_partition = self._running(command), _partition(command)
        options = dict(command.options)
        acks = _ACKS[options.pop("acks", "all")]
        timeout_s = seconds(options.pop("timeout", _PRODUCE_TIMEOUT))
        assert timeout_s is not None, command
        producer_id = int(options.pop("producer", "-1"))
        producer_epoch = int(options.pop("epoch", "-1" if producer_id < 0 else "0"))
        sequence = int(options.pop("sequence", "-1"))
        if options:
            raise command.fail(f"unknown options: {', '.join(options)}")
        written = [value for word in command.words[2:] if word != "quiet" for value in values(word)]
        if not written:
            raise command.fail("name at least one value")
        write = Write(
            topic_partition=topic_partition,
            values=tuple(written),
            acks=acks,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
        )
        self._cluster.produce(broker_id, write, timeout_s)

    def _read(self, command: Command) -> None:
        broker_id, partition = self._replica(command)
        try:
            found = partition.read(int(command.options.get("offset", "0")), _ENOUGH_BYTES, isolation_level=0)
        except ApiError as error:
            self._lines.append(f"{broker_id}: {error.code.name}: {error.message}")
            return
        records = partition.read_slice(found.slice) if found.slice.size else b""
        found_values = [(record.value or b"").decode() for _, batch in iter_batches(records) for record in batch]
        what = " ".join(shortened(found_values)) or "nothing"
        self._lines.append(f"{broker_id}: a consumer reads {what}, up to {found.high_watermark}")

    def _latest(self, command: Command) -> None:
        broker_id, partition = self._replica(command)
        try:
            self._lines.append(f"{broker_id}: the latest offset is {partition.latest_offset(0)}")
        except ApiError as error:
            self._lines.append(f"{broker_id}: {error.code.name}: {error.message}")

    # --- followers, messages, time ---

    def _fetch(self, command: Command) -> None:
        for broker_id in self._brokers(command):
            self._require_running(command, broker_id)
            if not self._cluster.fetch(broker_id):
                self._lines.append(f"{broker_id}: {self._idle(broker_id)}")

    def _ask(self, command: Command) -> None:
        broker_id = self._running(command)
        if not self._cluster.ask(broker_id):
            self._lines.append(f"{broker_id}: {self._idle(broker_id)}")

    def _idle(self, broker_id: int) -> str:
        now_s = self._cluster.now_s
        due = [at for fetcher in self._cluster.fetchers(broker_id) if (at := fetcher.next_due_s(now_s)) is not None]
        return f"waits {max(0.0, min(due) - now_s):.2f} s before the next fetch" if due else "follows no leader"

    def _tick(self, command: Command) -> None:
        self._cluster.advance(duration_s(command))

    def _run(self, command: Command) -> None:
        cluster = self._cluster

        def fetch_all() -> None:
            for process in cluster.processes:
                cluster.fetch(process.broker_id)

        cluster.advance(duration_s(command), fetch_all)
        self._leave_fetches_out(command)

    def _settle(self, command: Command) -> None:
        self._cluster.settle()
        self._leave_fetches_out(command)

    def _leave_fetches_out(self, command: Command) -> None:
        if "verbose" not in command.words:
            self._lines[:] = [line for line in self._lines if not _FETCHES.match(line)]

    def _deliver(self, command: Command) -> None:
        for packet in self._chosen(command):
            self._cluster.deliver(packet)

    def _drop(self, command: Command) -> None:
        for packet in self._chosen(command):
            self._cluster.lose(packet)

    def _chosen(self, command: Command) -> list[Packet]:
        links = [(link[1], link[2]) for word in command.words if (link := _LINK.fullmatch(word))]
        if not links:
            raise command.fail("name the messages by a link, such as 1->2 or 1->C")
        packets = self._cluster.network.packets
        chosen = [packet for packet in packets if (str(packet.source), str(packet.target)) in links]
        if not chosen:
            raise command.fail("no such message is in flight")
        return chosen

    def _cut(self, command: Command) -> None:
        if not (nodes := self._nodes(command)):
            raise command.fail("name one node to cut off from all others, or several to cut off from each other")
        self._cluster.network.cut(nodes)

    def _heal(self, command: Command) -> None:
        self._cluster.network.heal(self._nodes(command))
        self._cluster.react()

    def _hold(self, command: Command) -> None:
        what = {word for word in command.words if word in (METADATA, ALTER_PARTITION)}
        if not what:
            raise command.fail(f"what? {METADATA} or {ALTER_PARTITION}")
        self._cluster.machines[self._broker(command)].held |= what

    def _release(self, command: Command) -> None:
        self._cluster.machines[self._broker(command)].held.clear()
        self._cluster.react()

    def _apply(self, command: Command) -> None:
        for broker_id in self._brokers(command):
            self._cluster.apply_metadata(broker_id)

    # --- processes ---

    def _kill(self, command: Command) -> None:
        for broker_id in self._brokers(command):
            self._require_running(command, broker_id)
            self._cluster.kill(broker_id)

    def _power_cut(self, command: Command) -> None:
        for broker_id in self._brokers(command):
            self._require_running(command, broker_id)
            self._cluster.power_cut(broker_id)

    def _start(self, command: Command) -> None:
        for broker_id in self._brokers(command):
            if self._cluster.machines[broker_id].process is not None:
                raise command.fail(f"{broker_id} runs")
            self._cluster.start(broker_id)

    def _shut_down(self, command: Command) -> None:
        self._cluster.shut_down(self._running(command))

    # --- the operator ---

    def _elect(self, command: Command) -> None:
        topic, index = _partition(command)
        election = next((_ELECTIONS[word] for word in command.words if word in _ELECTIONS), None)
        if election is None:
            raise command.fail(f"how? {' or '.join(_ELECTIONS)}")
        asked = ElectLeadersRequest(
            election_type=election, topic_partitions=[TopicPartitions(topic=topic, partitions=[index])]
        )
        [result] = self._cluster.ask_controller(asked).replica_election_results
        self._refusals(result.partition_result)

    def _reassign(self, command: Command) -> None:
        topic, index = _partition(command)
        replicas = None if "cancel" in command.words else list(ids(command.options["replicas"]))
        wanted = ReassignablePartition(partition_index=index, replicas=replicas)
        asked = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[wanted])])
        [result] = self._cluster.ask_controller(asked).responses
        self._refusals(result.partitions)

    def _config(self, command: Command) -> None:
        topic = command.words[0]
        resource = AlterConfigsResource(
            resource_type=ResourceType.TOPIC,
            resource_name=topic,
            configs=[AlterableConfig(name=key, value=value) for key, value in command.options.items()],
        )
        self._refusals(self._cluster.ask_controller(IncrementalAlterConfigsRequest(resources=[resource])).responses)
        # What may be elected may have changed, and the controller does not wait for its timer.
        self._cluster.controller.elect_unclean_leaders(self._cluster.now_s)
        self._cluster.react()

    def _refusals(self, results: list[Any]) -> None:
        for result in results:
            if result.error_code != ErrorCode.NONE:
                why = f": {result.error_message}" if result.error_message else ""
                self._lines.append(f"{CONTROLLER}: refused: {ErrorCode(result.error_code).name}{why}")

    def _delete_records(self, command: Command) -> None:
        _, partition = self._replica(command)
        partition.delete_records(int(command.options["offset"]))

    def _above_high_watermark(self, command: Command) -> None:
        broker_id, partition = self._replica(command)
        acknowledged = self._kept.values_acknowledged(partition.topic_partition)
        log = partition.log
        above = [
            f"{entry.value}, acknowledged" if acknowledged.get(entry.offset) == entry.value else entry.value
            for entry in entries(log)
            if entry.offset >= log.high_watermark
        ]
        self._lines.append(
            f"{broker_id}: above its high watermark {log.high_watermark} its log has: {'; '.join(above) or 'no record'}"
        )

    # --- arguments ---

    def _nodes(self, command: Command) -> list[Node]:
        """Brokers and the controller."""
        controller: list[Node] = [CONTROLLER] if CONTROLLER in command.words else []
        return [*self._brokers(command), *controller]

    def _brokers(self, command: Command) -> list[int]:
        found = [int(word) for word in command.words if word.isdecimal()]
        if unknown := [broker_id for broker_id in found if broker_id not in self._cluster.machines]:
            raise command.fail(f"broker {unknown[0]} does not exist")
        return found

    def _broker(self, command: Command) -> int:
        if not command.words or not command.words[0].isdecimal():
            raise command.fail("which broker?")
        return self._brokers(Command(command.line, command.verb, command.words[:1], {}))[0]

    def _running(self, command: Command) -> int:
        broker_id = self._broker(command)
        self._require_running(command, broker_id)
        return broker_id

    def _require_running(self, command: Command, broker_id: int) -> None:
        if self._cluster.machines[broker_id].process is None:
            raise command.fail(f"{broker_id} is down")

    def _replica(self, command: Command) -> tuple[int, Partition]:
        broker_id = self._running(command)
        partition = self._cluster.process(broker_id).replicas.get(_partition(command))
        if partition is None:
            raise command.fail(f"{broker_id} has no such replica")
        return broker_id, partition


def _config(broker_id: int, options: dict[str, str]) -> NodeConfig:
    return NodeConfig.parse(
        {
            "node.id": str(broker_id),
            "process.roles": "broker,controller",
            "controller.quorum.voters": f"{broker_id}@localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "log.dirs": "/data",
            **options,
        }
    )[0]


def _partition(command: Command) -> TopicPartition:
    for word in command.words:
        if found := _PARTITION.fullmatch(word):
            return TopicPartition(found[1], int(found[2]))
    raise command.fail("which partition? As orders-0")
