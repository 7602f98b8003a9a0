"""`sim`: whole clusters in virtual time under faults, every invariant checked; a failure is a seed to replay."""

import math
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from tidelog.cli.files import check_writable, unwritable
from tidelog.cli.options import Json, example
from tidelog.cli.output import CommandFailed, bad_usage, counted, note_if_slow, print_json, print_table, progress

if TYPE_CHECKING:
    from tidelog.sim.campaign import Outcome, Settings
    from tidelog.sim.faults.plan import PlannedFault
    from tidelog.sim.runner import Totals

T = TypeVar("T")

_TOLD_EVERY: Final = 100
_DEFAULT_SEEDS: Final = "0..99"
_DEFAULT_MINUTES: Final = 0.5
_DEFAULT_FAULTS: Final = "all"
_DEFAULT_INTENSITY: Final = 1.0


def register(app: typer.Typer) -> None:
    app.command(
        epilog=example(
            "tidelog sim --seeds 0..99",
            "tidelog sim --seeds 0..999 --faults network,control --minutes 2 --intensity 3",
            "tidelog sim --replay 17 --trace 17.jsonl",
            "tidelog sim --replay 4 --durability rf=3,min=1,acks=1",
        )
    )(sim)


def sim(
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", metavar="A..B", help="The first and the last seed, or a single one. [default: 0..99]"),
    ] = None,
    minutes: Annotated[
        float,
        typer.Option(
            "--minutes",
            min=0.01,
            help="Simulated minutes of each seed under faults; a quiet time without faults follows.",
        ),
    ] = _DEFAULT_MINUTES,
    faults: Annotated[
        str,
        typer.Option(
            "--faults", metavar="PROFILE[,…]", help="Kinds of faults: all, process, disk, network, time, control."
        ),
    ] = _DEFAULT_FAULTS,
    intensity: Annotated[
        float,
        typer.Option(
            "--intensity", metavar="FACTOR", min=0.01, max=100.0, help="Multiply the number of faults in the same time."
        ),
    ] = _DEFAULT_INTENSITY,
    replay: Annotated[int | None, typer.Option("--replay", metavar="SEED", min=0, help="Run only this seed.")] = None,
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="N[,…]", help="With --replay: inject only these faults of the seed, by number."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="FILE",
            help="With --replay: write each event to this file as a JSON line, for `tidelog page`.",
        ),
    ] = None,
    durability: Annotated[
        str | None,
        typer.Option(
            "--durability",
            metavar="rf=N,min=N,acks=all|1[,…]",
            help="With --replay: repeat this run of `tidelog campaign` under this configuration.",
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option("--processes", min=1, max=256, help="Number of processes. [default: one for each core]"),
    ] = None,
    shrinking: Annotated[
        bool,
        typer.Option(
            "--shrink/--no-shrink", help="Reduce the faults of a failing seed to those that are needed to fail."
        ),
    ] = True,
    as_json: Json = False,
) -> None:
    """Simulate clusters under faults and check every invariant after each change that can break it.

    If an invariant breaks, the command prints a line that replays the seed, and the status is 1.
    """
    from tidelog.sim.campaign import Settings
    from tidelog.sim.faults.kinds import PROFILES

    if not math.isfinite(minutes):
        raise bad_usage(f"--minutes needs a finite number, not {minutes}")
    profiles = tuple(dict.fromkeys(name.strip() for name in faults.split(",") if name.strip()))
    for name in profiles:
        if name not in ("all", *PROFILES):
            raise bad_usage(f"--faults: {name!r} is not one of all, {', '.join(PROFILES)}")
    if not profiles:
        raise bad_usage("--faults needs at least one kind")
    if replay is None and (only is not None or trace is not None):
        raise bad_usage("--only and --trace need --replay")
    if replay is not None and seeds is not None:
        raise bad_usage("give --seeds or --replay, not both")
    check_writable(trace)
    if durability is not None:
        if replay is None or only is not None:
            raise bad_usage("--durability needs --replay, and cannot be used with --only")
        given = {
            "--faults": faults != _DEFAULT_FAULTS,
            "--minutes": minutes != _DEFAULT_MINUTES,
            "--intensity": intensity != _DEFAULT_INTENSITY,
        }
        if without := [name for name, is_given in given.items() if is_given]:
            raise bad_usage(
                f"--durability cannot be used with {', '.join(without)}: a campaign has its own faults and times"
            )
        _replay_durability(replay, durability, trace, as_json)
        return
    settings = Settings(profiles=profiles, seconds=minutes * 60, intensity=intensity)
    if replay is not None:
        _replay(replay, settings, only, trace, as_json)
    else:
        chosen = seed_range(_DEFAULT_SEEDS if seeds is None else seeds)
        _campaign(chosen, settings, processes or os.cpu_count() or 1, shrinking=shrinking, as_json=as_json)


def seed_range(text: str) -> range:
    """`A..B`, or one seed alone."""
    first, dots, last = text.partition("..")
    if not first.isdecimal() or (dots and not last.isdecimal()):
        raise bad_usage(f"--seeds needs A..B or one number, not {text!r}")
    found = range(int(first), int(last if dots else first) + 1)
    if not found:
        raise bad_usage(f"--seeds {text}: the last seed is smaller than the first")
    return found


def _campaign(seeds: range, settings: "Settings", processes: int, *, shrinking: bool, as_json: bool) -> None:
    from tidelog.sim.runner import Totals, run_seeds

    totals = Totals()
    show = sys.stdout.isatty() and not as_json
    failed: Outcome | None = None
    if show:
        progress(_so_far(totals, len(seeds)))
    for outcome in run_seeds(seeds, settings, processes=min(processes, len(seeds))):
        totals.add(outcome)
        if show:
            progress(f"seed {outcome.seed}: {_so_far(totals, len(seeds))}")
        elif totals.seeds % _TOLD_EVERY == 0:
            # Into a log: a run of thousands takes an hour.
            print(f"… {_so_far(totals, len(seeds))}", file=sys.stderr, flush=True)
        if outcome.failure is not None:
            failed = outcome
            break
    if show:
        progress("")
    missing = [] if failed is not None else totals.never_happened(settings)
    if not as_json:
        _print_totals(totals, settings)
        if failed is None:
            print(f"\nno invariant broke in {counted(totals.seeds, 'seed')}")
    if failed is not None:
        smaller = _made_smaller(failed, settings, show=show) if shrinking else (failed.plan, failed)
        if as_json:
            only = _numbers(smaller[0]) if len(smaller[0]) < len(failed.plan) else None
            print_json(_as_json(totals, smaller[1], settings, only) | {"never_happened": missing})
        else:
            _explain(failed, settings, *smaller)
        assert failed.failure is not None
        raise CommandFailed(f"{failed.failure.invariant} is broken: {_command(failed.seed, settings)}")
    if as_json:
        print_json(_as_json(totals, None, settings) | {"never_happened": missing})
    if missing:
        raise CommandFailed(f"never happened in {totals.seeds} seeds: {', '.join(missing)}")


def _so_far(totals: "Totals", of: int) -> str:
    return (
        f"{totals.seeds} of {of} seeds, {totals.seconds:.0f} simulated s, {totals.faults.total()} faults, "
        f"{totals.acknowledged} acknowledged batches"
    )


def _replay(seed: int, settings: "Settings", only: str | None, trace: Path | None, as_json: bool) -> None:
    from tidelog.sim.campaign import plan_of, run_seed

    plan: list[PlannedFault] | None = None
    if only is not None:
        plan = plan_of(seed, settings)
        numbers = {part.strip() for part in only.split(",") if part.strip()}
        known = {str(fault.number) for fault in plan}
        if not numbers <= known:
            raise bad_usage(f"--only: seed {seed} has the faults 0 to {len(plan) - 1}")
        plan = [fault for fault in plan if str(fault.number) in numbers]
    lines: list[str] = []
    with note_if_slow(f"simulating seed {seed}"):
        outcome = _quiet(lambda: run_seed(seed, settings, plan=plan, sink=lines.append))
    if trace is not None:
        _write_trace(trace, lines)
    from tidelog.sim.runner import Totals

    totals = Totals()
    totals.add(outcome)
    if as_json:
        print_json(_as_json(totals, outcome, settings, only))
    else:
        _print_totals(totals, settings)
        print(f"trace {outcome.digest} of {outcome.steps} steps{'' if trace is None else f', in {trace}'}")
        if outcome.failure is None:
            print(f"no invariant broke in seed {seed}")
    if outcome.failure is not None:
        if not as_json:
            for line in outcome.failure.lines():
                print(line)
            print(f"replay: {_command(seed, settings, only)}")
        raise CommandFailed(f"seed {seed}: {outcome.failure.invariant} is broken")


def _write_trace(trace: Path, lines: list[str]) -> None:
    try:
        trace.write_text("".join(line + "\n" for line in lines))
    except OSError as error:
        raise CommandFailed(unwritable(trace, error)) from error


def _replay_durability(seed: int, text: str, trace: Path | None, as_json: bool) -> None:
    """A loss is what such a run is made to show, and no failure of ours."""
    from tidelog.sim.durability import BadConfiguration, Durability, run

    try:
        configuration = Durability.parse(text)
    except BadConfiguration as error:
        raise bad_usage(f"--durability: {error}") from error
    lines: list[str] = []
    with note_if_slow(f"simulating seed {seed}"):
        verdict = _quiet(lambda: run(seed, configuration, sink=lines.append))
    if trace is not None:
        _write_trace(trace, lines)
    if as_json:
        print_json(verdict.as_dict())
    else:
        print(f"seed {seed} under {configuration}")
        for failure in verdict.incident:
            print(f"  broker {failure.broker}: {failure.kind} at {failure.at_s:.1f} s, for {failure.lasts_s:.1f} s")
        print(f"{verdict.acknowledged} records acknowledged, {verdict.lost} of these lost")
        for lost in verdict.examples:
            print(f"  {lost.value} at offset {lost.offset} of orders-{lost.partition}, {lost.acknowledged_at_s:.3f} s")
        print(f"longest time without a write: {verdict.longest_outage_s:.1f} s")
        print(f"trace {verdict.digest}")
    if verdict.broken:
        raise CommandFailed(f"seed {seed} did not end: {verdict.broken}")


def _made_smaller(failed: "Outcome", settings: "Settings", *, show: bool) -> "tuple[list[PlannedFault], Outcome]":
    """The faults that are left, and what they lead to."""
    from tidelog.sim.runner import shrink

    def on_try(left: int) -> None:
        if show:
            progress(f"shrinking seed {failed.seed}: {left} faults left")

    smaller = _quiet(lambda: shrink(failed, settings, on_try=on_try))
    if show:
        progress("")
    return smaller


def _explain(failed: "Outcome", settings: "Settings", plan: "list[PlannedFault]", outcome: "Outcome") -> None:
    assert outcome.failure is not None
    for line in outcome.failure.lines():
        print(line)
    print(f"faults left of {len(failed.plan)}:")
    for fault in plan:
        print(f"  {fault.number} at {fault.at_s:.3f} s: {fault.kind}")
    print(f"replay: {_command(failed.seed, settings)}")
    if len(plan) < len(failed.plan):
        print(f"replay: {_command(failed.seed, settings, _numbers(plan))}")


def _numbers(plan: "list[PlannedFault]") -> str:
    return ",".join(str(fault.number) for fault in plan)


def _command(seed: int, settings: "Settings", only: str | None = None) -> str:
    """What shows it again, with every option that is not as it is by default: a seed is the same only with them."""
    faults = ",".join(settings.profiles)
    told = f"tidelog sim --replay {seed}"
    told += "" if settings.seconds == _DEFAULT_MINUTES * 60 else f" --minutes {_exactly(settings.seconds / 60)}"
    told += "" if faults == _DEFAULT_FAULTS else f" --faults {faults}"
    told += "" if settings.intensity == _DEFAULT_INTENSITY else f" --intensity {_exactly(settings.intensity)}"
    # With no fault at all it is an empty word, and still has to stand there.
    return told if only is None else f"{told} --only {shlex.quote(only)}"


def _exactly(number: float) -> str:
    """All digits: rounded it would be another run."""
    return repr(number).removesuffix(".0")


def _quiet(work: Callable[[], T]) -> T:
    from tidelog.sim.logged import quiet

    with quiet():
        return work()


def _print_totals(totals: "Totals", settings: "Settings") -> None:
    from tidelog.sim.faults.kinds import KINDS

    print_table(["FAULT", "TIMES"], [[kind, times] for kind, times in sorted(totals.faults.items())])
    chosen = [kind.name for kind in KINDS.values() if {"all", kind.profile} & set(settings.profiles)]
    missing = [name for name in chosen if not totals.faults[name]]
    if missing:
        print(f"{len(missing)} of {counted(len(chosen), 'kind')} of faults did not occur")
    print()
    rows = [
        ["seeds", totals.seeds],
        ["simulated seconds", round(totals.seconds)],
        ["faults", totals.faults.total()],
        ["elections", totals.elections],
        ["unclean elections", totals.unclean],
        ["ISR changes", totals.isr_changes],
        ["truncations", totals.truncations],
        ["snapshots written", totals.snapshots],
        ["snapshots fetched", totals.fetched_snapshots],
        ["acknowledged batches", totals.acknowledged],
        ["records lost to unclean elections, at most", totals.forgotten],
        ["offset commits of groups", totals.commits],
        ["records read", totals.read],
    ]
    print_table(["TOTAL", "VALUE"], rows)


def _as_json(
    totals: "Totals", outcome: "Outcome | None", settings: "Settings", only: str | None = None
) -> dict[str, object]:
    failure = None if outcome is None else outcome.failure
    return {
        "seeds": totals.seeds,
        "seconds": totals.seconds,
        "faults": dict(sorted(totals.faults.items())),
        "elections": totals.elections,
        "unclean_elections": totals.unclean,
        "isr_changes": totals.isr_changes,
        "truncations": totals.truncations,
        "snapshots": totals.snapshots,
        "fetched_snapshots": totals.fetched_snapshots,
        "acknowledged_batches": totals.acknowledged,
        "records_given_up": totals.forgotten,
        "commits": totals.commits,
        "records_read": totals.read,
        "failure": None
        if failure is None or outcome is None
        else {
            "seed": outcome.seed,
            "invariant": failure.invariant,
            "statement": failure.statement,
            "what": failure.what,
            "replicas": failure.replicas,
            "events": failure.events,
            "replay": _command(outcome.seed, settings, only),
        },
    }
