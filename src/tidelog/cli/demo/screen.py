"""The topic on the terminal while the demo runs: leaders, in-sync replicas, and the log end of each replica."""

from typing import Final

from rich.table import Table
from rich.text import Text

from tidelog.cli.demo.journal import Look
from tidelog.client.replicas import PartitionView, ReplicaStatus, ReplicaView

_LONGEST_BAR: Final = 24
_HEADINGS: Final = ("   PARTITION", "LEADER", "EPOCH", "ISR", "HW")
# Widths of these columns with six digits of HW and three brokers, and of the gap after each column.
_FACTS: Final = 12 + 6 + 5 + 5 + 6
_GAP: Final = 2
_STYLES: Final = {
    ReplicaStatus.LEADER: "green bold",
    ReplicaStatus.FOLLOWER: "green",
    ReplicaStatus.OFFLINE: "red",
    ReplicaStatus.SILENT: "yellow",
    ReplicaStatus.DEPOSED: "magenta",
}


def picture(look: Look, width: int) -> Table:
    """A row for each partition, a bar for each of its replicas; all bars have one scale, and fit into `width`."""
    brokers = sorted({replica.broker for view in look.partitions for replica in view.replicas})
    longest = max((each.log_end_offset or 0 for view in look.partitions for each in view.replicas), default=0)
    room = width - _FACTS - _GAP * len(_HEADINGS)
    # The last column has no gap after it; each bar has a mark behind it.
    bar = min(_LONGEST_BAR, max(1, (room + _GAP) // max(1, len(brokers)) - _GAP - 1))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right" if heading in ("EPOCH", "HW") else "left", no_wrap=True)
    for broker in brokers:
        table.add_column(f"NODE {broker}", no_wrap=True)
    for view in look.partitions:
        replicas = {replica.broker: replica for replica in view.replicas}
        table.add_row(
            f"   {view.topic}-{view.partition}",
            "none" if view.leader < 0 else str(view.leader),
            str(view.leader_epoch),
            _isr(view),
            str(max((each.high_watermark or 0 for each in view.replicas), default=0)),
            *(_bar(replicas.get(broker), longest, bar) for broker in brokers),
        )
    table.add_row("", "", "", "", Text(str(look.acknowledged), style="bold"), Text("acknowledged", style="dim"))
    return table


def _isr(view: PartitionView) -> Text:
    whole = len(view.isr) == len(view.replicas)
    return Text(",".join(map(str, sorted(view.isr))), style="green" if whole else "yellow bold")


def _bar(replica: ReplicaView | None, longest: int, bar: int) -> Text:
    if replica is None:
        return Text("")
    style = _STYLES[replica.status]
    if replica.log_end_offset is None:
        return Text(replica.status.value, style=style)
    length = bar * replica.log_end_offset // longest if longest else 0
    mark = "★" if replica.is_leader else " " if replica.in_isr else "!"
    return Text.assemble((f"{'█' * length:<{bar}}", style), mark)
