"""Options that several commands share, so that they are spelled and explained alike."""

from pathlib import Path
from typing import Annotated, Final

import typer

DEFAULT_BOOTSTRAP: Final = "localhost:9092"

Bootstrap = Annotated[
    str,
    typer.Option("--bootstrap", metavar="HOST:PORT[,…]", envvar="TIDELOG_BOOTSTRAP", help="Brokers to ask first."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="The cluster's directory, as given to `tidelog up`.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A Kafka config key; may be repeated."),
]


def example(*lines: str) -> str:
    """The end of a help page: commands to try, kept as they are."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def key_values(settings: list[str] | None, option: str) -> dict[str, str]:
    """`k=v` options as a dict; bad usage for one without `=`."""
    from tidelog.cli.output import bad_usage

    parsed: dict[str, str] = {}
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise bad_usage(f"{option} wants key=value, not {setting!r}")
        parsed[key.strip()] = value.strip()
    return parsed
