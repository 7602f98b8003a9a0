"""The `tidelog` command.

Modules here import the rest of the house inside the commands that need it, so that `tidelog --help` and shell scripts
made of many small commands stay quick. Above every other package: nothing imports this one.
"""


def main() -> None:
    """Entry point of the installed command."""
    import sys

    from tidelog.cli.app import run

    sys.exit(run(sys.argv[1:]))
