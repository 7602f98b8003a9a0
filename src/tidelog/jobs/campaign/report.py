"""A campaign as a page."""

from collections.abc import Sequence
from typing import Final

from tidelog.jobs.campaign.odds import FAILING, Tally, replay
from tidelog.jobs.page import Code, Page
from tidelog.jobs.plots import Bar, bar_plot

HEADINGS: Final = (
    "Configuration",
    "Loss, 1 broker fails",
    "2 fail",
    "all 3 fail",
    "Unavailable, 1 broker fails",
    "2 fail",
    "all 3 fail",
)
_PERCENT: Final = 100
_EXAMPLES: Final = 20


def row_of(tally: Tally) -> list[str]:
    losses = [tally.loss(failing).words() for failing in FAILING]
    return [tally.configuration, *losses, *(tally.unavailability(failing).words() for failing in FAILING)]


def page_of(found: Sequence[Tally]) -> Page:
    page = Page("Campaign: how safe each configuration is")
    runs = sum(len(each.runs) for each in found)
    page.text(
        f"{runs} simulated clusters of three brokers under load, each with one incident. One broker, two, or all three "
        "in turn are killed, lose power, are partitioned or are paused for about ten seconds. "
        "Every configuration meets the same incidents. In brackets: the 95 % confidence interval."
    )
    page.heading("How often an acknowledged record is lost, and a partition accepts no writes")
    page.table(HEADINGS, [row_of(each) for each in found])
    for failing in FAILING:
        brokers = "1 broker fails" if failing == 1 else f"{failing} brokers fail"
        page.heading(f"An acknowledged record is lost when {brokers}")
        page.plot(bar_plot([_bar(each, failing, lost=True) for each in found], unit="%", most=_PERCENT))
        page.heading(f"A partition accepts no writes for longer than an election when {brokers}")
        page.plot(bar_plot([_bar(each, failing, lost=False) for each in found], unit="%", most=_PERCENT))
    page.heading("Counter-examples")
    for each in found:
        if not each.counter_examples:
            page.text(f"{each.configuration}: none in {len(each.runs)} runs, {each.acknowledged} records acknowledged.")
            continue
        page.text(
            f"{each.configuration}: {len(each.counter_examples)} of {len(each.runs)} runs, {each.lost} of "
            f"{each.acknowledged} acknowledged records."
        )
        page.table(
            ["Seed", "Incident", "Lost", "For one", "Again"],
            [
                [run.seed, run.incident, run.lost, run.example, Code(replay(run))]
                for run in each.counter_examples[:_EXAMPLES]
            ],
        )
    page.heading("Seeds in which a partition was unavailable")
    page.table(
        ["Configuration", "Seeds"],
        [[each.configuration, ", ".join(str(seed) for seed in each.unavailable_seeds)] for each in found],
    )
    broken = [run for each in found for run in each.broken]
    if broken:
        page.heading("Runs that did not finish")
        page.table(["Why", "Again"], [[run.broken, Code(replay(run))] for run in broken])
    return page


def _bar(tally: Tally, failing: int, *, lost: bool) -> Bar:
    odds = tally.loss(failing) if lost else tally.unavailability(failing)
    low, high = odds.interval
    return Bar(tally.configuration, _PERCENT * odds.share, _PERCENT * low, _PERCENT * high)
