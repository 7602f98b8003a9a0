"""`verify`: a live workload and faults against a real cluster, and the checks of its history."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidelog.cli.files import check_writable, unwritable
from tidelog.cli.options import DEFAULT_BOOTSTRAP, MOST_INT16, Bootstrap, CommandConfig, Json, example, legal_topics
from tidelog.cli.output import CommandFailed, bad_usage, print_json, print_table, progress
from tidelog.cli.session import client_security, cluster_errors, with_client

if TYPE_CHECKING:
    import random

    from tidelog.client.client import Client
    from tidelog.verify.faults import FaultPort
    from tidelog.verify.run import Progress, Result
    from tidelog.verify.verdict import Judgement, Thresholds
    from tidelog.verify.workload import RunPlan

_LARGEST_SEED: Final = 2**32


def register(app: typer.Typer) -> None:
    app.command(
        epilog=example(
            "tidelog verify --seconds 30",
            "tidelog verify --seconds 300 --data ./tidelog-data --faults kill-leader,kill-controller,pause",
        )
    )(verify)


def verify(
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Length of the load, in seconds.")] = 30.0,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="DIR", help="Directory of the cluster, as given to `tidelog up`; --faults needs it."
        ),
    ] = None,
    faults: Annotated[
        str,
        typer.Option(
            "--faults",
            metavar="KIND[,…]",
            help="Faults to inject: kill-leader, kill-follower, kill-controller, pause, isolate, one-way.",
        ),
    ] = "",
    rounds: Annotated[
        int | None,
        typer.Option(
            "--rounds", min=1, help="Number of faults; the load ends with the last one. [default: as many as fit]"
        ),
    ] = None,
    hold: Annotated[
        str | None,
        typer.Option(
            "--hold", metavar="SECONDS[..SECONDS]", help="Length of a fault, in seconds. [default: depends on the kind]"
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Seed for the order and the targets of faults. [default: random]"),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            help="Name of the topic, which must not exist. [default: verify- and a random number]",
            callback=legal_topics,
        ),
    ] = None,
    partitions: Annotated[int, typer.Option("--partitions", min=1, max=1000, help="Partitions of the topic.")] = 12,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            min=1,
            max=MOST_INT16,
            help="Replicas of each partition. [default: 3, or the number of brokers if less]",
        ),
    ] = None,
    min_isr: Annotated[
        int | None,
        typer.Option("--min-isr", min=1, help="min.insync.replicas of the topic. [default: 2, or 1 with one replica]"),
    ] = None,
    acks: Annotated[
        str,
        typer.Option(
            "--acks",
            metavar="all|1",
            help="Acknowledgements that a record needs: of all in-sync replicas, or of the leader.",
        ),
    ] = "all",
    idempotence: Annotated[
        bool | None,
        typer.Option(
            "--idempotence/--no-idempotence",
            help="Whether producers are idempotent. [default: idempotent with --acks all]",
        ),
    ] = None,
    producers: Annotated[int, typer.Option("--producers", min=1, max=64, help="Number of producers.")] = 2,
    consumers: Annotated[int, typer.Option("--consumers", min=1, max=64, help="Number of consumers.")] = 2,
    rate: Annotated[
        int, typer.Option("--rate", min=0, help="Records per second of all producers together; 0 means no limit.")
    ] = 2000,
    record_bytes: Annotated[
        int, typer.Option("--record-bytes", min=40, max=250_000, help="Size of each value, in bytes.")
    ] = 100,
    keep_topic: Annotated[
        bool, typer.Option("--keep-topic", help="Keep the topic, also if verification passes.")
    ] = False,
    min_acknowledged: Annotated[
        int,
        typer.Option("--min-acknowledged", min=0, help="With fewer acknowledged records the verdict is inconclusive."),
    ] = 1000,
    min_faults: Annotated[
        int,
        typer.Option(
            "--min-faults", min=0, help="With fewer faults of a kind in --faults the verdict is inconclusive."
        ),
    ] = 1,
    min_leader_changes: Annotated[
        int, typer.Option("--min-leader-changes", min=0, help="With fewer leader changes the verdict is inconclusive.")
    ] = 0,
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="FILE", help="Write the history of the run to this file, as JSON lines."),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option("--check", metavar="FILE", help="Check a history that --history wrote, without a cluster."),
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Write and read with librdkafka under faults, then search for lost, duplicated, reordered or uncommitted records.

    The status is 0 with `verdict: ok`. It is 1 if a check failed, or if the run was too short for a verdict
    (inconclusive).
    """
    from tidelog.verify.faults import KINDS, ControlSocket
    from tidelog.verify.verdict import Thresholds
    from tidelog.verify.workload import FaultPlan, RunPlan, Workload

    thresholds = Thresholds(
        acknowledged=min_acknowledged, faults_of_a_kind=min_faults, leader_changes=min_leader_changes
    )
    kinds = tuple(dict.fromkeys(kind.strip() for kind in faults.split(",") if kind.strip()))
    for kind in kinds:
        if kind not in KINDS:
            raise bad_usage(f"--faults: {kind!r} is not one of {', '.join(KINDS)}")
    if acks not in ("all", "-1", "1"):
        raise bad_usage(f"--acks is all or 1, not {acks!r}: without an acknowledgement no record counts as lost")
    if acks == "1" and idempotence:
        raise bad_usage("--idempotence needs --acks all")
    hold_s = _parse_hold(hold)
    if not kinds and check is None and (rounds is not None or hold is not None):
        raise bad_usage(f"--rounds and --hold need --faults, such as --faults {','.join(KINDS)}")
    if kinds and data is None and check is None:
        raise bad_usage("--faults needs --data DIR, the directory of a cluster that `tidelog up` started")
    if check is not None:
        _judge_file(check, thresholds, kinds, as_json)
        return
    check_writable(history)
    rng = _randomness()
    seed = rng.randrange(_LARGEST_SEED) if seed is None else seed
    plan = RunPlan(
        workload=Workload(
            bootstrap=bootstrap,
            security=client_security(command_config),
            topic=topic or f"verify-{rng.randrange(_LARGEST_SEED):08x}",
            partitions=partitions,
            replication_factor=replication_factor,
            min_isr=min_isr,
            acks="1" if acks == "1" else "all",
            idempotent=acks != "1" if idempotence is None else idempotence,
            producers=producers,
            consumers=consumers,
            rate=rate,
            record_bytes=record_bytes,
            keep_topic=keep_topic,
        ),
        seconds=seconds,
        faults=FaultPlan(kinds=kinds, rounds=rounds, seed=seed, hold_s=hold_s),
        thresholds=thresholds,
    )
    port = ControlSocket(data) if data is not None else None
    result = _run(bootstrap, command_config, plan, port, show=sys.stdout.isatty() and not as_json)
    if history is not None:
        from tidelog.verify.history_file import write_history

        try:
            write_history(result.history, history)
        except OSError as error:
            raise CommandFailed(unwritable(history, error)) from error
    _print_result(result, seed, as_json)


def _run(
    bootstrap: str, command_config: Path | None, plan: "RunPlan", port: "FaultPort | None", *, show: bool
) -> "Result":
    from tidelog.verify.report import progress_line
    from tidelog.verify.run import run
    from tidelog.verify.workload import VerifyError

    def on_progress(now: "Progress") -> None:
        progress(progress_line(now))

    async def work(client: "Client") -> "Result":
        return await run(client, plan, port=port, on_progress=on_progress if show else None)

    try:
        return cluster_errors(lambda: with_client(bootstrap, work, command_config))
    except VerifyError as error:
        raise CommandFailed(str(error)) from error
    finally:
        if show:
            progress("")


def _print_result(result: "Result", seed: int, as_json: bool) -> None:
    from tidelog.verify.report import first_violations, summary, to_json

    if as_json:
        print_json(to_json(result, seed))
        _end(result.judgement)
        return
    for line in summary(result):
        print(line)
    _print_judgement(result.judgement, first_violations(result.judgement, result.history))
    if result.judgement.counts.faults:
        print(f"seed: {seed}")
    _end(result.judgement)


def _judge_file(path: Path, thresholds: "Thresholds", kinds: tuple[str, ...], as_json: bool) -> None:
    from tidelog.verify.history_file import read_history
    from tidelog.verify.report import counted, first_violations
    from tidelog.verify.verdict import judge
    from tidelog.verify.workload import VerifyError

    try:
        history = read_history(path)
    except VerifyError as error:
        raise CommandFailed(str(error)) from error
    except OSError as error:
        raise CommandFailed(f"cannot read {path}: {error.strerror or error}") from error
    judgement = judge(history, thresholds, kinds)
    if as_json:
        print_json(judgement.to_json())
    else:
        for line in counted(judgement):
            print(line)
        _print_judgement(judgement, first_violations(judgement, history))
    _end(judgement)


def _print_judgement(judgement: "Judgement", violations: list[str]) -> None:
    from tidelog.verify.report import check_rows

    print()
    print_table(["CHECK", "VIOLATIONS", "WHAT HOLDS"], check_rows(judgement))
    print()
    for line in violations:
        print(line)
    print(f"verdict: {judgement.verdict.value}")


def _end(judgement: "Judgement") -> None:
    from tidelog.verify.report import last_line
    from tidelog.verify.verdict import Verdict

    if judgement.verdict is not Verdict.OK:
        raise CommandFailed(last_line(judgement))


def _parse_hold(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    low, dots, high = text.partition("..")
    try:
        bounds = float(low), float(high if dots else low)
    except ValueError as error:
        raise bad_usage(f"--hold needs seconds, or a range such as 1..5, not {text!r}") from error
    if not 0 <= bounds[0] <= bounds[1]:
        raise bad_usage(f"--hold needs a range from 0 or more to at least its start, not {text!r}")
    return bounds


def _randomness() -> "random.Random":
    import random

    return random.Random()
