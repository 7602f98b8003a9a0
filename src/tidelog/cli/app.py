"""The tree of commands, and how each ends: with a status, and one line on stderr if it failed."""

import os
import sys
from typing import Annotated, Any, Final

import typer

from tidelog import __version__
from tidelog.cli import (
    audit,
    bench,
    campaign,
    chaos,
    configs,
    consume,
    demo,
    dump,
    elect,
    export,
    groups,
    health,
    local,
    offsets,
    page,
    pipeline,
    produce,
    quorum,
    reassign,
    replicas,
    scenario,
    server,
    sim,
    topics,
    verify,
)
from tidelog.cli.options import CommandList, example
from tidelog.cli.output import FAILED, INTERRUPTED, USAGE, CommandFailed

# The sections of `tidelog --help`, as the contract names them.
SECTIONS: Final = {
    "Clusters and nodes": ("up", "down", "status", "node", "format", "random-uuid", "chaos", "demo"),
    "Topics, records and groups": ("topics", "configs", "produce", "consume", "offsets", "groups"),
    "Replication": ("elect", "reassign", "quorum", "replicas", "dump"),
    "Simulation, verification and measurement": ("scenario", "sim", "page", "verify", "bench"),
    "Jobs on Spark": ("pipeline", "audit", "campaign", "health", "export"),
}


class _Sections(CommandList):
    sections = SECTIONS


app = typer.Typer(
    name="tidelog",
    cls=_Sections,
    epilog=example(
        "tidelog up --detach",
        "seq 1000 | tidelog produce orders",
        "tidelog replicas orders --watch",
        "tidelog chaos kill 1",
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"tidelog {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Run a replicated log that speaks Kafka's protocol: start clusters, use them, break them, and check the result."""


for module in (
    local,
    server,
    produce,
    consume,
    offsets,
    replicas,
    elect,
    reassign,
    dump,
    verify,
    bench,
    sim,
    page,
    audit,
    campaign,
    export,
    health,
    demo,
):
    module.register(app)
app.add_typer(topics.app, name="topics")
app.add_typer(configs.app, name="configs")
app.add_typer(groups.app, name="groups")
app.add_typer(quorum.app, name="quorum")
app.add_typer(chaos.app, name="chaos")
app.add_typer(scenario.app, name="scenario")
app.add_typer(pipeline.app, name="pipeline")

# Typer brings its own copy of click in newer versions and uses the package in older ones: their errors
# have no common name to import, but a common ancestor.
_ClickError: Final[Any] = typer.BadParameter.__mro__[2]
# Set by what `--install-completion` has put into the shell, when TAB is pressed.
_COMPLETE: Final = "_TIDELOG_COMPLETE"


def run(arguments: list[str]) -> int:
    """Runs one command line and returns its exit status."""
    command: Any = typer.main.get_command(app)
    if _COMPLETE in os.environ:
        command.main(arguments, prog_name="tidelog")
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            # Kafka's names and our files are UTF-8: refuse now, before something is half created.
            return _fail(f"argument {argument!a} is not UTF-8", USAGE)
    try:
        with command.make_context("tidelog", arguments) as context:
            command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as end:
        return int(end.exit_code)
    except _ClickError as error:
        return _usage(error)
    except CommandFailed as error:
        return _fail(error.message, error.status)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        return _drop_output(0)
    except OSError as error:
        # Commands report errors of files and sockets themselves. The rest are of our own output, such as a full disk.
        return _drop_output(_fail(f"cannot write the output: {error.strerror or error}", FAILED))
    return 0


def _usage(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return USAGE
    context = getattr(error, "ctx", None)
    hint = f" (see `{context.command_path} --help`)" if context is not None else ""
    return _fail(" ".join(error.format_message().split()).rstrip(".") + hint, USAGE)


def _fail(message: str, status: int) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output(status)
    print("tidelog: " + " ".join(message.split()), file=sys.stderr)
    return status or FAILED


def _drop_output(status: int) -> int:
    """The reader of our output has closed it (`head`), or the disk is full. Python would report it again at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
    return status
