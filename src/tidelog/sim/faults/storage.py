"""Disks that lose, refuse, rot and dawdle. Whatever loses data asks the budget first; voters keep what they synced."""

import errno
import json
import posixpath
import random
from dataclasses import replace
from typing import Final

from tidelog.quorum.election_state import QUORUM_STATE
from tidelog.quorum.metadata_log import partition_dir
from tidelog.sim.disk_faults import WRITES, Trap
from tidelog.sim.faults.field import Applied, Field, Moment
from tidelog.sim.faults.plan import FaultKind
from tidelog.sim.links import Delay
from tidelog.storage.checkpoints import (
    CLEAN_SHUTDOWN,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from tidelog.wire.errors import WireError
from tidelog.wire.records.batch import BATCH_OVERHEAD, read_header

DOWN_S: Final = (0.1, 12.0)
_WHOLE: Final = 1 << 20
# Without them a replica knows less and recovers more; without its epochs it may truncate too much or too little.
HARMLESS: Final = (RECOVERY_POINT_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT)


def _pick_loser(field: Field, rng: random.Random) -> int | None:
    """A broker that may lose data now."""
    image = field.look()
    return field.pick_to_kill(rng, [broker for broker in field.brokers() if field.budget.may_lose(broker, image)])


def power_cut(field: Field, rng: random.Random) -> Applied | None:
    """The machine goes dark: unsynced bytes are lost file by file, torn, or kept."""
    node_id = _pick_loser(field, rng)
    if node_id is None:
        return None
    unsynced = field.cluster.machine(node_id).disk.unsynced_bytes()
    field.budget.lose(node_id, field.image)
    field.cluster.power_cut(node_id)
    return field.down(node_id, rng.uniform(*DOWN_S), unsynced_bytes=unsynced)


def power_cut_controller(field: Field, rng: random.Random) -> Applied | None:
    """The same of a machine that votes: what it had synced is there, so that it votes for nobody else."""
    image = field.look()
    node_id = field.pick_to_kill(rng, [voter for voter in field.voters() if field.budget.may_lose(voter, image)])
    if node_id is None:
        return None
    unsynced = field.cluster.machine(node_id).disk.unsynced_bytes()
    if node_id in field.brokers():
        field.budget.lose(node_id, field.image)
    field.cluster.power_cut(node_id)
    return field.down(node_id, rng.uniform(*DOWN_S), unsynced_bytes=unsynced)


def wipe(field: Field, rng: random.Random) -> Applied | None:
    """A log directory's disk is replaced by an empty one; the metadata lies elsewhere."""
    node_id = _pick_loser(field, rng)
    if node_id is None:
        return None
    config = field.cluster.nodes[node_id].config
    directory = rng.choice(config.log_dirs)
    if directory == config.metadata_log_dir:
        return None
    field.budget.lose(node_id, field.image)
    field.cluster.kill(node_id)
    field.cluster.wipe(node_id, directory)
    return field.down(node_id, rng.uniform(*DOWN_S), directory=directory)


def rot(field: Field, rng: random.Random) -> Applied | None:
    """A bit of what was never synced is wrong after a crash: one that the format lets a reader notice."""
    node_id = _pick_loser(field, rng)
    if node_id is None:
        return None
    disk = field.cluster.machine(node_id).disk
    logs = [path for directory in _log_dirs(field, node_id) for path in disk.files(directory, ".log")]
    rng.shuffle(logs)
    for path in logs:
        position = disk.rot(path, rng, unsynced=True, spared=unprotected(disk.peek(path, 0, 1 << 30)))
        if position is not None:
            field.budget.lose(node_id, field.image)
            field.cluster.kill(node_id)
            return field.down(node_id, rng.uniform(*DOWN_S), path=path, position=position)
    return None


def lose_checkpoint(field: Field, rng: random.Random) -> Applied | None:
    """A small file is missing after a crash."""
    return _damage_checkpoint(field, rng, stale=False)


def stale_checkpoint(field: Field, rng: random.Random) -> Applied | None:
    """An older one is back."""
    return _damage_checkpoint(field, rng, stale=True)


def _damage_checkpoint(field: Field, rng: random.Random, *, stale: bool) -> Applied | None:
    node_id = field.pick_to_kill(rng, field.brokers())
    if node_id is None:
        return None
    disk = field.cluster.machine(node_id).disk
    may_lose = field.budget.may_lose(node_id, field.look())
    names = (*HARMLESS, LEADER_EPOCH_CHECKPOINT) if may_lose else HARMLESS
    files = [path for directory in _log_dirs(field, node_id) for name in names for path in disk.files(directory, name)]
    if node_id not in field.voters():
        # An observer's vote counts nowhere; a voter must never forget its own.
        files += disk.files(field.cluster.nodes[node_id].config.metadata_log_dir, QUORUM_STATE)
    if stale:
        files = [path for path in files if disk.stale_versions(path)]
    if not files:
        return None
    path = rng.choice(files)
    field.cluster.kill(node_id)
    disk = field.cluster.machine(node_id).disk
    if path.endswith(LEADER_EPOCH_CHECKPOINT):
        field.budget.lose(node_id, field.image)
    before = disk.peek(path, 0, _WHOLE)
    if not (stale and disk.make_stale(path, rng)) or _vouches_for_more(before, disk.peek(path, 0, _WHOLE), path):
        disk.lose(path)
    return field.down(node_id, rng.uniform(*DOWN_S), path=path)


def _vouches_for_more(before: bytes, after: bytes, path: str) -> bool:
    """Whether an older recovery point is from before a cut. The node cannot tell that from synced bytes that are lost:

    it keeps the directory offline until somebody looks at it, and nobody does in a simulation. It is lost instead.
    """
    if not path.endswith(RECOVERY_POINT_CHECKPOINT):
        return False
    known = _offsets(before)
    return any(offset > known.get(name, 0) for name, offset in _offsets(after).items())


def _offsets(table: bytes) -> dict[bytes, int]:
    """By topic and partition. Not by the node's own code, which traps may wait for."""
    words = [row.rpartition(b" ") for row in table.splitlines()[2:]]
    return {name: int(offset) for name, _, offset in words}


def false_clean_shutdown(field: Field, rng: random.Random) -> Applied | None:
    """After a crash the mark of an earlier orderly end is back; its broker epoch is not the last one."""
    node_id = field.pick_to_kill(rng, [broker for broker in field.brokers() if _old_marks(field, broker)])
    if node_id is None:
        return None
    field.cluster.kill(node_id)
    disk = field.cluster.machine(node_id).disk
    back = [path for path in _old_marks(field, node_id) if disk.make_stale(path, rng)]
    assert back, "there were old marks, and directories for them"
    registered = field.look().broker(node_id)
    for path in list(back):
        if registered is not None and json.loads(disk.peek(path, 0, _WHOLE))["brokerEpoch"] == registered.epoch:
            # The process that died had not registered yet: this mark, of the one before it, is no false one.
            disk.lose(path)
            back.remove(path)
    applied = field.down(node_id, rng.uniform(*DOWN_S), marks=len(back))
    return applied if back else replace(applied, moment=Moment())


def _old_marks(field: Field, node_id: int) -> list[str]:
    """Marks of an orderly end that once stood on the node's disk."""
    disk = field.cluster.machine(node_id).disk
    marks = [f"{directory}/{CLEAN_SHUTDOWN}" for directory in _log_dirs(field, node_id)]
    return [path for path in marks if disk.stale_versions(path) and disk.has_dir(posixpath.dirname(path))]


def fsync_error(field: Field, rng: random.Random) -> Applied | None:
    node_id = field.pick(rng, field.brokers())
    if node_id is None:
        return None
    directory = rng.choice(_log_dirs(field, node_id))
    return _failing(field, node_id, field.cluster.machine(node_id).disk_faults.fsync_error(directory), 8.0, directory)


def io_error(field: Field, rng: random.Random) -> Applied | None:
    """One write fails half-way."""
    return one_error(field, rng, ("append",), 20)


def one_error(field: Field, rng: random.Random, operations: tuple[str, ...], within: int) -> Applied | None:
    """One of the next such operations in a log directory fails."""
    node_id = field.pick(rng, field.brokers())
    if node_id is None:
        return None
    directory = rng.choice(_log_dirs(field, node_id))
    faults = field.cluster.machine(node_id).disk_faults
    trap = faults.fail(errno.EIO, *operations, path_part=f"{directory}/", skip=rng.randrange(within))
    return _failing(field, node_id, trap, 8.0, directory)


def metadata_fsync_error(field: Field, rng: random.Random) -> Applied | None:
    """Nobody knows what of the metadata log is on the disk, but for what was synced before: the node has to end."""
    node_id = field.pick_to_kill(rng)
    if node_id is None:
        return None
    directory = _metadata_dir(field, node_id)
    return _failing(field, node_id, field.cluster.machine(node_id).disk_faults.fsync_error(directory), 8.0, directory)


def metadata_io_error(field: Field, rng: random.Random) -> Applied | None:
    """One write to the metadata log, or to what stands beside it, fails, or one read of it."""
    node_id = field.pick_to_kill(rng)
    if node_id is None:
        return None
    directory = _metadata_dir(field, node_id)
    faults = field.cluster.machine(node_id).disk_faults
    trap = faults.fail(errno.EIO, *WRITES, "pread", path_part=directory, skip=rng.randrange(10))
    return _failing(field, node_id, trap, 8.0, directory)


def _metadata_dir(field: Field, node_id: int) -> str:
    return partition_dir(field.cluster.nodes[node_id].config.metadata_log_dir) + "/"


def directory_gone(field: Field, rng: random.Random) -> Applied | None:
    """Nothing works in one directory, be it of logs or of metadata."""
    node_id = field.pick(rng)
    if node_id is None:
        return None
    config = field.cluster.nodes[node_id].config
    directory = rng.choice(sorted({*config.log_dirs, config.metadata_log_dir}))
    trap = field.cluster.machine(node_id).disk_faults.gone(f"{directory}/")
    return _failing(field, node_id, trap, rng.uniform(2.0, 10.0), directory)


def disk_full(field: Field, rng: random.Random) -> Applied | None:
    node_id = field.pick(rng)
    if node_id is None:
        return None
    trap = field.cluster.machine(node_id).disk_faults.full()
    return _failing(field, node_id, trap, rng.uniform(0.5, 6.0), "/")


def slow_disk(field: Field, rng: random.Random) -> Applied | None:
    """Whatever waits for the disk waits long."""
    node_id = field.pick(rng)
    if node_id is None:
        return None
    machine, delay = field.cluster.machine(node_id), Delay(0.0, rng.choice((0.005, 0.05, 0.5)))
    machine.slow_disk(delay)
    return Applied(
        what={"node": node_id, "mean_s": delay.mean_s},
        lasts_s=rng.uniform(1.0, 10.0),
        end=lambda: machine.slow_disk(None),
    )


def unprotected(data: bytes) -> set[int]:
    """Where the base offsets and leader epochs of batches stand: no CRC covers them, so that nobody can tell."""
    found: set[int] = set()
    position = 0
    while position + BATCH_OVERHEAD <= len(data):
        found.update(range(position, position + 8), range(position + 12, position + 16))
        try:
            position += read_header(data, position).size_in_bytes
        except WireError:
            # Torn, or rotten already.
            break
    return found


def _log_dirs(field: Field, node_id: int) -> list[str]:
    return list(field.cluster.nodes[node_id].config.log_dirs)


def _failing(field: Field, node_id: int, trap: Trap, lasts_s: float, directory: str) -> Applied:
    """Ends with the disk repaired and the node started anew: a directory that failed stays offline until then."""
    moment = Moment()
    trap.on_spring = lambda path: moment.come(file=path)

    def repair() -> None:
        field.cluster.machine(node_id).disk_faults.remove(trap)
        if trap.sprung:
            field.bounce(node_id)

    what = {"node": node_id, "directory": directory}
    return Applied(what=what, nodes=(node_id,), lasts_s=lasts_s, end=repair, moment=moment)


KINDS: Final = (
    FaultKind(name="power_cut", profile="disk", strike=power_cut, weight=2.0),
    FaultKind(name="power_cut_controller", profile="disk", strike=power_cut_controller),
    FaultKind(name="wipe", profile="disk", strike=wipe, weight=1.2),
    FaultKind(name="rot", profile="disk", strike=rot, weight=0.5),
    FaultKind(name="lose_checkpoint", profile="disk", strike=lose_checkpoint, weight=0.7),
    FaultKind(name="stale_checkpoint", profile="disk", strike=stale_checkpoint, weight=0.8),
    FaultKind(name="false_clean_shutdown", profile="disk", strike=false_clean_shutdown, weight=2.5),
    FaultKind(name="fsync_error", profile="disk", strike=fsync_error, weight=0.8),
    FaultKind(name="io_error", profile="disk", strike=io_error, weight=0.7),
    FaultKind(name="metadata_fsync_error", profile="disk", strike=metadata_fsync_error, weight=0.8),
    FaultKind(name="metadata_io_error", profile="disk", strike=metadata_io_error, weight=0.8),
    FaultKind(name="directory_gone", profile="disk", strike=directory_gone, weight=1.0),
    FaultKind(name="disk_full", profile="disk", strike=disk_full, weight=0.5),
    FaultKind(name="slow_disk", profile="disk", strike=slow_disk),
)
