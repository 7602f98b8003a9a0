"""The demo as a page with pictures."""

from statistics import median
from typing import Final

from tidelog.cli.demo.journal import Journal
from tidelog.cli.demo.pipeline import Sold
from tidelog.cli.demo.writing import BATCH, WRITERS, Counted, Score
from tidelog.jobs.axes import Axis, numbers
from tidelog.jobs.page import Page
from tidelog.jobs.plots import Bar, Lane, Limit, Series, Span, bar_plot, lane_plot, line_plot

_RATE_S: Final = 0.1
_MIN_INSYNC: Final = 2
# A request that takes so many times the usual is drawn as a wait.
_SLOW: Final = 4
_MS: Final = 1000


def page_of(journal: Journal, score: Score, counted: Counted, sold: Sold | None, no_spark: str) -> Page:
    """`no_spark`: why there is no table."""
    page = Page("Tidelog demo: a leader is killed under load")
    page.text(
        f"{score.total} records were acknowledged and {counted.found} read back: {counted.missing} are missing, "
        f"{counted.doubled} are duplicates.",
        good=counted.is_good,
    )
    page.heading("What happened")
    page.table(["Second", "Event"], [[f"{event.at_s:.2f}", event.text] for event in journal.events])
    x = _seconds(journal, score)
    down = [
        Span(each.killed_s, each.started_s, f"node {each.node} down, {each.started_s - each.killed_s:.1f} s")
        for each in journal.outages
    ]
    page.heading("Nodes, and how long writers waited")
    page.text("Red in a node's row: no process. Amber: catching up. Red in a writer's row: it waits for a request.")
    page.plot(lane_plot(_lanes(journal, score, x.high), x=x, words="nodes and writers over time"))
    page.heading("Records acknowledged")
    page.plot(
        line_plot(
            [Series("acknowledged", _acknowledged(journal, score))],
            x=x,
            y_title="records",
            spans=down,
        )
    )
    page.heading("Records acknowledged per second")
    page.plot(
        line_plot(
            [Series("rate", _rate(journal, score, x.high))], x=x, y_title="records per second", steps=True, spans=down
        )
    )
    page.heading("In-sync replicas of the partition with the fewest")
    page.plot(
        line_plot(
            [Series("replicas", [(look.at_s, look.smallest_isr) for look in journal.looks])],
            x=x,
            y_title="in-sync replicas",
            steps=True,
            whole=True,
            spans=down,
            limit=Limit(_MIN_INSYNC, f"min.insync.replicas = {_MIN_INSYNC}: below it, writes are rejected"),
        )
    )
    page.heading("The topic as a table, made by Spark")
    if sold is None:
        page.text(f"Left out: {no_spark}.")
        return page
    page.text(
        f"{sold.rows} rows, {sold.distinct} of them distinct: each record of the topic exactly once.",
        good=sold.rows == sold.distinct == counted.found,
    )
    page.table(["Item", "Orders", "Revenue"], [[item, *figures] for item, figures in sold.items.items()])
    page.plot(bar_plot([Bar(item, total) for item, (_, total) in sold.items.items()], unit="revenue"))
    return page


def _seconds(journal: Journal, score: Score) -> Axis:
    ends = [look.at_s for look in journal.looks] + [each.answered_s - journal.began_s for each in score.waits[-1:]]
    return numbers(0, max(ends, default=1.0), "seconds since the first write", to_tick=False)


def _lanes(journal: Journal, score: Score, end_s: float) -> list[Lane]:
    brokers = sorted({each.broker for look in journal.looks for view in look.partitions for each in view.replicas})
    lanes = [Lane(f"node {broker}", _states(journal, broker, end_s)) for broker in brokers]
    usual_s = median([each.seconds for each in score.waits]) if score.waits else 0.0
    for writer in range(WRITERS):
        own = [each for each in score.waits if each.writer == writer]
        slow = [each for each in own if each.seconds > _SLOW * usual_s]
        longest = max(slow, key=lambda each: each.seconds, default=None)
        lanes.append(
            Lane(
                f"writer {writer}",
                [
                    Span(0.0, end_s, kind="good"),
                    *(
                        Span(
                            each.asked_s - journal.began_s,
                            each.answered_s - journal.began_s,
                            f"{each.seconds * _MS:.0f} ms" if each is longest else "",
                        )
                        for each in slow
                    ),
                ],
            )
        )
    return lanes


def _states(journal: Journal, broker: int, end_s: float) -> list[Span]:
    """Up, down and catching up, one after the other."""
    spans, up_since_s = [], 0.0
    for each in journal.outages:
        if each.node == broker:
            spans.append(Span(up_since_s, each.killed_s, kind="good"))
            spans.append(Span(each.killed_s, each.started_s))
            spans.append(Span(each.started_s, each.in_sync_s, kind="warn"))
            up_since_s = each.in_sync_s
    return [*spans, Span(up_since_s, end_s, kind="good")]


def _acknowledged(journal: Journal, score: Score) -> list[tuple[float, float]]:
    """The total after each answer."""
    answers = sorted(each.answered_s - journal.began_s for each in score.waits)
    return [(0.0, 0.0), *((at_s, number * BATCH) for number, at_s in enumerate(answers, 1))]


def _rate(journal: Journal, score: Score, end_s: float) -> list[tuple[float, float]]:
    """Per tenth of a second, which shows an outage to its length."""
    counts = [0] * (int(end_s / _RATE_S) + 1)
    for each in score.waits:
        counts[min(len(counts) - 1, int((each.answered_s - journal.began_s) / _RATE_S))] += BATCH
    # The last one is cut off by the end of the load.
    return [(number * _RATE_S, count / _RATE_S) for number, count in enumerate(counts[:-1])]
