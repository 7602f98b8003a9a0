"""An audit as a page."""

from typing import Any

from tidelog.jobs.audit.compare import Audit, Difference, PartitionResult
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


def verdict(result: PartitionResult) -> str:
    if result.is_clean:
        return "same" if result.end > result.start else "intact"
    return f"{result.damaged} damaged, {result.differing} differ"


def page_of(audit: Audit) -> Page:
    page = Page(f"Audit of {audit.of}")
    bad = [each for each in audit.partitions if not each.is_clean]
    total = sum(each.batches for each in audit.partitions)
    page.text(
        f"{len(audit.partitions)} partitions, {total} batches, "
        + (f"{len(bad)} partitions with differences or damage." if bad else "nothing differs and nothing is damaged."),
        good=not bad,
    )
    if bad:
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
                for each in bad
                if each.first is not None
            ],
        )
    page.heading("Partitions")
    page.table(
        ["Partition", "Nodes", "Compared from", "to", "Batches", "Records", "Bytes", "Verdict"],
        [cells(each) for each in audit.partitions],
    )
    if audit.damage:
        page.heading("Damage")
        page.table(
            ["Partition", "Offsets", "Node", "What", "Where"],
            [
                [f"{each.topic}-{each.partition}", offsets(each), each.nodes[0], each.what, Code(where(each))]
                for each in audit.damage
            ],
        )
    if audit.notes:
        page.heading("Notes")
        page.table(["Note"], [[each] for each in audit.notes])
    return page
