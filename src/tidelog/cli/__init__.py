"""The `tidelog` command.

Modules here import the rest of the house inside the commands that need it, so that `tidelog --help` and shell scripts
made of many small commands stay quick. Above every other package: nothing imports this one.
"""


def main() -> None:
    """Entry point of the installed command."""
    import sys

    try:
        status = _run(sys.argv[1:])
    except KeyboardInterrupt:
        # During an import, or while an error is printed; a command itself handles ctrl-C.
        status = 130
    sys.exit(status)


def _run(arguments: list[str]) -> int:
    from tidelog.cli.streams import prepare_streams

    prepare_streams()
    from tidelog.cli.app import run

    status = run(arguments)
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Python may still wait for threads: then ctrl-C ends it without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return status
