"""Partitions as they are drawn. `table.py` writes the same state into the files, where a diff has to show it."""

from collections.abc import Iterable
from typing import Final

from tidelog.sim.scenario.picture import Copy, Picture, Replica
from tidelog.sim.scenario.replication.looking import BrokerView, PartitionView, ReplicaView
from tidelog.sim.scenario.replication.table import absent, decided, epochs_of, isr_of

COLUMNS: Final = ("ISR", "EPOCHS")


def pictures(views: Iterable[PartitionView]) -> list[Picture]:
    return [
        Picture(
            name=str(view.topic_partition),
            title=decided(view),
            columns=COLUMNS,
            replicas=tuple(_replica(each) for each in view.brokers),
        )
        for view in views
    ]


def _replica(broker: BrokerView) -> Replica:
    view = broker.replica
    if view is None:
        return Replica(node_id=broker.broker_id, role=absent(broker))
    copy = Copy(
        epoch=view.leader_epoch,
        log_start_offset=view.log_start_offset,
        log_end_offset=view.log_end_offset,
        high_watermark=view.high_watermark,
        entries=view.entries,
    )
    return Replica(
        node_id=broker.broker_id,
        role=_role(view) + (", fenced" if broker.fenced else ""),
        leads=view.leads,
        copy=copy,
        more=(isr_of(view), epochs_of(view)),
    )


def _role(view: ReplicaView) -> str:
    if view.offline:
        return "offline"
    if view.leads:
        return "leads"
    return f"follows {view.leader if view.leader >= 0 else 'none'}"
