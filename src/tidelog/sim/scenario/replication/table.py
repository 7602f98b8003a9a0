"""Writes down the state of partitions: a line for what the controller decided, and a row for each replica.

    orders-0: leader 1 in epoch 0, replicas 1,2,3, ISR 1,2,3
      1  leads in epoch 0      LEO 3  HW 2  ISR 1,2,3  epochs 0:0  log @0 a b | c
      2  follows 1 in epoch 0  LEO 2  HW 2             epochs 0:0  log @0 a b |
      3  down

`epochs 0:0,2:5`: leader epoch 0 begins at offset 0, epoch 2 at offset 5. In a log, `@2` begins the records of leader
epoch 2, and what stands before `|` is below the high watermark of that replica. `ISR 1,2 [1,2,3]`: a
change is pending, and the leader counts 1,2,3 meanwhile.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby

from tidelog.sim.scenario.replication.looking import BrokerView, Entry, PartitionView, ReplicaView
from tidelog.sim.scenario.replication.values import shortened


def table(views: Iterable[PartitionView]) -> list[str]:
    lines: list[str] = []
    for view in views:
        lines.append(f"{view.topic_partition}: {decided(view)}")
        rows = [_row(broker) for broker in view.brokers]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def decided(view: PartitionView) -> str:
    """The partition as the controller has it."""
    is_ = view.registration
    leader = f"leader {is_.leader}" if is_.leader >= 0 else "no leader"
    parts = [f"{leader} in epoch {is_.leader_epoch}", f"replicas {listed(is_.replicas)}", f"ISR {listed(is_.isr)}"]
    named = {
        "ELR": is_.elr,
        "last known": is_.last_known_elr,
        "adding": is_.adding_replicas,
        "removing": is_.removing_replicas,
    }
    parts += [f"{name} {listed(members)}" for name, members in named.items() if members]
    if view.recovering:
        parts.append("recovering")
    return ", ".join(parts)


def _row(broker: BrokerView) -> tuple[str, ...]:
    replica = broker.replica
    if replica is None:
        return (str(broker.broker_id), absent(broker), *[""] * 5)
    return (
        str(broker.broker_id),
        _role(broker, replica),
        f"LEO {replica.log_end_offset}",
        f"HW {replica.high_watermark}",
        f"ISR {isr_of(replica)}" if replica.isr is not None else "",
        f"epochs {epochs_of(replica)}",
        f"log {_log(replica)}",
    )


def absent(broker: BrokerView) -> str:
    """Why there is no replica to look into."""
    return "no replica" if broker.running else "down"


def _role(broker: BrokerView, replica: ReplicaView) -> str:
    fenced = ", fenced" if broker.fenced else ""
    if replica.offline:
        return f"offline{fenced}"
    if replica.leads:
        return f"leads in epoch {replica.leader_epoch}{fenced}"
    whom = str(replica.leader) if replica.leader >= 0 else "none"
    return f"follows {whom} in epoch {replica.leader_epoch}{fenced}"


def isr_of(replica: ReplicaView) -> str:
    """As a leader counts it; nothing for anybody else."""
    if replica.isr is None:
        return ""
    pending = "" if replica.isr.maximal is None else f" [{listed(replica.isr.maximal)}]"
    return f"{listed(replica.isr.isr)}{pending}"


def epochs_of(replica: ReplicaView) -> str:
    return ",".join(f"{epoch}:{start}" for epoch, start in replica.epochs) or "-"


def _log(replica: ReplicaView) -> str:
    """Committed, as far as this replica knows, then `|`, then the rest."""
    committed = [entry for entry in replica.entries if entry.offset < replica.high_watermark]
    rest = [entry for entry in replica.entries if entry.offset >= replica.high_watermark]
    start = [f"{replica.log_start_offset}.."] if replica.log_start_offset else []
    return " ".join([*start, *_words(committed, None), "|", *_words(rest, committed[-1].epoch if committed else None)])


def _words(entries: Sequence[Entry], epoch: int | None) -> list[str]:
    words: list[str] = []
    for of_epoch, group in groupby(entries, lambda entry: entry.epoch):
        if of_epoch != epoch:
            words.append(f"@{of_epoch}")
        words += shortened([entry.value for entry in group])
    return words


def listed(members: Sequence[int]) -> str:
    return ",".join(map(str, members)) or "-"
