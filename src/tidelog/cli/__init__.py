"""The `tidelog` command.

Modules here import the rest of the house inside the commands that need it, so that `tidelog --help` and shell scripts
made of many small commands stay quick. Above every other package: nothing imports this one.
"""


def main() -> None:
    """Entry point of the installed command."""
    import io
    import sys

    from tidelog.cli.app import run

    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that does not know an ellipsis is shown its number, and no traceback; stderr is so by itself.
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))
