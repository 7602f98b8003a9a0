"""`--watch`: what a command shows, again and again until ctrl-C."""

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from tidelog.cli.output import print_json
from tidelog.cli.session import with_client

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from tidelog.client.client import Client

T = TypeVar("T")
# How a text is shown, and what ends the showing.
_Screen = tuple[Callable[[str], None], Callable[[], None]]

DEFAULT_INTERVAL_S: Final = 0.5

Watch = Annotated[
    bool, typer.Option("--watch", help="Go on until ctrl-C: redrawn on a terminal, else printed when it changes.")
]
Interval = Annotated[float, typer.Option("--interval", min=0.05, help="Seconds between two looks of --watch.")]


def show(
    bootstrap: str,
    look: "Callable[[Client], Awaitable[T]]",
    *,
    as_json: bool,
    to_json: Callable[[T], Any],
    to_text: Callable[[T], str],
    watch: bool,
    interval_s: float,
) -> None:
    """Looks once and prints, or goes on looking."""

    async def work(client: "Client") -> None:
        import asyncio

        if not watch:
            found = await look(client)
            if as_json:
                print_json(to_json(found))
            elif text := to_text(found):
                print(text)
            return
        draw, close = (_print_now, _nothing) if as_json else _screen() if sys.stdout.isatty() else _changes()
        try:
            while True:
                found = await look(client)
                draw(json.dumps(to_json(found)) if as_json else to_text(found))
                await asyncio.sleep(interval_s)
        finally:
            close()

    with_client(bootstrap, work)


def _print_now(text: str) -> None:
    """One document a line, for programs that read along."""
    print(text, flush=True)


def _nothing() -> None:
    """Nothing is open."""


def _screen() -> "_Screen":
    """In place: what stays the same is not drawn again, so nothing flickers."""
    from rich.live import Live
    from rich.text import Text

    live = Live(auto_refresh=False, vertical_overflow="crop")
    live.start()
    return lambda text: live.update(Text(text, no_wrap=True), refresh=True), live.stop


def _changes() -> _Screen:
    """What is not as it was, with an empty line before it."""
    told: list[str] = []

    def draw(text: str) -> None:
        if told != [text]:
            print(f"\n{text}" if told else text, flush=True)
            told[:] = [text]

    return draw, _nothing
