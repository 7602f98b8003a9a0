"""The tree of commands, and how every one of them ends: a status, and one line on stderr when something is wrong."""

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
from tidelog.cli.options import CommandList
from tidelog.cli.output import FAILED, INTERRUPTED, USAGE, CommandFailed

app = typer.Typer(
    name="tidelog",
    cls=CommandList,
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
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """A replicated log that speaks Kafka: a cluster on this machine, and the tools to use and break it."""


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
            # Kafka's names and our files are UTF-8: better one line now than half of something made.
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
        # Commands tell of files and sockets themselves: what is left is our own output, on a full disk for one.
        return _drop_output(_fail(f"cannot go on: {error.strerror or error}", FAILED))
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
    """Nobody takes our output any more: `head` has seen enough, or the disk is full. Python would complain once more
    while it ends.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
    return status
