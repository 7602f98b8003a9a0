"""Health as a page."""

from datetime import UTC, datetime
from typing import Final

from tidelog.broker.replication_events import MOST_LISTED
from tidelog.jobs.axes import times
from tidelog.jobs.health.model import Figures, Health
from tidelog.jobs.page import Page
from tidelog.jobs.plots import Series, column_plot, nested_plot

HEADINGS: Final = (
    "Partition",
    "Under-replicated s",
    "HW stalled s",
    "ISR shrinks",
    "expands",
    "Leader moves",
    "unclean",
    "Records lost",
    "Lag p50",
    "p95",
    "p99",
    "max",
)
_MS: Final = 1000
# Rows of a table on the page; JSON has all of them.
_SHOWN: Final = 200


def moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / _MS, UTC).strftime("%Y-%m-%d %H:%M:%S")


def rows_of(found: Health, most: int | None = None) -> list[list[object]]:
    """A row for each of the first `most` partitions, and one for the internal topics if they are folded."""
    rows = [_row(f"{each.topic}-{each.partition}", each) for each in found.partitions[:most]]
    if found.internal is not None:
        count = found.internal.partitions
        rows.append(_row(f"internal topics ({count} partition{'' if count == 1 else 's'})", found.internal))
    return rows


def _row(name: str, figures: Figures) -> list[object]:
    return [
        name,
        round(figures.under_replicated_s, 1),
        round(figures.stalled_s, 1),
        figures.shrinks,
        figures.expands,
        figures.leader_moves,
        figures.unclean_elections,
        figures.records_lost,
        figures.lag_p50,
        figures.lag_p95,
        figures.lag_p99,
        figures.lag_max,
    ]


def overview(found: Health) -> str:
    brokers = ", ".join(str(each) for each in found.brokers)
    dropped = f"; {found.dropped} more could not be published" if found.dropped else ""
    full = (
        f"; {found.full_samples} samples have a list of {MOST_LISTED} entries, the most that a broker lists: the "
        "figures leave out all others"
        if found.full_samples
        else ""
    )
    when = f"from {moment(found.first_ms)} to {moment(found.last_ms)} UTC"
    return f"{found.events} events of brokers {brokers} {when}{dropped}{full}"


def page_of(found: Health) -> Page:
    page = Page("Replication health")
    page.text(overview(found))
    width = found.window_s * _MS
    starts = [each.start_ms for each in found.windows] or [0]
    x = times(starts[0], starts[-1] + width)

    def series(label: str, name: str) -> Series:
        return Series(label, [(each.start_ms, float(getattr(each, name))) for each in found.windows])

    window = f"a window of {found.window_s:g} s"
    page.heading("Follower lag")
    page.text(
        "How many records followers were behind their leader: half of all samples up to p50, nearly all up to p99."
    )
    lags = [series("p50", "lag_p50"), series("p95", "lag_p95"), series("p99", "lag_p99"), series("max", "lag_max")]
    page.plot(nested_plot(lags, x=x, width=width, y_title="records", whole=True))
    page.heading("Under-replicated and stalled partitions")
    page.text(f"Seconds of all partitions together, in {window}. Stalled: the high watermark does not move.")
    troubles = [series("under-replicated", "under_replicated_s"), series("stalled", "stalled_s")]
    page.plot(column_plot(troubles, x=x, width=width, y_title="partition-seconds"))
    page.heading("ISR shrinks and leader moves")
    changes = [series("ISR shrinks", "shrinks"), series("leader moves", "leader_moves")]
    page.plot(column_plot(changes, x=x, width=width, y_title=f"in {window}", whole=True))
    page.heading("Partitions, the most troubled first")
    page.table(HEADINGS, rows_of(found, _SHOWN), left_out=len(found.partitions) - _SHOWN)
    page.heading("Windows, the newest first")
    page.table(
        ["From", "ISR shrinks", "Leader moves", "Under-replicated s", "Stalled s", "Lag p50", "p95", "p99", "max"],
        [
            [
                moment(each.start_ms),
                each.shrinks,
                each.leader_moves,
                round(each.under_replicated_s, 1),
                round(each.stalled_s, 1),
                each.lag_p50,
                each.lag_p95,
                each.lag_p99,
                each.lag_max,
            ]
            for each in found.windows[: -_SHOWN - 1 : -1]
        ],
        left_out=len(found.windows) - _SHOWN,
    )
    return page
