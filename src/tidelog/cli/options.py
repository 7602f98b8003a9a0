"""What several commands share: options, examples, lists of commands."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

DEFAULT_BOOTSTRAP: Final = "localhost:9092"
# Longer than the first sentence of any help text.
_SENTENCE_CHARACTERS: Final = 200
# The largest values of the protocol: replication factors; partitions and broker ids; offsets and times.
MOST_INT16: Final = 2**15 - 1
MOST_INT32: Final = 2**31 - 1
MOST_INT64: Final = 2**63 - 1


def legal_topics(value: Any) -> Any:
    """Callback of options and arguments that take names of topics: no cluster accepts an illegal name."""
    from tidelog.metadata.names import why_illegal

    for name in [value] if isinstance(value, str) else value or ():
        if why := why_illegal(name):
            raise typer.BadParameter(why)
    return value


def legal_group(value: str | None) -> str | None:
    """The same for the id of a group."""
    if value == "":
        raise typer.BadParameter("the empty string is not allowed")
    return value


Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", callback=legal_topics)]
Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap", metavar="HOST:PORT[,…]", envvar="TIDELOG_BOOTSTRAP", help="Brokers to connect to first."
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        envvar="TIDELOG_COMMAND_CONFIG",
        help="Properties file of a Kafka client, for TLS and SASL: security.protocol, ssl.*, sasl.*.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Do not print what changed.")]
Internal = Annotated[
    bool, typer.Option("--internal", help="Show internal topics too, such as __consumer_offsets, in full.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Data = Annotated[
    Path, typer.Option("--data", metavar="DIR", help="Directory of the cluster, as given to `tidelog up`.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a Kafka config key; may be repeated."),
]


class CommandList(TyperGroup):
    """Lists its commands with their whole first sentence; click would cut it at the end of the line."""

    # Headings with the commands below them. Commands without a section come last.
    sections: Mapping[str, Sequence[str]] = {}

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        placed = {name for names in self.sections.values() for name in names}
        others = [name for name in self.commands if name not in placed]
        for heading, names in {**self.sections, "Commands": others}.items():
            rows = [(name, self.commands[name].get_short_help_str(_SENTENCE_CHARACTERS)) for name in names]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


def commands(words: str, *examples: str) -> typer.Typer:
    """A group of commands, such as `tidelog topics`."""
    return typer.Typer(cls=CommandList, help=words, epilog=example(*examples), no_args_is_help=True)


def example(*lines: str) -> str:
    """The end of a help page: commands to try, never wrapped."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def whole_number(text: str) -> int | None:
    """An offset or a time; None if `text` is neither."""
    # Python refuses to read thousands of digits, with an error of its own.
    if not text.isascii() or not text.isdigit() or len(text) > len(str(MOST_INT64)):
        return None
    number = int(text)
    return number if number <= MOST_INT64 else None


def broker_ids(text: str, separator: str) -> list[int]:
    """`1,2,3` as numbers; ValueError for anything else."""
    ids = [int(part) for part in text.split(separator)]
    if not all(0 <= each <= MOST_INT32 for each in ids):
        raise ValueError(f"an id is a number from 0 to {MOST_INT32}")
    return ids


def key_values(settings: list[str] | None, option: str) -> dict[str, str]:
    """`k=v` options as a dict; bad usage for one without `=`."""
    from tidelog.cli.output import bad_usage

    parsed: dict[str, str] = {}
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise bad_usage(f"{option} needs KEY=VALUE, not {setting!r}")
        parsed[key.strip()] = value.strip()
    return parsed
