"""Health as a page."""

from datetime import UTC, datetime
from typing import Final

from tidelog.broker.replication_events import MOST_LISTED
from tidelog.jobs.health.model import Figures, Health
from tidelog.jobs.page import Page, Series

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
        rows.append(_row(f"internal topics ({found.internal.partitions} partitions)", found.internal))
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
        f"; {found.full_samples} samples have a list of {MOST_LISTED} entries, which is where brokers cut them: "
        "seconds and lag are those of what is listed"
        if found.full_samples
        else ""
    )
    when = f"from {moment(found.first_ms)} to {moment(found.last_ms)} UTC"
    return f"{found.events} events of brokers {brokers} {when}{dropped}{full}"


def page_of(found: Health) -> Page:
    page = Page("Replication health")
    page.text(overview(found))
    start = found.windows[0].start_ms if found.windows else 0

    def series(label: str, name: str) -> Series:
        return Series(label, [((each.start_ms - start) / _MS, float(getattr(each, name))) for each in found.windows])

    since = f"s since {moment(start)}, windows of {found.window_s:g} s"
    page.heading("Lag of followers, in records")
    page.lines(
        [series("p50", "lag_p50"), series("p95", "lag_p95"), series("p99", "lag_p99"), series("max", "lag_max")],
        x_label=since,
        y_label="records",
    )
    page.heading("Partitions under-replicated, and with a high watermark that stands still")
    page.lines(
        [series("under-replicated", "under_replicated_s"), series("stalled", "stalled_s")],
        x_label=since,
        y_label="partition-seconds in a window",
    )
    page.heading("ISR shrinks and leader moves")
    page.lines(
        [series("ISR shrinks", "shrinks"), series("leader moves", "leader_moves")], x_label=since, y_label="in a window"
    )
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
