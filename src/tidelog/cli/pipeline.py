"""`pipeline`: a data pipeline from a TOML file, on Spark."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli.options import CommandConfig, Json, commands, example
from tidelog.cli.output import CommandFailed, print_json, print_table
from tidelog.cli.session import security_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.cli.pipeline_progress import Display
    from tidelog.jobs.pipeline.model import Pipeline
    from tidelog.jobs.pipeline.state import RunState, StateFolder

app = commands(
    "Run data pipelines on Spark, from topics through SQL to tables.",
    "tidelog pipeline validate clickstream.toml",
    "tidelog pipeline run clickstream.toml",
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline, a TOML file.")]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT[,…]",
        help="Brokers of sources and sinks that name none, in place of `bootstrap` in FILE.",
    ),
]


@app.command(epilog=example("tidelog pipeline validate clickstream.toml"))
def validate(file: File, json: Json = False) -> None:
    """Check the file of a pipeline and report mistakes with line and key. Spark is not started."""
    from tidelog.jobs.pipeline.parsing import BadPipeline, load

    try:
        pipeline = load(file)
    except BadPipeline as error:
        if json:
            print_json(
                {
                    "file": str(file),
                    "valid": False,
                    "mistakes": [{"line": each.line, "key": each.key, "text": each.text} for each in error.mistakes],
                }
            )
            raise typer.Exit(1) from None
        raise _mistaken(error) from None
    except OSError as error:
        raise CommandFailed(f"{file}: {error.strerror or error}") from error
    if json:
        print_json({"file": str(file), "valid": True, "mistakes": []})
        return
    counts = [("source", pipeline.sources), ("table", pipeline.tables), ("step", pipeline.steps)]
    words = [f"{len(each)} {word}{'s' * (len(each) != 1)}" for word, each in counts if each]
    print(f"{file}: {', '.join(words)}, {len(pipeline.sinks)} sink{'s' * (len(pipeline.sinks) != 1)}: nothing wrong")


@app.command(
    epilog=example(
        "tidelog pipeline run clickstream.toml",
        "tidelog pipeline run clickstream.toml --once",
        "tidelog pipeline run clickstream.toml --master spark://host:7077",
    )
)
def run(
    file: File,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="URL of a Spark master. [default: the one in FILE, or local[*]]"),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Process the records available now, then stop.")] = False,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Run a pipeline until ctrl-C, which ends it after the batches that run; a second one ends it at once.

    With --json every batch is a line of JSON. The next run continues where this one ended, even after a crash.
    """
    pipeline = _load(file, bootstrap, security_properties(command_config))
    from tidelog.cli.pipeline_progress import display

    state = run_queries(pipeline, master, display(pipeline.name, json=json), once=once)
    if not json:
        print(summary(state))


@app.command(
    epilog=example("tidelog pipeline status clickstream.toml", "tidelog pipeline status ./checkpoints/clickstream")
)
def status(
    place: Annotated[
        Path, typer.Argument(metavar="FILE|DIR", help="The TOML file of the pipeline, or its checkpoint directory.")
    ],
    json: Json = False,
    prometheus: Annotated[bool, typer.Option("--prometheus", help="Print the text format of Prometheus.")] = False,
) -> None:
    """Report the progress of a pipeline that another process runs, or how it ended."""
    from tidelog.jobs.pipeline.metrics import exposition
    from tidelog.jobs.pipeline.state import NoState

    try:
        found = _folder(place).read()
    except NoState as error:
        raise CommandFailed(str(error)) from error
    if json:
        print_json(found)
    elif prometheus:
        print(exposition(found), end="")
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
    word = f"{found['name']} {found['state']}, process {found['pid']} on {found['master']}"
    print(f"{word}: {found['error']}" if found["error"] else word)
    print_table(
        ("QUERY", "BATCH", "ROWS", "ROWS/S", "BATCH MS", "BACKLOG", "DEAD LETTERS", "LATE ROWS", "TO"),
        [
            (
                each["name"],
                None if each["batch_id"] < 0 else each["batch_id"],
                each["total_rows"],
                round(each["rows_per_second"]),
                each["batch_ms"],
                ", ".join(f"{source} {count}" for source, count in each["backlog"].items()),
                each["dead_letters"],
                each.get("late_rows", 0),
                each["sink"],
            )
            for each in found["queries"]
        ],
    )


def _folder(place: Path) -> "StateFolder":
    from tidelog.jobs.pipeline.state import StateFolder, folder_of

    return StateFolder(place) if place.is_dir() else StateFolder(folder_of(_load(place, None)))


def _load(file: Path, bootstrap: str | None, security: dict[str, str] | None = None) -> "Pipeline":
    from tidelog.jobs.pipeline.parsing import BadPipeline, load

    try:
        return load(file, bootstrap=bootstrap, security=security)
    except BadPipeline as error:
        raise _mistaken(error) from None
    except OSError as error:
        raise CommandFailed(f"{file}: {error.strerror or error}") from error


def _mistaken(error: Any) -> CommandFailed:
    """A line for each mistake; how many there are is the last one."""
    for each in error.mistakes:
        print(each.told(error.file), file=sys.stderr)
    count = len(error.mistakes)
    return CommandFailed(f"{error.file} has {count} mistake{'s' * (count != 1)}")


def summary(state: "RunState") -> str:
    """The last line of a run."""
    rows = sum(each.total_rows for each in state.queries)
    letters = sum(each.dead_letters for each in state.queries)
    late = sum(each.late_rows for each in state.queries)
    left = f", {letters} of them dead letters" if letters else ""
    left += f", {late} rows dropped as late" if late else ""
    return f"{state.name} has ended: {rows} rows read by {len(state.queries)} queries{left}"


def run_queries(
    pipeline: "Pipeline",
    master: str | None,
    report: "Display",
    *,
    once: bool,
    ready: "Callable[[SparkSession], None]" = lambda _: None,
) -> "RunState":
    """Starts Spark, calls `ready`, and runs the queries to their end. CommandFailed in one line if that fails."""
    from tidelog.cli.jobs import spark_output
    from tidelog.cli.spark_progress import spark_progress

    # First: it prints a line while the imports below and Java take their seconds.
    with spark_progress(f"pipeline {pipeline.name}") as progress:
        from tidelog.jobs import failures, session
        from tidelog.jobs.pipeline.state import Busy, StateFolder, folder_of
        from tidelog.jobs.sharing import NotShared, require_shared

        folder = StateFolder(folder_of(pipeline))
        try:
            with folder.held(), spark_output(report.relay) as output:
                output.relay = progress.relay
                spark = session.start(pipeline.name, master, pipeline.spark, output)
                try:
                    require_shared(spark, pipeline.written_paths)
                    ready(spark)
                    progress.close()
                    output.relay = report.relay
                    return _follow(spark, pipeline, folder, once, report)
                finally:
                    session.stop(spark)
        except (Busy, session.NoSpark, NotShared) as error:
            raise CommandFailed(str(error)) from error
        except OSError as error:
            raise CommandFailed(f"{pipeline.name}: {error.strerror or error}") from error
        except Exception as error:
            if not failures.is_sparks(error):
                raise
            raise CommandFailed(f"{pipeline.name}: {failures.one_line(error)}") from error


def _follow(
    spark: "SparkSession", pipeline: "Pipeline", folder: "StateFolder", once: bool, report: "Display"
) -> "RunState":
    """Runs the queries to their end, with progress and metrics."""
    from dataclasses import asdict

    from tidelog.jobs.pipeline.metrics import served
    from tidelog.jobs.pipeline.running import PipelineFailed, Run

    running = Run(spark, pipeline, folder, report)
    _stop_on_signals(running.stop)
    try:
        with report, served(pipeline.metrics_port, lambda: asdict(running.state)) as port:
            report.started(running.state, port)
            return running.run(once=once)
    except PipelineFailed as error:
        raise CommandFailed(str(error)) from error


def _stop_on_signals(stop: Any) -> None:
    """Spark has set handlers of its own by now, which would end a batch in its middle."""
    import signal
    import threading

    if threading.current_thread() is threading.main_thread():
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, lambda *_: stop())
