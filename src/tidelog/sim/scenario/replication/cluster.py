"""Brokers, the controller, the links between them and one clock. No thread, no loop: somebody calls, something moves.

What is said to the controller is said at once, and what it decided is applied at once, unless the story holds it back;
fetches are sent when the story says so.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from tidelog.controller.fast_fence import DialOutcome
from tidelog.core.config.node import NodeConfig
from tidelog.metadata.features import SUPPORTED_FEATURES
from tidelog.replication.fetcher import Fetcher
from tidelog.replication.partition import Partition
from tidelog.sim.scenario.arguments import NothingSurvives
from tidelog.sim.scenario.replication.messages import Network, Node, Packet
from tidelog.sim.scenario.replication.metadata import CLUSTER_ID, CONTROLLER, ControllerSeat, Tell
from tidelog.sim.scenario.replication.process import Parked, Process, Write
from tidelog.sim.scenario.replication.serving import answer_fetch, answer_offsets
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.alter_partition import AlterPartitionRequest
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.records.plain import Record, encode_batch

_START_S: Final = 1000.0
# Time passes in steps of this length; every timer of a story is a multiple of it.
_STEP_S: Final = 0.1
# As the shell's first pause before an AlterPartition is asked again.
_ISR_RETRY_S: Final = 0.05
_MAX_ROUNDS: Final = 100

METADATA: Final = "metadata"
ALTER_PARTITION: Final = "AlterPartition"


@dataclass(slots=True)
class Machine:
    """A broker's disk, and its process if one runs."""

    broker_id: int
    config: NodeConfig
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    process: Process | None = None
    incarnations: int = 0
    heartbeat_at_s: float = 0.0
    # What does not arrive by itself: the metadata here, or this broker's AlterPartition at the controller.
    held: set[str] = field(default_factory=set)


class ReplicationCluster:
    """`told` hears what happens, line by line; `on_ack` of each write that is acknowledged, with its first offset."""

    def __init__(
        self,
        configs: dict[int, NodeConfig],
        seed: int,
        told: Tell,
        on_ack: Callable[[Write, int], None],
    ) -> None:
        self._tell = told
        self._on_ack = on_ack
        self._rng = random.Random(seed)
        self._steps = 0
        self.network = Network()
        self.machines = {broker_id: Machine(broker_id, config) for broker_id, config in configs.items()}
        self.controller = ControllerSeat(next(iter(configs.values())), self._rng, told, self.now_s)

    @property
    def now_s(self) -> float:
        # Counted in whole steps: sums of 0.1 would drift.
        return _START_S + self._steps * _STEP_S

    @property
    def processes(self) -> list[Process]:
        return [machine.process for machine in self.machines.values() if machine.process is not None]

    def process(self, broker_id: int) -> Process:
        process = self.machines[broker_id].process
        assert process is not None, f"broker {broker_id} is down"
        return process

    # --- processes ---

    def start(self, broker_id: int) -> None:
        """A new incarnation reads the metadata, recovers its logs, registers, and is unfenced once it has caught up."""
        machine = self.machines[broker_id]
        assert machine.process is None, f"broker {broker_id} runs"
        machine.incarnations += 1
        machine.disk.make_dirs("/data")
        machine.disk.fsync_dir("/")
        process = Process(
            broker_id,
            UUID(int=1000 * broker_id + machine.incarnations),
            machine.disk,
            machine.config,
            rng=self._rng,
            tell=self._tell,
            now_s=lambda: self.now_s,
        )
        process.load(self.controller.batches)
        machine.process = process
        machine.heartbeat_at_s = self.now_s
        self._beat(machine)
        self.react()

    def kill(self, broker_id: int) -> None:
        """The process ends between two steps; files stay, connections break, and the controller may dial."""
        process = self._end(broker_id)
        process.logs.release()
        if not self.network.is_cut(broker_id, CONTROLLER):
            self.controller.connection_lost(broker_id, process.epoch, self.now_s)

    def power_cut(self, broker_id: int) -> None:
        """Everything that was not synced is gone, and nobody is told."""
        self._end(broker_id)
        self.machines[broker_id].disk.crash(NothingSurvives(), lose_entries=False)

    def shut_down(self, broker_id: int) -> None:
        """Asks the controller to be let go (C9), then closes its logs. It stops only when it may."""
        machine = self.machines[broker_id]
        for _ in range(_MAX_ROUNDS):
            if self._heartbeat(machine, want_shut_down=True).should_shut_down:
                break
            self.react()
            for other in self.machines.values():
                if other is not machine:
                    self._beat(other)
            self.react()
        else:
            raise AssertionError(f"broker {broker_id} may not stop")
        self.process(broker_id).close_cleanly()
        self._end(broker_id)
        self.react()

    def _end(self, broker_id: int) -> Process:
        process = self.process(broker_id)
        for parked in process.parked:
            self._tell(f"{broker_id}: {parked.write}: the connection broke")
        self.machines[broker_id].process = None
        self.network.packets = [each for each in self.network.packets if broker_id not in (each.source, each.target)]
        return process

    # --- time ---

    def advance(self, duration_s: float, each_step: Callable[[], None] = lambda: None) -> None:
        for _ in range(max(1, round(duration_s / _STEP_S))):
            self._steps += 1
            for machine in self.machines.values():
                if self.now_s >= machine.heartbeat_at_s:
                    self._beat(machine)
            self.controller.on_time(self.now_s, self._dial)
            for process in self.processes:
                process.on_time()
            each_step()
            self.react()

    def _dial(self, broker_id: int) -> DialOutcome:
        if self.network.is_cut(broker_id, CONTROLLER):
            return DialOutcome.SILENT
        return DialOutcome.REACHED if self.machines[broker_id].process else DialOutcome.REFUSED

    # --- the controller ---

    def _beat(self, machine: Machine) -> None:
        process = machine.process
        if process is None or self.network.is_cut(machine.broker_id, CONTROLLER):
            return
        machine.heartbeat_at_s = self.now_s + machine.config.broker_heartbeat_interval_ms / 1000
        if process.epoch < 0 and not self._register(machine, process):
            return
        if METADATA not in machine.held:
            # It is unfenced when it knows of its own registration (C2).
            self._apply_metadata(machine)
        self._heartbeat(machine)

    def _register(self, machine: Machine, process: Process) -> bool:
        clean_epoch = process.logs.clean_shutdown_epoch
        response: BrokerRegistrationResponse = self.controller.send(
            BrokerRegistrationRequest(
                broker_id=machine.broker_id,
                cluster_id=CLUSTER_ID,
                incarnation_id=process.incarnation_id,
                listeners=[Listener(name="PLAINTEXT", host="localhost", port=9091 + machine.broker_id)],
                features=[
                    Feature(name=name, min_supported_version=low, max_supported_version=high)
                    for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
                ],
                log_dirs=[UUID(int=(machine.broker_id << 64) + 500)],
                previous_broker_epoch=-1 if clean_epoch is None else clean_epoch,
            ),
            self.now_s,
        )
        if response.error_code != ErrorCode.NONE:
            self._tell(f"{machine.broker_id}: registration refused: {ErrorCode(response.error_code).name}")
            return False
        process.epoch = response.broker_epoch
        return True

    def _heartbeat(self, machine: Machine, *, want_shut_down: bool = False) -> BrokerHeartbeatResponse:
        process = self.process(machine.broker_id)
        response: BrokerHeartbeatResponse = self.controller.send(
            BrokerHeartbeatRequest(
                broker_id=machine.broker_id,
                broker_epoch=process.epoch,
                current_metadata_offset=process.image.provenance.offset,
                want_shut_down=want_shut_down,
            ),
            self.now_s,
        )
        if response.error_code == ErrorCode.NONE:
            process.fenced = response.is_fenced
            self.controller.heard(machine.broker_id, process.epoch)
        return response

    def ask_controller(self, request: Any) -> Any:
        """An operator's request."""
        response = self.controller.send(request, self.now_s)
        self.react()
        return response

    # --- what follows by itself ---

    def react(self) -> None:
        """Metadata is applied, proposals are made and answered, parked writes end: until nothing more follows."""
        for _ in range(_MAX_ROUNDS):
            before = self.controller.next_offset
            for machine in self.machines.values():
                if METADATA not in machine.held:
                    self._apply_metadata(machine)
            for machine in self.machines.values():
                self._propose(machine)
            for process in self.processes:
                for parked, code in process.finished():
                    self._end_write(process, parked, code)
            if self.controller.next_offset == before:
                return
        raise AssertionError("the controller never comes to rest")

    def apply_metadata(self, broker_id: int) -> None:
        """Though it is held back."""
        self._apply_metadata(self.machines[broker_id])
        self.react()

    def _apply_metadata(self, machine: Machine) -> None:
        process = machine.process
        if process is None or self.network.is_cut(machine.broker_id, CONTROLLER):
            return
        for batch in self.controller.batches:
            if batch.provenance.offset > process.image.provenance.offset:
                process.apply(batch)

    def _propose(self, machine: Machine) -> None:
        process = machine.process
        if process is None or self.now_s < process.ask_isr_at_s:
            return
        request = process.replicas.next_isr_request(process.epoch)
        if request is not None:
            packet = self._send(machine.broker_id, CONTROLLER, request, process)
            if packet is not None and ALTER_PARTITION not in machine.held:
                self.deliver(self.deliver(packet))

    def _end_write(self, process: Process, parked: Parked, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            self._acknowledged(process.broker_id, parked.write, parked.first_offset)
        else:
            self._tell(f"{process.broker_id}: {parked.write}: {code.name}")

    def _acknowledged(self, broker_id: int, write: Write, first_offset: int) -> None:
        self._tell(f"{broker_id}: {write}: acknowledged at offset {first_offset}")
        self._on_ack(write, first_offset)

    # --- producers ---

    def produce(self, broker_id: int, write: Write, timeout_s: float) -> None:
        process = self.process(broker_id)
        records = [Record(timestamp=process.now_ms, value=value.encode()) for value in write.values]
        batch = encode_batch(
            records,
            producer_id=write.producer_id,
            producer_epoch=write.producer_epoch,
            base_sequence=write.base_sequence,
        )
        try:
            partition = process.replicas.partition(write.topic_partition)
            info = partition.append_as_leader(memoryview(bytearray(batch)), write.acks, process.now_ms, self.now_s)
        except ApiError as error:
            # The rest of it is for logs.
            self._tell(f"{broker_id}: {write}: {error.code.name}: {error.message.partition(';')[0]}")
            return
        if info.duplicate:
            self._tell(f"{broker_id}: {write}: duplicate, already at offset {info.first_offset}")
        if write.acks != -1:
            self._acknowledged(broker_id, write, info.first_offset)
            self.react()
            return
        required = info.last_offset + 1
        parked = Parked(
            write=write,
            leader_epoch=partition.leader_epoch,
            first_offset=info.first_offset,
            required_offset=required,
            due_s=self.now_s + timeout_s,
        )
        process.parked.append(parked)
        self.react()
        if parked in process.parked:
            self._tell(f"{broker_id}: {write}: waits until HW is {required}")

    # --- followers ---

    def fetchers(self, broker_id: int) -> list[Fetcher]:
        fetchers = self.process(broker_id).fetchers
        return [fetchers[leader_id] for leader_id in sorted(fetchers)]

    def ask(self, broker_id: int) -> list[Packet]:
        """The next request of each of its fetchers goes out."""
        process = self.process(broker_id)
        sent: list[Packet] = []
        for fetcher in self.fetchers(broker_id):
            if fetcher.in_flight is not None:
                continue
            request = fetcher.build_request(self.now_s)
            if request is not None:
                packet = self._send(broker_id, fetcher.leader_id, request, process, fetcher)
                if packet is not None:
                    sent.append(packet)
        self.react()
        return sent

    def fetch(self, broker_id: int) -> bool:
        """Questions and answers; False if there was nothing to ask, or not yet."""
        asked = self.ask(broker_id)
        for packet in asked:
            self.deliver(self.deliver(packet))
        return bool(asked)

    def settle(self) -> None:
        """Everybody fetches until nothing moves any more. No time passes."""
        quiet = 0
        for _ in range(_MAX_ROUNDS):
            before = self.fingerprint()
            for process in self.processes:
                self.fetch(process.broker_id)
            quiet = quiet + 1 if self.fingerprint() == before else 0
            if quiet == 2:
                return
        raise AssertionError("replication never comes to rest")

    def fingerprint(self) -> list[object]:
        return [
            self.controller.next_offset,
            *(
                (process.broker_id, partition.topic_partition, _state_of(partition))
                for process in self.processes
                for partition in process.replicas
            ),
        ]

    # --- messages ---

    def _send(
        self, source: Node, target: Node, request: Any, process: Process, fetcher: Fetcher | None = None
    ) -> Packet | None:
        """None if it is lost."""
        packet = Packet(source, target, request, process.incarnation_id, fetcher)
        self._say(packet.told(self.controller.image))
        self.network.packets.append(packet)
        if self.network.is_cut(source, target):
            self.lose(packet)
            return None
        return packet

    def deliver(self, packet: Packet | None) -> Packet | None:
        """A request gives its answer, which is then on its way; an answer gives nothing."""
        if packet is None or packet not in self.network.packets:
            return None
        if self.network.is_cut(packet.source, packet.target) or not self._is_there(packet.target):
            self.lose(packet)
            return None
        self.network.packets.remove(packet)
        if packet.answer is not None:
            self._take_answer(packet)
            self.react()
            return None
        answer = packet.answered(self._serve(packet))
        self.react()
        self._say(answer.told(self.controller.image))
        self.network.packets.append(answer)
        return answer

    def lose(self, packet: Packet) -> None:
        """Whoever asked gives up on it."""
        self._say([f"lost: {line}" for line in packet.told(self.controller.image)])
        self.network.packets.remove(packet)
        process = self._asker(packet)
        if process is None:
            return
        if packet.fetcher is not None:
            packet.fetcher.on_failure(packet.request, self.now_s)
        else:
            process.replicas.context.changes.on_failure()
            process.ask_isr_at_s = self.now_s + _ISR_RETRY_S

    def _is_there(self, node: Node) -> bool:
        return isinstance(node, str) or self.machines[node].process is not None

    def _asker(self, packet: Packet) -> Process | None:
        """None if the process that asked is gone."""
        assert isinstance(packet.asker, int), packet
        process = self.machines[packet.asker].process
        return process if process is not None and process.incarnation_id == packet.incarnation else None

    def _serve(self, packet: Packet) -> Any:
        request = packet.request
        if isinstance(packet.target, str):
            return self.controller.send(request, self.now_s)
        process = self.process(packet.target)
        if isinstance(request, FetchRequest):
            return answer_fetch(process.replicas, process.image, request, self.now_s)
        return answer_offsets(process.replicas, request)

    def _take_answer(self, packet: Packet) -> None:
        process = self._asker(packet)
        if process is None:
            return
        if isinstance(packet.request, AlterPartitionRequest):
            if process.replicas.on_isr_response(packet.answer, self.now_s):
                process.ask_isr_at_s = self.now_s + _ISR_RETRY_S
            return
        assert packet.fetcher is not None
        outcome = packet.fetcher.on_response(packet.request, packet.answer, self.now_s, process.now_ms)
        for event in outcome.events:
            self._tell(f"{process.broker_id}: {event.text()}")

    def _say(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._tell(line)


def _state_of(partition: Partition) -> tuple[object, ...]:
    log = partition.log
    return log.log_start_offset, log.log_end_offset, log.high_watermark, repr(partition.role)
