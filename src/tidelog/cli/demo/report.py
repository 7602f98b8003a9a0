"""The demo as a page with pictures."""

from typing import Final

from tidelog.cli.demo.journal import Journal, Look
from tidelog.cli.demo.pipeline import Sold
from tidelog.cli.demo.writing import Counted, Score
from tidelog.jobs.page import Bar, Mark, Page, Series

_RATE_S: Final = 0.25


def page_of(journal: Journal, score: Score, counted: Counted, sold: Sold | None, no_spark: str) -> Page:
    """`no_spark`: why there is no table."""
    page = Page("Tidelog demo: a leader killed in the middle of a load")
    page.text(
        f"{score.total} records were acknowledged. {counted.found} were read back: {counted.missing} of the "
        f"acknowledged are missing, {counted.doubled} are there twice.",
        good=counted.is_good,
    )
    page.heading("What happened")
    page.table(["Second", "What"], [[f"{event.at_s:.1f}", event.text] for event in journal.events])
    marks = [Mark(event.at_s, event.word) for event in journal.events if event.word]
    page.heading("Records acknowledged to the writers, and committed by the cluster (high watermarks)")
    page.lines(
        [
            Series("acknowledged", [(look.at_s, look.acknowledged) for look in journal.looks]),
            Series("committed", [(look.at_s, look.committed) for look in journal.looks]),
        ],
        x_label="s",
        y_label="records",
        marks=marks,
    )
    page.heading("Acknowledged per second: two of four writers wait while nobody leads")
    page.lines([Series("records/s", _rate(journal.looks))], x_label="s", y_label="records/s", marks=marks)
    page.heading("In-sync replicas of the partition that has fewest")
    page.lines(
        [Series("replicas", [(look.at_s, look.smallest_isr) for look in journal.looks])],
        x_label="s",
        y_label="in-sync replicas (min.insync.replicas is 2)",
        steps=True,
        marks=marks,
    )
    page.heading("The topic as a table, by Spark")
    if sold is None:
        page.text(f"Left out: {no_spark}.")
        return page
    page.text(
        f"{sold.rows} rows, {sold.distinct} of them different: each record of the topic once.",
        good=sold.rows == sold.distinct == counted.found,
    )
    page.table(["Item", "Orders", "Total"], [[item, *figures] for item, figures in sold.items.items()])
    page.bars([Bar(item, total) for item, (_, total) in sold.items.items()])
    return page


def _rate(looks: list[Look]) -> list[tuple[float, float]]:
    """Over the last moment at each look."""
    points = []
    first = 0
    for look in looks:
        while looks[first].at_s < look.at_s - _RATE_S:
            first += 1
        since = looks[first]
        if look.at_s > since.at_s:
            points.append((look.at_s, (look.acknowledged - since.acknowledged) / (look.at_s - since.at_s)))
    return points
