"""Messages between brokers and to the controller: on their way until somebody delivers or loses them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from tidelog.metadata.image import ClusterImage
from tidelog.replication.fetch_session import error_name
from tidelog.replication.fetcher import Fetcher
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from tidelog.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from tidelog.wire.records.batch import iter_headers

Node = int | str
"""A broker's id, or `C`."""


@dataclass(slots=True, eq=False)
class Packet:
    """A request, or with `answer` the response to it."""

    source: Node
    target: Node
    request: Any
    # The process that asked, and with what: an answer for another one has nobody to take it.
    incarnation: Any
    fetcher: Fetcher | None = None
    answer: Any = None

    @property
    def kind(self) -> str:
        return type(self.request).__name__.removesuffix("Request")

    @property
    def asker(self) -> Node:
        return self.target if self.answer is not None else self.source

    def answered(self, answer: Any) -> "Packet":
        return Packet(self.target, self.source, self.request, self.incarnation, self.fetcher, answer)

    def told(self, image: ClusterImage) -> list[str]:
        """One line for each partition in it."""
        what = self.request if self.answer is None else self.answer
        return [f"{self.source}->{self.target} {self.kind} {part}" for part in _parts(what, image)]


@dataclass(slots=True)
class Network:
    """Nothing is lost but what is sent over a cut, or dropped by the story."""

    packets: list[Packet] = field(default_factory=list)
    # Both ways: from everyone, and pairs from each other.
    isolated: set[Node] = field(default_factory=set)
    cuts: set[frozenset[Node]] = field(default_factory=set)

    def is_cut(self, one: Node, other: Node) -> bool:
        return bool(self.isolated & {one, other}) or frozenset({one, other}) in self.cuts

    def cut(self, nodes: Sequence[Node]) -> None:
        """One node from everyone, several from each other."""
        if len(nodes) == 1:
            self.isolated.add(nodes[0])
        self.cuts |= {frozenset(pair) for pair in combinations(nodes, 2)}

    def heal(self, nodes: Sequence[Node]) -> None:
        """All cuts of one node, those between several, or without any all there are."""
        self.isolated = {each for each in self.isolated if nodes and [each] != list(nodes)}
        self.cuts = {pair for pair in self.cuts if not (pair.issuperset(nodes) or pair.issubset(nodes))}


def _parts(message: Any, image: ClusterImage) -> Iterator[str]:
    match message:
        case FetchRequest():
            for topic in message.topics:
                for ask in topic.partitions:
                    last = f" after epoch {ask.last_fetched_epoch}" if ask.last_fetched_epoch >= 0 else ""
                    yield f"{_name(image, topic.topic_id, ask.partition)} from {ask.fetch_offset}{last}"
        case FetchResponse():
            for answers in message.responses:
                for data in answers.partitions:
                    yield f"{_name(image, answers.topic_id, data.partition_index)} {_fetched(data)}"
        case ListOffsetsRequest():
            for asked in message.topics:
                for item in asked.partitions:
                    yield f"{asked.name}-{item.partition_index} {'latest' if item.timestamp == -1 else 'earliest'}"
        case ListOffsetsResponse():
            for found in message.topics:
                for offset in found.partitions:
                    what = error_name(offset.error_code) if offset.error_code else str(offset.offset)
                    yield f"{found.name}-{offset.partition_index} {what}"
        case AlterPartitionRequest():
            for proposed in message.topics:
                for part in proposed.partitions:
                    isr = ",".join(map(str, part.new_isr))
                    name = _name(image, proposed.topic_id, part.partition_index)
                    yield f"{name} ISR {isr} in epoch {part.leader_epoch}"
        case AlterPartitionResponse():
            if message.error_code:
                yield error_name(message.error_code)
            for decided in message.topics:
                for result in decided.partitions:
                    isr = ",".join(map(str, result.isr))
                    name = _name(image, decided.topic_id, result.partition_index)
                    yield f"{name} {error_name(result.error_code) if result.error_code else f'ISR {isr}'}"


def _fetched(data: PartitionData) -> str:
    if data.error_code != ErrorCode.NONE:
        return error_name(data.error_code)
    if data.diverging_epoch.epoch >= 0:
        return f"diverging: epoch {data.diverging_epoch.epoch} ends at {data.diverging_epoch.end_offset}"
    headers = [header for _, header in iter_headers(data.records or b"", partial_tail=True)]
    what = f"records {headers[0].base_offset}..{headers[-1].last_offset}" if headers else "no records"
    return f"{what}, HW {data.high_watermark}"


def _name(image: ClusterImage, topic_id: Any, partition: int) -> str:
    topic = image.topic_by_id(topic_id)
    return f"{topic.name if topic else topic_id}-{partition}"
