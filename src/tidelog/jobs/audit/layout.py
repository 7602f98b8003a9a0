"""What lies in directories: the replicas of every node, their segments and what the checkpoints say of them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from uuid import UUID

from tidelog.core.ids import METADATA_TOPIC, TopicPartition
from tidelog.jobs.audit.segments import Segment
from tidelog.jobs.audit.walk import Replica
from tidelog.metadata.image import ClusterImage
from tidelog.storage import checkpoints
from tidelog.storage.checkpoints import CorruptCheckpoint, StorageFormatError
from tidelog.storage.log_names import partition_of
from tidelog.storage.posix import PosixDisk

CLUSTER_JSON: Final = "cluster.json"
_NODE_DIRECTORIES: Final = "node-*"


class NoLogs(Exception):
    """A directory that is no log directory, or a topic without a log; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLog:
    """One replica on a disk."""

    replica: Replica
    directory: str
    # Base offsets, ascending; a log has at least one segment.
    bases: Sequence[int]
    log_start: int
    high_watermark: int
    clean_until: int | None
    topic_id: UUID | None
    # Whether there are records of which no checkpoint tells if they are committed.
    is_untold: bool = False

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.replica.topic, self.replica.partition)

    def bounded(self, until: int) -> "ReplicaLog":
        """Held to what is committed below `until`; above it a log may end in anything."""
        return replace(self, replica=replace(self.replica, high_watermark=until))

    def segments(self) -> Iterator[Segment]:
        for base, following in zip(self.bases, [*self.bases[1:], None], strict=True):
            path = str(Path(self.directory) / f"{base:020}.log")
            yield Segment(replica=self.replica, path=path, base_offset=base, next_base=following)


@dataclass(slots=True)
class Found:
    """Everything in the directories, and what could not be read."""

    logs: list[ReplicaLog] = field(default_factory=list)
    # Whose directories these are.
    nodes: set[int] = field(default_factory=set)
    # Where the metadata log of each node lies, for who wants to know of ISRs.
    metadata: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    image: ClusterImage | None = None

    def in_sync(self, tp: TopicPartition) -> tuple[int, ...] | None:
        """By the metadata; None if that does not know."""
        partition = None if self.image is None else self.image.partition(tp)
        return None if partition is None else partition.isr

    def replicas(self, tp: TopicPartition) -> set[int]:
        """By the metadata; none if that does not know."""
        partition = None if self.image is None else self.image.partition(tp)
        return set() if partition is None else set(partition.replicas)


def log_directories(given: Sequence[Path]) -> list[Path]:
    """The log directories behind what was given: of a whole cluster, of a node, or themselves."""
    found: list[Path] = []
    for directory in given:
        if not directory.is_dir():
            raise NoLogs(f"{directory} is not a directory")
        within = [directory]
        if (directory / CLUSTER_JSON).is_file():
            within = sorted(directory.glob(_NODE_DIRECTORIES))
        own = [each for node in within for each in _of_node(node)]
        if not own:
            raise NoLogs(f"{directory} holds no formatted log directory ({checkpoints.META_PROPERTIES} is missing)")
        found += own
    return list(dict.fromkeys(each.absolute() for each in found))


def _of_node(directory: Path) -> list[Path]:
    if (directory / checkpoints.META_PROPERTIES).is_file():
        return [directory]
    return sorted(each.parent for each in directory.glob(f"*/{checkpoints.META_PROPERTIES}"))


def scan(directories: Iterable[Path], topics: Sequence[str] = ()) -> Found:
    """What there is, as of now: high watermarks are read before any segment is."""
    disk, found = PosixDisk(), Found()
    for directory in directories:
        try:
            meta = checkpoints.read_meta_properties(disk, str(directory / checkpoints.META_PROPERTIES))
        except StorageFormatError as error:
            raise NoLogs(str(error)) from error
        assert meta is not None
        found.nodes.add(meta.node_id)
        if (directory / f"{METADATA_TOPIC}-0").is_dir():
            found.metadata.append(str(directory / f"{METADATA_TOPIC}-0"))
        offsets = {name: _offsets(disk, directory, name, found) for name in _CHECKPOINTS}
        for each in sorted(directory.iterdir()):
            tp = partition_of(each.name)
            if tp is None or tp.topic == METADATA_TOPIC or (topics and tp.topic not in topics) or not each.is_dir():
                continue
            log = _log(disk, each, tp, meta.node_id, offsets, found)
            if log is not None:
                found.logs.append(log)
    strangers = [topic for topic in topics if topic not in {log.tp.topic for log in found.logs}]
    if strangers:
        raise NoLogs(f"these directories have no log of topic {strangers[0]}")
    return found


_CHECKPOINTS: Final = (
    checkpoints.REPLICATION_OFFSET_CHECKPOINT,
    checkpoints.LOG_START_OFFSET_CHECKPOINT,
    checkpoints.CLEANER_OFFSET_CHECKPOINT,
)


def _offsets(disk: PosixDisk, directory: Path, name: str, found: Found) -> Mapping[TopicPartition, int]:
    try:
        return checkpoints.read_offsets(disk, str(directory / name))
    except CorruptCheckpoint as error:
        # A node takes a torn one as empty, for it is a lower bound; so do we, and say so.
        found.notes.append(str(error))
        return {}


def _log(
    disk: PosixDisk,
    directory: Path,
    tp: TopicPartition,
    node: int,
    offsets: Mapping[str, Mapping[TopicPartition, int]],
    found: Found,
) -> ReplicaLog | None:
    bases = sorted(int(each.stem) for each in directory.glob("*.log") if each.stem.isdecimal())
    if not bases:
        return None
    try:
        entries = checkpoints.read_epochs(disk, str(directory / checkpoints.LEADER_EPOCH_CHECKPOINT))
        topic_id = checkpoints.read_partition_metadata(disk, str(directory / checkpoints.PARTITION_METADATA))
    except CorruptCheckpoint as error:
        found.notes.append(str(error))
        entries, topic_id = [], None
    # Without one nothing is known to be committed, and nothing is compared.
    told = offsets[checkpoints.REPLICATION_OFFSET_CHECKPOINT].get(tp)
    high_watermark = told or 0
    clean_until = offsets[checkpoints.CLEANER_OFFSET_CHECKPOINT].get(tp)
    log_start = max(bases[0], offsets[checkpoints.LOG_START_OFFSET_CHECKPOINT].get(tp, 0))
    replica = Replica(
        topic=tp.topic,
        partition=tp.partition,
        node=node,
        high_watermark=high_watermark,
        compacted=clean_until is not None,
        epochs=[(entry.epoch, entry.start_offset) for entry in entries],
    )
    return ReplicaLog(
        replica=replica,
        directory=str(directory),
        bases=bases,
        log_start=log_start,
        high_watermark=high_watermark,
        clean_until=clean_until,
        topic_id=topic_id,
        is_untold=told is None and any(each.stat().st_size for each in directory.glob("*.log")),
    )


def cleaned(logs: Iterable[ReplicaLog]) -> int:
    """How far the cleaner has come in any of these replicas by now."""
    disk, newest = PosixDisk(), 0
    for log in logs:
        path = Path(log.directory).parent / checkpoints.CLEANER_OFFSET_CHECKPOINT
        newest = max(newest, checkpoints.read_offsets(disk, str(path)).get(log.tp, 0))
    return newest


def to_json(segments: Iterable[Segment]) -> str:
    """Segments as an option of a data source, which takes only text."""
    replicas: dict[tuple[str, int, int], int] = {}
    told: list[dict[str, object]] = []
    files: list[list[object]] = []
    for segment in segments:
        replica = segment.replica
        key = (replica.topic, replica.partition, replica.node)
        if key not in replicas:
            replicas[key] = len(told)
            told.append({name: getattr(replica, name) for name in Replica.__slots__})
        files.append([replicas[key], segment.path, segment.base_offset, segment.next_base])
    return json.dumps({"replicas": told, "segments": files})


def from_json(text: str) -> list[Segment]:
    content = json.loads(text)
    replicas = [
        Replica(**(each | {"epochs": [(epoch, start) for epoch, start in each["epochs"]]}))
        for each in content["replicas"]
    ]
    return [
        Segment(replica=replicas[number], path=path, base_offset=base, next_base=following)
        for number, path, base, following in content["segments"]
    ]
