"""What a command shows, once or, with `--watch`, again and again until ctrl-C."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeVar

import typer

from tidelog.cli.output import print_json
from tidelog.cli.session import with_client

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from rich.console import RenderableType

    from tidelog.client.client import Client

T = TypeVar("T")
# What takes a look, and what ends the showing.
_Drawing = tuple[Callable[[T], None], Callable[[], None]]

DEFAULT_INTERVAL_S: Final = 0.5

Watch = Annotated[
    bool, typer.Option("--watch", help="Go on until ctrl-C: redrawn on a terminal, else printed when it changes.")
]
Interval = Annotated[float, typer.Option("--interval", min=0.05, help="Seconds between two looks of --watch.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class View(Generic[T]):
    """How a look is shown: to programs, to people, and while it is watched."""

    to_json: Callable[[T], Any]
    to_text: Callable[[T], str]
    # In colours, for a terminal; the text where there is none.
    to_screen: "Callable[[T], RenderableType] | None" = None
    # Its parts, of which a log is told those that are new; the whole text where there are none.
    to_news: Callable[[T], Sequence[str]] | None = None


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
    """Shows what brokers say."""

    async def work(client: "Client") -> None:
        await show_looks(lambda: look(client), view, as_json=as_json, watch=watch, interval_s=interval_s)

    with_client(bootstrap, work, command_config)


async def show_looks(
    look: "Callable[[], Awaitable[T]]", view: View[T], *, as_json: bool, watch: bool, interval_s: float
) -> None:
    """Looks once and prints, or goes on looking."""
    import asyncio

    if not watch:
        found = await look()
        if as_json:
            print_json(view.to_json(found))
        elif text := view.to_text(found):
            print(text)
        return
    draw, close = _documents(view) if as_json else _screen(view) if sys.stdout.isatty() else _news(view)
    try:
        while True:
            draw(await look())
            await asyncio.sleep(interval_s)
    finally:
        close()


def _documents(view: View[T]) -> _Drawing[T]:
    """One document a line, for programs that read along."""
    return lambda found: print(json.dumps(view.to_json(found)), flush=True), _nothing


def _screen(view: View[T]) -> _Drawing[T]:
    """In place: what stays the same is not drawn again, so nothing flickers."""
    from rich.live import Live
    from rich.text import Text

    render = view.to_screen or (lambda found: Text(view.to_text(found), no_wrap=True))
    live = Live(auto_refresh=False, vertical_overflow="crop")
    live.start()
    return lambda found: live.update(render(found), refresh=True), live.stop


def _news(view: View[T]) -> _Drawing[T]:
    """What is not as it was; whole texts with an empty line between them."""
    parts = view.to_news or (lambda found: (view.to_text(found) + "\n",))
    told: set[str] = set()

    def draw(found: T) -> None:
        now = parts(found)
        for part in now:
            if part not in told:
                print(part, flush=True)
        told.clear()
        told.update(now)

    return draw, _nothing


def _nothing() -> None:
    """Nothing is open."""
