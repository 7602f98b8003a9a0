"""What a command shows: once, or with `--watch` again and again until ctrl-C."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeVar

import typer

from tidelog.cli.output import CommandFailed, print_json
from tidelog.cli.session import with_client

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from rich.console import Console, RenderableType

    from tidelog.client.client import Client

T = TypeVar("T")

DEFAULT_INTERVAL_S: Final = 0.5

Watch = Annotated[
    bool, typer.Option("--watch", help="Repeat until ctrl-C: redraw on a terminal, else print each change.")
]
Interval = Annotated[float, typer.Option("--interval", min=0.05, help="Seconds between two updates of --watch.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class View(Generic[T]):
    """How a result is printed: for programs, for people, and under --watch."""

    to_json: Callable[[T], Any]
    to_text: Callable[[T], str]
    # With colours, for a terminal; without it the text is used.
    to_screen: "Callable[[T], RenderableType] | None" = None
    # Its parts; a log gets only those that changed. Without it the whole text is one part.
    to_news: Callable[[T], Sequence[str]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Showing(Generic[T]):
    """Draws a result, reports why there is none, and ends the output."""

    draw: Callable[[T], None]
    miss: Callable[[str], None]
    close: Callable[[], None]


def show(
    bootstrap: str,
    look: "Callable[[Client], Awaitable[T]]",
    view: View[T],
    command_config: Path | None = None,
    *,
    as_json: bool,
    watch: bool,
    interval_s: float,
) -> None:
    """Asks brokers and shows the result."""

    async def work(client: "Client") -> None:
        await show_looks(lambda: look(client), view, as_json=as_json, watch=watch, interval_s=interval_s)

    with_client(bootstrap, work, command_config, reports_retries=not watch)


async def show_looks(
    look: "Callable[[], Awaitable[T]]", view: View[T], *, as_json: bool, watch: bool, interval_s: float
) -> None:
    """Prints one result, or with --watch one after the other."""
    import asyncio

    if not watch:
        found = await look()
        if as_json:
            print_json(view.to_json(found))
        elif text := view.to_text(found):
            print(text)
        return
    showing = _documents(view) if as_json else screen(view) if sys.stdout.isatty() else _news(view)
    trouble = _troubles()
    began = False
    try:
        while True:
            try:
                found = await look()
            except trouble as error:
                # Brokers come and go while a cluster is watched: only an error at the start ends it.
                if not began:
                    raise
                showing.miss(_words(error))
            else:
                began = True
                showing.draw(found)
            await asyncio.sleep(interval_s)
    finally:
        showing.close()


def _troubles() -> tuple[type[Exception], ...]:
    from tidelog.client.errors import ClientError
    from tidelog.cluster.errors import ClusterError
    from tidelog.wire.errors import ApiError

    return ApiError, ClientError, ClusterError, CommandFailed


def _words(error: Exception) -> str:
    from tidelog.client.client import one_line
    from tidelog.client.errors import ClientError
    from tidelog.wire.errors import ApiError

    return one_line(error) if isinstance(error, ApiError | ClientError) else str(error)


def _documents(view: View[T]) -> _Showing[T]:
    """One document a line, for programs that read along."""
    return _lines(lambda found: print(json.dumps(view.to_json(found)), flush=True))


def screen(view: View[T], console: "Console | None" = None) -> _Showing[T]:
    """In place: what stays the same is not drawn again, so nothing flickers. What does not fit ends in an ellipsis: an
    ISR of three that is cut after the second would be taken for one of two.
    """
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    render = view.to_screen or (lambda found: Text(view.to_text(found), no_wrap=True, overflow="ellipsis"))
    live = Live(console=console, auto_refresh=False, vertical_overflow="ellipsis")
    live.start()
    last: list[RenderableType] = []

    def draw(found: T) -> None:
        last[:] = [render(found)]
        live.update(last[0], refresh=True)

    def miss(words: str) -> None:
        live.update(Group(*last, Text(f"{words}; retrying", style="yellow")), refresh=True)

    return _Showing(draw=draw, miss=miss, close=live.stop)


def _news(view: View[T]) -> _Showing[T]:
    """Parts that changed; whole texts with an empty line between them."""
    parts = view.to_news or (lambda found: (view.to_text(found) + "\n",))
    told: set[str] = set()

    def draw(found: T) -> None:
        now = parts(found)
        for part in now:
            if part not in told:
                print(part, flush=True)
        told.clear()
        told.update(now)

    return _lines(draw)


def _lines(draw: Callable[[T], None]) -> _Showing[T]:
    """With troubles on stderr, each when it begins."""
    wrong = ""

    def draw_again(found: T) -> None:
        nonlocal wrong
        wrong = ""
        draw(found)

    def miss(words: str) -> None:
        nonlocal wrong
        if words != wrong:
            print(f"tidelog: {words}; retrying", file=sys.stderr, flush=True)
        wrong = words

    return _Showing(draw=draw_again, miss=miss, close=lambda: None)
