"""An audit as a page."""

from typing import Any

from tidelog.jobs.audit.compare import Audit, Difference, PartitionResult, Unread, Verdict
from tidelog.jobs.page import Code, Page


def where(found: Difference) -> str:
    return found.place if found.position < 0 else f"{found.place} at {found.position}"


def offsets(found: Difference) -> str:
    return f"{found.first_offset}..{found.last_offset}"


def cells(each: PartitionResult) -> list[Any]:
    """A partition as a row: its name, nodes, what was compared, how much it was, and the verdict."""
    return [
        f"{each.topic}-{each.partition}",
        ", ".join(str(node) for node in each.nodes),
        each.start,
        each.end,
        each.batches,
        each.records,
        each.bytes,
        verdict(each),
    ]


def rows_of(audit: Audit) -> list[list[Any]]:
    """A row for each partition, and one for the folded ones."""
    rows = [cells(each) for each in audit.partitions]
    if audit.folded:
        nodes = sorted({node for each in audit.folded for node in each.nodes})
        name = f"internal topics ({len(audit.folded)} partitions)"
        totals = [sum(getattr(each, key) for each in audit.folded) for key in ("batches", "records", "bytes")]
        rows.append([name, ", ".join(str(node) for node in nodes), None, None, *totals, "same or intact"])
    return rows


def verdict(result: PartitionResult) -> str:
    if result.verdict is Verdict.WRONG:
        words = f"{result.damaged} damaged, {result.differing} differ"
    elif not result.nodes:
        return "not read"
    else:
        words = "same" if result.end > result.start else "intact"
    return f"{words}, {len(result.unread)} not read" if result.unread else words


def not_read(replica: Unread) -> str:
    return f"{replica.tp} on node {replica.node} was not read: {replica.why}"


def summary(audit: Audit) -> str:
    """What is to be said against it, in a few words; empty of a clean one."""
    told = []
    if audit.wrong:
        told.append(f"{len(audit.wrong)} of {audit.total} partitions differ or are damaged")
    if audit.unread:
        unread = sorted({each.node for each in audit.unread})
        nodes = ("node " if len(unread) == 1 else "nodes ") + ", ".join(str(node) for node in unread)
        told.append(f"the audit is incomplete: replicas on {nodes} could not be read ({len(audit.unread)} in all)")
    return "; ".join(told)


def page_of(audit: Audit) -> Page:
    page = Page(f"Audit of {audit.of}")
    total = sum(each.batches for each in (*audit.partitions, *audit.folded))
    page.text(
        f"{audit.total} partitions, {total} batches: "
        + (summary(audit) or "nothing differs and nothing is damaged")
        + ".",
        good=audit.verdict is Verdict.CLEAN,
    )
    if audit.unread:
        page.heading("Replicas that were not read")
        page.table(["Partition", "Node", "Why"], [[str(each.tp), each.node, each.why] for each in audit.unread])
    if audit.wrong:
        page.heading("The first difference of each partition")
        page.table(
            ["Partition", "Offsets", "Nodes", "What", "Where"],
            [
                [
                    f"{each.topic}-{each.partition}",
                    offsets(each.first),
                    ", ".join(str(node) for node in each.first.nodes),
                    each.first.what,
                    Code(where(each.first)),
                ]
                for each in audit.wrong
                if each.first is not None
            ],
        )
    page.heading("Partitions")
    page.table(
        ["Partition", "Nodes", "Compared from", "to", "Batches", "Records", "Bytes", "Verdict"],
        rows_of(audit),
    )
    if audit.damage:
        page.heading("Damage")
        page.table(
            ["Partition", "Offsets", "Node", "What", "Where"],
            [
                [f"{each.topic}-{each.partition}", offsets(each), each.nodes[0], each.what, Code(where(each))]
                for each in audit.damage
            ],
            left_out=audit.damage_left_out,
        )
    if audit.notes:
        page.heading("Notes")
        page.table(["Note"], [[each] for each in audit.notes])
    return page
